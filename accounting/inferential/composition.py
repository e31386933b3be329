"""Several releases of one series: adjacent noise windows, a series released twice.

Noise of different releases is independent, but the values are not, so losses do not add and none of them
alone is the whole. The releases are evaluated together: one prior covariance over all released values,
block-diagonal noise (Meehan, Chaudhuri, corollary 3.4.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from accounting.exceptions import InferentialPrivacyError
from accounting.inferential.checks import check_order, check_radius
from models.gaussian_process import Kernel, checked_covariance, condition_on
from models.noise_design import SecretInformation, indirect_information, loss_nats

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Window:
    """One release: the times (n,) of its values and the covariance (n, n) of their noise."""

    times: Floats
    noise: Floats

    def __post_init__(self) -> None:
        """:class:`InferentialPrivacyError` unless there is one row of noise per time."""
        checked_covariance(self.noise, "noise covariance")
        if len(self.times) != len(self.noise):
            raise InferentialPrivacyError(
                "noise must have one row per released time", len(self.noise), f"give {len(self.times)}"
            )


@dataclass(frozen=True)
class ReleasedSeries:
    """Everything released of one series with a Gaussian-process prior; a time may be in several windows."""

    kernel: Kernel
    windows: tuple[Window, ...]

    def information(self, secret_times: Sequence[float]) -> SecretInformation:
        """What all releases together reveal about the values at ``secret_times`` (k,), released or not.

        The secret values stand first in the joint prior and are not released themselves; a released value at
        the same time equals its secret exactly, up to its noise.
        """
        hidden = len(secret_times)
        released = [window.times for window in self.windows]
        times = np.concatenate([np.asarray(secret_times, np.float64), *released])
        noise = block_diag(np.zeros((hidden, hidden)), *(window.noise for window in self.windows))
        split = condition_on(self.kernel.covariance(times), range(hidden))
        return indirect_information(split, np.asarray(noise, np.float64))

    def loss_nats(self, secret_times: Sequence[float], order: float, radius: float) -> float:
        """The joint loss of theorem 3.4 at ``secret_times``; :class:`InferentialPrivacyError` as there."""
        check_order(order)
        check_radius(radius)
        return loss_nats(self.information(secret_times), order, radius)
