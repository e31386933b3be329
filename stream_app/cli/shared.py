"""What commands share: options, output, settings.

Modules are imported singly: this is what every `--help` waits for.
"""

from __future__ import annotations

import errno
import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from accounting.settings import HORIZON, MISTAKES
from models.exceptions import TallyguardError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from models.mechanisms import Designs
    from stream_app.kafka.broker.connection import Connection
    from stream_app.kafka.broker.topics import Topics
    from stream_app.setup.settings import Settings


# Arguments and options that several commands share.

PriorsArgument = Annotated[Path, typer.Argument(help="Movement priors, .json or .parquet.")]
PriorsOption = Annotated[
    Path | None,
    typer.Option(
        "--priors",
        help="Movement priors, .json or .parquet; without them nobody's risk is computed.",
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file (TOML); environment and flags override it."),
]
CovarianceOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="<path>",
        help="Covariance (.npy) of the correlated noise that was used; may be repeated.",
    ),
]
ListenOption = Annotated[
    str | None,
    typer.Option(
        help='Address of metrics and page, host:port; "" for none. '
        "127.0.0.1:9464 unless the settings say otherwise.",
    ),
]
VaryOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="<name=nats|file>",
        help="Also the answer if habits are otherwise: a radius in nats, or other priors; may be repeated.",
    ),
]
ByOption = Annotated[
    str | None,
    typer.Option(help="Who decides this, for the record; your account's name if left out."),
]
ReasonOption = Annotated[
    str | None,
    typer.Option(
        help="Why, for the record; needed for a change that may weaken what was promised.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
HorizonOption = Annotated[
    int | None,
    typer.Option(
        help=f"Steps the adversary tries to reconstruct (T); {HORIZON} unless the settings say otherwise.",
    ),
]
MistakesOption = Annotated[
    int | None,
    typer.Option(
        help=f"How many of them it may get wrong (s); {MISTAKES} unless the settings say otherwise.",
    ),
]


def given_designs(paths: list[Path] | None) -> Designs:
    """The designs of ``--covariance``, which a schedule or log names by number."""
    from models.mechanisms import Designs

    return Designs.load(paths or [])


# What commands print: results on stdout, everything else on stderr, errors as one sentence.

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


# A command's settings, and what follows from them before it does anything.


def settings_of(config: Path | None, flags: Mapping[str, object] | None = None) -> Settings:
    """The settings of file, environment and flags; from here on the command logs as they say."""
    from stream_app.setup.settings_sources import load_settings
    from stream_app.setup.this_process import start_logging

    settings = load_settings(config, flags)
    start_logging(settings.log)
    return settings


def topics_and_connection(config: Path | None) -> tuple[Topics, Connection]:
    """The topics of the settings, and the way to the broker."""
    from stream_app.kafka.broker.connection import Connection
    from stream_app.kafka.broker.topics import Topics

    settings = settings_of(config)
    return Topics.of(settings), Connection.of(settings.kafka)
