"""One embedded run of the small deployment as a process of its own, for tests that kill it.

``python -m tests.stream_app.run_once OUTPUT [INPUT]``; standard input without INPUT.
"""

from __future__ import annotations

import sys
from pathlib import Path

from stream_app.embedded import RunOptions, run
from tests.stream_app.engine_support import population, settings


def main(output: str, source: str = "-") -> None:
    report = run(settings(), RunOptions(Path(output), Path(source)), population())
    print(report.reason)


if __name__ == "__main__":
    main(*sys.argv[1:])
