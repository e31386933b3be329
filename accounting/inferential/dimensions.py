"""Traces of several independent coordinates, each with its own prior and noise.

One :class:`SecretInformation` per coordinate, of the same k secret times. Which of the three applies depends
on what the radius means.
"""

from __future__ import annotations

from collections.abc import Sequence

from accounting.exceptions import InferentialPrivacyError
from accounting.inferential.checks import check_order, check_radius
from accounting.inferential.loss import InferentialLoss
from models.noise_design import SecretInformation


def euclidean_radius_loss(coordinates: Sequence[SecretInformation], order: float, radius: float) -> float:
    """Loss (nats) for secrets within ``radius`` in Euclidean distance at each time: the largest coordinate's.

    The joint information is block-diagonal, so its largest eigenvalue is that of one block.
    """
    return _scale(coordinates, order, radius) * max(each.largest for each in coordinates)


def per_coordinate_radius_loss(
    coordinates: Sequence[SecretInformation], order: float, radius: float
) -> float:
    """Loss (nats) for secrets each of whose coordinates is within ``radius``: the sum over coordinates."""
    return _scale(coordinates, order, radius) * sum(each.largest for each in coordinates)


def papers_dimension_loss(losses: Sequence[InferentialLoss]) -> float:
    """``lambda/2 k r^2 (1/sigma_s^2 + alpha_x + alpha_y)`` (corollary 7.2.1): valid but loose.

    For a Euclidean radius and independent noise of one variance at the secret, the same in each coordinate;
    :class:`InferentialPrivacyError` where variances, orders or radii differ.
    """
    first = losses[0]
    same = {(each.secret_variance, each.order, each.radius) for each in losses}
    if len(same) != 1:
        raise InferentialPrivacyError(
            "the paper's corollary needs one variance, order and radius", same, "use euclidean_radius_loss"
        )
    scale = _scale([each.information for each in losses], first.order, first.radius)
    return scale * (1.0 / first.secret_variance + sum(each.alpha for each in losses))


def _scale(coordinates: Sequence[SecretInformation], order: float, radius: float) -> float:
    """``lambda/2 k r^2``."""
    check_order(order)
    check_radius(radius)
    sizes = {len(each.matrix) for each in coordinates}
    if len(sizes) != 1:
        raise InferentialPrivacyError(
            "coordinates must share their secret times",
            sorted(sizes),
            "give one information each, of equal size",
        )
    return 0.5 * order * sizes.pop() * radius**2
