"""The risk of past steps: when the last of them was released, and in hindsight, given what came later.

A later count can give an earlier step away: who is seen at the station at noon was near it at eleven. One
computation for ``tallyguard audit --hindsight``, the report and the page. No count is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from accounting import bounds
from accounting.bounds import SeenInCrowd
from accounting.bounds.radius import ceiling_within
from accounting.exposure import Exposure
from accounting.exposure.crowd import SensorCrowd
from accounting.exposure.step_information import observe
from accounting.hmm.propagation import law_at
from models.calendar import Calendar
from models.mechanisms import Raw
from models.priors import Population
from models.priors.unrolled import chain_on_the_clock
from models.releases import Schedule, Sensor, SensorRelease, StepSchedule

REACH = 100
"""Steps before and after the past ones that are accounted as they were released.

Where the log goes on, the observer is taken to know the person's place in the outermost of them. That reveals
at least as much as all that was released beyond: given this place, it is independent of the steps between.
"""
SHARED_NOISE = "not computed: noise is shared between steps, and for it no bound in hindsight is known"


class PastHorizon(NamedTuple):
    """Steps ``first..last`` of a log, of which an observer may get ``mistakes`` wrong."""

    first: int
    last: int
    mistakes: int

    @classmethod
    def ending_at(cls, last: int, horizon: int, mistakes: int) -> PastHorizon:
        """The ``horizon`` steps up to the step ``last``; fewer where the log begins later."""
        first = max(0, last - horizon + 1)
        return cls(first, last, min(mistakes, last - first))


@dataclass(frozen=True)
class Hindsight:
    """Ceilings for steps ``first_step..last_step``: ``then``, and ``now`` that ``until_step`` was released.

    ``baseline`` is the best guess without any count. The names of the bounds are in ``then_by`` and
    ``now_by``; each ceiling holds with probability ``confidence`` over the draws it rests on (1: on none).
    """

    first_step: int
    last_step: int
    until_step: int
    baseline: float
    then: float
    then_by: str
    now: float
    now_by: str
    confidence: float

    def within(self, nats: float) -> Hindsight:
        """The same with both ceilings raised to hold for every person within this radius of the prior."""
        return replace(self, then=ceiling_within(nats, self.then), now=ceiling_within(nats, self.now))


def hindsight(
    population: Population,
    person: int,
    log: Sequence[StepSchedule],
    first_slot: int,
    past: PastHorizon,
    effort: bounds.Effort | None = None,
    crowd: SeenInCrowd | None = None,
    *,
    calendar: Calendar | None = None,
) -> Hindsight | None:
    """The risk of one person's ``past`` steps; None where noise is shared between steps.

    Without ``crowd`` the adversary knows where everybody else is; with it, the adversary does not, and the
    person hides among the others of that log.

    ``log`` are consecutive released steps around them, as many as :func:`covers` asks for; ``first_slot`` is
    the slot of step 0, from which slots follow the ``calendar``, if any. Where several chains stand for the
    person, both ceilings are means over them.
    :class:`~accounting.exceptions.HorizonError` for steps outside the log.
    """
    if population.drawn is not None:
        chains = population.chains_of(np.array([person]))
        each = [
            hindsight(population.drawn, chain, log, first_slot, past, effort, crowd, calendar=calendar)
            for chain in chains
        ]
        return _mean([found for found in each if found is not None])
    begin, end = max(log[0].step, past.first - REACH), min(log[-1].step, past.last + REACH)
    steps = tuple(_shown(population, person, log, range(begin, end + 1)))
    observations = tuple(observe(step, population.location_count) for step in steps)
    if calendar is None:
        before = _before(population, person, first_slot, begin)
        exposure = Exposure(before.chain, before.marginal[-1], before.slot(begin), observations)
    else:
        chain, own = population.chain(person), population.initial(person)
        law = law_at(chain, own, 0, begin, calendar.first_slot, calendar)
        clock = chain_on_the_clock(chain, calendar, first_slot + begin, len(observations))
        exposure = Exposure(clock.chain, law, clock.first_slot, observations)
    if not exposure.has_independent_noise:
        return None
    window, mistakes = (past.first - begin, past.last - begin), past.mistakes
    if crowd is None:
        bound = partial(bounds.horizon_risk, exposure, *window, mistakes, effort=effort)
    else:
        seen = _among(crowd, steps)
        bound = partial(bounds.horizon_risk_in_crowd, exposure, seen, window, mistakes, effort=effort)
    then, now = bound(), bound(in_hindsight=True)
    least = min((then, now), key=lambda risk: risk.certified)  # what bounds success now bounded it then
    return Hindsight(
        first_step=past.first,
        last_step=past.last,
        until_step=log[-1].step,
        baseline=now.baseline,
        then=least.certified,
        then_by=least.by,
        now=now.certified,
        now_by=now.by,
        confidence=min(least.confidence, now.confidence),
    )


def _mean(each: Sequence[Hindsight]) -> Hindsight | None:
    if not each:
        return None
    count = len(each)
    then, now = max(each, key=lambda found: found.then), max(each, key=lambda found: found.now)
    return replace(
        each[0],
        baseline=sum(found.baseline for found in each) / count,
        then=sum(found.then for found in each) / count,
        then_by=then.then_by,
        now=sum(found.now for found in each) / count,
        now_by=now.now_by,
        confidence=max(0.0, 1.0 - sum(1.0 - found.confidence for found in each)),
    )


def covers(log: Sequence[StepSchedule], past: PastHorizon) -> bool:
    """Whether the log reaches far enough back for :func:`hindsight` to find what a longer one would."""
    return bool(log) and log[0].step <= max(0, past.first - REACH) and 0 <= past.last <= log[-1].step


def _before(population: Population, person: int, first_slot: int, until: int) -> Exposure:
    """The steps from the first to ``until``, with nothing released: where the person can be then."""
    nothing = Schedule((StepSchedule(0),), first_slot)
    count, initial = population.location_count, population.initial(person)
    start = Exposure.of(population.chain(person), nothing, count, initial)
    return Exposure(start.chain, start.start, start.first_slot, start.observations * (until + 1))


def _among(crowd: SeenInCrowd, steps: Sequence[StepSchedule]) -> SeenInCrowd:
    """These of the crowd's steps; where the person's place is shown instead, nothing hides it."""
    found = []
    for step in steps:
        number = step.step - crowd.steps[0].step
        is_shown = step != crowd.steps[number]
        found.append((SensorCrowd(),) * len(step.counting) if is_shown else crowd.crowds[number])
    return replace(crowd, steps=steps, crowds=found)


def _shown(
    population: Population, person: int, log: Sequence[StepSchedule], span: range
) -> Iterator[StepSchedule]:
    """What was released in these steps of the log; the person's place where the log goes on beyond them."""
    places = population.chain(person).places.tolist()
    known = tuple(SensorRelease(Sensor(f"place {place}", (place,)), Raw()) for place in places)
    for step in log[span[0] - log[0].step : span[-1] + 1 - log[0].step]:
        is_cut = step.step == span[0] > 0 or step.step == span[-1] < log[-1].step
        yield replace(step, releases=known) if is_cut else step
