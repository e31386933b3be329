"""*Trajectory Recovery From Ash*: everybody's movements from counts, without anybody's habits.

Xu, Tu, Li, Zhang, Fu and Jin, *Trajectory Recovery From Ash: User Privacy Is NOT Preserved in Aggregated
Mobility Data* (WWW 2017): each step's counts are spread out into as many people, and people of one step are
matched with places of the next at the least total cost (an assignment, by the Hungarian algorithm). By night
people stay where they are; by day they go on as they went, so a move costs its distance from there. Days
are joined by another assignment: two days are one person's if both together hardly have more entropy
of places than each has.

What is not in the paper: some places are not counted. Whoever is in no count is in one pool; moves to and
from it cost the way to the nearest place without a sensor. And one target's trace is picked, the recovered
one that is likeliest by the target's habits, which also choose among the places of the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import csr_array, eye_array, kron, vstack
from scipy.spatial.distance import cdist

from experiments.crowd_attackers.scene import Floats, Habits, Integers, Scene, Watched

POOL = -1
"""Stands for all places that are not counted in a step."""

NIGHT = range(6)
"""Hours in which people stay, of a day of 24."""

_MOST_ROWS = 600  # of an assignment written out person by person


def cheapest_flow(cost: Floats, supply: Integers, demand: Integers) -> Integers:
    """How many go from each row to each column at the least total cost, (A, B); sums of both must agree.

    Person by person it is an assignment. People of a row are alike, so in large crowds the equal linear
    program over rows and columns stands for it, whose best corners are whole numbers.
    """
    rows, columns = np.flatnonzero(supply), np.flatnonzero(demand)
    found = np.zeros(cost.shape, np.int64)
    if supply.sum() <= _MOST_ROWS:
        people, places = np.repeat(rows, supply[rows]), np.repeat(columns, demand[columns])
        matched = linear_sum_assignment(cost[np.ix_(people, places)])
        np.add.at(found, (people[matched[0]], places[matched[1]]), 1)
        return found
    leaving = kron(eye_array(rows.size), np.ones((1, columns.size)))
    arriving = kron(np.ones((1, rows.size)), eye_array(columns.size))
    sums = np.concatenate([supply[rows], demand[columns]])
    solved = linprog(  # type: ignore[call-overload]
        cost[np.ix_(rows, columns)].ravel(),
        A_eq=csr_array(vstack([leaving, arriving])),
        b_eq=sums,
        method="highs-ds",
    )
    assert solved.success, solved.message
    found[np.ix_(rows, columns)] = np.rint(solved.x).reshape(rows.size, columns.size).astype(np.int64)
    assert (found.sum(axis=1) == supply).all() and (found.sum(axis=0) == demand).all()
    return found


@dataclass(frozen=True, eq=False)
class _Places:
    """A step's places that are told apart, the pool last."""

    locations: Integers  # (P,), POOL last
    position: Floats  # (P, D), NaN of the pool
    without_sensor: Floats  # (U, D) positions in the pool
    far: float  # a move of the map on average, where nothing better is known

    def cost_from(self, origin: Floats) -> Floats:
        """Kilometres from each ``origin`` (n, D), NaN of the pool, to every place, (n, P)."""
        from_pool = np.isnan(origin[:, 0])
        cost = np.full((len(origin), len(self.locations)), self.far)
        counted = ~np.isnan(self.position[:, 0])
        cost[np.ix_(~from_pool, counted)] = cdist(origin[~from_pool], self.position[counted])
        if len(self.without_sensor):
            cost[~from_pool, -1] = cdist(origin[~from_pool], self.without_sensor).min(axis=1)
            cost[np.ix_(from_pool, counted)] = cdist(self.without_sensor, self.position[counted]).min(axis=0)
        cost[from_pool, -1] = 0.0
        return cost


class Recovery:
    """Everybody's movements from counts."""

    def __init__(self, scene: Scene) -> None:
        self._watched, self._people = scene.watched, len(scene.population)
        pool = np.full((1, scene.position_km.shape[1]), np.nan)
        self._position = np.vstack([scene.position_km, pool])  # number POOL is the last
        self._day = scene.slots_a_day
        known = scene.position_km[~np.isnan(scene.position_km[:, 0])]
        self._far = float(cdist(known, known).mean()) if len(known) else 1.0
        self._places = [self._places_of(scene.watched, t) for t in range(len(scene.watched.count_at))]

    def recover(self, counts: Floats) -> Integers:
        """Locations (N, T) of all people, :data:`POOL` where they are in no count of these (J,)."""
        random = np.random.default_rng(0)
        slots = self._watched.first_slot + np.arange(len(self._places))
        days = slots // self._day if self._day else np.zeros_like(slots)
        each = [self._link_steps(np.flatnonzero(days == day), counts, random) for day in np.unique(days)]
        found = each[0]
        for later in each[1:]:
            found = np.hstack([found, later[_by_gain(found, later, len(self._position) - 1, random)]])
        return found

    def _places_of(self, watched: Watched, t: int) -> _Places:
        counted = watched.count_at[t] >= 0
        locations = np.append(np.flatnonzero(counted), POOL)
        pool = self._position[:-1][~counted]
        return _Places(locations, self._position[locations], pool[~np.isnan(pool[:, 0])], self._far)

    def _people_at(self, t: int, counts: Floats) -> Integers:
        """How many are at each of the step's places; what noise makes impossible is mended."""
        counted = self._places[t].locations[:-1]
        seen = np.maximum(np.rint(counts[self._watched.count_at[t, counted]]), 0.0).astype(np.int64)
        while seen.sum() > self._people:
            seen[seen.argmax()] -= min(int(seen.max()), int(seen.sum()) - self._people)
        return np.append(seen, self._people - seen.sum())

    def _link_steps(self, steps: Integers, counts: Floats, random: np.random.Generator) -> Integers:
        """People (N, steps) of the steps of one day."""
        first = steps[0]
        here = np.repeat(self._places[first].locations, self._people_at(first, counts))
        found = [here]
        for t in steps[1:]:
            before = found[-1] if len(found) < 2 or self._is_night(t) else found[-2]
            kinds = len(self._position)
            pairs, number = np.unique((before - POOL) * kinds + found[-1] - POOL, return_inverse=True)
            earlier, last = (each + POOL for each in np.divmod(pairs, kinds))
            velocity = self._position[last] - self._position[earlier]
            expected = self._position[last] + np.nan_to_num(velocity)
            supply = np.bincount(number, minlength=pairs.size)
            flow = cheapest_flow(self._places[t].cost_from(expected), supply, self._people_at(t, counts))
            found.append(_spread(number, flow, self._places[t].locations, random))
        return np.stack(found, axis=1)

    def _is_night(self, t: int) -> bool:
        """Or a step that is not part of a day."""
        return self._day is None or (self._watched.first_slot + t) % self._day * 24 // self._day in NIGHT


def _spread(number: Integers, flow: Integers, values: Integers, random: np.random.Generator) -> Integers:
    """Each one's value, (N,): members of a group are alike, so chance decides who takes which way."""
    found = np.empty(number.size, np.int64)
    order = random.permutation(number.size)
    order = order[np.argsort(number[order], kind="stable")]
    found[order] = np.concatenate([np.repeat(values, row) for row in flow])
    return found


def _by_gain(earlier: Integers, later: Integers, locations: int, random: np.random.Generator) -> Integers:
    """Which of the later day's people each earlier one is, (N,): the least total gain of information.

    The gain of two days with place frequencies ``f`` and ``g``: entropy of ``(f + g) / 2`` less the mean of
    theirs, each day weighing alike.
    """
    first, number = _frequencies(earlier, locations)
    second, other = _frequencies(later, locations)
    gain = np.stack(
        [_entropy(0.5 * (f + second)) - 0.5 * (_entropy(f[None]) + _entropy(second)) for f in first]
    )
    flow = cheapest_flow(gain, np.bincount(number), np.bincount(other))
    kind = _spread(number, flow, np.arange(len(second)), random)
    found = np.empty(number.size, np.int64)
    found[np.argsort(kind, kind="stable")] = np.argsort(other, kind="stable")
    return found


def _frequencies(paths: Integers, locations: int) -> tuple[Floats, Integers]:
    """Distinct vectors of how often each location was visited, the pool last, and whose is which."""
    visits = np.zeros((len(paths), locations + 1))
    np.add.at(visits, (np.arange(len(paths))[:, None], paths), 1.0 / paths.shape[1])
    kinds, number = np.unique(visits, axis=0, return_inverse=True)
    return kinds, number.ravel()


def _entropy(laws: Floats) -> Floats:
    """Of each row, in nats."""
    return np.asarray(-(laws * np.log(np.where(laws > 0.0, laws, 1.0))).sum(axis=1))


class TrajectoryRecovery:
    """The recovered movements likeliest by the target's habits."""

    name = "trajectory recovery"

    def guesses(self, scene: Scene, targets: Sequence[int], counts: Floats) -> Integers:
        """See :class:`~experiments.crowd_attackers.scene.CrowdAttack`."""
        recovery = Recovery(scene)
        found = np.empty((len(targets), len(counts), len(scene.watched.count_at)), np.int64)
        for day, seen in enumerate(counts):
            paths = np.unique(recovery.recover(seen), axis=0)
            for row, target in enumerate(targets):
                found[row, day] = likeliest_path(scene, target, paths)
        return found


def likeliest_path(scene: Scene, target: int, paths: Integers) -> Integers:
    """Locations (T,) by habits within the recovered ``paths`` (n, T), if one of them can be the target's."""
    chain = scene.population.chain(target)
    habits = Habits.of(chain, scene.watched)
    own = np.isin(paths, np.append(chain.places, POOL)).all(axis=1)
    fits = np.where(paths[own][:, :, None] == POOL, habits.own < 0, paths[own][:, :, None] == chain.places)
    free = np.zeros((1, *habits.own.shape))
    with np.errstate(divide="ignore"):
        traces, scores = habits.likeliest(np.log(fits.astype(float)) if len(fits) else free)
    if np.isneginf(scores.max()):
        traces, scores = habits.likeliest(free)
    return np.asarray(chain.places[traces[scores.argmax()]], np.int64)
