"""Within a radius: distances of paths and raised ceilings, by enumeration and by published cases."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accounting.bounds import horizon_risk
from accounting.bounds.radius import Radius, horizon_within, raised_by_renyi, raised_by_reversed
from accounting.exceptions import HorizonError
from accounting.exposure import Exposure
from tests.accounting.chains import random_matrix
from tests.accounting.enumeration import Floats, Paths, all_paths, window_optimum
from tests.accounting.exposures import RAW, exposure_to, gaussian, raw_exposure, step_of
from tests.volume import randoms

CASES = json.loads((Path(__file__).parent / "radius.json").read_text())["cases"]
"""Exact numbers by another program; ``about`` in the file says what each is."""


def exposure_of(chain: dict[str, Any], steps: int) -> Exposure:
    """A chain of the file under a schedule without releases."""
    start = np.array(chain["initial"])
    matrices = np.array(chain["transitions"] or [np.eye(start.size)])
    return exposure_to(start, matrices, [step_of([], [])] * steps)


def steps_of(case: dict[str, Any]) -> int:
    return len(case["persona"]["transitions"]) + 1


def close(got: float, want: float) -> bool:
    return got == want or abs(got - want) <= 1e-8 * max(1.0, abs(want))


@pytest.mark.parametrize("case", CASES)
def test_distances_of_paths_are_those_of_the_reference(case: dict[str, Any]) -> None:
    """All but total variation exactly; that one from above."""
    prior, person = (exposure_of(case[who], steps_of(case)) for who in ("persona", "true"))
    found = Radius.between(prior, person)
    assert close(found.kl, case["kl"])
    assert close(found.kl_reversed, case["kl_reversed"])
    assert case["tv"] - 1e-12 <= found.tv <= 5 * case["tv"]
    assert close(found.log_max_ratio, case["log_max_ratio"])
    for order, divergence in case["renyi"].items():
        assert close(found.renyi[float(order)], divergence)


@pytest.mark.parametrize("case", CASES)
def test_raised_ceilings_are_those_of_the_reference(case: dict[str, Any]) -> None:
    """Each formula, from the exact distances and the persona's optimum; all above the true optimum."""
    renyi = {float(order): divergence for order, divergence in case["renyi"].items()}
    radius = Radius(
        0, steps_of(case) - 1, case["kl"], case["kl_reversed"], case["tv"], renyi, case["log_max_ratio"]
    )
    found = radius.ceilings(min(1.0, case["optimum_persona"]))
    for name in ("tv", "kl", "kl_reversed", "max_ratio"):
        assert close(found[name], case["bounds"][name]), name
    for order, bound in case["bounds"]["renyi"].items():
        assert close(found[f"renyi_{float(order):g}"], bound), order
    assert radius.ceiling(min(1.0, case["optimum_persona"])).value == min(found.values())
    assert min(found.values()) >= case["optimum_true"] - 1e-12


@pytest.mark.parametrize("case", CASES)
def test_whoever_is_told_the_first_place_may_be_held_against_the_horizon_alone(case: dict[str, Any]) -> None:
    prior, person = (exposure_of(case[who], steps_of(case)) for who in ("persona", "true"))
    first, last = case["horizon"]
    found, expected = Radius.between(prior, person, first, last), case["told_first_place"]
    assert close(found.kl, expected["horizon_kl"])
    assert found.tv >= expected["horizon_tv"] - 1e-12
    raised = found.ceilings(min(1.0, expected["optimum_persona"]))
    assert close(raised["kl"], expected["kl"])
    assert min(raised.values()) >= case["optimum_true"] - 1e-12


GRID = np.concatenate([[1e-9, 1e-4], np.linspace(0.01, 0.99, 25), [0.9999, 1.0]])


def test_radius_zero_is_the_ceiling_itself_and_an_unknown_one_is_no_ceiling() -> None:
    nothing = Radius(0, 9, 0.0, 0.0, 0.0, {0.5: 0.0, 2.0: 0.0}, 0.0)
    for bound in GRID:
        assert set(nothing.ceilings(bound).values()) == {bound}
        assert Radius(0, 9).ceiling(bound).value == 1.0


@pytest.mark.parametrize("name", ["kl", "kl_reversed", "tv", "log_max_ratio", 0.5, 2.0, 5.0])
def test_ceilings_rise_with_the_radius_and_with_the_ceiling(name: str | float) -> None:
    distances = np.concatenate([[0.0], np.geomspace(1e-9, 1.0, 40)])
    table = np.empty((distances.size, GRID.size))
    for row, distance in enumerate(distances):
        given = {name: distance} if isinstance(name, str) else {"renyi": {name: distance}}
        table[row] = [Radius(0, 9, **given).ceiling(bound).value for bound in GRID]  # type: ignore[arg-type]
    assert (np.diff(table, axis=0) >= 0.0).all()
    assert (np.diff(table, axis=1) >= -1e-9 * table[:, 1:]).all()
    assert (table[-1] > table[0]).any()


def test_roots_lie_where_the_divergence_reaches_the_distance() -> None:
    """Against the formulas written out, on the safe side."""
    for bound in (0.01, 0.3, 0.8):
        for distance in (1e-3, 0.05, 0.2):
            u = raised_by_reversed(bound, distance)
            d = bound * np.log(bound / u) + (1 - bound) * np.log((1 - bound) / (1 - u))
            assert distance <= d * (1 + 1e-6)
            assert d == pytest.approx(distance, rel=1e-5)
            for order in (0.5, 2.0, 5.0):
                u = raised_by_renyi(bound, distance, order)
                mass = u**order * bound ** (1 - order) + (1 - u) ** order * (1 - bound) ** (1 - order)
                if u < 1.0:
                    assert np.log(mass) / (order - 1) == pytest.approx(distance, rel=1e-5)


def test_old_releases_count_where_the_person_forgets_more_slowly_than_the_prior() -> None:
    """The counterexample: over the horizon alone the radius looks small, and the ceiling would be false."""
    stay = {"prior": 0.9, "person": 0.99}
    steps = [[0], [], [], [], [], [], []]
    prior, person = (
        raw_exposure(np.full(2, 0.5), np.array([[p, 1 - p], [1 - p, p]]), steps) for p in stay.values()
    )
    truth = window_optimum(
        all_paths(np.full(2, 0.5), np.array([[[0.99, 0.01], [0.01, 0.99]]]), 7),
        [np.eye(2), *[np.ones((2, 1))] * 6],
        (5, 6),
        0,
    )
    assert truth == pytest.approx(0.942, abs=5e-4)
    short = Radius.between(prior, person, 5, 6)
    certified = horizon_risk(prior, 5, 6, 0).certified
    assert short.kl == pytest.approx(0.071, abs=5e-4)
    false = Radius(5, 6, kl=short.kl).ceiling(certified).value
    assert false < truth
    assert false == pytest.approx(0.776, abs=5e-4)
    within = horizon_within(prior, (5, 6), 0, Radius(5, 6, kl=short.kl, is_markov=True))
    assert within.knows_place
    assert within.ceiling > truth
    assert within.ceiling == pytest.approx(0.990, abs=5e-4)
    for first in range(6):
        whole = horizon_within(prior, (5, 6), 0, Radius.between(prior, person, first, 6))
        assert whole.knows_place == (first > 0)
        assert whole.ceiling >= truth


def test_a_radius_that_leaves_out_a_step_of_the_horizon_is_refused() -> None:
    exposure = raw_exposure(np.full(2, 0.5), np.full((2, 2), 0.5), [[0]] * 6)
    for radius in (Radius(4, 5, kl=0.1), Radius(0, 4, kl=0.1)):
        with pytest.raises(HorizonError, match=r"every step of the horizon 3\.\.5"):
            horizon_within(exposure, (3, 5), 0, radius)
    with pytest.raises(HorizonError, match="0 or more"):
        Radius(0, 1, kl=-0.1)


def test_the_examples_of_the_documentation_are_so() -> None:
    for bound, raised in ((0.30, (0.37, 0.51, 0.78)), (0.03, (0.06, 0.13, 0.31))):
        for nats, ceiling in zip((0.01, 0.1, 0.5), raised, strict=True):
            assert round(Radius(0, 9, kl=nats).ceiling(bound).value, 2) == ceiling
    for stay, nats in ((0.91, 0.005), (0.93, 0.05), (0.98, 0.46)):
        prior, person = (
            exposure_to(np.full(2, 0.5), np.array([[p, 1 - p], [1 - p, p]]), [step_of([], [])] * 10)
            for p in (0.9, stay)
        )
        assert Radius.between(prior, person).kl == pytest.approx(nats, rel=0.06)


def test_declared_rows_add_up_over_the_moves() -> None:
    assert Radius.of_rows(0, 9, nats=0.01, start=0.02).kl == pytest.approx(0.11)
    assert Radius.of_rows(0, 9, tv=0.01, start=0.0).tv == pytest.approx(0.09)
    assert Radius.of_rows(3, 3, nats=0.5, start=0.0).kl == 0.0
    assert Radius.of_rows(0, 9, tv=0.01, start=0.0).kl == inf


@pytest.mark.parametrize("given", [{}, {"nats": 0.1, "tv": 0.1}, {"nats": -0.1}, {"tv": float("nan")}])
def test_rows_in_no_measure_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(HorizonError):
        Radius.of_rows(0, 9, start=0.0, **given)


def test_rows_alone_say_nothing_of_where_somebody_settles() -> None:
    """The trap: rows within 0.02 of total variation, and settled somewhere else altogether."""
    moves = {who: np.array([[1 - away, away], [0.01, 0.99]]) for who, away in (("p", 0.01), ("q", 0.03))}
    settled = {
        who: np.array([each[1, 0], each[0, 1]]) / (each[1, 0] + each[0, 1]) for who, each in moves.items()
    }
    with pytest.raises(HorizonError, match="start"):
        Radius.of_rows(0, 0, tv=0.02)  # type: ignore[call-arg]
    prior, person = (raw_exposure(settled[who], moves[who], [[]]) for who in "pq")
    certified = horizon_risk(prior, 0, 0, 0).certified
    optimum = settled["q"].max()
    assert Radius.of_rows(0, 0, tv=0.02, start=0.0).ceiling(certified).value < optimum
    start = 0.5 * float(np.abs(settled["p"] - settled["q"]).sum())
    assert Radius.of_rows(0, 0, tv=0.02, start=start).ceiling(certified).value >= optimum - 1e-12
    assert Radius.between(prior, person).tv == pytest.approx(start)


def test_over_the_horizon_alone_a_radius_says_nothing_of_somebody_who_remembers_more() -> None:
    """Who repeats four coins for ever has the prior's law of any four steps: radius 0, and optimum 1."""
    exposure = raw_exposure(np.full(2, 0.5), np.full((2, 2), 0.5), [[0]] * 4 + [[]] * 4)
    with pytest.raises(HorizonError, match="Markov"):
        horizon_within(exposure, (4, 7), 0, Radius(4, 7, kl=0.0))
    with pytest.raises(HorizonError, match="Markov"):
        horizon_within(exposure, (0, 3), 0, Radius(0, 3, kl=0.0), in_hindsight=True)
    for whole in (Radius(0, 7, kl=4 * np.log(2.0)), Radius(-3, 7, kl=4 * np.log(2.0))):
        assert horizon_within(exposure, (4, 7), 0, whole).ceiling == 1.0
    markov = horizon_within(exposure, (4, 7), 0, Radius(4, 7, kl=0.0, is_markov=True))
    assert markov.knows_place
    assert markov.ceiling == pytest.approx(0.125)


@pytest.mark.parametrize("rare", [1e-12, 1e-16, 1e-17, 1e-100, 1e-300, 5e-324])
def test_what_is_all_but_impossible_is_far_away(rare: float) -> None:
    """Below the last bit of one the term of a rare place was lost, and with it what is far was near."""
    steps = [step_of([], [])] * 2
    even, sure = np.full(2, 0.5), np.array([1.0, rare])
    prior, person = (
        exposure_to(even, np.full((2, 2), 0.5), steps),
        exposure_to(sure, np.array([sure] * 2), steps),
    )
    found = Radius.between(prior, person)
    assert found.kl == pytest.approx(2 * np.log(2.0))
    assert found.kl_reversed == pytest.approx(-np.log(2.0) * 2 - np.log(rare))
    for distance in (found.kl, found.kl_reversed):
        assert 0.0 < distance < inf
    assert Radius(0, 1, kl=found.kl).ceiling(0.25).value == 1.0
    assert Radius(0, 1, kl_reversed=found.kl_reversed).ceiling(0.25).value >= 1.0 - max(2 * rare, 1e-15)


def test_a_rare_step_counts_where_the_prior_all_but_rules_out_the_next_one() -> None:
    """Powers too small or too large for a number: first a step of 1e-100, then one that has 1e-200."""
    rare, never = 1e-100, 1e-200
    person = np.array([[0.5, 0.5], [1.0, 0.0]])
    prior = np.array([[0.5, 0.5], [never, 1.0]])
    starts = np.array([1.0, rare]), np.array([0.5, 0.5])
    seen = [
        exposure_to(start, move, [step_of([], [])] * 2)
        for start, move in zip(starts, (person, prior), strict=True)
    ]
    found = Radius.between(seen[1], seen[0])
    likely = -np.log(0.5)
    for order in (2.0, 5.0):
        log_rare = order * np.log(rare) + (1.0 - order) * np.log(0.5 * never)
        expected = np.logaddexp(likely * (order - 1.0), log_rare) / (order - 1.0)
        assert found.renyi[order] == pytest.approx(expected, rel=1e-9)
    assert found.renyi[5.0] > 100.0
    same = Radius.between(seen[0], seen[0])
    assert max(same.renyi.values()) < 1e-9
    assert same.kl == same.kl_reversed == same.tv == same.log_max_ratio == 0.0


def test_places_that_only_one_of_them_knows_are_infinitely_far_in_one_direction() -> None:
    """The prior knows places 0 and 1, the person 0, 1 and 2: one direction of relative entropy is finite."""
    wide = np.array([[0.8, 0.1, 0.1], [0.5, 0.4, 0.1], [0.3, 0.3, 0.4]])
    person = exposure_to(np.array([0.5, 0.5, 0.0]), wide, [step_of([], [])] * 3)
    narrow = exposure_to(np.full(2, 0.5), np.array([[0.9, 0.1], [0.5, 0.5]]), [step_of([], [])] * 3)
    found = Radius.between(narrow, person)
    assert found.kl == found.renyi[2.0] == found.log_max_ratio == inf
    assert found.kl_reversed < 1.0
    assert found.tv < 0.5
    assert found.ceiling(0.2).value < 1.0


def random_pair(rng: np.random.Generator) -> tuple[Paths, Paths, Exposure, Exposure]:
    """Two chains near each other on 2 or 3 places and up to 4 steps; some of a cycle, some with zeros."""
    places, steps, cycle = int(rng.integers(2, 4)), int(rng.integers(1, 5)), int(rng.integers(1, 3))
    kinds = rng.choice(["full", "full", "zeros", "sticky", "absorbing"], size=cycle)
    true = np.stack([random_matrix(rng, places, kind) for kind in kinds])
    distance = rng.choice([0.001, 0.01, 0.1, 0.5])
    other = rng.dirichlet(np.ones(places), size=(cycle, places))
    other *= true > 0.0 if rng.random() < 0.5 else 1.0
    persona = (1 - distance) * true + distance * other / other.sum(-1, keepdims=True)
    start = rng.dirichlet(np.ones(places))
    begin = (1 - distance) * start + distance * rng.dirichlet(np.ones(places))
    if rng.random() < 0.3:
        (true, start), (persona, begin) = (persona, begin), (true, start)
    nothing = [step_of([], [])] * steps
    return (
        all_paths(begin, persona, steps),
        all_paths(start, true, steps),
        exposure_to(begin, persona, nothing),
        exposure_to(start, true, nothing),
    )


def random_channels(rng: np.random.Generator, places: int, steps: int) -> list[Floats]:
    """At each step nothing, one place raw, or one place's count with a little noise."""
    channels = []
    for _ in range(steps):
        kind, seen = rng.integers(3), np.arange(places) == rng.integers(places)
        raw = np.stack([seen, ~seen], axis=1).astype(float)
        keep = rng.uniform(0.6, 0.95)
        noised = raw @ np.array([[keep, 1 - keep], [1 - keep, keep]])
        channels.append((np.ones((places, 1)), raw, noised)[kind])
    return channels


@pytest.mark.thorough
@pytest.mark.slow
def test_no_adversary_who_knows_the_person_beats_the_raised_ceiling_of_6000_pairs() -> None:
    """From the persona's exact optimum, over horizons with history; also with the first place shown."""
    tight = []
    for rng in randoms(0, 6000):
        persona, true, prior, person = random_pair(rng)
        steps = prior.steps
        channels = random_channels(rng, persona.places, steps)
        first = int(rng.integers(steps))
        mistakes = int(rng.integers(min(3, steps - first)))
        horizon = (first, steps - 1)
        best = window_optimum(true, channels, horizon, mistakes)
        raised = Radius.between(prior, person).ceilings(window_optimum(persona, channels, horizon, mistakes))
        assert min(raised.values()) >= best - 1e-12
        shown = [*[np.ones((persona.places, 1))] * first, np.eye(persona.places), *channels[first + 1 :]]
        radius = Radius.between(prior, person, first, steps - 1)
        raised = radius.ceilings(window_optimum(persona, shown, horizon, mistakes))
        assert min(raised.values()) >= best - 1e-12
        tight.append(min(raised.values()) < 0.99)
    assert np.mean(tight) > 1 / 8


def test_the_ceilings_that_are_shown_hold_for_people_within_the_radius() -> None:
    """Certified bounds inside, raw and noised, at the moment and in hindsight, for any span of the radius."""
    rng = np.random.default_rng(1)
    below_one = 0
    for _pair in range(60):
        persona, true, prior, person = random_pair(rng)
        steps = prior.steps
        schedule, channels = [], []
        for _ in range(steps):
            where, sigma = rng.permutation(persona.places)[: rng.integers(2)].tolist(), rng.choice([0.0, 0.8])
            mechanism = gaussian(float(sigma)) if sigma else RAW
            schedule.append(step_of(where, [mechanism] * len(where)))
            law = mechanism.noise_law().probabilities if sigma else np.array([0.0, 1.0, 0.0])
            channel = np.tile(np.append(law, 0.0), (persona.places, 1))
            channel[where] = np.roll(channel[where], 1, axis=1)
            likely = channel.max(axis=0) > 1e-9
            channels.append(channel[:, likely] if where else np.ones((persona.places, 1)))
        seen = exposure_to(prior.start, dense(prior), schedule)
        first = int(rng.integers(steps))
        last = int(rng.integers(first, steps))
        mistakes = int(rng.integers(min(3, last - first + 1)))
        for in_hindsight in (False, True):
            end = steps - 1 if in_hindsight else last
            released = channels[: end + 1] + [np.ones((persona.places, 1))] * (steps - 1 - end)
            best = window_optimum(true, released, (first, last), mistakes)
            for span in {(0, end), (first, end), (first, last)}:
                radius = Radius.between(prior, person, *span)
                found = horizon_within(seen, (first, last), mistakes, radius, in_hindsight=in_hindsight)
                assert found.ceiling >= best - 1e-9
                assert found.ceiling >= found.certified
                below_one += found.ceiling < 0.99
    assert below_one > 60


def dense(exposure: Exposure) -> Floats:
    """The matrices of a small chain."""
    from accounting.exposure.step_information.contraction_kernel import dense_matrix

    slots = exposure.chain.start.shape[0]
    return np.stack([dense_matrix(exposure.chain, slot) for slot in range(slots)])
