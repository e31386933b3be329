"""The conditional-inferential-privacy reader: what one sensor's whole series reveals of a few steps.

The adversary believes that the series of counts is a Gaussian process. All releases of the sensor are taken
together, whatever noise windows they belong to: losses of parts do not add up (two adjacent windows of a
smooth series can lose twice what each loses alone, and more).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.exceptions import LedgerError
from accounting.ledgers.release_log import ReleaseLog, known, refuse
from models.gaussian_process import Kernel
from models.mechanisms import DrawnPerWindow, Mechanism

_NAME = "inferential"


@dataclass(frozen=True, slots=True)
class SecretQuestion:
    """Which steps of which sensor's series are secret, believed to be a Gaussian process with ``kernel``.

    Times are steps. ``order`` is the Rényi order lambda (above 1), ``radius`` the distance, in people, up to
    which two values of the secret must look alike.
    """

    sensor: str
    secret_steps: tuple[int, ...]
    kernel: Kernel
    order: float = 5.0
    radius: float = 1.0


@dataclass(frozen=True, slots=True)
class CipStatement:
    """``loss_nats``: Rényi divergence of the asked order between any two values of the secret, at most.

    inf where the secret follows from releases that have no noise of their own. Discrete noise is taken as
    continuous noise of the same variance, as the process itself is. ``released_steps`` were read together.
    """

    loss_nats: float
    released_steps: int


def read_inferential(log: ReleaseLog, question: SecretQuestion) -> CipStatement:
    """The joint loss of all releases of the sensor about the secret steps, released or not.

    Meehan, Chaudhuri, theorem 3.4 and corollary 3.4.1, for any noise. :class:`LedgerError` for a sensor
    without releases, :class:`InferentialPrivacyError` for an order not above 1,
    :class:`UnknownReleaseError` for noise that is not Gaussian.
    """
    from accounting.inferential import ReleasedSeries, Window

    steps, mechanisms = _series(log, question.sensor)
    window = Window(np.array(steps, dtype=np.float64), noise_covariance(steps, mechanisms))
    series = ReleasedSeries(question.kernel, (window,))
    return CipStatement(series.loss_nats(question.secret_steps, question.order, question.radius), len(steps))


def noise_covariance(steps: Sequence[int], mechanisms: Sequence[Mechanism]) -> NDArray[np.float64]:
    """Joint covariance (n, n) of the noise of one sensor's releases: noise windows are independent."""
    covariance = np.zeros((len(steps), len(steps)))
    for i, (step, mechanism) in enumerate(zip(steps, mechanisms, strict=True)):
        variance = known(_NAME, mechanism).gaussian_variance()
        if variance is None:
            raise refuse(_NAME, mechanism)
        covariance[i, i] = variance
        for j, (other_step, other) in enumerate(zip(steps, mechanisms, strict=True)):
            if isinstance(mechanism, DrawnPerWindow) and isinstance(other, DrawnPerWindow):
                covariance[i, j] = _shared_covariance(step, mechanism, other_step, other)
    return covariance


def _shared_covariance(step: int, mechanism: DrawnPerWindow, other_step: int, other: DrawnPerWindow) -> float:
    """Covariance of two releases of a sensor's noise: 0 unless they are parts of one vector."""
    own, others = mechanism.noise_window, other.noise_window
    if own.parameters != others.parameters or step - own.position != other_step - others.position:
        return 0.0
    return mechanism.covariance_at(others.position)


def _series(log: ReleaseLog, sensor: str) -> tuple[list[int], list[Mechanism]]:
    """Steps at which the sensor released something, and how."""
    found = [
        (step.step, release)
        for step in log.steps
        for release in step.releases
        if release.sensor.name == sensor and release.mechanism.is_released
    ]
    if not found:
        raise LedgerError("the log must have releases of the sensor", repr(sensor), "check its name")
    if found[0][1].sensor.window is not None:
        raise LedgerError(
            "a series about which secrets are asked must be of presence in single steps",
            f"windows or moves of {sensor!r}",
            "ask about another sensor",
        )
    return [step for step, _ in found], [release.mechanism for _, release in found]
