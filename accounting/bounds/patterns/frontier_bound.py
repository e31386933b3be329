"""The frontier bound of one person's horizon: a few per cent above the optimum at most, as a rule."""

from __future__ import annotations

from accounting.bounds.patterns.exact import renewal_success
from accounting.bounds.patterns.frontier_kernel import (
    FrontierQuestion,
    frontier_effort,
    frontier_of,
    raw_channels,
)
from accounting.bounds.patterns.moment import Size, affordable_vectors
from accounting.bounds.patterns.raw_success_kernel import Outside, history_laws, unobserved
from accounting.bounds.protocol import Bound, LogQuestion, Question, Scope
from accounting.exposure import Exposure, window_of
from models.numerics.arrays import Flags, Floats
from models.numerics.jit import inline
from models.priors.chain import LocalChain, is_labelled

_MOST_COMPLETION_OPERATIONS = 2e9  # at most; as long
MOST_LAWS = 64
"""Hits before and after the horizon that are distinguished; for the lightest others a place is shown."""


def affordable_completions(size: Size, mistakes: int, wanted: int, share: float = 1.0) -> int:
    """Expansions of each search that lowers a completion, up to ``wanted``; -1 where none can be lowered.

    A ``share`` of the work is for it: sequences of levels each have completions of their own.

    A segment of ``L`` steps has a completion at each place of each step but its last, which looks at the
    ``l < L`` steps behind it: a search for each number of mistakes below ``l``.
    """
    lengths = [size.hits / size.steps] * (size.steps - 1) + [size.hits / size.steps + 1.0]
    looked_at, searched, searches = 0.0, 0.0, 0
    for length, segments in enumerate(lengths, start=1):
        most_wrong = min(mistakes, max(0, length - 2))
        searches += most_wrong * (most_wrong + 3) // 2
        looked_at += segments * (length * (length - 1) // 2)
        searched += segments * searches
    without_search = size.places * looked_at * (size.moves + (mistakes + 1) * size.places)
    left = _MOST_COMPLETION_OPERATIONS * share - without_search
    if left < 0.0:
        return -1
    an_expansion = size.places * searched * (size.moves + 2 * size.places)
    return int(min(wanted, left / (an_expansion + 1.0)))


def frontier_success(exposure: Exposure, mistakes: int, outside: Outside, wanted: int) -> float | None:
    """Success of any adversary of the raw schedule, who knows the outside too; None where too expensive."""
    size = Size.of(exposure)
    vectors = affordable_vectors(size, mistakes, wanted)
    if vectors == 0:
        return None
    shown_once = affordable_completions(size, mistakes, 2 * wanted)
    effort, marginal = frontier_effort(vectors, shown_once), exposure.marginal
    asked = FrontierQuestion(exposure.person, marginal, mistakes, outside, effort)
    return float(frontier_of(asked, raw_channels(exposure.hits)))


def frontier_bound(question: Question) -> float | None:
    """The frontier bound of the horizon on its own; it holds for the noised schedule, which reveals less."""
    exposure = question.exposure
    return frontier_success(exposure, question.mistakes, unobserved(exposure.start), question.effort.vectors)


def _within_log(asked: LogQuestion) -> float | None:
    """The raw history and future enter exactly, noise as if it were none."""
    exposure, first = asked.exposure, asked.first
    window, vectors = window_of(exposure, first, asked.last), asked.effort.vectors

    def compute() -> float | None:
        before = exposure.hits[:first], exposure.marginal[:first]
        laws, shown = history_laws(exposure.person, *before, MOST_LAWS)
        return frontier_success(window, asked.mistakes, Outside(laws, shown, asked.ends), vectors)

    what = "frontier", first, window.steps, asked.ends.tobytes(), asked.mistakes, vectors
    return exposure.of_raw_version(what, compute)


@inline
def least_raw_success(
    person: LocalChain, hits: Flags, marginal: Floats, outside: Outside, mistakes: int, vectors: int
) -> float:
    """The optimum where it is known, else the frontier bound, of exact counts as everybody's are bounded.

    ``hits`` (T, K) say where a sensor sees the person, ``marginal`` (T, K) is ``Pr[X_t = x]``, ``vectors``
    are those of the frontier bound, 0 for none; completions are not lowered: that takes longer than the
    search. For continuous accounts, decisions and the erasure bound.
    """
    success = 1.0
    if mistakes == 0 and not is_labelled(person.chain):
        success = renewal_success(person, hits, outside)
    elif vectors > 0:
        asked = FrontierQuestion(person, marginal, mistakes, outside, frontier_effort(vectors))
        success = frontier_of(asked, raw_channels(hits))
    return success


FRONTIER = Bound(
    "frontier",
    idea="below; the optimum or a few per cent above it",
    scope=Scope.RAW,
    cost="hits squared times T, mistakes squared, nnz and `vectors`",
    compute=frontier_bound,
    within_log=_within_log,
)
