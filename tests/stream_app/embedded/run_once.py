"""One embedded run of the small deployment as a process of its own, for tests that kill it.

``python -m tests.stream_app.embedded.run_once OUTPUT [INPUT] [KIND]``; standard input without INPUT. The kind
``ticks:ORIGIN`` closes steps by the clock.
"""

from __future__ import annotations

import sys
from pathlib import Path

from stream_app.embedded import RunOptions, run
from stream_app.setup.settings import Settings
from tests.stream_app.engine_support import LITTLE_WORK, population, settings

STEP_SECONDS, GRACE_SECONDS = 2, 1.5

KINDS: dict[str, dict[str, object]] = {
    "plain": LITTLE_WORK,
    "tiers": {**LITTLE_WORK, "release": {"mechanism": "tiered", "tiers": {"public": 0.2, "partner": 1.0}}},
    "budget": {
        **LITTLE_WORK,
        "release": {"mechanism": "budget", "budget": {"share": 0.5, "added": 0.6, "hindsight": True}},
    },
    "crowd": {
        **LITTLE_WORK,
        "sharpen_operations": 600_000,
        "adversary": "crowd",
        "release": {"mechanism": "budget", "budget": {"share": 0.5, "added": 0.4, "hindsight": True}},
    },
}


def settings_of(kind: str) -> Settings:
    """The settings of a kind of run."""
    name, _, origin = kind.partition(":")
    if name == "ticks":
        return settings(
            step_seconds=STEP_SECONDS,
            grace_seconds=GRACE_SECONDS,
            origin=int(origin),
            max_ahead_seconds=3600.0,  # all that is sent is there from the start
        )
    return settings(**KINDS[name])


def main(output: str, source: str = "-", kind: str = "plain") -> None:
    report = run(settings_of(kind), RunOptions(Path(output), Path(source)), population())
    print(report.reason)


if __name__ == "__main__":
    main(*sys.argv[1:])
