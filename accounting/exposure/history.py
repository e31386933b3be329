"""One person's horizon inside a longer log: what was released before it, and in hindsight what came after.

Raw releases, exactly (beyond the paper): past, inside and future are independent given the horizon's
trace, so

    I(X_w..X_u; Y_1..Y_u) = J_w + sum_{k=w..u} H(Y_k | Y_1..Y_{k-1})
    I(X_w..X_u; Y_1..Y_L) = I(X_w..X_u; Y_1..Y_u) + I(X_u; Y_{u+1}..Y_L | Y_1..Y_u)

with ``J_w = I(X_w; Y_1..Y_{w-1})`` from the renewals of the history.
Noised releases reveal no more than raw ones, and a count of several places no more than the place; for them
the carried terms of the strong data-processing inequality are computed too, and the smaller amount counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.exceptions import HorizonError
from accounting.exposure.entropy import entropy_nats
from accounting.exposure.exposure import Exposure
from accounting.exposure.history_kernel import (
    Mixture,
    future_information,
    mixture_information,
    renewal_mixture,
)
from accounting.exposure.information import person_step_terms
from accounting.exposure.step_information.contraction_kernel import contraction, dense_matrix


@dataclass(frozen=True, slots=True)
class HorizonInformation:
    """Bounds (nats) on what everything released reveals about one horizon; exact for raw releases.

    ``carried`` is about the first place of the horizon and was released before it, ``later`` about its
    last place and after it, ``I(X_u; Y_{u+1}..Y_L)``. ``at_the_moment`` counts what was released until the
    horizon's end, ``in_hindsight`` everything.
    """

    at_the_moment: float
    in_hindsight: float
    carried: float
    later: float


def check_window(exposure: Exposure, first: int, last: int) -> None:
    """:class:`HorizonError` unless ``0 <= first <= last < T``."""
    if not 0 <= first <= last < exposure.steps:
        raise HorizonError(
            f"a horizon's first and last step must lie in order in 0..{exposure.steps - 1}",
            (first, last),
            "choose steps of the log",
        )


def window_of(exposure: Exposure, first: int, last: int) -> Exposure:
    """The horizon on its own, as if nothing had been released before or after."""
    check_window(exposure, first, last)
    observations, start = exposure.observations[first : last + 1], exposure.marginal[first]
    window = exposure.of_raw_version(
        ("window", first, last),
        lambda: Exposure(exposure.chain, start, exposure.slot(first), observations),
    )
    return window if window.observations is observations else window.under(observations)


def history_mixture(exposure: Exposure, first: int) -> Mixture:
    """Posteriors of the place in step ``first`` given the raw version of all steps before it."""
    found = renewal_mixture(
        exposure.chain,
        exposure.start,
        exposure.first_slot,
        exposure.hits[:first],
        exposure.marginal[:first],
    )
    return Mixture(*found)


def horizon_information(exposure: Exposure, first: int, last: int) -> HorizonInformation:
    """What a log reveals about its steps ``first..last`` (inclusive), at the moment and in hindsight."""
    check_window(exposure, first, last)
    exact = exposure.of_raw_version(
        ("information", first, last), lambda: _raw_information(exposure, first, last)
    )
    if exposure.is_raw and not exposure.is_refined:
        return exact
    own = _step_bounds(exposure)
    carried = min(exact.carried, _carried_forward(exposure, own, first))
    later = min(exact.later, _carried_backward(exposure, own, last))
    inside = float(own[first : last + 1].sum())
    return HorizonInformation(
        at_the_moment=min(exact.at_the_moment, carried + inside),
        in_hindsight=min(exact.in_hindsight, carried + inside + later),
        carried=carried,
        later=later,
    )


def _raw_information(exposure: Exposure, first: int, last: int) -> HorizonInformation:
    """The raw version of the log, exactly where each count means one place, else from above."""
    at_the_moment = float(exposure.renewal_nats[first : last + 1].sum())
    carried = 0.0
    if first > 0:
        carried = float(mixture_information(history_mixture(exposure, first), exposure.marginal[first]))
    at_the_moment += carried
    known = Mixture(np.ones(1), exposure.marginal[last : last + 1])
    return HorizonInformation(
        at_the_moment=at_the_moment,
        in_hindsight=at_the_moment + _future(exposure, last, _after_step(exposure, last)),
        carried=carried,
        later=_future(exposure, last, known),  # I(X_u; Y_{u+1}..Y_L)
    )


def _after_step(exposure: Exposure, step: int) -> Mixture:
    """Posteriors of the place in ``step`` given the raw steps until it, without those that know the place."""
    before, hit = history_mixture(exposure, step), exposure.hits[step]
    unhit = np.where(hit, 0.0, before.beliefs)
    mass = unhit.sum(axis=1, keepdims=True)
    return Mixture(before.weights * mass[:, 0], unhit / np.where(mass > 0.0, mass, 1.0))


def _future(exposure: Exposure, last: int, mixture: Mixture) -> float:
    """What the raw version of the steps after ``last`` says about the place in it, nats."""
    later = exposure.hits[last + 1 :]
    if not later.any():
        return 0.0
    return float(future_information(exposure.chain, exposure.slot(last), later, mixture))


def _step_bounds(exposure: Exposure) -> NDArray[np.float64]:
    """A bound on ``I(X_t; Y_t)`` of each step, (T,)."""
    return np.array([person_step_terms(exposure, t).unconditioned for t in range(exposure.steps)])


def _carried_forward(exposure: Exposure, own: NDArray[np.float64], first: int) -> float:
    """``J_w = min(H(X_w), eta (J_{w-1} + i_{w-1}))`` with the contraction of each move."""
    carried = 0.0
    for t in range(first):
        moves = dense_matrix(exposure.chain, exposure.slot(t))
        kept = float(contraction(moves)) * (carried + float(own[t]))
        carried = min(entropy_nats(exposure.marginal[t + 1]), kept)
    return carried


def _carried_backward(exposure: Exposure, own: NDArray[np.float64], last: int) -> float:
    """``J'_u = min(H(X_u), eta' (J'_{u+1} + i_{u+1}))`` with the contraction of each reversed move."""
    carried = 0.0
    for t in range(exposure.steps - 2, last - 1, -1):
        kept = reversed_contraction(exposure, t) * (carried + float(own[t + 1]))
        carried = min(entropy_nats(exposure.marginal[t]), kept)
    return carried


def reversed_contraction(exposure: Exposure, step: int) -> float:
    """Contraction of the reversed move from the place in ``step + 1`` to the place in ``step``."""
    joint = exposure.marginal[step][:, np.newaxis] * dense_matrix(exposure.chain, exposure.slot(step))
    mass = joint.sum(axis=0)
    possible = mass > 0.0
    return _contraction_between(np.ascontiguousarray((joint[:, possible] / mass[possible]).T))


def _contraction_between(channel: NDArray[np.float64]) -> float:
    """Contraction of a channel that need not be square: padded by rows that repeat the first."""
    rows, columns = channel.shape
    padded = np.zeros((max(rows, columns), max(rows, columns)))
    padded[:rows, :columns] = channel
    padded[rows:, :columns] = channel[0]
    return float(contraction(padded))
