"""The running account against a crowd adversary: sound at every step, never above the informed one."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.continuous.crowd import CrowdAccount
from accounting.exceptions import StepOrderError
from accounting.exposure.crowd import LEVELS, CrowdAdversary, revealed
from accounting.settings import HorizonSettings
from models.priors import MovementPrior, Population
from models.releases import Schedule, StepSchedule
from tests.accounting.crowd.collective import Count, collective_optimum, joint_law, others_law
from tests.accounting.crowd.instances import Instance, large_instance, random_instance
from tests.accounting.exposures import RAW, gaussian

ROUNDING = 1e-9
COIN = MovementPrior.from_dense("coin", np.full((2, 2), 0.5))


def check(instance: Instance, settings: HorizonSettings) -> set[str]:
    """Every horizon of a log, each with what came before it; by which bounds risks were lowered."""
    horizon, mistakes = settings.horizon, settings.mistakes
    account = CrowdAccount(instance.population, CrowdAdversary(), settings)
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


def check_many(seeds: range) -> dict[str, int]:
    """How often each bound lowered a risk; of every three crowds two are large, one is not refined."""
    found = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        instance = large_instance(rng) if seed % 3 else random_instance(rng, target_among=True)
        horizon = int(rng.integers(1, instance.steps + 1))
        mistakes = int(rng.integers(min(horizon, 2)))
        found += check(instance, HorizonSettings(horizon, mistakes, sharpen=seed % 3 < 2, sharpen_above=0.0))
    return {name: len(list(same)) for name, same in groupby(sorted(found))}


def test_no_adversary_beats_the_running_ceiling_whatever_came_before() -> None:
    """Horizons with a history, raw and noised; both ways of the crowd lower some of the ceilings."""
    lowered = check_many(range(24))
    assert lowered["crowd_divergence"] > 0
    assert lowered["crowd_levels"] > 2


@pytest.mark.slow
def test_no_adversary_beats_the_running_ceiling_in_many_logs() -> None:
    """The same, longer."""
    lowered = check_many(range(1_000, 1_400))
    assert min(lowered.values()) > 100


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
    known = CrowdAccount(people(30), CrowdAdversary(known=29), settings)
    fewer = CrowdAccount(people(30), CrowdAdversary(), settings)
    alone = ContinuousAccountant(people(30), settings)
    for step in steps:
        for account in (known, fewer, alone):
            account.apply(step)
        assert known.risk().tolist() == known.informed.risk().tolist() == alone.risk().tolist()
        assert known.decided_by(0) == alone.decided_by(0)
        assert (fewer.risk() < alone.risk()).all()
        assert (fewer.information_nats() <= alone.information_nats()).all()


def test_levels_are_shared_among_all_counts_that_a_refined_bound_looks_at() -> None:
    """Two sensors in each of the 48 + 3 steps: a 102nd of each level for a count."""
    moves = np.full((3, 3), 1 / 3)
    priors = [MovementPrior.from_dense(f"p{k}", moves) for k in range(900)]
    account = CrowdAccount(Population.pack(priors), CrowdAdversary(), HorizonSettings(3, 0))
    account.apply(Schedule.of([[0, 1]], RAW).steps[0])
    for level, seen in zip(LEVELS, account._seen, strict=True):
        shown = [revealed(crowd.variance_at(level / 102, account.adversary), RAW) for crowd in account.crowds]
        assert seen.tables.shown[:, 0].tolist() == shown
        assert min(shown) < 0.3


def test_risk_falls_with_the_crowd_and_rises_with_who_is_known() -> None:
    """More others, fewer known, more who move alone: never a higher risk."""
    steps = steps_of([RAW] * 4)
    settings = HorizonSettings(3, 0, sharpen_above=0.0)

    def risk(count: int, adversary: CrowdAdversary) -> float:
        account = CrowdAccount(people(count), adversary, settings)
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
    law = mechanism.noise_law()
    assert law is not None
    steps = steps_of([mechanism, RAW])
    counts = [
        Count(0, np.array([True, False]), law.probabilities),
        Count(1, np.array([True, False]), np.ones(1)),
    ]
    joint = joint_law((half, moves), counts, others_law([(half, moves)] * 40, counts, 2), 2, group=3)
    best = collective_optimum(joint, (half, moves), 2, (0, 1), 0)
    settings = HorizonSettings(2, 0, sharpen_above=0.0)
    group = CrowdAccount(people(43), CrowdAdversary(companions=2), settings)
    single = CrowdAccount(people(43), CrowdAdversary(), settings)
    group.apply_all(steps)
    single.apply_all(steps)
    assert single.risk()[0] < best <= group.risk()[0] <= 1.0


def test_work_is_limited_and_who_was_not_reached_is_counted() -> None:
    """Without operations nothing is refined; with few, some; the rest keep the valid fast bound."""
    steps = steps_of([RAW] * 4)
    whole = CrowdAccount(people(50), CrowdAdversary(), HorizonSettings(3, 0, sharpen_above=0.0))
    few = CrowdAccount(
        people(50), CrowdAdversary(), HorizonSettings(3, 0, sharpen_above=0.0, operations=3_000_000)
    )
    whole.apply_all(steps)
    few.apply_all(steps)
    assert 0 < few.summary().not_reached < 50
    assert (few.risk() >= whole.risk()).all()
    assert few.risk().min() == whole.risk().min()
    summary = whole.summary()
    assert summary.mean_risk == pytest.approx(whole.risk().mean())
    assert summary.most_added >= whole.added().max()


def test_a_radius_raises_the_crowd_ceiling_like_any_other() -> None:
    near = CrowdAccount(people(40), CrowdAdversary(), HorizonSettings(3, 0, within_nats=0.1))
    at = CrowdAccount(people(40), CrowdAdversary(), HorizonSettings(3, 0))
    for step in steps_of([RAW] * 3):
        near.apply(step)
        at.apply(step)
    assert (near.risk() > at.risk()).all()
    assert near.added().tolist() == at.added().tolist()


def test_people_who_come_later_hide_nobody_before_and_steps_come_in_order() -> None:
    """Newcomers count from their first step on."""
    steps = steps_of([RAW] * 4)
    since = np.where(np.arange(60) < 20, 0, 2)
    settings = HorizonSettings(2, 0, sharpen_above=0.0)
    joined = CrowdAccount(people(60), CrowdAdversary(), settings, since)
    few = CrowdAccount(people(20), CrowdAdversary(), settings)
    for step in steps[:2]:
        joined.apply(step)
        few.apply(step)
        assert joined.risk()[:20].tolist() == few.risk().tolist()
    for step in steps[2:]:
        joined.apply(step)
        few.apply(step)
        assert (joined.risk()[:20] < few.risk()).all()
    with pytest.raises(StepOrderError, match="next step must be 4"):
        joined.apply(steps[0])
