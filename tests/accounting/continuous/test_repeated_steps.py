"""Steps that come again are looked up, and nobody's risk knows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from accounting.continuous import ContinuousAccountant, PeopleShares, cascade
from accounting.continuous.accountant import RepeatedSteps
from accounting.continuous.accounts_kernel import Accounts
from accounting.continuous.cascade import RepeatedWindows
from accounting.continuous.horizon_kernel import KnownTerms
from accounting.continuous.refine_kernel import refine
from accounting.exposure.step_information import view_of
from accounting.settings import HorizonSettings
from models.mechanisms import Gaussian, Raw, Suppressed
from models.releases import Sensor, SensorRelease, StepSchedule
from tests.accounting.decisions import deciding

LOCATIONS = 12
NOTHING = KnownTerms(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def some_steps(rng: np.random.Generator, kinds: int) -> list[tuple[SensorRelease, ...]]:
    """Steps that are told apart: some raw, some noised, sensors that share places among them."""
    found = []
    for _ in range(kinds):
        at = [rng.choice(LOCATIONS, rng.integers(1, 4), replace=False) for _ in range(rng.integers(0, 4))]
        sensors = [Sensor(f"s{k}", tuple(sorted(map(int, where)))) for k, where in enumerate(at)]
        noised = (Raw(), Gaussian(0.5), Gaussian(3.0), Suppressed())
        choice = (Raw(),) if rng.random() < 0.5 else noised
        found.append(tuple(SensorRelease(each, choice[rng.integers(len(choice))]) for each in sensors))
    return found


class Forgetful(RepeatedSteps):
    """Computes every step anew."""

    def terms(self, *_: object) -> KnownTerms:
        return NOTHING


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_looking_up_changes_no_bit(seed):
    rng = np.random.default_rng(seed)
    population = deciding.people(rng, 30, LOCATIONS, own_starts=0.2, cycles=(1, 2, 3))
    since = rng.integers(0, 12, 30)
    chosen = deciding.random_settings(rng)
    one, other = (ContinuousAccountant(population, chosen, since) for _ in range(2))
    other._repeated = Forgetful(other.view().accounts.population.slots)
    kinds = some_steps(rng, int(rng.integers(1, 4)))
    for t in range(40):
        step = StepSchedule(t, kinds[int(rng.integers(len(kinds)))])
        one.apply(step)
        other.apply(step)
        assert one.snapshot() == other.snapshot(), t
    assert len(one._repeated) > 0


def test_people_who_join_or_leave_or_are_restored_are_accounted_as_without_the_cache():
    rng = np.random.default_rng(3)
    population = deciding.people(rng, 40, LOCATIONS)
    kinds = some_steps(rng, 2)
    schedule = [StepSchedule(t, kinds[t % 2]) for t in range(30)]
    whole = ContinuousAccountant(population, deciding.random_settings(rng))
    first, second = (ContinuousAccountant(part, whole.settings) for part in population.split(2))
    for each in (whole, first, second):
        each.apply_all(schedule[:15])
    joined = first.with_people(second)
    restored = ContinuousAccountant(population, whole.settings)
    restored.restore(whole.snapshot())
    kept = whole.of_people(np.arange(0, 40, 3))
    for each in (whole, joined, restored, kept):
        each.apply_all(schedule[15:])
    by_name = dict(zip(whole.people, whole.risk().tolist(), strict=True))
    for each in (joined, restored, kept):
        assert [by_name[name] for name in each.people] == each.risk().tolist()


def test_no_more_is_kept_than_allowed():
    rng = np.random.default_rng(4)
    views = [view_of(releases, LOCATIONS) for releases in some_steps(rng, 9)]
    repeated = RepeatedSteps(np.ones(1000, dtype=np.int32), most_bytes=16 * 1000 * 3)
    for _ in range(3):
        for t, view in enumerate(views):
            repeated.terms(views[t - 1], view, t)
    assert len(repeated) == 3


def test_equal_releases_have_one_view():
    sensors = [Sensor("a", (0,)), Sensor("b", (1, 2))]
    first, second = (tuple(SensorRelease(each, Gaussian(2.0)) for each in sensors) for _ in range(2))
    assert view_of(first, LOCATIONS) is view_of(second, LOCATIONS)
    assert view_of(first, LOCATIONS) is not view_of(first[:1], LOCATIONS)


@pytest.mark.slow
def test_of_windows_that_never_come_again_only_the_last_ones_are_kept(monkeypatch):
    """However few people they are of: a run that never repeats itself must not grow with its steps."""
    monkeypatch.setattr(cascade, "_MOST_WINDOWS", 5)
    population = deciding.people(np.random.default_rng(8), 3, LOCATIONS)
    one = ContinuousAccountant(population, HorizonSettings(4, 1, (0.001,), vectors=8))
    sensors = [Sensor(f"s{k}", (k, k + 4)) for k in range(4)]
    for t in range(80):
        noise = Gaussian(0.7 + t / 1000)
        one.apply(StepSchedule(t, tuple(SensorRelease(each, noise) for each in sensors)))
    assert len(one._windows._windows) == 5


@pytest.mark.slow
@pytest.mark.parametrize("operations", [None, 12_000_000])
def test_windows_that_come_again_are_refined_once_and_no_bit_changes(operations, monkeypatch):
    """Own starts, people who come late, longer cycles, and shares that cannot pay for everybody."""
    rng = np.random.default_rng(8)
    population = deciding.people(rng, 8, LOCATIONS, own_starts=0.2, cycles=(1, 2))
    since = np.where(np.arange(8) % 4 == 3, 9, 0)
    shares = PeopleShares(2, np.arange(8) % 2, np.arange(8))
    chosen = HorizonSettings(4, 1, (0.001,), vectors=8, operations=operations)
    kept, forgetful = (ContinuousAccountant(population, chosen, since, shares) for _ in range(2))
    kinds = [
        tuple(SensorRelease(Sensor(f"s{k}", (k, k + 4)), noise) for k in range(4))
        for noise in (Gaussian(0.7), Gaussian(1.5))
    ]
    computed: list[int] = []

    def counted(accounts: Accounts, chains: NDArray[np.int64], *window: Any) -> None:
        known = window[-2].copy()
        refine(accounts, chains, *window)
        computed.append(int((known != window[-2]).sum() - np.isnan(window[-2]).sum()))

    monkeypatch.setattr(cascade, "refine", counted)
    for each in (kept, forgetful):
        each.settings = replace(chosen, operations=0)
        each.apply_all(StepSchedule(t, kinds[t % 2]) for t in range(60))
        each.settings = chosen
    for t in range(60, 68):
        forgetful._windows = RepeatedWindows(forgetful.view().accounts)
        forgetful.apply(StepSchedule(t, kinds[t % 2]))
        computed.clear()
        kept.apply(StepSchedule(t, kinds[t % 2]))
        assert sum(computed) == 0 if t >= 64 else sum(computed) > 0 or t > 61
        assert kept.snapshot() == forgetful.snapshot(), t
    assert operations or "sandwich" in {kept.decided_by(person) for person in range(8)}
    again = ContinuousAccountant(population, chosen, since, shares)
    again.restore(kept.snapshot())
    for t in range(68, 70):
        for each in (kept, again):
            each.apply(StepSchedule(t, kinds[t % 2]))
    assert again.snapshot() == kept.snapshot()
