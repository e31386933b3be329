"""Correlated noise: one vector a sensor and noise window, and a bound for whatever is released of it."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtr

from models.exceptions import MechanismError
from models.keys import NoiseKey
from models.mechanisms import Correlated, Designs, Mechanism, Raw
from models.noise import CorrelatedNoise, continuous_gaussian_information_table
from models.noise.noise_information import table_information
from models.releases import CountToPublish, StepInterval, publish_step
from tests.models.noise.continuous_gaussian import continuous_gaussian_information

KEY = NoiseKey(bytes(range(32)))
HOUR = 3600
STEPS = np.arange(5)
RIPPLE = CorrelatedNoise.of_covariance(
    9.0 * np.exp(-(np.subtract.outer(STEPS, STEPS) ** 2) / 8.0) + np.diag([1.0, 2.0, 0.5, 4.0, 1.0])
)


def covariances(largest: int = 6) -> st.SearchStrategy[NDArray[np.float64]]:
    """Random covariances of all ranks."""

    def build(seed: int) -> NDArray[np.float64]:
        random = np.random.default_rng(seed)
        size = int(random.integers(1, largest + 1))
        columns = random.normal(size=(size, int(random.integers(1, size + 3)))) * random.uniform(0.5, 20)
        return columns @ columns.T + random.choice([0.0, 1.0]) * np.diag(random.uniform(0, 3, size))

    return st.integers(0, 2**32 - 1).map(build)


def published(
    step: int, counts: dict[str, int], mechanism: Mechanism | None = None, *, deployment: str = "city"
) -> dict[str, int]:
    interval = StepInterval(step * HOUR, (step + 1) * HOUR)
    chosen = mechanism or Correlated.of(RIPPLE, step)
    items = [CountToPublish(name, chosen, count) for name, count in counts.items()]
    values = publish_step(KEY, deployment, interval, items)
    return {item.sensor_id: value for item, value in zip(items, values, strict=True) if value is not None}


@given(covariances())
@settings(max_examples=80)
def test_the_factor_is_lower_triangular_and_gives_the_covariance_back(
    covariance: NDArray[np.float64],
) -> None:
    """Also where the covariance has directions without noise."""
    noise = CorrelatedNoise.of_covariance(covariance)
    assert np.array_equal(noise.factor, np.tril(noise.factor))
    assert np.abs(noise.covariance - covariance).max() <= 1e-5 * np.abs(covariance).max()


def test_the_noise_of_a_window_has_the_designed_covariance() -> None:
    """Ten thousand sensors, five steps: every entry of the sample covariance within five standard errors."""
    sensors = [f"s{i}" for i in range(10_000)]
    window = np.array(
        [list(published(step, dict.fromkeys(sensors, 1000)).values()) for step in range(5, 10)], dtype=float
    )
    found, expected = np.cov(window), RIPPLE.covariance + np.eye(5) / 12  # rounding adds its own variance
    variances = np.diag(expected)
    errors = np.sqrt((np.outer(variances, variances) + expected**2) / len(sensors))
    assert np.all(np.abs(found - expected) < 5 * errors)
    assert np.all(np.abs(window.mean(axis=1) - 1000) < 5 * np.sqrt(variances / len(sensors)))


def test_windows_sensors_and_deployments_have_noise_of_their_own() -> None:
    sensors = dict.fromkeys([f"s{i}" for i in range(2000)], 500)
    first = np.array(list(published(0, sensors).values()), dtype=float)
    second = np.array(list(published(5, sensors).values()), dtype=float)
    other = np.array(list(published(0, sensors, deployment="other").values()), dtype=float)
    for apart in (second, other, np.roll(first, 1)):
        assert stats.pearsonr(first, apart).pvalue > 1e-3
    inside = np.array(list(published(1, sensors).values()), dtype=float)
    assert stats.pearsonr(first, inside).pvalue < 1e-9


def test_a_missing_or_late_step_keeps_its_share_of_the_vector() -> None:
    """Whatever was released of a window before, in whatever order, a step's noise is the same."""
    requested = published(3, {"a": 7})
    all_steps = {step: published(step, {"a": 7, "b": 1})["a"] for step in (4, 2, 0, 3)}
    assert requested["a"] == all_steps[3] == published(3, {"a": 7})["a"]
    shares = [RIPPLE.noise(k, np.full((1, k + 1, 2), 3, dtype=np.uint64))[0] for k in range(5)]
    drawn = RIPPLE.factor @ np.full(5, shares[0] / RIPPLE.factor[0, 0])
    assert shares == pytest.approx(drawn)


def test_the_share_does_not_depend_on_the_count() -> None:
    """Which is why a reading may be released once only: a second one would show the difference exactly."""
    assert published(2, {"a": 100})["a"] - published(2, {"a": 40})["a"] == 60


@given(covariances())
@settings(max_examples=80)
def test_the_independent_part_can_be_taken_off_the_covariance(covariance: NDArray[np.float64]) -> None:
    """G - D has no negative eigenvalue: the release is one with noise D, with more noise added."""
    noise = CorrelatedNoise.of_covariance(covariance)
    rest = np.linalg.eigvalsh(noise.covariance - np.diag(noise.independent_variance))
    assert rest[0] >= -1e-9 * max(rest[-1], 1e-300)
    assert np.all(noise.independent_variance >= 0.0)


@given(covariances(4))
@settings(max_examples=60)
def test_what_accountants_are_told_covers_any_trace_through_the_window(
    covariance: NDArray[np.float64],
) -> None:
    """Every pair of traces, every subset of released steps: exact divergence and variation of the joint law.

    Traces differ by a vector of -1, 0, 1; the joint law is Gaussian, so both are functions of x' G^-1 x. The
    steps' divergences add up to no less; variations are covered as those of independent releases are.
    """
    noise = CorrelatedNoise.of_covariance(covariance)
    steps = [Correlated.of(noise, step) for step in range(noise.steps)]
    for pattern in itertools.product((-1, 0, 1), repeat=noise.steps):
        present = np.flatnonzero(pattern)
        if present.size == 0 or any(math.isinf(steps[k].divergence()) for k in present):
            continue
        for released in (present, np.arange(noise.steps)):
            shift = np.array(pattern, dtype=float)[released]
            block = noise.covariance[np.ix_(released, released)]
            if np.linalg.cond(block) > 1e10:
                continue
            distance = float(shift @ np.linalg.solve(block, shift))
            assert distance / 2 <= sum(steps[k].divergence() for k in present) * (1 + 1e-6)
            kept = 1.0 - math.prod(1.0 - steps[k].reveal_probability() for k in present)
            assert 2 * ndtr(math.sqrt(distance) / 2) - 1 <= kept + 1e-9


def test_independent_noise_loses_nothing_by_the_bound() -> None:
    """A diagonal covariance is its own independent part, whatever its entries."""
    noise = CorrelatedNoise.of_covariance(np.diag([1.0, 4.0, 100.0]))
    assert noise.independent_variance == pytest.approx([1.0, 4.0, 100.0], rel=1e-9)
    assert Correlated.of(noise, 1).zcdp_rho() == pytest.approx(1 / 8)


def test_noise_without_an_independent_part_is_accounted_as_raw() -> None:
    """One number added to all steps: differences of counts are exact."""
    shared = Correlated.of(CorrelatedNoise.of_covariance(np.full((3, 3), 25.0)), 1)
    assert shared.divergence() == math.inf
    assert shared.reveal_probability() == 1.0
    assert not shared.is_exact
    p = np.array([0.1, 0.5])
    assert shared.information(p) == pytest.approx(Raw().information(p))
    partly = CorrelatedNoise.of_covariance(np.diag([0.0, 9.0]))
    assert Correlated.of(partly, 0).is_exact
    assert Correlated.of(partly, 1).divergence() == pytest.approx(1 / 18)


@pytest.mark.parametrize("sigma", [0.05, 0.2, 1.0, 7.0, 300.0])
def test_the_continuous_information_table_is_an_upper_bound_and_sharp(sigma: float) -> None:
    """Against adaptive quadrature; at most 1e-3 above it."""
    table = continuous_gaussian_information_table(sigma, 0.0)
    for p in (1e-9, 0.003, 0.11, 0.37, 0.5, 0.9):
        exact = continuous_gaussian_information(p, sigma)
        assert exact * (1 - 2e-9) <= table_information(table, p) <= exact * (1 + 1e-3)


def test_a_design_comes_from_a_file_and_is_known_by_its_number(tmp_path: Path) -> None:
    """A release names the design by a number made of it; who does not have the file is told so."""
    np.save(tmp_path / "design.npy", np.diag([2.0, 3.0]) + 0.123)
    noise = CorrelatedNoise.load(tmp_path / "design.npy")
    assert noise.design == CorrelatedNoise.of_covariance(noise.covariance).design
    with pytest.raises(MechanismError, match="one of the deployment's"):
        Correlated.from_parameters({"design": noise.design, "position": 0})
    released = Correlated.of(noise, 7)
    assert released.parameters == {"design": noise.design, "position": 1}
    designs = Designs((RIPPLE, noise))
    assert Correlated.from_parameters(released.parameters, designs) == released


@pytest.mark.parametrize(
    ("covariance", "must"),
    [
        (np.zeros((2, 3)), "square"),
        (np.zeros((0, 0)), "square"),
        (np.zeros((2, 2)), "not be zero"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "no negative eigenvalue"),
        (np.array([[1.0, 0.5], [0.2, 1.0]]), "symmetric"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "finite"),
    ],
)
def test_what_is_no_covariance_is_refused(covariance: NDArray[np.float64], must: str) -> None:
    with pytest.raises(MechanismError, match=must):
        CorrelatedNoise.of_covariance(covariance)


def test_parameters_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MechanismError, match=r"position must lie in 0\.\.4"):
        Correlated(RIPPLE, 5)
    with pytest.raises(MechanismError, match="must be integers"):
        Correlated.from_parameters({"design": RIPPLE.design, "position": 0.5})
    (tmp_path / "bad.npy").write_text("no array")
    with pytest.raises(MechanismError, match="numpy file"):
        CorrelatedNoise.load(tmp_path / "bad.npy")


@pytest.mark.parametrize(
    "content", [b"", b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'shape': (2, 2", b"PK\x03\x04"]
)
def test_a_file_cut_short_is_no_covariance(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cut.npy").write_bytes(content)
    with pytest.raises(MechanismError, match="numpy file with a covariance"):
        CorrelatedNoise.load(tmp_path / "cut.npy")


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 99999999999999999999)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), 1: 2}",
        "{[]: '<f8', 'fortran_order': False, 'shape': (2, 2)}",
    ],
)
def test_a_damaged_header_is_no_covariance(tmp_path: Path, header: str) -> None:
    """Numpy ends these in ``OverflowError`` and ``TypeError``."""
    text = header.encode().ljust(117) + b"\n"
    start = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little")
    (tmp_path / "bad.npy").write_bytes(start + text + bytes(32))
    with pytest.raises(MechanismError, match="numpy file with a covariance"):
        CorrelatedNoise.load(tmp_path / "bad.npy")


@pytest.mark.parametrize("dtype", ["<c16", "<U1", "<m8[s]"])
def test_only_real_numbers_are_a_covariance(tmp_path: Path, dtype: str) -> None:
    np.save(tmp_path / "other.npy", np.zeros((2, 2), dtype=dtype))
    with pytest.raises(MechanismError, match="matrix of real numbers"):
        CorrelatedNoise.load(tmp_path / "other.npy")
