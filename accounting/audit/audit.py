"""Everything the accountant can say about one person and one schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from accounting.bounds import (
    Bounds,
    Certified,
    Effort,
    Question,
    SeenInCrowd,
    Tried,
    all_bounds,
    baseline_bound,
    certify,
    certify_in_crowd,
    question,
)
from accounting.exposure import Exposure, baseline, check_mistakes
from accounting.exposure.crowd import CrowdAdversary, Others
from models.priors import Population
from models.releases import Schedule

if TYPE_CHECKING:
    from accounting.attacks import AttackResult

INFORMED, CROWD = "informed", "crowd"
"""Adversaries by name: the first knows where everybody else is, the second only how they live."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class InformationReport(_Frozen):
    """Nats. ``koga`` is None unless each step has exactly one sensor, ``exact`` for noised releases."""

    koga: float | None
    exact: float | None
    per_step: tuple[float, ...]


class GuessReport(_Frozen):
    """``q``: the paper's, and the best upper bound on a guess from the prior alone."""

    koga: float | None
    best: float


class AttackReport(_Frozen):
    """Success of one adversary; ``low`` and ``high`` are equal to it where it is exact.

    At most the ceiling: an attack is no better than the best there is, whatever its draws say.
    """

    success: float
    low: float
    high: float


class Audit(_Frozen):
    """One person under one schedule; the fields of ``tallyguard audit --json``.

    ``certified`` bounds the success of any adversary, with probability ``confidence`` over the draws it is
    based on (1 where it is based on none), and is never below ``baseline``, the exact success of the best
    guess without the releases. Against the ``adversary`` "informed" it holds wherever the others are; against
    "crowd" if they move independently, as their priors say. ``certified_informed`` is the former always;
    ``bounds`` and ``information`` are the informed adversary's.
    """

    person: str
    steps: int
    mistakes: int
    entropy: float
    information: InformationReport
    prior_guess: GuessReport
    bounds: Bounds
    certified: float
    certified_by: str
    confidence: float
    baseline: float
    baseline_bound: float
    attacks: Mapping[str, AttackReport | None] | None
    adversary: str
    certified_informed: float


@dataclass(frozen=True, slots=True)
class AttackSettings:
    """How the adversaries are tried: trajectories drawn where no exact law is known, and their seed."""

    draws: int = 10_000
    seed: int = 0


def audit_exposure(
    exposure: Exposure,
    mistakes: int,
    *,
    person: str = "",
    effort: Effort | None = None,
    attacks: AttackSettings | None = None,
    seen: SeenInCrowd | None = None,
) -> Audit:
    """Audit one person's exposure; without ``attacks`` none is tried.

    Against the informed adversary, or against whoever sees the releases in a crowd (``seen``). Attacks that
    look at releases know where the others are, and are not tried then.

    :class:`~accounting.exceptions.HorizonError` unless ``0 <= mistakes < T``;
    :class:`~accounting.exceptions.AttackAboveCeilingError` if an attack refutes the ceiling.
    """
    check_mistakes(mistakes, exposure.steps)
    bound_question = question(exposure, mistakes, effort or Effort())
    without = baseline(exposure, mistakes).success
    tried = _attacks(exposure, mistakes, attacks, only_blind=seen is not None)
    strongest = _strongest(tried)
    informed = certify(bound_question, without, strongest)
    certified = informed if seen is None else _against_crowd(bound_question, seen, without)
    if strongest is not None:
        strongest.refuse_above(certified.by, certified.value)
    information, guess = bound_question.information, bound_question.guess
    return Audit(
        person=person,
        steps=exposure.steps,
        mistakes=mistakes,
        entropy=exposure.entropy_nats,
        information=InformationReport(
            koga=information.koga, exact=information.exact, per_step=information.per_step
        ),
        prior_guess=GuessReport(koga=guess.koga, best=guess.best),
        bounds=all_bounds(bound_question),
        certified=certified.value,
        certified_by=certified.by,
        confidence=certified.confidence,
        adversary=INFORMED if seen is None else CROWD,
        certified_informed=informed.value,
        baseline=without,
        # Who sees nothing does no better than who sees the releases: the certified bound holds for them too.
        baseline_bound=max(without, min(baseline_bound(bound_question), certified.value)),
        attacks=_at_most(certified.value, tried),
    )


def _against_crowd(bound_question: Question, seen: SeenInCrowd, baseline: float) -> Certified:
    """The smaller of what the crowd leaves and what whoever knows where the others are can do.

    The latter is not known of a group that moves together: its count is off by more than one.
    """
    found = certify_in_crowd(
        bound_question.exposure, seen, bound_question.mistakes, bound_question.effort, baseline
    )
    informed = certify(bound_question, baseline)
    return informed if seen.adversary.companions == 0 and informed.value <= found.value else found


def audit_person(
    population: Population,
    person: int,
    schedule: Schedule,
    mistakes: int,
    *,
    effort: Effort | None = None,
    attacks: AttackSettings | None = None,
    seen: SeenInCrowd | None = None,
) -> Audit:
    """Audit person number ``person``; the horizon is the schedule, from its first step on.

    The seeds of bounds and attacks are counted on by the person's number, so that errors of sampling average
    out over people.
    """
    if effort is not None:
        effort = replace(effort, seed=effort.seed + person)
    if attacks is not None:
        attacks = replace(attacks, seed=attacks.seed + person)
    exposure = Exposure.of(
        population.chain(person), schedule, population.location_count, population.initial(person)
    )
    name = population.people[person]
    return audit_exposure(exposure, mistakes, person=name, effort=effort, attacks=attacks, seen=seen)


def audit_population(
    population: Population,
    schedule: Schedule,
    mistakes: int,
    *,
    people: Sequence[int] | None = None,
    effort: Effort | None = None,
    attacks: AttackSettings | None = None,
    adversary: CrowdAdversary | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Audit]:
    """Audit everybody (or ``people``), one after the other; ``progress`` is called with the number done.

    Without an ``adversary`` against the informed one. With one the others are all other people of the
    population, who move from the schedule's first step on as their priors say.
    """
    chosen = range(len(population)) if people is None else people
    seen = None if adversary is None else seen_among(population, schedule, adversary)
    for done, person in enumerate(chosen, start=1):
        yield audit_person(population, person, schedule, mistakes, effort=effort, attacks=attacks, seen=seen)
        if progress is not None:
            progress(done)


def seen_among(population: Population, schedule: Schedule, adversary: CrowdAdversary) -> SeenInCrowd:
    """The schedule among everybody of the population, who is there from its first step on."""
    first = schedule.steps[0].step if schedule.steps else 0
    others = Others(population, schedule.first_slot - first, first)
    return SeenInCrowd(schedule.steps, [others.apply(step) for step in schedule.steps], adversary)


def _attacks(
    exposure: Exposure, mistakes: int, settings: AttackSettings | None, only_blind: bool
) -> Mapping[str, AttackResult] | None:
    """What each adversary who can be tried achieves; None when none is."""
    if settings is None:
        return None
    from accounting.attacks import ATTACKS, attack_person

    shown = exposure.nothing_released if only_blind else exposure
    results = attack_person(shown, mistakes, settings.draws, settings.seed)
    return {name: each for name, each in results.items() if not only_blind or ATTACKS[name].is_blind}


def _strongest(tried: Mapping[str, AttackResult] | None) -> Tried | None:
    """The attack that proves most against a ceiling."""
    proved = [Tried(name, each.proved) for name, each in (tried or {}).items()]
    return max(proved, key=lambda each: each.proved, default=None)


def _at_most(
    ceiling: float, tried: Mapping[str, AttackResult] | None
) -> Mapping[str, AttackReport | None] | None:
    """Every attack there is, at most the ceiling; None for one that could not be tried."""
    if tried is None:
        return None
    from accounting.attacks import ATTACKS

    reports = {
        name: AttackReport(
            success=min(each.success, ceiling), low=min(each.low, ceiling), high=min(each.high, ceiling)
        )
        for name, each in tried.items()
    }
    return {name: reports.get(name) for name in ATTACKS}
