"""Held-out windows predicted by priors that are right, that are wrong, and where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from models.fitting import FitOptions, FitResult, fit_priors, predict_held_out
from models.fitting.checkins import Checkins
from stream_app.cli.priors_command import _prediction_in_words

WINDOWS, HELD_OUT, PEOPLE = 60, 20, 40


def fitted(at_home_later: float, held_out: int = HELD_OUT) -> FitResult:
    """People at home in half of the training windows, and in another share of the held-out ones."""
    random = np.random.default_rng(4)
    rows = []
    for person in range(PEOPLE):
        for window in range(WINDOWS):
            share = 0.7 if window < WINDOWS - HELD_OUT else at_home_later
            place = "home" if random.random() < share else "work"
            rows.append((f"p{person}", 10 * window, place))
    options = FitOptions(window_seconds=10, top_places=2, min_windows=2, held_out_windows=held_out)
    return fit_priors(Checkins.from_rows(rows), options)


@pytest.mark.parametrize(
    ("at_home_later", "said"),
    [
        (0.7, "That agrees"),
        (1.0, "more regular than the priors say"),
        (0.2, "less regular than the priors say"),
    ],
)
def test_a_prior_is_held_against_windows_it_has_not_seen(at_home_later: float, said: str) -> None:
    found = predict_held_out(fitted(at_home_later))
    assert found is not None
    assert found.people == PEOPLE
    assert found.expected == pytest.approx(0.7, abs=0.05)
    assert found.actual == pytest.approx(at_home_later, abs=0.06)
    assert said in _prediction_in_words(found._asdict())


def test_without_held_out_windows_nothing_is_claimed() -> None:
    assert predict_held_out(fitted(0.7, held_out=0)) is None
    assert "nothing is known" in _prediction_in_words(None)
