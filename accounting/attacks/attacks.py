"""The attacks there are, tried on a person or replayed on a recorded trace."""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from accounting.attacks.exact_law_kernel import WonByPattern, attack_law, won_by_better
from accounting.attacks.hit_tables_kernel import likeliest_between
from accounting.attacks.noised_draws_kernel import MAP, MARGINAL
from accounting.attacks.own_guess import Guess, own_attack
from accounting.attacks.searched_guess_kernel import SEARCHED_FROM, searched_success
from accounting.attacks.targets import Attack, AttackResult, RecordedResult, RecordedTarget, Target
from accounting.bounds.noised import drawn_log, judged_draws
from accounting.bounds.noised.posterior_kernel import LogHorizon
from accounting.bounds.patterns.segments_kernel import no_hit_weight
from accounting.exposure import Exposure
from accounting.exposure.prior_constants_kernel import ConstantGuess, guess_success, promising_constants
from accounting.hmm.frontier.search_kernel import affordable_expansions
from accounting.numerics import PROVED, mean_interval
from models.arguments import checked
from models.exceptions import ArgumentError
from models.registry import Registry

MOST_PATTERNS = 1 << 16
"""Hit patterns up to which they are walked one by one: a few milliseconds."""

MOST_SEARCH_WORK = 1e9
"""Multiplications of all searches: a second or so."""

_MOST_JUDGED = 2_000  # draws whose posterior is searched for labels: a few seconds
_JUDGED_VECTORS = 4  # of each of these searches
_PASSES = 10  # over the chain, of each guess that is improved


def _likeliest_path(target: Target) -> AttackResult | None:
    """MAP: the most likely path given everything released (Koga, Meehan, Chaudhuri, section 3.2).

    Exact on raw counts where that is affordable, else simulated. Not tried where labels are guessed.
    """
    if target.exposure.is_labelled:
        return None
    if not target.has_exact_laws:
        return target.sampled(MAP)
    return AttackResult.exact(float(attack_law(target.path_laws).sum()))


def _prior_path(target: Target) -> AttackResult:
    """The most likely path before anything is released (Koga et al., section 3.2); exact."""
    return AttackResult.exact(guess_success(target.person, target.prior_guess, target.mistakes))


def best_constant(target: Target) -> ConstantGuess:
    """The own place ``c`` with the largest ``Pr[d(X, (c, ..., c)) <= s]``."""
    marginal = target.exposure.marginal
    return promising_constants(target.person, marginal, target.mistakes, marginal.shape[1], -1.0)


def _constant_place(target: Target) -> AttackResult:
    """The lucky constant: one place guessed for every step (Koga et al., section 3.2); exact."""
    return AttackResult.exact(float(best_constant(target).success))


def _replayed_constant(recorded: RecordedTarget) -> RecordedResult:
    return recorded.blind(np.full(recorded.trace.size, best_constant(recorded.target).place))


def _likeliest_places(target: Target) -> AttackResult | None:
    """Posterior marginals: the most likely place of each step on its own; beyond Koga et al.

    Often the stronger attack where mistakes are allowed; exact or simulated as MAP is.
    """
    if target.exposure.is_labelled:
        return None
    if not target.has_exact_laws:
        return target.sampled(MARGINAL)
    return AttackResult.exact(float(attack_law(target.place_laws).sum()))


def _either_guess(target: Target) -> AttackResult | None:
    """The better of MAP and marginals: whichever is likelier to succeed for each pattern of hits.

    For raw counts whose exact laws are computed, with not too many hit patterns.
    """
    if target.exposure.is_labelled or not _has_few_patterns(target):
        return None
    return AttackResult.exact(float(_won_by_pattern(target).success.sum()))


def _searched_guess(target: Target) -> AttackResult | None:
    """The best guess that a search finds for each pattern of hits: what bounds are compared with.

    Of many patterns only those that matter are searched; for the others the better of MAP and marginals is
    guessed, as ``either`` does, so it never does worse. Where labels are guessed, trajectories and outputs
    are drawn, and the posterior of each is searched.
    """
    if target.exposure.is_labelled:
        return _searched_labels(target)
    if not _has_few_patterns(target):
        return None
    won, tables = _won_by_pattern(target), target.tables
    # At most n patterns win a share of 1 / n each.
    products = target.entries + 2.0 * target.exposure.place_count
    work = SEARCHED_FROM * _PASSES * target.exposure.steps * (target.mistakes + 1) * products
    least = won.success.sum() / max(1.0, MOST_SEARCH_WORK / work)
    if target.mistakes == 0:
        least = inf  # MAP is the best there is
    success = searched_success(
        target.person,
        won,
        tables.nodes,
        no_hit_weight(target.exposure.hits),
        tables.best_path,
        likeliest_between(tables),
        target.mistakes,
        least,
    )
    return AttackResult.exact(float(success))


def _searched_labels(target: Target) -> AttackResult | None:
    """The best labels that a search finds in each drawn posterior, whose success there is exact."""
    exposure, draws = target.exposure, min(target.draws, _MOST_JUDGED)
    vectors = affordable_expansions(exposure.chain, exposure.steps, target.mistakes, _JUDGED_VECTORS)
    if exposure.windows is not None or vectors == 0:
        return None
    nobody = np.empty(exposure.steps, np.int64)
    horizon = LogHorizon(0, exposure.steps - 1, target.mistakes, nobody, vectors, 0, False)
    judged = judged_draws(drawn_log(target.person, exposure), horizon, draws, target.seed)
    # The guess fixed beforehand is known exactly: what the outputs add to it varies less.
    added = np.maximum(0.0, judged.attained - judged.unmoved)
    around, surely = (mean_interval(added, 1.0 - each) for each in (target.confidence, PROVED))
    low, high, proved = (min(1.0, judged.without + each) for each in (around.low, around.high, surely.low))
    return AttackResult(min(1.0, judged.without + float(added.mean())), low, high, proved)


def _has_few_patterns(target: Target) -> bool:
    return target.has_exact_laws and target.exposure.pattern_count <= MOST_PATTERNS


def _won_by_pattern(target: Target) -> WonByPattern:
    """What the likelier of MAP and marginals wins for each hit pattern."""
    patterns = int(target.exposure.pattern_count)
    laws = target.path_laws, target.place_laws
    return won_by_better(*laws, target.tables.nodes, target.exposure.steps, patterns)


def _not_replayed(recorded: RecordedTarget) -> None:
    """A recorded trace shows one pattern: there is nothing to choose by."""


# In the order of documents. A new one is a function or two above and one line here.
_ATTACKS = (
    Attack("map", _likeliest_path, lambda recorded: recorded.seen(MAP)),
    Attack("prior", _prior_path, lambda recorded: recorded.blind(recorded.target.prior_guess), is_blind=True),
    Attack("constant", _constant_place, _replayed_constant, is_blind=True),
    Attack("marginal", _likeliest_places, lambda recorded: recorded.seen(MARGINAL)),
    Attack("either", _either_guess, _not_replayed),
    Attack("searched", _searched_guess, _not_replayed),
)
ATTACKS: Registry[Attack] = Registry("attack", {attack.name: attack for attack in _ATTACKS}, own_attack)
"""Every attack by its name, those from outside last."""


@checked(ArgumentError, leave=("guess",))
def register_attack(name: str, guess: Guess) -> None:
    """Try an attack of your own in every audit, under its ``name``; in place of an earlier one of that name.

    ``guess(seen)`` gets a :class:`~accounting.attacks.Seen` and returns one own place for each step, whole
    numbers (T,). How often it is right is found here, on at most 2,000 drawn trajectories and releases; it
    is not tried on labels, counts over windows, noise that steps share, or recorded traces. A package offers
    one as an entry point of the group ``tallyguard.attacks``. :class:`~models.exceptions.ArgumentError` for a
    name of ours, and for what cannot be called.
    """
    ATTACKS.register(name, own_attack(name, guess))


def attack_person(
    exposure: Exposure, mistakes: int, draws: int = 10_000, seed: int = 0, *, confidence: float = 0.95
) -> dict[str, AttackResult]:
    """Success of every registered attack within ``mistakes`` of ``T`` steps, by name.

    An attack that is not computed for this exposure is left out. Counts over windows are drawn and decoded as
    they are published. Where steps share noise only the guesses that look at no release are tried: simulating
    the others needs the joint law. The same seed gives the same
    results on any number of threads. :class:`~accounting.exceptions.HorizonError` unless ``0 <= s < T``,
    :class:`~accounting.exceptions.SettingsError` for fewer than one draw or a negative seed.
    """
    target = Target(exposure, mistakes, draws, seed, confidence)
    results = {
        name: attack.success(target)
        for name, attack in ATTACKS.items()
        if attack.is_blind or target.can_be_drawn
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
