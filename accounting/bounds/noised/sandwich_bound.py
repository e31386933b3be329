"""The sandwich bound of one person's noised horizon: every value of every count, as far as it matters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from accounting.bounds.noised.sandwich_kernel import (
    AS_LOW_AS_MAY_BE,
    EXPANSIONS_PER_VECTOR,
    LIGHT,
    PAST_LAWS,
    Window,
    affordable_nodes,
    affordable_operations,
    counts_of,
    history_laws,
    limits_for,
    moves_of,
    sandwich_success,
)
from accounting.bounds.patterns import Size, affordable_vectors
from accounting.bounds.protocol import Bound, LogQuestion, Question, Scope
from accounting.exposure import Exposure, window_of
from accounting.exposure.step_information.likelihood_levels import CHANCES, HARDLY_EVER, OwnSignals
from accounting.exposure.step_information.rays import FEW_OUTPUTS, Rays, exact_rays, few_rays, rays_of
from models.mechanisms import DrawnPerWindow, Mechanism
from models.numerics.arrays import Flags, Floats
from models.priors.chain import LocalChain

MOST_PLACES = 100  # of one person: covering a law takes the cube


class _Signal(NamedTuple):
    """One sensor in one step, as far as it can count the person."""

    step: int
    cover: Flags  # (K,)
    rays: Rays
    mechanism: Mechanism | None  # whose outputs they are; None: as if the count were exact


def sandwich_in_log(
    exposure: Exposure, window: tuple[int, int], mistakes: int, ends: Floats, wanted: int, known: float = 1.0
) -> float | None:
    """Success of any adversary who sees the log and guesses the steps of ``window`` (inclusive).

    ``known`` bounds it already: no closer look where it cannot be lowered.

    Of what comes after the window only ``ends`` (E, K) is seen, of ``future_ends`` as if every count were
    exact; one row of ones for nothing. None where it is too expensive, and where no count until the window's
    end is noised, unless labels are guessed: then a count of several states leaves the state open.
    """
    first, last = window
    seen = exposure.under(exposure.observations[: last + 1])
    size = Size.of(window_of(exposure, first, last))
    vectors = min(wanted, affordable_vectors(size, mistakes, max(wanted, 1)))
    is_exact = seen.is_raw and not exposure.is_labelled
    if is_exact or vectors == 0 or exposure.place_count > MOST_PLACES:
        return None
    signals = [each for t in range(last + 1) for each in own_signals_of(seen, t)]
    past = [each for each in signals if each.step < first]
    own = [each._replace(step=each.step - first) for each in signals if each.step >= first]
    arrays, operations = _arrays(own, size.places), affordable_operations(vectors, mistakes)
    counts = counts_of(arrays)
    nodes = affordable_nodes(
        counts, arrays.cover.sum(), size.steps, size.places, mistakes, size.moves, operations
    )
    if nodes == 0:
        return None
    chain, marginal = exposure.chain, seen.marginal
    few = [_with_few_outputs(each, float(marginal[each.step][each.cover].sum())) for each in past]
    laws = history_laws(exposure.person, _arrays(few, size.places), marginal[:1], first, marginal, PAST_LAWS)
    person = LocalChain(chain, marginal[first], exposure.slot(first))
    expansions = EXPANSIONS_PER_VECTOR * vectors * size.steps
    total = sum(each.rays.left_out for each in (*few, *own))
    for end in ends:
        share, moves = operations / len(ends), moves_of(person, size.steps)
        question = Window(person, size.steps, end, mistakes, expansions, share, moves, LIGHT)
        limits = limits_for(question, nodes, known if len(ends) == 1 else 1.0, False, AS_LOW_AS_MAY_BE)
        total += sandwich_success(question, counts, laws, limits)[0]
    return float(min(1.0, total))


def _with_few_outputs(signal: _Signal, chance: float) -> _Signal:
    """With the outputs that suit the likes of somebody who is counted with this probability."""
    if signal.mechanism is None:
        return signal
    if min(chance, 1.0 - chance) < HARDLY_EVER:
        return signal._replace(rays=exact_rays())
    chance = float(min(CHANCES, key=lambda each: abs(each - chance)))
    return signal._replace(rays=few_rays(signal.mechanism, FEW_OUTPUTS, chance))  # type: ignore[arg-type]


def own_signals_of(exposure: Exposure, t: int) -> list[_Signal]:
    """The sensors of one step that can count the person.

    Where sensors overlap, and noise is not each sensor's own, a count says something of another's noise:
    it counts as exact.
    """
    observation = exposure.observations[t]
    covers: dict[int, Flags] = {}
    for x in np.flatnonzero(exposure.hits[t]).tolist():
        for sensor in observation.outcomes[exposure.labels[t, x]]:
            covers.setdefault(sensor, np.zeros(exposure.place_count, np.bool_))[x] = True
    found = []
    for sensor, cover in sorted(covers.items()):
        mechanism = observation.mechanisms[sensor]
        is_own = mechanism.noise_law() is not None and not isinstance(mechanism, DrawnPerWindow)
        if is_own or observation.is_separate:
            found.append(_Signal(t, cover, rays_of(mechanism), mechanism))  # type: ignore[arg-type]
        else:
            found.append(_Signal(t, cover, exact_rays(), None))
    return found


def sandwich_bound(question: Question) -> float | None:
    """Of the horizon on its own; None where every count is exact, or where it is too expensive."""
    exposure, vectors = question.exposure, question.effort.vectors
    window, ends = (0, exposure.steps - 1), np.ones((1, exposure.place_count))
    known = [question.value("frontier"), question.value("levels")]
    least = min([1.0, *(value for value in known if value is not None)])
    return sandwich_in_log(exposure, window, question.mistakes, ends, vectors, least)


def _within_log(asked: LogQuestion) -> float | None:
    """Noised counts of history and horizon, and of the future what exact counts would show."""
    window = asked.first, asked.last
    return sandwich_in_log(asked.exposure, window, asked.mistakes, asked.ends, asked.effort.vectors)


def _arrays(signals: Sequence[_Signal], places: int) -> OwnSignals:
    """In the form the kernel reads."""
    count, outputs = len(signals), max((each.rays.weight.size for each in signals), default=1)
    weight, theta = np.zeros((count, outputs)), np.zeros((count, outputs))
    for g, (_, _, rays, _) in enumerate(signals):
        weight[g, : rays.weight.size], theta[g, : rays.weight.size] = rays.weight, rays.theta
    return OwnSignals(
        np.array([each.step for each in signals], np.int64),
        np.array([each.cover for each in signals], np.bool_).reshape(count, places),
        np.array([each.rays.weight.size for each in signals], np.int64),
        weight,
        theta,
    )


SANDWICH = Bound(
    "sandwich",
    idea="below; the values of each noised count, as far as they matter",
    scope=Scope.NOISED,
    cost="grows a tree until it is close, or `vectors` are used up",
    compute=sandwich_bound,
    within_log=_within_log,
)
