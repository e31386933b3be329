"""A Gaussian-process prior at given times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from models.exceptions import GaussianProcessError
from models.gaussian_process.conditional import Conditional, condition_on
from models.gaussian_process.covariances import Kernel

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GaussianProcessPrior:
    """A kernel at increasing times (n,), regular or not.

    The mean may be anything, no guarantee depends on it (Meehan, Chaudhuri, appendix 7.5: a conditional prior
    class holds every mean function).
    """

    kernel: Kernel
    times: Floats

    def __post_init__(self) -> None:
        """:class:`GaussianProcessError` unless the times are finite and increasing."""
        times = np.array(self.times, np.float64)
        if times.ndim != 1 or not times.size or not np.isfinite(times).all():
            raise GaussianProcessError(
                "times must be a list of finite numbers", times.shape, "give at least one"
            )
        if (np.diff(times) <= 0.0).any():
            raise GaussianProcessError("times must increase", "a step back or a repeat", "sort them")
        times.flags.writeable = False
        object.__setattr__(self, "times", times)

    @classmethod
    def at_steps(cls, kernel: Kernel, points: int) -> GaussianProcessPrior:
        """The prior at ``points`` times 0, 1, 2, ..."""
        return cls(kernel, np.arange(points, dtype=np.float64))

    def covariance(self) -> Floats:
        """The covariance [time, time]."""
        return self.kernel.covariance(self.times)

    def condition_on(self, secret: Sequence[int]) -> Conditional:
        """What the values at the positions ``secret`` say about the others."""
        return condition_on(self.covariance(), secret)

    def sample(self, draws: int, random: np.random.Generator) -> Floats:
        """Traces [draw, time] of mean zero, for simulations; a singular prior will do."""
        values, vectors = np.linalg.eigh(self.covariance())
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.asarray(random.standard_normal((draws, self.times.size)) @ root.T, np.float64)
