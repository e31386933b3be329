"""The running account against a crowd adversary: sound at every step, never above the informed one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant, PeopleShares
from accounting.continuous.crowd import CrowdAccount
from accounting.continuous.payer import Due
from accounting.exceptions import SnapshotError, StepOrderError
from accounting.exposure.crowd import LEVELS, CrowdAdversary, SensorCrowd, revealed
from accounting.settings import HorizonSettings, RiskBudget
from models.priors import MovementPrior, Population
from models.releases import Schedule, Sensor, SensorRelease, StepSchedule
from tests.accounting.crowd.both import BothAccounts
from tests.accounting.crowd.collective import Count, collective_optimum, joint_law, others_law
from tests.accounting.crowd.instances import Instance, large_instance, random_instance
from tests.accounting.exposures import RAW, gaussian
from tests.volume import some

ROUNDING = 1e-9
COIN = MovementPrior.from_dense("coin", np.full((2, 2), 0.5))


def check(instance: Instance, settings: HorizonSettings) -> set[str]:
    """Every horizon of a log, each with what came before it; by which bounds risks were lowered."""
    horizon, mistakes = settings.horizon, settings.mistakes
    account = BothAccounts(instance.population, CrowdAdversary(), settings)
    counted = {each.step for each in instance.counts()}
    found = set()
    for step in instance.schedule.steps:
        account.apply(step)
        first = step.step - horizon + 1
        risk, informed = account.risk()[0], account.informed.risk()[0]
        assert account.baseline()[0] <= risk <= informed
        if first >= 0 and any(each <= step.step for each in counted):
            best = instance.optimum((first, step.step), mistakes, step.step)
            assert best <= risk + ROUNDING
            found |= {account.decided_by(0)} if risk < informed - 1e-6 else set()
    return found


def check_many(seeds: Iterable[int]) -> dict[str, int]:
    """How often each bound lowered a risk; of every three crowds two are large, one is not refined."""
    found = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        instance = large_instance(rng) if seed % 3 else random_instance(rng, target_among=True)
        horizon = int(rng.integers(1, instance.steps + 1))
        mistakes = int(rng.integers(min(horizon, 2)))
        found += check(instance, HorizonSettings(horizon, mistakes, sharpen=seed % 3 < 2, sharpen_above=0.0))
    return {name: len(list(same)) for name, same in groupby(sorted(found))}


@pytest.mark.slow
@pytest.mark.indices
def test_no_adversary_beats_the_running_ceiling_whatever_came_before() -> None:
    """Horizons with a history, raw and noised; both ways of the crowd lower some of the ceilings."""
    lowered = check_many(range(24))
    assert lowered["crowd_divergence"] > 0
    assert lowered["crowd_levels"] > 2


@pytest.mark.thorough
@pytest.mark.slow
def test_no_adversary_beats_the_running_ceiling_in_many_logs() -> None:
    """The same, longer."""
    crowds = some(400)
    lowered = check_many(1_000 + crowd for crowd in crowds)
    assert min(lowered.values()) > len(crowds) / 4


def people(count: int, prior: MovementPrior = COIN) -> Population:
    moves = np.array([[0.5, 0.5], [0.5, 0.5]])
    return Population.pack([MovementPrior.from_dense(f"p{k}", moves) for k in range(count)])


def steps_of(mechanisms: list[object]) -> tuple[StepSchedule, ...]:
    return tuple(
        StepSchedule(k, Schedule.of([[0]], mechanism).steps[0].releases)  # type: ignore[arg-type]
        for k, mechanism in enumerate(mechanisms)
    )


def test_who_knows_everybody_has_the_informed_risk_to_the_bit() -> None:
    """As many known as there are others, raw and noised; the informed account is the one without a crowd."""
    steps = steps_of([RAW, gaussian(0.8), RAW, RAW, gaussian(0.8), RAW])
    settings = HorizonSettings(3, 0, sharpen_above=0.0)
    known = BothAccounts(people(30), CrowdAdversary(known=29), settings)
    fewer = BothAccounts(people(30), CrowdAdversary(), settings)
    informed = ContinuousAccountant(people(30), settings)
    for step in steps:
        for account in (known, fewer, informed):
            account.apply(step)
        assert known.risk().tolist() == known.informed.risk().tolist() == informed.risk().tolist()
        assert known.decided_by(0) == informed.decided_by(0)
        assert (fewer.risk() < informed.risk()).all()
        assert (fewer.information_nats() <= informed.information_nats()).all()


@pytest.mark.slow
@pytest.mark.indices
def test_levels_are_shared_among_all_counts_that_a_refined_bound_looks_at() -> None:
    """Two sensors in each of the 48 + 3 steps: a 102nd of each level for a count."""
    moves = np.full((3, 3), 1 / 3)
    priors = [MovementPrior.from_dense(f"p{k}", moves) for k in range(900)]
    account = BothAccounts(Population.pack(priors), CrowdAdversary(), HorizonSettings(3, 0))
    account.apply(Schedule.of([[0, 1]], RAW).steps[0])
    for level, seen in zip(LEVELS, account._seen, strict=True):
        shown = [revealed(crowd.variance_at(level / 102, account.adversary), RAW) for crowd in account.crowds]
        found = seen.tables.shown[:, 0]  # without levels: of a variance that is a little smaller
        assert (shown <= found).all()
        assert (found <= np.minimum(1.0, 1.02 * np.array(shown))).all()
        assert min(shown) < 0.3


@pytest.mark.slow
@pytest.mark.indices
def test_risk_falls_with_the_crowd_and_rises_with_who_is_known() -> None:
    """More others, fewer known, more who move alone: never a higher risk."""
    steps = steps_of([RAW] * 4)
    settings = HorizonSettings(3, 0, sharpen_above=0.0)

    def risk(count: int, adversary: CrowdAdversary) -> float:
        account = BothAccounts(people(count), adversary, settings)
        account.apply_all(steps)
        return float(account.risk()[0])

    assert risk(10, CrowdAdversary()) > risk(60, CrowdAdversary()) > risk(1000, CrowdAdversary())
    assert risk(60, CrowdAdversary(known=40)) > risk(60, CrowdAdversary(known=5)) > risk(60, CrowdAdversary())
    assert risk(60, CrowdAdversary(alone=0.3)) > risk(60, CrowdAdversary(alone=0.9))
    assert risk(60, CrowdAdversary(alone=0.0)) == risk(60, CrowdAdversary(known=60))


def test_a_group_that_moves_together_is_held_by_the_ceiling_for_groups() -> None:
    """Three people in step among 40 coins: the ceiling with two companions is above what can be done."""
    half, moves = np.array([0.5, 0.5]), np.full((1, 2, 2), 0.5)
    mechanism = gaussian(0.7)
    noise = mechanism.noise_law()
    assert noise is not None
    steps = steps_of([mechanism, RAW])
    counts = [
        Count(0, np.array([True, False]), noise.probabilities),
        Count(1, np.array([True, False]), np.ones(1)),
    ]
    law = others_law([(half, moves)] * 40, counts, 2)
    best = collective_optimum(joint_law((half, moves), counts, law, (0, 1), group=3), 0)
    settings = HorizonSettings(2, 0, sharpen_above=0.0)
    group = BothAccounts(people(43), CrowdAdversary(companions=2), settings)
    single = BothAccounts(people(43), CrowdAdversary(), settings)
    group.apply_all(steps)
    single.apply_all(steps)
    assert single.risk()[0] < best <= group.risk()[0] <= 1.0


def test_work_is_limited_and_who_was_not_reached_is_counted() -> None:
    """Without operations nothing is refined; with few, some; the rest keep the valid fast bound."""
    steps = steps_of([RAW] * 4)
    whole = BothAccounts(people(50), CrowdAdversary(), HorizonSettings(3, 0, sharpen_above=0.0))
    few, fast = (
        BothAccounts(people(50), CrowdAdversary(), HorizonSettings(3, 0, sharpen_above=0.0, operations=each))
        for each in (500_000, 0)
    )
    for each in (whole, few, fast):
        each.apply_all(steps)
    assert 0 < few.summary().not_reached < 50
    assert (few.risk() < fast.risk()).sum() == 50 - few.summary().not_reached
    weighed = replace(people(50), weights=np.full(50, 7.0))
    personas = BothAccounts(
        weighed, CrowdAdversary(), HorizonSettings(3, 0, sharpen_above=0.0, operations=500_000)
    )
    personas.apply_all(steps)
    assert personas.summary().not_reached > 50
    assert personas.summary().not_reached % 7 == 0
    assert (few.risk() >= whole.risk()).all()
    assert few.risk().max() == fast.risk().max()
    summary = whole.summary()
    assert summary.mean_risk == pytest.approx(whole.risk().mean())
    assert summary.most_added >= whole.added().max()


class OneByOne(CrowdAccount):
    """Looks once more at everybody by loops over people, with copies of the same figures."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.rounds: list[tuple[int, int]] = []

    def _looked_at(self, due: Due, look: Any) -> np.ndarray:
        again = look._replace(risk=look.risk.copy(), by=look.by.copy())
        found = super()._looked_at(due, look)
        assert found.tolist() == self.one_by_one(due, again)
        assert again.risk.tolist() == look.risk.tolist()
        assert again.by.tolist() == look.by.tolist()
        return found

    def one_by_one(self, due: Due, look: Any) -> list[bool]:
        """In each share: who is owed it as decisions look; all in full if it can pay that; else in rounds."""
        shares, vectors, found = self.informed.people_shares, self.settings.vectors, {}
        whole, one = tuple(range(len(LEVELS))), (LEVELS.index(1e-3),)
        assert self.settings.operations is not None
        for share in range(shares.count):
            left = self.settings.operations // shares.count
            own = [k for k in due.chains.tolist() if shares.share[k] == share]
            owed = [k for k in own if k in due.chains[due.is_owed]]
            for k in owed:
                left -= self.ran(look, k, 4, one)
            found |= dict.fromkeys(owed, True)
            rest = sum(self.cost(look, k, vectors, whole) for k in own)
            if rest <= left:
                for k in own:
                    self.ran(look, k, vectors, whole)
                found |= dict.fromkeys(own, True)
                continue
            at_first, waiting = True, [k for k in own if k not in owed]
            for each in ((4, one), (4, whole), (6, whole), (vectors, whole)):
                waiting.sort(key=lambda k: (-look.added[k], shares.rank[k]))
                done, left = self.one_round(waiting, each, look, left)
                if at_first:
                    found |= dict.fromkeys(done, True)
                    done += owed
                at_first, waiting = False, [k for k in done if look.added[k] > 1e-4]
        return [k in found for k in due.chains.tolist()]

    def cost(self, look: Any, person: int, *each: Any) -> int:
        return int(look.cost(np.array([person]), *each, np.array([0]))[0])

    def ran(self, look: Any, person: int, *each: Any) -> int:
        return int(look.run(np.array([person]), *each, np.array([0]))[0])

    def one_round(
        self, waiting: list[int], each: tuple[int, tuple[int, ...]], look: Any, left: int
    ) -> tuple[list[int], int]:
        done: list[int] = []
        while waiting:
            given_back, chosen = 0, 0
            for k in waiting:
                cost = self.cost(look, k, *each)
                if cost > left:
                    break
                left, chosen = left - cost, chosen + 1
                given_back += cost - self.ran(look, k, *each)
                self.rounds.append((each[0], len(each[1])))
            done, left = done + waiting[:chosen], left + given_back
            waiting = waiting[chosen:] if given_back else []
        return done, left


@pytest.mark.slow
@pytest.mark.indices
def test_work_goes_to_all_for_a_little_before_it_goes_to_some_for_much() -> None:
    """In each share first one level with few vectors, then all levels, closer, and in full: as one by one."""
    everybody, number = city(3, 24), np.arange(24)
    shares, rounds, reached = PeopleShares(3, number * 7 % 3, number * 31 % 101), set(), []
    for operations in (3_000_000, 12_000_000, 36_000_000, 72_000_000, 240_000_000):
        settings = HorizonSettings(4, 1, sharpen_above=0.0, operations=operations)
        decided = RiskBudget(0.2, risk=0.9) if operations == 12_000_000 else None
        informed = ContinuousAccountant(everybody, settings, None, shares, apart=True)
        account = OneByOne(informed, CrowdAdversary(), decided=decided)
        for step in varied_steps(7):
            informed.apply(step)
            account.apply(step)
        rounds.update(account.rounds)
        reached.append(24 - account.not_reached)
    assert rounds == {(4, 1), (4, 8), (6, 8), (16, 8)}
    assert 0 < reached[0] < reached[-1] == 24


def test_a_radius_raises_the_crowd_ceiling_like_any_other() -> None:
    near = BothAccounts(people(40), CrowdAdversary(), HorizonSettings(3, 0, within_nats=0.1))
    at = BothAccounts(people(40), CrowdAdversary(), HorizonSettings(3, 0))
    for step in steps_of([RAW] * 3):
        near.apply(step)
        at.apply(step)
    assert (near.risk() > at.risk()).all()
    assert near.added().tolist() == at.added().tolist()


def test_people_who_come_later_hide_nobody_before_and_steps_come_in_order() -> None:
    """Newcomers are revealed at the first step they are seen in, and hide others from the next on."""
    steps = steps_of([RAW] * 4)
    since = np.where(np.arange(60) < 20, 0, 2)
    settings = HorizonSettings(2, 0, sharpen_above=0.0)
    joined = BothAccounts(people(60), CrowdAdversary(), settings, since)
    few = BothAccounts(people(20), CrowdAdversary(), settings)
    for step in steps[:3]:
        joined.apply(step)
        few.apply(step)
        assert joined.risk()[:20].tolist() == few.risk().tolist()
    for step in steps[3:]:
        joined.apply(step)
        few.apply(step)
        assert (joined.risk()[:20] < few.risk()).all()
    with pytest.raises(StepOrderError, match="next step must be 4"):
        joined.apply(steps[0])


def city(seed: int, count: int) -> Population:
    """People of their own kind, some with a start of their own."""
    rng = np.random.default_rng(seed)
    priors = []
    for k in range(count):
        moves = rng.dirichlet(np.full(3, 2.0), size=(2, 3))
        own = rng.dirichlet(np.full(3, 2.0)) if k % 4 == 0 else None
        priors.append(MovementPrior.from_dense(f"p{k}", moves, initial=own))
    return Population.pack(priors)


def varied_steps(count: int) -> list[StepSchedule]:
    mechanisms = [RAW, gaussian(0.8), RAW]
    sensors = [[[0]], [[0], [1]], [[1, 2]], []]
    return [
        StepSchedule(
            t,
            tuple(
                SensorRelease(Sensor(f"S{k}", tuple(where)), mechanisms[t % 3])
                for k, where in enumerate(sensors[t % 4])
            ),
        )
        for t in range(count)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("companions", [0, 1])
def test_a_snapshot_brings_an_account_on_to_the_bit(companions: int) -> None:
    """Both accounts, the others' states, levels; another adversary's snapshot is refused."""
    everybody, adversary = city(1, 24), CrowdAdversary(companions=companions)
    settings = HorizonSettings(3, 1, sharpen_above=0.0)
    whole = BothAccounts(everybody, adversary, settings)
    steps = varied_steps(9)
    whole.apply_all(steps[:5])
    again = BothAccounts(everybody, adversary, settings)
    again.restore(whole.snapshot())
    for step in steps[5:]:
        whole.apply(step)
        again.apply(step)
        assert again.crowds == whole.crowds
        assert again.risk().tolist() == whole.risk().tolist()
        assert again.informed.risk().tolist() == whole.informed.risk().tolist()
        assert again.crossings().tolist() == whole.crossings().tolist()
    assert again.snapshot() == whole.snapshot()
    assert again.summary() == whole.summary()
    other = BothAccounts(everybody, CrowdAdversary(known=3), settings)
    with pytest.raises(SnapshotError, match="other"):
        other.restore(whole.snapshot())
    with pytest.raises(SnapshotError):
        again.restore(whole.informed.snapshot())


@pytest.mark.slow
@pytest.mark.indices
def test_partitions_and_newcomers_account_as_one_to_the_bit() -> None:
    """Sums of partitions add up; people who join later are as if they had been there; who leaves is gone."""
    everybody, adversary = city(2, 30), CrowdAdversary(known=2)
    settings = HorizonSettings(3, 1, sharpen_above=0.0)
    steps, rng = varied_steps(10), np.random.default_rng(5)
    part = rng.integers(2, size=30)
    positions = [np.flatnonzero(part == k) for k in (0, 1)]
    whole = BothAccounts(everybody, adversary, settings)
    parts = [BothAccounts(everybody.subset(where), adversary, settings) for where in positions]
    late = BothAccounts(everybody.subset(positions[1][:4]), adversary, settings)
    parts[1] = BothAccounts(everybody.subset(positions[1][4:]), adversary, settings)
    for step in steps:
        crowds = [each.ask(step) for each in (*parts, late)]
        assert crowds == [each.ask(step) for each in (*parts, late)]
        total = tuple(sum(each, start=SensorCrowd()) for each in zip(*crowds, strict=True))
        assert whole.apply(step) == total
        for each in (*parts, late):
            each.apply(step, total)
        together = CrowdAccount.with_people(late, parts[1], late.informed.with_people(parts[1].informed))
        assert together.risk().tolist() == whole.risk()[positions[1]].tolist()
        assert parts[0].risk().tolist() == whole.risk()[positions[0]].tolist()
    some = np.arange(0, 30, 2)
    fewer = whole.of_people(some, whole.informed.of_people(some))
    assert fewer.risk().tolist() == whole.risk()[some].tolist()
    step = StepSchedule(10, steps[5].releases)
    rest = whole.of_people(some + 1, whole.informed.of_people(some + 1))
    apart = [each.ask(step) for each in (fewer, rest)]
    assert tuple(a + b for a, b in zip(*apart, strict=True)) == whole.ask(step)


def test_the_informed_account_goes_first() -> None:
    """A step that it has not seen is refused."""
    informed = ContinuousAccountant(people(5), HorizonSettings(2, 0), apart=True)
    account = CrowdAccount(informed)
    with pytest.raises(StepOrderError, match="informed account must be at step 1"):
        account.apply(steps_of([RAW])[0])
