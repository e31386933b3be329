"""A recorded trace as attacks are replayed on it.

Recorded traces go where no model goes: to places never seen before. An observation that the prior excludes is
counted, and the attack then makes the guess it would have made without any observation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accounting.attacks.simulation import count_successes
from accounting.attacks.simulation.recorded_kernel import IMPOSSIBLE, Recording, replay_successes
from accounting.attacks.targets.results import RecordedResult
from accounting.attacks.targets.target import Target
from accounting.exceptions import HorizonError
from accounting.exposure.drawing import released_steps
from models.priors import ChainView


@dataclass(frozen=True, eq=False)
class RecordedTarget:
    """A target and where the person really was, ``trace`` (T,): the location index of each step."""

    target: Target
    trace: NDArray[np.integer]

    def __post_init__(self) -> None:
        """:class:`HorizonError` for a trace of another length than the schedule, or to unknown locations."""
        steps, locations = self.target.exposure.steps, self.target.exposure.observations[0].labels.size
        if self.trace.shape != (steps,):
            raise HorizonError(
                f"a recorded trace must have {steps} steps like the schedule",
                self.trace.shape,
                "cut the trace or the schedule",
            )
        if self.trace.min() < 0 or self.trace.max() >= locations:
            raise HorizonError(
                f"locations of a recorded trace must lie in 0..{locations - 1}",
                f"{self.trace.min()}..{self.trace.max()}",
                "use the location indices of the priors file",
            )

    def seen(self, attack: int) -> RecordedResult:
        """MAP or marginals, as the kernels number them, over all draws of the noise."""
        draws = self._draws
        return RecordedResult(int(self._counts[attack]) / draws, draws, int(self._counts[IMPOSSIBLE]))

    def blind(self, guess: NDArray[np.int64]) -> RecordedResult:
        """A guess that does not look at the observations: right or wrong, never impossible."""
        return RecordedResult(float((guess != self._own).sum() <= self.target.mistakes), 1, 0)

    @property
    def _draws(self) -> int:
        return 1 if self.target.exposure.is_raw else self.target.draws

    @cached_property
    def _own(self) -> NDArray[np.int32]:
        return own_places(self.target.exposure.chain, self.trace)

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        """Successes of MAP and marginals, and draws the prior excludes (3,)."""
        target, exposure = self.target, self.target.exposure
        pairs = zip(exposure.observations, self.trace, strict=True)
        recording = Recording(
            target.chain,
            target.smallest,
            released_steps(exposure.observations),
            exposure.labels,
            self._own,
            np.array([observation.labels[at] for observation, at in pairs], np.int32),
            target.blind_guesses,
        )
        return count_successes(replay_successes, (recording, target.mistakes), self._draws, target.seed)


def own_places(chain: ChainView, trace: NDArray[np.integer]) -> NDArray[np.int32]:
    """Positions of the trace's locations among the chain's places, -1 for a place never seen before."""
    position = np.searchsorted(chain.places, trace)
    known = chain.places[np.minimum(position, chain.places.size - 1)] == trace
    return np.where(known, position, -1).astype(np.int32)
