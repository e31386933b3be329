"""Attacks against enumeration of all trajectories, against each other, and on recorded traces."""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from accounting.attacks import ATTACKS, AttackResult, Target, attack_person, attack_recorded
from accounting.attacks.attacks import best_constant
from accounting.attacks.hit_graph_kernel import (
    best_walk,
    likeliest_graph,
    new_graph_work,
    sum_walks,
    trace_walk,
    walk_tables,
    weigh_nodes,
)
from accounting.attacks.noised_draws_kernel import WON
from accounting.attacks.targets import count_successes, draw_on_graph, draw_raw, draw_stepwise
from accounting.exceptions import HorizonError, SettingsError
from accounting.exposure import Exposure
from accounting.exposure.drawing import Draws, alias_tables, draw, new_stream, released_steps
from accounting.exposure.step_information import StepObservation, observe
from models.mechanisms import Gaussian, Mechanism, Raw, Suppressed
from models.releases import Sensor, SensorRelease, StepSchedule
from tests.accounting.chains import Case, random_case
from tests.accounting.enumeration import (
    Paths,
    all_paths,
    guess_success,
    joint_law,
    optimum,
    prior_optimum,
    raw_channels,
    within,
)

seeds = st.integers(0, 2**32 - 1)


def step_observation(
    sensors: list[tuple[tuple[int, ...], Mechanism]], places: int, step: int = 0
) -> StepObservation:
    releases = tuple(
        SensorRelease(Sensor(f"s{i}", where), mechanism) for i, (where, mechanism) in enumerate(sensors)
    )
    return observe(StepSchedule(step, releases), places)


def exposure_of(case: Case, mechanism: Callable[[int], Mechanism] = lambda _: Raw()) -> Exposure:
    """The case with a sensor of its own for each labelled place; ``mechanism`` by running number."""
    places = len(case.start)
    observations, number = [], 0
    for row in case.labels:
        sensors = []
        for label in range(1, row.max() + 1):
            sensors.append(((int(np.flatnonzero(row == label)[0]),), mechanism(number)))
            number += 1
        observations.append(step_observation(sensors, places))
    return Exposure(case.view, case.start, case.first_slot, tuple(observations))


def paths_of(case: Case) -> Paths:
    return all_paths(case.start, case.matrices, len(case.labels), case.first_slot)


def exact_attacks(exposure: Exposure, mistakes: int) -> dict[str, AttackResult]:
    """MAP, marginals and the better of the two by their exact laws."""
    target = Target(exposure, mistakes)
    assert target.has_exact_laws
    return {name: ATTACKS[name].success(target) for name in ("map", "marginal", "either")}


def sampled(successes: NDArray[np.int64], draws: int, confidence: float) -> dict[str, AttackResult]:
    return {
        name: AttackResult.sampled(int(count), draws, confidence)
        for name, count in zip(("map", "marginal"), successes, strict=True)
    }


def has_near_ties(values: NDArray[np.float64]) -> bool:
    """Whether the best two of some column differ by less than rounding can."""
    top = np.sort(values, axis=0)[-2:]
    return bool(len(top) == 2 and (top[1] - top[0] <= 1e-9 * top[1])[top[1] > 0].any())


@given(seeds)
@settings(max_examples=80)
def test_exact_laws_on_raw_counts_equal_enumeration_and_stay_below_the_optimum(seed: int) -> None:
    case = random_case(np.random.default_rng(seed))
    everything = paths_of(case)
    joint = joint_law(everything, raw_channels(case.labels))
    posterior = np.array(
        [
            [joint[everything.paths[:, t] == x].sum(0) for x in range(len(case.start))]
            for t in range(len(case.labels))
        ]
    )  # [t, x, y]
    exposure = exposure_of(case)
    results_for = {s: exact_attacks(exposure, s) for s in range(exposure.steps)}
    best = everything.paths[joint.argmax(0)]
    likeliest = posterior.argmax(1).T
    no_ties = not has_near_ties(joint), not any(has_near_ties(table) for table in posterior)
    for s, results in results_for.items():
        highest = optimum(everything, raw_channels(case.labels), s)
        for result in results.values():
            assert 0.0 <= result.success <= highest + 1e-12
        assert results["either"].success >= max(results[name].success for name in ("map", "marginal")) - 1e-12
        for name, guesses, comparable in zip(("map", "marginal"), (best, likeliest), no_ties, strict=True):
            result = results[name]
            if comparable:
                expected = (within(guesses, everything.paths, s) * joint.T).sum()
                assert np.isclose(result.success, expected, rtol=1e-10, atol=1e-13)
        if s == 0:  # whatever the ties, the best path is optimal
            assert np.isclose(results["map"].success, highest, rtol=1e-10)


@given(seeds)
@settings(max_examples=60)
def test_prior_and_constant_guesses_are_exact_and_below_the_prior_optimum(seed: int) -> None:
    case = random_case(np.random.default_rng(seed))
    everything = paths_of(case)
    exposure = exposure_of(case)
    for s in range(exposure.steps):
        results = attack_person(exposure, s)
        constants = [guess_success(everything, [c] * exposure.steps, s) for c in range(len(case.start))]
        assert np.isclose(results["constant"].success, max(constants), atol=1e-12)
        assert np.isclose(constants[best_constant(Target(exposure, s)).place], max(constants), atol=1e-12)
        assert results["prior"].success <= prior_optimum(everything, s) + 1e-12
        if s == 0:
            assert np.isclose(results["prior"].success, everything.probability.max(), rtol=1e-10)
        for result in results.values():
            assert result.low == result.success == result.high


def noised_observations(seed: int) -> tuple[Case, Exposure, NDArray[np.float64]]:
    """A case with raw, noised and mixed sensors, and the log-likelihoods of one published trace."""
    rng = np.random.default_rng(seed)
    case = random_case(rng)
    choices = [Raw(), Gaussian(0.3), Gaussian(1.0), Gaussian(3.0), Suppressed()]
    exposure = exposure_of(case, lambda _: choices[rng.integers(len(choices))])
    everything = paths_of(case)
    truth = everything.paths[
        rng.choice(len(everything.paths), p=everything.probability / everything.probability.sum())
    ]
    most = max(len(observation.outcomes) for observation in exposure.observations)
    seen = np.full((exposure.steps, most), -np.inf)
    for t, observation in enumerate(exposure.observations):
        at = observation.labels[truth[t]]
        seen[t, : len(observation.outcomes)] = 0.0
        for j, mechanism in enumerate(observation.mechanisms):
            law = mechanism.noise_law()
            value = (
                (j in observation.outcomes[at])
                + law.first
                + rng.choice(len(law.probabilities), p=law.probabilities / law.probabilities.sum())
            )
            for o, counted in enumerate(observation.outcomes):
                index = value - (j in counted) - law.first
                inside = 0 <= index < len(law.probabilities)
                with np.errstate(divide="ignore"):
                    seen[t, o] += np.log(law.probabilities[index]) if inside else -np.inf
    return case, exposure, seen


@given(seeds)
@settings(max_examples=120)
def test_decoding_on_the_graph_of_hits_finds_the_posteriors_maxima(seed: int) -> None:
    """Best path, likelihood and most likely places of one noised trace, against all trajectories."""
    case, exposure, seen = noised_observations(seed)
    everything = paths_of(case)
    labels = exposure.labels
    log_weight = sum(seen[t][labels[t][everything.paths[:, t]]] for t in range(exposure.steps))
    joint = everything.probability * np.exp(log_weight)
    tables = Target(exposure, 0).tables
    work = new_graph_work(tables.nodes.time.size, exposure.place_count)
    weigh_nodes(tables, labels, seen, work)
    nowhere = seen[:, 0][np.isfinite(seen[:, 0])].sum()
    guess = np.full(exposure.steps, -9, np.int32)
    assert np.isclose(best_walk(tables, work) + nowhere, np.log(joint.max()), rtol=1e-10, atol=1e-10)
    trace_walk(tables, work, guess)
    assert np.isclose(joint[(everything.paths == guess).all(1)][0], joint.max(), rtol=1e-9)
    walks = walk_tables(tables)
    assert walks.is_safe
    assert np.isclose(np.log(sum_walks(walks, work)) + nowhere, np.log(joint.sum()), rtol=1e-10, atol=1e-10)
    likeliest_graph(tables, walks, work, guess)
    for t in range(exposure.steps):
        marginal = np.bincount(everything.paths[:, t], weights=joint, minlength=exposure.place_count)
        assert np.isclose(marginal[guess[t]], marginal.max(), rtol=1e-9)


def big_exposure(mechanism: Mechanism, places: int = 30, steps: int = 8) -> Exposure:
    rng = np.random.default_rng(3)
    matrix = rng.dirichlet(np.full(places, 0.2), size=places) * 0.3 + 0.7 * np.eye(places)
    case = Case(rng.dirichlet(np.ones(places)), matrix[None], np.zeros((steps, places), np.int32))
    observations = [
        step_observation([((int(c),), mechanism) for c in rng.choice(places, 3, replace=False)], places)
        for _ in range(steps)
    ]
    return Exposure(case.view, case.start, 0, tuple(observations))


@pytest.mark.slow
@pytest.mark.indices
def test_sampling_agrees_with_the_exact_law_however_a_draw_is_decoded() -> None:
    exposure, draws = big_exposure(Raw()), 40_000
    exact = exact_attacks(exposure, 3)
    for seed, draw_them in ((11, draw_raw), (12, draw_on_graph), (13, draw_stepwise)):
        for name, found in sampled(draw_them(Target(exposure, 3, draws, seed))[WON], draws, 0.9999).items():
            assert found.low <= exact[name].success <= found.high


@pytest.mark.parametrize("sigma", [0.1, 0.3, 1.0])
def test_graph_and_stepwise_decoding_of_the_same_noised_draws_count_the_same_successes(sigma: float) -> None:
    """At 0.1 the evidence of a trace swings by 400 nats: marginals are then taken step by step."""
    exposure = big_exposure(Gaussian(sigma))
    target = Target(exposure, 3, 5_000, 5)
    on_graph = draw_on_graph(target)
    assert np.array_equal(on_graph, draw_stepwise(target))
    assert 50 < on_graph[WON, 0] < 4_950


@pytest.mark.slow
@pytest.mark.indices
def test_noise_between_raw_and_nothing_gives_an_attack_between_raw_and_prior() -> None:
    """Noise of 0.05 shows all, of 1000 nothing; each sampled within its interval."""
    raw = attack_person(big_exposure(Raw()), 3)["map"]
    sharp = attack_person(big_exposure(Gaussian(0.05)), 3, 20_000, 1, confidence=0.9999)["map"]
    blunt = attack_person(big_exposure(Gaussian(1000.0)), 3, 20_000, 1, confidence=0.9999)
    assert raw.low == raw.high
    assert sharp.low <= raw.success <= sharp.high
    assert blunt["map"].low <= blunt["prior"].success <= blunt["map"].high
    assert blunt["prior"].success < raw.success


@given(seeds)
@settings(max_examples=15)
def test_noised_attacks_stay_below_the_optimum_of_the_raw_schedule(seed: int) -> None:
    case = random_case(np.random.default_rng(seed), largest=3, longest=3)
    exposure = exposure_of(case, lambda _: Gaussian(0.8))
    highest = optimum(paths_of(case), raw_channels(case.labels), 0)
    results = attack_person(
        exposure,
        0,
        2_000,
        seed % 1000,
        confidence=0.999999,
    )
    assert max(result.low for result in results.values()) <= highest + 1e-12


def test_sensors_that_cover_several_places_reveal_a_set_and_not_the_place() -> None:
    """Two sensors over overlapping halves of a chain that never repeats a place, against enumeration."""
    rng = np.random.default_rng(4)
    case = Case(
        rng.dirichlet(np.ones(4)),
        rng.dirichlet(np.ones(4), size=(1, 4)),
        np.array([[1, 2, 3, 0]] * 3, np.int32),
    )
    sensors: list[tuple[tuple[int, ...], Mechanism]] = [((0, 1), Raw()), ((1, 2), Raw())]
    observations = (
        step_observation(sensors, 4),
        step_observation([((0, 1, 2), Raw())], 4),
        step_observation([((2, 3), Raw())], 4),
    )
    labels = np.array([[1, 2, 3, 0], [1, 1, 1, 0], [0, 0, 1, 1]], np.int32)
    everything = paths_of(case)
    joint = joint_law(everything, raw_channels(labels))
    expected = (within(everything.paths[joint.argmax(0)], everything.paths, 1) * joint.T).sum()
    found = attack_person(
        Exposure(case.view, case.start, 0, observations), 1, draws=100_000, seed=2, confidence=0.9999
    )["map"]
    assert found.low <= expected <= found.high
    assert found.high - found.low < 0.02


@pytest.mark.slow
@pytest.mark.indices
def test_same_seed_same_result_on_any_number_of_threads_and_another_seed_another() -> None:
    arguments = (big_exposure(Gaussian(1.0)), 3, 20_000)
    before = numba.get_num_threads()
    try:
        both = attack_person(*arguments, 7)
        numba.set_num_threads(1)
        assert attack_person(*arguments, 7) == both
        assert attack_person(*arguments, 8) != both
    finally:
        numba.set_num_threads(before)


def test_draws_are_split_into_blocks_that_cover_every_draw_once() -> None:
    def kernel(draws: Draws) -> NDArray[np.int64]:
        return np.array([draws.number, draws.block])

    assert count_successes(kernel, (), 10_000, 0)[0] == 10_000
    assert count_successes(kernel, (), 10, 0).tolist() == [10, 0]


def test_alias_tables_draw_every_value_as_often_as_its_probability_says() -> None:
    weight = np.array([0.5, 0.0, 0.2, 0.3, 1e-3, 0.999, 0.0])
    tables = alias_tables(np.array([0, 4, 7]), np.array([10, 11, 12, 13, 20, 21, 22]), weight)
    stream, draws = new_stream(Draws(1, 0, 1)), 40_000
    for law, values, probabilities in (
        (0, [10, 11, 12, 13], [0.5, 0, 0.2, 0.3]),
        (1, [20, 21, 22], [0.001, 0.999, 0]),
    ):
        seen = np.array([draw(tables, law, stream) for _ in range(draws)])
        for value, probability in zip(values, probabilities, strict=True):
            count = (seen == value).sum()
            spread = 5 * np.sqrt(draws * probability * (1 - probability))
            assert abs(count - draws * probability) <= spread


def test_streams_of_different_blocks_and_seeds_differ() -> None:
    firsts = {int(new_stream(Draws(seed, block, 1))[0]) for seed in range(20) for block in range(20)}
    assert len(firsts) == 400


def test_equal_mechanisms_share_one_noise_table() -> None:
    observations = [step_observation([((0,), Gaussian(1.0)), ((1,), Gaussian(2.0))], 3) for _ in range(5)]
    assert released_steps(observations).noise.first.size == 2


def test_recorded_trace_is_replayed_and_impossible_observations_fall_back_to_the_prior() -> None:
    case = Case(np.array([1.0, 0.0]), np.eye(2)[None], np.zeros((3, 2), np.int32))
    observations = tuple(step_observation([((1,), Raw())], 3) for _ in range(3))
    usual = attack_recorded(Exposure(case.view, case.start, 0, observations), np.array([0, 0, 0]), 0)
    assert {name: usual[name].success for name in ("map", "prior", "constant", "marginal")} == {
        "map": 1.0,
        "prior": 1.0,
        "constant": 1.0,
        "marginal": 1.0,
    }
    assert usual["map"].impossible == 0
    moved = attack_recorded(Exposure(case.view, case.start, 0, observations), np.array([0, 1, 0]), 1)
    assert (moved["map"].impossible, moved["map"].success) == (1, 1.0)  # guesses 0 0 0, one wrong
    stranger = attack_recorded(Exposure(case.view, case.start, 0, observations), np.array([2, 2, 0]), 1)
    assert (stranger["map"].impossible, stranger["map"].success) == (0, 0.0)
    sensor_of_strangers = tuple(step_observation([((2,), Raw())], 3) for _ in range(3))
    unseen = attack_recorded(Exposure(case.view, case.start, 0, sensor_of_strangers), np.array([0, 2, 0]), 1)
    assert (unseen["marginal"].impossible, unseen["marginal"].success) == (1, 1.0)


@pytest.mark.slow
@pytest.mark.indices
def test_recorded_traces_drawn_from_the_prior_are_guessed_as_often_as_the_law_says() -> None:
    exposure = big_exposure(Raw())
    exact = exact_attacks(exposure, 3)
    rng, draws = np.random.default_rng(9), 1_500
    matrix = np.zeros((30, 30))
    for y in range(30):
        inside = slice(exposure.chain.column_start[0, y], exposure.chain.column_start[0, y + 1])
        matrix[exposure.chain.row[inside], y] = exposure.chain.value[inside]
    totals = {"map": 0.0, "marginal": 0.0}
    for _ in range(draws):
        trace = [rng.choice(30, p=exposure.start)]
        for _ in range(exposure.steps - 1):
            trace.append(rng.choice(30, p=matrix[trace[-1]]))
        found = attack_recorded(exposure, np.array(trace), 3)
        for name in totals:
            totals[name] += found[name].success
    for name, total in totals.items():
        truth = exact[name].success
        assert abs(total / draws - truth) <= 5 * np.sqrt(truth * (1 - truth) / draws)


def test_recorded_noise_is_drawn_many_times_and_the_share_reported() -> None:
    exposure = big_exposure(Gaussian(1.0))
    trace = np.full(exposure.steps, best_constant(Target(exposure, 3)).place)
    found = attack_recorded(exposure, trace, 3, draws=500, seed=1)
    assert found["map"].draws == 500
    assert 0.0 < found["map"].success <= 1.0
    assert found["prior"].draws == 1


def test_wrong_arguments_are_refused_with_a_remedy() -> None:
    exposure = big_exposure(Raw())
    with pytest.raises(SettingsError, match="draws must be 1 or more"):
        attack_person(exposure, 3, 0)
    with pytest.raises(SettingsError, match="seed must be 0 or more"):
        attack_person(exposure, 3, 10, -1)
    with pytest.raises(HorizonError, match="mistakes must lie in"):
        attack_person(exposure, 8)
    with pytest.raises(HorizonError, match="8 steps like the schedule"):
        attack_recorded(exposure, np.zeros(3, int), 3)
    with pytest.raises(HorizonError, match=r"lie in 0\.\.29"):
        attack_recorded(exposure, np.full(8, 30), 3)


def test_a_person_with_one_place_is_always_found() -> None:
    case = Case(np.array([1.0]), np.ones((1, 1, 1)), np.zeros((1, 1), np.int32))
    for mechanism in (Raw(), Gaussian(1.0), Suppressed()):
        observation = step_observation([((0,), mechanism)], 1)
        results = attack_person(Exposure(case.view, case.start, 0, (observation,)), 0, 100)
        assert all(result.success == 1.0 for result in results.values())


@pytest.mark.slow
def test_long_horizon_in_a_large_sparse_chain_stays_finite() -> None:
    """300 steps round a ring of 500 places, all but surely one place a step, a raw sensor on the way.

    Three in five people pass it and are then known for good; of the others one path is guessed.
    """
    places, steps = 500, 300
    matrix = np.zeros((places, places))
    ring = np.arange(places)
    matrix[ring, ring], matrix[ring, (ring + 1) % places] = 1e-9, 1 - 1e-9
    case = Case(np.full(places, 1 / places), matrix[None], np.zeros((steps, places), np.int32))
    observations = tuple(
        step_observation([((100,), Raw()), ((100,), Gaussian(50.0))], places) for _ in range(steps)
    )
    results = attack_person(Exposure(case.view, case.start, 0, observations), 5, 100, 1, confidence=0.9999)
    assert all(0.0 <= result.low <= result.success <= result.high <= 1.0 for result in results.values())
    for name in ("map", "marginal"):
        assert results[name].low <= 0.6 + 1 / places <= results[name].high
