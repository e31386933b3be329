"""The table of metrics in ``docs/reference/metrics.md``, from the metrics themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from models.releases import Sensor
from stream_app.kafka.worker_metrics import AccountCounters, RegionCounters
from stream_app.setup.settings import Settings
from stream_app.watching.metrics import EngineMetrics

_SAMPLE_SUFFIX = {"counter": "_total"}
_BOUND = {  # where the values of a label come from, and so how many there can be
    "outcome": "what became of a reading",
    "reason": "why a message was rejected",
    "mechanism": "release mechanisms",
    "because": "reason of a decision: free, budget, spent, habits, contradiction, no_answer",
    "by": "releases, habits",
    "found_by": "check (setting `priors_check`), panel (setting `panel`)",
    "of": "risk, added",
    "direction": "ahead, behind",
    "threshold": "setting `thresholds`",
    "quantile": "0.5, 0.9, 0.99 and 1",
    "sensor": "the deployment's sensors",
    "group": "the sensors' groups and `all`",
}
_INTRODUCTION = """# Metrics

Served at `/metrics`. Every series exists at 0 from the start, and no label ever names a person: the number of
series depends on the settings and the sensors, not on the people. Risks come from priors and the released
schedule, never from a count, so showing them releases nothing. On Kafka the release worker has those of
readings, releases and privacy spent, each account worker those of its people's risks. `process_*` metrics
(memory, CPU) come beside these on Linux.

The risk budget is `[release.budget]`. Its limit can be set under every mechanism; under `budget` it decides
what is released, under any other it is only watched. `tallyguard_people_over_limit` is who is over it now:
after each step people's certified risks are compared with it (`hindsight` and `reserve` do not count then).
`tallyguard_people_ever_over_limit` is who was over it after any step so far, and
`tallyguard_people_over_limit_forecast` what the last decision foresaw. On Kafka the account workers have the
first two, of their people, and the release worker the forecast. Where no limit is set,
`tallyguard_budget_limit` is +Inf, nobody is over it, and no alert about the budget can fire. A mean over
several workers is weighted by their people:
`sum(tallyguard_risk_mean * tallyguard_people) / sum(tallyguard_people)`; so is that of the mean attack, and
the ends of its interval then promise more than they must.

<!-- made by `python -m stream_app.dashboards`, checked by a test -->

| metric | kind | labels | meaning |
|---|---|---|---|
"""
_LABELS = """
Values of the labels, all known when the engine starts:

| label | values |
|---|---|
"""


class MetricRow(NamedTuple):
    """One metric as it is queried."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


def metric_rows() -> Iterator[MetricRow]:
    """Every metric of an engine, in the order of its name."""
    registry = CollectorRegistry()
    settings = Settings.model_construct()
    sensors = [Sensor("sensor", (0,))]
    engine = EngineMetrics(registry, sensors, settings.thresholds, settings.delta, settings=settings)
    AccountCounters(registry, engine)
    RegionCounters(registry, 0, owns=True)
    for family in sorted(registry.collect(), key=lambda family: family.name):
        yield MetricRow(
            family.name + _SAMPLE_SUFFIX.get(family.type, ""),
            family.type,
            _label_names(family),
            family.documentation,
        )


def metrics_page() -> str:
    """The text of ``docs/reference/metrics.md``."""
    rows = [
        f"| `{row.name}` | {row.kind} | {', '.join(f'`{label}`' for label in row.labels)} | {row.meaning} |\n"
        for row in metric_rows()
    ]
    bounds = [f"| `{label}` | {values} |\n" for label, values in _BOUND.items()]
    return _INTRODUCTION + "".join(rows) + _LABELS + "".join(bounds)


def _label_names(family: Metric) -> tuple[str, ...]:
    """Labels of a family's children; those the exposition format adds to histograms are left out."""
    names = dict.fromkeys(name for sample in family.samples for name in sample.labels)
    return tuple(name for name in names if name != "le")
