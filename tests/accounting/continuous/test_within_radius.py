"""Everybody within a radius of the prior: the same figures everywhere, and a budget that keeps them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import rel_entr

from accounting.bounds.radius import Radius, bound_for, budget_within, ceiling_within, ceilings_within
from accounting.continuous import ContinuousAccountant
from accounting.exceptions import HorizonError, SettingsError
from accounting.exposure import Exposure
from accounting.settings import HorizonSettings, RiskBudget
from models.mechanisms import Gaussian, Raw
from models.priors import MovementPrior, Population
from models.releases import Schedule, Sensor, SensorRelease, StepSchedule
from tests.accounting.decisions.deciding import over_limit, people, random_sensors, run
from tests.accounting.enumeration import all_paths, window_optimum
from tests.accounting.exposures import exposure_to, step_of
from tests.accounting.random_runs import channel, random_step

NATS = 0.08


def test_many_bounds_are_raised_as_the_radius_raises_one() -> None:
    """Exactly; 0 nats change nothing, and who cannot succeed at all stays so."""
    bounds = np.array([0.0, 1e-9, 0.003, 0.2, 0.7, 0.999, 1.0])
    radius = Radius(0, 3, kl=NATS)
    assert ceilings_within(NATS, bounds).tolist() == [0.0, *(radius.ceiling(b).value for b in bounds[1:])]
    assert ceilings_within(0.0, bounds) is bounds
    assert ceiling_within(NATS, 0.2) == ceilings_within(NATS, bounds)[3] > 0.2
    raised = ceilings_within(NATS, bounds)[3]
    assert rel_entr(raised, 0.2) + rel_entr(1 - raised, 0.8) == pytest.approx(NATS, rel=1e-6)


@pytest.mark.parametrize("level", [0.05, 0.3, 0.9])
def test_a_level_is_lowered_to_the_largest_bound_that_keeps_it(level: float) -> None:
    """What is lowered and raised again is the level; what is above it is raised to more."""
    bound = bound_for(NATS, level)
    assert ceiling_within(NATS, bound) <= level
    assert ceiling_within(NATS, bound) == pytest.approx(level, rel=1e-6)
    assert ceiling_within(NATS, bound * (1 + 1e-9)) > level
    assert bound_for(0.0, level) == level
    assert bound_for(NATS, 1.0) == 1.0


@pytest.mark.parametrize("level", [0.0, 5e-324])
def test_a_level_of_zero_stays_zero_within_a_radius(level: float) -> None:
    """Every bound is refined without thresholds, or with ``sharpen_above`` 0; a limit of 0 stays one."""
    assert bound_for(NATS, level) == 0.0
    assert budget_within(NATS, RiskBudget(risk=level)).risk == 0.0
    folk = people(np.random.default_rng(3), 5, 6)
    step = random_step(np.random.default_rng(4), 0, 6)
    for all_of_them in (HorizonSettings(4, 1, thresholds=()), HorizonSettings(4, 1, sharpen_above=level)):
        raised, plain = (
            ContinuousAccountant(folk, replace(all_of_them, within_nats=nats)) for nats in (NATS, 0.0)
        )
        for accountant in (raised, plain):
            accountant.apply(step)
        assert raised.risk().tolist() == ceilings_within(NATS, plain.risk()).tolist()


def test_a_budget_limits_added_risk_under_the_prior() -> None:
    """Raised ceilings have no *added*: that limit stays."""
    limit = RiskBudget(0.1, risk=0.5, added=0.2)
    lowered = budget_within(NATS, limit)
    assert lowered == replace(limit, risk=bound_for(NATS, 0.5))
    assert budget_within(NATS, RiskBudget(added=0.2)) == RiskBudget(added=0.2)


def test_every_figure_of_an_accountant_is_raised_but_what_releases_added() -> None:
    """Risks, counts, quantiles, worst moments and crossings are those of the raised risks."""
    random = np.random.default_rng(3)
    settings = HorizonSettings(4, 1, thresholds=(0.2, 0.5, 0.8))
    folk = people(random, 40, 6)
    plain, raised = (
        ContinuousAccountant(folk, each) for each in (settings, replace(settings, within_nats=NATS))
    )
    for step in range(8):
        schedule = random_step(random, step, 6)
        before = np.searchsorted([0.2, 0.5, 0.8], raised.risk(), side="right")
        for accountant in (plain, raised):
            accountant.apply(schedule)
        risk = raised.risk()
        np.testing.assert_array_equal(risk, ceilings_within(NATS, plain.risk()))
        for same in ("baseline", "added"):
            np.testing.assert_array_equal(getattr(raised, same)(), getattr(plain, same)())
        summary, others = raised.summary(), plain.summary()
        assert summary.at_risk == {level: int((risk >= level).sum()) for level in settings.thresholds}
        assert summary.risk_quantiles[1.0] == risk.max()
        assert summary.mean_risk == pytest.approx(risk.mean(), rel=0.0, abs=1e-15)
        assert summary.mean_risk > others.mean_risk
        assert summary.most_risk == ceiling_within(NATS, others.most_risk)
        for same in ("at_added_risk", "added_quantiles", "mean_added", "mean_baseline", "most_added"):
            assert getattr(summary, same) == getattr(others, same)
        now = np.searchsorted([0.2, 0.5, 0.8], risk, side="right")
        assert raised.crossings().tolist() == np.flatnonzero(now != before).tolist()


@pytest.mark.slow
@pytest.mark.indices
@pytest.mark.parametrize("sharpen", [False, True])
def test_a_budget_is_kept_by_the_raised_risks(sharpen: bool) -> None:
    """After every step no more people are over the limit within the radius than may be, beside the natural.

    And it is no budget that releases nothing.
    """
    random, released = np.random.default_rng(11), 0
    for _ in range(12):
        limit = RiskBudget(0.2, risk=float(random.uniform(0.8, 0.97)))
        settings = HorizonSettings(4, 0, sharpen=sharpen, within_nats=NATS / 4, decided=limit)
        accountant = ContinuousAccountant(people(random, 30, 6), settings)
        steps = [random_sensors(random, 6, 3) for _ in range(6)]
        for done in run(accountant, limit, steps):
            assert done.decision.over <= done.decision.allowed
            assert done.over.sum() <= max(done.decision.allowed, done.decision.natural)
            released += sum(each.mechanism.is_released for each in done.decision.schedule.releases)
        assert (accountant.risk() >= accountant.baseline()).all()
        assert over_limit(accountant, limit).sum() <= (accountant.risk() > limit.risk).sum()
    assert released > 20


@pytest.mark.slow
@pytest.mark.indices
@pytest.mark.parametrize("sharpen", [False, True])
def test_who_is_over_by_the_raised_guess_alone_is_not_spared_by_habits_apart(sharpen: bool) -> None:
    """Whose guess under the prior keeps a limit of risk must keep it raised, or nothing is released.

    Spared are those whose guess is over the limit as it was set, and the same ones whatever the radius.
    """
    random, between, kept = np.random.default_rng(19), 0, 0
    for _ in range(12):
        limit = RiskBudget(
            float(random.choice([0.0, 0.2])), risk=float(random.uniform(0.5, 0.97)), habits_apart=True
        )
        settings = HorizonSettings(4, 0, sharpen=sharpen, within_nats=NATS / 2, decided=limit)
        accountant = ContinuousAccountant(people(random, 30, 6), settings)
        steps = [random_sensors(random, 6, 3) for _ in range(6)]
        for done in run(accountant, limit, steps):
            is_released = any(each.mechanism.is_released for each in done.decision.schedule.releases)
            between += done.decision.natural
            kept += is_released
            if is_released:
                assert done.over.sum() <= done.decision.allowed
            assert done.over.sum() <= max(done.decision.allowed, done.decision.natural)
    assert between > 20
    assert kept > 5


@pytest.mark.parametrize("nats", [-0.1, float("inf"), float("nan")])
def test_a_radius_of_no_size_is_refused(nats: float) -> None:
    with pytest.raises(SettingsError, match="a radius must be 0 or more nats"):
        HorizonSettings(within_nats=nats)


def settled(move: np.ndarray) -> np.ndarray:
    """The law of the place of somebody who has moved like this for ever."""
    return Population.pack([MovementPrior.from_dense("ann", move)]).chain(0).start[0]


def best_in(move: np.ndarray, log: list[StepSchedule], horizon: int, mistakes: int) -> float:
    """The optimum about the last steps of a log, for somebody who has moved like this for ever."""
    start = settled(move)
    silent = np.ones((start.size, 1))
    channels = [silent] * (horizon - 1) + [channel(start.size, step) for step in log]
    paths = all_paths(start, move[np.newaxis], len(channels))
    return window_optimum(paths, channels, (len(log) - 1, len(log) + horizon - 2), mistakes)


@pytest.mark.parametrize("seed", range(3))
def test_raised_ceilings_hold_from_the_first_step_on(seed: int) -> None:
    """No adversary of any step is above the ceiling of a person within the radius, raw and noised.

    It counts from the first horizon's first step, which lies before the log.
    """
    rng, below_one = np.random.default_rng(seed), 0
    for _ in range(12):
        places, horizon = int(rng.integers(2, 4)), int(rng.integers(1, 4))
        mistakes, steps = int(rng.integers(0, horizon)), int(rng.integers(1, 4))
        prior, other = rng.dirichlet(np.ones(places), size=(2, places))
        person = prior + rng.choice([0.05, 0.3, 1.0]) * (other - prior)
        log = [random_step(rng, t, places, (Raw(), Gaussian(0.8))) for t in range(steps)]
        seen = [exposure_to(settled(each), each, [step_of([], [])] * steps) for each in (prior, person)]
        radius = Radius.between(*seen, first=1 - horizon)
        assert radius.kl >= Radius.between(*seen).kl - 1e-12
        names = [str(place) for place in range(places)]
        packed = Population.pack([MovementPrior.from_dense("ann", prior)], names)
        chosen = HorizonSettings(horizon, mistakes, sharpen_above=0.0, within_nats=radius.kl)
        accountant = ContinuousAccountant(packed, chosen)
        for t, step in enumerate(log):
            accountant.apply(step)
            ceiling = float(accountant.risk()[0])
            assert ceiling >= best_in(person, log[: t + 1], horizon, mistakes) - 1e-9
            below_one += ceiling < 0.99
    assert below_one > 4


def test_counted_from_the_first_count_a_radius_would_be_too_small() -> None:
    """Five steps that end with the first count: the person stays where the prior goes."""
    prior, person = (np.array([[stay, 1 - stay], [1 - stay, stay]]) for stay in (0.9, 0.99))
    log = [StepSchedule(0, (SensorRelease(Sensor("a", (0,)), Raw()),))]
    optimum = best_in(person, log, 5, 0)
    assert optimum == pytest.approx(0.99**4)
    seen = [exposure_to(np.full(2, 0.5), each, [step_of([], [])]) for each in (prior, person)]
    packed = Population.pack([MovementPrior.from_dense("ann", prior)], ["a", "b"])
    found = {}
    for first in (0, -4):
        radius = Radius.between(*seen, first=first)
        accountant = ContinuousAccountant(packed, HorizonSettings(5, 0, within_nats=radius.kl))
        accountant.apply(log[0])
        found[first] = float(accountant.risk()[0])
    assert found[0] == pytest.approx(0.6561)
    assert found[-4] >= optimum
    new = Exposure.of(packed.chain(0), Schedule.raw([[]]), 2, np.array([0.3, 0.7]))
    with pytest.raises(HorizonError, match="started long before"):
        Radius.between(new, seen[1], first=-1)
