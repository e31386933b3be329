"""Traces of several coordinates that the prior holds independent, e.g. latitude and longitude."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from models.exceptions import GaussianProcessError
from models.gaussian_process.process_prior import GaussianProcessPrior


@dataclass(frozen=True)
class IndependentDimensions:
    """One prior per coordinate, all at the same times (n,)."""

    priors: tuple[GaussianProcessPrior, ...]

    def __post_init__(self) -> None:
        """:class:`GaussianProcessError` unless every coordinate has the same times."""
        if not self.priors:
            raise GaussianProcessError("a trace must have a coordinate", "none", "give one prior each")
        times = self.priors[0].times
        if not all(np.array_equal(prior.times, times) for prior in self.priors):
            raise GaussianProcessError(
                "coordinates must share their times", "different times", "interpolate, or treat them apart"
            )

    @property
    def points(self) -> int:
        """Number of times, n."""
        return self.priors[0].times.size

    def covariance(self) -> NDArray[np.float64]:
        """The joint covariance (d n, d n): coordinate after coordinate, each in the order of time."""
        return np.asarray(block_diag(*(prior.covariance() for prior in self.priors)), np.float64)

    def positions(self, secret: Sequence[int]) -> tuple[int, ...]:
        """Where the secret times are in :meth:`covariance`: all coordinates of each."""
        return tuple(
            coordinate * self.points + time for coordinate in range(len(self.priors)) for time in secret
        )
