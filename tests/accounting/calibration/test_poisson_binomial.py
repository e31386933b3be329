"""The exact law of the number of hits, against every outcome written out."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from accounting.audit.calibration import hits_law, tail_probabilities


@pytest.mark.parametrize("people", [0, 1, 2, 7, 10])
def test_the_law_is_that_of_enumeration(people: int) -> None:
    """Every outcome of up to ten guesses, certain and impossible ones among them."""
    probabilities = np.random.default_rng(people).random(people)
    probabilities[: people // 3] = np.resize([0.0, 1.0], people // 3)
    law = np.zeros(people + 1)
    for outcome in product((0, 1), repeat=people):
        law[sum(outcome)] += np.prod(
            [p if hit else 1 - p for p, hit in zip(probabilities, outcome, strict=True)]
        )
    assert hits_law(probabilities) == pytest.approx(law, abs=1e-15)
    for hits in range(people + 1):
        tails = tail_probabilities(probabilities, hits)
        assert tails.higher == pytest.approx(law[hits:].sum(), abs=1e-14)
        assert tails.lower == pytest.approx(law[: hits + 1].sum(), abs=1e-14)


def test_equal_probabilities_are_binomial_far_into_the_tail() -> None:
    """A p-value of 1e-60 keeps its digits."""
    found = tail_probabilities(np.full(400, 0.1), 180)
    assert found.higher == pytest.approx(binom.sf(179, 400, 0.1), rel=1e-9)
    assert 0 < found.higher < 1e-60
