"""Many inputs at every door, guided by coverage where atheris is installed.

``python -m tests.fuzzing [--inputs 1000000] [--only NAME] [--results docs/results]`` runs one process a
target, one after the other, and writes ``fuzzing.md``. It ends with 1 if there was a finding.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.fuzzing.report import Outcome, write_report
from tests.fuzzing.targets import DOORS

MILLION = 1_000_000
REACHED = re.compile(r"cov: (\d+) ft: \d+ corp: (\d+)")  # what libFuzzer says of itself


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all targets; the number of findings as exit status, 0 or 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=MILLION)
    parser.add_argument("--seconds", type=int, default=0, help="at most so long a target; 0: no limit")
    parser.add_argument("--only", action="append", help="targets whose name contains this")
    parser.add_argument("--results", type=Path)
    options = parser.parse_args(arguments)
    outcomes = []
    for name in DOORS:
        if options.only is None or any(part in name for part in options.only):
            outcomes.append(run(name, options.inputs, options.seconds))
            print(outcomes[-1].line(), flush=True)
    if options.results is not None:
        write_report(options.results / "fuzzing.md", outcomes, DOORS)
    return int(any(outcome.findings for outcome in outcomes))


def run(name: str, inputs: int, seconds: int) -> Outcome:
    """One target in a process of its own, so that a crash of a library is a finding too."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "outcome.json"
        command = [sys.executable, "-m", "tests.fuzzing.guided", name, str(inputs), str(seconds), str(path)]
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
        if not path.exists():
            return Outcome(
                name, findings={f"the process ended with {ended.returncode}: {ended.stderr[-500:]}": ""}
            )
        outcome = Outcome(**json.loads(path.read_bytes()))
        if reached := REACHED.findall(ended.stderr):
            outcome.coverage, outcome.corpus = map(int, reached[-1])
        return outcome


if __name__ == "__main__":
    raise SystemExit(main())
