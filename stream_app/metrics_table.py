"""The tables of ``docs/reference/metrics.md``, made of the metrics that engines and workers register.

``python -m stream_app.metrics_table`` prints them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from models.releases import Sensor
from stream_app.kafka.worker_metrics import AccountCounters, RegionCounters
from stream_app.setup.settings import Settings
from stream_app.watching.metrics import EngineMetrics

_METRICS = """| metric | kind | labels | meaning |
|---|---|---|---|
"""
_VALUES = {  # where the values of a label come from, and so how many there can be
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
        name = f"{family.name}_total" if family.type == "counter" else family.name
        yield MetricRow(name, family.type, _label_names(family), family.documentation)


def metrics_table() -> str:
    """All metrics, and the values of their labels, as two tables in Markdown."""
    rows = [
        f"| `{row.name}` | {row.kind} | {', '.join(f'`{label}`' for label in row.labels)} | {row.meaning} |\n"
        for row in metric_rows()
    ]
    labels = [f"| `{label}` | {values} |\n" for label, values in _VALUES.items()]
    return _METRICS + "".join(rows) + _LABELS + "".join(labels)


def _label_names(family: Metric) -> tuple[str, ...]:
    """Labels of a family's children; those the exposition format adds to histograms are left out."""
    names = dict.fromkeys(name for sample in family.samples for name in sample.labels)
    return tuple(name for name in names if name != "le")


if __name__ == "__main__":
    print(metrics_table(), end="")
