"""The verbs every release mechanism has. One mechanism is one file; accountants ask only these questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class NoiseLaw:
    """The exact law of an additive integer noise as its sampler realises it.

    ``probabilities[k]`` belongs to the value ``first + k``; they sum to one. ``truncated_mass`` is the
    total variation between this law and the ideal one (tails cut, table rounding): charged to delta and to
    the risk bounds.
    """

    first: int
    probabilities: NDArray[np.float64]
    truncated_mass: float


@dataclass(frozen=True)
class NoiseWindow:
    """Steps that share one noise vector: ``position`` of this step in a window of ``steps`` steps.

    ``parameters`` are those of the window, the same at all its steps.
    """

    position: int
    steps: int
    parameters: Mapping[str, float]


@runtime_checkable
class DrawnPerWindow(Protocol):
    """A mechanism whose uniform bits belong to a sensor's noise window instead of to one reading.

    They cannot depend on the count then: that a reading is released once is what keeps a correction from
    being an exact difference.
    """

    @property
    def noise_window(self) -> NoiseWindow:
        """Which window, and where in it the step is."""


@runtime_checkable
class Mechanism(Protocol):
    """How one sensor's count becomes public.

    ``name`` and ``parameters`` are what the release says of it. Mechanisms are frozen, hashable values.
    """

    @property
    def name(self) -> str:
        """The name used in messages, schedules and metrics."""

    @property
    def parameters(self) -> Mapping[str, float]:
        """Public parameters, e.g. ``{"sigma": 1.0}``."""

    @property
    def is_released(self) -> bool:
        """False when nothing is published at all."""

    @property
    def is_exact(self) -> bool:
        """True when the count is published as it is."""

    def publish(self, counts: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.int64] | None:
        """Published values of a batch of counts.

        ``counts`` has shape (n,), ``words`` shape (n, 2): 128 keyed uniform bits a count, high word first.
        None when the mechanism publishes nothing.
        """

    def noise_law(self) -> NoiseLaw | None:
        """Law of the added noise; None when nothing is released."""

    def reveal_probability(self) -> float:
        """Total variation between the noise and itself shifted by one: the erasure bound's delta.

        1 for raw, 0 for suppressed; includes the truncated mass, so it is never too small.
        """

    def divergence(self) -> float:
        """Kullback-Leibler divergence at shift one, nats: inf raw, 0 suppressed, 1/(2 sigma^2) Gaussian."""

    def information(self, probability: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mutual information (nats) between "the person is counted here" and the published value.

        ``probability`` of being counted, any shape; the result has the same shape and errs upwards only.
        """

    def expected_absolute_error(self) -> float:
        """Expected |published - count|; 0 for raw, nan for suppressed."""

    def variance(self) -> float:
        """Variance of the noise; 0 for raw, inf for suppressed."""

    def zcdp_rho(self) -> float:
        """zCDP cost of one release at sensitivity one: inf for raw, 0 for suppressed."""


class MechanismType(Protocol):
    """What the registry needs of a mechanism's class."""

    @property
    def name(self) -> str:
        """The name in messages, schedules and metrics."""

    def from_parameters(self, parameters: Mapping[str, object]) -> Mechanism:
        """The mechanism with these parameters; :class:`MechanismError` when they are not its own."""
