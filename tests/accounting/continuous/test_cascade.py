"""Refined bounds within a step's work: the same people get the same bits, however they are held."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accounting.bounds.radius import bound_for
from accounting.continuous import ContinuousAccountant, PeopleShares, cascade, payer
from accounting.continuous.accounts_kernel import HISTORY
from accounting.continuous.refine_kernel import FEW_VECTORS, count_hits, find_operations
from accounting.exposure.step_information import followed_by, nothing_seen_for, seen_release
from accounting.settings import HorizonSettings, RiskBudget
from models.mechanisms import Mechanism, Raw
from models.numerics.threads import numba
from models.priors import MovementPrior, Population
from models.releases import Sensor, SensorRelease, StepSchedule
from tests.accounting.decisions import deciding
from tests.accounting.exposures import RAW, gaussian

LOCATIONS, STEPS, SHARES = 10, 9, 8
HORIZON = HorizonSettings(5, 1)
SOME = 1_500_000
"""Work for some of sixty people with few vectors; twice as much is for all with few, for some with many."""


def people(count: int = 60, cycles: tuple[int, ...] = (1, 3)) -> Population:
    return deciding.people(np.random.default_rng(2), count, LOCATIONS, own_starts=0.2, cycles=cycles)


def steps() -> list[StepSchedule]:
    rng = np.random.default_rng(3)
    return [
        StepSchedule(t, tuple(SensorRelease(s, Raw()) for s in deciding.random_sensors(rng, LOCATIONS)))
        for t in range(STEPS)
    ]


def split(population: Population) -> PeopleShares:
    """By name alone."""
    number = np.array([int(name[1:]) for name in population.people])
    return PeopleShares(SHARES, number * 7 % SHARES, number * 31 % 101)


def accounted(
    population: Population, operations: int | None, horizon: HorizonSettings = HORIZON, until: int = STEPS
) -> ContinuousAccountant:
    settings = replace(horizon, operations=operations)
    accountant = ContinuousAccountant(population, settings, shares=split(population))
    accountant.apply_all(steps()[:until])
    return accountant


def test_people_whom_decisions_within_a_radius_relied_on_are_owed_the_refined_bounds() -> None:
    """With habits apart, who is over by the raised guess alone is not spared, and no bound clears them."""
    limit = RiskBudget(0.2, risk=0.9, habits_apart=True)
    settings = replace(HORIZON, sharpen_above=0.0, within_nats=0.1, decided=limit)
    accounts = accounted(people(), 0, settings).view().accounts
    due, level = payer.find_due(accounts, settings), bound_for(0.1, 0.9)
    guess, risk = accounts.state.guess[due.chains], accounts.state.risk[due.chains]
    assert due.is_owed.tolist() == ((guess < level) & (risk > level)).tolist()
    assert due.is_owed.any()
    assert ((guess > level) & (guess < 0.9)).any()


def by_name(*accountants: ContinuousAccountant) -> dict[str, tuple[float, str]]:
    return {
        name: (float(risk), each.decided_by(person))
        for each in accountants
        for person, (name, risk) in enumerate(zip(each.people, each.risk(), strict=True))
    }


def test_with_enough_work_for_all_people_the_bits_equal_those_without_a_limit():
    unlimited, enough = accounted(people(), None), accounted(people(), 10**12)
    assert by_name(unlimited) == by_name(enough)
    assert unlimited.summary() == enough.summary()
    assert enough.summary().not_reached == 0


@pytest.mark.parametrize("operations", [SOME, 36 * SOME // 10])
@pytest.mark.parametrize("parts", [2, 4, 8])
def test_partitions_together_refine_the_same_people_as_one_process(operations, parts):
    """With too little work for all people, and with enough for few vectors but not for many."""
    population, horizon = people(), HorizonSettings(6, 2)
    whole = accounted(population, operations, horizon)
    part_of = split(population).share % parts
    held = [population.subset(np.flatnonzero(part_of == k)[::-1]) for k in range(parts)]
    pieces = [accounted(piece, operations, horizon) for piece in held]
    assert by_name(*pieces) == by_name(whole)
    assert sum(piece.summary().not_reached for piece in pieces) == whole.summary().not_reached
    assert (whole.summary().not_reached > 0) == (operations == SOME)
    assert by_name(whole) != by_name(accounted(population, None, horizon))


def test_threads_a_restart_and_those_who_join_or_leave_change_no_bit():
    population = people()
    whole = accounted(population, SOME)
    numba.set_num_threads(1)
    try:
        assert by_name(accounted(population, SOME)) == by_name(whole)
    finally:
        numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    resumed = ContinuousAccountant(population, whole.settings, shares=split(population))
    resumed.restore(accounted(population, SOME, until=4).snapshot())
    resumed.apply_all(steps()[4:])
    assert resumed.snapshot() == whole.snapshot()
    assert resumed.summary() == whole.summary()
    odd, even = np.arange(1, len(population), 2), np.arange(0, len(population), 2)
    joined = whole.of_people(odd).with_people(whole.of_people(even))
    np.testing.assert_array_equal(joined.people_shares.rank, split(population.subset([*odd, *even])).rank)
    assert joined.summary().not_reached == whole.summary().not_reached


def test_who_is_not_reached_keeps_the_fast_bound_and_where_most_may_be_gained_goes_first():
    """Most added risk, with few vectors; not for each operation, or the costly would never be reached."""
    population = people(200)
    fast, some, all_ = (accounted(population, work, until=6) for work in (0, 3 * SOME, None))
    missed = some._by_group.each(some._running.groups.figures.is_unreached[0])
    assert 0 < missed.sum() == some.summary().not_reached < 200
    np.testing.assert_array_equal(some.risk()[missed], fast.risk()[missed])
    reached = (fast.risk() > fast.baseline()) & ~missed
    assert (some.risk() <= fast.risk()).all()
    assert (some.risk() >= all_.risk() * (1 - 1e-12)).all()
    share, gain = split(population).share, fast.added()
    due = np.flatnonzero(all_.risk() < fast.risk())
    for k in range(SHARES):
        own = due[share[due] == k]
        if missed[own].any() and reached[own].any():
            assert gain[own][missed[own]].max() <= gain[own][reached[own]].min()


@pytest.mark.parametrize("places", [60, 101])
def test_whom_a_look_through_noise_tells_nothing_is_looked_at_as_if_counts_were_exact(places):
    """With so many places and moves the tree is too large for a first look, or has no laws to begin with."""
    rng = np.random.default_rng(5)
    matrix = rng.dirichlet(np.full(places, 0.3), size=(1, places))
    person = MovementPrior.from_dense("p0", matrix, places=np.arange(places))
    population = Population.pack([person], [str(k) for k in range(places)])
    noised = StepSchedule(0, (SensorRelease(Sensor("s", (0,)), gaussian(1.0)),))
    found = []
    for work in (0, 20_000_000):  # not enough for all vectors
        settings = replace(HORIZON, operations=work, sharpen_above=0.0)
        accountant = ContinuousAccountant(population, settings)
        accountant.apply_all(replace(noised, step=t) for t in range(STEPS))
        found.append(accountant)
    fast, first = found
    assert first.summary().not_reached == 0
    assert first.risk()[0] < fast.risk()[0] * (1 - 1e-9)


def test_between_few_vectors_and_many_the_bound_falls():
    """First few vectors for all people; the rest of the work goes to those who still have most added risk."""
    horizon = HorizonSettings(6, 2)
    population = deciding.people(np.random.default_rng(8), 60, LOCATIONS, cycles=(1,))
    few = accounted(population, None, replace(horizon, vectors=cascade.FEW_VECTORS))
    many = accounted(population, None, horizon)
    some = accounted(population, 34 * SOME // 10, horizon)
    assert some.summary().not_reached == 0
    lower = few.risk() > many.risk() * (1 + 1e-9)
    got_many = some.risk()[lower] < few.risk()[lower] * (1 - 1e-9)
    assert 0 < got_many.sum() < lower.sum()


def test_people_of_one_persona_are_computed_once_and_get_the_same_bits(monkeypatch):
    kinds = people(6)
    count = 48
    personas = replace(kinds.subset(np.arange(count) % 6), people=tuple(f"p{k}" for k in range(count)))
    assert personas.alike.tolist() == [k % 6 for k in range(count)]
    computed: list[int] = []
    refine = cascade.refine

    def note(accounts, chosen, *others):
        computed.append(len(chosen))
        refine(accounts, chosen, *others)

    monkeypatch.setattr(cascade, "refine", note)
    by_kind = accounted(kinds, None).risk()
    kinds_computed, computed = sum(computed), []
    crowd = accounted(personas, None)
    np.testing.assert_array_equal(crowd.risk(), by_kind[np.arange(count) % 6])
    assert sum(computed) == kinds_computed
    later = np.where(np.arange(count) < 6, 0, 5)
    other = ContinuousAccountant(personas, HORIZON, later)
    other.apply_all(steps())
    each = ContinuousAccountant(kinds, HORIZON, np.full(6, 5))
    each.apply_all(steps())
    np.testing.assert_array_equal(other.risk()[6:12], each.risk())
    np.testing.assert_array_equal(other.risk()[:6], by_kind)


def test_personas_are_paid_for_once_a_share_in_every_partition():
    kinds = people(5)
    count = 200
    personas = replace(kinds.subset(np.arange(count) % 5), people=tuple(f"p{k}" for k in range(count)))
    whole = accounted(personas, SOME // 2)
    part_of = split(personas).share % 2
    pieces = [accounted(personas.subset(np.flatnonzero(part_of == k)), SOME // 2) for k in range(2)]
    assert by_name(*pieces) == by_name(whole)
    assert 0 < whole.summary().not_reached < count


def test_people_above_the_decided_limit_are_looked_at_as_decisions_do_whatever_it_costs():
    limit = RiskBudget(0.5, risk=0.6)
    horizon = replace(HORIZON, decided=limit)
    population = people(120)
    fast, few = accounted(population, 0), accounted(population, None, replace(HORIZON, vectors=FEW_VECTORS))
    least = accounted(population, 1, horizon)
    guess = least.by_account.each(least.view().accounts.state.guess)
    above = (fast.risk() > limit.risk) & (guess * (1 + 1e-6) < limit.risk)
    assert above.sum() > 3
    np.testing.assert_array_equal(least.risk()[above], few.risk()[above])
    assert (few.risk()[above] < fast.risk()[above]).any()
    assert least.summary().not_reached > 0


def test_hits_are_counted_location_by_location():
    """In the horizon and before it, exact and noised: as a look at every row and location says."""
    rng = np.random.default_rng(3)
    seen = nothing_seen_for(HISTORY + HORIZON.horizon, LOCATIONS)
    mechanisms = (RAW, gaussian(1.0), gaussian(3.0))
    for _ in seen.labels:
        chosen = np.flatnonzero(rng.random(LOCATIONS) < 0.4)
        sensors = tuple(
            SensorRelease(Sensor(f"s{x}", (int(x),)), mechanisms[rng.integers(3)]) for x in chosen
        )
        seen = followed_by(seen, seen_release(sensors, LOCATIONS))
    is_noised = seen.tables.present[:, 0, 0] > 0.0
    wanted = np.zeros((LOCATIONS, 4))
    for row, channels in enumerate(seen.channel):
        for location, channel in enumerate(channels):
            if channel >= 0:
                wanted[location, 0 if row >= HISTORY else 1] += 1
                wanted[location, 2 if row >= HISTORY else 3] += is_noised[channel]
    found = count_hits(seen)
    np.testing.assert_array_equal(found, wanted)
    assert (found[:, :2] > found[:, 2:]).any()
    assert (found > 0).any(axis=0).all()


def test_work_is_counted_by_structure_alone():
    """Other probabilities of the same moves cost the same; more vectors, hits and places cost more."""
    rng = np.random.default_rng(4)

    def cost(population: Population, vectors: int, counted: int, mechanism: Mechanism = RAW) -> np.ndarray:
        seen = nothing_seen_for(HISTORY + HORIZON.horizon, LOCATIONS)
        sensors = (SensorRelease(Sensor(f"s{x}", (x,)), mechanism) for x in range(counted))
        step = seen_release(tuple(sensors), LOCATIONS)
        for _ in seen.labels:
            seen = followed_by(seen, step)
        accounts = ContinuousAccountant(population, HORIZON).view().accounts
        return find_operations(accounts, np.arange(len(population)), vectors, count_hits(seen))

    population = people(30, cycles=(1,))
    value = rng.random(population.arrays.value.size)
    other = replace(population, arrays=population.arrays._replace(value=value))
    np.testing.assert_array_equal(cost(population, 4, 3), cost(other, 4, 3))
    assert (cost(population, 16, 3) > cost(population, 4, 3)).all()
    assert (cost(population, 4, LOCATIONS) > cost(population, 4, 0)).all()
    assert (cost(population, 4, LOCATIONS, gaussian(1.0)) > cost(population, 4, LOCATIONS)).all()
