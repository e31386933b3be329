"""The command line: one module a command, each importing what it needs when it runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from models.numerics.memory import keep_memory


def main() -> None:
    """Run ``tallyguard``: 0 is well, 1 a problem that was found and named, 2 wrong usage."""
    # Closed (`>&-`): the next file that is opened would take the number, and what is printed would go there.
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 - as long as the program runs
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    keep_memory()
    try:
        from stream_app.cli.app import program
        from stream_app.cli.shared import exit_on_known_errors
    except ModuleNotFoundError as missing:
        wanted = "the command needs the packages of the engine"
        sys.exit(f"tallyguard: {wanted}, and {missing.name} is missing: pip install 'tallyguard[engine]'")
    except KeyboardInterrupt:  # imports take seconds on a small machine
        sys.exit(130)

    with exit_on_known_errors():
        program()
