"""One embedded run of the small deployment as a process of its own, for tests that kill it.

``python -m tests.stream_app.run_once OUTPUT [INPUT] [KIND]``; standard input without INPUT.
"""

from __future__ import annotations

import sys
from pathlib import Path

from stream_app.embedded import RunOptions, run
from tests.stream_app.engine_support import population, settings

KINDS: dict[str, dict[str, object]] = {
    "plain": {},
    "tiers": {"release": {"mechanism": "tiered", "tiers": {"public": 0.2, "partner": 1.0}}},
    "budget": {"release": {"mechanism": "budget", "budget": {"share": 0.5, "added": 0.6, "hindsight": True}}},
}


def main(output: str, source: str = "-", kind: str = "plain") -> None:
    report = run(settings(**KINDS[kind]), RunOptions(Path(output), Path(source)), population())
    print(report.reason)


if __name__ == "__main__":
    main(*sys.argv[1:])
