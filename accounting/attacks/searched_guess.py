"""The best guess a search finds for what is seen: what bounds are held against."""

from __future__ import annotations

from math import inf
from typing import ClassVar

from accounting.attacks.either_guess import MOST_PATTERNS, won_by_pattern
from accounting.attacks.simulation.hit_tables_kernel import likeliest_between
from accounting.attacks.simulation.searched_guess_kernel import (
    SEARCHED_FROM,
    GuessesBetweenHits,
    searched_success,
)
from accounting.attacks.targets import AttackResult, RecordedTarget, Target
from accounting.bounds.patterns.segments_kernel import no_hit_weight

MOST_SEARCH_WORK = 1e9
"""Multiplications of all searches: a second or so."""

_PASSES = 10  # over the chain, of each guess that is made better


class SearchedGuess:
    """For raw counts whose exact laws are computed, with not too many hit patterns.

    Of many patterns only those that matter are searched; for the others the better of MAP and marginals is
    guessed, as ``either`` does, so it never does worse.
    """

    name: ClassVar[str] = "searched"
    is_blind: ClassVar[bool] = False

    def success(self, target: Target) -> AttackResult | None:
        """The expected success of the best guess found, over all hit patterns."""
        if not target.has_exact_laws or target.exposure.pattern_count > MOST_PATTERNS:
            return None
        won = won_by_pattern(target)
        weight = no_hit_weight(target.exposure.hits)
        tables = target.tables
        guesses = GuessesBetweenHits(tables.nodes, weight, tables.best_path, likeliest_between(tables))
        least = won.success.sum() / max(1.0, MOST_SEARCH_WORK / _pattern_work(target))
        if target.mistakes == 0:
            least = inf  # MAP is the best there is
        success = searched_success(target.chain, won, guesses, target.mistakes, least)
        return AttackResult.exact(float(success))

    def replay(self, recorded: RecordedTarget) -> None:
        """Not replayed: a trace shows one pattern, and MAP and marginals are."""


def _pattern_work(target: Target) -> float:
    """Multiplications of one pattern's searches; at most ``n`` patterns win a share of ``1 / n`` each."""
    products = target.entries + 2.0 * target.exposure.place_count
    return SEARCHED_FROM * _PASSES * target.exposure.steps * (target.mistakes + 1) * products
