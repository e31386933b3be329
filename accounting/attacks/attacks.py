"""Every attack replayed on a real trace that the prior was not fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.attacks.simulation.exact_law_kernel import WonByPattern, attack_law, won_by_better
from accounting.attacks.simulation.hit_tables_kernel import likeliest_between
from accounting.attacks.simulation.noised_draws_kernel import MAP, MARGINAL
from accounting.attacks.simulation.searched_guess_kernel import (
    SEARCHED_FROM,
    GuessesBetweenHits,
    searched_success,
)
from accounting.attacks.targets import Attack, AttackResult, RecordedResult, RecordedTarget, Target
from accounting.bounds.patterns.segments_kernel import no_hit_weight
from accounting.exposure import Exposure
from accounting.exposure.prior_constants_kernel import guess_success, promising_constants

# The better of two: MAP's guess or the marginals', whichever is likelier to succeed for what is seen.

MOST_PATTERNS = 1 << 16
"""Hit patterns up to which they are walked one by one: a few milliseconds."""


class EitherGuess:
    """For raw counts whose exact laws are computed, with not too many hit patterns."""

    name: ClassVar[str] = "either"
    is_blind: ClassVar[bool] = False

    def success(self, target: Target) -> AttackResult | None:
        """The expected success of the likelier guess, over all hit patterns."""
        if not target.has_exact_laws or target.exposure.pattern_count > MOST_PATTERNS:
            return None
        return AttackResult.exact(float(won_by_pattern(target).success.sum()))

    def replay(self, recorded: RecordedTarget) -> None:
        """On one recorded trace there is nothing to choose by."""
        return


def won_by_pattern(target: Target) -> WonByPattern:
    """What the likelier guess wins for each hit pattern, of which there are ``MOST_PATTERNS`` at most."""
    laws = target.path_laws, target.place_laws
    patterns = int(target.exposure.pattern_count)
    return won_by_better(*laws, target.tables.nodes, target.exposure.steps, patterns)


# The best guess a search finds for what is seen: what bounds are held against.

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


# Maximum a priori: the most likely path before anything is released. Its success is exact.


class PriorPath:
    """Looks at nothing (Koga et al., section 3.2)."""

    name: ClassVar[str] = "prior"
    is_blind: ClassVar[bool] = True

    def success(self, target: Target) -> AttackResult:
        """``Pr[d(X, xhat) <= s]`` of the most likely path of the prior."""
        return AttackResult.exact(guess_success(*target.chain, target.prior_path, target.mistakes))

    def replay(self, recorded: RecordedTarget) -> RecordedResult:
        """The same path, right or wrong."""
        return recorded.blind(recorded.target.prior_path)


# MAP: the most likely path given everything released (Koga, Meehan, Chaudhuri, section 3.2).


class LikeliestPath:
    """Exact on raw counts where that is affordable, else simulated."""

    name: ClassVar[str] = "map"
    is_blind: ClassVar[bool] = False

    def success(self, target: Target) -> AttackResult:
        """How often the most likely path is within the mistakes."""
        if not target.has_exact_laws:
            return target.sampled(MAP)
        return AttackResult.exact(float(attack_law(target.path_laws).sum()))

    def replay(self, recorded: RecordedTarget) -> RecordedResult:
        """The path that is decoded from what the trace shows."""
        return recorded.seen(MAP)


# Posterior marginals: the most likely place of each step on its own. Beyond Koga et al.


class LikeliestPlaces:
    """Often the stronger attack where mistakes are allowed; exact or simulated as MAP is."""

    name: ClassVar[str] = "marginal"
    is_blind: ClassVar[bool] = False

    def success(self, target: Target) -> AttackResult:
        """How often the most likely places are within the mistakes."""
        if not target.has_exact_laws:
            return target.sampled(MARGINAL)
        return AttackResult.exact(float(attack_law(target.place_laws).sum()))

    def replay(self, recorded: RecordedTarget) -> RecordedResult:
        """The places that are likeliest given what the trace shows."""
        return recorded.seen(MARGINAL)


# The lucky constant: one place guessed for every step. Its success is exact.


class Constant(NamedTuple):
    """A place guessed for every step, and how likely that is good enough."""

    place: int
    success: float


class ConstantPlace:
    """Looks at nothing (Koga et al., section 3.2)."""

    name: ClassVar[str] = "constant"
    is_blind: ClassVar[bool] = True

    def success(self, target: Target) -> AttackResult:
        """The success of the best single place."""
        return AttackResult.exact(best_constant(target).success)

    def replay(self, recorded: RecordedTarget) -> RecordedResult:
        """The same place, right or wrong."""
        place = best_constant(recorded.target).place
        return recorded.blind(np.full(recorded.trace.size, place))


def best_constant(target: Target) -> Constant:
    """The own place ``c`` with the largest ``Pr[d(X, (c, ..., c)) <= s]``."""
    marginal = target.exposure.marginal
    place, success = promising_constants(*target.chain, marginal, target.mistakes, marginal.shape[1])
    return Constant(int(place), float(success))


# The attacks there are, in the order of documents. A new one is a file beside these and one line here.

_ATTACKS: tuple[Attack, ...] = (
    LikeliestPath(),
    PriorPath(),
    ConstantPlace(),
    LikeliestPlaces(),
    EitherGuess(),
    SearchedGuess(),
)
ATTACKS: Mapping[str, Attack] = {attack.name: attack for attack in _ATTACKS}


# Every attack on one person under one schedule.


def attack_person(
    exposure: Exposure, mistakes: int, draws: int = 10_000, seed: int = 0, *, confidence: float = 0.95
) -> dict[str, AttackResult]:
    """Success of every registered attack within ``mistakes`` of ``T`` steps, by name.

    An attack that is not computed for this exposure is left out. Where steps share noise only the guesses
    that look at no release are tried: simulating the others needs the joint law. The same seed gives the same
    results on any number of threads. :class:`~accounting.exceptions.HorizonError` unless ``0 <= s < T``,
    :class:`~accounting.exceptions.SettingsError` for fewer than one draw or a negative seed.
    """
    target = Target(exposure, mistakes, draws, seed, confidence)
    results = {
        name: attack.success(target)
        for name, attack in ATTACKS.items()
        if attack.is_blind or exposure.can_be_drawn
    }
    return {name: result for name, result in results.items() if result is not None}


def attack_recorded(
    exposure: Exposure, trace: NDArray[np.integer], mistakes: int, draws: int = 1_000, seed: int = 0
) -> dict[str, RecordedResult]:
    """Replay every registered attack on ``trace`` (T,), the location index of each step; by name.

    Noise is drawn ``draws`` times, once where everything is raw. Errors as for
    :func:`~accounting.attacks.attack_person`, and :class:`~accounting.exceptions.HorizonError` for a trace
    of another length than the schedule.
    """
    recorded = RecordedTarget(Target(exposure, mistakes, draws, seed), trace)
    results = {name: attack.replay(recorded) for name, attack in ATTACKS.items()}
    return {name: result for name, result in results.items() if result is not None}
