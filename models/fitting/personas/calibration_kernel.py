"""Kernels of calibration: forward and backward passes over all personas' days, and what they weigh together.

Arrays and scalars only. A day has the slots 0..C; slot C is slot 0 of the next day. ``factor`` (C, M, M) are
the factors ``alpha_t`` on moves between locations; a place whose ``tilt`` is zero is one where a day neither
begins nor ends. Forward and backward masses are scaled to a largest entry of one:
only their ratios within a persona matter, and so no product of factors leaves the range of numbers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.numerics.jit import jit, pjit
from models.priors.chain import ChainView, PopulationArrays, chain_view


class Masses(NamedTuple):
    """``exp(nu)`` and the forward mass of each place, the backward masses of each slot."""

    tilt: NDArray[np.float64]  # K a persona
    forward: NDArray[np.float64]  # K a persona
    beta: NDArray[np.float64]  # C * K a persona, laid out like the distributions


class Blocks(NamedTuple):
    """Fixed blocks of personas whose flows are added one after the other: threads change no bit."""

    edges: NDArray[np.int64]  # (B + 1,) where each block begins, and the end of the last
    weight: NDArray[np.float64]  # (N,)
    flows: NDArray[np.float64]  # (B, M, M) from location to location


@jit
def _scale(mass: NDArray[np.float64]) -> None:
    """Divide by the largest entry, unless all are zero."""
    largest = mass.max()
    if largest > 0.0:
        mass /= largest


@jit
def _end(tilt: NDArray[np.float64]) -> NDArray[np.float64]:
    """``beta_C = exp(-nu)``; zero where a day may not end."""
    end = np.zeros(tilt.size)
    for x in range(tilt.size):
        end[x] = 1.0 / tilt[x] if tilt[x] > 0.0 else 0.0
    _scale(end)
    return end


@jit
def _after(slot: int, tilt: NDArray[np.float64], beta: NDArray[np.float64]) -> NDArray[np.float64]:
    """The backward mass one slot after ``slot``."""
    return beta[slot + 1] if slot + 1 < beta.shape[0] else _end(tilt)


@jit
def _day(population: PopulationArrays, person: int, masses: NDArray[np.float64]) -> NDArray[np.float64]:
    """One persona's part (C, K) of an array laid out like the distributions."""
    first, last = population.distribution_start[person], population.distribution_start[person + 1]
    slots = population.slots[person]
    return masses[first:last].reshape(slots, (last - first) // slots)


@jit
def _own(population: PopulationArrays, person: int, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """One persona's part (K,) of an array laid out like the places."""
    return values[population.places_start[person] : population.places_start[person + 1]]


@pjit(lambda population, *_: population.slots.size, least=64)
def backward(
    begin: int,
    end: int,
    population: PopulationArrays,
    factor: NDArray[np.float64],
    masses: Masses,
) -> None:
    """``beta_t(x) = sum_y P_t(x, y) alpha_t(x, y) beta_{t+1}(y)`` from the end of the day to its start."""
    for person in range(begin, end):
        view, beta = chain_view(population, person), _day(population, person, masses.beta)
        tilt = _own(population, person, masses.tilt)
        for slot in range(beta.shape[0] - 1, -1, -1):
            after, before = _after(slot, tilt, beta), beta[slot]
            before[:] = 0.0
            for y in range(after.size):
                for j in range(view.column_start[slot, y], view.column_start[slot, y + 1]):
                    x = view.row[j]
                    before[x] += view.value[j] * factor[slot, view.places[x], view.places[y]] * after[y]
            _scale(before)


@pjit(lambda population, *_: population.slots.size, least=256)
def begin_day(begin: int, end: int, population: PopulationArrays, masses: Masses) -> None:
    """The forward mass at slot 0: ``pi_0 exp(nu)``."""
    for person in range(begin, end):
        start, own = chain_view(population, person).start[0], _own(population, person, masses.forward)
        own[:] = start * _own(population, person, masses.tilt)
        _scale(own)


@jit
def _joint(
    view: ChainView,
    slot: int,
    factor: NDArray[np.float64],
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    joint: NDArray[np.float64],
) -> float:
    """``before(x) P(x, y) factor(x, y) after(y)`` of each entry in turn, and their sum."""
    total, first = 0.0, view.column_start[slot, 0]
    for y in range(after.size):
        for j in range(view.column_start[slot, y], view.column_start[slot, y + 1]):
            x = view.row[j]
            mass = before[x] * view.value[j] * factor[view.places[x], view.places[y]] * after[y]
            joint[j - first] = mass
            total += mass
    return total


@jit
def _add(
    view: ChainView, slot: int, joint: NDArray[np.float64], scale: float, flows: NDArray[np.float64]
) -> None:
    first = view.column_start[slot, 0]
    for y in range(view.places.size):
        for j in range(view.column_start[slot, y], view.column_start[slot, y + 1]):
            flows[view.places[view.row[j]], view.places[y]] += scale * joint[j - first]


@jit
def _widest(population: PopulationArrays) -> int:
    """The most places of anybody."""
    most = 0
    for person in range(population.slots.size):
        most = max(most, population.places_start[person + 1] - population.places_start[person])
    return most


@pjit(lambda blocks, *_: blocks.edges.size - 1)
def slot_flows(
    begin: int,
    end: int,
    blocks: Blocks,
    population: PopulationArrays,
    slot: int,
    factor: NDArray[np.float64],
    masses: Masses,
) -> None:
    """The flows of a slot as the factors are now, ``factor`` (M, M) being the slot's."""
    joint = np.empty(_widest(population) ** 2)
    for block in range(begin, end):
        blocks.flows[block] = 0.0
        for person in range(blocks.edges[block], blocks.edges[block + 1]):
            view, beta = chain_view(population, person), _day(population, person, masses.beta)
            before = _own(population, person, masses.forward)
            after = _after(slot, _own(population, person, masses.tilt), beta)
            total = _joint(view, slot, factor, before, after, joint)
            if total > 0.0:
                _add(view, slot, joint, blocks.weight[person] / total, blocks.flows[block])


@pjit(lambda blocks, *_: blocks.edges.size - 1)
def own_flows(begin: int, end: int, blocks: Blocks, population: PopulationArrays, slot: int) -> None:
    """The same of people who move as they are: from where they are in the long run, by their own moves."""
    for block in range(begin, end):
        flows = blocks.flows[block]
        flows[:] = 0.0
        for person in range(blocks.edges[block], blocks.edges[block + 1]):
            view, weight = chain_view(population, person), blocks.weight[person]
            at = slot % view.start.shape[0]
            for y in range(view.places.size):
                for j in range(view.column_start[at, y], view.column_start[at, y + 1]):
                    x = view.row[j]
                    flows[view.places[x], view.places[y]] += weight * view.start[at, x] * view.value[j]


@pjit(lambda population, *_: population.slots.size, least=64)
def advance(
    begin: int,
    end: int,
    population: PopulationArrays,
    slot: int,
    factor: NDArray[np.float64],
    masses: Masses,
) -> None:
    """The forward mass one slot later: ``a'(y) = sum_x a(x) P(x, y) alpha(x, y)``."""
    for person in range(begin, end):
        view, own = chain_view(population, person), _own(population, person, masses.forward)
        later = np.zeros(own.size)
        for y in range(own.size):
            for j in range(view.column_start[slot, y], view.column_start[slot, y + 1]):
                x = view.row[j]
                later[y] += own[x] * view.value[j] * factor[view.places[x], view.places[y]]
        _scale(later)
        own[:] = later


@pjit(lambda population, *_: population.slots.size, least=64)
def close_day(
    begin: int,
    end: int,
    population: PopulationArrays,
    masses: Masses,
    gap: NDArray[np.float64],
) -> None:
    """``nu <- nu + ln(law at C / law at 0) / 2``; ``gap`` (N,): how far the laws were apart, -1 for none.

    ``forward`` is the mass at slot C. A place where days begin or end only is neither from then on.
    """
    for person in range(begin, end):
        start, own = chain_view(population, person).start[0], _own(population, person, masses.tilt)
        first = start * own * _day(population, person, masses.beta)[0]
        last = _own(population, person, masses.forward) * _end(own)
        if not (first.sum() > 0.0 and last.sum() > 0.0):
            gap[person] = -1.0
            continue
        first, last = first / first.sum(), last / last.sum()
        gap[person] = np.abs(last - first).sum()
        for x in range(own.size):
            own[x] *= math.sqrt(last[x] / first[x]) if first[x] > 0.0 else 0.0
        _scale(own)


@pjit(lambda chosen, *_: chosen.size, least=64)
def write_days(
    begin: int,
    end: int,
    chosen: NDArray[np.int64],
    population: PopulationArrays,
    factor: NDArray[np.float64],
    masses: Masses,
    days: NDArray[np.float64],
) -> None:
    """``P_t(x, y) alpha_t(x, y) beta_{t+1}(y) / beta_t(x)`` of some personas, dense (n, C, K, K).

    A place where the persona never is in a slot goes on as everybody else there: its row is the law one slot
    later, so that no such place is a world of its own.
    """
    for number in range(begin, end):
        person = chosen[number]
        view, beta = chain_view(population, person), _day(population, person, masses.beta)
        tilt, size = _own(population, person, masses.tilt), view.places.size
        law = view.start[0] * tilt * beta[0]
        law /= law.sum()
        for slot in range(beta.shape[0]):
            after, matrix = _after(slot, tilt, beta), days[number, slot]
            matrix[:] = 0.0
            for y in range(size):
                for j in range(view.column_start[slot, y], view.column_start[slot, y + 1]):
                    x = view.row[j]
                    matrix[x, y] = view.value[j] * factor[slot, view.places[x], view.places[y]] * after[y]
            law = _normalise_rows(matrix, law, size)


@jit
def _normalise_rows(matrix: NDArray[np.float64], law: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Rows that sum to one, and the law after them."""
    later = np.zeros(size)
    for x in range(size):
        total = matrix[x, :size].sum()
        if law[x] > 0.0 and total > 0.0:
            matrix[x, :size] /= total
            later += law[x] * matrix[x, :size]
    later /= later.sum()
    for x in range(size):
        if not (law[x] > 0.0 and matrix[x, :size].sum() > 0.0):
            matrix[x, :size] = later
    return later
