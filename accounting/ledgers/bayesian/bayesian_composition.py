"""When Bayesian leakages may be added up, and when not: each rule asks for its condition and refuses without.

Zhao ("Composition Properties of Bayesian Differential Privacy", theorems 1 and 2) states the sum and the
maximum for any correlation. As stated neither holds: given what an adversary knows, outputs still share the
unknown rest, so they are not independent, which the proof needs. The tests have a counterexample for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accounting.exceptions import CompositionError

_INDEPENDENT_REMEDY = "compose the mechanisms first and take the leakage of the joint one (databases.compose)"


@dataclass(frozen=True, slots=True)
class Declared:
    """What whoever asks vouches for; nothing is assumed.

    ``independent_tuples``: nobody's tuple reveals another's. ``independent_coins``: each release has
    randomness of its own. ``every_known_set``: each epsilon is the supremum over all adversaries, also those
    who know everybody else. ``disjoint_people``: the releases touch sets of people that were fixed before the
    data and do not overlap.
    """

    independent_tuples: bool = False
    independent_coins: bool = False
    every_known_set: bool = False
    disjoint_people: bool = False


def summed(epsilons_nats: Sequence[float], declared: Declared) -> float:
    """Epsilon of several releases of the same people, by adding; :class:`CompositionError` where that fails.

    With independent tuples and the others known, each output depends on the target's tuple alone, so the
    outputs' probabilities multiply.
    """
    _require(
        declared.independent_tuples,
        "the sum of Bayesian leakages must have independent tuples",
        "correlated ones: two releases of 1.565 and 1.476 can leak 3.203 together",
        _INDEPENDENT_REMEDY,
    )
    _check_coins_and_sets(declared)
    return float(sum(epsilons_nats))


def largest(epsilons_nats: Sequence[float], declared: Declared) -> float:
    """Epsilon of releases that touch disjoint people, by the maximum; :class:`CompositionError` otherwise."""
    _require(
        declared.disjoint_people,
        "the maximum of Bayesian leakages must be over disjoint sets of people, fixed before the data",
        "releases that may touch the same person: two sensors in one step are such",
        "add them up instead",
    )
    _require(
        declared.independent_tuples,
        "the maximum of Bayesian leakages must have independent tuples",
        "correlated ones: two equal bits released apart leak twice the maximum",
        _INDEPENDENT_REMEDY,
    )
    _check_coins_and_sets(declared)
    return max(epsilons_nats, default=0.0)


def _check_coins_and_sets(declared: Declared) -> None:
    _require(
        declared.independent_coins,
        "each release must have randomness of its own",
        "coins that may be shared",
        "take the leakage of the joint mechanism",
    )
    _require(
        declared.every_known_set,
        "each epsilon must be the supremum over every set of known tuples",
        "leakages at one set: two bits released through an exclusive or, 0 and 0, leak 1.52 together",
        "use the epsilon of accounting.ledgers.bayesian.databases.leakage",
    )


def _require(condition: bool, must: str, got: str, remedy: str) -> None:
    if not condition:
        raise CompositionError(must, got, remedy)
