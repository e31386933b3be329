"""What commands print: results on stdout, everything else on stderr, errors as one sentence."""

from __future__ import annotations

import errno
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from models.exceptions import TallyguardError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


NAME = "tallyguard"


def stdout() -> Console:
    """Where results go."""
    from rich.console import Console

    return Console(highlight=False)


def stderr() -> Console:
    """Where progress, logs and errors go."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def own_command() -> str:
    """How to call this program again: by name where the shell finds it, else as it was called just now."""
    is_found = shutil.which(NAME) is not None
    return sys.argv[0] if Path(sys.argv[0]).name == NAME and not is_found else NAME


def print_json(document: object) -> None:
    """One JSON document on stdout; numbers in full, never NaN or Infinity."""
    json.dump(document, sys.stdout, ensure_ascii=False, allow_nan=False, indent=2)
    sys.stdout.write("\n")


def progress() -> Progress:
    """A progress bar on stderr that leaves nothing behind; silent where stderr is no terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = stderr()
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def fail(message: str) -> NoReturn:
    """Say what is wrong and exit with 1."""
    print(f"tallyguard: {message}", file=sys.stderr)
    raise SystemExit(1)


@contextmanager
def exit_on_known_errors() -> Iterator[None]:
    """Errors that a person can mend become one sentence and exit code 1; others keep their traceback."""
    try:
        yield
    except TallyguardError as error:
        fail(str(error))
    except BrokenPipeError:  # whoever read our output has seen enough
        sys.stderr.close()
        raise SystemExit(0) from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            fail(f"the disk must have room, got {error.strerror}; free some space and try again")
        if error.filename is None:
            raise
        fail(f"{error.filename} must be usable, got {error.strerror}; check path and permissions")
