"""Grafana's JSON from a few named parts: queries, panels, rows, dashboards.

What every panel shares is decided here once: the data source and the ``job`` and ``instance`` variables that
``$SELECT`` in a query stands for, a title, a description and a unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SELECTOR = 'job=~"$job", instance=~"$instance"'
COLUMNS = 24
_DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_SCHEMA = 39
_HUE = {"mode": "palette-classic-by-name"}  # a series keeps its colour when others come and go


@dataclass(frozen=True)
class Query:
    """One PromQL expression, with ``$SELECT`` where the variables choose, and the legend of its series."""

    expression: str
    legend: str

    @property
    def promql(self) -> str:
        """The expression as Grafana gets it."""
        return self.expression.replace("$SELECT", SELECTOR)

    def upwards(self) -> Query:
        """Of a ceiling: to the next hundredth of a percent, which is what a panel shows of it."""
        return Query(f"ceil(1e4 * ({self.expression}) - 1e-6) / 1e4", self.legend)

    def downwards(self) -> Query:
        """Of the lower end of an attack."""
        return Query(f"floor(1e4 * ({self.expression}) + 1e-6) / 1e4", self.legend)


PEOPLE_OVER_LIMIT = (
    Query("sum by (by) (tallyguard_people_over_limit{$SELECT})", "over now by {{by}}"),
    Query("sum(tallyguard_people_allowed_over_limit{$SELECT})", "allowed"),
)


def mean_over_people(metric: str, legend: str) -> Query:
    """The mean over everybody of what each worker reports as the mean over its own people."""
    total = f"sum({metric}{{$SELECT}} * tallyguard_people{{$SELECT}})"
    return Query(f"{total} / (sum(tallyguard_people{{$SELECT}}) > 0)", legend)


def _measured(metric: str, legend: str) -> Query:
    """The same where it was measured for everybody: it is infinite where it was not."""
    return Query(f"{mean_over_people(metric, legend).expression} < Inf", legend)


GUESS_ATTACK_CEILING = (
    mean_over_people("tallyguard_risk_mean", "ceiling").upwards(),
    _measured("tallyguard_crowd_risk_mean", "ceiling in the crowd").upwards(),
    _measured("tallyguard_attack_mean_high", "attack, at most").upwards(),
    _measured("tallyguard_attack_mean", "attack"),
    _measured("tallyguard_attack_mean_low", "attack, at least").downwards(),
    mean_over_people("tallyguard_baseline_mean", "guess"),
)


@dataclass(frozen=True)
class Panel:
    """One picture. ``limits`` are (value, colour) steps; ``kind`` is Grafana's name of the panel type.

    ``nothing`` is shown where no series answers; ``decimals`` are shown of each value, or as many as fit.
    """

    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    width: int = 12
    height: int = 8
    limits: tuple[tuple[float | None, str], ...] = ((None, "blue"),)
    maximum: float | None = None
    nothing: str = ""
    decimals: int | None = None


NOT_REACHED = Panel(
    "People who keep the fast bound",
    "The work of the step (sharpen_operations) went to those to whom more was added. The fast bound is "
    "valid, and larger than need be; raise sharpen_operations to reach everybody.",
    "short",
    (Query("sum(tallyguard_people_not_reached{$SELECT})", "people"),),
)


PRIORS_REFUTED = Panel(
    "Priors refuted",
    "1 where real traces refuted the priors as too low. By a check: ceilings are raised to the radius that "
    "it left, and every output says so. By the panel of volunteers alone: ceilings are too low.",
    "short",
    (Query("max by (found_by) (tallyguard_priors_refuted{$SELECT})", "by {{found_by}}"),),
    kind="stat",
    width=12,
    height=5,
    limits=((None, "blue"), (1.0, "orange")),
)


@dataclass(frozen=True)
class Row:
    """Panels under a heading, laid out from left to right."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Dashboard:
    """A page of rows, from the general to the specific."""

    uid: str
    title: str
    description: str
    rows: tuple[Row, ...]
    tags: tuple[str, ...] = field(default=("tallyguard",))

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All panels in order."""
        return tuple(panel for row in self.rows for panel in row.panels)

    def document(self) -> dict[str, Any]:
        """The dashboard as Grafana's provisioning reads it."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": list(self.tags),
            "schemaVersion": _SCHEMA,
            "version": 1,
            "editable": False,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-24h", "to": "now"},
            "timezone": "browser",
            "links": [_link_to_the_others()],
            "templating": {"list": list(_variables())},
            "panels": list(_layout(self.rows)),
        }


def _variables() -> Iterable[Mapping[str, Any]]:
    yield {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {"text": "default", "value": "default"},
    }
    yield _label_variable("job", "Job", "label_values(tallyguard_last_step, job)")
    yield _label_variable("instance", "Instance", 'label_values(tallyguard_last_step{job=~"$job"}, instance)')


def _label_variable(name: str, text: str, query: str) -> Mapping[str, Any]:
    return {
        "name": name,
        "label": text,
        "type": "query",
        "datasource": _DATA_SOURCE,
        "query": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _link_to_the_others() -> Mapping[str, Any]:
    return {
        "type": "dashboards",
        "title": "tallyguard",
        "tags": ["tallyguard"],
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
    }


def _layout(rows: Sequence[Row]) -> Iterable[Mapping[str, Any]]:
    """Headings and panels with positions; a panel that does not fit starts a new line."""
    number = top = 0
    for row in rows:
        number += 1
        yield _heading(number, row.title, top)
        top += 1
        left = line_height = 0
        for panel in row.panels:
            if left + panel.width > COLUMNS:
                top, left, line_height = top + line_height, 0, 0
            number += 1
            yield _panel(number, panel, left, top)
            left, line_height = left + panel.width, max(line_height, panel.height)
        top += line_height


def _heading(number: int, title: str, top: int) -> Mapping[str, Any]:
    position = {"h": 1, "w": COLUMNS, "x": 0, "y": top}
    return {
        "id": number,
        "type": "row",
        "title": title,
        "collapsed": False,
        "gridPos": position,
        "panels": [],
    }


def _panel(number: int, panel: Panel, left: int, top: int) -> Mapping[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATA_SOURCE,
        "gridPos": {"h": panel.height, "w": panel.width, "x": left, "y": top},
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel),
        "targets": [
            _target(letter, query, panel) for letter, query in zip("ABCDEFGH", panel.queries, strict=False)
        ],
    }


def _defaults(panel: Panel) -> Mapping[str, Any]:
    steps = [{"value": value, "color": colour} for value, colour in panel.limits]
    shown: dict[str, Any] = {
        "unit": panel.unit,
        "min": 0,
        "color": _HUE if panel.kind == "timeseries" else {"mode": "thresholds"},
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    if panel.nothing:
        shown["noValue"] = panel.nothing
    if panel.decimals is not None:
        shown["decimals"] = panel.decimals
    if panel.maximum is not None:
        shown["max"] = panel.maximum
    if panel.kind == "timeseries":
        shown["custom"] = {"lineWidth": 2, "fillOpacity": 5, "showPoints": "never", "spanNulls": False}
    return shown


def _options(panel: Panel) -> Mapping[str, Any]:
    if panel.kind == "timeseries":
        return {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    shown: dict[str, Any] = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}
    if panel.kind == "bargauge":
        return {**shown, "orientation": "horizontal", "displayMode": "basic", "showUnfilled": True}
    return {**shown, "colorMode": "value", "graphMode": "area", "textMode": "auto"}


def _target(letter: str, query: Query, panel: Panel) -> Mapping[str, Any]:
    is_instant = panel.kind == "bargauge"
    return {
        "refId": letter,
        "datasource": _DATA_SOURCE,
        "expr": query.promql,
        "legendFormat": query.legend,
        "instant": is_instant,
        "range": not is_instant,
    }
