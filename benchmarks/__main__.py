"""Every benchmark, each in a process of its own: ``python -m benchmarks [name ...]``."""

from __future__ import annotations

import subprocess
import sys

NAMES = ("forward_viterbi", "attacks", "bounds", "sampled_bound", "continuous", "decisions", "noise", "tiers")
LONG = (
    "archive",
    "beside_peers",
    "goals",
    "growth",
    "crowd",
    "noise_design",
    "engine_run",
    "kafka_load",
    "personas",
    "soak",
)
"""Run by name only: a figure, and minutes of work."""


def main(chosen: list[str]) -> int:
    """Run the benchmarks named, all but the long ones if none is; 2 for an unknown name, 1 if one failed."""
    from importlib.util import find_spec

    unknown = [name for name in chosen if name not in NAMES + LONG]
    if unknown:
        print(f"benchmarks must be of {', '.join(NAMES + LONG)}, got {', '.join(unknown)}", file=sys.stderr)
        return 2
    present = [name for name in chosen or NAMES if find_spec(f"benchmarks.{name}")]
    codes = [
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode
        for name in present
    ]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
