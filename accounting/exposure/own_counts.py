"""What one person adds to counts over windows of steps: laws of own counts, and what they reveal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from accounting.exposure.exposure import Exposure, entropy_nats
from accounting.exposure.history import carried_backward, carried_forward, check_window
from accounting.exposure.step_information.contraction_kernel import dense_matrix
from models.mechanisms import SeenRelease, Tabulated, revealed_by_shift, shares_noise
from models.noise import own_count_information
from models.noise.noise_information import InformationTable, table_information
from models.numerics.arrays import Flags, Floats, Integers
from models.numerics.jit import pjit
from models.priors import PopulationArrays
from models.priors.chain import chain_view
from models.releases import MoveSensor, RevealedAmount, RevealedMove, WindowRelease

# What single moves reveal about everybody.


@pjit(lambda population, *_: population.slots.size, least=256)
def add_move_information(
    begin: int,
    end: int,
    population: PopulationArrays,
    own_before: Floats,
    before: Flags,
    after: Flags,
    slot_before: int,
    table: InformationTable,
    nats: Floats,
) -> None:
    """Add to ``nats`` (N,) the information of "makes one of the moves" and its noised count.

    The ``R`` moves lead from the places ``before`` (R, M) to those ``after`` (R, M); ``table`` says what
    their noised count reveals. ``slot_before`` is the slot of the step before, not yet modulo a cycle.
    ``own_before`` has the law of the place in that step of people with an initial distribution, packed like
    the population's.
    """
    for person in range(begin, end):
        chain = chain_view(population, person)
        slot = slot_before % chain.start.shape[0]
        law = chain.start[slot]
        first, last = population.initial_start[person], population.initial_start[person + 1]
        if first < last:
            law = own_before[first:last]
        probability = 0.0
        for pair in range(after.shape[0]):
            for y in range(chain.places.size):
                if after[pair, chain.places[y]]:
                    for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
                        x = chain.row[j]
                        if before[pair, chain.places[x]]:
                            probability += law[x] * chain.value[j]
        nats[person] += table_information(table, min(probability, 1.0))


# What counts of windows and moves reveal about everybody, nats, added up by the step in which it comes out.
#
# A release that depends on the places up to step ``t`` reveals ``i >= I(n; Y)`` of its own count, given
# whatever else was released. Carried to later steps it counts as what a count of presence in step ``t``
# would:
#
# - one more release adds ``i`` to what all reveal about any steps: ``H(Y | others) <= H(Y)``, and its noise
#   is independent of everything else;
# - of a later step ``w`` it reveals ``eta i``, ``eta`` the contraction of the moves from ``t`` to ``w``:
#   given what was released before, and the place in step ``t``, the place in step ``w`` does not depend on
#   it;
# - a trace that ends with ``t`` learns ``i`` more than the one before it did.
#
# So ``i`` may be added to the terms of step ``t`` (:mod:`accounting.continuous.horizon_kernel`), though the
# release also reveals earlier places. It does not bound what is left of it once the horizon is shown: for a
# horizon that begins within a window the account as if every count were exact must add it.


class RevealedInformation:
    """What counts of windows and moves reveal about each person of one population; lookups are kept."""

    def __init__(self, population: PopulationArrays, locations: int) -> None:
        self._population = population
        self._locations = locations
        self._reach: dict[tuple[int, ...], Flags] = {}

    def nats(
        self, revealed: Iterable[RevealedMove | RevealedAmount], slot_before: int, own_before: Floats
    ) -> Floats:
        """What a step reveals about each person, (N,).

        ``slot_before`` is the slot of the step before it, ``own_before`` the law in that step of the people
        who start from a distribution of their own.
        """
        found = np.zeros(self._population.slots.size)
        for each in revealed:
            if isinstance(each, RevealedAmount):
                found += np.where(self._reaches(each.locations), each.nats, 0.0)
                continue
            assert isinstance(each.mechanism, Tabulated)
            before, after = (np.stack([self._at(pair[side]) for pair in each.counted]) for side in (0, 1))
            table = each.mechanism.information_table()
            add_move_information(self._population, own_before, before, after, slot_before, table, found)
        return found

    def _at(self, locations: tuple[int, ...]) -> Flags:
        """Which locations these are, (M,)."""
        found = np.zeros(self._locations, dtype=np.bool_)
        found[list(locations)] = True
        return found

    def _reaches(self, locations: tuple[int, ...]) -> Flags:
        """Which people can be at one of them, (N,)."""
        if locations not in self._reach:
            arrays = self._population
            owner = np.repeat(np.arange(arrays.slots.size), np.diff(arrays.places_start))
            here = self._at(locations)[arrays.places]
            self._reach[locations] = np.bincount(owner, here, minlength=arrays.slots.size) > 0.0
        return self._reach[locations]


# The law of what one person adds to a release over a window, and how well the noise hides it.


@dataclass(frozen=True, eq=False)
class OwnCount:
    """One person's own count in a release.

    ``law`` (L + 1,) has the probability of each value if the device counts what it should. ``spread`` is how
    far two values that the person can have lie apart; of a device that miscounts ``most_counts``.
    ``information_nats`` bounds what is published says about the movements, exactly ``I(n; Y)`` of a device
    that counts what it should with noise of its own. Of noise that several releases share it is what the
    part of this one reveals where the rest is known. Where the count ``is_constant`` the movements make no
    difference to it, so that it reveals nothing about them.

    Of a device that miscounts, or corrects its counts, nothing may be concluded from ``law``. One that is
    down for a part of the window misses a person because of *when* they were counted: what it reads is no
    function of ``n``, only of what is counted in each fine step. A person who changes place at every step is
    counted once in two steps for sure; a device that is down in the second reads where they began.
    """

    release: WindowRelease
    law: Floats
    spread: int
    information_nats: float
    is_constant: bool = False

    def reveal_probability(self) -> float:
        """Reveal probability of the noise for any two values that the person can have."""
        return self.release.reveal_probability(self.spread)


def own_count(exposure: Exposure, release: WindowRelease) -> OwnCount:
    """The own count of the person of ``exposure``, whose steps the release's window counts from 0."""
    law, mechanism = own_count_law(exposure, release), release.mechanism
    noise = mechanism.noise_law()
    if not release.is_of_own_count:
        fine = fine_entropy(exposure, release)
        nats = min(release.reveal_probability(release.most_counts) * fine, release.most_revealed())
        return OwnCount(release, law, release.most_counts, 0.0 if noise is None else nats, fine == 0.0)
    possible = np.flatnonzero(law)
    spread = int(possible[-1] - possible[0])
    if noise is None:
        nats = 0.0
    elif shares_noise(mechanism):  # whose law of one release says nothing of what the others tell of it
        nats = revealed_by_shift(mechanism, spread) * entropy_nats(law)
    else:
        nats = own_count_information(law, noise.probabilities)
    return OwnCount(release, law, spread, nats, possible.size <= 1)


def fine_entropy(exposure: Exposure, release: WindowRelease) -> float:
    """Bound (nats) on the entropy of what is to be counted in all fine steps of the window together.

    The sum of each step's own entropy; 0 only where the person is counted the same whatever they do.
    """
    sensor, steps = release.sensor, range(release.first, release.last + 1)
    if not isinstance(sensor, MoveSensor):
        here = np.isin(exposure.chain.places, sensor.locations)
        return sum(_entropy_of(exposure.marginal[step], here.astype(np.int64)) for step in steps)
    counted, found = counted_moves(exposure, sensor), 0.0
    for step in steps:
        moves = dense_matrix(exposure.chain, exposure.slot(step - 1))
        found += _entropy_of(exposure.marginal[step - 1][:, np.newaxis] * moves, counted)
    return found


def _entropy_of(law: Floats, value: Integers) -> float:
    """The entropy (nats) of a ``value`` of outcomes with this law, of the same shape."""
    mass = np.bincount(value.reshape(-1), law.reshape(-1))
    return entropy_nats(mass.astype(np.float64))


def own_count_law(exposure: Exposure, release: WindowRelease) -> Floats:
    """``Pr[n = k]``, (L + 1,), by a forward recursion over (place, count so far).

    A count that reaches ``L = most_counts`` stays there. O(window L K^2).
    """
    most, sensor = release.most_counts, release.sensor
    reached = np.zeros((most + 1, exposure.place_count))
    reached[0] = exposure.marginal[release.earliest_place]
    if isinstance(sensor, MoveSensor):
        counted = counted_moves(exposure, sensor)
        for step in range(release.first, release.last + 1):
            reached = _move(reached, dense_matrix(exposure.chain, exposure.slot(step - 1)), counted)
        return np.asarray(reached.sum(axis=1))
    here = np.isin(exposure.chain.places, sensor.locations)
    for step in range(release.first, release.last + 1):
        if step > release.first:
            reached = _stepped(reached, dense_matrix(exposure.chain, exposure.slot(step - 1)))
        reached[:, here] = _raised(reached[:, here], 1)
    return np.asarray(reached.sum(axis=1))


def counted_moves(exposure: Exposure, sensor: MoveSensor) -> Integers:
    """How often the sensor counts each move between own places, (K, K)."""
    places = exposure.chain.places
    counted = np.zeros((exposure.place_count, exposure.place_count), dtype=np.int64)
    for start, end, times in sensor.times_counted:  # states may share a place
        counted[np.ix_(places == start, places == end)] = times
    return counted


def _move(reached: Floats, matrix: Floats, counted: Integers) -> Floats:
    """One fine move: masses (L + 1, K) by count so far and place."""
    moved = np.zeros_like(reached)
    for times in np.unique(counted):
        moved += _raised(_stepped(reached, np.where(counted == times, matrix, 0.0)), int(times))
    return moved


def _stepped(reached: Floats, matrix: Floats) -> Floats:
    """``reached @ matrix``; an algebra library would add in another order on another machine."""
    return np.asarray((reached[:, :, np.newaxis] * matrix).sum(axis=1))


def _raised(reached: Floats, times: int) -> Floats:
    """Masses by count so far, counted ``times`` more, at most to the last row."""
    if times == 0:
        return reached
    raised = np.zeros_like(reached)
    last = reached.shape[0] - 1
    raised[min(times, last) :] = reached[: last + 1 - min(times, last)]
    raised[last] += reached[last + 1 - min(times, last) :].sum(axis=0)
    return raised


# Several counts together: how often each of them counts one person.


class OwnWindow(NamedTuple):
    """A count over the steps ``first..last``, by how often it counts each move between own places, (K, K).

    The own count and the noise are published with the probability ``shown``, else nothing.
    """

    first: int
    last: int
    most: int
    times: Integers  # of presence by where a move leads
    noise: Floats  # (V,), the law of what is added; one value for an exact count
    shown: float = 1.0

    def counted(self, t: int, before: Integers, to: Integers, so_far: Integers) -> Integers:
        """How often people who move from ``before`` in step ``t`` were counted; ``so_far`` is from before."""
        now = self.times[before, to] + (so_far if t > self.first else 0)
        return np.minimum(now, self.most)


def own_window(exposure: Exposure, release: WindowRelease) -> OwnWindow:
    """A release as a count of moves between own places."""
    if isinstance(release.sensor, MoveSensor):
        times = counted_moves(exposure, release.sensor)
    else:
        here = np.isin(exposure.chain.places, release.sensor.locations)
        times = np.tile(here.astype(np.int64), (exposure.place_count, 1))
    if isinstance(release.mechanism, SeenRelease):
        shown = release.mechanism.reveal_probability()
        return OwnWindow(release.first, release.last, release.most_counts, times, np.ones(1), shown)
    noise = release.mechanism.noise_law()
    law = np.ones(1) if noise is None else noise.probabilities
    return OwnWindow(release.first, release.last, release.most_counts, times, law)


def law_together(own: Exposure, windows: Sequence[OwnWindow]) -> Floats:
    """The law of a person's own counts in these windows, an axis a count."""
    mass = np.zeros((own.start.size, *(each.most + 1 for each in windows)))
    mass.reshape(own.start.size, -1)[:, 0] = own.start
    for t, matrix in enumerate((np.eye(own.start.size), *own.moves)):
        times = [each.times * (each.first <= t <= each.last) for each in windows]
        mass = _moved_together(mass, matrix, times)
    return np.asarray(mass.sum(axis=0))


def _moved_together(mass: Floats, matrix: Floats, times: Sequence[Integers]) -> Floats:
    """One move; it is counted so many ``times`` by each count."""
    added = np.stack(times)
    found = np.zeros_like(mass)
    for each in np.unique(added[:, matrix > 0.0], axis=1).T:
        counted = np.where((added == each[:, np.newaxis, np.newaxis]).all(axis=0), matrix, 0.0)
        moved = np.asarray(sum(map(np.multiply.outer, counted, mass)))
        for axis, number in enumerate(each.tolist(), start=1):
            moved = np.moveaxis(_raised(np.moveaxis(moved, axis, 0), number), 0, axis)
        found += moved
    return found


# What releases over windows reveal about one horizon, nats, as a sum over releases with carried terms.
#
# Given any other releases, one more adds at most ``I(n_r; Y_r)``. Windows that end at or before the
# horizon's first step ``w`` speak of its first place alone and are carried to it, with the contraction
# ``eta_t`` of the move into step ``t``,
#
#     J_t = min(H(X_t), eta_t J_{t-1} + sum of I(n_r; Y_r) over windows that end with t).
#
# The present term is not contracted: a passage of move ``t`` concerns the place in step ``t`` itself.
# Windows that begin at or after the horizon's last place are carried backwards in the same way, all others
# count whole.


def window_information(exposure: Exposure, own_counts: Sequence[OwnCount], first: int, last: int) -> float:
    """The bound (nats) on what releases with these own counts say of the steps ``first..last`` (inclusive).

    :class:`~accounting.exceptions.HorizonError` for a horizon outside the exposure's steps.
    """
    check_window(exposure, first, last)
    before, after = np.zeros(exposure.steps), np.zeros(exposure.steps)
    inside = 0.0
    for own in own_counts:
        if own.release.last <= first:
            before[own.release.last] += own.information_nats
        elif own.release.earliest_place >= last:
            after[own.release.earliest_place] += own.information_nats
        else:
            inside += own.information_nats
    nothing = np.zeros(exposure.steps)
    carried = carried_forward(exposure, nothing, before, first)
    return carried + inside + carried_backward(exposure, nothing, after, last)
