"""The frontier bound of one person's noised horizon: each noised count in a few levels of evidence."""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from accounting.bounds.noised.sandwich_bound import MOST_PLACES
from accounting.bounds.noised.sandwich_kernel import FEW_LAWS
from accounting.bounds.noised.sandwich_kernel import history_laws as history_laws_through_noise
from accounting.bounds.patterns import Size, affordable_vectors
from accounting.bounds.patterns.frontier_bound import affordable_completions
from accounting.bounds.patterns.frontier_kernel import SEQUENCES, FrontierQuestion, frontier_of, noised_effort
from accounting.bounds.patterns.raw_success_kernel import Outside, history_laws
from accounting.bounds.protocol import Bound, LogQuestion, Question, Scope
from accounting.exposure import Exposure, window_of
from accounting.exposure.step_information import seen_step
from accounting.exposure.step_information.likelihood_levels import in_order, own_channels, own_signals
from models.numerics.arrays import Floats
from models.priors.chain import LocalChain

_MOST_OPERATIONS = 2e9  # some seconds of one core
_AT_ONE_MISTAKE = 2  # times as many levels as in a running ceiling, in place of lowered completions
_LOWERING = 4.0  # times the work that completions of exact counts may take


def levels_success(
    exposure: Exposure, window: tuple[int, int], mistakes: int, ends: Floats, wanted: int
) -> float | None:
    """Success of any adversary who sees the log and guesses the steps of ``window`` (inclusive).

    Of what comes after the window only ``ends`` (E, K) is seen, of ``future_ends`` as if every count were
    exact; one row of ones for nothing. That bounds any adversary who sees later counts with their noise: the
    levels of the steps, each independent of the others given the trajectory, reveal at least as much as the
    log does, and a step's exact counts reveal at least as much as its levels. None where it is too expensive,
    and where no count until the window's end is noised unless labels are guessed: then an exact count of
    several states is a channel of two levels.
    """
    first, last = window
    seen = exposure.under(exposure.observations[: last + 1])
    size = Size.of(window_of(exposure, first, last))
    vectors = min(wanted, _affordable(size, mistakes, len(ends)))
    if (seen.is_raw and not exposure.is_labelled) or vectors == 0:
        return None
    chain, hits, marginal = exposure.chain, seen.hits, seen.marginal
    steps = in_order(list(map(seen_step, seen.observations)))
    shown, left_out = np.zeros(exposure.place_count), 0.0
    if exposure.place_count > MOST_PLACES:  # what exact counts before the window would leave
        laws, shown = history_laws(exposure.person, hits[:first], marginal[:first], vectors)
    else:
        before, left_out = own_signals(chain, hits[:first], marginal[:first], steps, 0, True)
        most = min(vectors, FEW_LAWS)
        laws = history_laws_through_noise(exposure.person, before, marginal[:1], first, marginal, most)
    # Up to one mistake more levels gain more than lowered completions do for the same work.
    is_lowered = mistakes > 1
    most = SEQUENCES * vectors * (1 if is_lowered else _AT_ONE_MISTAKE)
    channels = own_channels(chain, hits[first:], marginal[first:], steps, first, most)
    person, shown_once = LocalChain(chain, marginal[first], exposure.slot(first)), -1
    if is_lowered:
        share = _LOWERING / prod(channels.size.tolist())
        shown_once = affordable_completions(size, mistakes, 2 * wanted, share)
    effort = noised_effort(vectors, shown_once)
    asked = FrontierQuestion(person, marginal[first:], mistakes, Outside(laws, shown, ends), effort)
    found = frontier_of(asked, channels)
    return float(min(1.0, found + left_out))


def levels_bound(question: Question) -> float | None:
    """The bound of the horizon on its own; None where every count is exact, or where it is too expensive."""
    exposure = question.exposure
    window, ends = (0, exposure.steps - 1), np.ones((1, exposure.place_count))
    return levels_success(exposure, window, question.mistakes, ends, question.effort.vectors)


def _within_log(asked: LogQuestion) -> float | None:
    """Levels of evidence of history and horizon, and of the future what exact counts would show."""
    window = asked.first, asked.last
    return levels_success(asked.exposure, window, asked.mistakes, asked.ends, asked.effort.vectors)


def _affordable(size: Size, mistakes: int, ends: int) -> int:
    """Vectors whose searches, one for each hit or end and sequence of levels, stay within the work."""
    a_search = size.steps * (mistakes + 1) ** 2 * (size.moves + 2 * size.places)
    vectors = int(sqrt(_MOST_OPERATIONS / (SEQUENCES * (size.hits + ends) * a_search)))
    return min(vectors, affordable_vectors(size, mistakes, max(vectors, 1)))


LEVELS = Bound(
    "levels",
    idea="below; the frontier bound through noise",
    scope=Scope.NOISED,
    cost="levels of the noised sensor-steps multiplied: 16 `vectors` (8 from two mistakes on), a search each",
    compute=levels_bound,
    within_log=_within_log,
)
