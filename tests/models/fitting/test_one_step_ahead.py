"""Recent windows that count more, evidence for it, and windows for a check."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from models.exceptions import CheckinError
from models.fitting import (
    FitOptions,
    FitResult,
    fit_priors,
    traces_of,
    training_surprise,
)
from models.fitting.checkins import Checkins
from models.priors import MovementPrior, Population
from stream_app.cli.priors_command import _surprise_in_words

OPTIONS = FitOptions(window_seconds=10, top_places=3, min_windows=2, held_out_windows=3)


def checkins(change: int = 99) -> Checkins:
    """Five people over 30 windows, with gaps; from window ``change`` on mostly at ``c``."""
    random = np.random.default_rng(7)
    rows = []
    for person in range(5):
        for window in range(30):
            likely = "c" if window >= change else "abc"[person % 2]
            place = likely if random.random() < 0.7 else "abc"[random.integers(3)]
            if random.random() < 0.85:
                rows.append((f"p{person}", 10 * window, place))
    return Checkins.from_rows(rows)


def fit(change: int = 99, **options) -> FitResult:
    return fit_priors(checkins(change), replace(OPTIONS, **options))


def one_ahead(result: FitResult, recency: float) -> float:
    """The evidence by counting again before each move."""
    options, surprise = result.options, []
    for person, trace in enumerate(result.training):
        size = result.population.chain(person).places.size
        moves = [(window, trace[window - 1], trace[window]) for window in range(1, trace.size)]
        slots = [(result.first_slot + window - 1) % options.slots for window, _, _ in moves]
        for number, (window, origin, target) in enumerate(moves):
            counts = np.zeros((options.slots, 2))  # of the move, of the row
            for (earlier, a, b), slot in zip(moves[:number], slots[:number], strict=True):
                weight = recency ** (window - earlier) if a == origin else 0.0
                counts[slot] += (weight * (b == target), weight)
            hits, total = counts.sum(axis=0)
            free = (hits + options.pseudo_count) / (total + options.pseudo_count * size)
            if options.slots > 1:
                hits, total = counts[slots[number]]
                free = (hits + options.shrinkage_weight * free) / (total + options.shrinkage_weight)
            surprise.append(-np.log(free))
    return float(np.mean(surprise))


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("recency", [1.0, 0.7])
def test_the_evidence_is_that_of_counting_again_before_each_move(slots: int, recency: float) -> None:
    result = fit(slots=slots, recency=recency)
    found = training_surprise(result)
    assert found.moves == result.training.shape[0] * (result.training.shape[1] - 1)
    assert found.surprise == pytest.approx(one_ahead(result, recency), rel=1e-12)
    assert found.with_equal_weights == pytest.approx(one_ahead(result, 1.0), rel=1e-12)


def test_people_who_have_changed_their_habits_are_predicted_better_by_recent_windows() -> None:
    """And people who have not are predicted worse: the evidence can go either way."""
    changed = training_surprise(fit(14, recency=0.7))
    same = training_surprise(fit(recency=0.2, smoothing_weight=1))
    assert changed.surprise < changed.with_equal_weights
    assert same.surprise > same.with_equal_weights
    said = _surprise_in_words(same._asdict())
    assert "with equal weights" in said
    assert "on these windows only" in said
    assert "with equal weights" not in _surprise_in_words(training_surprise(fit())._asdict())


def test_a_window_counts_recency_times_what_the_next_one_counts() -> None:
    """Rows are the weighted counts, smoothed; equal weights are the counts themselves."""
    result = fit(recency=0.5, smoothing="none", never_left="uniform")
    trace = result.training[0]
    places = result.population.chain(0).places
    expected = np.zeros((places.size, places.size))
    for window in range(1, trace.size):
        move = np.searchsorted(places, trace[window - 1]), np.searchsorted(places, trace[window])
        expected[move] += 0.5 ** (trace.size - 1 - window)
    expected /= expected.sum(axis=1, keepdims=True)
    fitted = result.population.prior(0).transitions[0].toarray()
    np.testing.assert_allclose(fitted, expected, rtol=1e-12)


def test_without_smoothing_an_impossible_move_is_no_evidence() -> None:
    found = training_surprise(fit(smoothing="none", never_left="stay"))
    assert found.surprise is None
    assert "Evidence: none" in _surprise_in_words(found._asdict())


@pytest.mark.parametrize("elsewhere", ["location", "skip"])
def test_windows_for_a_check_are_those_of_the_fit(elsewhere: str) -> None:
    """The same people, places and slots, whatever else the file says of others."""
    result = fit(slots=2, elsewhere=elsewhere, origin="epoch")
    found = traces_of(result.population, checkins(), result.options)
    assert found.people == result.population.people
    np.testing.assert_array_equal(found.places, np.hstack([result.training, result.held_out]))
    assert found.first_slot == result.first_slot
    few = traces_of(result.population.subset([3, 1]), checkins(), result.options)
    np.testing.assert_array_equal(few.places, found.places[[3, 1]])
    assert few.dropped["people without a prior"] == 3


def test_windows_of_priors_with_other_places_in_another_order() -> None:
    """Places go by name; check-ins elsewhere are elsewhere, and a known window follows the last known one."""
    prior = MovementPrior.from_dense("ann", np.full((3, 3), 1 / 3))
    priors = Population.pack([prior], ["elsewhere", "b", "a"])
    rows = Checkins.from_rows([("ann", 0, "a"), ("ann", 10, "z"), ("ann", 25, "b"), ("ann", 41, "a")])
    assert traces_of(priors, rows, OPTIONS).places.tolist() == [[2, 0, 1, 0, 2]]
    bridged = traces_of(priors, rows, replace(OPTIONS, elsewhere="bridge"))
    assert bridged.places.tolist() == [[2, 1, 2, -1, -1]]


def test_check_ins_of_others_and_priors_without_an_elsewhere_are_refused() -> None:
    priors = Population.pack([MovementPrior.from_dense("ann", np.eye(2))], ["a", "b"])
    rows = Checkins.from_rows([("bob", 10 * window, "a") for window in range(5)])
    with pytest.raises(CheckinError, match="must stand for windows without check-ins"):
        traces_of(priors, rows, OPTIONS)
    with pytest.raises(CheckinError, match="none of 1 people among 1 users"):
        traces_of(priors, rows, replace(OPTIONS, elsewhere="skip"))


@pytest.mark.parametrize("rows", [[], [("a", 0, "x"), ("a", 50, "y")]])
def test_check_ins_of_which_none_follows_another_are_no_evidence(rows: list[tuple[str, int, str]]) -> None:
    """A small file, or an evening of a large one, ended the fit with a traceback."""
    options = replace(OPTIONS, elsewhere="skip", held_out_windows=0)
    found = training_surprise(fit_priors(Checkins.from_rows(rows or [("a", 0, "x")]), options))
    assert (found.moves, found.surprise) == (0, 0.0)
