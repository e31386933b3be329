"""Binary divergence: always at least as tight as the paper's tight bound.

Success against an independent copy of the trajectory has probability at most ``q``; data processing of the
pair (trajectory, releases) to "success" gives ``I >= d(p||q)``. Beyond the paper.
"""

from __future__ import annotations

from accounting.bounds.noised import expected_under_erasure
from accounting.bounds.protocol import Bound, Question, Scope
from accounting.numerics.divergence_root_kernel import divergence_root


def _compute(question: Question) -> float:
    """With the smaller amount of information, what the releases reveal or what is left of it by erasure."""
    erased = question.once(expected_under_erasure)
    information = question.information.best
    nats = information if erased is None else min(information, erased.information_nats)
    return float(divergence_root(nats, question.guess.best))


DIVERGENCE = Bound(
    "divergence",
    idea="binary divergence `d(p, q) <= I`; never above `tight`",
    scope=Scope.ANY,
    cost="a root",
    compute=_compute,
)
