"""Noise for a target: the most with which values, or totals of them, are off by no more than is wanted.

How far off something may be is declared in people, or as a share of what the priors expect. It never follows
from a count, so neither does the noise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import floor, isfinite, log10
from pathlib import Path
from typing import Any

from accounting.hmm.propagation import law_at
from models.calendar import DAY, slot_of_cycle
from models.mechanisms import Gaussian, Suppressed, half_width, largest_sigma
from models.priors import Population
from models.releases import Schedule, SensorRelease, StepSchedule
from stream_app.analysis.planning import ReleasePlan, plan_steps, release_document
from stream_app.exceptions import SettingsError
from stream_app.setup.option_settings import Period
from stream_app.setup.run_folder.durable import replace_file
from stream_app.setup.settings import Settings

_SECONDS = {Period.HOUR: 3600, Period.DAY: DAY, Period.WEEK: 7 * DAY}
_DIGITS = 4  # of a sigma, rounded down


@dataclass(frozen=True)
class Accuracy:
    """Within so many people, or such a share of those expected (``is_relative``), as often as ``level``."""

    within: float
    level: float
    period: Period
    is_relative: bool = False

    @classmethod
    def of(cls, within: str, percent: float, period: Period) -> Accuracy:
        """From ``5`` or ``10%``, and how often in 100; :class:`SettingsError` for anything else."""
        is_relative = within.endswith("%")
        try:
            amount = float(within.removesuffix("%")) / (100.0 if is_relative else 1.0)
        except ValueError:
            amount = float("nan")
        if not (isfinite(amount) and amount > 0.0) or not 50.0 <= percent < 100.0:
            raise SettingsError(
                "an accuracy must be a number of people, or a share with %, so often in 100",
                f"within {within} in {percent:g}",
                "write --within 5 --in 95, or --within 10% --in 90",
            )
        return cls(amount, percent / 100.0, period, is_relative)

    def steps(self, step_seconds: int) -> int:
        """The steps of the period; :class:`SettingsError` where they do not fill it."""
        if self.period is Period.STEP:
            return 1
        steps, rest = divmod(_SECONDS[self.period], step_seconds)
        if rest:
            raise SettingsError(
                f"steps must fill the {self.period.value} that an accuracy is for",
                f"{step_seconds} s",
                "say --for step",
            )
        return steps

    def in_words(self) -> str:
        """The target as a sentence has it."""
        amount = (
            f"{100.0 * self.within:g} % of those expected" if self.is_relative else f"{self.within:g} people"
        )
        what = "value" if self.period is Period.STEP else f"{self.period.value}'s total of a sensor"
        return f"each {what} is within {amount}, {100.0 * self.level:g} times in 100"


def sigma_within(within: int, level: float, steps: int) -> float | None:
    """The most noise, to four digits; None where nobody could be protected at all (within 0 people)."""
    if within < 1:
        return None
    sigma = largest_sigma(within, level, steps)
    unit = 10.0 ** (floor(log10(sigma)) - _DIGITS + 1)
    return round(floor(sigma / unit) * unit, 12)


def targeted(
    schedule: Schedule,
    target: Accuracy,
    step_seconds: int,
    expected: Callable[[int, Sequence[int]], float] | None,
) -> Schedule:
    """The schedule with the most noise that keeps the target; suppressed where that is none.

    A sensor on moves, or with a window, keeps its noise: a run never changes that, hour by hour or at all.
    ``expected`` says how many people are expected at places in a step: for a share of them. A total is then
    near to what is expected of the whole period, which begins with step 0.
    """
    steps = target.steps(step_seconds)
    sigma = cache(lambda within: sigma_within(within, target.level, steps))
    totals: dict[tuple[int, str], float] = {}
    if expected is not None:
        for step in schedule.steps:
            for each in step.releases:
                key = step.step // steps, each.sensor.name
                totals[key] = totals.get(key, 0.0) + expected(step.step, each.sensor.locations)

    def noised(step: int, release: SensorRelease) -> SensorRelease:
        most = target.within
        if expected is not None:
            most *= totals[step // steps, release.sensor.name]
        found = sigma(floor(most + 1e-9))
        return SensorRelease(release.sensor, Suppressed() if found is None else Gaussian(found))

    return _each(schedule, noised)


def _each(schedule: Schedule, made: Callable[[int, SensorRelease], SensorRelease]) -> Schedule:
    """With releases made anew, but for those whose mechanism is one in the whole run."""
    return replace(
        schedule,
        steps=tuple(
            StepSchedule(
                step.step,
                tuple(each if each.sensor.window else made(step.step, each) for each in step.releases),
            )
            for step in schedule.steps
        ),
    )


def unchanged(schedule: Schedule) -> tuple[str, ...]:
    """The sensors whose noise no accuracy chooses: those on moves, or with windows."""
    windowed = (each.sensor for step in schedule.steps for each in step.releases if each.sensor.window)
    return tuple(dict.fromkeys(sensor.name for sensor in windowed))


def expected_people(
    population: Population, settings: Settings, first_slot: int
) -> Callable[[int, Sequence[int]], float]:
    """How many people the priors expect at places in a step; no count enters."""
    calendar = settings.calendar(first_slot)

    @cache
    def at(step: int) -> Mapping[int, float]:
        found: dict[int, float] = {}
        for person in range(len(population)):
            chain = population.chain(person)
            law = law_at(chain, population.initial(person), 0, step, first_slot, calendar)
            for place, probability in zip(chain.places.tolist(), law.tolist(), strict=True):
                found[place] = found.get(place, 0.0) + probability * float(population.people_each[person])
        return found

    return lambda step, places: sum(at(step).get(place, 0.0) for place in places) / population.draws


@dataclass(frozen=True)
class Choice:
    """One amount of noise: how near totals are, what it costs in added risk and in differential privacy."""

    name: str
    within: int | None  # the widest interval of a total; None where something is suppressed
    plan: ReleasePlan

    @property
    def mean_added(self) -> float:
        """The mean added risk of the step at which it is highest."""
        return self.plan.view.value("headline.added")

    def as_json(self) -> dict[str, Any]:
        """The choice as one JSON object."""
        has_people = self.plan.people > 0
        return {
            "name": self.name,
            "within": self.within,
            "highest_mean_added": self.mean_added if has_people else None,
            "highest_ceiling": self.plan.view.value("most.ceiling") if has_people else None,
            "differential_privacy_by_unit": self.plan.units_as_json(),
        }


_TIMES = (0.25, 0.5, 2.0, 4.0)
"""Other amounts of noise that are compared in the picture."""


def choices(
    settings: Settings,
    schedule: Schedule,
    target: Accuracy,
    population: Population,
    first_slot: int,
    *,
    compare: bool = False,
) -> tuple[Choice, ...]:
    """The target's noise first, then that of the schedule as it is; with ``compare`` less and more noise."""
    expected = expected_people(population, settings, first_slot) if target.is_relative else None
    if expected is not None and not len(population):
        raise SettingsError(
            "a share of the people expected must have priors to expect them by",
            "none",
            "give --priors, or an accuracy in people: --within 5",
        )
    wanted = targeted(schedule, target, settings.step_seconds, expected)
    others = [(f"{times:g} times the noise", _times(wanted, times)) for times in (_TIMES if compare else ())]
    steps = target.steps(settings.step_seconds)
    return tuple(
        Choice(name, _widest(each, target, steps), plan_steps(settings, each, population))
        for name, each in (("as wanted", wanted), ("as in the schedule", schedule), *others)
    )


def _times(schedule: Schedule, times: float) -> Schedule:
    def noised(step: int, release: SensorRelease) -> SensorRelease:
        own = release.mechanism
        more = Gaussian(own.sigma * times) if isinstance(own, Gaussian) else own
        return replace(release, mechanism=more)

    return _each(schedule, noised)


def _widest(schedule: Schedule, target: Accuracy, steps: int) -> int | None:
    """The widest half interval of all totals of a period; of sensors that are active in all its steps."""
    released = {each.mechanism for step in schedule.steps for each in step.releases}
    if not all(mechanism.is_released for mechanism in released):
        return None
    return max((half_width([mechanism] * steps, target.level) for mechanism in released), default=None)


def write_schedule(schedule: Schedule, path: Path) -> None:
    """Write it where ``run`` and ``plan`` read it, a release with each sensor."""
    steps = [{"releases": list(map(release_document, step.releases))} for step in schedule.steps]
    document = {"first_slot": schedule.first_slot, "steps": steps}
    replace_file(path, (json.dumps(document, indent=1) + "\n").encode())


def sigmas_by_hour(
    schedule: Schedule, settings: Settings, first_slot: int
) -> dict[str, dict[int, float | None]]:
    """The noise of each sensor by slot of the day on the clock; None where nothing is released."""
    calendar, slots = settings.calendar(first_slot), max(1, DAY // settings.step_seconds)
    found: dict[str, dict[int, float | None]] = {}
    for step in schedule.steps:
        slot = slot_of_cycle(first_slot, step.step, slots, calendar)
        for each in step.releases:
            own = each.mechanism
            sigma = own.sigma if isinstance(own, Gaussian) else None
            found.setdefault(each.sensor.name, {})[slot] = sigma
    return found
