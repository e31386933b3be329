"""Information and entropy against enumeration of every trajectory."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting.continuous import ContinuousAccountant
from accounting.exposure import Exposure, released_information
from accounting.exposure.exposure import pairwise_information, person_step_terms
from accounting.exposure.step_information import observe
from accounting.settings import HorizonSettings
from models.mechanisms import Correlated
from models.noise import CorrelatedNoise, truncation_information_nats
from models.priors import MovementPrior, Population
from models.releases import Sensor, SensorRelease, StepSchedule
from tests.accounting.chains import chain_of, random_case
from tests.accounting.enumeration import all_paths, entropy_of, information, raw_channels
from tests.accounting.exposures import RAW, case_exposure, exposure_to, gaussian, koga_chain, step_of

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=60)
@given(seeds)
def test_exact_information_and_entropy_equal_enumeration(seed: int) -> None:
    case = random_case(np.random.default_rng(seed))
    everything = all_paths(case.start, case.matrices, len(case.labels), case.first_slot)
    exposure = case_exposure(case)
    truth = information(everything, raw_channels(case.labels))
    released = released_information(exposure)
    assert released.exact is not None
    assert abs(released.exact - truth) < 1e-11
    assert abs(exposure.entropy_nats - entropy_of(everything.probability)) < 1e-11
    assert truth <= sum(person_step_terms(exposure, t).conditional for t in range(exposure.steps)) + 1e-11
    if released.koga is not None:
        assert truth <= released.koga + 1e-11


@settings(max_examples=25)
@given(seeds, st.sampled_from([0.4, 0.7, 1.0, 2.0]))
def test_information_of_noised_releases_is_bounded(seed: int, sigma: float) -> None:
    """The true information of discrete Gaussian releases, by enumeration of outcomes, stays below."""
    case = random_case(np.random.default_rng(seed), largest=3, longest=2)
    law = gaussian(sigma).noise_law()
    schedule = []
    channels = []
    for row in case.labels:
        where = np.flatnonzero(row)[:1].tolist()
        schedule.append(step_of(where, [gaussian(sigma)] * len(where)))
        channel = np.zeros((len(row), law.probabilities.size + 1))
        channel[:, :-1] = law.probabilities
        channel[where] = np.roll(channel[where], 1, axis=1)
        channels.append(channel if where else np.ones((len(row), 1)))
    exposure = exposure_to(case.start, case.matrices, schedule, case.first_slot)
    everything = all_paths(case.start, case.matrices, len(case.labels), case.first_slot)
    truth = information(everything, channels)
    assert truth <= released_information(exposure).best + 1e-11


def test_noised_information_falls_with_sigma_and_stays_below_raw() -> None:
    start, matrix = koga_chain(6, 0.2)
    raw = released_information(exposure_to(start, matrix, [step_of([1, 2], [RAW, RAW])] * 4)).best
    best = [
        released_information(exposure_to(start, matrix, [step_of([1, 2], [gaussian(s)] * 2)] * 4)).best
        for s in (0.3, 0.6, 1.2, 2.4, 9.6)
    ]
    assert all(later <= earlier + 1e-12 for earlier, later in zip([raw, *best], best, strict=False))
    assert best[-1] < 0.05 * raw


def test_pairwise_bound_with_unequal_sigmas_adds_their_divergences() -> None:
    start = np.array([0.5, 0.3, 0.2])
    step = step_of([0, 1], [gaussian(1.0), gaussian(2.0)])
    exposure = exposure_to(start, np.full((3, 3), 1 / 3), [step])
    u, v = 0.5, 0.125
    distances = np.array([[0, u + v, u], [u + v, 0, v], [u, v, 0]])
    by_hand = -(start * np.log(np.exp(-distances) @ start)).sum()
    assert abs(pairwise_information(exposure, 0) - by_hand) < 1e-9
    assert person_step_terms(exposure, 0).unconditioned <= by_hand + 1e-9


def test_what_samplers_cut_off_is_charged_alike_by_audit_and_stream() -> None:
    """Two sharp noises, where the ideal pairwise bound is the smallest: both add what the draws may add."""
    noise = CorrelatedNoise.of_covariance(0.09 * np.eye(200))
    mechanism = Correlated.of(noise, 199)
    start, matrix = np.array([0.5, 0.3, 0.2]), np.full((3, 3), 1 / 3)
    step = step_of([0, 1], [mechanism, mechanism])
    exposure = exposure_to(start, matrix, [step])
    d = mechanism.divergence()
    distances = np.array([[0, 2 * d, d], [2 * d, 0, d], [d, d, 0]])
    ideal = -(start * np.log(np.exp(-distances) @ start)).sum()
    cut_off = 2 * truncation_information_nats(mechanism.noise_law().truncated_mass)
    assert cut_off > 1e-11
    found = person_step_terms(exposure, 0).unconditioned
    assert abs(found - ideal - cut_off) < 1e-13
    prior = MovementPrior.from_dense("ann", matrix, initial=start)
    accountant = ContinuousAccountant(Population.pack([prior]), HorizonSettings(horizon=1, mistakes=0))
    accountant.apply(step)
    assert 0.0 <= accountant.information_nats()[0] - found < 1e-11


def test_sensor_of_a_district_leaves_the_place_open() -> None:
    """It reveals less than one sensor each; the bound refines it, and `exact` is None to say so."""
    start, matrix = koga_chain(4, 0.3)
    district = StepSchedule(0, (SensorRelease(Sensor("district", (0, 1)), RAW),))
    observations = tuple(observe(district, 4) for _ in range(3))
    exposure = Exposure(chain_of(matrix, start), start, 0, observations)
    labels = np.tile(np.array([1, 1, 0, 0], dtype=np.int32), (3, 1))
    truth = information(all_paths(start, matrix[None], 3), raw_channels(labels))
    released = released_information(exposure)
    assert exposure.is_refined
    assert released.exact is None
    assert truth <= released.best + 1e-12
