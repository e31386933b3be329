"""Everything the accountant can say about one person and one schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel, ConfigDict

from accounting.bounds import Bounds, Effort, all_bounds, baseline_bound, certify, question
from accounting.exposure import Exposure, baseline, check_mistakes
from models.priors import Population
from models.releases import Schedule


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
    """Success of one adversary; ``low`` and ``high`` are equal to it where it is exact."""

    success: float
    low: float
    high: float


class Audit(_Frozen):
    """One person under one schedule; the fields of ``tallyguard audit --json``.

    ``certified`` bounds the success of any adversary, with probability ``confidence`` over the draws it is
    based on (1 where it is based on none), and is never below ``baseline``, the exact success of the best
    guess without the releases.
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
) -> Audit:
    """Audit one person's exposure; without ``attacks`` none is tried.

    :class:`~accounting.exceptions.HorizonError` unless ``0 <= mistakes < T``.
    """
    check_mistakes(mistakes, exposure.steps)
    asked = question(exposure, mistakes, effort or Effort())
    without = baseline(exposure, mistakes).success
    certified = certify(asked, without)
    information, guess = asked.information, asked.guess
    return Audit(
        person=person,
        steps=exposure.steps,
        mistakes=mistakes,
        entropy=exposure.entropy_nats,
        information=InformationReport(
            koga=information.koga, exact=information.exact, per_step=information.per_step
        ),
        prior_guess=GuessReport(koga=guess.koga, best=guess.best),
        bounds=all_bounds(asked),
        certified=certified.value,
        certified_by=certified.by,
        confidence=certified.confidence,
        baseline=without,
        # Who sees nothing does no better than who sees the releases: the certified bound holds for them too.
        baseline_bound=max(without, min(baseline_bound(asked), certified.value)),
        attacks=_attacks(exposure, mistakes, attacks),
    )


def audit_person(
    population: Population,
    person: int,
    schedule: Schedule,
    mistakes: int,
    *,
    effort: Effort | None = None,
    attacks: AttackSettings | None = None,
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
    return audit_exposure(exposure, mistakes, person=name, effort=effort, attacks=attacks)


def audit_population(
    population: Population,
    schedule: Schedule,
    mistakes: int,
    *,
    people: Sequence[int] | None = None,
    effort: Effort | None = None,
    attacks: AttackSettings | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Audit]:
    """Audit everybody (or ``people``), one after the other; ``progress`` is told how many are done."""
    chosen = range(len(population)) if people is None else people
    for done, person in enumerate(chosen, start=1):
        yield audit_person(population, person, schedule, mistakes, effort=effort, attacks=attacks)
        if progress is not None:
            progress(done)


def _attacks(
    exposure: Exposure, mistakes: int, settings: AttackSettings | None
) -> Mapping[str, AttackReport | None] | None:
    """The adversaries' success, None when they are not tried, or one of them could not be."""
    if settings is None:
        return None
    from accounting.attacks import ATTACKS, attack_person

    results = attack_person(exposure, mistakes, settings.draws, settings.seed)
    tried = {
        name: AttackReport(success=result.success, low=result.low, high=result.high)
        for name, result in results.items()
    }
    return {name: tried.get(name) for name in ATTACKS}
