"""The paper's loose bound: Fano's inequality with ``s`` mistakes allowed (Koga et al., section 3.3.1)."""

from __future__ import annotations

from math import comb, exp, inf, log, log1p

from accounting.bounds.protocol import Bound, Question, Scope
from accounting.numerics import bracket

_ROUNDING = 4e-15  # of sums and logarithms, in the last bits of what a fair draw would have


def log_ball(steps: int, mistakes: int, places: int) -> float:
    """``ln N(s)`` with ``N(s) = sum_{l<=s} C(T, l) (M - 1)^l``: the trajectories within ``s`` of a guess."""
    logs = [log(comb(steps, wrong)) + wrong * log(places - 1) for wrong in range(mistakes + 1)]
    return max(logs) + log(sum(exp(term - max(logs)) for term in logs))


def loose_bound(
    entropy_nats: float, information_nats: float, places: int, steps: int, mistakes: int
) -> float:
    """``1 - min{p : H(X) - I <= h(p) + p ln((M^T - N) / N) + ln N}``, at most 1.

    ``p`` is the adversary's probability of failing. The bound is taken at the root's unsafe side, for an
    entropy that is smaller by what its rounding may be: near that of a fair draw the bound goes with the root
    of what is missing, so that 1e-16 of entropy is 1e-8 of success.
    """
    if places == 1:
        return 1.0
    inside = log_ball(steps, mistakes, places)
    everything = steps * log(places)
    if inside >= everything:
        return 1.0
    # ln((M^T - N) / N), with M^T beyond floating point.
    outside = everything + log1p(-exp(inside - everything)) - inside
    unknown = entropy_nats - information_nats - inside - _ROUNDING * (1.0 + everything)
    if unknown <= 0.0:
        return 1.0
    peak = 1.0 if outside == inf else 1.0 / (1.0 + exp(-outside))
    failing = bracket(lambda p: binary_entropy_nats(p) + p * outside < unknown, 0.0, peak).last_true
    return min(1.0, 1.0 - failing)


def binary_entropy_nats(p: float) -> float:
    """``h(p) = -p ln p - (1 - p) ln(1 - p)``."""
    q = 1.0 - p
    return -((p * log(p) if p > 0.0 else 0.0) + (q * log(q) if q > 0.0 else 0.0))


def _compute(question: Question) -> float:
    exposure, information = question.exposure, question.information
    places, steps = exposure.place_count, exposure.steps
    return loose_bound(exposure.entropy_nats, information.paper, places, steps, question.mistakes)


LOOSE = Bound(
    "loose",
    idea="Fano with `s` mistakes (Koga 3.3.1)",
    scope=Scope.ANY,
    cost="O(s)",
    compute=_compute,
)
