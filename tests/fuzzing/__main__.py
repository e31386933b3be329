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

from tests.fuzzing.guided import OUTCOME
from tests.fuzzing.report import Outcome, write_report
from tests.fuzzing.targets import DOORS

MILLION, ROUND = 1_000_000, 50_000
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
                write_report(options.results / "fuzzing.md", outcomes[-1:], DOORS)
    return int(any(outcome.findings for outcome in outcomes))


def run(name: str, inputs: int, seconds: int) -> Outcome:
    """One target in processes of its own, so that a crash of a library is a finding too.

    The guide keeps memory for every input, at some doors too much for a million: it works in rounds.
    """
    whole = Outcome(name)
    with tempfile.TemporaryDirectory() as folder:
        while whole.inputs < inputs and (seconds == 0 or whole.seconds < seconds):
            few = str(min(ROUND, inputs - whole.inputs))
            left = str(max(1, int(seconds - whole.seconds)) if seconds else 0)
            command = [
                sys.executable,
                "-m",
                "tests.fuzzing.guided",
                name,
                few,
                left,
                folder,
                str(whole.rounds),
            ]
            ended = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace")
            path = Path(folder) / OUTCOME
            if not path.exists():
                wrong = f"the process ended with {ended.returncode}: {ended.stderr[-500:]}"
                whole.findings[wrong] = ""
                break
            whole.add(Outcome(**json.loads(path.read_bytes())))
            path.unlink()
            if reached := REACHED.findall(ended.stderr):
                whole.coverage, whole.corpus = map(int, reached[-1])
    return whole


if __name__ == "__main__":
    raise SystemExit(main())
