"""What a run of all targets found, as a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Outcome:
    """One target's inputs and findings; ``findings`` maps what is wrong to the first input that showed it."""

    name: str
    inputs: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    coverage: int = 0
    corpus: int = 0
    is_guided: bool = False
    findings: dict[str, str] = field(default_factory=dict)
    rounds: int = 0

    def add(self, later: Outcome) -> None:
        """Count what a further round of the same target found."""
        self.inputs += later.inputs
        self.seconds += later.seconds
        self.cpu_seconds += later.cpu_seconds
        self.is_guided = later.is_guided
        self.findings = later.findings | self.findings
        self.rounds += 1

    def line(self) -> str:
        """A row of the table."""
        guide = f"{self.coverage:,}" if self.is_guided else "not measured"
        return f"| {self.name} | {self.inputs:,} | {self.cpu_seconds:,.0f} | {guide} | {len(self.findings)} |"


HEAD = "| door | inputs | seconds of the processor | edges reached | findings |\n|---|---:|---:|---:|---:|"


def write_report(path: Path, outcomes: Sequence[Outcome], doors: Iterable[str]) -> None:
    """Write the table and the findings between the marks of a page, or a new page.

    A door without an outcome keeps what the page says of it; one the page does not know was not run.
    """
    page = path.read_text() if path.exists() else f"# Fuzzing\n\n{START}\n{END}\n"
    before, rest = page.split(START)
    table, after = rest.split(END)
    rows, notes = _written(table)
    for outcome in outcomes:
        rows[outcome.name] = outcome.line()
        notes.extend(f"- {outcome.name}: {each}" for each in outcome.findings)
    lines = [rows.get(name, f"| {name} | not run | | | |") for name in doors]
    written = "\n".join([HEAD, *lines, "", *(notes or [NONE])])
    path.write_text(f"{before}{START}\n{written}\n{END}{after}")


def _written(table: str) -> tuple[dict[str, str], list[str]]:
    """Rows by door and the notes on findings of a table that was written before."""
    lines = table.strip().splitlines()
    rows = {line.split("|")[1].strip(): line for line in lines if line.startswith("|")}
    return rows, [line for line in lines if line and line != NONE and not line.startswith("|")]


NONE = "No findings."
START, END = "<!-- table: written by make fuzz -->", "<!-- end of table -->"
