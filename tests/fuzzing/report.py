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

    def line(self) -> str:
        """A row of the table."""
        guide = f"{self.coverage:,}" if self.is_guided else "not measured"
        return f"| {self.name} | {self.inputs:,} | {self.cpu_seconds:,.0f} | {guide} | {len(self.findings)} |"


HEAD = "| door | inputs | seconds of the processor | edges reached | findings |\n|---|---:|---:|---:|---:|"


def write_report(path: Path, outcomes: Sequence[Outcome], doors: Iterable[str]) -> None:
    """Write the table and the findings between the marks of a page, or a new page.

    A door without an outcome is in the table, too, as one that was not run.
    """
    known = {outcome.name for outcome in outcomes}
    left = [f"| {name} | not run | | | |" for name in doors if name not in known]
    found = [f"- {outcome.name}: {each}" for outcome in outcomes for each in outcome.findings]
    table = "\n".join(
        [HEAD, *(outcome.line() for outcome in outcomes), *left, "", *(found or ["No findings."])]
    )
    page = path.read_text() if path.exists() else f"# Fuzzing\n\n{START}\n{END}\n"
    before, after = page.split(START)[0], page.split(END)[1]
    path.write_text(f"{before}{START}\n{table}\n{END}{after}")


START, END = "<!-- table: written by make fuzz -->", "<!-- end of table -->"
