"""Published cases: 50 points, unit RBF, trace 1, order 5, radius 1 (cip_sdp.json)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from models.gaussian_process import RBF, GaussianProcessPrior
from models.noise_design import (
    DesignProblem,
    design_noise,
    indirect_information,
    loss_nats,
    posterior_half_width,
    secret_information,
    worst_information,
)
from models.noise_design.design import multiple_secrets, sdp_a
from tests.shared_files import shared

CASES = [((24,), 2), ((24,), 4), ((24,), 6), ((24, 25), 2), ((24, 25), 4), ((24, 25), 6)]


def reference() -> dict[str, Any]:
    """The reference numbers."""
    return json.loads(shared("reference/cip_sdp.json").read_text())


def row(secret: tuple[int, ...], length_scale: float) -> dict[str, Any]:
    """The row of one case."""
    rows = reference()["rows"]
    return next(
        each for each in rows if tuple(each["indices"]) == secret and each["length_scale"] == length_scale
    )


def problem(secret: tuple[int, ...] | None, length_scale: float) -> DesignProblem:
    """The case as a design problem."""
    prior = GaussianProcessPrior.at_steps(RBF(length_scale), 50).covariance()
    return DesignProblem(prior, secret, 1.0)


def epsilon(case: DesignProblem, noise: np.ndarray) -> float:
    """The true loss of a covariance, order 5, radius 1."""
    assert case.secret is not None
    return loss_nats(secret_information(case.prior, noise, case.secret), 5.0, 1.0)


def half_width(case: DesignProblem, noise: np.ndarray) -> float:
    """The posterior's 2 sigma."""
    assert case.secret is not None
    return posterior_half_width(case.split, secret_information(case.prior, noise, case.secret))


@pytest.mark.parametrize(("secret", "length_scale"), CASES)
def test_sdp_a_is_the_papers(secret: tuple[int, ...], length_scale: float) -> None:
    """Basic secrets to 1e-4 in every figure (closed form), compound ones to 1e-4 in loss too."""
    expected, case = row(secret, length_scale)["sdp_a"], problem(secret, length_scale)
    noise = sdp_a(case, expected["stabilisation_factor"])
    assert epsilon(case, noise) == pytest.approx(expected["epsilon"], rel=1e-4)
    assert noise[secret[0], secret[0]] == pytest.approx(expected["sigma_s2"], rel=1e-4)
    assert indirect_information(case.split, noise).largest == pytest.approx(expected["alpha"], rel=1e-4)
    assert half_width(case, noise) == pytest.approx(expected["posterior_2sigma"], rel=2e-4)


@pytest.mark.parametrize("length_scale", [2, 4, 6])
def test_a_basic_secrets_sdp_a_is_of_rank_two(length_scale: float) -> None:
    """`sigma_s^2 = budget / (1 + |a|^2)` and `G_UU = sigma_s^2 a a^T`."""
    case = problem((24,), length_scale)
    noise, effect = sdp_a(case), case.split.effect[:, 0]
    variance = 1.0 / (1.0 + effect @ effect)
    assert noise[24, 24] == pytest.approx(variance, rel=1e-9)
    rest = noise[np.ix_(case.split.rest, case.split.rest)]
    assert np.allclose(rest, variance * np.outer(effect, effect), atol=1e-9)


@pytest.mark.parametrize(("secret", "length_scale"), CASES)
def test_the_exact_design_reaches_the_reference(secret: tuple[int, ...], length_scale: float) -> None:
    """To what a solver reached, or below; never worse than SDP_A in the true loss."""
    expected, case = row(secret, length_scale), problem(secret, length_scale)
    noise = design_noise(case, "exact").covariance
    assert epsilon(case, noise) <= expected["exact_design"]["epsilon"] * (1.0 + 1e-4)
    assert epsilon(case, noise) == pytest.approx(expected["exact_design"]["epsilon"], rel=1e-3)
    assert epsilon(case, noise) < epsilon(case, design_noise(case, "sdp-a").covariance)
    assert half_width(case, noise) == pytest.approx(expected["exact_design"]["posterior_2sigma"], rel=1e-3)


@pytest.mark.parametrize(("secret", "length_scale"), CASES)
def test_uniform_noise_is_as_bad_as_the_reference_says(secret: tuple[int, ...], length_scale: float) -> None:
    """Independent noise of the same trace: loss and information to 1e-6."""
    expected, case = row(secret, length_scale)["uniform"], problem(secret, length_scale)
    noise = design_noise(case, "uniform").covariance
    assert epsilon(case, noise) == pytest.approx(expected["eps"], rel=1e-6)
    assert indirect_information(case.split, noise).largest == pytest.approx(expected["alpha_star"], rel=1e-6)
    # the reference adds 1e-6 to the prior's diagonal, which shows where little is left
    assert half_width(case, noise) == pytest.approx(expected["posterior_2sigma"], rel=5e-3)


@pytest.mark.parametrize("length_scale", [2, 4, 6])
def test_multiple_secrets_is_the_papers(length_scale: float) -> None:
    """Least trace and the worst loss over all 50 times to 1e-4."""
    rows = reference()["multiple_secrets"]
    expected = next(each for each in rows if each["l_eff"] == length_scale and "closed" in each["variant"])
    case = problem(None, length_scale)
    cover = multiple_secrets(case)
    trace = float(np.trace(cover.covariance))
    assert trace == pytest.approx(expected["trace_SDPB"], rel=1e-4)
    assert cover.relative_gap < 1e-6
    worst = 2.5 * worst_information(case, cover.covariance)
    assert worst == pytest.approx(expected["eps_max_over_secrets"], rel=1e-3)
    uniform = np.eye(50) * trace / 50.0
    assert 2.5 * worst_information(case, uniform) == pytest.approx(expected["eps_uniform_max"], rel=1e-4)


@pytest.mark.parametrize("length_scale", [2, 6])
def test_the_joint_design_makes_correlation_harmless(length_scale: float) -> None:
    """Every time's loss is that of independent values, `lambda/2 r^2 n / budget`."""
    case = problem(None, length_scale)
    joint = worst_information(case, design_noise(case, "multiple-exact").covariance)
    assert joint == pytest.approx(50.0, rel=1e-6)
    assert joint < worst_information(case, design_noise(case, "multiple").covariance)
    assert joint < worst_information(case, design_noise(case, "uniform").covariance)
