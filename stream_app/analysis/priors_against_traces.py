"""Priors compared with check-ins, both from files: what ``tallyguard priors check`` says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from accounting.audit.calibration import (
    CheckSettings,
    GroupCheck,
    GroupedCheck,
    PriorsCheck,
    RecordedPeople,
    Verdict,
    check_priors,
)
from accounting.settings import HORIZON
from models.calendar import dates_of
from models.exceptions import CheckinError
from models.fitting import FitOptions, OnBadRow, Traces, read_checkins, traces_of
from models.priors import Population
from models.releases import Schedule
from models.text import number_of
from stream_app.exceptions import SettingsError
from stream_app.watching.wording import DOWN, in_a_hundred, significant

_TOO_LOW = (
    "Ceilings too low: people are easier to guess than these priors say. A ceiling computed with them "
    "understates what an adversary achieves: say beside it that the priors were refuted "
    "on {people}."
)
_TOO_HIGH = (
    "Ceilings too high: people are harder to guess than these priors say. That errs to the safe side today; "
    "it is no promise for other people or times."
)
_OPEN = (
    "Not refuted by {people}. That is no proof: errors that so few people cannot show, and later "
    "changes of habits, are not tested."
)


@dataclass(frozen=True)
class CheckedPriors:
    """A check with where its traces came from; ``is_released`` says whether a schedule was given.

    ``priors`` is the fingerprint of what was checked.
    """

    check: PriorsCheck
    traces: Traces
    windows: int
    is_released: bool
    priors: str

    @property
    def is_too_low(self) -> bool:
        """Whether ceilings computed with these priors understate the risk."""
        return self.check.refuted is Verdict.TOO_LOW

    def as_json(self) -> dict[str, Any]:
        """The fields of ``tallyguard priors check --json``."""
        check = self.check
        guess = _grouped(check.guess)
        return {
            "priors": self.priors,
            "steps": check.steps,
            "mistakes": check.mistakes,
            "windows": self.windows,
            "people": check.guess.everybody.people,
            "people_left_out": check.left_out,
            "verdict": check.verdict,
            "kappa_min": check.kappa_min,
            **guess,
            "attack": {
                "name": check.attack_name,
                "released": "schedule" if self.is_released else "nothing",
                **_grouped(check.attack),
            },
            "sharpness": asdict(check.sharpness),
            "dropped": self.traces.dropped,
        }

    def sentences(self) -> list[str]:
        """Verdict, worst group, unknown places and radius, for people to read."""
        check, people = self.check, self.check.guess.everybody.people
        said = {Verdict.TOO_LOW: _TOO_LOW, Verdict.TOO_HIGH: _TOO_HIGH, Verdict.NOT_REFUTED: _OPEN}
        found = [said[check.refuted].format(people=number_of(people, "person")), *self._worst_group()]
        moves = check.sharpness.moves + check.sharpness.unknown
        if check.sharpness.unknown:
            found.append(
                f"Unknown places: {check.sharpness.unknown:,} of {moves:,} moves are impossible by the "
                "priors, such as to places where a person was never seen."
            )
        if check.kappa_min > 0.0:
            least = significant(check.kappa_min, 3, DOWN)
            found.append(
                f"Radius: the data refute any below {least} nats for the worst group; "
                "nothing in them bounds it from above."
            )
        return found

    def _worst_group(self) -> list[str]:
        if self.check.refuted is Verdict.NOT_REFUTED:
            return []
        ways = {"the guess": self.check.guess, f"attack {self.check.attack_name}": self.check.attack}
        rows = [
            (row, name)
            for name, grouped in ways.items()
            for row in (grouped.everybody, *grouped.groups)
            if row.refuted is self.check.refuted
        ]
        row, name = max(rows, key=lambda each: abs(each[0].realised - each[0].predicted))
        low, high = (in_a_hundred(end) for end in (row.predicted_lowest, row.predicted_highest))
        span = f"{low.removesuffix(' in 100')} to {high}"
        return [
            f"Worst group: {number_of(row.people, 'person')} predicted at {span}; {name} should be right in "
            f"{in_a_hundred(row.predicted)} and is right in {in_a_hundred(row.realised)}."
        ]


@dataclass(frozen=True)
class WindowOptions:
    """How to cut check-ins into windows, and how many of the last to take; None for as was fitted."""

    window_seconds: int | None = None
    origin: str | None = None
    window_place: str | None = None
    elsewhere: str | None = None
    elsewhere_name: str | None = None
    held_out_windows: int | None = None
    timezone: str | None = None
    holidays: tuple[date, ...] | None = None

    def options(self, population: Population) -> FitOptions:
        """As asked for, else as the priors say they were fitted, else as priors are fitted by default."""
        fitted = population.fitted
        own = {} if fitted is None else asdict(fitted)
        own.pop("until_seconds", None)
        own["holidays"] = dates_of(own.get("holidays", ()))
        given = {name: value for name, value in asdict(self).items() if value is not None}
        if self.timezone is not None:
            own["holidays"] = ()
        if isinstance(origin := given.get("origin"), str) and origin.lstrip("-").isdecimal():
            given["origin"] = int(origin)
        if fitted is not None:
            given.setdefault("held_out_windows", 1)  # at least; the first one is known
        slots = int(population.arrays.slots.max(initial=1))
        options: FitOptions = FitOptions(**{**own, **given, "slots": slots})
        if options.held_out_windows < 1:
            raise SettingsError(
                "at least one window must be held out",
                options.held_out_windows,
                "say how many of the last windows the priors were not fitted to",
            )
        return options

    def first(self, population: Population, traces: Traces, options: FitOptions) -> int:
        """The first window to compare with the priors: never one that they were fitted to."""
        windows = int(traces.places.shape[1])
        unfitted = 0
        if population.fitted is not None:
            since_origin = population.fitted.until_seconds - traces.origin_seconds
            unfitted = max(0, -(-since_origin // options.window_seconds))
            if unfitted >= windows:
                raise CheckinError(
                    "check-ins must reach beyond the windows that the priors were fitted to",
                    f"{windows:,} windows, of which {min(unfitted, windows):,} were fitted",
                    "give later check-ins, or hold out windows when fitting",
                )
            if self.held_out_windows is None:
                return unfitted
        first = windows - options.held_out_windows
        if first < unfitted:
            raise SettingsError(
                f"only the last {windows - unfitted:,} windows may be compared with the priors",
                f"{options.held_out_windows:,}, some of which they were fitted to",
                "ask for fewer, or leave out --held-out-windows",
            )
        return first


def check_files(
    population: Population,
    checkins: Path,
    windows: WindowOptions,
    steps_or_schedule: int | Schedule | None,
    settings: CheckSettings,
    *,
    on_bad_row: OnBadRow = "fail",
    progress: Callable[[int], None] | None = None,
) -> CheckedPriors:
    """Compare priors with the windows of a file of check-ins that they were not fitted to.

    Without ``steps_or_schedule`` over all held-out windows, at most the usual horizon.
    """
    options = windows.options(population)
    traces = traces_of(population, read_checkins(checkins, on_bad_row, options.timezone), options)
    first = windows.first(population, traces, options)
    held_out = traces.places.shape[1] - first
    position = traces.first_slot + first
    recorded = RecordedPeople(
        np.array([population.position(person) for person in traces.people]),
        traces.places[:, first:],
        position % options.slots if traces.calendar is None else position,
        traces.calendar,
    )
    steps_or_schedule = min(HORIZON, held_out) if steps_or_schedule is None else steps_or_schedule
    check = check_priors(population, recorded, steps_or_schedule, settings, progress)
    return CheckedPriors(
        check, traces, held_out, isinstance(steps_or_schedule, Schedule), population.fingerprint
    )


def _grouped(grouped: GroupedCheck) -> dict[str, Any]:
    return {"everybody": _row(grouped.everybody), "groups": [_row(group) for group in grouped.groups]}


def _row(group: GroupCheck) -> dict[str, Any]:
    fields = asdict(group)
    del fields["refuted"]
    return {**fields, "verdict": group.verdict}
