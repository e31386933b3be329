"""Every attack replayed on a real trace that the prior was not fitted to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.attacks.registry import ATTACKS
from accounting.attacks.targets import RecordedResult, RecordedTarget, Target
from accounting.exposure import Exposure


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
