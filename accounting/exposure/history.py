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
from typing import NamedTuple

import numpy as np

from accounting.exceptions import HorizonError
from accounting.exposure.exposure import Exposure, entropy_nats, person_step_terms
from accounting.exposure.step_information.contraction_kernel import contraction, dense_matrix
from accounting.numerics import relative_entropy_term
from models.numerics.arrays import Flags, Floats
from models.numerics.jit import jit
from models.priors.chain import ChainView, LocalChain, slot_of

# What a raw history says about where the horizon starts, and a raw future about where it ends.
#
# A history is a mixture of beliefs, one a renewal. The success that an information ``I`` adds grows like
# ``sqrt(I)``, so 1e-16 lost from it is 1e-8 of success: amounts of information here are sums of terms that
# are never negative, not differences of two entropies.


class Mixture(NamedTuple):
    """The posterior of the place after a raw history: ``beliefs[r]`` (K,) with probability ``weights[r]``."""

    weights: Floats  # (R,)
    beliefs: Floats  # (R, K)


@jit
def renewal_mixture(person: LocalChain, hits: Flags, marginal: Floats) -> Mixture:
    """The posteriors at the step after the ``n`` raw steps ``hits`` (n, K); ``marginal`` is theirs, (n, K).

    A hit reveals the place, so the posterior depends on the last hit alone: one belief for each (time,
    place) of a hit and one for no hit at all.
    """
    steps, place_count = hits.shape
    column_start, row, value = person.chain.column_start, person.chain.row, person.chain.value
    capacity = 1 + hits.sum()
    vectors = np.zeros((capacity, place_count))
    moved = np.empty(place_count)
    vectors[0] = person.start
    count = 1
    for t in range(steps):
        for r in range(count):
            for x in range(place_count):
                if hits[t, x]:
                    vectors[r, x] = 0.0
        for x in range(place_count):
            if hits[t, x]:
                vectors[count, x] = marginal[t, x]
                count += 1
        slot = slot_of(person, t)
        for r in range(count):
            for y in range(place_count):
                total = 0.0
                for j in range(np.uint64(column_start[slot, y]), np.uint64(column_start[slot, y + 1])):
                    total += vectors[r, np.uint64(row[j])] * value[j]
                moved[y] = total
            for y in range(place_count):
                vectors[r, y] = moved[y]
    weights = np.empty(count)
    for r in range(count):
        weights[r] = vectors[r].sum()
        if weights[r] > 0.0:
            vectors[r] /= weights[r]
    return Mixture(weights, vectors[:count])


@jit
def mixture_information(mixture: Mixture, marginal: Floats) -> float:
    """``I(X; which belief)``, nats: the mean relative entropy of the beliefs to their mean, ``marginal``."""
    total = 0.0
    for r in range(mixture.weights.size):
        if mixture.weights[r] > 0.0:
            for x in range(marginal.size):
                total += mixture.weights[r] * relative_entropy_term(mixture.beliefs[r, x], marginal[x])
    return total


@jit
def future_information(chain: ChainView, slot: int, hits: Flags, mixture: Mixture) -> float:
    """``I(X_u; Y_{u+1}..Y_L | belief)``, nats, on average over the beliefs about the place in step ``u``.

    ``hits`` (n, K) are those of the raw steps after ``u``, which is in ``slot``. From the first hit on
    nothing more is learned about ``X_u``. Before it, with ``F[x, m] = Pr[X_t = m, no hit | X_u = x]``, a step
    adds the mean over ``x`` of the relative entropy of its outcomes given ``x`` to those given the belief.
    """
    places, slots = chain.start.shape[1], chain.start.shape[0]
    total = 0.0
    unseen = np.eye(places)
    live = np.ones(places)
    rest = np.empty(places)
    for t in range(hits.shape[0]):
        moves = (slot + t) % slots
        for x in range(places):
            moved = np.zeros(places)
            for y in range(places):
                for j in range(chain.column_start[moves, y], chain.column_start[moves, y + 1]):
                    moved[y] += unseen[x, chain.row[j]] * chain.value[j]
            unseen[x] = moved
            rest[x] = 0.0
            for y in range(places):
                if not hits[t, y]:
                    rest[x] += moved[y]
        for r in range(mixture.weights.size):
            if mixture.weights[r] > 0.0:
                belief = mixture.beliefs[r]
                total += mixture.weights[r] * _outcome_information(belief, unseen, live, rest, hits[t])
        for x in range(places):
            live[x] = rest[x]
            for y in range(places):
                if hits[t, y]:
                    unseen[x, y] = 0.0
    return total


@jit
def _outcome_information(belief: Floats, masses: Floats, live: Floats, rest: Floats, hits: Flags) -> float:
    """What one step's outcome says about the place ``x`` of the ``belief`` (K,), where no hit came before.

    ``live[x]`` is the probability of that given ``x``, ``masses[x, y]`` that of being at ``y`` too, and
    ``rest[x]`` that of no hit in this step either.
    """
    alive = (belief * live).sum()
    if alive <= 0.0:
        return 0.0
    unhit = (belief * rest).sum() / alive
    total = 0.0
    for x in range(belief.size):
        if belief[x] > 0.0 and live[x] > 0.0:
            total += belief[x] * live[x] * relative_entropy_term(rest[x] / live[x], unhit)
    for y in range(hits.size):
        if hits[y]:
            hit = (belief * masses[:, y]).sum() / alive
            for x in range(belief.size):
                if belief[x] > 0.0 and live[x] > 0.0:
                    total += belief[x] * live[x] * relative_entropy_term(masses[x, y] / live[x], hit)
    return total


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
        ("window", first, last), lambda: Exposure(exposure.chain, start, exposure.slot(first), observations)
    )
    return window if window.observations is observations else window.under(observations)


def history_mixture(exposure: Exposure, first: int) -> Mixture:
    """Posteriors of the place in step ``first`` given the raw version of all steps before it."""
    return renewal_mixture(exposure.person, exposure.hits[:first], exposure.marginal[:first])


def horizon_information(exposure: Exposure, first: int, last: int) -> HorizonInformation:
    """What a log reveals about its steps ``first..last`` (inclusive), at the moment and in hindsight."""
    check_window(exposure, first, last)
    exact = exposure.of_raw_version(
        ("information", first, last), lambda: _raw_information(exposure, first, last)
    )
    if exposure.is_raw and not exposure.is_refined:
        return exact
    own = np.array([person_step_terms(exposure, t).unconditioned for t in range(exposure.steps)])
    nothing = np.zeros(exposure.steps)
    carried = min(exact.carried, carried_forward(exposure, own, nothing, first))
    later = min(exact.later, carried_backward(exposure, own, nothing, last))
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


def carried_forward(exposure: Exposure, before_move: Floats, after_move: Floats, step: int) -> float:
    """``J_t = min(H(X_t), eta_t (J_{t-1} + i_{t-1}) + n_t)`` in ``step``, with the contraction of each move.

    ``before_move`` (T,) is ``i``, what each step reveals about its place, and ``after_move`` (T,) is ``n``,
    what is not contracted because it concerns the place after the move. The strong data-processing
    inequality, the chain rule, and that information about ``X_t`` is never more than its entropy.
    """
    carried = 0.0
    for t in range(step + 1):
        kept = 0.0
        if t > 0:
            eta = float(contraction(dense_matrix(exposure.chain, exposure.slot(t - 1))))
            kept = eta * (carried + float(before_move[t - 1]))
        carried = min(entropy_nats(exposure.marginal[t]), kept + float(after_move[t]))
    return carried


def carried_backward(exposure: Exposure, before_move: Floats, after_move: Floats, step: int) -> float:
    """The mirror image of :func:`carried_forward`, with the contraction of each reversed move."""
    carried = 0.0
    for t in range(exposure.steps - 1, step - 1, -1):
        kept = 0.0
        if t < exposure.steps - 1:
            kept = reversed_contraction(exposure, t) * (carried + float(before_move[t + 1]))
        carried = min(entropy_nats(exposure.marginal[t]), kept + float(after_move[t]))
    return carried


def reversed_contraction(exposure: Exposure, step: int) -> float:
    """Contraction of the reversed move from the place in ``step + 1`` to the place in ``step``."""
    joint = exposure.marginal[step][:, np.newaxis] * dense_matrix(exposure.chain, exposure.slot(step))
    mass = joint.sum(axis=0)
    possible = mass > 0.0
    channel = np.ascontiguousarray((joint[:, possible] / mass[possible]).T)
    # Padded to a square by rows that repeat the first, which change no largest distance between two rows.
    rows, columns = channel.shape
    padded = np.zeros((max(rows, columns), max(rows, columns)))
    padded[:rows, :columns] = channel
    padded[rows:, :columns] = channel[0]
    return float(contraction(padded))
