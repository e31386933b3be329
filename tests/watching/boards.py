"""The committed Grafana dashboards as tests read them: panels with their queries, from Grafana's own JSON."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from tests import ROOT

FOLDER = ROOT / "deploy" / "grafana" / "dashboards"
COLUMNS = 24  # of Grafana's grid


@dataclass(frozen=True)
class Query:
    """One PromQL expression and the legend of its series."""

    promql: str
    legend: str


@dataclass(frozen=True)
class Panel:
    """One picture; ``kind`` is Grafana's panel type, ``defaults`` and ``overrides`` its fields."""

    title: str
    description: str
    unit: str
    kind: str
    queries: tuple[Query, ...]
    defaults: dict[str, Any] = field(default_factory=dict, hash=False)
    overrides: list[dict[str, Any]] = field(default_factory=list, hash=False)

    def colour(self, legend: str) -> str | None:
        """The colour that a series has by its name; None where Grafana chooses one."""
        for override in self.overrides:
            wanted = override["matcher"]["options"]
            is_named = override["matcher"]["id"] == "byName"
            if legend == wanted if is_named else re.search(wanted.strip("/"), legend):
                return str(override["properties"][0]["value"]["fixedColor"])
        return None

    def threshold(self, value: float) -> str:
        """The colour of a value."""
        steps = self.defaults["thresholds"]["steps"]
        return str([each for each in steps if each["value"] is None or value >= each["value"]][-1]["color"])

    @property
    def most(self) -> float | None:
        """Where a bar is full; None where the largest one is."""
        return self.defaults.get("max")

    @property
    def said(self) -> list[tuple[float, str]]:
        """Words for values up to a number."""
        ranges = [each["options"] for each in self.defaults.get("mappings", ()) if each["type"] == "range"]
        return [(each["to"], each["result"]["text"]) for each in ranges]


@dataclass(frozen=True)
class Dashboard:
    """A page of panels, and the document that Grafana's provisioning reads."""

    name: str  # of the file, without its ending
    title: str
    document: dict[str, Any]

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All panels in order, without the headings."""
        return tuple(
            Panel(
                panel["title"],
                panel["description"],
                panel["fieldConfig"]["defaults"]["unit"],
                panel["type"],
                tuple(Query(target["expr"], target["legendFormat"]) for target in panel["targets"]),
                panel["fieldConfig"]["defaults"],
                panel["fieldConfig"]["overrides"],
            )
            for panel in self.document["panels"]
            if panel["type"] != "row"
        )


def _read(name: str) -> Dashboard:
    document = json.loads((FOLDER / f"{name}.json").read_text())
    return Dashboard(name, document["title"], document)


DASHBOARDS = (_read("privacy"), _read("operations"))
