"""What remains of a guarantee when the adversary's prior is not the one the noise was designed for.

Meehan, Chaudhuri, theorem "Robustness to prior misspecification" (appendix 7.2.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from accounting.inferential.checks import check_order, check_radius
from accounting.inferential.renyi import gaussian_renyi_divergence
from models.gaussian_process import condition_on, lift
from models.noise_design import loss_nats, secret_information

Floats = NDArray[np.float64]


def misspecified_loss(
    order: float, divergence_nats: Callable[[float], float], loss: Callable[[float], float]
) -> float:
    """``(l - 1/2)/(l - 1) D(2 l) + D(4 l - 3) + (2 l - 3/2)/(2 l - 2) eps(4 l - 2)``, nats, ``l`` the order.

    ``divergence_nats(l)`` is ``D(l)``, the distance between the true prior and the nearest of the assumed
    class, ``loss(l)`` the loss under the assumed class; both may be inf.
    """
    check_order(order)
    return (
        (order - 0.5) / (order - 1.0) * divergence_nats(2.0 * order)
        + divergence_nats(4.0 * order - 3.0)
        + (2.0 * order - 1.5) / (2.0 * order - 2.0) * loss(4.0 * order - 2.0)
    )


def conditional_divergence(
    assumed: Floats, true: Floats, noise: Floats, secret: Sequence[int], secret_norm: float, order: float
) -> float:
    """``D(order)``, nats, between two Gaussian-process priors as seen through the noise at the other times.

    The larger of the two Rényi divergences between ``Z_U | X_S = s`` under ``assumed`` and ``true`` (n, n),
    for the worst secret at most ``secret_norm`` from its mean. The theorem has it for ``X_U``; its proof
    needs it only for what is released, which is less. Means are taken equal, one choice of the class, so
    this bounds the infimum from above. Two priors that weigh the secret differently have no bound over all
    secrets.
    """
    check_order(order)
    left, right = condition_on(assumed, secret), condition_on(true, secret)
    rest = np.asarray(noise)[np.ix_(left.rest, left.rest)]
    spreads = [lift(split.residual + rest, split.rounding) for split in (left, right)]
    gap = left.effect - right.effect
    return max(
        _worst_secret(gap, spreads[0], spreads[1], secret_norm, order),
        _worst_secret(gap, spreads[1], spreads[0], secret_norm, order),
    )


def misspecified_release_loss(
    assumed: Floats,
    true: Floats,
    noise: Floats,
    secret: Sequence[int],
    *,
    secret_norm: float,
    order: float,
    radius: float,
) -> float:
    """The theorem's bound (nats) on the loss under ``true`` of a release accounted under ``assumed`` (n, n).

    Where the true prior is known, its own loss (:func:`accounting.inferential.loss.release_loss`) is exact
    and never above this. The divergence is that of the values other than the secret, so the noise must not
    correlate the two.
    """
    check_radius(radius)
    information = secret_information(assumed, noise, secret)
    return misspecified_loss(
        order,
        lambda at: conditional_divergence(assumed, true, noise, secret, secret_norm, at),
        lambda at: loss_nats(information, at, radius),
    )


def _worst_secret(gap: Floats, left: Floats, right: Floats, secret_norm: float, order: float) -> float:
    """The divergence at the secret of this norm that moves the two means furthest apart."""
    mixed = order * right + (1.0 - order) * left
    values, vectors = np.linalg.eigh(mixed)
    if values[0] <= 0.0:
        return float("inf")
    furthest = np.linalg.svd(((gap.T @ vectors) / np.sqrt(values)), full_matrices=False)[0][:, 0]
    return gaussian_renyi_divergence(secret_norm * gap @ furthest, left, right, order)
