"""Everything the accountant can say about one person and one schedule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer
from scipy.special import bdtrc

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
    with_whole_windows,
)
from accounting.exceptions import EffortError
from accounting.exposure import Exposure, PublishedWindows, baseline, check_mistakes, released_information
from accounting.exposure.crowd import CrowdAdversary, Others, with_strangers
from accounting.exposure.crowd.joint_law import FewCounts
from accounting.exposure.step_information import observe
from accounting.numerics import mean_interval
from models.calendar import slots_by_the_clock
from models.numerics.arrays import Floats
from models.priors import PLACE, Evidence, Population, posterior_draws
from models.priors import Question as AskedQuestion
from models.priors.unrolled import settled_laws
from models.releases import (
    PartOfCount,
    Schedule,
    SensorRelease,
    StepSchedule,
    counts_in,
    schedule_in_single_steps,
    without_count,
)

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

    All of it is about the ``question`` of this name: the place, as a rule. ``asked`` is what wrong guesses in
    all steps would cost, of which ``mistakes`` are allowed: the number of steps, if each is asked about.
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
    question: str = PLACE
    asked: int

    @model_serializer(mode="wrap")
    def _without_which_place(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without the last two fields where the question is which place."""
        found: dict[str, Any] = write(self)
        if self.question == PLACE:
            del found["question"], found["asked"]
        return found


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
    question_name: str = PLACE,
) -> Audit:
    """Audit one person's exposure; without ``attacks`` none is tried.

    Against the informed adversary, or with ``seen`` against the crowd adversary. Attacks that look at
    releases know where the others are, so they are not tried as the latter.

    :class:`~accounting.exceptions.HorizonError` unless ``0 <= mistakes < T``;
    :class:`~accounting.exceptions.AttackAboveCeilingError` if an attack refutes the ceiling.
    """
    check_mistakes(mistakes, exposure.steps)
    bound_question = question(exposure, mistakes, effort or Effort())
    without = baseline(exposure, mistakes).success
    tried = _attacks(exposure, mistakes, attacks, only_blind=seen is not None)
    strongest = _strongest(tried)
    informed = with_whole_windows(bound_question, certify(bound_question, without, strongest))
    certified = informed if seen is None else _against_crowd(bound_question, seen, without, informed)
    if strongest is not None:
        strongest.refuse_above(certified.by, certified.value)
    information, guess = bound_question.information, bound_question.guess
    return Audit(
        person=person,
        steps=exposure.steps,
        mistakes=mistakes,
        question=question_name,
        asked=int(exposure.cost.sum()),
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
        # An adversary who sees nothing does no better than one who sees the releases: the certified bound
        # holds against both.
        baseline_bound=max(without, min(baseline_bound(bound_question), certified.value)),
        attacks=_at_most(certified.value, tried),
    )


def _against_crowd(
    bound_question: Question, seen: SeenInCrowd, baseline: float, informed: Certified
) -> Certified:
    """The smaller of the ceilings against the crowd adversary and the informed one.

    The latter is not known of a group that moves together, whose count is off by more than one.
    """
    found = certify_in_crowd(
        bound_question.exposure, seen, bound_question.mistakes, bound_question.effort, baseline
    )
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
    question_name: str = PLACE,
) -> Audit:
    """Audit person number ``person``; the horizon is the schedule, from its first step on.

    Of the ``population`` the question of this name is asked (:meth:`models.priors.Question.asked_of`).

    The person's number is added to the seeds of bounds and attacks, so that errors of sampling average out
    over people.
    """
    if effort is not None:
        effort = replace(effort, seed=effort.seed + person)
    if attacks is not None:
        attacks = replace(attacks, seed=attacks.seed + person)
    exposure = Exposure.of(
        population.chain(person), schedule, population.location_count, population.initial(person)
    )
    name = population.people[person]
    return audit_exposure(
        exposure,
        mistakes,
        person=name,
        effort=effort,
        attacks=attacks,
        seen=None if seen is None else seen.of_person(person),
        question_name=question_name,
    )


def audit_population(
    population: Population,
    schedule: Schedule,
    mistakes: int,
    *,
    people: Sequence[int] | None = None,
    effort: Effort | None = None,
    attacks: AttackSettings | None = None,
    adversary: CrowdAdversary | None = None,
    asked: AskedQuestion | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Audit]:
    """Audit everybody (or ``people``), one after the other; ``progress`` is called with the number done.

    Without an ``adversary`` against the informed one. With one the others are all other people of the
    population, who move from the schedule's first step on as their priors say. Without a question that is
    ``asked`` it is which place.
    """
    asked = asked or AskedQuestion()
    population = asked.asked_of(population)
    chosen = range(len(population)) if people is None else people
    seen = None if adversary is None else seen_among(population, schedule, adversary)
    for done, person in enumerate(chosen, start=1):
        yield audit_person(
            population,
            person,
            schedule,
            mistakes,
            effort=effort,
            attacks=attacks,
            seen=seen,
            question_name=asked.name,
        )
        if progress is not None:
            progress(done)


def seen_among(population: Population, schedule: Schedule, adversary: CrowdAdversary) -> SeenInCrowd:
    """The schedule among all people of the population, who are there from its first step on."""
    first, calendar = schedule.steps[0].step if schedule.steps else 0, schedule.calendar
    if calendar is not None and calendar.holidays:
        population = settled_laws(population, calendar, np.full(len(population), schedule.first_slot))
    slot = schedule.first_slot - first  # of step 0
    others = Others(population, slot, first, least=adversary.least, calendar=calendar)
    steps = schedule_in_single_steps(schedule.steps)
    crowds = [
        with_strangers(step, others.apply(step), adversary, *slots_by_the_clock(slot, step.step, calendar))
        for step in steps
    ]
    windows = PublishedWindows.of(schedule.steps, population.location_count)
    return SeenInCrowd(
        steps,
        crowds,
        adversary,
        () if windows is None else windows.releases,
        FewCounts.of(population, schedule, adversary),
    )


def _attacks(
    exposure: Exposure, mistakes: int, settings: AttackSettings | None, only_blind: bool
) -> Mapping[str, AttackResult] | None:
    """What each attack that can be tried achieves; None where none is to be tried."""
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


# How sure a ceiling is where priors were fitted to few data: its mean and an upper quantile over draws.
#
# A plug-in ceiling is that of the mean chain, and the mean chain is not what is known: an adversary who knows
# the person's own chain may do better, on average, than the ceiling of the mean. The mean of the ceilings of
# chains drawn from the posterior bounds the success, averaged over it, of any adversary who knows the
# person's chain, and so of one who knows only the data. Figures with an error of drawing, never
# certificates.

LEVEL = 0.9
"""Probability, given the data, that a person's own ceiling is not above the credible one."""
_CONFIDENCE = 0.95  # of both intervals


@dataclass(frozen=True, slots=True)
class PosteriorCeiling:
    """Ceilings of ``draws`` chains that the data could have given; intervals hold with 95 % confidence.

    ``mean`` is their mean, ``mean_low..mean_high`` the interval for that of all such chains. ``credible`` is
    their 90 % quantile, the upper of two neighbours, and ``credible_high`` is above that of all such chains
    (1 where the draws are too few to say).
    """

    draws: int
    mean: float
    mean_low: float
    mean_high: float
    credible: float
    credible_high: float


def posterior_ceiling(
    population: Population,
    person: int,
    schedule: Schedule,
    mistakes: int,
    evidence: Evidence,
    *,
    draws: int = 50,
    effort: Effort | None = None,
    asked: AskedQuestion | None = None,
) -> PosteriorCeiling:
    """The ceilings of the person's posterior under a schedule; the chains follow from the effort's seed
    and the person's name.

    Each draw starts where it settles, and its ceiling is certain.
    :class:`~accounting.exceptions.EffortError` below two draws.
    """
    if draws < 2:
        raise EffortError("draws from the posterior must be at least 2", draws, "take 50")
    check_mistakes(mistakes, len(schedule.steps))
    effort = effort or Effort()
    chains = posterior_draws(population, person, evidence, draws, effort.seed)
    chains = (asked or AskedQuestion()).asked_of(chains)
    certain = replace(effort, draws=0)
    ceilings = np.empty(draws)
    for number in range(draws):
        chain, start = chains.chain(number), chains.initial(number)
        exposure = Exposure.of(chain, schedule, chains.location_count, start)
        without = baseline(exposure, mistakes).success
        ceilings[number] = certify(question(exposure, mistakes, certain), without).value
    return summary_of(ceilings)


def summary_of(ceilings: Floats) -> PosteriorCeiling:
    """Mean and quantile with their errors, of ceilings in the order in which they were drawn."""
    draws, ranked = ceilings.size, np.sort(ceilings)
    around = mean_interval(ceilings, 1.0 - _CONFIDENCE)
    ranks = np.arange(1, draws + 1)
    # The r-th smallest is below the quantile if at least r draws are.
    unlikely = ranks[bdtrc(ranks - 1.0, draws, LEVEL) <= 1.0 - _CONFIDENCE]
    return PosteriorCeiling(
        draws=draws,
        mean=float(ceilings.mean()),
        mean_low=around.low,
        mean_high=around.high,
        credible=float(ranked[min(draws, ceil(LEVEL * (draws + 1))) - 1]),
        credible_high=float(ranked[unlikely[0] - 1]) if unlikely.size else 1.0,
    )


# Which release did it: every release's share of what one person's horizon gave away, largest first.


@dataclass(frozen=True, slots=True)
class InformationShare:
    """What one release of one sensor reveals about a horizon.

    ``information_nats`` is its share of the information by the chain rule over the steps (within a step in
    proportion to what each sensor reveals by itself).
    """

    step: int
    sensor: str
    mechanism: str
    information_nats: float


@dataclass(frozen=True, slots=True)
class ReleaseShare(InformationShare):
    """What one release reveals, and what the ceiling would be without it.

    ``certified_drop`` is the certified bound with all releases less the one without this release. It can be
    negative: a bound may get sharper when more is seen, although the true risk does not fall.
    """

    certified_drop: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """The risk of one horizon taken apart.

    ``shares``, of :func:`information_shares`, add up to ``information_nats``.
    """

    certified: float
    baseline: float
    information_nats: float
    shares: tuple[ReleaseShare, ...]

    def without(self, share: ReleaseShare) -> float:
        """The ceiling had this release not been made."""
        return self.certified - share.certified_drop


def information_shares(
    exposure: Exposure, parts: Sequence[Sequence[PartOfCount]]
) -> tuple[InformationShare, ...]:
    """What each count reveals about the person, the most first.

    ``parts`` (T,) are what each count shows in each step of the schedule that the exposure was made from: a
    count over a window has a part in each of its steps, and is named by the step it is published with. Counts
    that cannot concern the person are left out.
    """
    per_step = released_information(exposure).per_step
    visited = frozenset(exposure.chain.places.tolist())
    nats: dict[tuple[int, str, str], float] = {}
    for t, own in enumerate(parts):
        weights = [
            0.0
            if visited.isdisjoint(part.shown.sensor.locations)
            else _release_information(exposure, t, part.shown)
            for part in own
        ]
        for part, weight in zip(own, weights, strict=True):
            if weight > 0.0:
                count = part.published, part.whole.sensor.name, part.whole.mechanism.name
                nats[count] = nats.get(count, 0.0) + per_step[t] * weight / sum(weights)
    shares = (InformationShare(*count, of_count) for count, of_count in nats.items())
    return tuple(sorted(shares, key=lambda share: (-share.information_nats, share.step, share.sensor)))


def explain(
    exposure: Exposure, steps: tuple[StepSchedule, ...], mistakes: int, *, effort: Effort | None = None
) -> Explanation:
    """Take one person's exposure to ``steps`` apart: one audit a release of :func:`information_shares`."""
    whole = audit_exposure(exposure, mistakes, effort=effort)
    shares = []
    for share in information_shares(exposure, [counts_in(step) for step in schedule_in_single_steps(steps)]):
        without = audit_exposure(_without(exposure, steps, share), mistakes, effort=effort)
        shares.append(ReleaseShare(**asdict(share), certified_drop=whole.certified - without.certified))
    return Explanation(whole.certified, whole.baseline, sum(whole.information.per_step), tuple(shares))


def mean_explanation(each: Sequence[Explanation]) -> Explanation:
    """The mean over several chains drawn for one person; a release that one leaves out counts as 0 there."""
    count = len(each)
    nats: dict[tuple[int, str, str], float] = defaultdict(float)
    drop: dict[tuple[int, str, str], float] = defaultdict(float)
    for found in each:
        for share in found.shares:
            release = (share.step, share.sensor, share.mechanism)
            nats[release] += share.information_nats / count
            drop[release] += share.certified_drop / count
    shares = (ReleaseShare(*release, nats[release], drop[release]) for release in nats)
    return Explanation(
        sum(found.certified for found in each) / count,
        sum(found.baseline for found in each) / count,
        sum(found.information_nats for found in each) / count,
        tuple(sorted(shares, key=lambda share: (-share.information_nats, share.step, share.sensor))),
    )


def _release_information(exposure: Exposure, step: int, release: SensorRelease) -> float:
    """What a release by itself reveals about where the person was in that step, nats."""
    if not release.mechanism.is_released:
        return 0.0
    counted = np.isin(exposure.chain.places, release.sensor.locations)
    probability = min(1.0, float(exposure.marginal[step][counted].sum()))
    return float(release.accounted.information(np.array(probability)))


def _without(exposure: Exposure, steps: tuple[StepSchedule, ...], left_out: InformationShare) -> Exposure:
    """The exposure had one count not been published."""
    changed = tuple(
        replace(step, releases=tuple(each for each in step.releases if each.sensor.name != left_out.sensor))
        if step.step == left_out.step
        else step
        for step in steps
    )
    locations = exposure.observations[0].labels.size
    single = schedule_in_single_steps(steps)
    after = (without_count(step, left_out.step, left_out.sensor) for step in single)
    observations = (
        seen if step is other else observe(other, locations)
        for seen, step, other in zip(exposure.observations, single, after, strict=True)
    )
    return exposure.under(tuple(observations), PublishedWindows.of(changed, locations))
