"""Claim: from a city's file to a checked deployment it takes at most three commands and one edit.

Each walk is what a newcomer types who reads what the command before said. The files are excerpts of published
ones, and not part of the repository: give their folder. ``python -m benchmarks.newcomer FOLDER``
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import show

_RUN = "import sys; from stream_app.cli import main; sys.exit(main())"
BERLIN = ("--timezone", "Europe/Berlin")
DUBLIN = """
week = 2007-01-01
timezone = "Europe/Dublin"
where = {Channel = "In"}
"""
MILESIGHT = """
step_seconds = 3600
origin = 2025-06-01T00:00:00Z
locations = "locations.txt"
[release]
mechanism = "gaussian"
sigma = 3.0
[connect.mqtt]
broker = "mqtts://broker.city.example"
topics = ["application/+/device/+/event/up"]
[connect.mqtt.map]
preset = "milesight-lines"
interval_seconds = 3600
"""


class Walk(NamedTuple):
    """The options of each `init`, one after the other, then one with a file for `--preset`, if any.

    ``edit`` is written into it, in place of a line that `connect guess` printed where it ``is_guessed``.
    """

    tries: tuple[tuple[str, ...], ...] = ((),)
    edit: str = ""
    is_guessed: bool = False
    asked: str = ""
    """What the first command asks."""


WALKS = {
    "01-muenster-15min-wide-spring.csv": Walk(),
    "01b-muenster-15min-wide-autumn.csv": Walk(),
    "01c-muenster-only-total-and-parts.csv": Walk(
        (BERLIN, (*BERLIN, "--ignore", "300037926 (Bohlweg)")), asked="the sum of"
    ),
    "01d-muenster-no-empty-columns.csv": Walk(),
    "03-koeln-daily.csv": Walk(((), BERLIN), asked="--timezone"),
    "04-leeds-date-and-hour.csv": Walk(),
    "05-edinburgh-date-hour-channels.csv": Walk(),
    "08-telraam-hourly.json": Walk(),
    "08b-telraam-hourly-flat.csv": Walk(),
    "10-mta-turnstile-accumulated.txt": Walk(),
    "11-ngsi-crowdflow.json": Walk(),
    "13-prague-golemio-detections.json": Walk(),
    "14-moers-hystreet-hourly.csv": Walk(),
    "07-dublin-2007-week1.xlsx": Walk(edit=DUBLIN, asked="days of the week across"),
    "07b-dublin-2007-week1-saved-as.csv": Walk(edit=DUBLIN, asked="days of the week across"),
    "18-tours-ecocounter-export.csv": Walk(
        (), 'ignore = ["*TOTAL*", "*Total*", "Pont Wilson Cyclist *"]\n', is_guessed=True, asked="the sum of"
    ),
    "17-milesight-vs135-payload.json": Walk((), MILESIGHT),
}


class Walked(NamedTuple):
    """What a walk took: commands, edits, seconds on the wall and of processor; what its commands ``said``."""

    commands: int
    edits: int
    seconds: float
    processor: float
    said: list[str]
    codes: list[int]


Command = Callable[..., tuple[int, str, str]]
"""The words of a command to its exit code and what it printed, for users and for errors."""


def process(*words: object) -> tuple[int, str, str]:
    """A command as a newcomer types it."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *map(str, words)], check=False, capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr


class _Walker:
    def __init__(self, command: Command) -> None:
        self._command = command
        self.said: list[str] = []
        self.codes: list[int] = []
        self._began, self._before = time.monotonic(), _processor()

    def run(self, *words: object) -> str:
        """One command: what it printed."""
        code, printed, errors = self._command(*words)
        self.codes.append(code)
        self.said.append(printed + errors)
        return printed

    def walked(self, edits: int) -> Walked:
        seconds, processor = time.monotonic() - self._began, _processor() - self._before
        return Walked(len(self.codes), edits, seconds, processor, self.said, self.codes)


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def walk(path: Path, folder: Path, command: Command = process) -> Walked:
    """Walk from a file to a deployment in ``folder``, as :data:`WALKS` says; for messages write settings."""
    walker, way, city = _Walker(command), WALKS[path.name], folder / "city"
    if way.edit == MILESIGHT:
        (folder / "locations.txt").write_text("mill street door\n")
        (folder / "tallyguard.toml").write_text(MILESIGHT)
        walker.run("check", "--config", folder / "tallyguard.toml")
        return walker.walked(1)
    for options in way.tries:
        walker.run("init", path, *options, "--output", city)
    if way.edit:
        proposed = walker.run("connect", "guess", path, *BERLIN) if way.is_guessed else ""
        key = way.edit.partition(" ")[0]
        kept = [line for line in proposed.splitlines(keepends=True) if line.partition(" ")[0] != key]
        (folder / "mine.toml").write_text("".join(kept) + way.edit)
        walker.run("init", path, "--preset", folder / "mine.toml", "--output", city)
    walker.run("check", "--config", city / "tallyguard.toml", "--schedule", city / "schedule.json")
    return walker.walked(int(bool(way.edit)))


def main(words: Sequence[str]) -> None:
    """Walk them all."""
    rows = []
    for name in WALKS:
        with tempfile.TemporaryDirectory() as folder:
            done = walk(Path(words[0]) / name, Path(folder))
        outcome = "checked" if done.codes[-1] == 0 else "FAILED"
        figures = (done.commands, done.edits, f"{done.seconds:.1f}", f"{done.processor:.1f}", outcome)
        rows.append([name, *map(str, figures)])
    show(
        "From a file to a checked deployment", ["file", "commands", "edits", "s", "s of processor", ""], rows
    )


if __name__ == "__main__":
    main(sys.argv[1:])
