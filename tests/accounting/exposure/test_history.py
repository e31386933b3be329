"""A horizon inside a longer log: exact for raw releases, from above for all others."""

from __future__ import annotations

import numpy as np
import pytest

from accounting.exceptions import HorizonError
from accounting.exposure import Exposure, horizon_information
from accounting.exposure.history import history_mixture
from accounting.exposure.step_information import observe
from models.mechanisms import Gaussian, Raw
from models.releases import StepSchedule
from tests.accounting.chains import random_case
from tests.accounting.enumeration import (
    all_paths,
    entropy_of,
    information_about_window,
    joint_law,
)
from tests.accounting.random_runs import channel, random_step, releases


def exposure_of(case, mechanism=None) -> Exposure:
    steps = []
    for t, row in enumerate(case.labels):
        at = np.flatnonzero(row)
        steps.append(StepSchedule(t, releases(*(((int(x),), mechanism or Raw()) for x in at))))
    observations = tuple(observe(step, case.labels.shape[1]) for step in steps)
    return Exposure(case.view, case.start, case.first_slot, observations)


@pytest.mark.parametrize("seed", range(2))
def test_raw_information_is_exact_at_the_moment_and_in_hindsight(seed):
    rng = np.random.default_rng(seed)
    for _ in range(60):
        case = random_case(rng, largest=3, longest=6)
        steps = len(case.labels)
        first = int(rng.integers(steps))
        last = int(rng.integers(first, steps))
        found = horizon_information(exposure_of(case), first, last)
        truth = [
            information_about_window(case.start, case.matrices, seen, (first, last), case.first_slot)
            for seen in (case.labels[: last + 1], case.labels)
        ]
        assert found.at_the_moment == pytest.approx(truth[0], abs=1e-11)
        assert found.in_hindsight == pytest.approx(truth[1], abs=1e-11)
        assert found.in_hindsight <= found.at_the_moment + found.later + 1e-11


def test_noised_information_is_never_below_the_truth():
    rng = np.random.default_rng(5)
    for _ in range(40):
        case = random_case(rng, largest=3, longest=4)
        places, steps = case.matrices.shape[1], len(case.labels)
        schedule = [random_step(rng, t, places, (Raw(), Gaussian(0.4), Gaussian(0.8))) for t in range(steps)]
        shown = [channel(places, step) for step in schedule]
        if np.prod([one.shape[1] for one in shown]) * places**steps > 2e6:
            continue
        first = int(rng.integers(steps))
        last = int(rng.integers(first, steps))
        observations = tuple(observe(step, places) for step in schedule)
        exposure = Exposure(case.view, case.start, case.first_slot, observations)
        found = horizon_information(exposure, first, last)
        everything = all_paths(case.start, case.matrices, steps, case.first_slot)
        joint = joint_law(everything, shown)
        traces, which = np.unique(everything.paths[:, first : last + 1], axis=0, return_inverse=True)
        law = np.zeros((len(traces), joint.shape[1]))
        np.add.at(law, which.ravel(), joint)
        truth = entropy_of(law.sum(1)) + entropy_of(law.sum(0)) - entropy_of(law.ravel())
        assert found.in_hindsight >= truth - 1e-10


def test_a_count_of_all_places_is_no_information():
    """However often it is released, raw: a person is counted for sure."""
    case = random_case(np.random.default_rng(2), largest=3, longest=6)
    places, steps = case.matrices.shape[1], len(case.labels)
    everywhere = tuple(range(places))
    schedule = [StepSchedule(t, releases((everywhere, Raw()))) for t in range(steps)]
    observations = tuple(observe(step, places) for step in schedule)
    exposure = Exposure(case.view, case.start, case.first_slot, observations)
    found = horizon_information(exposure, steps // 2, steps - 1)
    assert found.in_hindsight == pytest.approx(0.0, abs=1e-12)


def test_the_mixture_of_a_history_averages_to_the_marginal():
    rng = np.random.default_rng(6)
    for _ in range(30):
        case = random_case(rng, largest=4, longest=5)
        exposure = exposure_of(case)
        first = int(rng.integers(len(case.labels)))
        mixture = history_mixture(exposure, first)
        np.testing.assert_allclose(mixture.weights @ mixture.beliefs, exposure.marginal[first], atol=1e-14)


def test_a_window_outside_the_log_is_refused():
    case = random_case(np.random.default_rng(7), longest=3)
    with pytest.raises(HorizonError, match="first and last step"):
        horizon_information(exposure_of(case), 2, 1)
