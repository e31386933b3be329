"""Priors held against recorded traces: by a guess that needs no release, by one attack, and by surprise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.attacks import ATTACKS, RecordedTarget, Target
from accounting.audit.calibration.chosen_horizons import ChosenHorizon, RecordedPeople, chosen_horizons
from accounting.audit.calibration.group_check import GroupCheck, Looks, Verdict, check_group, worst
from accounting.audit.calibration.sharpness import Sharpness, sharpness
from accounting.bounds import Effort, certify, question
from accounting.exceptions import HorizonError, SettingsError
from accounting.exposure import Exposure, baseline, check_mistakes
from models.priors import Population
from models.releases import Schedule, StepSchedule

_VERDICTS_A_CHECK = 4
"""Everybody and the groups, by the guess and by the attack: they share the level."""


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """What is asked of the priors, fixed before a trace is looked at.

    ``mistakes`` of the horizon's steps may be wrong. ``attack`` is tried under a schedule, or with nothing
    released. People are put in ``groups`` by what is predicted of them. ``level`` is the probability that
    right priors are refuted as *too low*, and as *too high*. ``seed`` chooses horizons and noise.
    """

    mistakes: int = 1
    attack: str = "marginal"
    groups: int = 4
    level: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        if self.attack not in ATTACKS:
            raise SettingsError(f"the attack must be one of {', '.join(ATTACKS)}", self.attack, "choose one")
        if self.groups < 1:
            raise SettingsError("there must be at least one group of people", self.groups, "use 4, say")
        if not 0.0 < self.level < 1.0:
            raise SettingsError("the level must lie between 0 and 1", self.level, "use 0.05, say")
        if self.seed < 0:
            raise SettingsError("a seed must be at least 0", self.seed, "use 0, say")


@dataclass(frozen=True, slots=True)
class GroupedCheck:
    """One way of guessing, for everybody and in ``groups``, those with the lowest predictions first.

    ``refuted`` is the worst of all of them.
    """

    everybody: GroupCheck
    groups: tuple[GroupCheck, ...]

    @property
    def refuted(self) -> Verdict:
        """The worst group's, or everybody's where that is worse; never a mean over groups."""
        return worst([self.everybody.refuted, *(group.refuted for group in self.groups)])


@dataclass(frozen=True, slots=True)
class PriorsCheck:
    """What recorded traces say of the priors.

    ``guess`` is the best guess from the prior alone against its exact predicted success, ``attack`` one
    attack against the certified ceilings (which it may undercut, so it refutes in one direction only).
    ``left_out`` people have no horizon of ``steps`` known steps.
    """

    steps: int
    mistakes: int
    guess: GroupedCheck
    attack_name: str
    attack: GroupedCheck
    sharpness: Sharpness
    left_out: int

    @property
    def refuted(self) -> Verdict:
        """The worst of guess and attack."""
        return worst([self.guess.refuted, self.attack.refuted])

    @property
    def verdict(self) -> str:
        """The same in words."""
        is_open = self.refuted is Verdict.NOT_REFUTED
        return self.guess.everybody.verdict if is_open else self.refuted.value

    @property
    def kappa_min(self) -> float:
        """The largest lower bound on the radius that a group's hits give, nats."""
        rows = [row for check in (self.guess, self.attack) for row in (check.everybody, *check.groups)]
        return max(row.kappa_min for row in rows)


class _Outcome(NamedTuple):
    """What was predicted of one person, and what happened."""

    guess_predicted: float
    guess_hit: bool
    ceiling: float
    attack_hit: bool


def check_priors(
    population: Population,
    recorded: RecordedPeople,
    steps_or_schedule: int | Schedule,
    settings: CheckSettings | None = None,
    progress: Callable[[int], None] | None = None,
) -> PriorsCheck:
    """Hold priors against traces they were not fitted to, over so many steps or those of a schedule.

    Without a schedule nothing is released. Everybody starts from their long-run law. ``progress`` is called
    with the number of people done.
    :class:`~accounting.exceptions.HorizonError` where nobody has enough known steps.
    """
    settings = settings or CheckSettings()
    given = None if isinstance(steps_or_schedule, int) else steps_or_schedule
    steps = steps_or_schedule if isinstance(steps_or_schedule, int) else len(steps_or_schedule.steps)
    check_mistakes(settings.mistakes, steps)
    slot = None if given is None else given.first_slot
    schedule = Schedule(tuple(map(StepSchedule, range(steps)))) if given is None else given
    outcomes: list[_Outcome] = []
    for horizon in chosen_horizons(population, recorded, steps, settings.seed, slot):
        outcomes.append(_outcome(population, horizon, schedule, settings))
        if progress is not None:
            progress(len(outcomes))
    if not outcomes:
        raise HorizonError(
            f"somebody must have {steps} known steps in a row, in the slots of the schedule",
            "nobody",
            "shorten the horizon, or give check-ins of people of these priors",
        )
    columns = [np.array(column) for column in zip(*outcomes, strict=True)]
    return PriorsCheck(
        steps=steps,
        mistakes=settings.mistakes,
        guess=_grouped(columns[0], columns[1], settings, are_ceilings=False),
        attack_name=settings.attack,
        attack=_grouped(columns[2], columns[3], settings, are_ceilings=True),
        sharpness=sharpness(population, recorded),
        left_out=recorded.positions.size - len(outcomes),
    )


def _outcome(
    population: Population, horizon: ChosenHorizon, schedule: Schedule, settings: CheckSettings
) -> _Outcome:
    """One person: predictions from prior and schedule, hits from the trace."""
    there = Schedule(schedule.steps, horizon.first_slot)
    exposure = Exposure.of(population.chain(horizon.person), there, population.location_count)
    target = Target(exposure, settings.mistakes, draws=1, seed=settings.seed + horizon.person)
    recorded = RecordedTarget(target, horizon.trace)
    best = baseline(exposure, settings.mistakes)
    attacked = ATTACKS[settings.attack].replay(recorded)
    if attacked is None:
        replayed = [name for name, attack in ATTACKS.items() if attack.replay(recorded) is not None]
        raise SettingsError(
            f"an attack on recorded traces must be one of {', '.join(replayed)}",
            settings.attack,
            "choose one",
        )
    return _Outcome(
        min(1.0, best.success),
        recorded.blind(best.guess).success == 1.0,
        certify(question(exposure, settings.mistakes, Effort()), best.success).value,
        attacked.success == 1.0,
    )


def _grouped(
    predicted: NDArray[np.float64], hit: NDArray[np.bool_], settings: CheckSettings, *, are_ceilings: bool
) -> GroupedCheck:
    """Everybody, and groups of nearly equal size by what was predicted."""
    level = settings.level / _VERDICTS_A_CHECK
    parts: Sequence[NDArray[np.int64]] = np.array_split(
        np.argsort(predicted, kind="stable"), min(settings.groups, predicted.size)
    )
    looks = Looks(len(parts), level, are_ceilings)
    return GroupedCheck(
        check_group(predicted, hit, Looks(1, level, are_ceilings)),
        tuple(check_group(predicted[part], hit[part], looks) for part in parts),
    )
