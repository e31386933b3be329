"""Priors of second order and of stays, fitted from traces and chosen by what predicts the next move best."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting.audit import audit_exposure
from accounting.audit.calibration import CheckSettings, RecordedPeople, check_priors, sharpness
from accounting.exposure import Exposure
from models.exceptions import CheckinError
from models.fitting import FitOptions, FitResult, fit_priors, predict_held_out, training_surprise
from models.fitting.checkins import Checkins
from models.fitting.contexts import LONGEST_STAY, Kind, states_of
from models.priors import Population, second_order
from models.releases import Schedule
from stream_app.cli.priors_command import _surprise_in_words
from tests.accounting.enumeration import all_paths

OPTIONS = FitOptions(
    window_seconds=10, top_places=3, min_windows=2, held_out_windows=20, elsewhere="skip", order=2, dwell=True
)


def detours(random: np.random.Generator, steps: int) -> list[str]:
    """From ``h`` to where one did not come from, mostly: the last two places tell, one does not."""
    trace = ["a", "h"]
    while len(trace) < steps:
        usual = {"h": "b" if trace[-2] == "a" else "a"}.get(trace[-1], "h")
        trace.append(usual if random.random() < 0.9 else "abh"[random.integers(3)])
    return trace


def shifts(random: np.random.Generator, steps: int) -> list[str]:
    """Three or four steps at each of two places: only the length of the stay tells."""
    trace: list[str] = []
    while len(trace) < steps:
        trace += ["ab"[len(trace) and trace[-1] == "a"]] * (3 if random.random() < 0.9 else 4)
    return trace[:steps]


def coins(random: np.random.Generator, steps: int) -> list[str]:
    """Nothing tells."""
    return ["abh"[random.integers(3)] for _ in range(steps)]


def fit(way, steps: int = 90, people: int = 4, **options) -> FitResult:
    random = np.random.default_rng(5)
    rows = [
        (f"p{person}", 10 * window, place)
        for person in range(people)
        for window, place in enumerate(way(random, steps))
        if random.random() < 0.97  # some gaps
    ]
    return fit_priors(Checkins.from_rows(rows), replace(OPTIONS, **options))


@pytest.mark.parametrize(("way", "habit"), [(detours, "second order"), (shifts, "stays"), (coins, "places")])
def test_the_habit_is_chosen_by_what_surprises_least_one_move_ahead(way, habit: str) -> None:
    """People made with each habit get it, at a surprise less than the others'; and a sentence says so."""
    result = fit(way)
    found = training_surprise(result)
    assert result.habit.kind == habit == min(found.by_habit, key=found.by_habit.__getitem__)
    assert found.surprise == found.by_habit[habit]
    assert result.population.shares_places is (habit != "places")
    said = _surprise_in_words(found._asdict())
    assert all(f"{value:.3f}" in said for value in found.by_habit.values())
    assert predict_held_out(result).people == 4
    assert result.summary()["places a person, median"] == (2.0 if way is shifts else 3.0)


@pytest.mark.parametrize("way", [detours, shifts])
@pytest.mark.parametrize("slots", [1, 3])
def test_rows_and_evidence_are_those_counted_by_hand(way, slots: int) -> None:
    """Every state's row, its evidence, and every training move predicted from those before it."""
    result = fit(way, steps=40, people=2, slots=slots, held_out_windows=4, recency=0.9)
    plain = fit(way, steps=40, people=2, slots=slots, held_out_windows=4, recency=0.9, order=1, dwell=False)
    weight, nats = result.habit.weight, []
    for person, trace in enumerate(result.training):
        chain, base = result.population.chain(person), plain.population.chain(person)
        moves = list(with_contexts(trace, result.habit.kind))
        counts: Counter[tuple[int, ...]] = Counter()
        for window, origin, context, target in moves:
            age = trace.size - 1 - window
            counts[(result.first_slot + window - 1) % slots, origin, context, target] += 0.9**age
        states = sorted({(place, -1) for place in chain.places} | {move[1:3] for move in moves})
        assert chain.places.tolist() == [place for place, _ in states]
        own = result.evidence.of(result.population, person).reshape(slots, -1)
        for slot in range(slots):
            fitted, free = dense(result.population, person, slot), dense(plain.population, person, slot)
            for state, (place, context) in enumerate(states):
                row = free[base.places.tolist().index(place)]
                expected = np.zeros(len(states))
                total = sum(counts[slot, place, context, target] for target in base.places)
                for target, chance in zip(base.places.tolist(), row, strict=True):
                    after = following(result.habit.kind, place, context, target)
                    at = states.index((target, after if (target, after) in states else -1))
                    drawn = (counts[slot, place, context, target] + weight * chance) / (total + weight)
                    expected[at] = chance if context == -1 else drawn
                np.testing.assert_allclose(fitted[state], expected, atol=1e-12)
                if context != -1:
                    assert own[slot, state] == pytest.approx(total + weight)
        nats += surprises(moves, result, slots, base.places.size)
    assert training_surprise(result).surprise == pytest.approx(np.mean(nats))


def with_contexts(trace: NDArray[np.int32], habit: str):
    """Window, origin, context and target of each move, by walking along the trace."""
    came, stay = -1, -1
    for window in range(1, trace.size):
        origin, target = int(trace[window - 1]), int(trace[window])
        if origin >= 0 and target >= 0:
            yield window, origin, came if habit == "second order" else stay, target
        if origin < 0 or target < 0:
            came = stay = -1
        else:
            came = origin
            stay = 1 if target != origin else -1 if stay == -1 else min(stay + 1, LONGEST_STAY)


def following(habit: str, place: int, context: int, target: int) -> int:
    if habit == "second order":
        return place
    return 1 if target != place else -1 if context == -1 else min(context + 1, LONGEST_STAY)


def dense(population: Population, person: int, slot: int) -> NDArray[np.float64]:
    return np.asarray(population.prior(person).transitions[slot].toarray())


def surprises(moves, result: FitResult, slots: int, size: int) -> list[float]:
    """Each move's, by counting again before it: of its place, in its slot, in its context."""
    options, nats = result.options, []
    for number, (window, origin, context, target) in enumerate(moves):
        seen = np.zeros((3, 2))
        for earlier, a, came, b in moves[:number]:
            in_slot = (window - earlier) % slots == 0
            weight = options.recency ** (window - earlier) if a == origin else 0.0
            for level, counts in enumerate((True, in_slot, in_slot and came == context)):
                seen[level] += counts * weight * np.array([b == target, 1.0])
        chance = (seen[0, 0] + options.pseudo_count) / (seen[0, 1] + options.pseudo_count * size)
        for level in range(1 if slots > 1 else 2, 3 if context != -1 else 2):
            hits, total = seen[level]
            drawn = options.shrinkage_weight if level == 1 else result.habit.weight
            chance = (hits + drawn * chance) / (total + drawn)
        nats.append(-np.log(chance))
    return nats


def test_a_fitted_prior_is_audited_as_the_places_it_is_about() -> None:
    """With s = 0 and raw counts the ceiling is the optimum over place traces, by enumerating states."""
    population = fit(detours).population
    chain, seen = population.chain(0), ([1], [], [2])
    audited = audit_exposure(Exposure.of(chain, Schedule.raw(seen), population.location_count), 0)
    paths = all_paths(chain.start[0], dense(population, 0, 0)[None], 3)
    chances: dict[tuple[bool, ...], Counter[tuple[int, ...]]] = {}
    for states, chance in zip(paths.paths, paths.probability.tolist(), strict=True):
        trace = tuple(chain.places[states].tolist())
        counted = tuple(place in at for place, at in zip(trace, seen, strict=True))
        chances.setdefault(counted, Counter())[trace] += chance
    best = sum(max(traces.values()) for traces in chances.values())
    assert audited.certified == pytest.approx(best, abs=1e-9)


def test_a_check_follows_what_places_say_of_the_state() -> None:
    """Surprise and entropy of a chain of second order are those of its pairs, by hand; right priors pass."""
    chances = np.array([[[0.1, 0.9], [0.8, 0.2]], [[0.7, 0.3], [0.4, 0.6]]])
    prior = second_order("p", chances)
    population = Population.pack([prior], ["a", "b"])
    trace = np.array([[0, 1, 1, 0, 0, -1, 1, 0]], dtype=np.int32)
    found = sharpness(population, RecordedPeople(np.array([0]), trace, 0))
    start = population.chain(0).start[0]  # pairs aa, ba, ab, bb by their second place
    first = [(start[0] * chances[0, 0, 1] + start[1] * chances[1, 0, 1]) / (start[0] + start[1])]
    again = [(start[2] * chances[0, 1, 0] + start[3] * chances[1, 1, 0]) / (start[2] + start[3])]
    then = [chances[a, b, c] for a, b, c in [(0, 1, 1), (1, 1, 0), (1, 0, 0)]]
    rows = np.array(first + then + again)
    assert found.moves == 5
    assert found.surprise == pytest.approx(-np.log(rows).mean())
    assert found.expected == pytest.approx(np.mean([-p * np.log(p) - (1 - p) * np.log1p(-p) for p in rows]))
    result = fit(detours, steps=200, people=40, held_out_windows=60)
    recorded = RecordedPeople(np.arange(40), result.held_out, result.held_out_first_slot)
    check = check_priors(result.population, recorded, 5, CheckSettings(0, "prior"))
    assert check.refuted == "not refuted"
    assert abs(check.sharpness.z) < 3.5


def test_an_order_that_there_is_not_is_refused() -> None:
    with pytest.raises(CheckinError, match="option order must be one of 1, 2"):
        FitOptions(order=3)


@pytest.mark.parametrize(
    ("kind", "contexts"), [("stays", range(1, LONGEST_STAY + 1)), ("second order", (0, 1))]
)
def test_no_two_states_are_taken_for_one(kind: Kind, contexts: range | tuple[int, ...]) -> None:
    """People with few places, who stay as long as is counted: each state is found by what it is."""
    at = np.array([(person, place, context) for person in (0, 1) for place in (0, 1) for context in contexts])
    states = states_of(kind, np.array([2, 3]), at[:, 0], at[:, 1].astype(np.int32), at[:, 2])
    found = states.find(states.person, states.place, states.context)
    assert found.tolist() == list(range(states.person.size))
