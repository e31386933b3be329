"""The inferential ledger reads all of a series together: noise windows do not protect each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from accounting.exceptions import InferentialPrivacyError, LedgerError, UnknownReleaseError
from accounting.ledgers import SecretQuestion, read_inferential
from accounting.ledgers.inferential import noise_covariance
from models.gaussian_process import RBF
from models.mechanisms import Correlated, Gaussian, Mechanism, Raw, Suppressed, Tiered
from models.noise import CorrelatedNoise
from tests.accounting.ledgers.logs import A, B, log_of

KERNEL = RBF(length_scale=3.0, variance=4.0)
NOISE = CorrelatedNoise.of_covariance(RBF(length_scale=2.0).covariance(np.arange(5.0)) + 0.3 * np.eye(5))


def question(*secret: int, **changed: object) -> SecretQuestion:
    return SecretQuestion("a", secret, KERNEL, **changed)  # type: ignore[arg-type]


def renyi_by_definition(
    prior: np.ndarray, noise: np.ndarray, secret: int, order: float, radius: float
) -> float:
    """Divergence of the two laws of everything released given the secret value 0 and ``radius``.

    Given X_S the released series is Gaussian; both laws have one covariance, so the divergence is
    ``order/2`` times the squared Mahalanobis distance of the means. Numbers straight from the joint normal.
    """
    rest = [i for i in range(len(prior)) if i != secret]
    gain = prior[:, secret] / prior[secret, secret]
    conditional = prior - np.outer(gain, prior[secret])
    assert rest
    shift = radius * gain
    return float(0.5 * order * shift @ np.linalg.solve(conditional + noise, shift))


def test_the_loss_is_the_divergence_of_the_two_joint_laws() -> None:
    """Correlated and independent steps mixed, one step silent; against the normal laws themselves."""
    steps: list[Mechanism] = [Correlated.of(NOISE, k) for k in range(5)] + [
        Gaussian(2.0),
        Suppressed(),
        Gaussian(1.0),
    ]
    log = log_of(*({A: mechanism, B: Raw()} for mechanism in steps))
    kept = [0, 1, 2, 3, 4, 5, 7]
    prior = KERNEL.covariance(np.array(kept, dtype=float))
    noise = noise_covariance(kept, [steps[k] for k in kept])
    assert np.allclose(noise[:5, :5], NOISE.covariance)
    assert np.allclose(np.diag(noise)[5:], [4.0, 1.0])
    statement = read_inferential(log, question(3, order=5.0, radius=2.0))
    assert statement.loss_nats == pytest.approx(renyi_by_definition(prior, noise, 3, 5.0, 2.0), rel=1e-6)
    assert statement.released_steps == 7


def test_monte_carlo_agrees_with_the_loss() -> None:
    """Order 2 by averaging likelihood ratios over 200 000 draws of a three-step series."""
    log = log_of(*({A: Gaussian(3.0)} for _ in range(3)))
    prior, noise = KERNEL.covariance(np.arange(3.0)), 9.0 * np.eye(3)
    gain = prior[:, 1] / prior[1, 1]
    covariance = prior - np.outer(gain, prior[1]) + noise
    zero, one = (
        stats.multivariate_normal(np.zeros(3), covariance),
        stats.multivariate_normal(gain, covariance),
    )
    draws = zero.rvs(200_000, random_state=np.random.default_rng(4))
    ratio = np.exp(one.logpdf(draws) - zero.logpdf(draws))
    estimate = math.log(float(np.mean(ratio**2)))  # order 2: ln E_q (p / q)^2
    assert read_inferential(log, question(1, order=2.0)).loss_nats == pytest.approx(estimate, rel=0.03)


def test_two_windows_together_lose_more_than_either() -> None:
    """The ledger takes both: a secret at the edge of one window is revealed by the next as well."""
    one = log_of(*({A: Correlated.of(NOISE, k)} for k in range(5)))
    two = log_of(*({A: Correlated.of(NOISE, k)} for k in range(10)))
    alone, together = (read_inferential(log, question(4)).loss_nats for log in (one, two))
    assert together > 1.2 * alone
    kept = list(range(10))
    joint = noise_covariance(kept, [Correlated.of(NOISE, k) for k in kept])
    assert np.allclose(joint[:5, 5:], 0.0)
    assert np.allclose(joint[5:, 5:], NOISE.covariance)


def test_a_raw_secret_has_no_finite_loss() -> None:
    log = log_of({A: Raw()}, {A: Gaussian(1.0)})
    assert read_inferential(log, question(0)).loss_nats == math.inf
    assert math.isfinite(read_inferential(log, question(1)).loss_nats)


def test_neighbours_reveal_less_about_a_step_that_was_not_released() -> None:
    """Noise at the secret step only hides; without its own release the loss is smaller, not none."""
    silent = log_of({A: Gaussian(1.0)}, {A: Suppressed()}, {A: Gaussian(1.0)})
    released = log_of({A: Gaussian(1.0)}, {A: Gaussian(1.0)}, {A: Gaussian(1.0)})
    losses = [read_inferential(log, question(1)).loss_nats for log in (silent, released)]
    assert 0.0 < losses[0] < losses[1] < math.inf


def test_questions_without_an_answer_are_refused() -> None:
    log = log_of({A: Gaussian(1.0)}, {A: Suppressed()})
    with pytest.raises(LedgerError, match="releases of the sensor"):
        read_inferential(log, SecretQuestion("nowhere", (0,), KERNEL))
    with pytest.raises(InferentialPrivacyError, match="order"):
        read_inferential(log, question(0, order=1.0))
    with pytest.raises(UnknownReleaseError, match="'tiered'"):
        read_inferential(log_of({A: Tiered((("all", 1.0),))}), question(0))
