"""Attacks from outside: somebody's way to guess, tried by us on drawn trajectories and releases.

Whoever brings one decides what is guessed, never how often it is right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accounting.attacks.targets import Attack, AttackResult, Target
from accounting.exposure import Exposure
from models.exceptions import ArgumentError

_MOST_DRAWS = 2_000  # each guess is a call of Python


@dataclass(frozen=True, eq=False)
class Seen:
    """What whoever guesses knows of one person after all releases; places are the person's own, 0..K-1.

    ``start`` (K,) is the law of the first place and ``moves`` (T - 1, K, K) of each move. ``likelihood``
    (T, K) is how likely what each step released is where the person is at each place, up to a factor a step:
    all that the releases say, as where the others are is known. ``places`` (K,) are location indices. The
    guess counts as right with at most ``mistakes`` wrong steps.
    """

    start: NDArray[np.float64]
    moves: NDArray[np.float64]
    likelihood: NDArray[np.float64]
    places: NDArray[np.int32]
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
        uniform = np.random.Generator(np.random.Philox(target.seed))
        paths = _drawn_paths(exposure, draws, uniform)
        likelihood = _drawn_likelihoods(exposure, paths, uniform)
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


def _drawn_paths(exposure: Exposure, draws: int, uniform: np.random.Generator) -> NDArray[np.int64]:
    """Trajectories (draws, T) of own places."""
    paths = np.empty((draws, exposure.steps), np.int64)
    paths[:, 0] = _drawn(np.tile(exposure.start, (draws, 1)), uniform)
    for t, matrix in enumerate(exposure.moves):
        paths[:, t + 1] = _drawn(matrix[paths[:, t]], uniform)
    return paths


def _drawn(laws: NDArray[np.float64], uniform: np.random.Generator) -> NDArray[np.int64]:
    """One value of each law (draws, n), by inversion; a value of probability zero never."""
    sums = laws.cumsum(axis=1)
    level = uniform.random(len(laws))[:, np.newaxis] * sums[:, -1:]
    return np.minimum((sums <= level).sum(axis=1), laws.shape[1] - 1 - (laws[:, ::-1] > 0.0).argmax(axis=1))


def _drawn_likelihoods(
    exposure: Exposure, paths: NDArray[np.int64], uniform: np.random.Generator
) -> NDArray[np.float64]:
    """Likelihoods (draws, T, K) of what is published of each trajectory, the largest of each step 1."""
    found = np.ones((*paths.shape, exposure.place_count))
    for t, releases in enumerate(exposure.released):
        for counted, mechanism in releases:
            law = mechanism.noise_law()
            assert law is not None, "observations leave suppressed sensors out"
            chances = np.pad(law.probabilities, 1)
            noise = _drawn(np.broadcast_to(law.probabilities, (len(paths), law.probabilities.size)), uniform)
            here = counted[paths[:, t]].astype(np.int64)
            found[:, t] *= chances[1 + noise[:, np.newaxis] + here[:, np.newaxis] - counted.astype(np.int64)]
        found[:, t] /= found[:, t].max(axis=1, keepdims=True)
    return found
