"""The genie-aided bound: what an adversary could win to whom a genie shows the truth after each guess."""

from __future__ import annotations

from accounting.bounds.patterns.genie_aided_kernel import Charged, GenieAided, Unseen, genie_aided_by_pattern
from accounting.bounds.patterns.moment import MOST_ENTRIES, MOST_OPERATIONS, HitMoments, hit_moments
from accounting.bounds.patterns.raw_success_kernel import RawQuestion, SeenRaw
from accounting.bounds.patterns.segments_kernel import no_hit_weight
from accounting.bounds.protocol import Bound, Effort, Question, Scope
from accounting.exposure import Exposure
from models.numerics.jit import inline

_SHARE = 0.01  # patterns charged without being looked at may make the bound this much larger

_SHARES = tuple(10.0**-k for k in range(1, 9))  # of what no hit gives: where patterns are too many for all

_SHARE_OF_EVERYBODY = 1e-5  # of what the likeliest pattern gives: lighter ones are charged, not walked

_ALL = 1 << 62

_ROUNDING = 1e-12  # the genie-aided success is the optimum itself where no mistake is allowed


def genie_aided_bound(question: Question) -> float | None:
    """Success of any adversary of the raw schedule, hence of the noised one; None where too expensive.

    Per hit pattern the smaller of the genie-aided success and the moment bound, where there is one. At
    ``s = 0`` the optimum. Where there are more patterns than ``effort.patterns``, or than are affordable,
    those that are likeliest to be won are walked and the others counted as won.
    """
    exposure, mistakes = question.exposure, question.mistakes
    affordable = _affordable_patterns(exposure, mistakes, question.effort)
    if affordable == 0:
        return None
    moments = question.once(hit_moments) or HitMoments.none(exposure)
    if exposure.pattern_count <= affordable:
        share = _SHARE / exposure.pattern_count
        return _rounded_up(_walk(exposure, mistakes, moments, share, affordable).value)
    best = 1.0
    for share in _SHARES:
        aided = _walk(exposure, mistakes, moments, share, affordable)
        best = min(best, aided.value)
        if aided.walked >= affordable:
            break
    return _rounded_up(best)


def _walk(exposure: Exposure, mistakes: int, moments: HitMoments, share: float, most: int) -> GenieAided:
    weight = no_hit_weight(exposure.hits)
    unseen = Unseen(weight, moments.nodes, moments.polynomials, exposure.marginal)
    return genie_aided_by_pattern(exposure.person, unseen, mistakes, Charged(share, 0.0, most))


def _rounded_up(value: float) -> float:
    return min(1.0, float(value) * (1.0 + _ROUNDING))


def _affordable_patterns(exposure: Exposure, mistakes: int, effort: Effort) -> int:
    """How many patterns memory and multiplications suffice for, up to the effort; 0 for none.

    Where all patterns are walked one more costs about a step, otherwise up to the whole horizon.
    """
    stack = (exposure.steps + 2) * (exposure.hits.sum() + 2) * (mistakes + 1)
    if stack > MOST_ENTRIES:
        return 0
    entries = exposure.chain.value.size / exposure.chain.start.shape[0]
    moves = MOST_OPERATIONS / (2.0 * (mistakes + 1) * entries)
    if exposure.pattern_count + exposure.steps <= moves and exposure.pattern_count <= effort.patterns:
        return int(exposure.pattern_count)
    return min(effort.patterns, int(moves / exposure.steps))


@inline
def genie_aided_of_everybody(seen: SeenRaw, question: RawQuestion) -> float:
    """Beside the moment bound, whose polynomials it looks at."""
    if not question.has_genie or question.order == 0 or question.mistakes == 0:
        return 1.0
    unseen = Unseen(seen.weight, seen.nodes, seen.polynomials, seen.marginal)
    charged = Charged(_SHARE_OF_EVERYBODY, question.least_pattern, _ALL)
    aided = genie_aided_by_pattern(seen.person, unseen, question.mistakes, charged)
    return float(aided.value * (1.0 + _ROUNDING))


GENIE_AIDED = Bound(
    "genie_aided",
    idea="below",
    scope=Scope.RAW,
    cost="hit patterns times mistakes times nnz",
    compute=genie_aided_bound,
    kernel=genie_aided_of_everybody,
)
