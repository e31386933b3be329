"""The moment bound on the posterior that follows one sequence of published values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.moment_kernel import success_bound
from accounting.bounds.patterns.segments_kernel import find_nodes, segment_polynomials
from accounting.hmm.local_chain_kernel import LocalChain, slot_of
from models.numerics.jit import jit, pjit


@jit
def posterior_bound(person: LocalChain, likelihood: NDArray[np.float64], mistakes: int, order: int) -> float:
    """``min_j S_j / C(T - s, j)`` under ``Pr[X | y]``; ``likelihood[t, x]`` up to a factor a step."""
    steps, place_count = likelihood.shape
    nodes = find_nodes(np.zeros((steps, place_count), np.bool_))
    no_powers = np.empty((0, place_count, place_count))
    moments = segment_polynomials(person, likelihood, nodes, order, no_powers)[1, 0]
    if moments[0] <= 0.0:
        return 1.0  # the values are too unlikely for floats; nothing is claimed
    return min(1.0, success_bound(moments / moments[0], steps - mistakes))


def posterior_bounds(
    person: LocalChain, likelihoods: NDArray[np.float64], mistakes: int, order: int
) -> NDArray[np.float64]:
    """One bound for each draw of published values, shape (draws,); ``likelihoods`` (draws, T, K)."""
    bounds = np.empty(likelihoods.shape[0])
    _fill_posterior_bounds(bounds, person, likelihoods, mistakes, order)
    return bounds


@pjit(lambda bounds, *_: bounds.size)
def _fill_posterior_bounds(
    begin: int,
    end: int,
    bounds: NDArray[np.float64],
    person: LocalChain,
    likelihoods: NDArray[np.float64],
    mistakes: int,
    order: int,
) -> None:
    for draw in range(begin, end):
        bounds[draw] = posterior_bound(person, likelihoods[draw], mistakes, order)


@jit
def walk(person: LocalChain, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
    """One trajectory a row of ``uniforms`` (draws, T), by inverting each step's law."""
    chain = person.chain
    draws, steps = uniforms.shape
    slots, place_count = chain.start.shape
    forward = np.zeros((min(slots, steps), place_count, place_count))
    for i in range(forward.shape[0]):
        for y in range(place_count):
            slot = slot_of(person, i)
            for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
                forward[i, chain.row[j], y] = chain.value[j]
    paths = np.empty((draws, steps), np.int64)
    for draw in range(draws):
        law = person.start
        for t in range(steps):
            paths[draw, t] = invert(law, uniforms[draw, t])
            law = forward[t % forward.shape[0], paths[draw, t]]
    return paths


@jit
def invert(law: NDArray[np.float64], uniform: float) -> int:
    """The place whose cumulative probability first exceeds ``uniform``, never one of probability 0."""
    cumulative = 0.0
    last = 0
    for x in range(law.size):
        if law[x] > 0.0:
            cumulative += law[x]
            last = x
            if uniform < cumulative:
                return x
    return last
