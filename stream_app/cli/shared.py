"""What commands share: options, output, settings.

Every ``--help`` loads this module, so what is slow to import is imported where it is used.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NoReturn, TypeVar

import typer

from models.exceptions import TallyguardError
from models.private_files import FULL
from stream_app.setup.option_settings import OPTION_SETTINGS, NewPriors, Period

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.text import Text

    from accounting.exposure.crowd import CrowdAdversary
    from models.mechanisms import Designs
    from stream_app.analysis.preflight import Finding
    from stream_app.kafka.broker.connection import Connection
    from stream_app.kafka.broker.topics import Topics
    from stream_app.setup.settings import Settings
    from stream_app.starting.counts import CountTable

_MOST_SENSORS, _DAY = 12, 86_400
Person = TypeVar("Person")


# Arguments and options that several commands share.


def setting_option(name: str, *declarations: str) -> Any:
    """The option that overrides a setting, described by the setting's own words and default.

    The value goes to :func:`settings_of` under the same name, and is checked there as any setting is.
    """
    default, description, _ = OPTION_SETTINGS[name]
    words = f"{description[:1].upper()}{description[1:]}."
    if default is not None:
        shown = f"{default:g}" if isinstance(default, float) else default
        words += f" {shown} unless the settings say otherwise."
    return typer.Option(*declarations, help=words)


PriorsArgument = Annotated[Path, typer.Argument(help="Movement priors, .json or .parquet.")]
PriorsOption = Annotated[
    Path | None,
    typer.Option(
        "--priors", help="Movement priors, .json or .parquet; without them nobody's risk is computed."
    ),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="Settings file (TOML); environment and flags override it.")
]
TimezoneOption = Annotated[
    str | None, typer.Option(help="Slots are hours of this zone's clock, such as Europe/Vienna.")
]
HolidaysOption = Annotated[
    Path | None, typer.Option(help="Holidays, a date a line: Sundays of a weekly cycle. Needs a timezone.")
]
ClockOfOption = Annotated[
    Path | None,
    typer.Option("--config", help="Settings (TOML) of a deployment, whose timezone and holidays count."),
]


def clock_of(timezone: str | None, holidays: Path | None, config: Path | None) -> tuple[str | None, Any]:
    """Time zone and dates of holidays: those of the settings, else as given.

    :class:`SettingsError` for both, and for holidays without a time zone.
    """
    from models.calendar import dates_of
    from stream_app.exceptions import SettingsError
    from stream_app.setup.settings import lines_of

    if config is not None:
        if timezone is not None or holidays is not None:
            raise SettingsError(
                "time zone and holidays must be given once",
                "--config beside --timezone or --holidays",
                "leave them out, or the settings file",
            )
        settings = settings_of(config, {})
        return settings.timezone, settings.holidays
    if holidays is None:
        return timezone, ()
    try:
        return timezone, dates_of(lines_of(holidays))
    except ValueError as error:
        raise SettingsError("holidays must be dates in a file", error, "write a date a line") from None


CovarianceOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="<path>", help="Covariance (.npy) of the correlated noise that was used; may be repeated."
    ),
]
ListenOption = Annotated[str | None, setting_option("listen")]
VaryOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="<name=nats|file>",
        help="Also the answer if habits are otherwise: a radius in nats, or other priors; may be repeated.",
    ),
]
ByOption = Annotated[
    str | None, typer.Option(help="Who decides this, for the record; your account's name if left out.")
]
ReasonOption = Annotated[
    str | None,
    typer.Option(help="Why, for the record; needed for a change that may weaken what was promised."),
]


COUNT_FILES = "Counts: CSV (also .gz), Excel, JSON, JSON lines, GeoJSON or Parquet."


Channels = Literal["sum", "apart"]
NewPriorsOption = Annotated[
    NewPriors | None,
    typer.Option(
        help="What new priors of people who are there say about earlier steps. redone: they are true of "
        "the whole log, which is accounted again under them. told: habits changed at this step, and an "
        "adversary is taken to know where these people were then.",
        show_default=False,
    ),
]
InOption = Annotated[float, typer.Option("--in", help="How often in 100 it is to be within that.")]
PeriodOption = Annotated[
    Period, typer.Option("--for", help="What --within is about: a sensor's total of so long.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
HorizonOption = Annotated[int | None, setting_option("horizon")]
MistakesOption = Annotated[int | None, setting_option("mistakes")]


def command_group(name: str, help_text: str) -> typer.Typer:
    """Commands behind one word; the empty callback keeps the word also where there is one command only."""
    group = typer.Typer(name=name, help=help_text, no_args_is_help=True)
    group.callback()(lambda: None)
    return group


def given_designs(paths: list[Path] | None) -> Designs:
    """The designs of ``--covariance``, which a schedule or log names by number."""
    from models.mechanisms import Designs

    return Designs.load(paths or [])


# Whom ceilings hold against: the adversary who knows where everybody else is, or the one in the crowd.

INFORMED, CROWD = "informed", "crowd"


def _crowd_option(name: str) -> Any:
    """The option of what the crowd adversary knows, with the words and bounds of the setting."""
    usual, description, bounds = OPTION_SETTINGS[f"crowd.{name}"]
    help_text = f"With --adversary crowd: {description} (default: as the settings say, or {usual})."
    return typer.Option(help=help_text, min=bounds.get("ge"), max=bounds.get("le"))


AdversaryOption = Annotated[
    str | None,
    typer.Option(
        metavar="<informed|crowd>",
        help="Whether the adversary knows where everybody else is, as by default, or only how they live.",
    ),
]
KnownOption = Annotated[int | None, _crowd_option("known")]
CompanionsOption = Annotated[int | None, _crowd_option("companions")]
AloneOption = Annotated[float | None, _crowd_option("alone")]
LeastOption = Annotated[float | None, _crowd_option("least")]
CountedOnceOption = Annotated[float | None, _crowd_option("counted_once")]


class CrowdOptions(NamedTuple):
    """What options say of the crowd adversary; None where they do not, so that the settings do."""

    adversary: str | None
    known: int | None
    companions: int | None
    alone: float | None
    least: float | None
    counted_once: float | None

    @property
    def asks(self) -> bool:
        """Whether the crowd is asked about; a sentence for another name, or for options that say nothing."""
        if self.adversary not in (None, INFORMED, CROWD):
            raise typer.BadParameter(f"--adversary must be {INFORMED} or {CROWD}, got {self.adversary!r}")
        if self.adversary != CROWD and self.given:
            raise typer.BadParameter(
                "--known, --companions, --alone, --least and --counted-once need --adversary crowd"
            )
        return self.adversary == CROWD

    @property
    def given(self) -> dict[str, float]:
        """The options that were given, by the name of the setting in the table ``crowd``."""
        return {name: value for name, value in self._asdict().items() if isinstance(value, int | float)}

    def of(self, settings: Settings | None) -> CrowdAdversary | None:
        """The adversary, as settings and options say; None for the informed one."""
        if not self.asks:
            return None
        from stream_app.setup.release_settings import CrowdSettings

        crowd = CrowdSettings() if settings is None else settings.crowd
        step_seconds = 3600 if settings is None else settings.step_seconds  # of strangers: settings have them
        return crowd.model_copy(update=self.given).adversary(step_seconds)


# What commands print: results on stdout, everything else on stderr, errors as one sentence.

NAME = "tallyguard"


def stdout() -> Console:
    """Where results go, as they are: a name of a sensor or table may have brackets or colons."""
    from rich.console import Console

    class Results(Console):
        """Leaves a pipe that nobody reads on to the program, where rich ends it with 1."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Results(highlight=False, markup=False, emoji=False)


def say(*sentences: str | Text, style: str | None = None) -> None:
    """Print sentences on stdout, a line each, however long: the terminal breaks them where it must."""
    for sentence in sentences:
        stdout().print(sentence, soft_wrap=True, style=style)


def remark(sentence: str) -> None:
    """The same on stderr: what is no result."""
    stderr().print(sentence, soft_wrap=True)


def print_table(
    rows: Iterable[Sequence[str | Text]],
    words: Sequence[str],
    numbers: Sequence[str] = (),
    last: Sequence[str] = (),
    broken: Sequence[str] = (),
    console: Console | None = None,
    **style: Any,
) -> None:
    """A table by its headings, narrow enough for a terminal of 80 columns.

    ``words`` may be broken; ``numbers`` stand at the right and are never broken, nor is what comes ``last``;
    after them numbers whose long headings may be ``broken``. On a narrower terminal lines are longer than it:
    a number of which an end is cut off is another number.
    """
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, title_justify="left", **style)
    for heading in words:
        table.add_column(heading, overflow="fold", min_width=len(heading))
    cells = list(rows)
    headings = (*words, *numbers, *last, *broken)
    widest = [max(map(cell_len, map(str, column))) for column in zip(headings, *cells, strict=True)]
    for place, heading in enumerate((*numbers, *last), start=len(words)):
        side: Literal["right", "left"] = "right" if heading in numbers else "left"
        table.add_column(heading, justify=side, no_wrap=True, min_width=widest[place])
    for heading in broken:
        table.add_column(heading, justify="right", min_width=len("100 in 100"))
    for row in cells:
        table.add_row(*row)
    shown = console or stdout()
    # rich breaks columns until they are equally wide, and then cuts all of them
    even = max((each.min_width or 0 for each in table.columns if not each.no_wrap), default=0)
    least = sum(
        full if each.no_wrap else min(full, even) for each, full in zip(table.columns, widest, strict=True)
    )
    between = len(table.columns) - 1
    shown.width = max(shown.width, least + 2 + between * (1 + table.padding[1] + table.padding[3]))
    shown.print(table)


def print_sensors(counts: CountTable, console: Console | None = None) -> None:
    """What was read of each sensor, the busiest of many: to be compared with what its owner knows."""
    rows = sorted(counts.by_sensor(), key=lambda each: -each.people)
    form = "%Y-%m-%d" if counts.step_seconds % _DAY == 0 else "%Y-%m-%d %H:%M"
    shown = (
        (
            row.sensor,
            *(f"{time:{form}}" for time in (row.first, row.last)),
            f"{row.missing / (row.counted + row.missing):.1%}",
            *(f"{number:,}" for number in (row.people, row.largest)),
        )
        for row in rows[:_MOST_SENSORS]
    )
    print_table(shown, ("Sensor",), ("First", "Last", "Missing", "People", "Largest"), console=console)
    if len(rows) > _MOST_SENSORS:
        (console or stdout()).print(f"and {len(rows) - _MOST_SENSORS:,} less busy sensors")


def stderr() -> Console:
    """Where progress, logs and errors go."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def own_command() -> str:
    """How to call this program again: by name where the shell finds it, else as it was called just now."""
    is_found = shutil.which(NAME) is not None
    return sys.argv[0] if Path(sys.argv[0]).name == NAME and not is_found else NAME


def typed(path: Path) -> str:
    """A path as it is typed into a shell, for commands that we propose."""
    return shlex.quote(str(path))


def print_json(document: object) -> None:
    """One JSON document on stdout; numbers in full, never NaN or Infinity."""
    json.dump(document, sys.stdout, ensure_ascii=False, allow_nan=False, indent=2)
    sys.stdout.write("\n")


def tell(json: bool, document: object, *sentences: str) -> None:
    """What a command found: as one JSON document where ``--json`` asks for it, else in sentences."""
    if json:
        print_json(document)
    else:
        say(*sentences)


def say_findings(findings: Iterable[Finding]) -> None:
    """What was checked, a line each, and what to do where something is wrong."""
    from rich.text import Text

    colours = {"ok": "green", "warning": "yellow", "problem": "red"}
    for finding in findings:
        mark = f"{finding.level:7}", colours[finding.level]
        say(Text.assemble(mark, " ", (finding.subject, "bold"), f": {finding.sentence}"))
        if finding.remedy:
            say(f"        {finding.remedy}")


def progress() -> Progress:
    """A progress bar on stderr that leaves nothing behind; silent where stderr is no terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = stderr()
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def tracked(people: Sequence[Person], what: str) -> Iterator[Person]:
    """Each of them, while a bar says how many are done."""
    with progress() as bar:
        yield from bar.track(people, description=what)


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
    except MemoryError:
        fail(
            "memory must have room for what was asked, got none; shorten the horizon, take fewer people, or "
            "give the machine more"
        )
    except OSError as error:
        if error.errno in FULL:
            where = "" if error.filename is None else f" for {error.filename}"
            fail(f"the disk must have room{where}, got {error.strerror}; free some space and try again")
        if error.filename is None:
            raise
        fail(f"{error.filename} must be usable, got {error.strerror}; check path and permissions")


# A command's settings, and what follows from them before it does anything.


def settings_of(config: Path | None, options: Mapping[str, object] | None = None) -> Settings:
    """The settings of file, environment and options; from here on the command logs as they say.

    ``options`` are by the name of the setting that each overrides; one that is None was not given.
    """
    from stream_app.setup.settings_sources import load_settings
    from stream_app.setup.this_process import start_logging

    settings = load_settings(config, options)
    start_logging(settings.log)
    return settings


def topics_and_connection(config: Path | None) -> tuple[Topics, Connection]:
    """The topics of the settings, and the way to the broker."""
    from stream_app.kafka.broker.connection import Connection
    from stream_app.kafka.broker.topics import Topics

    settings = settings_of(config)
    return Topics.of(settings), Connection.of(settings.kafka)
