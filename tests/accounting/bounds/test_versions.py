"""Late values and corrections: several values of one sensor-step are one channel, and accounts follow it."""

from __future__ import annotations

import json
import math
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from accounting.attacks import ATTACKS, attack_person
from accounting.audit import audit_population
from accounting.bounds import Effort, certify, horizon_risk, question
from accounting.continuous import ContinuousAccountant
from accounting.exposure import Exposure, baseline
from accounting.exposure.step_information import observe
from accounting.ledgers import ReleaseLog, ZcdpSpend, read_differential_privacy
from accounting.settings import HorizonSettings
from models.mechanisms import Gaussian, Mechanism, Raw, Suppressed, all_versions
from models.noise import joint_information_table, joint_outcomes, joint_shift_probability
from models.noise.noise_information import table_information
from models.priors import MovementPrior, Population
from models.releases import Schedule, Sensor, SensorRelease, StepSchedule
from tests.accounting.chains import chain_of
from tests.accounting.enumeration import all_paths, window_optimum

Floats = NDArray[np.float64]

CASES = json.loads((Path(__file__).parent / "corrections.json").read_text())["cases"]


def reference_law(sigma: float | None) -> Floats:
    """Noise as the reference draws it."""
    if sigma is None:
        return np.ones(1)
    values = np.arange(-int(5 * sigma + 3), int(5 * sigma + 3) + 1)
    weights = np.exp(-(values**2) / (2.0 * sigma**2))
    return np.asarray(weights / weights.sum())


def sigmas_of(release: dict[str, Any]) -> list[float | None]:
    return [release["first_sigma"]] + ([release["second_sigma"]] if release["has_second"] else [])


def shown(laws: list[Floats], counted: Floats, times: tuple[int, ...]) -> Floats:
    """Joint law of all values for who is at each place: counted ``times`` in each, or in none."""
    absent = reduce(np.multiply.outer, [np.append(law, 0.0) for law in laws]).ravel()
    moved = [
        np.append(law, 0.0) if k == 0 else np.append(0.0, law) for law, k in zip(laws, times, strict=True)
    ]
    return np.where(counted[:, None], reduce(np.multiply.outer, moved).ravel(), absent)


def together(one: Floats, other: Floats) -> Floats:
    return np.asarray((one[:, :, None] * other[:, None, :]).reshape(len(one), -1))


def channels_of(case: dict[str, Any], *, always: bool) -> list[Floats]:
    """What every step of a case shows, as :func:`tests.accounting.enumeration.window_optimum` takes it."""
    places = len(case["chain"]["initial"])
    channels = [np.ones((places, 1)) for _ in range(len(case["chain"]["transitions"]) + 1)]
    for release in case["releases"]:
        counted = np.isin(np.arange(places), release["places"])
        laws = [reference_law(sigma) for sigma in sigmas_of(release)]
        times = (1, 1) if always else tuple(release["counted"])
        own = shown(laws, counted, times[: len(laws)])
        channels[release["step"]] = together(channels[release["step"]], own)
    return channels


def mechanism_of(release: dict[str, Any]) -> Mechanism:
    return all_versions([Raw() if sigma is None else Gaussian(sigma) for sigma in sigmas_of(release)])


def log_of(case: dict[str, Any]) -> tuple[StepSchedule, ...]:
    by_step: dict[int, list[SensorRelease]] = {}
    for number, release in enumerate(case["releases"]):
        sensor = Sensor(f"c{number}", tuple(release["places"]))
        by_step.setdefault(release["step"], []).append(SensorRelease(sensor, mechanism_of(release)))
    steps = range(len(case["chain"]["transitions"]) + 1)
    return tuple(StepSchedule(t, tuple(by_step.get(t, ()))) for t in steps)


def exposure_of(case: dict[str, Any]) -> Exposure:
    start = np.array(case["chain"]["initial"])
    matrices = np.array(case["chain"]["transitions"])
    cycle = np.concatenate([matrices, matrices[-1:]])
    seen = tuple(observe(step, start.size) for step in log_of(case))
    return Exposure(chain_of(cycle, start), start, 0, seen)


@pytest.mark.parametrize("case", CASES)
def test_delta_and_information_are_those_of_the_reference(case: dict[str, Any]) -> None:
    """Total variation to 1e-8; information from above, by at most a ten-thousandth."""
    exposure = exposure_of(case)
    for index, release in enumerate(case["releases"]):
        joint = joint_outcomes([reference_law(sigma) for sigma in sigmas_of(release)])
        assert joint_shift_probability(joint) == pytest.approx(case["after"]["delta"][index], abs=1e-8)
        mechanism = mechanism_of(release)
        assert mechanism.reveal_probability() == pytest.approx(case["after"]["delta"][index], abs=1e-6)
        here = float(exposure.marginal[release["step"]][release["places"]].sum())
        exact = case["after"]["sensor_information"][index]
        if all(sigma is not None for sigma in sigmas_of(release)):
            found = table_information(joint_information_table(joint), here)
            assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-4)
        found = float(mechanism.information(np.array(here)))
        assert exact * (1 - 1e-6) <= found <= exact * (1 + 1.1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_no_adversary_of_the_reference_is_above_the_ceiling(case: dict[str, Any]) -> None:
    """The horizon of each case, seen with what was published before, in and after it."""
    first, last = case["horizon"]
    everything = all_paths(
        np.array(case["chain"]["initial"]),
        np.array(case["chain"]["transitions"]),
        len(case["chain"]["transitions"]) + 1,
    )
    for always, key in ((False, "optimum"), (True, "optimum_counted_in_both")):
        best = window_optimum(everything, channels_of(case, always=always), (first, last), case["mistakes"])
        assert best == pytest.approx(case["after"][key], abs=1e-8)
        risk = horizon_risk(exposure_of(case), first, last, case["mistakes"], in_hindsight=True)
        assert risk.certified >= best - 1e-9


VALUES: list[Mechanism] = [Raw(), Suppressed(), Gaussian(0.5), Gaussian(0.9), Gaussian(1.5), Gaussian(4.0)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_no_adversary_is_above_the_ceiling_of_random_logs(seed: int) -> None:
    """Up to three values a step, somebody counted in any of them: audit, horizons, and running account."""
    rng = np.random.default_rng(seed)
    places, steps, mistakes = int(rng.integers(2, 4)), 3, int(rng.integers(0, 2))
    matrix = rng.dirichlet(np.full(places, 0.6), size=places) + 1e-9
    matrix /= matrix.sum(axis=1, keepdims=True)
    population = Population.pack([MovementPrior.from_dense("ada", matrix)], list(map(str, range(places))))
    chain = population.chain(0)
    log, channels = [], []
    for step in range(steps):
        counted = rng.random(places) < 0.5
        counted[int(rng.integers(places))] = True
        values = [VALUES[int(rng.integers(len(VALUES)))] for _ in range(int(rng.integers(1, 4)))]
        sensor = Sensor("door", tuple(np.flatnonzero(counted).tolist()))
        log.append(StepSchedule(step, (SensorRelease(sensor, all_versions(values)),)))
        channels.append(_coarse(values, counted, tuple(rng.integers(0, 2, len(values)).tolist())))
    exposure = Exposure(chain, chain.start[0], 0, tuple(observe(step, places) for step in log))
    everything = all_paths(chain.start[0], matrix[None], steps)
    whole = window_optimum(everything, channels, (0, steps - 1), mistakes)
    bound_question = question(exposure, mistakes, Effort(draws=200))
    assert min(bound_question.values().values()) >= whole - 1e-9
    assert certify(bound_question, baseline(exposure, mistakes).success).value >= whole - 1e-9
    accountant = ContinuousAccountant(population, HorizonSettings(horizon=2, mistakes=mistakes))
    for each in log:
        accountant.apply(each)
    last = window_optimum(everything, channels, (1, 2), mistakes)
    assert accountant.risk()[0] >= last - 1e-9
    for in_hindsight in (False, True):
        assert horizon_risk(exposure, 1, 2, mistakes, in_hindsight=in_hindsight).certified >= last - 1e-9


def _coarse(values: list[Mechanism], counted: Floats, times: tuple[int, ...]) -> Floats:
    """The channel of these values, its rare outcomes put together so that enumeration ends soon."""
    channel = np.ones((counted.size, 1))
    for value, k in zip(values, times, strict=True):
        if value.is_released:
            law = value.noise_law()
            assert law is not None
            absent, moved = np.append(law.probabilities, 0.0), np.append(0.0, law.probabilities)
            channel = together(channel, np.where(counted[:, None], moved if k else absent, absent))
            common = channel.max(axis=0) > 5e-3
            rest = channel[:, ~common].sum(axis=1, keepdims=True)
            channel = np.concatenate([channel[:, common], rest], axis=1)
    return channel


@pytest.mark.slow
@pytest.mark.parametrize("mistakes", [0, 1])
def test_corrections_add_little_more_to_a_ceiling_than_to_the_best_adversary(mistakes: int) -> None:
    """Over the guess, all logs together, of a count a step that has two values, each with its noise."""
    added, won = 0.0, 0.0
    for seed in range(30):
        rng = np.random.default_rng([5, seed])
        places, steps = int(rng.integers(2, 4)), 3
        matrix = rng.dirichlet(np.full(places, 0.6), size=places) + 1e-9
        matrix /= matrix.sum(axis=1, keepdims=True)
        population = Population.pack([MovementPrior.from_dense("ada", matrix)], list(map(str, range(places))))
        log, channels = [], []
        for step in range(steps):
            counted = np.isin(np.arange(places), rng.permutation(places)[: max(1, int(rng.integers(places)))])
            door = Sensor("door", tuple(np.flatnonzero(counted).tolist()), corrections=1)
            noise = Gaussian(float(rng.choice([0.5, 0.9, 1.5])))
            log.append(StepSchedule(step, (SensorRelease(door, noise),)))
            channels.append(_coarse([noise, noise], counted, (1, 1)))
        (audit,) = audit_population(population, Schedule(tuple(log)), mistakes)
        everything = all_paths(population.chain(0).start[0], matrix[None], steps)
        best = window_optimum(everything, channels, (0, steps - 1), mistakes)
        assert audit.certified >= best - 1e-9
        added, won = added + audit.certified - audit.baseline, won + best - audit.baseline
    assert added <= 1.25 * won


def test_the_first_values_delta_promises_too_much() -> None:
    """The trap: after the correction the best adversary is above what the first value alone would bound."""
    person = MovementPrior.from_dense("ada", np.full((2, 2), 0.5))
    chain = Population.pack([person], ["0", "1"]).chain(0)
    release = SensorRelease(Sensor("door", (1,)), Gaussian(1.0))
    once = Exposure(chain, chain.start[0], 0, (observe(StepSchedule(0, (release,)), 2),))
    law = Gaussian(1.0).noise_law().probabilities
    both = shown([law, law], np.array([False, True]), (1, 1))
    best = window_optimum(all_paths(chain.start[0], np.full((1, 2, 2), 0.5), 1), [both], (0, 0), 0)
    assert horizon_risk(once, 0, 0, 0).certified < best - 0.05


def test_neither_the_continuous_formula_nor_the_table_of_added_precisions_is_a_bound() -> None:
    """Why the joint law is computed: both are below what discrete noise reveals."""
    delta = all_versions([Gaussian(0.8), Gaussian(0.6)]).reveal_probability()
    assert 2.0 * norm.cdf(0.5 * math.hypot(1.0 / 0.8, 1.0 / 0.6)) - 1.0 < delta - 0.01
    one = all_versions([Gaussian(0.8), Gaussian(0.8)])
    added_precision = Gaussian(0.8 / math.sqrt(2.0))
    p = np.linspace(0.02, 0.5, 25)
    assert (one.information(p) > added_precision.information(p) * (1 + 5e-4)).any()


@pytest.mark.slow
@pytest.mark.parametrize("sigmas", [(4.0, 4.0), (0.6, 30.0), (2.0, 3.0, 5.0), (90.0, 100.0), (3.0, 5000.0)])
def test_many_values_reveal_between_the_best_one_and_all_added(sigmas: tuple[float, ...]) -> None:
    """Also where outcomes are put together: within the bounds that hold for any noise, and near them."""
    joint = all_versions(list(map(Gaussian, sigmas)))
    each = [Gaussian(sigma) for sigma in sigmas]
    added = sum(0.5 / sigma**2 for sigma in sigmas)
    assert joint.divergence() == pytest.approx(added)
    assert max(one.reveal_probability() for one in each) <= joint.reveal_probability()
    assert (
        joint.reveal_probability() <= 1.0 - math.prod(1.0 - one.reveal_probability() for one in each) + 1e-12
    )
    for p in (1e-6, 0.01, 0.3, 0.5):
        at = np.array(p)
        found = float(joint.information(at))
        assert max(float(one.information(at)) for one in each) * (1 - 1e-4) <= found
        assert found <= p * (1.0 - p) * added * (1 + 1e-4)
        assert found <= sum(float(one.information(at)) for one in each) * (1 + 2e-4)


def test_values_in_the_log_from_the_start_or_added_make_the_same_mechanism() -> None:
    """So an account of a corrected step is that of a log that held both, bit for bit."""
    one, two, three = Gaussian(1.0), Gaussian(2.0), Gaussian(3.0)
    assert all_versions([all_versions([one, two]), three]) == all_versions([one, two, three])
    assert all_versions([one, Suppressed()]) == one
    assert all_versions([Suppressed(), Suppressed()]) == Suppressed()
    corrected = all_versions([Raw(), two])
    assert corrected.is_exact
    assert corrected.reveal_probability() == 1.0


def test_ledgers_add_and_attacks_that_draw_do_not_ask() -> None:
    both = all_versions([Gaussian(2.0), Gaussian(4.0)])
    log = [StepSchedule(0, (SensorRelease(Sensor("a", (0,)), both),))]
    found = read_differential_privacy(ReleaseLog.of(log), 1e-6)
    assert float(found.rho) == pytest.approx(1 / 8 + 1 / 32)
    spend = ZcdpSpend()
    spend.add(log[0].releases)
    assert spend.rho == found.rho.amount
    chain = Population.pack([MovementPrior.from_dense("ada", np.full((2, 2), 0.5))], ["0", "1"]).chain(0)
    exposure = Exposure(chain, chain.start[0], 0, (observe(log[0], 2),))
    assert all(ATTACKS[name].is_blind for name in attack_person(exposure, 0, 100, 0))


def test_somebody_counted_again_in_each_value() -> None:
    """``1 - prod (1 - delta_L)``."""
    release = SensorRelease(Sensor("a", (0,), most_counts=3), all_versions([Gaussian(2.0), Gaussian(4.0)]))
    each = [SensorRelease(release.sensor, Gaussian(sigma)).accounted for sigma in (2.0, 4.0)]
    left = math.prod(1.0 - one.reveal_probability() for one in each)
    assert release.accounted.reveal_probability() == pytest.approx(1.0 - left, rel=1e-9)
    assert release.accounted.zcdp_rho() == pytest.approx(9 * (1 / 8 + 1 / 32))
