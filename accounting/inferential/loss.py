"""The conditional inferential privacy loss of one release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from accounting.exceptions import InferentialPrivacyError
from accounting.inferential.checks import check_order, check_radius
from models.gaussian_process import condition_on
from models.noise_design import (
    SecretInformation,
    conditional_information,
    indirect_information,
    loss_nats,
    posterior_half_width,
    secret_information,
)

Floats = NDArray[np.float64]

_MOST_VALUES = 16  # 2^15 corners


@dataclass(frozen=True, slots=True)
class InferentialLoss:
    """What a release reveals about one secret, everything evaluated from the noise covariance itself."""

    epsilon: float  # nats; inf where the release fixes the secret as far as floating point can tell
    order: float
    radius: float
    secret_variance: float  # sigma_s^2, mean noise variance at the secret times
    alpha: float  # information through the other times alone; the short form 1/sigma_s^2 + alpha is not used
    posterior_half_width: float  # 2 sigma of the adversary's belief, in the best known direction
    information: SecretInformation


def release_loss(
    prior: Floats, noise: Floats, secret: Sequence[int], order: float, radius: float
) -> InferentialLoss:
    """The loss of theorem 3.4 for any noise covariance, also where it correlates the secret with the rest.

    ``prior`` and ``noise`` are covariances (n, n), ``secret`` positions, ``radius`` in the unit of the
    values. The short form ``1/sigma_s^2 + alpha`` is right only for independent noise at the secret, and too
    small for SDP_B and Multiple Secrets. :class:`InferentialPrivacyError` for an order not above 1 or a
    negative radius; the errors of :mod:`models` for matrices that are no covariances.
    """
    check_order(order)
    check_radius(radius)
    split = condition_on(prior, secret)
    information = conditional_information(split, noise)
    return InferentialLoss(
        epsilon=loss_nats(information, order, radius),
        order=order,
        radius=radius,
        secret_variance=float(np.diag(noise)[split.secret].mean()),
        alpha=indirect_information(split, noise).largest,
        posterior_half_width=posterior_half_width(split, information),
        information=information,
    )


def per_value_loss(prior: Floats, noise: Floats, secret: Sequence[int], order: float, radius: float) -> float:
    """The exact loss (nats) for secrets each of whose values differs by at most ``radius``.

    Theorem 3.4 bounds this box of differences by the ball around it; a convex form is largest at a corner, so
    up to 16 values are settled by trying every corner. :class:`InferentialPrivacyError` for more.
    """
    check_order(order)
    check_radius(radius)
    information = secret_information(prior, noise, secret)
    values = len(information.matrix)
    if values > _MOST_VALUES:
        raise InferentialPrivacyError(
            f"corners can be tried for at most {_MOST_VALUES} values", values, "use release_loss, a bound"
        )
    if not information.is_resolved:
        return math.inf
    corners = np.array([(1.0, *rest) for rest in product((1.0, -1.0), repeat=values - 1)])
    largest = float(np.einsum("ci,ij,cj->c", corners, information.matrix, corners).max())
    return 0.5 * order * radius**2 * largest
