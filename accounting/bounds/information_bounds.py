"""Binary divergence: always at least as tight as the paper's tight bound.

Success against an independent copy of the trajectory has probability at most ``q``; data processing of the
pair (trajectory, releases) to "success" gives ``I >= d(p||q)``. Beyond the paper.
"""

from __future__ import annotations

from math import comb, exp, inf, log, log1p

from accounting.bounds.noised import expected_under_erasure
from accounting.bounds.protocol import Bound, Question, Scope
from accounting.numerics import bracket, divergence_root

# The paper's loose bound: Fano's inequality with ``s`` mistakes allowed (Koga et al., section 3.3.1).

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


def _compute_loose(question: Question) -> float:
    exposure, information = question.exposure, question.information
    places, steps = exposure.place_count, exposure.steps
    if exposure.is_labelled:  # wrong guesses are at most as many as what they cost
        labels, asked = int(exposure.guessed.max()) + 1, int((exposure.cost > 0).sum())
        nats = exposure.guessed_entropy_nats
        return loose_bound(nats, information.paper, labels, asked, min(question.mistakes, asked))
    return loose_bound(exposure.entropy_nats, information.paper, places, steps, question.mistakes)


LOOSE = Bound(
    "loose",
    idea="Fano with `s` mistakes (Koga 3.3.1)",
    scope=Scope.ANY,
    cost="O(s)",
    compute=_compute_loose,
)


# The paper's tight bound: information against the prior guess (Koga et al., section 3.3.2).


def tight_bound(information_nats: float, guess: float) -> float:
    """The largest ``p`` with ``-I <= h(p) + p ln q``, at most 1; ``guess`` is ``q`` in (0, 1].

    The right side is concave in ``p`` with its maximum at ``q / (1 + q)``; the root above it counts, and the
    bound is 1 where it never falls below ``-I``.
    """
    if guess >= 1.0 or information_nats >= -log(guess):
        return 1.0
    top = guess / (1.0 + guess)
    return bracket(
        lambda p: binary_entropy_nats(p) + p * log(guess) >= -information_nats, top, 1.0
    ).first_false


def _compute_tight(question: Question) -> float:
    paper_guess = question.guess.best if question.guess.koga is None else question.guess.koga
    return tight_bound(question.information.paper, paper_guess)


TIGHT = Bound(
    "tight",
    idea="`-I <= h(p) + p ln q` (Koga 3.3.2)",
    scope=Scope.ANY,
    cost="a root",
    compute=_compute_tight,
)


def _compute_divergence(question: Question) -> float:
    """From the smaller amount of information: that of the releases, or what erasure leaves of it."""
    erased = question.once(expected_under_erasure)
    information = question.information.best
    nats = information if erased is None else min(information, erased.information_nats)
    return float(divergence_root(nats, question.guess.best))


DIVERGENCE = Bound(
    "divergence",
    idea="binary divergence `d(p, q) <= I`; never above `tight`",
    scope=Scope.ANY,
    cost="a root",
    compute=_compute_divergence,
)
