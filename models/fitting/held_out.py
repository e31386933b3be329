"""How well fitted priors predict the windows they have not seen."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from models.fitting.fit import NOWHERE, FitResult


class HeldOutPrediction(NamedTuple):
    """The likeliest place of each held-out window, by habit alone: expected and actual share of hits.

    Means over ``people``, each with a held-out window that is a step; ``margin`` is two standard errors of
    the difference.
    """

    people: int
    expected: float
    actual: float
    margin: float


def predict_held_out(fit: FitResult) -> HeldOutPrediction | None:
    """Guess every held-out window by the likeliest place at that time of the cycle; None without any."""
    rows = []
    for person, trace in enumerate(fit.held_out):
        chain = fit.population.chain(person)
        law = chain.start[(fit.held_out_first_slot + np.arange(trace.size)) % len(chain.start)]
        is_step = trace != NOWHERE
        if is_step.any():
            hits = chain.places[law.argmax(axis=1)] == trace
            rows.append((law.max(axis=1)[is_step].mean(), hits[is_step].mean()))
    if not rows:
        return None
    expected, actual = np.array(rows).T
    margin = 2.0 * float(np.std(actual - expected)) / sqrt(len(rows))
    return HeldOutPrediction(len(rows), float(expected.mean()), float(actual.mean()), margin)
