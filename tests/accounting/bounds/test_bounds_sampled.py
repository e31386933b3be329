"""Certified Monte Carlo: valid against enumeration, repeatable, and the posterior bound is its definition."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest

from accounting.audit import audit_exposure
from accounting.bounds import Effort
from accounting.bounds.noised.sampled import sampled_bound
from accounting.bounds.noised.sampled_kernel import posterior_bound, walk
from tests.accounting.chains import random_case
from tests.accounting.enumeration import all_paths, joint_law, optimum, raw_channels
from tests.accounting.exposures import case_exposure, exposure_to, gaussian, koga_chain, step_of


def test_posterior_bound_equals_its_definition() -> None:
    rng = np.random.default_rng(12)
    for _ in range(30):
        case = random_case(rng)
        steps, places = case.labels.shape
        likelihood = rng.random((steps, places)) * (rng.random((steps, places)) < 0.8)
        everything = all_paths(case.start, case.matrices, steps, case.first_slot)
        weights = everything.probability * likelihood[np.arange(steps), everything.paths].prod(axis=1)
        for mistakes in range(steps):
            expected = 1.0
            for size in range(1, min(3, steps - mistakes) + 1):
                best = sum(
                    np.bincount(everything.paths[:, list(at)] @ (places ** np.arange(size)), weights).max()
                    for at in combinations(range(steps), size)
                )
                if weights.sum() > 0:
                    expected = min(expected, best / weights.sum() / comb(steps - mistakes, size))
            got = posterior_bound(case_exposure(case).person, likelihood, mistakes, min(3, steps - mistakes))
            assert abs(got - expected) < 1e-10


def test_sampled_bound_is_not_below_the_optimum() -> None:
    """40 chains at confidence 0.999: a failure would be a finding, not bad luck."""
    rng = np.random.default_rng(3)
    for seed in range(40):
        case = random_case(rng)
        everything = all_paths(case.start, case.matrices, len(case.labels), case.first_slot)
        for mistakes in range(len(case.labels)):
            truth = optimum(everything, raw_channels(case.labels), mistakes)
            effort = Effort(draws=300, seed=seed, confidence=0.999)
            bound = sampled_bound(case_exposure(case), mistakes, effort)
            assert bound is not None
            assert truth <= bound + 1e-9


def test_walks_follow_the_chain() -> None:
    rng = np.random.default_rng(9)
    case = random_case(rng, largest=3, longest=3)
    steps = len(case.labels)
    paths = walk(case_exposure(case).person, rng.random((200_000, steps)))
    everything = all_paths(case.start, case.matrices, steps, case.first_slot)
    code = len(case.start) ** np.arange(steps)[::-1]
    shares = np.bincount(paths @ code, minlength=len(everything.paths)) / len(paths)
    assert np.abs(shares - everything.probability).max() < 5e-3
    assert not shares[everything.probability == 0].any()


def test_same_seed_same_bound_and_the_certified_one_states_its_confidence() -> None:
    start, matrix = koga_chain(10, 0.1)
    exposure = exposure_to(start, matrix, [step_of([(7 * t) % 10], [gaussian(3.0)]) for t in range(10)])
    effort = Effort(order=3, patterns=64, draws=1500, seed=5, confidence=0.95)
    audit = audit_exposure(exposure, 5, effort=effort)
    assert audit.certified_by == "sampled"
    assert audit.confidence == 0.95
    assert audit.certified == audit_exposure(exposure, 5, effort=effort).certified
    assert (
        audit.baseline < audit.certified < min(v for v in audit.bounds.model_dump().values() if v is not None)
    )
    assert audit_exposure(exposure, 5, effort=Effort(order=3, patterns=64)).confidence == 1.0


@pytest.mark.parametrize("sigma", [0.5, 1.0])
def test_sampled_bound_holds_under_discrete_noise(sigma: float) -> None:
    start, matrix = koga_chain(3, 0.4)
    exposure = exposure_to(start, matrix, [step_of([t], [gaussian(sigma)]) for t in range(3)])
    law = gaussian(sigma).noise_law().probabilities
    channels = []
    for t in range(3):
        channel = np.zeros((3, law.size + 1))
        channel[:, :-1] = law
        channel[t] = np.roll(channel[t], 1)
        channels.append(channel[:, channel.max(axis=0) > 1e-12])
    everything = all_paths(start, matrix[None], 3)
    assert abs(joint_law(everything, channels).sum() - 1) < 1e-9
    for mistakes in range(3):
        bound = sampled_bound(exposure, mistakes, Effort(draws=2000, confidence=0.999))
        assert bound is not None
        assert optimum(everything, channels, mistakes) <= bound
