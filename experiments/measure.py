"""What every figure and table is made of: one audit a person and schedule, averaged."""

from __future__ import annotations

import csv
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from accounting.audit import Audit

BOUNDS = ("loose", "tight", "moment", "certified")
ATTACKS = ("map", "marginal", "prior", "constant")


@dataclass(frozen=True)
class Point:
    """One value of one curve: the mean over schedules and people, and the range over the schedules."""

    panel: str
    x: float
    series: str
    mean: float
    lowest: float
    highest: float


def series_of(audit: Audit) -> dict[str, float]:
    """The curves' values of one audit; a moment bound too dear to compute is 1."""
    bounds = audit.bounds
    moment = (bounds.model_extra or {})["moment"]
    values = {"loose": bounds.loose, "tight": bounds.tight, "moment": 1.0 if moment is None else moment}
    return {**values, "certified": audit.certified, **attack_successes(audit)}


def attack_successes(audit: Audit) -> dict[str, float]:
    """What each attack that was tried achieves."""
    tried = audit.attacks or {}
    return {name: report.success for name in ATTACKS if (report := tried.get(name)) is not None}


def mean_series(audits: Iterable[Audit]) -> dict[str, float]:
    """The same, averaged over people."""
    values = [series_of(audit) for audit in audits]
    return {name: float(np.mean([value[name] for value in values])) for name in values[0]}


def points(panel: str, x: float, by_schedule: Sequence[Mapping[str, float]]) -> list[Point]:
    """One point a curve from its values, one mapping a schedule."""
    found = []
    for series in by_schedule[0]:
        values = [value[series] for value in by_schedule]
        found.append(Point(panel, x, series, float(np.mean(values)), min(values), max(values)))
    return found


def write_csv(rows: Sequence[Any], output: Path) -> None:
    """Dataclass rows as CSV, numbers with six digits."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(rows[0])], lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: _shown(value) for name, value in asdict(row).items()})


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], words: int | None = None) -> str:
    """A table in Markdown: its first ``words`` columns are texts, the others numbers; None for texts only."""
    rule = ["---" if words is None or column < words else "---:" for column in range(len(head))]
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return "\n".join([f"| {' | '.join(head)} |", f"|{'|'.join(rule)}|", *lines])


def options(description: str | None, written: str, of_check_ins: bool = True) -> ArgumentParser:
    """The options that most experiments have: where check-ins are, and where to what is ``written``."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    if of_check_ins:
        parser.add_argument("--data", type=Path, help="folder with the Parquet files")
    parser.add_argument("--results", type=Path, help=f"folder to write {written} to")
    return parser


def _shown(value: object) -> object:
    """Floats with six digits: enough to draw from, and the same on every machine."""
    return f"{value:.6g}" if isinstance(value, float) else value
