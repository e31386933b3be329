"""The four attacks replayed on a real trace that the prior was not fitted to.

Recorded traces go where no model goes: to places never seen before. An observation that the prior excludes is
counted, and the attack then makes the guess it would have made without any observation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from accounting.attacks.guesses import best_constant
from accounting.attacks.person import check_draws, local
from accounting.attacks.releases import released_steps
from accounting.attacks.results import CONSTANT, MAP, MARGINAL, PRIOR, RecordedResult
from accounting.attacks.simulation import count_successes
from accounting.attacks.simulation.recorded_kernel import replay_successes
from accounting.exceptions import HorizonError
from accounting.exposure import Exposure, check_mistakes
from accounting.exposure.guess_success_kernel import most_likely_path
from accounting.exposure.step_information import StepObservation
from accounting.hmm.forward_viterbi import smallest_entry
from models.priors import ChainView


def attack_recorded(
    chain: ChainView,
    start: NDArray[np.float64],
    observations: Sequence[StepObservation],
    trace: NDArray[np.integer],
    first_slot: int,
    mistakes: int,
    draws: int = 1_000,
    seed: int = 0,
) -> dict[str, RecordedResult]:
    """Replay every attack on ``trace`` (T,), the location index of each step.

    Noise is drawn ``draws`` times, once where everything is raw. Errors as for
    :func:`~accounting.attacks.attack_person`, and :class:`~accounting.exceptions.HorizonError` for a trace
    of another length than the schedule.
    """
    exposure = Exposure(chain, start, first_slot, tuple(observations))
    check_mistakes(mistakes, exposure.steps)
    check_draws(draws, seed)
    _check_trace(exposure, trace)
    draws = 1 if exposure.is_raw else draws
    own = own_places(chain, trace)
    path = most_likely_path(chain, start, first_slot, exposure.steps)
    place = best_constant(exposure, mistakes).place
    seen = _replay(exposure, trace, own, path, mistakes, draws, seed)
    return {
        MAP: RecordedResult(seen[0] / draws, draws, seen[2]),
        PRIOR: _blind(path, own, mistakes),
        CONSTANT: _blind(np.full_like(path, place), own, mistakes),
        MARGINAL: RecordedResult(seen[1] / draws, draws, seen[2]),
    }


def own_places(chain: ChainView, trace: NDArray[np.integer]) -> NDArray[np.int32]:
    """Positions of the trace's locations among the chain's places, -1 for a place never seen before."""
    position = np.searchsorted(chain.places, trace)
    known = chain.places[np.minimum(position, chain.places.size - 1)] == trace
    return np.where(known, position, -1).astype(np.int32)


def _replay(
    exposure: Exposure,
    trace: NDArray[np.integer],
    own: NDArray[np.int32],
    path: NDArray[np.int64],
    mistakes: int,
    draws: int,
    seed: int,
) -> list[int]:
    """Successes of MAP and marginals, and draws the prior excludes."""
    outcome = [observation.labels[at] for observation, at in zip(exposure.observations, trace, strict=True)]
    arguments = (
        local(exposure.chain),
        exposure.start,
        exposure.first_slot,
        smallest_entry(exposure.chain.value),
        released_steps(exposure.observations),
        exposure.labels,
        np.array(outcome, np.int32),
        own,
        np.stack([path, exposure.marginal.argmax(axis=1)]).astype(np.int32),
        mistakes,
    )
    return [int(count) for count in count_successes(replay_successes, arguments, draws, seed)]


def _blind(guess: NDArray[np.int64], own: NDArray[np.int32], mistakes: int) -> RecordedResult:
    """A guess that does not look at the observations: right or wrong, never impossible."""
    return RecordedResult(float((guess != own).sum() <= mistakes), 1, 0)


def _check_trace(exposure: Exposure, trace: NDArray[np.integer]) -> None:
    locations = exposure.observations[0].labels.size
    if trace.shape != (exposure.steps,):
        raise HorizonError(
            f"a recorded trace must have {exposure.steps} steps like the schedule",
            trace.shape,
            "cut the trace or the schedule",
        )
    if trace.min() < 0 or trace.max() >= locations:
        raise HorizonError(
            f"locations of a recorded trace must lie in 0..{locations - 1}",
            f"{trace.min()}..{trace.max()}",
            "use the location indices of the priors file",
        )
