"""Drawn trajectories and what is published of them, for simulated adversaries and bounds by sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from accounting.exceptions import UnknownReleaseError
from accounting.exposure.step_information import StepObservation
from models.mechanisms import Mechanism
from models.numerics.arrays import Flags, Floats, Integers, Integers32, Words
from models.numerics.elementwise import log
from models.numerics.jit import bare_jit, jit
from models.priors.chain import ChainView, LocalChain

# Seeded draws for simulated adversaries: SplitMix64 streams and alias tables.
#
# A stream is a number inside a kernel. It shares no type with the keyed uniform bits that published noise
# is made of, so neither can be passed for the other. SplitMix64: Steele, Lea, Flood, "Fast splittable
# pseudorandom number generators" (OOPSLA 2014). Alias tables: Vose (1991).

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_TO_UNIT = 2.0**-53


class AliasTables(NamedTuple):
    """Many discrete laws, one after the other; law ``i`` owns ``[first[i], first[i + 1])`` of the rest.

    Of its ``n`` cells one is chosen uniformly; ``value`` is drawn with ``threshold``, ``other`` otherwise.
    """

    first: Integers  # (laws + 1,)
    threshold: Floats
    value: Integers
    other: Integers


class Walker(NamedTuple):
    """What simulating trajectories of one person needs: law 0 is the start, law ``1 + slot K + x`` a row."""

    places: int
    slots: int
    first_slot: int
    tables: AliasTables


class Draws(NamedTuple):
    """Which draws: ``number`` of them from the stream that ``seed`` and ``block`` name."""

    seed: int
    block: int
    number: int


@bare_jit
def _mix(state: np.uint64) -> np.uint64:
    z = state
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@jit
def new_stream(draws: Draws) -> Words:
    """The stream (1,) of one block of draws: blocks can be drawn in any order, by any thread."""
    stream = np.empty(1, np.uint64)
    begin_stream(draws, stream)
    return stream


@bare_jit
def begin_stream(draws: Draws, stream: Words) -> None:
    """Let a stream (1,) be that of one block of draws."""
    stream[0] = _mix(_mix(np.uint64(draws.seed) + _GOLDEN) + np.uint64(draws.block) * _GOLDEN)


@bare_jit
def uniform(stream: Words) -> float:
    """The next number in [0, 1) with 53 bits."""
    stream[0] += _GOLDEN
    return np.float64(_mix(stream[0]) >> _S11) * _TO_UNIT


@bare_jit
def draw(tables: AliasTables, law: int, stream: Words) -> int:
    """One value of a law, from one uniform number: leading bits choose the cell, the rest decides in it."""
    first = tables.first[law]
    scaled = uniform(stream) * (tables.first[law + 1] - first)
    cell = int(scaled)
    # Both are loaded, so that the processor has no branch to guess.
    value, other = tables.value[first + cell], tables.other[first + cell]
    return value if scaled - cell < tables.threshold[first + cell] else other


@jit
def _fill_alias(weight: Floats, first: int, last: int, tables: AliasTables) -> None:
    """Vose's construction for the law ``weight[first:last]``; zero weights are never drawn."""
    count = last - first
    scaled = weight[first:last] * (count / weight[first:last].sum())
    small = np.empty(count, np.int64)
    large = np.empty(count, np.int64)
    smalls = larges = 0
    for i in range(count):
        tables.threshold[first + i] = 1.0
        tables.other[first + i] = tables.value[first + i]
        if scaled[i] < 1.0:
            small[smalls] = i
            smalls += 1
        else:
            large[larges] = i
            larges += 1
    while smalls > 0 and larges > 0:
        low, high = small[smalls - 1], large[larges - 1]
        tables.threshold[first + low] = scaled[low]
        tables.other[first + low] = tables.value[first + high]
        scaled[high] -= 1.0 - scaled[low]
        smalls -= 1
        if scaled[high] < 1.0:
            larges -= 1
            small[smalls] = high
            smalls += 1
    for i in range(smalls):  # left over by rounding: of weight one, unless it must never be drawn
        if weight[first + small[i]] == 0.0:
            tables.threshold[first + small[i]] = 0.0
            tables.other[first + small[i]] = tables.value[first + weight[first:last].argmax()]


@jit
def alias_tables(first: Integers, value: Integers, weight: Floats) -> AliasTables:
    """Tables of the laws ``weight[first[i]:first[i + 1]]`` on ``value``; weights need not sum to one."""
    tables = AliasTables(first, np.ones(weight.size), value, value.copy())
    for law in range(first.size - 1):
        if first[law + 1] > first[law]:
            _fill_alias(weight, first[law], first[law + 1], tables)
    return tables


@jit
def _count_rows(chain: ChainView) -> Integers:
    """Entries before each law of a walker: the start, then each slot's rows."""
    slots, places = chain.start.shape
    first = np.zeros(2 + slots * places, np.int64)
    first[1] = places
    for slot in range(slots):
        for j in range(chain.column_start[slot, 0], chain.column_start[slot, places]):
            first[2 + slot * places + chain.row[j]] += 1
    return first.cumsum()


@jit
def new_walker(person: LocalChain) -> Walker:
    """Alias tables of a person's start and rows, turned around from the columns."""
    chain = person.chain
    slots, places = chain.start.shape
    first = _count_rows(chain)
    value = np.empty(first[-1], np.int64)
    weight = np.empty(first[-1])
    value[:places] = np.arange(places)
    weight[:places] = person.start
    filled = first.copy()
    for slot in range(slots):
        for y in range(places):
            for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
                law = 1 + slot * places + chain.row[j]
                value[filled[law]] = y
                weight[filled[law]] = chain.value[j]
                filled[law] += 1
    return Walker(places, slots, person.first_slot, alias_tables(first, value, weight))


@bare_jit
def walk(walker: Walker, stream: Words, trace: Integers32) -> None:
    """One trajectory into ``trace`` (T,)."""
    place = draw(walker.tables, 0, stream)
    trace[0] = place
    for step in range(1, trace.size):
        slot = (walker.first_slot + step - 1) % walker.slots
        place = draw(walker.tables, 1 + slot * walker.places + place, stream)
        trace[step] = place


# What noised and mixed releases show: drawing published values, and how likely they are per outcome.
#
# A raw sensor is one whose noise is always 0, so raw, noised and mixed schedules are one case here. The
# noise's own probabilities are used: an observation can exclude an outcome altogether.


class NoiseTables(NamedTuple):
    """Noise laws, one after the other.

    Law ``l`` gives the value ``first[l] + i`` the probability ``e^log_probability[tables.first[l] + i]``.
    """

    first: Integers  # (laws,)
    log_probability: Floats
    tables: AliasTables


class ReleasedSteps(NamedTuple):
    """All releases of ``T`` steps; ``R`` is the most in one step, ``O`` the most outcomes."""

    releases: Integers  # (T,) how many
    outcomes: Integers  # (T,) how many
    law: Integers  # (T, R) of the noise
    counted: Integers  # (T, O, R) 1 where the outcome is counted by the sensor
    noise: NoiseTables


@bare_jit
def publish_trace(steps: ReleasedSteps, labels: Integers32, stream: Words, log_likelihood: Floats) -> None:
    """Publish every step of a person with the outcomes ``labels`` (T,); fills ``log_likelihood`` (T, O)."""
    for step in range(labels.size):
        for other in range(steps.outcomes[step]):
            log_likelihood[step, other] = 0.0
        for r in range(steps.releases[step]):
            law = steps.law[step, r]
            begin, end = steps.noise.tables.first[law], steps.noise.tables.first[law + 1]
            seen = steps.counted[step, labels[step], r] + draw(steps.noise.tables, law, stream)
            for other in range(steps.outcomes[step]):
                index = seen - steps.counted[step, other, r]  # of the noise value among the law's
                is_possible = 0 <= index < end - begin
                log_likelihood[step, other] += (
                    steps.noise.log_probability[begin + index] if is_possible else -np.inf
                )


@bare_jit
def relative_likelihoods(log_likelihood: Floats, outcomes: Integers, likelihood: Floats) -> None:
    """Likelihoods (T, O), the largest of each step 1."""
    for step in range(outcomes.size):
        top = log_likelihood[step, 0]
        for outcome in range(1, outcomes[step]):
            top = max(top, log_likelihood[step, outcome])
        for outcome in range(outcomes[step]):
            likelihood[step, outcome] = np.exp(log_likelihood[step, outcome] - top)


# What is released about one person's own places, drawn as likelihoods of these places.
#
# A sensor's count shows the noise, or the noise and one more. Of the value drawn only the ratio of the two
# probabilities matters, so both are kept divided by the larger one.


class ValueTables(NamedTuple):
    """How likely each value is without and with the person; law ``l``'s values begin at ``first[l]``."""

    first: Integers  # (laws,)
    absent: Floats
    present: Floats
    noise: AliasTables


class OwnReleases(NamedTuple):
    """Releases that tell a person's places apart; those of step ``t`` are ``first[t]..first[t + 1] - 1``."""

    first: Integers  # (T + 1,)
    law: Integers  # (R,)
    counted: Flags  # (R, K) whether a place is counted
    values: ValueTables


@jit
def value_tables(noise: NoiseTables) -> ValueTables:
    """Tables of noise laws: value ``i`` is noise number ``i``, or noise number ``i - 1`` and the person."""
    begin, log_probability = noise.tables.first, noise.log_probability
    laws = begin.size - 1
    first = begin[:-1] + np.arange(laws)
    absent, present = np.zeros(begin[laws] + laws), np.zeros(begin[laws] + laws)
    for law in range(laws):
        size = begin[law + 1] - begin[law]
        for i in range(size + 1):
            without = log_probability[begin[law] + i] if i < size else -np.inf
            counted = log_probability[begin[law] + i - 1] if i > 0 else -np.inf
            if max(without, counted) > -np.inf:
                absent[first[law] + i] = np.exp(min(0.0, without - counted)) if without > -np.inf else 0.0
                present[first[law] + i] = np.exp(min(0.0, counted - without)) if counted > -np.inf else 0.0
    return ValueTables(first, absent, present, noise.tables)


@jit
def own_releases(steps: ReleasedSteps, labels: Integers32, values: ValueTables) -> OwnReleases:
    """The releases that tell places apart, for a person whose places have the outcomes ``labels`` (T, K).

    A release that counts all of them or none shows the same noise wherever the person is.
    """
    count, places = labels.shape
    most = steps.releases.sum()
    first, law = np.zeros(count + 1, np.int64), np.empty(most, np.int64)
    counted = np.empty((most, places), np.bool_)
    own = 0
    for t in range(count):
        for r in range(steps.releases[t]):
            inside = 0
            for x in range(places):
                counted[own, x] = steps.counted[t, labels[t, x], r] > 0
                inside += counted[own, x]
            if 0 < inside < places:
                law[own] = steps.law[t, r]
                own += 1
        first[t + 1] = own
    return OwnReleases(first, law[:own], counted[:own], values)


@bare_jit
def draw_likelihoods(releases: OwnReleases, trace: Integers32, stream: Words, likelihood: Floats) -> None:
    """Publish every step of a ``trace`` (T,); ``likelihood`` (T, K) of the values up to a factor a step."""
    values, counted = releases.values, releases.counted
    likelihood[:] = 1.0
    for t in range(trace.size):
        here = np.uint64(t)
        for r in range(np.uint64(releases.first[t]), np.uint64(releases.first[t + 1])):
            law = releases.law[r]
            value = values.first[law] + draw(values.noise, law, stream) + counted[r, trace[t]]
            absent, present = values.absent[value], values.present[value]
            for x in range(np.uint64(likelihood.shape[1])):
                likelihood[here, x] *= present if counted[r, x] else absent


# Observations in the form the simulating kernels want.


def released_steps(observations: Sequence[StepObservation]) -> ReleasedSteps:
    """Pack the observations of ``T`` steps; equal mechanisms share one table of their noise's law.

    :class:`UnknownReleaseError` where steps share noise, which these tables cannot express.
    """
    if not all(observation.can_be_drawn for observation in observations):
        raise UnknownReleaseError(
            "an attack must be tried on releases whose noise is independent from step to step",
            "correlated noise",
            "leave attacks out; bounds hold for correlated noise too",
        )
    laws: dict[Mechanism, int] = {}
    for observation in observations:
        for mechanism in observation.mechanisms:
            laws.setdefault(mechanism, len(laws))
    most_releases = max(1, *(len(observation.mechanisms) for observation in observations))
    most_outcomes = max(len(observation.outcomes) for observation in observations)
    law = np.zeros((len(observations), most_releases), np.int64)
    counted = np.zeros((len(observations), most_outcomes, most_releases), np.int64)
    for t, observation in enumerate(observations):
        law[t, : len(observation.mechanisms)] = [laws[mechanism] for mechanism in observation.mechanisms]
        for outcome, sensors in enumerate(observation.outcomes):
            counted[t, outcome, list(sensors)] = 1
    releases = np.array([len(observation.mechanisms) for observation in observations])
    outcomes = np.array([len(observation.outcomes) for observation in observations])
    return ReleasedSteps(releases, outcomes, law, counted, noise_tables(tuple(laws)))


def noise_values(mechanisms: Sequence[Mechanism]) -> ValueTables:
    """What the noise of these mechanisms shows about one person, one law each, in their order."""
    return value_tables(noise_tables(mechanisms))


def noise_tables(mechanisms: Sequence[Mechanism]) -> NoiseTables:
    """The noise laws of these mechanisms; without any there is one law that is never drawn."""
    laws = [mechanism.noise_law() for mechanism in mechanisms]
    known = [law for law in laws if law is not None]
    assert len(known) == len(laws), "observations leave suppressed sensors out"
    probabilities = [law.probabilities for law in known] or [np.ones(1)]
    starts = np.array([law.first for law in known] or [0], np.int64)
    first = np.concatenate([[0], np.cumsum([len(each) for each in probabilities])]).astype(np.int64)
    value = np.concatenate([np.arange(len(each)) for each in probabilities])
    weight = np.concatenate(probabilities)
    return NoiseTables(starts, log(weight), alias_tables(first, value, weight))
