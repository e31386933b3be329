"""The conditional-inferential-privacy reader: what one sensor's whole series reveals of a few steps.

The adversary believes that the series of counts is a Gaussian process. All releases of the sensor are
evaluated together, across noise windows, because the losses of parts are no bound on the whole: two adjacent
windows of a smooth series can together lose more than twice what each loses alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from accounting.exceptions import InferentialPrivacyError, LedgerError
from accounting.ledgers.release_log import ReleaseLog, known, refuse
from models.arguments import checked
from models.gaussian_process import Kernel, checked_covariance, condition_on, lift
from models.mechanisms import DrawnPerWindow, Mechanism
from models.noise_design import (
    SecretInformation,
    conditional_information,
    indirect_information,
    loss_nats,
    posterior_half_width,
    secret_information,
)
from models.numerics.arrays import Floats
from models.numerics.elementwise import log

# Conditional inferential privacy: what noised releases of a trace reveal about its values at secret times.
#
# Meehan, Chaudhuri, "Location Trace Privacy Under Conditional Priors". The secret is part of one person's
# trace or of one series. The adversary knows a Gaussian-process prior of it, but not its mean.


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


@checked(InferentialPrivacyError)
def prior_posterior_gap(epsilon: float, order: float, delta: float) -> float:
    """How far the release can move the adversary's log odds between two secrets, nats.

    ``epsilon + ln(1/delta) / (lambda - 1)``, with probability at least ``1 - delta`` over the noise and the
    rest of the trace (Meehan, Chaudhuri, theorem 3.3). :class:`InferentialPrivacyError` unless 0 < delta <
    1.
    """
    check_order(order)
    if not 0.0 < delta < 1.0:
        raise InferentialPrivacyError("delta must be between 0 and 1", delta, "try 0.05")
    return epsilon + math.log(1.0 / delta) / (order - 1.0)


# The conditional inferential privacy loss of one release.


_MOST_VALUES = 16  # 2^15 corners


@dataclass(frozen=True, slots=True)
class InferentialLoss:
    """What a release reveals about one secret, everything evaluated from the noise covariance itself."""

    epsilon: float  # nats; inf where, to floating-point precision, the release determines the secret
    order: float
    radius: float
    secret_variance: float  # sigma_s^2, mean noise variance at the secret times
    alpha: float  # information through the other times alone; epsilon does not use 1/sigma_s^2 + alpha
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


# Rényi divergences between Gaussian laws.


def gaussian_renyi_divergence(mean_shift: Floats, left: Floats, right: Floats, order: float) -> float:
    """``D_order(N(m, left) || N(m - mean_shift, right))`` in nats for covariances (n, n).

    With ``mixed = order right + (1 - order) left``: ``order/2 shift^T mixed^-1 shift - ln(
    |mixed| / (|left|^(1-order) |right|^order)) / (2 (order - 1))``, inf where ``mixed`` is not positive
    definite (Gil, Alajaji, Linder, "Rényi divergence measures for commonly used univariate continuous
    distributions", 2013, table 2 and its multivariate case).
    """
    from scipy.linalg import cho_solve, cholesky  # takes long to import, and only this ledger asks for it

    check_order(order)
    try:
        factors = [cholesky(each, lower=True) for each in (left, right, order * right + (1.0 - order) * left)]
    except np.linalg.LinAlgError:
        return math.inf
    log_left, log_right, log_mixed = (2.0 * float(np.sum(log(np.diag(each)))) for each in factors)
    quadratic = float(mean_shift @ cho_solve((factors[2], True), mean_shift))
    spread = log_mixed - (1.0 - order) * log_left - order * log_right
    return max(0.5 * order * quadratic - spread / (2.0 * (order - 1.0)), 0.0)


# Several releases of one series: adjacent noise windows, or a series released twice.
#
# The noise of different releases is independent but the values are not, so neither the sum of the losses nor
# the largest of them is a bound. The releases are evaluated together: one prior covariance over all released
# values, block-diagonal noise (Meehan, Chaudhuri, corollary 3.4.1).


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
        from scipy.linalg import block_diag

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


# The loss when the adversary's prior is not the one that the noise was designed for: Meehan, Chaudhuri,
# theorem "Robustness to prior misspecification" (appendix 7.2.3).


def misspecified_loss(
    order: float, divergence_nats: Callable[[float], float], loss: Callable[[float], float]
) -> float:
    """``(l - 1/2)/(l - 1) D(2 l) + D(4 l - 3) + (2 l - 3/2)/(2 l - 2) eps(4 l - 2)``, nats, ``l`` the order.

    ``divergence_nats(l)`` is ``D(l)``, the distance between the true prior and the nearest of the assumed
    class, ``loss(l)`` the loss under the assumed class; both may be inf.
    """
    check_order(order)
    return (
        (order - 0.5) / (order - 1.0) * divergence_nats(2.0 * order)
        + divergence_nats(4.0 * order - 3.0)
        + (2.0 * order - 1.5) / (2.0 * order - 2.0) * loss(4.0 * order - 2.0)
    )


def conditional_divergence(
    assumed: Floats, true: Floats, noise: Floats, secret: Sequence[int], secret_norm: float, order: float
) -> float:
    """``D(order)``, nats, between two Gaussian-process priors as seen through the noise at the other times.

    The larger of the two Rényi divergences between ``Z_U | X_S = s`` under ``assumed`` and ``true`` (n, n),
    for the worst secret at most ``secret_norm`` from its mean. The theorem states it for ``X_U``; its proof
    needs it only for what is released, which diverges less. The means are taken as equal. That is one member
    of the class of priors, so this bounds the theorem's infimum from above. If two priors weigh the secret
    differently, no bound holds for all secrets, hence ``secret_norm``.
    """
    check_order(order)
    left, right = condition_on(assumed, secret), condition_on(true, secret)
    rest = np.asarray(noise)[np.ix_(left.rest, left.rest)]
    spreads = [lift(split.residual + rest, split.rounding) for split in (left, right)]
    gap = left.effect - right.effect
    return max(
        _worst_secret(gap, spreads[0], spreads[1], secret_norm, order),
        _worst_secret(gap, spreads[1], spreads[0], secret_norm, order),
    )


def misspecified_release_loss(
    assumed: Floats,
    true: Floats,
    noise: Floats,
    secret: Sequence[int],
    *,
    secret_norm: float,
    order: float,
    radius: float,
) -> float:
    """The theorem's bound (nats) on the loss under ``true`` of a release accounted under ``assumed`` (n, n).

    Where the true prior is known, its own loss (:func:`release_loss`) is exact and never above this bound.
    The divergence is that of the values other than the secret, so the noise must not correlate the secret
    with them.
    """
    check_radius(radius)
    information = secret_information(assumed, noise, secret)
    return misspecified_loss(
        order,
        lambda at: conditional_divergence(assumed, true, noise, secret, secret_norm, at),
        lambda at: loss_nats(information, at, radius),
    )


def _worst_secret(gap: Floats, left: Floats, right: Floats, secret_norm: float, order: float) -> float:
    """The divergence at the secret of this norm that moves the two means furthest apart."""
    mixed = order * right + (1.0 - order) * left
    values, vectors = np.linalg.eigh(mixed)
    if values[0] <= 0.0:  # then the Rényi divergence of this order is infinite
        return math.inf
    furthest = np.linalg.svd(((gap.T @ vectors) / np.sqrt(values)), full_matrices=False)[0][:, 0]
    return gaussian_renyi_divergence(secret_norm * gap @ furthest, left, right, order)


_NAME = "inferential"


@checked(InferentialPrivacyError)
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
    """``loss_nats`` bounds the Rényi divergence of the question's order between any two values of the secret.

    It is inf where the secret follows from releases that have no noise of their own. Discrete noise is
    treated as continuous noise of the same variance, as are the counts themselves. ``released_steps`` is how
    many releases were evaluated together.
    """

    loss_nats: float
    released_steps: int


def read_inferential(log: ReleaseLog, question: SecretQuestion) -> CipStatement:
    """The joint loss of all releases of the sensor about the secret steps, released or not.

    Meehan, Chaudhuri, theorem 3.4 and corollary 3.4.1, for any noise. :class:`LedgerError` for a sensor
    without releases, :class:`InferentialPrivacyError` for an order not above 1,
    :class:`UnknownReleaseError` for noise that is not Gaussian.
    """
    steps, mechanisms = _series(log, question.sensor)
    window = Window(np.array(steps, dtype=np.float64), noise_covariance(steps, mechanisms))
    series = ReleasedSeries(question.kernel, (window,))
    return CipStatement(series.loss_nats(question.secret_steps, question.order, question.radius), len(steps))


def noise_covariance(steps: Sequence[int], mechanisms: Sequence[Mechanism]) -> Floats:
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
    """Covariance of the noise of two releases of a sensor: 0 unless both were drawn as one vector."""
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
            "a sensor with secret steps must count presence in single steps",
            f"{sensor!r}, which counts windows or moves",
            "ask about another sensor",
        )
    return [step for step, _ in found], [release.mechanism for _, release in found]
