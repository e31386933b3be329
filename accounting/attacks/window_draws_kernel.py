"""Monte Carlo attacks on counts over windows, as they are published: every draw is decoded.

The posterior of the place alone is not enough while a window is open: what its count will say also depends on
what it has counted so far. So the decoder's state is the place with the *code*, the own count so far of each
open window. At a window's last step its published value ``y`` weighs each own count ``n`` with the noise's
probability of ``y - n``, and the count is dropped. Sums give the likeliest place of each step, maxima the
likeliest path, both exactly (math3.md, 19.5).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.attacks.noised_draws_kernel import MAP, MARGINAL, count_draw, wrong_steps
from accounting.exposure.drawing import (
    Draws,
    NoiseTables,
    ReleasedSteps,
    Walker,
    draw,
    new_stream,
    publish_trace,
    walk,
)
from models.numerics.jit import bare_jit, jit
from models.priors.chain import LocalChain, slot_of


class WindowCodes(NamedTuple):
    """The counts so far of ``R`` sensors with windows, of which one window each is open at a time.

    ``kind[t, x, y]`` is what the move from ``x`` to ``y`` into step ``t`` adds to each count (in step
    0 whatever ``x`` is), and ``after[kind, code]`` the code afterwards.
    """

    kind: NDArray[np.int32]  # (T, K, K)
    after: NDArray[np.int32]  # (kinds, M)
    counted: NDArray[np.int32]  # (R, M) each sensor's count in each code
    dropped: NDArray[np.int32]  # (R, M) the code without it
    ends: NDArray[np.int32]  # (T, R) the law of the noise of the window that ends with the step; -1 for none
    noise: NoiseTables


class WindowSimulation(NamedTuple):
    """One person's trajectories and what is published of them; places are the person's own, ``0..K-1``."""

    walker: Walker
    person: LocalChain
    others: ReleasedSteps  # what is counted in single steps
    labels: NDArray[np.int32]  # (T, K) outcome of each place in these
    codes: WindowCodes
    blind: NDArray[np.int32]  # (2, T) guesses of both attacks before anything is released


class _Work(NamedTuple):
    """Scratch of one simulated trace."""

    trace: NDArray[np.int32]  # (T,)
    outcome: NDArray[np.int32]  # (T,)
    log_likelihood: NDArray[np.float64]  # (T, O)
    likelihood: NDArray[np.float64]  # (T, K)
    fits: NDArray[np.float64]  # (T, R, M) of the value that a window publishes with the step
    later: NDArray[np.float64]  # (T, K, M) likelihood of everything after the step
    best: NDArray[np.float64]  # (T, K, M) the same along the best path
    state: NDArray[np.float64]  # (2, K, M)
    guess: NDArray[np.int32]  # (T,)


@jit
def _new_work(simulation: WindowSimulation) -> _Work:
    steps, places = simulation.labels.shape
    sensors, codes = simulation.codes.counted.shape
    trace, outcome, guess = np.empty((3, steps), np.int32)
    return _Work(
        trace,
        outcome,
        np.empty((steps, simulation.others.counted.shape[1])),
        np.empty((steps, places)),
        np.empty((steps, sensors, codes)),
        np.empty((steps, places, codes)),
        np.empty((steps, places, codes)),
        np.empty((2, places, codes)),
        guess,
    )


@bare_jit
def _publish(simulation: WindowSimulation, stream: NDArray[np.uint64], work: _Work) -> None:
    """Draw a trajectory and all values, and how well each place and code would explain them."""
    codes, noise = simulation.codes, simulation.codes.noise
    walk(simulation.walker, stream, work.trace)
    for step in range(work.trace.size):
        work.outcome[step] = simulation.labels[step, work.trace[step]]
    publish_trace(simulation.others, work.outcome, stream, work.log_likelihood)
    code = 0
    for step in range(work.trace.size):
        most = -np.inf
        for x in range(simulation.labels.shape[1]):
            most = max(most, work.log_likelihood[step, simulation.labels[step, x]])
        for x in range(simulation.labels.shape[1]):
            relative = work.log_likelihood[step, simulation.labels[step, x]] - most
            work.likelihood[step, x] = np.exp(relative)
        before = work.trace[max(step - 1, 0)]
        code = codes.after[codes.kind[step, before, work.trace[step]], code]
        for r in range(codes.ends.shape[1]):
            law = codes.ends[step, r]
            if law < 0:
                continue
            seen = codes.counted[r, code] + draw(noise.tables, law, stream)
            begin, end = noise.tables.first[law], noise.tables.first[law + 1]
            for other in range(codes.counted.shape[1]):
                index = seen - codes.counted[r, other]
                is_possible = 0 <= index < end - begin
                work.fits[step, r, other] = (
                    np.exp(noise.log_probability[begin + index]) if is_possible else 0.0
                )
            code = codes.dropped[r, code]


@bare_jit
def _after_step(codes: WindowCodes, step: int, code: int) -> int:
    """The code when the windows that end with the step are dropped."""
    for r in range(codes.ends.shape[1]):
        if codes.ends[step, r] >= 0:
            code = codes.dropped[r, code]
    return code


@bare_jit
def _fit(codes: WindowCodes, work: _Work, step: int, place: int, code: int) -> float:
    """How well a place and code explain what is published with the step."""
    fit = work.likelihood[step, place]
    for r in range(codes.ends.shape[1]):
        if codes.ends[step, r] >= 0:
            fit *= work.fits[step, r, code]
    return fit


@bare_jit
def _look_back(simulation: WindowSimulation, work: _Work) -> None:
    """Fill in ``later`` and ``best``, each up to a factor a step: from the last step to the first."""
    codes, person = simulation.codes, simulation.person
    chain = person.chain
    steps, places, count = work.later.shape
    work.later[steps - 1] = 1.0
    work.best[steps - 1] = 1.0
    for step in range(steps - 1, 0, -1):
        slot = slot_of(person, step - 1)
        for y in range(places):
            for code in range(count):
                after, fit = _after_step(codes, step, code), _fit(codes, work, step, y, code)
                work.state[0, y, code] = fit * work.later[step, y, after]
                work.state[1, y, code] = fit * work.best[step, y, after]
        work.later[step - 1] = 0.0
        work.best[step - 1] = 0.0
        largest, likeliest = 0.0, 0.0
        for y in range(places):
            for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
                x, probability = chain.row[j], chain.value[j]
                kind = codes.kind[step, x, y]
                for code in range(count):
                    moved = codes.after[kind, code]
                    added = work.later[step - 1, x, code] + probability * work.state[0, y, moved]
                    best = max(work.best[step - 1, x, code], probability * work.state[1, y, moved])
                    work.later[step - 1, x, code], work.best[step - 1, x, code] = added, best
                    largest, likeliest = max(largest, added), max(likeliest, best)
        if likeliest > 0.0:
            for x in range(places):
                for code in range(count):
                    work.later[step - 1, x, code] /= largest
                    work.best[step - 1, x, code] /= likeliest


@bare_jit
def _guess_path(simulation: WindowSimulation, work: _Work, blind: NDArray[np.int32]) -> None:
    """The likeliest path into ``work.guess``; from where nothing explains what is seen, the blind guess."""
    codes, person = simulation.codes, simulation.person
    chain = person.chain
    steps, places, _ = work.best.shape
    for step in range(steps):
        work.guess[step] = blind[step]
    place, code, most = -1, 0, 0.0
    for y in range(places):
        begun = codes.after[codes.kind[0, 0, y], 0]
        chance = person.start[y] * _fit(codes, work, 0, y, begun)
        chance *= work.best[0, y, _after_step(codes, 0, begun)]
        if chance > most:
            place, code, most = y, _after_step(codes, 0, begun), chance
    for step in range(1, steps):
        if place < 0:
            return
        work.guess[step - 1] = place
        slot, here, so_far = slot_of(person, step - 1), place, code
        place, most = -1, 0.0
        for y in range(places):
            for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
                if chain.row[j] == here:
                    moved = codes.after[codes.kind[step, here, y], so_far]
                    after = _after_step(codes, step, moved)
                    chance = chain.value[j] * _fit(codes, work, step, y, moved) * work.best[step, y, after]
                    if chance > most:
                        place, code, most = y, after, chance
    if place >= 0:
        work.guess[steps - 1] = place


@bare_jit
def _guess_places(simulation: WindowSimulation, work: _Work, blind: NDArray[np.int32]) -> None:
    """The likeliest place of each step into ``work.guess``; where nothing explains it, the blind guess."""
    codes, person = simulation.codes, simulation.person
    chain = person.chain
    steps, places, count = work.later.shape
    now, moved = work.state[0], work.state[1]
    for step in range(steps):
        moved[:] = 0.0
        slot = slot_of(person, max(step - 1, 0))
        for y in range(places):
            if step == 0:
                moved[y, codes.after[codes.kind[0, 0, y], 0]] = person.start[y]
                continue
            for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
                kind = codes.kind[step, chain.row[j], y]
                for code in range(count):
                    moved[y, codes.after[kind, code]] += now[chain.row[j], code] * chain.value[j]
        now[:] = 0.0
        total = 0.0
        for y in range(places):
            for code in range(count):
                known = moved[y, code] * _fit(codes, work, step, y, code)
                now[y, _after_step(codes, step, code)] += known
                total += known
        work.guess[step] = blind[step]
        most = 0.0
        for y in range(places):
            chance = 0.0
            for code in range(count):
                now[y, code] /= max(total, 1e-300)
                chance += now[y, code] * work.later[step, y, code]
            if chance > most:
                work.guess[step], most = y, chance


@jit
def window_successes(simulation: WindowSimulation, mistakes: int, draws: Draws) -> NDArray[np.int64]:
    """How both attacks go (3, 2) in simulated traces, see :mod:`accounting.attacks.noised_draws_kernel`."""
    stream = new_stream(draws)
    found = np.zeros((3, 2), np.int64)
    work, blind = _new_work(simulation), simulation.blind
    for _ in range(draws.number):
        _publish(simulation, stream, work)
        _look_back(simulation, work)
        _guess_path(simulation, work, blind[MAP])
        count_draw(found, MAP, wrong_steps(work.guess, work.trace), blind, work.trace, mistakes)
        _guess_places(simulation, work, blind[MARGINAL])
        count_draw(found, MARGINAL, wrong_steps(work.guess, work.trace), blind, work.trace, mistakes)
    return found
