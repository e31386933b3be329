"""Attacks from outside: somebody's way to guess, tried by us on drawn trajectories and releases.

Whoever brings one decides what is guessed, never how often it is right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from accounting.attacks.targets import Attack, AttackResult, Target
from accounting.bounds.noised.posterior_kernel import draw_log, own_log
from accounting.exposure.drawing import released_steps, value_tables
from models.exceptions import ArgumentError
from models.numerics.arrays import Floats, Integers32

_MOST_DRAWS = 2_000  # each guess is a call of Python


@dataclass(frozen=True, eq=False)
class Seen:
    """What whoever guesses knows of one person after all releases; places are the person's own, 0..K-1.

    ``start`` (K,) is the law of the first place and ``moves`` (T - 1, K, K) of each move. ``likelihood``
    (T, K) is how likely what each step released is where the person is at each place, up to a factor a step:
    all that the releases say, as where the others are is known. ``places`` (K,) are location indices. The
    guess counts as right with at most ``mistakes`` wrong steps.
    """

    start: Floats
    moves: Floats
    likelihood: Floats
    places: Integers32
    mistakes: int


Guess = Callable[[Seen], ArrayLike]


def own_attack(name: str, guess: object) -> Attack:
    """The attack that guesses what ``guess`` says; :class:`ArgumentError` for what cannot be called."""
    if not callable(guess):
        raise ArgumentError(
            "an attack must be a function of what is seen",
            f"a {type(guess).__name__}",
            "write one that returns T places",
        )

    def success(target: Target) -> AttackResult | None:
        exposure = target.exposure
        if exposure.is_labelled or exposure.windows is not None or not target.can_be_drawn:
            return None
        draws = min(target.draws, _MOST_DRAWS)
        released = released_steps(exposure.observations)
        log = own_log(target.person, exposure.labels, released, value_tables(released.noise))
        paths = np.empty((draws, exposure.steps), np.int32)
        likelihood = np.empty((*paths.shape, exposure.place_count))
        draw_log(log, target.seed, paths, likelihood)
        likelihood /= likelihood.max(axis=2, keepdims=True)
        known = exposure.start, exposure.moves, exposure.chain.places, target.mistakes
        start, moves, places, mistakes = known
        right = 0
        for path, shown in zip(paths, likelihood, strict=True):
            guessed = np.asarray(guess(Seen(start, moves, shown, places, mistakes)))
            if guessed.shape != path.shape or guessed.dtype.kind not in "iu":
                raise ArgumentError(
                    f"attack {name!r} must guess one own place for each of {path.size} steps",
                    f"{guessed.dtype} of shape {guessed.shape}",
                    "return whole numbers in 0..K-1",
                )
            right += int((guessed != path).sum() <= mistakes)
        return AttackResult.sampled(right, draws, target.confidence)

    return Attack(name, success, lambda recorded: None)
