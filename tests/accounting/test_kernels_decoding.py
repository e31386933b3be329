"""Forward and Viterbi kernels against enumeration, against hmmlearn, and at the edge of the number range."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from accounting.exceptions import HorizonError, ImpossibleObservationError
from accounting.hmm import Filtering, decode
from accounting.hmm.decoding import decode_people, smallest_entries
from accounting.hmm.forward_viterbi import POSSIBLE, Observed, filter_steps, new_recursion, trace_back
from accounting.hmm.log_space import log_filter_steps, log_trace_back
from accounting.hmm.shared_matrix import SharedChain, decode_shared
from accounting.hmm.trace_decoding import DecodedArrays, Observations, People
from models.priors import MovementPrior, Population, Triplets
from models.priors.chain import LocalChain
from tests.accounting.chains import Case, chain_of, random_case, random_matrix
from tests.accounting.enumeration import all_paths

seeds = st.integers(0, 2**32 - 1)


def random_likelihood(rng: np.random.Generator, labels: NDArray[np.int32]) -> NDArray[np.float64]:
    """One number per step and outcome, some exactly zero."""
    likelihood = rng.random((labels.shape[0], int(labels.max()) + 1))
    likelihood[rng.random(likelihood.shape) < 0.15] = 0.0
    return likelihood


def joint_by_enumeration(case: Case, likelihood: NDArray[np.float64]) -> tuple[NDArray, NDArray]:
    """All paths and the probability of each together with what was observed."""
    steps = len(case.labels)
    everything = all_paths(case.start, case.matrices, steps, case.first_slot)
    weight = np.ones(len(everything.paths))
    for t in range(steps):
        weight *= likelihood[t][case.labels[t][everything.paths[:, t]]]
    return everything.paths, everything.probability * weight


def empty_decoded(people: int, steps: int) -> DecodedArrays:
    return DecodedArrays(
        np.full(people, 99, np.int32),
        np.full(people, np.nan),
        np.full(people, np.nan),
        np.full((people, steps), 99, np.int32),
    )


def random_population(rng: np.random.Generator, people: int, places: int, density: float) -> Population:
    """People on their own places of 50, some with a cycle, some with a start of their own."""
    priors = []
    for i in range(people):
        cycle = 1 + i % 2
        matrices = rng.random((cycle, places, places)) * (rng.random((cycle, places, places)) < density)
        matrices += 0.01 * np.eye(places)
        matrices /= matrices.sum(2, keepdims=True)
        own = np.sort(rng.choice(50, places, replace=False))
        initial = rng.dirichlet(np.ones(places)) if i % 3 == 0 else None
        priors.append(MovementPrior.from_dense(f"p{i}", matrices, own, initial))
    return Population.pack(priors, [str(m) for m in range(50)])


@pytest.mark.slow
@pytest.mark.indices
@given(seeds)
@settings(max_examples=150)
def test_likelihood_and_best_path_equal_enumeration_scaled_and_in_logarithms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    case = random_case(rng)
    chain, steps = case.view, len(case.labels)
    likelihood = random_likelihood(rng, case.labels)
    paths, joint = joint_by_enumeration(case, likelihood)
    work, logs = new_recursion(steps, len(case.start)), new_recursion(steps, len(case.start))
    path = np.zeros(steps, np.int32)
    person = LocalChain(chain, case.start, case.first_slot)
    observed = Observed(case.labels, likelihood)
    for filtered, scores, back in (
        (filter_steps(person, 1e-9, observed, work), work.scores, trace_back),
        (log_filter_steps(person, observed, logs), logs.scores, log_trace_back),
    ):
        if joint.sum() == 0.0:
            assert filtered.status >= 0
            continue
        assert filtered.status == POSSIBLE
        assert np.isclose(filtered.log_likelihood, np.log(joint.sum()), rtol=1e-12, atol=1e-12)
        assert np.isclose(filtered.log_path, np.log(joint.max()), rtol=1e-12, atol=1e-12)
        back(chain, case.first_slot, scores, path)
        assert np.isclose(joint[(paths == path).all(1)][0], joint.max(), rtol=1e-9)


@given(seeds)
@settings(max_examples=60)
def test_impossible_observation_is_reported_at_the_first_step_that_is_impossible(seed: int) -> None:
    rng = np.random.default_rng(seed)
    case = random_case(rng)
    steps = len(case.labels)
    likelihood = random_likelihood(rng, case.labels)
    possible = [
        joint_by_enumeration(
            Case(case.start, case.matrices, case.labels[: t + 1], case.first_slot), likelihood[: t + 1]
        )[1].sum()
        > 0
        for t in range(steps)
    ]
    expected = possible.index(False) if False in possible else POSSIBLE
    work = new_recursion(steps, len(case.start))
    person = case.person
    arguments = (person, 1e-9, Observed(case.labels, likelihood))
    assert filter_steps(*arguments, work).status == expected


def test_ties_are_broken_at_the_lowest_index() -> None:
    chain = chain_of(np.full((4, 4), 0.25))
    labels, work = np.zeros((5, 4), np.int32), new_recursion(5, 4)
    filter_steps(LocalChain(chain, np.full(4, 0.25), 0), 0.25, Observed(labels, np.ones((5, 1))), work)
    path = np.full(5, 9, np.int32)
    trace_back(chain, 0, work.scores, path)
    assert path.tolist() == [0] * 5


@pytest.mark.parametrize("people", [1, 7, 8, 30])
@pytest.mark.parametrize("density", [0.2, 0.6])
def test_people_in_lanes_find_the_bits_of_the_loops_over_entries(people: int, density: float) -> None:
    """Whoever shares the lanes: people of 1 to 20 places, some with cycles, some impossible."""
    rng = np.random.default_rng(people)
    names = [str(m) for m in range(50)]
    priors = []
    for i in range(people):
        places = int(rng.integers(1, 21))
        matrices = rng.random((1 + i % 2, places, places))
        matrices *= rng.random(matrices.shape) < density
        matrices[:, 0, :] = 0.01  # not full: full matrices of many places are read eight entries at a time
        matrices[:, 0, 1:2] = 0.0
        matrices += 0.01 * np.eye(places)
        matrices /= matrices.sum(2, keepdims=True)
        own = np.sort(rng.choice(50, places, replace=False))
        priors.append(MovementPrior.from_dense(f"p{i}", matrices, own))
    population = Population.pack(priors, names)
    labels = rng.integers(0, 3, (7, 50)).astype(np.int32)
    likelihood = rng.random((people, 7, 3)) * rng.choice([1.0, 1e-60], (people, 1, 1))
    likelihood[::5, 4] = 0.0
    decoded, loops = empty_decoded(people, 7), new_recursion(7, 20)
    smallest = smallest_entries(population.arrays)
    decode_people(People(population.arrays, smallest, 1), Observations(labels, likelihood), decoded)
    for i in range(people):
        chain, path = population.chain(i), np.zeros(7, np.int32)
        person = LocalChain(chain, chain.start[1 % len(chain.start)], 1)
        expected = filter_steps(person, smallest[i], Observed(labels, likelihood[i]), loops)
        assert (decoded.status[i], decoded.log_likelihood[i], decoded.log_path[i]) == expected[:3]
        if expected.status == POSSIBLE:
            trace_back(chain, 1, loops.scores, path)
            assert np.array_equal(decoded.path[i], path)


@pytest.mark.parametrize("places", [5, 20])
def test_likelihoods_too_small_for_full_digits_lose_nothing(places: int) -> None:
    """The same likelihoods times 1e-310, where doubles have a dozen digits left."""
    rng = np.random.default_rng(9)
    population = random_population(rng, 6, places, 0.5)
    labels = rng.integers(0, 3, (4, 50)).astype(np.int32)
    likelihood = rng.choice([0.25, 0.5, 1.0], (6, 4, 3))  # exact when scaled by a power of two
    plain = decode(population, labels, likelihood)
    scaled = decode(population, labels, likelihood * 2.0**-1072)
    assert np.allclose(scaled.log_likelihood, plain.log_likelihood - 4 * 1072 * np.log(2), rtol=1e-12)
    assert np.array_equal(scaled.path, plain.path)


@pytest.mark.parametrize("scale", [1.0, 1e-60, 1e60])
@pytest.mark.parametrize("density", [0.3, 1.0])
@pytest.mark.parametrize("places", [9, 20])
def test_one_visit_per_step_equals_one_visit_per_trace_bit_for_bit(
    density: float, places: int, scale: float
) -> None:
    """Also where a product of all that the steps were scaled by is no double any more."""
    rng = np.random.default_rng(5)
    people, steps = 150, 7
    population = random_population(rng, people, places, density)
    labels = rng.integers(0, 3, (steps, 50)).astype(np.int32)
    plain = rng.random((people, steps, 3))
    likelihood = plain * scale
    decoded = decode(population, labels, likelihood, first_slot=1)
    expected = decode(population, labels, plain, first_slot=1)
    for found, own in (
        (decoded.log_likelihood, expected.log_likelihood),
        (decoded.log_path, expected.log_path),
    ):
        assert np.allclose(found, own + steps * np.log(scale), rtol=1e-13)
    filtering = Filtering(population, first_slot=1)
    for t in range(steps):
        filtering.observe(labels[t], likelihood[:, t])
    assert filtering.is_exact.all()
    assert np.array_equal(filtering.log_likelihood, decoded.log_likelihood)
    assert np.array_equal(filtering.log_path, decoded.log_path)
    assert filtering.belief(3).sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("density", "cycle"), [(1.0, 1), (0.4, 1), (1.0, 2)])
def test_many_traces_of_one_chain_are_decoded_as_of_so_many_people(density: float, cycle: int) -> None:
    """In lanes or not, with traces that underflow among them: paths equal, logarithms up to rounding."""
    rng = np.random.default_rng(12)
    matrices = rng.random((cycle, 9, 9)) * (rng.random((cycle, 9, 9)) < density) + 0.01 * np.eye(9)
    matrices /= matrices.sum(2, keepdims=True)
    places = np.sort(rng.choice(12, 9, replace=False))
    priors = [MovementPrior.from_dense(f"p{i}", matrices, places) for i in range(70)]
    labels = rng.integers(0, 3, (5, 12)).astype(np.int32)
    likelihood = rng.choice([0.25, 0.5, 1.0], (70, 5, 3))
    likelihood[7] *= 2.0**-1072
    names = [str(m) for m in range(12)]
    apart = decode(Population.pack(priors, names), labels, likelihood)
    one = Population.pack(priors[:1], names).prior(0)
    together = decode(one, labels[:, : places[-1] + 1], likelihood)
    assert np.array_equal(together.path, apart.path)
    assert np.allclose(together.log_likelihood, apart.log_likelihood, rtol=1e-12)
    assert np.allclose(together.log_path, apart.log_path, rtol=1e-12)


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    rng = np.random.default_rng(6)
    arrays = random_population(rng, 300, 9, 0.5).arrays
    labels = rng.integers(0, 3, (6, 50)).astype(np.int32)
    observations = Observations(labels, rng.random((300, 6, 3)))
    results = []
    before = numba.get_num_threads()
    try:
        for threads in range(1, min(2, numba.config.NUMBA_NUM_THREADS) + 1):
            numba.set_num_threads(threads)
            decoded = empty_decoded(300, 6)
            decode_people(People(arrays, smallest_entries(arrays), 0), observations, decoded)
            shared, exact = empty_decoded(300, 6), np.empty(300, bool)
            matrix = np.ascontiguousarray(random_matrix(np.random.default_rng(1), 50, "full").T)
            decode_shared(SharedChain(matrix, np.full(50, 0.02)), observations, shared, exact)
            results.append([array.tobytes() for array in (*decoded, *shared)])
    finally:
        numba.set_num_threads(before)
    assert all(result == results[0] for result in results)


def test_shared_matrix_equals_everybody_having_a_copy_of_it() -> None:
    rng = np.random.default_rng(7)
    places, people, steps = 30, 130, 6
    matrix = random_matrix(rng, places, "full")
    priors = [
        MovementPrior.from_dense(f"p{i}", matrix, initial=np.full(places, 1 / places)) for i in range(people)
    ]
    population = Population.pack(priors)
    labels = rng.integers(0, 3, (steps, places)).astype(np.int32)
    likelihood = rng.random((people, steps, 3))
    likelihood[5, 3] = 0.0
    own, shared, exact = empty_decoded(people, steps), empty_decoded(people, steps), np.empty(people, bool)
    observations = Observations(labels, likelihood)
    decode_people(People(population.arrays, smallest_entries(population.arrays), 0), observations, own)
    columns = np.ascontiguousarray(population.prior(0).transitions[0].toarray().T)
    decode_shared(SharedChain(columns, np.full(places, 1 / places)), observations, shared, exact)
    assert exact.all()
    assert np.array_equal(own.status, shared.status)
    assert shared.status[5] == 3
    possible = own.status == POSSIBLE
    assert np.array_equal(own.path[possible], shared.path[possible])
    assert np.allclose(own.log_likelihood[possible], shared.log_likelihood[possible], rtol=1e-13)
    assert np.allclose(own.log_path[possible], shared.log_path[possible], rtol=1e-13)


def test_underflow_under_a_shared_matrix_is_reported_for_whom_it_may_matter() -> None:
    rng = np.random.default_rng(10)
    matrix = np.ascontiguousarray(random_matrix(rng, 6, "full").T)
    labels = np.tile(np.array([0, 1, 0, 1, 0, 1], np.int32), (3, 1))
    likelihood = np.ones((11, 3, 2))
    likelihood[4, 1] = [1.0, 1e-320]  # hides half of the places
    likelihood[7] *= 2.0**-1072  # everything is small
    shared, exact = empty_decoded(11, 3), np.empty(11, bool)
    decode_shared(SharedChain(matrix, np.full(6, 1 / 6)), Observations(labels, likelihood), shared, exact)
    assert np.flatnonzero(~exact).tolist() == [4, 7]
    assert np.isfinite(shared.log_likelihood[exact]).all()


@pytest.mark.slow
@pytest.mark.indices
@pytest.mark.parametrize("density", [0.3, 1.0])
def test_likelihoods_and_paths_equal_hmmlearn(density: float) -> None:
    hmm = pytest.importorskip("hmmlearn.hmm")
    rng = np.random.default_rng(8)
    population = random_population(rng, 12, 20, density)
    labels = rng.integers(0, 3, (1, 50)).astype(np.int32).repeat(15, axis=0)
    emission = rng.dirichlet(np.ones(4), size=3)  # outcome -> symbol
    symbols = rng.integers(0, 4, (12, 15))
    likelihood = np.ascontiguousarray(emission.T[symbols])
    decoded = decode(population, labels, likelihood)
    for i in range(0, 12, 2):  # the people without a cycle
        prior = population.prior(i)
        peer = hmm.CategoricalHMM(20, implementation="log")
        initial = population.initial(i)
        peer.startprob_ = population.chain(i).start[0] if initial is None else initial
        peer.transmat_ = prior.transitions[0].toarray()
        peer.emissionprob_ = emission[labels[0][prior.places]]
        assert np.isclose(peer.score(symbols[i][:, None]), decoded.log_likelihood[i], rtol=1e-10)
        log_path, path = peer.decode(symbols[i][:, None])
        assert np.isclose(log_path, decoded.log_path[i], rtol=1e-10)
        assert np.array_equal(path, decoded.path[i])


def test_probabilities_down_to_1e_300_lose_nothing() -> None:
    tiny = 1e-300
    chain = chain_of(np.array([[1 - tiny, tiny], [tiny, 1 - tiny]]))
    labels = np.array([[1, 2]] * 4, np.int32)
    seen = np.array(
        [[0, 1, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1]], float
    )  # there, and there again: three rare moves
    population = Population.pack([MovementPrior.from_dense("p", _dense(chain), initial=np.array([0.5, 0.5]))])
    decoded = decode(population, labels, seen[None])
    assert np.isclose(decoded.log_likelihood[0], 3 * np.log(tiny) + np.log(0.5), rtol=1e-12)
    assert decoded.path[0].tolist() == [0, 1, 0, 1]


def test_two_rare_moves_hidden_from_scaled_arithmetic_are_found_in_logarithms() -> None:
    """0 -> 1 -> 2 -> 3 has probability 1e-480; only then is the last observation possible."""
    rare = 1e-160
    matrix = np.eye(4)
    for x in range(3):
        matrix[x, x + 1], matrix[x, x] = rare, 1.0
    population = Population.pack([MovementPrior.from_dense("p", matrix, initial=np.eye(4)[0])])
    labels = np.array([[0, 0, 0, 1]] * 4, np.int32)
    seen = np.ones((1, 4, 2))
    seen[0, 3] = [0.0, 1.0]
    decoded = decode(population, labels, seen)
    assert np.isclose(decoded.log_likelihood[0], 3 * np.log(rare), rtol=1e-12)
    assert decoded.path[0].tolist() == [0, 1, 2, 3]


@pytest.mark.slow
@pytest.mark.indices
def test_near_deterministic_chain_over_1000_steps_and_5000_places_stays_finite() -> None:
    """A ring of 5000 places: the person stays, or moves on with 1e-6; seen at both ends."""
    places, steps = 5000, 1000
    ring = np.arange(places)
    prior = MovementPrior.from_triplets(
        "p",
        ring,
        Triplets(
            np.concatenate([ring, ring]),
            np.concatenate([ring, (ring + 1) % places]),
            np.concatenate([np.full(places, 1 - 1e-6), np.full(places, 1e-6)]),
        ),
    )
    population = Population.pack([prior])
    labels = np.zeros((steps, places), np.int32)
    labels[0, 17] = labels[-1, 27] = 1
    seen = np.ones((1, steps, 2))
    seen[0, 0, 0] = seen[0, -1, 0] = 0.0
    decoded = decode(population, labels, seen)
    moves = 10 * np.log(1e-6) + (steps - 11) * np.log1p(-1e-6) - np.log(places)
    assert np.isclose(decoded.log_path[0], moves, rtol=1e-9)
    assert (decoded.path[0][0], decoded.path[0][-1]) == (17, 27)
    assert np.isfinite(decoded.log_likelihood[0])
    assert decoded.log_likelihood[0] >= decoded.log_path[0]


def test_impossible_observation_names_person_and_step_and_what_to_do() -> None:
    population = Population.pack(
        [MovementPrior.from_dense(name, np.eye(2), initial=np.array([1.0, 0.0])) for name in ("ann", "bob")]
    )
    labels = np.array([[0, 1]] * 3, np.int32)
    seen = np.ones((2, 3, 2))
    seen[1, 2] = [0.0, 1.0]
    with pytest.raises(ImpossibleObservationError, match=r"person 'bob' in step 2.*smooth the prior"):
        decode(population, labels, seen)


def test_labels_and_likelihoods_of_the_wrong_shape_are_refused() -> None:
    population = Population.pack([MovementPrior.from_dense("p", np.eye(2))])
    with pytest.raises(HorizonError, match="labels must be"):
        decode(population, np.zeros((3, 5), np.int32), np.ones((1, 3, 1)))
    with pytest.raises(HorizonError, match="likelihoods must be"):
        decode(population, np.ones((3, 2), np.int32), np.ones((1, 3, 1)))


def _dense(chain) -> NDArray[np.float64]:
    matrix = np.zeros((chain.places.size,) * 2)
    for y in range(chain.places.size):
        inside = slice(chain.column_start[0, y], chain.column_start[0, y + 1])
        matrix[chain.row[inside], y] = chain.value[inside]
    return matrix
