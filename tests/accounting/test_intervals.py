"""Clopper-Pearson intervals hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from accounting.exceptions import SettingsError
from accounting.numerics import clopper_pearson


@pytest.mark.parametrize(("successes", "draws"), [(0, 1), (1, 1), (0, 50), (50, 50), (7, 50), (3, 10_000)])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_equals_scipys_exact_interval(successes: int, draws: int, confidence: float) -> None:
    found = clopper_pearson(successes, draws, confidence)
    peer = binomtest(successes, draws).proportion_ci(confidence, method="exact")
    assert np.isclose(found.low, peer.low, rtol=1e-6)
    assert np.isclose(found.high, peer.high, rtol=1e-6)


@pytest.mark.parametrize("truth", [0.001, 0.1, 0.5, 0.93])
def test_covers_the_truth_at_least_as_often_as_stated(truth: float) -> None:
    """Exactly, by summing the binomial law over the counts whose interval holds the truth."""
    intervals = [clopper_pearson(k, 40, 0.9) for k in range(41)]
    covered = sum(
        binom.pmf(k, 40, truth) for k, found in enumerate(intervals) if found.low <= truth <= found.high
    )
    assert covered >= 0.9


@pytest.mark.parametrize(("successes", "draws"), [(-1, 5), (6, 5), (0, 0)])
def test_impossible_counts_are_refused(successes: int, draws: int) -> None:
    with pytest.raises(SettingsError, match="successes must lie in"):
        clopper_pearson(successes, draws)


def test_impossible_confidence_is_refused() -> None:
    with pytest.raises(SettingsError, match="confidence must lie between 0 and 1"):
        clopper_pearson(1, 5, 1.0)
