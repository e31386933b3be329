"""What a noise design is asked for, and what comes out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from models.exceptions import NoiseDesignError
from models.gaussian_process import Conditional, checked_covariance, checked_positions, condition_on

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DesignProblem:
    """Noise for one window: the prior covariance (n, n), the secret positions and the noise budget.

    ``noise_budget`` is the trace of the noise covariance: the summed error variance of the n released values.
    Without ``secret`` every time is one of its own (a *basic* secret); several positions together are one
    *compound* secret. :class:`NoiseDesignError` or :class:`GaussianProcessError` for anything out of range.
    """

    prior: Floats
    secret: tuple[int, ...] | None
    noise_budget: float

    def __post_init__(self) -> None:
        """Check everything once, so that methods need not."""
        matrix = checked_covariance(self.prior, "prior covariance")
        if not (np.diag(matrix) > 0.0).all():
            raise NoiseDesignError("every value must vary", "a variance of 0", "leave that time out")
        if self.secret is not None:
            checked_positions(self.secret, len(matrix))
        if not (math.isfinite(self.noise_budget) and self.noise_budget > 0.0):
            raise NoiseDesignError(
                "the noise budget must be positive and finite", self.noise_budget, "give the trace wanted"
            )
        object.__setattr__(self, "prior", matrix)

    @property
    def points(self) -> int:
        """Number of times, n."""
        return len(self.prior)

    @property
    def secrets(self) -> tuple[tuple[int, ...], ...]:
        """The secrets to protect: the one given, or each time."""
        return tuple((time,) for time in range(self.points)) if self.secret is None else (self.secret,)

    @cached_property
    def split(self) -> Conditional:
        """The prior conditioned on the secret; :class:`NoiseDesignError` if none was given."""
        if self.secret is None:
            raise NoiseDesignError(
                "this method protects one secret",
                "none",
                "give the secret, or use multiple or multiple-exact",
            )
        return condition_on(self.prior, self.secret)
