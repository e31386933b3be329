"""Calibration to flows: against a convex solver, on its own terms, and where tables cannot be met."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from models.exceptions import PersonaError
from models.fitting.calibration import (
    Flows,
    MeanCounts,
    MoveCounts,
    calibrate,
    expected_flows,
    masses_of,
)
from models.priors import MovementPrior, Population
from tests.models.fitting.small_cities import path_law, paths, random_personas, table

cvxpy = pytest.importorskip("cvxpy", reason="the extra 'design' is not installed")
SLOTS = 3


def divergence(after: Population, before: Population) -> float:
    """Relative entropy of everybody's day to what it was before, weighted."""
    total = 0.0
    for person, weight in enumerate(after.weights / after.weights.sum()):
        law, prior = path_law(after, person, SLOTS), path_law(before, person, SLOTS)
        seen = law > 0.0
        total += weight * float((law[seen] * np.log(law[seen] / prior[seen])).sum())
    return total


def solved(
    personas: Population, flows: np.ndarray, listed: np.ndarray, penalty: float | None = None
) -> float:
    """The least objective by a convex solver, over the laws of whole paths: nothing here is a chain."""
    places, every = personas.location_count, paths(personas.location_count, SLOTS)
    weights = personas.weights / personas.weights.sum()
    laws = [cvxpy.Variable(len(every), nonneg=True) for _ in weights]
    limits, cost = [], 0.0
    for person, (law, weight) in enumerate(zip(laws, weights, strict=True)):
        prior = path_law(personas, person, SLOTS)
        limits.append(cvxpy.sum(law) == 1.0)
        limits += [
            law @ (every[:, 0] == z).astype(float) == law @ (every[:, -1] == z).astype(float)
            for z in range(places)
        ]
        cost += weight * cvxpy.sum(cvxpy.rel_entr(law, prior))
    for slot in range(SLOTS):
        cells, wanted = [], []
        for i, j in zip(*np.nonzero(listed[slot]), strict=True):
            there = ((every[:, slot] == i) & (every[:, slot + 1] == j)).astype(float)
            cells.append(sum(weight * (law @ there) for law, weight in zip(laws, weights, strict=True)))
            wanted.append(flows[slot, i, j])
        if not listed[slot].all():
            cells.append(1.0 - sum(cells))
            wanted.append(1.0 - sum(wanted))
        if penalty is None:
            limits += [cell == mass for cell, mass in zip(cells[:-1], wanted[:-1], strict=True)]
        else:
            cost += penalty * sum(
                cvxpy.rel_entr(cell, mass) for cell, mass in zip(cells, wanted, strict=True)
            )
    problem = cvxpy.Problem(cvxpy.Minimize(cost), limits)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return float(problem.value)


@pytest.mark.parametrize("stays", [True, False], ids=["full tables", "trips only"])
@pytest.mark.parametrize("seed", range(4))
def test_the_calibrated_day_is_the_one_a_convex_solver_finds(seed: int, stays: bool) -> None:
    """Least relative entropy over all laws of paths; flows are met to 1e-9 and the day ends as it began."""
    before, world = random_personas(seed), random_personas(seed + 100)
    flows = expected_flows(replace(world, weights=before.weights), SLOTS)
    found = calibrate(before, [table(flows, stays=stays)])
    assert found.is_met
    shares = flows / before.weights.sum()
    listed = (
        np.ones_like(flows, dtype=bool) if stays else np.repeat(~np.eye(3, dtype=bool)[None], SLOTS, axis=0)
    )
    after = expected_flows(found.population, SLOTS) / before.weights.sum()
    assert np.abs(after - shares)[listed].max() < 1e-9
    assert found.missed_people < 1e-9 * before.weights.sum()
    assert divergence(found.population, before) == pytest.approx(solved(before, shares, listed), abs=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_tables_that_contradict_each_other_are_met_as_well_as_the_penalty_asks(seed: int) -> None:
    """The penalised objective is the solver's, where the flows of slots do not follow from each other."""
    before, random = random_personas(seed), np.random.default_rng(seed)
    shares = random.dirichlet(np.ones(9), size=SLOTS).reshape(SLOTS, 3, 3)
    found = calibrate(before, [table(shares * before.weights.sum())], penalty=2.0)
    assert found.is_met
    after = expected_flows(found.population, SLOTS) / before.weights.sum()
    objective = divergence(found.population, before) + 2.0 * float((after * np.log(after / shares)).sum())
    assert objective == pytest.approx(solved(before, shares, np.ones_like(shares, dtype=bool), 2.0), abs=1e-7)
    assert found.missed_people == pytest.approx(
        np.abs(after - shares).sum(axis=(1, 2)).max() * before.weights.sum()
    )


@pytest.mark.slow
@pytest.mark.indices
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(2, 4), st.integers(1, 4), st.booleans())
def test_what_the_personas_themselves_make_is_met_and_closed(
    seed: int, people: int, places: int, slots: int, stays: bool
) -> None:
    """Rows sum to one, weights are kept, and the cycle's own long run makes the flows: the closure holds."""
    before = random_personas(seed, people, places, slots)
    world = replace(random_personas(seed + 1, people, places, slots), weights=before.weights)
    flows = expected_flows(world, slots)
    found = calibrate(before, [table(flows, stays=stays)], most_sweeps=20_000)
    after = found.population
    assert after.weights.tolist() == before.weights.tolist()
    assert after.people == before.people
    for prior in after.priors():
        for matrix in prior.transitions:
            np.testing.assert_allclose(matrix.toarray().sum(axis=1), 1.0, rtol=0, atol=1e-12)
    made = expected_flows(after, slots)
    if found.is_met:
        off = np.abs(made - flows) if stays else np.abs(made - flows) * ~np.eye(places, dtype=bool)
        assert off.max() < 1e-9 * before.weights.sum()
    arriving, leaving = made.sum(axis=1), np.roll(made.sum(axis=2), -1, axis=0)
    np.testing.assert_allclose(arriving, leaving, rtol=0, atol=1e-10 * before.weights.sum())


def test_one_persona_becomes_whoever_forgets() -> None:
    """With a single class the moves are F / N, whatever it was before: memory comes from many classes."""
    before = random_personas(3, people=1)
    flows = expected_flows(replace(random_personas(4, people=1), weights=before.weights), SLOTS)
    after = calibrate(before, [table(flows)]).population
    for slot, matrix in enumerate(after.prior(0).transitions):
        np.testing.assert_allclose(
            matrix.toarray(), flows[slot] / flows[slot].sum(axis=1)[:, None], atol=1e-9
        )


def test_mean_counts_are_met_beside_flows() -> None:
    """A sensor's mean counts constrain who is there; flows of another slot are met as well."""
    before = random_personas(5)
    world = replace(random_personas(6), weights=before.weights)
    flows = expected_flows(world, SLOTS)
    at = flows[1].sum(axis=1)
    counts = MeanCounts(np.array([1, 1]), np.array([0, 2]), at[[0, 2]])
    listed = table(np.where(np.arange(SLOTS)[:, None, None] == 2, flows, 0.0))
    found = calibrate(before, [counts, listed])
    assert found.is_met
    after = expected_flows(found.population, SLOTS)
    np.testing.assert_allclose(after[1].sum(axis=1), at, rtol=1e-9)
    np.testing.assert_allclose(after[2], flows[2], rtol=0, atol=1e-9 * before.weights.sum())


def test_counts_that_may_count_somebody_twice_are_a_range() -> None:
    """Within the range nothing changes; beyond it as many are there as its nearest end says, and no more."""
    before, slot = random_personas(5), np.array([1, 1])
    at = expected_flows(before, SLOTS)[1].sum(axis=1)
    most = np.array([1.5 * at[0], 1.2 * at[2]])
    inside = calibrate(before, [MeanCounts(slot, np.array([0, 2]), most, most / 2.0)])
    assert inside.is_met and inside.missed_people < 1e-6
    np.testing.assert_allclose(expected_flows(inside.population, SLOTS)[1].sum(axis=1), at, rtol=1e-9)
    many = np.array([3.0 * at[0], 1.2 * at[2]])
    found = calibrate(before, [MeanCounts(slot, np.array([0, 2]), many, many / 2.0)])
    one_end = calibrate(before, [MeanCounts(slot[:1], np.array([0]), 1.5 * at[:1])])
    after = expected_flows(found.population, SLOTS)
    assert found.is_met and found.missed_people < 1e-6
    assert many[1] / 2.0 < after[1].sum(axis=1)[2] < many[1]
    np.testing.assert_allclose(after, expected_flows(one_end.population, SLOTS), rtol=1e-7)


Cells = list[tuple[np.ndarray, float, float]]  # type: ignore[type-arg]  # flows, and least and most of them


def one_for_two_slots() -> Population:
    """One persona of ten people, two slots, three places."""
    rows = np.array([[[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]]] * 2)
    return replace(
        Population.pack([MovementPrior.from_dense("p", rows)], ("a", "b", "c")), weights=np.array([10.0])
    )


def divergence_beside_least(before: Population, after: Population, cells: Cells) -> tuple[float, float]:
    """Of the calibrated flows, and the least that a general minimiser finds over all ways through the day."""
    wanted = expected_flows(after, 2).ravel() / 10.0
    given = expected_flows(before, 2).ravel() / 10.0
    flows = np.arange(18).reshape(2, 3, 3)
    sums = [flows[0]]  # whatever arrives leaves again, so the others follow
    closed = [(flows[1 - t, :, x].ravel(), flows[t, x].ravel()) for t in range(2) for x in range(3)][1:]
    held = [{"type": "eq", "fun": lambda q, own=own: q[own].sum() - 1.0} for own in sums]
    held += [{"type": "eq", "fun": lambda q, e=e: q[e[0]].sum() - q[e[1]].sum()} for e in closed]
    for own, least, most in cells:
        held += [
            {"type": "ineq", "fun": lambda q, own=own, least=least: q[own].sum() - least},
            {"type": "ineq", "fun": lambda q, own=own, most=most: most - q[own].sum()},
        ]

    def divergence(q: np.ndarray) -> float:  # type: ignore[type-arg]
        law = np.maximum(q, 1e-15)
        given_place = given.reshape(2, 3, 3) / given.reshape(2, 3, 3).sum(axis=2, keepdims=True)
        at = law.reshape(2, 3, 3).sum(axis=2)
        first = float((at[0] * np.log(at[0] / given.reshape(2, 3, 3)[0].sum(axis=1))).sum())
        return first + float((law * np.log(law / (np.repeat(at, 3) * given_place.ravel()))).sum())

    best = minimize(divergence, given, constraints=held, bounds=[(0.0, 1.0)] * 18, options={"ftol": 1e-13})
    assert best.success
    return divergence(wanted), best.fun


def test_a_range_is_met_with_the_least_relative_entropy() -> None:
    """One persona, one slot: found again by minimising over all ways through the day."""
    before = one_for_two_slots()
    counts = MeanCounts(np.array([1, 1]), np.array([1, 2]), np.array([9.0, 2.0]), np.array([6.0, 1.0]))
    after = calibrate(before, [counts]).population
    flows = np.arange(18).reshape(2, 3, 3)
    found, least = divergence_beside_least(
        before, after, [(flows[1, 1].ravel(), 0.6, 0.9), (flows[1, 2].ravel(), 0.1, 0.2)]
    )
    assert found <= least + 1e-8
    at = expected_flows(after, 2)[1].sum(axis=1) / 10.0
    assert at[1] == pytest.approx(0.6, abs=1e-9) and 0.1 - 1e-9 <= at[2] <= 0.2 + 1e-9


def ends(*moves: tuple[int, int]) -> np.ndarray:  # type: ignore[type-arg]
    return np.array(moves).T


@pytest.mark.parametrize("most", [1.0, 1.5])
def test_counts_of_moves_are_met_with_the_least_relative_entropy(most: float) -> None:
    """Two lines, one of which is counted both ways and in both slots: as a general minimiser has it."""
    before = one_for_two_slots()
    lines, people = [ends((0, 1), (1, 0)), ends((1, 2))], np.array([4.5, 2.5, 0.6])
    slot, counter = np.array([0, 1, 1]), np.array([0, 0, 1])
    least = people / most if most > 1.0 else None
    calibrated = calibrate(before, [MoveCounts(slot, counter, people, lines, ("ab", "bc"), least)])
    assert calibrated.is_met and not calibrated.impossible
    flows = np.arange(18).reshape(2, 3, 3)
    cells = [
        (flows[s][tuple(lines[c])], n / most / 10.0, n / 10.0)
        for s, c, n in zip(slot, counter, people, strict=True)
    ]
    found, best = divergence_beside_least(before, calibrated.population, cells)
    assert found <= best + 1e-8
    after = expected_flows(calibrated.population, 2).ravel() / 10.0
    for own, low, high in cells:
        assert low - 1e-9 <= after[own].sum() <= high + 1e-9


def test_people_at_places_and_on_the_way_are_met_together() -> None:
    """A gate counts who is there, the stairs up to twice who leaves it: as a general minimiser has it."""
    before = one_for_two_slots()
    at_gate = MeanCounts(np.array([1]), np.array([1]), np.array([5.0]))
    stairs = [ends((1, 0), (1, 2))]
    moves = MoveCounts(
        np.ones(1, np.int64), np.zeros(1, np.int64), np.array([1.8]), stairs, ("x",), np.array([0.9])
    )
    calibrated = calibrate(before, [at_gate, moves])
    assert calibrated.is_met
    flows = np.arange(18).reshape(2, 3, 3)
    cells = [(flows[1, 1].ravel(), 0.5, 0.5), (flows[1][tuple(stairs[0])], 0.09, 0.18)]
    found, best = divergence_beside_least(before, calibrated.population, cells)
    assert found <= best + 1e-8
    leaves = expected_flows(calibrated.population, 2)[1][tuple(stairs[0])].sum()
    assert leaves == pytest.approx(1.8, abs=1e-6), "more would leave if they could"


def test_what_a_counter_on_a_line_finds_is_the_law_of_all_paths() -> None:
    """The people who make one of its moves, weighted: every path of a day enumerated."""
    personas = random_personas(3)
    every, (start, end) = paths(3, SLOTS), ends((0, 1), (1, 0), (2, 1))
    weights = personas.weights
    assert weights is not None
    for slot in range(SLOTS):
        is_counted = np.zeros((3, 3))
        is_counted[start, end] = 1.0
        makes = is_counted[every[:, slot], every[:, slot + 1]]
        by_paths = sum(w * path_law(personas, p, SLOTS) @ makes for p, w in enumerate(weights))
        line = [np.stack((start, end))]
        counts = MoveCounts(np.array([slot]), np.array([0]), np.array([by_paths]), line, ("x",))
        (table,) = counts.constraints(weights.sum(), personas.location_names, SLOTS)
        masses = masses_of(table.group, expected_flows(personas, SLOTS)[slot], 2)
        assert masses[1] == pytest.approx(by_paths, rel=1e-9)
        assert table.mass[1] * weights.sum() == pytest.approx(by_paths, rel=1e-12)
        assert calibrate(personas, [counts]).missed_people < 1e-6, "nothing changes where all is met"


def test_two_counters_of_one_move_must_both_find_it() -> None:
    """Side by side and alike both are met; unlike, neither can be, and that is said."""
    before = one_for_two_slots()
    lines, twice = [ends((0, 1)), ends((0, 1), (1, 2))], np.zeros(2, dtype=np.int64)
    alike = MoveCounts(twice, np.array([0, 1]), np.array([2.0, 3.0]), lines, ("one", "other"))
    assert len(alike.constraints(10.0, before.location_names, 2)) == 2
    found = calibrate(before, [alike])
    after = expected_flows(found.population, 2)[0]
    assert found.is_met
    assert (after[0, 1], after[1, 2]) == (pytest.approx(2.0, abs=1e-6), pytest.approx(1.0, abs=1e-6))
    against = replace(alike, moves=[lines[0]] * 2)
    found = calibrate(before, [against], most_sweeps=50)
    assert not found.is_met and found.missed_people > 0.9


def test_moves_between_unknown_places_are_refused() -> None:
    counts = MoveCounts(np.array([0]), np.array([0]), np.array([1.0]), [ends((0, 3))], ("bridge",))
    with pytest.raises(PersonaError, match=r"'bridge' counts must go between locations in 0\.\.2"):
        calibrate(one_for_two_slots(), [counts])


def two_who_stay() -> Population:
    """Two personas, each between home and a place of its own; nobody goes from zone 1 to zone 2."""
    rows = np.array([[[0.5, 0.5], [0.5, 0.5]]] * 2)
    people = [MovementPrior.from_dense(f"p{i}", rows, [0, 1 + i]) for i in range(2)]
    return replace(Population.pack(people, ("home", "north", "south")), weights=np.array([60.0, 40.0]))


@pytest.mark.parametrize("seed", range(3))
def test_a_day_closes_where_nobody_is_when_it_begins(seed: int) -> None:
    """A sensor that counts nobody at midnight: no day may end there either."""
    nobody = MeanCounts(np.array([0]), np.array([2]), np.array([0.0]))
    calibrated = calibrate(random_personas(seed, 2, 3, 3), [nobody])
    assert calibrated.is_met
    assert calibrated.missed_people < 1e-6


def test_a_cell_nobody_can_meet_is_named() -> None:
    """North to south is impossible for both: it is reported with its people, and the rest is met."""
    flows = Flows(np.array([0, 0]), np.array([1, 0]), np.array([2, 1]), np.array([10.0, 25.0]))
    found = calibrate(two_who_stay(), [flows])
    assert [(cell.slot, cell.name, cell.found) for cell in found.impossible] == [(0, "north to south", 0.0)]
    assert found.impossible[0].wanted == pytest.approx(10.0)
    assert found.is_met
    assert expected_flows(found.population, 2)[0, 0, 1] == pytest.approx(25.0)
    assert found.missed[0].name in ("north to south", "all other moves")
    assert found.missed_people == pytest.approx(20.0)


def test_tables_that_contradict_each_other_are_not_said_to_be_met() -> None:
    """50 go north, where 20 are counted: the misfit is told with slot and cells, and a penalty settles it."""
    goes = Flows(np.array([0]), np.array([0]), np.array([1]), np.array([50.0]))
    are_there = MeanCounts(np.array([1]), np.array([1]), np.array([20.0]))
    found = calibrate(two_who_stay(), [goes, are_there], most_sweeps=60)
    assert not found.is_met
    assert found.missed_people > 20.0
    assert {cell.name for cell in found.missed} <= {
        "home to north",
        "at north",
        "all other moves",
        "elsewhere",
    }
    assert not found.impossible
    between = calibrate(two_who_stay(), [goes, are_there], penalty=5.0)
    assert between.is_met
    north = expected_flows(between.population, 2)[1, 1].sum()
    assert 20.0 < north < 50.0


def test_personas_without_a_way_through_the_day_are_named() -> None:
    """Everybody must come from north, and one of the two never is there."""
    everybody = Flows(np.array([0]), np.array([1]), np.array([0]), np.array([100.0]))
    with pytest.raises(PersonaError, match=r"a way through the day .* none for 1 personas, such as 'p1'"):
        calibrate(two_who_stay(), [everybody])


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (([0], [0], [1], [200.0]), "at most as many as personas stand for, got 2 times as many"),
        (([0, 0], [0, 0], [1, 1], [2.0, 2.0]), "list each move of a slot once"),
        (([5], [0], [1], [2.0]), r"each slot of flows must be in 0\.\.1, got 5"),
        (([0], [3], [1], [2.0]), r"each location of flows must be in 0\.\.2, got 3"),
        (([0], [0], [1], [-2.0]), "numbers of 0 or more, got -2"),
        (([0], [0], [1], [float("nan")]), "numbers of 0 or more, got nan"),
    ],
)
def test_a_table_that_is_none_is_refused(columns: tuple[list[float], ...], says: str) -> None:
    slot, origin, destination, people = columns
    flows = Flows(np.array(slot), np.array(origin), np.array(destination), np.array(people))
    with pytest.raises(PersonaError, match=says):
        calibrate(two_who_stay(), [flows])


def test_people_without_weights_are_no_personas() -> None:
    with pytest.raises(PersonaError, match="must have weights"):
        calibrate(replace(two_who_stay(), weights=None), [])


@pytest.mark.slow
@pytest.mark.indices
def test_threads_and_order_of_work_change_no_bit() -> None:
    """Blocks are fixed: the same calibration with one thread has the same bits."""
    import numba

    before = random_personas(8, people=150)
    flows = table(expected_flows(replace(random_personas(9, people=150), weights=before.weights), SLOTS))
    several = calibrate(before, [flows], most_sweeps=5).population
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        one = calibrate(before, [flows], most_sweeps=5).population
    finally:
        numba.set_num_threads(threads)
    assert one.fingerprint == several.fingerprint
