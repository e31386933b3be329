"""Fitted priors against counts by hand, and against the windows that they have not seen."""

from __future__ import annotations

import numpy as np
import pytest

from models.exceptions import CheckinError
from models.fitting import PAPER, FitOptions, FitResult, fit_priors, predict_held_out
from models.fitting.checkins import Checkins
from models.fitting.windows import NOWHERE
from stream_app.cli.priors_command import _prediction_in_words

# Windows of 10 s from t = 100; five are fitted, two held out.
ANN = [
    ("A", 100), ("B", 103), ("B", 104),  # window 0: first A, most often and last B
    ("A", 112), ("B", 115),  # window 1: a tie, B is later
    ("C", 125),  # window 2: not at a top place
    ("A", 131),  # window 3
    ("A", 141), ("A", 142), ("B", 149),  # window 4: first and most often A, last B
    ("B", 150),  # window 5
    ("A", 163),  # window 6, which the file ends in
]  # fmt: skip
BOB = [("A", 110), ("A", 160)]
CYD = [("A", 135)]
DAN = [("C", 126), ("C", 127), ("C", 128)]
EVE = [("C", 127)]
A, B, ELSEWHERE = 0, 1, 2
HAND = {
    **{"window_seconds": 10, "top_places": 2, "min_windows": 2, "held_out_windows": 2},
    **{"ranking": "rows", "min_windows_counted": "all"},
}


def checkins() -> Checkins:
    people = {"ann": ANN, "bob": BOB, "cyd": CYD, "dan": DAN, "eve": EVE}
    return Checkins.from_rows((user, time, place) for user, stays in people.items() for place, time in stays)


def fit(**options) -> FitResult:
    return fit_priors(checkins(), FitOptions(**{**HAND, **options}))


def matrix(result: FitResult, person: str, slot: int = 0) -> np.ndarray:
    prior = result.population.prior(result.population.people.index(person))
    return prior.transitions[slot].toarray()


def trace(result: FitResult, person: str) -> list[int]:
    position = result.population.people.index(person)
    return [*result.training[position].tolist(), *result.held_out[position].tolist()]


def assert_rows(found: np.ndarray, *rows: list[float]) -> None:
    expected = np.array(rows, dtype=float)
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), rtol=1e-14)


def test_windows_moves_and_matrices_are_those_counted_by_hand():
    result = fit()
    assert result.population.people == ("ann", "bob")
    assert result.population.location_names == ("A", "B", "elsewhere")
    assert trace(result, "ann") == [B, B, ELSEWHERE, A, A, B, A]
    assert result.evidence.people == ("ann", "bob")
    assert result.evidence.rows.start.tolist() == [0, 3, 5]
    np.testing.assert_allclose(result.evidence.rows.values, [1.3, 2.3, 1.3, 1.2, 3.2])
    assert trace(result, "bob") == [ELSEWHERE, A, ELSEWHERE, ELSEWHERE, ELSEWHERE, ELSEWHERE, A]
    assert result.held_out.tolist() == [[B, A], [ELSEWHERE, A]]
    assert_rows(matrix(result, "ann"), [1.1, 0.1, 0.1], [0.1, 1.1, 1.1], [1.1, 0.1, 0.1])
    assert result.population.chain(1).places.tolist() == [A, ELSEWHERE]
    assert_rows(matrix(result, "bob"), [0.1, 1.1], [1.1, 2.1])
    assert result.origin_seconds == 100


def test_what_is_dropped_is_counted_by_reason():
    summary = fit().summary()
    assert summary["dropped"] == {
        "check-ins rejected while reading": 0,
        "check-ins before the origin": 0,
        "check-ins in the last, partial window": 0,
        "check-ins outside the top places": 5,
        "people without a check-in at the top places": 2,
        "people with too few windows": 1,
        "people without a training window": 0,
    }
    assert (summary["people"], summary["windows"], summary["training windows"]) == (2, 7, 5)


def test_which_checkin_stands_for_a_window():
    assert trace(fit(window_place="first"), "ann") == [A, A, ELSEWHERE, A, A, B, A]
    assert trace(fit(window_place="last"), "ann") == [B, B, ELSEWHERE, A, B, B, A]


def test_a_held_out_place_never_seen_in_training_is_kept_and_counted():
    result = fit(window_place="first")
    assert result.has_unknown_place().tolist() == [True, False]
    assert result.summary()["people with a held-out place unknown to their prior"] == 1
    assert fit().has_unknown_place().tolist() == [False, False]


def test_an_empty_window_can_be_bridged_or_skipped():
    bridged = fit(elsewhere="bridge")
    assert trace(bridged, "ann") == [B, B, NOWHERE, A, A, B, A]
    assert bridged.population.location_names == ("A", "B")
    assert_rows(matrix(bridged, "ann"), [1.1, 0.1], [1.1, 1.1])
    skipped = fit(elsewhere="skip")
    assert_rows(matrix(skipped, "ann"), [1.1, 0.1], [0.1, 1.1])
    assert matrix(skipped, "bob").tolist() == [[1.0]]


def test_people_without_a_training_window_are_left_out():
    result = fit(elsewhere="bridge", min_windows=1, held_out_windows=4)
    assert result.population.people == ("ann", "bob")  # cyd was only there in a held-out window
    assert result.dropped["people without a training window"] == 1


def test_ranking_by_rows_users_or_training_rows():
    assert fit().population.location_names[:2] == ("A", "B")  # 9, 5 and 5 rows: a tie goes to B
    assert fit(ranking="users").population.location_names[:2] == ("A", "C")  # 3, 1 and 3 users
    assert fit(ranking="training_rows").population.location_names[:2] == ("A", "C")  # 6, 4 and 5 rows


def test_fewer_places_than_asked_for_are_all_kept():
    assert fit(top_places=50).population.location_names == ("A", "B", "C", "elsewhere")


def test_windows_needed_are_counted_with_or_without_the_held_out():
    assert fit(min_windows_counted="training").population.people == ("ann",)
    assert fit(min_windows=3).population.people == ("ann",)
    assert fit(min_windows=1).population.people == ("ann", "bob", "cyd")
    assert fit(min_windows=8).population.people == ()


def test_the_last_partial_window_can_be_left_out():
    result = fit(keep_partial_window=False, min_windows=1)
    assert result.training.shape[1] + result.held_out.shape[1] == 6
    assert result.dropped["check-ins in the last, partial window"] == 2
    exact = fit_priors(
        Checkins.from_rows([("a", 0, "x"), ("a", 19, "x")]),
        FitOptions(window_seconds=10, keep_partial_window=False, held_out_windows=0, min_windows=1),
    )
    assert exact.training.shape[1] == 2  # a file that ends with a window loses none


def test_the_origin_is_the_earliest_checkin_midnight_whole_windows_since_1970_or_given():
    assert fit(origin="midnight", window_seconds=100, held_out_windows=0).origin_seconds == 0
    epoch = fit(origin="epoch", window_seconds=30, held_out_windows=1, slots=2, min_windows=1)
    assert (epoch.origin_seconds, epoch.first_slot) == (90, 1)
    given = fit(origin=105)
    assert given.origin_seconds == 105
    assert given.dropped["check-ins before the origin"] == 3
    assert trace(given, "ann")[0] == A  # windows now begin at 105: A at 112 comes first


def test_smoothing_over_the_visited_places_over_all_or_not_at_all():
    every = fit(smoothing="all")
    assert_rows(matrix(every, "bob"), [0.1, 0.1, 1.1], [0.1, 0.1, 0.1], [1.1, 0.1, 2.1])
    none = fit(smoothing="none", never_left="stay")
    assert_rows(matrix(none, "ann"), [1, 0, 0], [0, 1, 1], [1, 0, 0])
    assert none.population.chain(0).value.size == 4  # zeros are not stored
    assert_rows(matrix(fit(smoothing_weight=1), "bob"), [1, 2], [2, 3])


def test_the_row_of_a_place_never_left():
    # Two training windows: bob goes from elsewhere to A and is not seen to leave it.
    short = {"held_out_windows": 5}
    assert_rows(matrix(fit(**short), "bob"), [1, 1], [1.1, 0.1])
    assert_rows(matrix(fit(**short, never_left="stay"), "bob"), [1, 0], [1.1, 0.1])
    assert_rows(matrix(fit(**short, never_left="uniform", smoothing="none"), "bob"), [1, 1], [1, 0])
    assert_rows(
        matrix(fit(smoothing="all", never_left="stay"), "bob"), [0.1, 0.1, 1.1], [0, 1, 0], [1.1, 0.1, 2.1]
    )


def test_a_cycle_draws_each_slot_towards_the_row_without_a_cycle():
    free = matrix(fit(), "ann")
    result = fit(slots=2, shrinkage_weight=5)
    # From even windows: B to B and elsewhere to A; from odd ones: B to elsewhere and A to A.
    moved = np.array([[[0, 0, 0], [0, 1, 0], [1, 0, 0]], [[1, 0, 0], [0, 0, 1], [0, 0, 0]]], dtype=float)
    for slot in range(2):
        expected = (moved[slot] + 5 * free) / (moved[slot].sum(axis=1, keepdims=True) + 5)
        np.testing.assert_allclose(matrix(result, "ann", slot), expected, rtol=1e-14)
    assert (result.first_slot, result.held_out_first_slot) == (0, 1)
    unshrunk = matrix(fit(slots=2, shrinkage_weight=0), "ann", 0)
    np.testing.assert_allclose(unshrunk, [free[0], [0, 1, 0], [1, 0, 0]], rtol=1e-14)


def test_choices_that_look_ahead_are_said():
    assert len(fit().summary()["looks ahead"]) == 2
    assert len(PAPER.looks_ahead) == 2
    assert FitOptions().looks_ahead == ()
    assert fit(min_windows_counted="training", ranking="training_rows").summary()["looks ahead"] == []
    assert FitOptions(held_out_windows=0).looks_ahead == ()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"window_place": "best"},
            "must be one of most_frequent, first, last, got 'best'",
        ),
        (
            {"origin": "noon"},
            "'earliest', 'midnight', 'epoch' or a Unix time in seconds, got 'noon'",
        ),
        ({"window_seconds": 0}, "option window_seconds must be at least 1, got 0"),
        ({"slots": 0}, "option slots must be at least 1"),
        ({"smoothing_weight": -1}, "option smoothing_weight must be at least 0"),
        ({"smoothing_weight": float("nan")}, "option smoothing_weight must be at least 0"),
        ({"recency": 0.0}, "option recency must be above 0 and at most 1, got 0.0"),
        ({"recency": float("nan")}, "option recency must be above 0 and at most 1"),
        ({"shrinkage_weight": float("inf")}, "must be finite"),
        ({"smoothing": "none"}, "never_left 'smoothed' must have smoothing with a weight above 0"),
        ({"smoothing_weight": 0}, "choose never_left 'stay' or 'uniform'"),
        ({"elsewhere": "bridge", "slots": 2}, "elsewhere 'bridge' must have one slot"),
        ({"elsewhere_name": "A"}, "elsewhere_name must not be the name of a place"),
        ({"held_out_windows": 7}, "there must be more windows than the 7 held out, got 7 of 10 s"),
    ],
)
def test_options_that_cannot_be_are_refused_with_a_remedy(options, words):
    with pytest.raises(CheckinError) as caught:
        fit(**options)
    assert words in str(caught.value)


def test_a_file_without_checkins_cannot_be_fitted():
    with pytest.raises(CheckinError, match="there must be check-ins to fit"):
        fit_priors(Checkins.from_rows([]))


def test_the_order_of_the_rows_makes_no_difference():
    rows = [
        (user, time, place)
        for user, stays in (("ann", ANN), ("bob", BOB), ("cyd", CYD), ("dan", DAN), ("eve", EVE))
        for place, time in stays
    ]
    shuffled = [rows[i] for i in np.random.default_rng(2).permutation(len(rows))]
    again = fit_priors(Checkins.from_rows(shuffled), FitOptions(**HAND))
    np.testing.assert_array_equal(again.training, fit().training)
    np.testing.assert_array_equal(again.population.arrays.value, fit().population.arrays.value)


def test_evidence_is_what_each_row_rests_on_in_every_slot():
    """Moves and what they are drawn towards; a row that an option made up is taken as it is."""
    ann = fit(slots=2).evidence.rows.values[:6]
    np.testing.assert_allclose(ann, [5, 6, 6, 6, 6, 5])
    made_up = fit(never_left="stay", elsewhere="skip", origin="earliest").evidence.rows.values
    assert np.isinf(made_up).any()
    assert np.isfinite(made_up).any()


# Held-out windows predicted by priors that are right, that are wrong, and where there is none.

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
