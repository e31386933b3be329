"""The erasure bound against its reference, against the true loss under discrete noise, and its edges."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting.audit import audit_exposure
from accounting.bounds import Effort
from accounting.bounds.noised import erasure_bound
from accounting.bounds.noised.erasure_bound import erasure, likeliest_sets, sensor_steps
from accounting.bounds.protocol import Question
from models.mechanisms import Suppressed
from tests.accounting.bounds.kept_sets import all_kept_sets
from tests.accounting.chains import random_case
from tests.accounting.enumeration import all_paths, joint_law, optimum
from tests.accounting.exposures import exposure_to, gaussian, koga_chain, noised_case, raw_exposure, step_of
from tests.shared_files import shared

seeds = st.integers(0, 2**32 - 1)


@all_kept_sets()
def test_erasure_bound_gives_the_reference_by_enumeration() -> None:
    for row in json.loads(shared("reference/gaussian_erasure.json").read_text())["cases"]:
        schedule = [step_of(s["sensors"], [gaussian(s["sigma"])] * len(s["sensors"])) for s in row["steps"]]
        exposure = exposure_to(np.array(row["initial"]), np.array(row["transition"]), schedule)
        # A guess of 1 switches the divergence bound off: the reference has the exact optimum inside.
        bound = erasure(Question(exposure, 0, Effort()), guess=1.0, raw_success=1.0, raw_nats=100.0)
        assert abs(bound.success / row["erasure_bound"] - 1) < 1e-8
        assert abs(bound.information_nats / row["erasure_information"] - 1) < 1e-8
        audit = audit_exposure(exposure, 0)
        assert audit.bounds.exact is not None
        assert abs(audit.bounds.exact / row["raw_optimum"] - 1) < 1e-8
        assert abs(audit.baseline / row["baseline"] - 1) < 1e-8
        assert audit.certified <= row["erasure_bound"] * (1 + 1e-8)


@settings(max_examples=25)
@given(seeds, st.lists(st.sampled_from([0.3, 0.5, 0.8, 1.5, None]), min_size=3, max_size=3))
def test_no_bound_is_below_the_optimum_under_discrete_noise(seed: int, sigmas: list[float | None]) -> None:
    """All published values are enumerated; None is a raw step. Every bound holds, erasure included."""
    case = random_case(np.random.default_rng(seed), largest=3, longest=3)
    exposure, channels = noised_case(case, sigmas)
    everything = all_paths(case.start, case.matrices, len(case.labels), case.first_slot)
    joint = joint_law(everything, channels)
    assert abs(joint.sum() - 1) < 1e-9
    for mistakes in range(len(case.labels)):
        truth = optimum(everything, channels, mistakes)
        with all_kept_sets():
            audit = audit_exposure(exposure, mistakes)
        for name, bound in audit.bounds.model_dump().items():
            assert bound is None or truth <= bound + 1e-8, f"{name}: {bound} below the optimum {truth}"


@all_kept_sets()
def test_erasure_bound_falls_from_the_raw_bound_to_the_baseline() -> None:
    """In sigma: never rising, equal to the raw optimum without noise, to the baseline with a lot of it."""
    start, matrix = koga_chain(6, 0.2)
    values = []
    for sigma in (0.1, 0.4, 0.8, 1.6, 5.0, 500.0):
        audit = audit_exposure(exposure_to(start, matrix, [step_of([2], [gaussian(sigma)])] * 4), 0)
        assert audit.bounds.erasure is not None
        values.append(audit.bounds.erasure)
    raw = audit_exposure(raw_exposure(start, matrix, [[2]] * 4), 0)
    assert raw.bounds.exact is not None
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(values))
    assert abs(values[0] - raw.bounds.exact) < 1e-9
    assert values[-1] < raw.baseline * 1.02
    assert raw.bounds.erasure is None


def test_suppressed_sensors_and_places_never_visited_do_not_count() -> None:
    start = np.array([1.0, 0.0, 0.0])
    ring = np.roll(np.eye(3), 1, axis=1)
    schedule = [
        step_of([0, 1], [gaussian(1.0), gaussian(1.0)]),
        step_of([1, 2], [Suppressed(), gaussian(1.0)]),
    ]
    sensors = sensor_steps(exposure_to(start, ring, schedule))
    assert sensors.step.tolist() == [0]


def test_likeliest_sets_are_the_likeliest_and_all_of_them_when_few() -> None:
    reveal = np.array([0.1, 0.7, 0.5, 0.93, 0.02])
    every = likeliest_sets(reveal, 32)
    assert len(every.probability) == 32
    assert abs(every.probability.sum() - 1) < 1e-15
    for set_of_kept, probability in zip(every.kept, every.probability, strict=True):
        assert abs(np.where(set_of_kept, reveal, 1 - reveal).prod() - probability) < 1e-15
    few = likeliest_sets(reveal, 5)
    assert np.allclose(np.sort(few.probability), np.sort(every.probability)[-5:], rtol=1e-14)


@all_kept_sets()
def test_sets_not_enumerated_are_charged_at_the_raw_bound() -> None:
    start, matrix = koga_chain(6, 0.2)
    exposure = exposure_to(start, matrix, [step_of([2], [gaussian(1.0)])] * 8)
    full = audit_exposure(exposure, 1)
    few = audit_exposure(exposure, 1, effort=Effort(patterns=12))
    assert full.bounds.erasure is not None
    assert few.bounds.erasure is not None
    assert few.bounds.moment is not None
    assert full.bounds.erasure <= few.bounds.erasure <= few.bounds.moment + 1e-12


def test_kept_sets_that_can_lower_nothing_are_not_looked_at_and_no_ceiling_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four sensor-steps, four sets looked at first, beside all of them; without the bounds that win, too."""
    monkeypatch.setattr(erasure_bound, "trajectories", lambda question: None)
    start, matrix = koga_chain(4, 0.4)
    stopped = 0
    with_others, alone = Effort(), Effort(vectors=0)
    cases = [
        (0.6, 0, with_others),
        (0.6, 1, with_others),
        (4.0, 2, with_others),
        (1.5, 1, alone),
        (4.0, 1, alone),
    ]
    for sigma, mistakes, effort in cases:
        schedule = [step_of([t % 4], [gaussian(sigma)]) for t in range(4)]
        found = []
        for least_gain in (1e-3, -1.0):
            monkeypatch.setattr(erasure_bound, "_SAMPLED", 4)
            monkeypatch.setattr(erasure_bound, "_LEAST_GAIN", least_gain)
            monkeypatch.setattr(erasure_bound, "_LEAST_SHARE", 0.01 if least_gain > 0.0 else -10.0)
            found.append(audit_exposure(exposure_to(start, matrix, schedule), mistakes, effort=effort))
        short, whole = found
        assert whole.bounds.erasure is not None
        assert (short.certified, short.certified_by) == (whole.certified, whole.certified_by)
        stopped += short.bounds.erasure is None
        assert short.bounds.erasure in (None, whole.bounds.erasure)
    assert 0 < stopped < 5
