"""What releases over windows reveal about one horizon, nats, as a sum over releases with carried terms.

Given any other releases, one more adds at most ``I(n_r; Y_r)``. Windows that end at or before the horizon's
first step ``w`` speak of its first place alone and are carried to it, with the contraction ``eta_t`` of the
move into step ``t``,

    J_t = min(H(X_t), eta_t J_{t-1} + sum of I(n_r; Y_r) over windows that end with t).

The present term is not contracted: a passage of move ``t`` concerns the place in step ``t`` itself. Windows
that begin at or after the horizon's last place are carried backwards in the same way, all others count whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.exposure import Exposure, check_window, entropy_nats, reversed_contraction
from accounting.exposure.own_counts.count_law import OwnCount
from accounting.exposure.step_information.contraction_kernel import contraction, dense_matrix


@dataclass(frozen=True, slots=True)
class WindowInformation:
    """Bounds (nats) on what the releases say of a horizon: from before it, inside, and after it."""

    carried: float
    inside: float
    later: float

    @property
    def total(self) -> float:
        """Of everything together."""
        return self.carried + self.inside + self.later


def window_information(
    exposure: Exposure, own_counts: Sequence[OwnCount], first: int, last: int
) -> WindowInformation:
    """What releases with these own counts say of the steps ``first..last`` (inclusive).

    :class:`~accounting.exceptions.HorizonError` for a horizon outside the exposure's steps.
    """
    check_window(exposure, first, last)
    before, after = np.zeros(exposure.steps), np.zeros(exposure.steps)
    inside = 0.0
    for own in own_counts:
        if own.release.last <= first:
            before[own.release.last] += own.information_nats
        elif own.release.earliest_place >= last:
            after[own.release.earliest_place] += own.information_nats
        else:
            inside += own.information_nats
    return WindowInformation(
        _carried_forward(exposure, before, first), inside, _carried_backward(exposure, after, last)
    )


def _carried_forward(exposure: Exposure, ending: NDArray[np.float64], first: int) -> float:
    """``J_w`` from the information (T,) of the windows that end in each step."""
    carried = 0.0
    for t in range(first + 1):
        kept = 0.0 if t == 0 else float(contraction(dense_matrix(exposure.chain, exposure.slot(t - 1))))
        carried = min(entropy_nats(exposure.marginal[t]), kept * carried + float(ending[t]))
    return carried


def _carried_backward(exposure: Exposure, beginning: NDArray[np.float64], last: int) -> float:
    """Its mirror image, with the contraction of each reversed move."""
    carried = 0.0
    for t in range(exposure.steps - 1, last - 1, -1):
        kept = 0.0 if t == exposure.steps - 1 else reversed_contraction(exposure, t)
        carried = min(entropy_nats(exposure.marginal[t]), kept * carried + float(beginning[t]))
    return carried
