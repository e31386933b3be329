"""What one step shows an informed adversary about one person.

Knowing everybody else, the adversary sees for each active sensor whether the person is counted there, exactly
or under noise. So a step is a map from locations to *outcomes*: outcome 0 is "counted nowhere", every other
outcome is one set of sensors that count the person together. Two outcomes are distinguished by
the noise of the sensors in which they differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from math import exp
from typing import NamedTuple

import numpy as np

from accounting.exposure.step_information.renewal_kernel import surprise
from models.exceptions import ScheduleError
from models.mechanisms import Composite, Mechanism, Tabulated, shares_noise, truncated_mass
from models.noise.noise_information import InformationTable, table_information, truncation_information_nats
from models.numerics.arrays import Floats, Integers, Integers32
from models.numerics.jit import bare_jit, jit
from models.priors.chain import ChainView
from models.releases import SensorRelease, StepSchedule

# What one step adds to the information about one person: the fast terms, a few operations per sensor.
#
# ``unconditioned`` bounds ``I(X_t; Y_t)``; ``conditional`` bounds ``I(X; Y_t | Y_w..Y_{t-1})`` for every
# earlier ``w``. Koga, Meehan, Chaudhuri, *Measuring Privacy Loss in Distributed Spatio-Temporal Data*,
# section 3.3, for one sensor; here for any number of sensors, exact and noised. The audit of one person and
# the accountant of everybody both take a step's information from here.


class StepView(NamedTuple):
    """One step in the form the kernels read; see ``observation.StepObservation``."""

    labels: Integers32  # (M,) outcome of each location, 0 = counted nowhere
    outcome_start: Integers32  # (O + 1,) outcome k is counted by sensors outcome_start[k] ..
    outcome_sensor: Integers32  # .. to outcome_start[k + 1] of this list, increasing
    divergence: Floats  # (S,) nats at shift one, of the ideal noise; inf for an exact count
    truncation_nats: Floats  # (S,) what the sampler's distance from that noise may add
    table: Integers32  # (S,) row of information_nats; -1: as if the count were exact
    information_grid: Floats  # (G,) knots common to all mechanisms' tables
    information_nats: Floats  # (tables, G)
    closeness: Floats  # (O,) exp(-D) to "counted nowhere"
    is_disjoint: bool  # no sensor counts for two outcomes, so their closenesses multiply
    is_raw: bool


class Seen(NamedTuple):
    """Outcomes of one step that one person can cause, numbered from 1; all zero between people."""

    mass: Floats  # (O,) probability of each outcome
    number: Integers  # (O,) its number, 0 for all that the person cannot cause
    outcome: Integers  # (O,) the outcome of each number less one


class TermsScratch(NamedTuple):
    """Working memory of one thread; all zero between people."""

    now: Seen
    before: Seen
    joint: Floats  # by numbers before and now, 0 for "counted nowhere"
    sensor_mass: Floats  # (S,)
    sensor: Integers  # (S,) the sensors that can count the person


class StepTerms(NamedTuple):
    """Information of one step about one person, nats, each an upper bound."""

    unconditioned: float
    conditional: float


class NoisedTerms(NamedTuple):
    """Bounds on ``I(X_t; Y_t)`` of a step that is not all raw, nats; each holds on its own."""

    pairwise: float
    separate: float


@jit
def new_seen(step: StepView) -> Seen:
    """Working memory for the outcomes of one step."""
    outcomes = step.outcome_start.size - 1
    return Seen(np.zeros(outcomes), np.zeros(outcomes, dtype=np.int64), np.zeros(outcomes, dtype=np.int64))


@jit
def new_terms_scratch(step_before: StepView, step: StepView, most_places: int) -> TermsScratch:
    """Working memory for one task, for people with at most ``most_places`` places."""
    rows = min(step_before.outcome_start.size, most_places + 1)
    columns = min(step.outcome_start.size, most_places + 1)
    sensors = step.divergence.size
    return TermsScratch(
        new_seen(step),
        new_seen(step_before),
        np.zeros((rows, columns)),
        np.zeros(sensors),
        np.zeros(sensors, dtype=np.int64),
    )


@bare_jit
def collect_outcomes(places: Integers32, distribution: Floats, labels: Integers32, seen: Seen) -> int:
    """Add up the probability of each outcome over the person's places; how many outcomes were seen."""
    count = 0
    for x in range(places.size):
        outcome = labels[places[x]]
        if outcome > 0 and distribution[x] > 0.0:
            if seen.number[outcome] == 0:
                seen.outcome[count] = outcome
                count += 1
                seen.number[outcome] = count
            seen.mass[outcome] += distribution[x]
    return count


@bare_jit
def forget_outcomes(seen: Seen, count: int) -> None:
    """Leave the working memory as it was found."""
    for k in range(count):
        seen.mass[seen.outcome[k]] = 0.0
        seen.number[seen.outcome[k]] = 0


@bare_jit
def nowhere_mass(seen: Seen, count: int) -> float:
    """Probability of the outcome "counted nowhere"."""
    rest = 1.0
    for k in range(count):
        rest -= seen.mass[seen.outcome[k]]
    return max(rest, 0.0)


@bare_jit
def overlap(step: StepView, one: int, other: int) -> float:
    """``exp(-D)``, ``D`` the divergence between two outcomes, a sum over the sensors in which they differ."""
    i, last_i = step.outcome_start[one], step.outcome_start[one + 1]
    j, last_j = step.outcome_start[other], step.outcome_start[other + 1]
    divergence = 0.0
    while i < last_i or j < last_j:
        if j == last_j or (i < last_i and step.outcome_sensor[i] < step.outcome_sensor[j]):
            divergence += step.divergence[step.outcome_sensor[i]]
            i += 1
        elif i == last_i or step.outcome_sensor[j] < step.outcome_sensor[i]:
            divergence += step.divergence[step.outcome_sensor[j]]
            j += 1
        else:
            i += 1
            j += 1
    return np.exp(-divergence)


@bare_jit
def _pairwise_information(seen: Seen, count: int, step: StepView) -> float:
    """``-sum_i p_i ln sum_j p_j exp(-D_ij)``: Koga et al. eq. (4) for any number of sensors and noises.

    The mixture bound of Kolchinsky and Tracey (*Estimating Mixture Entropy with Pairwise Distances*, 2017)
    with the Kullback-Leibler divergence as distance.
    """
    rest = nowhere_mass(seen, count)
    if step.is_disjoint:
        return _factorised_information(seen, count, step.closeness, rest)
    total = 0.0
    for i in range(-1, count):
        outcome = seen.outcome[i] if i >= 0 else 0
        probability = seen.mass[outcome] if i >= 0 else rest
        if probability > 0.0:
            likeness = rest * overlap(step, outcome, 0)
            for j in range(count):
                likeness += seen.mass[seen.outcome[j]] * overlap(step, outcome, seen.outcome[j])
            total -= probability * np.log(likeness)
    return total


@bare_jit
def _factorised_information(seen: Seen, count: int, closeness: Floats, rest: float) -> float:
    """:func:`_pairwise_information` where overlaps are products, in time linear in the outcomes."""
    near = rest
    for k in range(count):
        near += seen.mass[seen.outcome[k]] * closeness[seen.outcome[k]]
    total = -rest * np.log(near) if rest > 0.0 else 0.0
    for k in range(count):
        outcome = seen.outcome[k]
        probability, factor = seen.mass[outcome], closeness[outcome]
        others = max(0.0, near - probability * factor)
        total -= probability * np.log(probability + factor * others)
    return total


@bare_jit
def noised_terms(scratch: TermsScratch, count: int, step: StepView) -> NoisedTerms:
    """Bounds on the information of the step whose ``count`` outcomes are in ``scratch.now``.

    ``separate`` sums over sensors the exact information of "counted by this sensor" and its value:
    ``I(X; Y_1..Y_n) <= sum_k I(X; Y_k)`` as the noises are independent given ``X``. ``pairwise`` is charged
    what the samplers' distance from the ideal noise can add, of all sensors that may count the person.
    """
    pairwise = max(0.0, _pairwise_information(scratch.now, count, step))
    sensors = 0
    for k in range(count):
        outcome = scratch.now.outcome[k]
        for j in range(step.outcome_start[outcome], step.outcome_start[outcome + 1]):
            sensor = step.outcome_sensor[j]
            if scratch.sensor_mass[sensor] == 0.0:
                scratch.sensor[sensors] = sensor
                sensors += 1
            scratch.sensor_mass[sensor] += scratch.now.mass[outcome]
    separate = 0.0
    for k in range(sensors):
        sensor = scratch.sensor[k]
        probability = min(scratch.sensor_mass[sensor], 1.0)
        scratch.sensor_mass[sensor] = 0.0
        pairwise += step.truncation_nats[sensor]
        if step.table[sensor] < 0:
            separate += surprise(probability) + surprise(1.0 - probability)
        else:
            row = step.information_nats[step.table[sensor]]
            separate += table_information(InformationTable(step.information_grid, row), probability)
    return NoisedTerms(pairwise, separate)


@bare_jit
def conditional_entropy(
    chain: ChainView,
    slot_before: int,
    before: Floats,
    labels_before: Integers32,
    labels: Integers32,
    scratch: TermsScratch,
    count: int,
    count_before: int,
) -> float:
    """``H(Y_t | Y_{t-1})`` of two raw steps, from the marginal before and the active columns."""
    for y in range(chain.places.size):
        number = scratch.now.number[labels[chain.places[y]]]
        if number > 0:
            for j in range(chain.column_start[slot_before, y], chain.column_start[slot_before, y + 1]):
                x = chain.row[j]
                origin = scratch.before.number[labels_before[chain.places[x]]]
                scratch.joint[origin, number] += before[x] * chain.value[j]
    entropy = 0.0
    for i in range(count_before + 1):
        if i > 0:
            probability = scratch.before.mass[scratch.before.outcome[i - 1]]
        else:
            probability = nowhere_mass(scratch.before, count_before)
        rest = probability
        for k in range(1, count + 1):
            rest -= scratch.joint[i, k]
            entropy += surprise(scratch.joint[i, k])
            scratch.joint[i, k] = 0.0
        entropy += surprise(rest) - surprise(probability)
    return max(0.0, entropy)


@bare_jit
def step_terms(
    chain: ChainView,
    slot_before: int,
    before: Floats,
    now: Floats,
    step_before: StepView,
    step: StepView,
    scratch: TermsScratch,
) -> StepTerms:
    """The two terms of one step; ``before`` and ``now`` are the person's marginals of the two steps."""
    count = collect_outcomes(chain.places, now, step.labels, scratch.now)
    if count == 0:
        return StepTerms(0.0, 0.0)
    unconditioned = surprise(nowhere_mass(scratch.now, count))  # H(Y_t) of the raw step
    for k in range(count):
        unconditioned += surprise(scratch.now.mass[scratch.now.outcome[k]])
    if not step.is_raw:
        noised = noised_terms(scratch, count, step)
        # The entropy holds too: by data processing the raw step reveals more.
        unconditioned = min(unconditioned, noised.pairwise, noised.separate)
    conditional = unconditioned
    if step.is_raw and step_before.is_raw:
        count_before = collect_outcomes(chain.places, before, step_before.labels, scratch.before)
        if count_before > 0:
            given = conditional_entropy(
                chain, slot_before, before, step_before.labels, step.labels, scratch, count, count_before
            )
            conditional = min(conditional, given)
            forget_outcomes(scratch.before, count_before)
    forget_outcomes(scratch.now, count)
    return StepTerms(unconditioned, conditional)


@jit
def person_terms(
    chain: ChainView, slot_before: int, before: Floats, now: Floats, step_before: StepView, step: StepView
) -> StepTerms:
    """:func:`step_terms` of a single person."""
    scratch = new_terms_scratch(step_before, step, chain.places.size)
    return step_terms(chain, slot_before, before, now, step_before, step, scratch)


@jit
def person_noised_terms(places: Integers32, now: Floats, step: StepView) -> NoisedTerms:
    """:func:`noised_terms` of a single person."""
    scratch = new_terms_scratch(step, step, places.size)
    count = collect_outcomes(places, now, step.labels, scratch.now)
    return noised_terms(scratch, count, step)


_MOST_KEPT = 256  # a week of hours, each with sensors of its own, and more


@dataclass(frozen=True)
class StepObservation:
    """One step as the accountants see it.

    ``labels`` (M,) gives the outcome of each location, ``outcomes[k]`` the positions (in ``mechanisms``) of
    the sensors that count someone in outcome ``k``; ``outcomes[0]`` is empty. Suppressed sensors are left out
    as they show nothing; ``sensors`` are the names of the others.
    """

    labels: Integers32
    outcomes: tuple[tuple[int, ...], ...]
    mechanisms: tuple[Mechanism, ...]
    sensors: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is released."""
        return not self.mechanisms

    @cached_property
    def _different(self) -> tuple[Mechanism, ...]:
        """Each mechanism once: sensors share few, and comparing is faster than computing what each can do."""
        return tuple(dict.fromkeys(self.mechanisms))

    @cached_property
    def is_raw(self) -> bool:
        """Whether everything that is released is released exactly; true for an empty step."""
        return all(mechanism.is_exact for mechanism in self._different)

    @cached_property
    def has_independent_noise(self) -> bool:
        """Whether the noise of every release here is independent of that of other steps.

        Divergence, information and reveal probability of a mechanism hold either way; its noise law is the
        law of one step alone.
        """
        return not any(map(shares_noise, self._different))

    @cached_property
    def can_be_drawn(self) -> bool:
        """Whether what is released here has a law of this step alone.

        Not where steps share noise, where it is not known how often a person is counted, or where several
        values are published of one count.
        """
        is_composite = any(isinstance(own, Composite) for own in self._different)
        return self.has_independent_noise and not is_composite

    @property
    def is_disjoint(self) -> bool:
        """Whether no sensor is in two outcomes."""
        members = list(chain.from_iterable(self.outcomes))
        return len(set(members)) == len(members)

    @property
    def is_separate(self) -> bool:
        """Whether no count says anything of another."""
        return self.is_disjoint and all(len(own) == 1 for own in self.outcomes[1:])

    @cached_property
    def view(self) -> StepView:
        """The step in the form kernels read. A mechanism without a table counts as exact: errs upwards."""
        counts = [len(sensors) for sensors in self.outcomes]
        divergence = [mechanism.divergence() for mechanism in self.mechanisms]
        truncation = {
            mechanism: truncation_information_nats(truncated_mass(mechanism)) for mechanism in self._different
        }
        members = list(chain.from_iterable(self.outcomes))
        rows: dict[Mechanism, int] = {}
        tables: list[InformationTable] = []
        for mechanism in self._different:
            if isinstance(mechanism, Tabulated):
                rows[mechanism] = len(tables)
                tables.append(mechanism.information_table())
        return StepView(
            labels=self.labels,
            outcome_start=np.concatenate(([0], np.cumsum(counts))).astype(np.int32),
            outcome_sensor=np.array(members, dtype=np.int32),
            divergence=np.array(divergence, dtype=np.float64),
            truncation_nats=np.array([truncation[own] for own in self.mechanisms], dtype=np.float64),
            table=np.array([rows.get(mechanism, -1) for mechanism in self.mechanisms], dtype=np.int32),
            information_grid=tables[0].grid if tables else np.zeros(1),
            information_nats=np.array([table.information_nats for table in tables]).reshape(len(tables), -1)
            if tables
            else np.zeros((0, 1)),
            closeness=np.array([exp(-sum(divergence[each] for each in own)) for own in self.outcomes]),
            is_disjoint=self.is_disjoint,
            is_raw=self.is_raw,
        )


def nothing_seen(location_count: int) -> StepView:
    """A step in which nothing is released."""
    return StepObservation(np.zeros(location_count, dtype=np.int32), ((),), ()).view


def observe(step: StepSchedule, location_count: int) -> StepObservation:
    """The observation of one step in a deployment with ``location_count`` locations.

    The same object when its releases come again, so that what follows from them is computed once.
    """
    return observed(step.releases, location_count)


@lru_cache(_MOST_KEPT)
def observed(releases: tuple[SensorRelease, ...], location_count: int) -> StepObservation:
    """The observation of a step with these releases."""
    released = [release for release in releases if release.mechanism.is_released]
    members: dict[int, list[int]] = {}
    for position, release in enumerate(released):
        for location in release.sensor.locations:
            members.setdefault(location, []).append(position)
    outcomes: dict[tuple[int, ...], int] = {(): 0}
    if max(members, default=-1) >= location_count:
        raise ScheduleError(
            f"sensors must count locations of the population, 0..{location_count - 1}",
            max(members),
            "correct the schedule",
        )
    labels = np.zeros(location_count, dtype=np.int32)
    for location in sorted(members):
        labels[location] = outcomes.setdefault(tuple(members[location]), len(outcomes))
    mechanisms = tuple(release.accounted for release in released)
    return StepObservation(
        labels, tuple(outcomes), mechanisms, tuple(release.sensor.name for release in released)
    )


def view_of(releases: tuple[SensorRelease, ...], location_count: int) -> StepView:
    """The kernel form of a step with these releases; the same object when they come again."""
    return observed(releases, location_count).view
