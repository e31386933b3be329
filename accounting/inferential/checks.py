"""What every inferential loss asks of its order and radius."""

from __future__ import annotations

import math

from accounting.exceptions import InferentialPrivacyError


def check_order(order: float) -> None:
    """:class:`InferentialPrivacyError` unless a Rényi order above 1."""
    if not (math.isfinite(order) and order > 1.0):
        raise InferentialPrivacyError(
            "the order must be above 1 and finite", order, "5 is what the paper uses"
        )


def check_radius(radius: float) -> None:
    """:class:`InferentialPrivacyError` unless positive and finite."""
    if not (math.isfinite(radius) and radius > 0.0):
        raise InferentialPrivacyError(
            "the radius must be positive and finite", radius, "give it in the unit of the values"
        )
