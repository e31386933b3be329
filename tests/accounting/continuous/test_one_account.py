"""People with an equal prior, start and first step have one account: no bit of any figure is another one."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accounting.continuous import ContinuousAccountant, cascade
from accounting.continuous.people import Ranked, WorstMoments
from accounting.continuous.shadow import Shadow, drawn_parts
from accounting.exceptions import SnapshotError
from accounting.settings import HorizonSettings, RiskBudget
from models.exceptions import PriorError
from models.priors import Population
from models.releases import StepSchedule
from tests.accounting.continuous.one_account_each import OneAccountEach
from tests.accounting.decisions import deciding
from tests.accounting.exposures import gaussian
from tests.accounting.random_runs import (
    LOCATIONS,
    SHARES,
    kinds_of,
    random_step,
    releases,
    shares_of,
    some_of,
)


def most_added(worst: WorstMoments, count: int) -> np.ndarray:
    """Positions of the ``count`` people with most added risk, ties included: a second implementation."""
    if worst.added.size == 0:
        return np.empty(0, dtype=np.int64)
    least = np.partition(worst.added, -min(count, worst.added.size))[-min(count, worst.added.size)]
    return np.flatnonzero((worst.added >= least) & (worst.added > 0.0))


def settings_of(rng: np.random.Generator) -> HorizonSettings:
    """With no limit of the work, with enough, with some, and with what decisions are owed."""
    operations = rng.choice([0, 300_000, 1_000_000, 3_000_000, 10_000_000, -1])
    limit = RiskBudget(0.2, risk=float(rng.uniform(0.5, 0.95))) if rng.random() < 0.3 else None
    chosen = deciding.random_settings(rng, sharpen=True, sharpen_above=0.0)
    return replace(
        chosen,
        operations=None if operations < 0 else int(operations),
        decided=limit,
        within_nats=float(rng.choice([0.0, 0.05])),
    )


class Both:
    """The same people by account, and one by one as a second implementation has it."""

    def __init__(
        self, population: Population, chosen: HorizonSettings, since: np.ndarray, *, split: bool = True
    ) -> None:
        shares = shares_of(population.people) if split else None
        self.one = ContinuousAccountant(population, chosen, since, shares)
        self.each = OneAccountEach(population, chosen, since, shares, apart=True)
        self.has_changed = False  # drawn chains are then named by those of the accounts

    def apply(self, step: StepSchedule) -> None:
        self.one.apply(step)
        self.each.apply(step)

    def check(self) -> None:
        """Everything that is shown of anybody."""
        one, each = self.one, self.each
        for name in ("risk", "prior_risk", "baseline", "added", "information_nats", "crossings"):
            np.testing.assert_array_equal(getattr(one, name)(), getattr(each, name)(), name)
        for name in ("since", "not_reached", "people"):
            np.testing.assert_array_equal(getattr(one, name), getattr(each, name), name)
        everybody = np.arange(len(each.people))
        assert [one.decided_by(k) for k in everybody] == [each.decided_by(k) for k in everybody]
        chains = one.summary().chains if self.has_changed else each.summary().chains
        assert one.summary() == replace(each.summary(), chains=chains)
        assert one.median_guess() == each.median_guess()
        worst, known = one.worst(), each.worst()
        assert all(map(np.array_equal, worst, known))
        risks = one.risks_of(everybody[::-2])
        np.testing.assert_array_equal(risks.risk, each.risk()[::-2])
        np.testing.assert_array_equal(risks.added, each.added()[::-2])
        assert risks.by == tuple(each.decided_by(k) for k in everybody[::-2])
        people, moments = one.most_exposed(3)
        assert people.tolist() == most_added(known, 3).tolist()
        np.testing.assert_array_equal(moments.added, known.added[people])
        is_counted = np.arange(LOCATIONS) % 2 == 0
        np.testing.assert_array_equal(one.most_operations(is_counted), each.most_operations(is_counted))


@pytest.mark.slow
@settings(max_examples=40)
@example(seed=158_118)  # two shares pay one after the other for the same chain to go the same way
@given(seed=st.integers(0, 2**32 - 1))
def test_all_figures_are_those_of_people_accounted_one_by_one(seed: int) -> None:
    """With people who join and leave, drawn chains, shares and scarce work, and a restart in the middle."""
    rng = np.random.default_rng(seed)
    draws, chosen, split = int(rng.choice([1, 1, 3])), settings_of(rng), rng.random() < 0.8
    kinds = kinds_of(rng, 4, draws)
    first = some_of(rng, kinds, int(rng.integers(0, 40)), "a")
    both = Both(first, chosen, rng.integers(0, 3, len(first)), split=split)
    steps = [random_step(rng, t, LOCATIONS) for t in range(12)]
    both.check()
    for step in steps:
        both.apply(step)
        both.check()
        if step.step == 4:  # people come, some of whom have been there for long, some have still to come
            second = some_of(rng, kinds, int(rng.integers(0, 30)), "b")
            came = Both(second, chosen, rng.integers(0, 8, len(second)), split=split)
            for before in steps[:5]:
                came.apply(before)
            both.one, both.each = both.one.with_people(came.one), both.each.with_people(came.each)
            both.has_changed = True
            both.check()
        if step.step == 7:
            stay = np.flatnonzero(rng.random(len(both.one.people)) < 0.6)
            rng.shuffle(stay)
            both.one, both.each = both.one.of_people(stay), both.each.of_people(stay)
            both.check()
    again = both.one.of_people(np.arange(len(both.one.people)))
    assert again.snapshot() == both.one.snapshot()
    restored = Both(first, chosen, np.zeros(len(first), dtype=np.int64), split=split)
    until = [restored.one.snapshot()]
    for step in steps:
        restored.one.apply(step)
        until.append(restored.one.snapshot())
    resumed = Both(first, chosen, np.zeros(len(first), dtype=np.int64), split=split).one
    resumed.restore(until[6])
    resumed.apply_all(steps[6:])
    assert resumed.snapshot() == until[-1]
    assert resumed.summary() == restored.one.summary()


def a_run(operations: int | None = 1_000_000) -> Both:
    """Many people of few kinds, so that shares get differently far."""
    rng = np.random.default_rng(5)
    population = some_of(rng, kinds_of(rng, 6, 1), 90, "a")
    chosen = HorizonSettings(5, 1, sharpen_above=0.0, operations=operations)
    return Both(population, chosen, np.zeros(90, dtype=np.int64))


def test_an_account_is_one_group_until_the_work_of_shares_reaches_differently_far() -> None:
    """Six priors are six accounts; with work for all they stay six groups, with little they become more."""
    rng = np.random.default_rng(6)
    enough, scarce = a_run(None), a_run()
    steps = [random_step(rng, t, LOCATIONS) for t in range(8)]
    for step in steps:
        for both in (enough, scarce):
            both.apply(step)
            both.check()
    assert len(scarce.one.population) == len(enough.one.population) == 6
    assert enough.one._groups.account.size == 6 < scarce.one._groups.account.size <= 6 * SHARES
    assert len(scarce.each.population) == 90
    assert 0 < scarce.one.not_reached < 90


@pytest.mark.slow
def test_whom_a_first_look_left_open_all_get_a_closer_one_before_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Through noise that leaves many counts to tell: one by one it is the same, and work goes on to all."""
    ways: list[tuple[int, int]] = []
    refine = cascade.RepeatedWindows.refine

    def noting(windows: Any, accounts: Any, chains: Any, last: int, seen: Any, way: int) -> Any:
        ways.append((way, accounts.horizon.vectors))
        return refine(windows, accounts, chains, last, seen, way)

    monkeypatch.setattr(cascade.RepeatedWindows, "refine", noting)
    population = deciding.people(np.random.default_rng(9), 24, LOCATIONS, cycles=(1,))
    chosen = HorizonSettings(8, 2, sharpen_above=0.0, operations=40_000_000)
    both, rng = Both(population, chosen, np.zeros(24, dtype=np.int64)), np.random.default_rng(3)
    for t in range(10):
        counted = rng.choice(LOCATIONS, 3, replace=False).tolist()
        both.apply(StepSchedule(t, releases(*(((x,), gaussian(1.0)) for x in counted))))
    both.check()
    closer = [vectors for way, vectors in ways if way & cascade._CLOSER]
    assert set(closer) == {cascade.CLOSER_VECTORS}
    assert any(way & cascade._MORE for way, _ in ways)


def test_partitions_do_together_what_one_process_does() -> None:
    """Whole shares held elsewhere, in another order: the same figures by name."""
    rng = np.random.default_rng(7)
    steps = [random_step(rng, t, LOCATIONS) for t in range(8)]
    whole = a_run()
    share = whole.one.people_shares.share
    order = [np.flatnonzero(share % 2 == k)[::-1] for k in range(2)]
    population = whole.each.population
    parts = [
        Both(population.subset(own), whole.one.settings, np.zeros(own.size, dtype=np.int64)) for own in order
    ]
    for step in steps:
        for both in (whole, *parts):
            both.apply(step)
    for own, part in zip(order, parts, strict=True):
        np.testing.assert_array_equal(part.one.risk(), whole.one.risk()[own])
        np.testing.assert_array_equal(part.one.worst().highest_step, whole.one.worst().highest_step[own])
    assert sum(part.one.not_reached for part in parts) == whole.one.not_reached > 0
    joined = parts[0].one.with_people(parts[1].one)
    assert len(joined.population) == 6
    assert joined.risk().tolist() == whole.one.risk()[np.concatenate(order)].tolist()


def test_the_attack_on_drawn_people_is_the_same() -> None:
    """Who is drawn, from which stream, and what becomes of it."""
    rng, both = np.random.default_rng(8), a_run()
    shadows = [Shadow(each, drawn_parts(each.people_shares, 80)) for each in (both.one, both.each)]
    for t in range(4):
        step = random_step(rng, t, LOCATIONS)
        both.apply(step)
        for shadow in shadows:
            shadow.note(step)
        assert shadows[0].mean() == shadows[1].mean()
    assert shadows[0].mean() is not None


def test_a_person_cannot_be_accounted_twice() -> None:
    both = a_run()
    with pytest.raises(PriorError, match="'a0' twice"):
        both.one.with_people(both.one.of_people(np.array([0])))


def test_a_snapshot_of_people_with_other_accounts_is_refused() -> None:
    """Also where the accounts are the same ones."""
    both = a_run()
    turned = np.roll(np.arange(90), 1)
    other = Both(both.each.population.subset(turned), both.one.settings, np.zeros(90, dtype=np.int64))
    with pytest.raises(SnapshotError, match="other people"):
        both.one.restore(other.one.snapshot())


@given(
    values=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_mean_does_not_depend_on_which_people_share_a_figure(values: list[float], seed: int) -> None:
    """Exact of values in parts of 2^-52, so in any order and grouping the same bits."""
    rng = np.random.default_rng(seed)
    people = rng.integers(1, 10**6, len(values))
    found = Ranked(np.array(values), people).mean()
    parts = [round(Fraction(value) * 2**52) for value in values]
    total = sum(part * count for part, count in zip(parts, people.tolist(), strict=True))
    assert found == float(Fraction(total, 2**52 * int(people.sum())))
    few = people % 7 + 1
    written_out = rng.permutation(np.repeat(np.array(values), few))
    ungrouped = Ranked(written_out, np.ones(written_out.size, dtype=np.int64)).mean()
    assert Ranked(np.array(values), few).mean() == ungrouped
    assert ungrouped == pytest.approx(written_out.mean(), rel=0.0, abs=1e-15)


@given(
    values=st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]), max_size=30),
    seed=st.integers(0, 2**32 - 1),
)
def test_order_statistics_equal_those_of_all_people_listed_one_by_one(values: list[float], seed: int) -> None:
    """As numpy has them of an array in which every person stands."""
    people = np.random.default_rng(seed).integers(1, 50, len(values))
    found, every = Ranked(np.array(values), people), np.repeat(np.array(values), people)
    assert found.people == every.size
    assert found.reached([0.1, 0.5]) == {level: int((every >= level).sum()) for level in (0.1, 0.5)}
    levels = (0.0, 0.37, 0.5, 0.9, 0.99, 1.0)
    expected = np.quantile(every, levels, method="higher") if every.size else np.zeros(6)
    assert list(found.quantiles(levels).values()) == expected.tolist()
    assert found.median() == (float(np.median(every)) if every.size else 0.0)
    worst = WorstMoments(*(np.array(values),) * 5)._replace(baseline=np.zeros(len(values)))
    written_out = WorstMoments(*(every,) * 5)._replace(baseline=np.zeros(every.size))
    chosen = np.zeros(every.size, dtype=np.bool_)
    chosen[most_added(written_out, 7)] = True
    assert np.repeat(worst.is_most_added(7, people), people).tolist() == chosen.tolist()
