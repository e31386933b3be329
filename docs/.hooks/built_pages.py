"""What the site takes from the code: a line ``<!-- built: NAME -->`` of a page becomes what is made here.

So the help of the commands, settings, metrics and the glossary stand in the code alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, NamedTuple

_MARK = re.compile(r"^<!-- built: (\w+) -->$", re.MULTILINE)
_WIDTH = 100


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with its marks replaced; ``KeyError`` for a mark that nothing is made for."""
    return _MARK.sub(lambda mark: BUILT[mark[1]](), markdown)


def commands_help() -> str:
    """A heading and a block for each command, in the order of the help."""
    from typer.main import get_command

    from stream_app.cli.app import app

    return "\n".join(_sections(get_command(app), None, "tallyguard"))


def _sections(command: Any, parent: Any, name: str) -> Iterator[str]:
    """The help of a command, then of each below it; of a group that is not the program, only those below."""
    context = command.make_context(
        name, [], parent=parent, resilient_parsing=True, terminal_width=_WIDTH, max_content_width=_WIDTH
    )
    below = getattr(command, "commands", {})
    if parent is None or not below:
        yield f"## {context.command_path}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"
    for word, each in below.items():
        yield from _sections(each, context, word)


def settings_table() -> str:
    """Every setting with its environment variable, default and meaning."""
    from stream_app.setup.settings_sources import describe

    rows = [
        f"| `{row.name}` | `{row.variable}` | `{row.default}` | {row.description} |" for row in describe()
    ]
    return "\n".join(["| setting | variable | default | meaning |", "|---|---|---|---|", *rows, ""])


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
    """Every metric that engines and workers register, in the order of its name."""
    from prometheus_client import CollectorRegistry

    from models.releases import Sensor
    from stream_app.kafka.worker_metrics import AccountCounters, InputCounters
    from stream_app.setup.settings import Settings
    from stream_app.watching.metrics import EngineMetrics

    registry = CollectorRegistry()
    settings = Settings.model_construct()
    sensors = [Sensor("sensor", (0,))]
    engine = EngineMetrics(registry, sensors, settings.thresholds, settings.delta, settings=settings)
    AccountCounters(registry, engine)
    InputCounters(registry, 0, owns=True)
    for family in sorted(registry.collect(), key=lambda family: family.name):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        yield MetricRow(name, family.type, _label_names(family), family.documentation)


def metrics_tables() -> str:
    """All metrics, and the values of their labels, as two tables in Markdown."""
    rows = [
        f"| `{row.name}` | {row.kind} | {', '.join(f'`{label}`' for label in row.labels)} | {row.meaning} |\n"
        for row in metric_rows()
    ]
    labels = [f"| `{label}` | {values} |\n" for label, values in _VALUES.items()]
    return _METRICS + "".join(rows) + _LABELS + "".join(labels)


def _label_names(family: Any) -> tuple[str, ...]:
    """Labels of a family's children; those the exposition format adds to histograms are left out."""
    names = dict.fromkeys(name for sample in family.samples for name in sample.labels)
    return tuple(name for name in names if name != "le")


def glossary_table() -> str:
    """Every word of the glossary with its meaning and a page that says more."""
    from stream_app.watching.glossary import GLOSSARY

    rows = [
        f"| **{entry.word}**{''.join(f', {name}' for name in entry.also)} | {entry.meaning} | "
        f"[{PurePosixPath(entry.page).stem.replace('-', ' ')}](../{entry.page}) |"
        for entry in GLOSSARY
    ]
    return "\n".join(["| word | meaning | more |", "|---|---|---|", *rows, ""])


_NO_MATTER = {  # a plan takes no counts in, and one prior a person; other habits are asked of a plan
    "tallyguard plan": ("PANEL", "LATE", "CLOCK", "NO_PEOPLE", "TOTALS", "TOLD"),
    **dict.fromkeys(("tallyguard run", "one region", "several regions"), ("ALTERNATIVES",)),
}


def features_table() -> str:
    """Which runner takes which feature, by the list of what does not go together."""
    from stream_app.setup.combinations import REFUSALS, REGION_WORKERS, Feature, Runner

    people = {Runner.ACCOUNT, Runner.PERSONS}
    columns = {
        "tallyguard run": ({Runner.RUN}, None),
        "one region": ({Runner.RELEASE, *people}, None),
        "several regions": ({*REGION_WORKERS, *people}, Feature.REGIONS),
        "tallyguard plan": ({Runner.PLAN}, None),
    }
    lines = [
        "| feature | `run`, `backfill` | workers on Kafka | workers of several regions | `plan` |",
        "|---|---|---|---|---|",
    ]
    for feature in Feature:
        cells = []
        for name, (runners, besides) in columns.items():
            is_refused = any(
                each.feature is feature and each.beside in (None, besides) and each.runners & runners
                for each in REFUSALS
            )
            is_any = feature.name not in _NO_MATTER[name]
            cells.append("no" if is_refused else "yes" if is_any else "")
        lines.append(f"| {feature} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def combinations_table() -> str:
    """What is refused by whom, and why."""
    from stream_app.setup.combinations import EVERYWHERE, REFUSALS, WORKERS

    lines = ["| this | together with | refused by | because |", "|---|---|---|---|"]
    for each in REFUSALS:
        commands = each.runners - WORKERS if each.runners >= WORKERS else each.runners
        said = ", ".join(f"`{name}`" for name in sorted(commands))
        if each.runners >= WORKERS:
            said = f"all workers, {said}" if said else "all workers"
        if each.runners == EVERYWHERE:
            said = "every runner"
        lines.append(f"| {each.feature} | {each.beside or ''} | {said} | {each.because} |")
    return "\n".join([*lines, ""])


BUILT = {
    "combinations": combinations_table,
    "commands": commands_help,
    "features": features_table,
    "glossary": glossary_table,
    "metrics": metrics_tables,
    "settings": settings_table,
}
