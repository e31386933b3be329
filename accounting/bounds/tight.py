"""The paper's tight bound: information against the prior guess (Koga et al., section 3.3.2)."""

from __future__ import annotations

from math import log

from accounting.bounds.loose import binary_entropy_nats
from accounting.bounds.protocol import Bound, Question, Scope
from accounting.numerics import bracket


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


def _compute(question: Question) -> float:
    paper_guess = question.guess.best if question.guess.koga is None else question.guess.koga
    return tight_bound(question.information.paper, paper_guess)


TIGHT = Bound(
    "tight",
    idea="`-I <= h(p) + p ln q` (Koga 3.3.2)",
    scope=Scope.ANY,
    cost="a root",
    compute=_compute,
)
