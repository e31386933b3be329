"""The greedy rule and its sums: against a second implementation, and the same bits however they are made."""

from __future__ import annotations

import hashlib
from decimal import Decimal, localcontext

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from accounting.exceptions import StepOrderError
from accounting.exposure.crowd import Others, StepCrowd
from accounting.exposure.crowd.others import COIN
from accounting.exposure.crowd.variance_kernel import COLUMNS, RATES, UNITS, _exp_of_minus
from models.mechanisms import Suppressed
from models.priors import MovementPrior, Population
from models.releases import CountingWindow, Schedule, Sensor, SensorRegistry, SensorRelease, StepSchedule
from stream_app.steps.policy import undecided_step
from tests.accounting.chains import KIND_SHARES, KINDS, random_matrix
from tests.accounting.decisions import deciding
from tests.accounting.exposures import RAW, gaussian
from tests.volume import randoms

Floats = NDArray[np.float64]
LOCATIONS = 6


def random_people(rng: np.random.Generator, count: int, *, with_own_start: bool = True) -> Population:
    """Chains on two to four of six locations, with one to three slots, some with laws of their own."""
    priors = []
    for number in range(count):
        places = np.sort(rng.permutation(LOCATIONS)[: int(rng.integers(2, 5))])
        slots = int(rng.integers(1, 4))
        kinds = rng.choice(KINDS, size=slots, p=KIND_SHARES)
        moves = np.stack([random_matrix(rng, places.size, kind) for kind in kinds])
        start = rng.dirichlet(np.ones(places.size)) if with_own_start and rng.random() < 0.4 else None
        priors.append(
            MovementPrior.from_dense(
                f"p{number}", moves if slots > 1 else moves[0], places=places.tolist(), initial=start
            )
        )
    return Population.pack(priors, [str(k) for k in range(LOCATIONS)])


def random_steps(rng: np.random.Generator, count: int) -> list[StepSchedule]:
    """Up to three sensors a step, which may overlap; every fourth step without any."""
    found = []
    for step in range(count):
        releases = []
        for number in range(int(rng.integers(0, 4)) if rng.random() < 0.75 else 0):
            cover = tuple(np.sort(rng.permutation(LOCATIONS)[: int(rng.integers(1, 3))]).tolist())
            mechanism = [RAW, gaussian(1.0), Suppressed()][int(rng.choice(3, p=[0.6, 0.2, 0.2]))]
            releases.append(SensorRelease(Sensor(f"s{number}", cover), mechanism))
        found.append(StepSchedule(step, tuple(releases)))
    return found


class Slowly:
    """One person's greedy rule in plain arrays: what is revealed, who is free, and the sums."""

    def __init__(self, population: Population, person: int) -> None:
        chain = population.chain(person)
        self.places, cycle = chain.places.tolist(), chain.start.shape[0]
        self.moves = [np.zeros((len(self.places),) * 2) for _ in range(cycle)]
        for slot in range(cycle):
            for y in range(len(self.places)):
                for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
                    self.moves[slot][chain.row[j], y] = chain.value[j]
        self.own = population.initial(person)
        self.laws = [chain.start[slot] for slot in range(cycle)]
        name = population.people[person]
        self.waits = bool(hashlib.sha256(f"{COIN}\0{name}".encode()).digest()[0] & 1)
        self.revealed: int | None = None
        self.was_free = False

    def law(self, step: int) -> Floats:
        if self.own is None:
            return self.laws[step % len(self.moves)]
        found = self.own
        for t in range(step):
            found = found @ self.moves[t % len(self.moves)]
        return found

    def between(self, first: int, last: int) -> Floats:
        found = np.eye(len(self.places))
        for t in range(first, last):
            found = found @ self.moves[t % len(self.moves)]
        return found

    def ask(self, step: StepSchedule) -> Floats:
        """Sums at each release of the step, (releases, COLUMNS)."""
        sums = np.zeros((len(step.releases), COLUMNS))
        covers = [
            {k for k, own in enumerate(step.releases) if z in own.sensor.locations} for z in self.places
        ]
        if self.was_free:
            self.revealed, self.was_free = step.step, False
        elif any(covers):
            if not (self.revealed is None and self.waits):
                self._free(step, covers, sums)
            if sums.any():
                self.was_free = True
            else:
                self.revealed = step.step
        return sums

    def _free(self, step: StepSchedule, covers: list[set[int]], sums: Floats) -> None:
        most_back = 1 if self.own is not None else 8
        now = step.step
        earlier = None if self.revealed is None else max(self.revealed, now - most_back)
        before = np.ones(1) if earlier is None else self.law(earlier)
        left = self.law(now)[None] if earlier is None else self.between(earlier, now)
        right = self.between(now, now + 1)
        for x in np.flatnonzero(before):
            for y in range(len(self.places)):
                paths = left[x] * right[:, y]
                nowhere = sum(paths[z] for z in range(len(self.places)) if not covers[z])
                here = {
                    k: sum(paths[z] for z in range(len(self.places)) if covers[z] == {k})
                    for k in range(len(step.releases))
                }
                spread = {
                    k: a * nowhere / (a + nowhere) if a > 0 and nowhere > 0 else 0.0 for k, a in here.items()
                }
                if not spread or max(spread.values()) <= 0.0:
                    continue
                best = max(spread, key=lambda k: (spread[k], -k))
                mass = here[best] + nowhere
                q = here[best] / mass
                sums[best, 0] += before[x] * mass * q * (1 - q)
                sums[best, 1] += before[x] * mass * 2 * min(q, 1 - q)
                for column, rate in enumerate(RATES, start=2):
                    sums[best, column] += before[x] * mass * (1 - np.exp(-rate * q * (1 - q)))


def units(found: StepCrowd) -> Floats:
    return np.array([each.units for each in found], dtype=float).reshape(len(found), COLUMNS)


def all_of(population: Population, steps: list[StepSchedule], since: Floats | None = None) -> list[StepCrowd]:
    others = Others(population, since=None if since is None else since.astype(np.int64))
    return [others.apply(step) for step in steps]


@pytest.mark.parametrize("seed", range(8))
def test_sums_are_those_of_a_second_implementation(seed: int) -> None:
    """Never above it, and below by less than people times the rounding."""
    rng = np.random.default_rng(seed)
    population, steps = random_people(rng, 12), random_steps(rng, 14)
    people = [Slowly(population, person) for person in range(len(population))]
    found_any = False
    for step, found in zip(steps, all_of(population, steps), strict=True):
        each = [person.ask(step) for person in people]
        exact = sum(each)
        lost = sum(-np.log(1 - own[:, 2:]) for own in each)
        exact = np.hstack([exact[:, :2], lost]) if len(step.releases) else np.zeros((0, COLUMNS))
        below = exact * UNITS - units(found)
        assert (below > -1e-3).all()
        assert (below < 2 * len(people) + 1e-6 * UNITS).all()
        found_any |= bool(exact.any())
    assert found_any


def test_the_transforms_exponential_is_exact_to_the_last_digits() -> None:
    """Within 2.1e-16 of 40 digits, relative, over all arguments that a variance gives."""
    with localcontext(prec=40):
        for t in np.linspace(0.0, 0.125, 5_001).tolist():
            found, exact = Decimal(_exp_of_minus(t)), (-Decimal(t)).exp()
            assert abs(found / exact - 1) < Decimal("2.1e-16")


@pytest.mark.slow
def test_parts_of_the_people_add_up_to_the_same_bits() -> None:
    """Any partition, any order, any number of threads."""
    rng = np.random.default_rng(5)
    population, steps = random_people(rng, 3_000), random_steps(rng, 9)
    whole = all_of(population, steps)
    order = rng.permutation(len(population))
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        parts = [all_of(population.subset(part), steps) for part in np.array_split(order, 3)]
    finally:
        numba.set_num_threads(threads)
    for step, found in enumerate(whole):
        added = [sum((part[step][k] for part in parts[1:]), parts[0][step][k]) for k in range(len(found))]
        assert tuple(added) == found


def test_nothing_is_revised_by_what_comes_later() -> None:
    """The sums of a log are the first sums of any longer one."""
    rng = np.random.default_rng(6)
    population, steps = random_people(rng, 40), random_steps(rng, 12)
    other = [StepSchedule(k + 6, each.releases) for k, each in enumerate(random_steps(rng, 6))]
    assert all_of(population, steps)[:6] == all_of(population, steps[:6] + other)[:6]


def test_a_step_that_comes_again_is_looked_up_with_the_same_bits() -> None:
    """Days that are alike: what is kept from earlier ones is what would be computed."""
    rng = np.random.default_rng(7)
    population = random_people(rng, 60, with_own_start=False)
    day = random_steps(rng, 6)
    steps = [StepSchedule(k, day[k % 6].releases) for k in range(60)]
    others = Others(population)
    kept = [others.apply(step) for step in steps]
    assert len(others._known) < 45
    fresh = Others(population)
    for step, found in zip(steps, kept, strict=True):
        fresh._known.clear()
        assert fresh.apply(step) == found


def test_whoever_joins_counts_from_then_on_once_they_are_told() -> None:
    """Nothing was revealed of a newcomer, and who was there before is not touched."""
    rng = np.random.default_rng(8)
    population, steps = random_people(rng, 20), random_steps(rng, 10)
    since = np.where(np.arange(20) < 12, 0, 4)
    together = all_of(population, steps, since)
    before = all_of(population.subset(range(12)), steps)
    later = Others(population.subset(range(12, 20)), first_step=4, since=np.full(8, 4), log_start=0)
    for k, found in enumerate(together):
        added = (
            before[k]
            if k < 4
            else tuple(a + b for a, b in zip(before[k], later.apply(steps[k]), strict=True))
        )
        assert added == found


@pytest.mark.slow
@pytest.mark.indices
def test_half_of_the_people_start_one_seen_step_later() -> None:
    """The coin is the first bit of a public hash: half of many, and the same for the same name."""
    population = Population.pack(
        [MovementPrior.from_dense(f"p{k}", np.full((2, 2), 0.5)) for k in range(1000)]
    )
    steps = Schedule.of([[0]] * 4, RAW).steps
    variances = [found[0].units[0] / UNITS / 0.25 for found in all_of(population, list(steps))]
    assert 440 < variances[0] < 560
    assert variances[0] + variances[1] == pytest.approx(1000, abs=1e-3)
    assert variances[2] == variances[0]


def test_who_stays_where_they_are_hides_nobody() -> None:
    """A place that is certain is no noise, whatever counts there; nor is one of two sensors."""
    stays = MovementPrior.from_dense("stays", np.eye(2))
    population = Population.pack([stays, MovementPrior.from_dense("p0", np.full((2, 2), 0.5))])
    twice = StepSchedule(0, (SensorRelease(Sensor("a", (0,)), RAW), SensorRelease(Sensor("b", (0, 1)), RAW)))
    assert not any(any(each.units) for each in Others(population).apply(twice))
    assert not any(Others(population.subset([0])).apply(Schedule.of([[0]], RAW).steps[0])[0].units)


def test_steps_out_of_order_are_refused() -> None:
    """They build on each other."""
    rng = np.random.default_rng(9)
    population = random_people(rng, 3)
    with pytest.raises(StepOrderError, match="next step must be 0"):
        Others(population).apply(StepSchedule(1, ()))


def test_sums_of_steps_ahead_are_those_that_come() -> None:
    """Of people with starts of their own and without, counts over windows, and people who come later."""
    for rng in randoms(8, 20):
        people = deciding.people(rng, 30, 6, own_starts=0.4)
        moves = CountingWindow(2, ((0, 1, 1), (1, 2, 1)))
        sensors = (
            Sensor("plain", (5,)),
            Sensor("sum", (3, 4), most_counts=3, window=CountingWindow(3)),
            Sensor("moves", (0, 1, 2), most_counts=2, window=moves),
        )
        registry = SensorRegistry(people.location_names, sensors)
        steps = [undecided_step(t, ["plain"] * int(rng.integers(2)), registry) for t in range(9)]
        others = Others(people, since=rng.integers(0, 5, len(people)))
        ahead = []
        came = []
        for t, step in enumerate(steps):
            ahead.append(others.ask_ahead(steps[t : t + 4]))
            came.append(others.apply(step))
        assert all(each == tuple(came[t : t + 4]) for t, each in enumerate(ahead))
