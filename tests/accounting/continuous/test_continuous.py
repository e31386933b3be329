"""The continuous accountant against enumeration of every trajectory and everything ever released."""

from __future__ import annotations

from dataclasses import dataclass, replace
from io import BytesIO

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.exceptions import SettingsError, SnapshotError, StepOrderError
from accounting.settings import HorizonSettings
from models.mechanisms import Raw
from models.priors import MovementPrior, Population
from models.releases import StepSchedule
from tests.accounting.chains import random_case
from tests.accounting.enumeration import all_paths, entropy_of, joint_law, window_law, within
from tests.accounting.random_runs import (
    MECHANISMS,
    channel,
    population_of,
    random_step,
    raw_step,
    releases,
    start_of,
)
from tests.volume import randoms


def names(count: int) -> list[str]:
    return [str(k) for k in range(count)]


@dataclass
class Truth:
    """What enumeration says about the horizon that ends with the last of some steps."""

    information_nats: float
    optima: list[float]  # by mistakes


def truth(start, matrices, channels, first, first_slot) -> Truth:
    everything = all_paths(start, matrices, len(channels), first_slot)
    traces, law = window_law(everything, joint_law(everything, channels), (first, len(channels) - 1))
    information = entropy_of(law.sum(1)) + entropy_of(law.sum(0)) - entropy_of(law.ravel())
    steps = traces.shape[1]
    optima = [float((within(traces, traces, s) @ law).max(0).sum()) for s in range(steps)]
    return Truth(information, optima)


def check_against_truth(
    rng: np.random.Generator, mechanisms, longest: int, above: float = 0.0
) -> tuple[int, int]:
    """One random person and schedule; how many horizons were checked and how many bounds said something."""
    case = random_case(rng, largest=4, longest=longest)
    places, steps = case.matrices.shape[1], len(case.labels)
    population = population_of(case, own_start=rng.random() < 0.5)
    horizon = int(rng.integers(1, steps + 1))
    accountants = [
        ContinuousAccountant(
            population, HorizonSettings(horizon, s, first_slot=case.first_slot, sharpen_above=above)
        )
        for s in range(horizon)
    ]
    channels: list[np.ndarray] = []
    checked = informative = 0
    for t in range(steps):
        step = random_step(rng, t, places, mechanisms)
        channels.append(channel(places, step))
        for accountant in accountants:
            accountant.apply(step)
        if t + 1 < horizon:
            continue
        if np.prod([c.shape[1] for c in channels]) * places ** (t + 1) > 2e6:
            break
        start = start_of(population, case.first_slot)
        found = truth(start, case.matrices, channels, t + 1 - horizon, case.first_slot)
        for s, accountant in enumerate(accountants):
            risk = accountant.risk()[0]
            assert accountant.information_nats()[0] >= found.information_nats - 1e-10
            assert accountant.baseline()[0] <= found.optima[s] + 1e-10
            assert risk >= found.optima[s] - 1e-10
            assert risk <= 1.0
            checked += 1
            informative += risk < 0.99
    return checked, informative


@pytest.mark.slow
@pytest.mark.indices
@pytest.mark.parametrize("seed", range(3))
def test_risk_is_never_below_the_optimum_given_everything_released_raw(seed):
    rng = np.random.default_rng(seed)
    counts = [check_against_truth(rng, (Raw(),), longest=5) for _ in range(60)]
    checked, informative = np.sum(counts, axis=0)
    assert checked > 150
    assert informative > 10


@pytest.mark.slow
@pytest.mark.indices
def test_risk_is_never_below_the_optimum_given_everything_released_with_noise_and_sets_of_places():
    rng = np.random.default_rng(99)
    counts = [check_against_truth(rng, MECHANISMS, longest=4) for _ in range(60)]
    assert np.sum(counts, axis=0)[0] > 100


@pytest.mark.thorough
@pytest.mark.slow
def test_risk_is_never_below_the_optimum_on_many_chains():
    counts = [check_against_truth(rng, MECHANISMS, longest=5) for rng in randoms(2024, 1500)]
    assert np.sum(counts, axis=0)[0] > 2 * len(counts)


def test_the_adversary_remembers_what_was_released_before_the_horizon():
    stay = np.array([[0.99, 0.01], [0.01, 0.99]])
    population = Population.pack([MovementPrior.from_dense("slow", stay)], names(2))
    accountant = ContinuousAccountant(population, HorizonSettings(horizon=5, mistakes=0))
    accountant.apply(raw_step(0, 0))
    for t in range(1, 6):
        accountant.apply(StepSchedule(t))
    truly = 0.99**5  # where the person was is known, then five times "stayed"; 0.48 if one forgets that
    assert accountant.risk()[0] >= truly


def test_who_never_moves_is_known_for_ever_after_one_raw_release():
    population = Population.pack([MovementPrior.from_dense("p", np.eye(2), initial=[0.5, 0.5])], names(2))
    accountant = ContinuousAccountant(population, HorizonSettings(horizon=3, mistakes=0))
    accountant.apply(raw_step(0, 0))
    for t in range(1, 50):
        accountant.apply(StepSchedule(t))
    assert accountant.risk()[0] == 1.0
    assert accountant.baseline()[0] == 0.5


def test_what_was_learned_fades_for_one_who_moves_on():
    mixing = np.full((4, 4), 0.1) + 0.6 * np.eye(4)
    population = Population.pack([MovementPrior.from_dense("p", mixing)], names(4))
    accountant = ContinuousAccountant(population, HorizonSettings(horizon=3, mistakes=0))
    before = accountant.risk()[0]
    accountant.apply(raw_step(0, 0, 1, 2, 3))
    at_release = accountant.risk()[0]
    for t in range(1, 60):
        accountant.apply(StepSchedule(t))
    assert at_release > before
    assert before <= accountant.risk()[0] < before * (1 + 1e-5)


def sparse_people(rng: np.random.Generator, count: int, locations: int = 40) -> Population:
    """People of few places, some with a cycle, some with a start of their own."""
    priors = []
    for i in range(count):
        size = int(rng.integers(1, 7))
        slots = int(rng.choice([1, 1, 3]))
        matrices = rng.dirichlet(np.full(size, 0.4), size=(slots, size))
        initial = rng.dirichlet(np.ones(size)) if rng.random() < 0.2 else None
        places = np.sort(rng.choice(locations, size, replace=False))
        priors.append(MovementPrior.from_dense(f"p{i}", matrices, places=places, initial=initial))
    return Population.pack(priors, names(locations))


def a_schedule(
    rng: np.random.Generator, steps: int, first: int = 0, locations: int = 40
) -> list[StepSchedule]:
    return [
        StepSchedule(
            first + t,
            releases(
                *(
                    ((int(at),), MECHANISMS[rng.integers(len(MECHANISMS))])
                    for at in rng.choice(locations, rng.integers(0, 9), replace=False)
                )
            ),
        )
        for t in range(steps)
    ]


@pytest.mark.slow
def test_a_replay_and_a_snapshot_give_the_same_state_bit_for_bit():
    rng = np.random.default_rng(8)
    population = sparse_people(rng, 60)
    settings = HorizonSettings(horizon=4, mistakes=1, first_slot=1)
    steps = a_schedule(rng, 30)
    live = ContinuousAccountant(population, settings)
    live.apply_all(steps[:17])
    resumed = ContinuousAccountant(population, settings)
    resumed.restore(live.snapshot())
    live.apply_all(steps[17:])
    resumed.apply_all(steps[17:])
    replayed = ContinuousAccountant(population, settings)
    replayed.apply_all(steps)
    assert live.snapshot() == resumed.snapshot() == replayed.snapshot()


def test_a_persons_risk_does_not_depend_on_the_partition_they_are_in():
    rng = np.random.default_rng(9)
    population = sparse_people(rng, 50)
    steps = a_schedule(rng, 12)
    whole = ContinuousAccountant(population, HorizonSettings(4, 1))
    whole.apply_all(steps)
    parts = [ContinuousAccountant(part, HorizonSettings(4, 1)) for part in population.split(3)]
    for part in parts:
        part.apply_all(steps)
    assert np.array_equal(whole.risk(), np.concatenate([part.risk() for part in parts]))


@pytest.mark.slow
@pytest.mark.indices
def test_threads_do_not_change_a_bit():
    import numba

    rng = np.random.default_rng(10)
    population = sparse_people(rng, 1200)
    steps = a_schedule(rng, 5)
    found = []
    before = numba.get_num_threads()
    try:
        for threads in (1, before):
            numba.set_num_threads(threads)
            accountant = ContinuousAccountant(population, HorizonSettings(4, 1))
            accountant.apply_all(steps)
            found.append(accountant.snapshot())
    finally:
        numba.set_num_threads(before)
    assert found[0] == found[1]


def test_releases_before_a_person_joined_are_not_theirs():
    rng = np.random.default_rng(12)
    population = sparse_people(rng, 40)
    settings = HorizonSettings(horizon=4, mistakes=1)
    early, late = a_schedule(rng, 9), a_schedule(rng, 9, first=9)
    joined = ContinuousAccountant(population, settings, effective_from=np.full(40, 9))
    joined.apply_all([*early, *late])
    quiet = ContinuousAccountant(population, settings, effective_from=np.full(40, 9))
    quiet.apply_all([*(StepSchedule(t) for t in range(9)), *late])
    assert np.array_equal(joined.risk(), quiet.risk())
    begun_late = ContinuousAccountant(population, HorizonSettings(horizon=4, mistakes=1, first_step=9))
    begun_late.apply_all(late)
    assert np.array_equal(joined.risk(), begun_late.risk())


def test_the_summary_counts_people_at_or_above_each_threshold():
    rng = np.random.default_rng(13)
    accountant = ContinuousAccountant(sparse_people(rng, 80), HorizonSettings(4, 1, (0.2, 0.6)))
    accountant.apply_all(a_schedule(rng, 8))
    risk, added = accountant.risk(), accountant.added()
    summary = accountant.summary()
    assert summary.step == 7
    assert summary.people == 80
    assert summary.at_risk == {0.2: int((risk >= 0.2).sum()), 0.6: int((risk >= 0.6).sum())}
    assert summary.at_added_risk == {0.2: int((added >= 0.2).sum()), 0.6: int((added >= 0.6).sum())}
    assert summary.risk_quantiles[1.0] == risk.max()
    assert summary.mean_risk == pytest.approx(risk.mean())


def test_crossings_are_the_people_whose_highest_reached_threshold_changed():
    population = Population.pack([MovementPrior.from_dense("p", np.full((4, 4), 0.25))], names(4))
    accountant = ContinuousAccountant(population, HorizonSettings(1, 0, (0.5,)))
    accountant.apply(StepSchedule(0))
    assert accountant.crossings().tolist() == []
    accountant.apply(raw_step(1, 0, 1, 2))
    assert accountant.crossings().tolist() == [0]
    accountant.apply(raw_step(2, 0, 1, 2))
    assert accountant.crossings().tolist() == []
    accountant.apply(StepSchedule(3))
    assert accountant.crossings().tolist() == [0]


def test_a_step_out_of_order_is_refused_and_leaves_no_trace():
    rng = np.random.default_rng(14)
    accountant = ContinuousAccountant(sparse_people(rng, 5), HorizonSettings(4, 1))
    before = accountant.snapshot()
    with pytest.raises(StepOrderError, match="next step must be 0, got 1"):
        accountant.apply(StepSchedule(1))
    assert accountant.snapshot() == before


def test_settings_and_snapshots_that_do_not_fit_are_refused():
    rng = np.random.default_rng(15)
    with pytest.raises(SettingsError, match=r"mistakes must lie in 0\.\.3"):
        HorizonSettings(horizon=4, mistakes=4)
    with pytest.raises(SettingsError, match="thresholds"):
        HorizonSettings(thresholds=(0.5, 0.1))
    accountant = ContinuousAccountant(sparse_people(rng, 5), HorizonSettings(4, 1))
    other = ContinuousAccountant(sparse_people(rng, 6), HorizonSettings(4, 1))
    with pytest.raises(SnapshotError):
        accountant.restore(other.snapshot())


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"mistakes": 2}, "other mistakes"),
        ({"first_slot": 2}, "other first_slot"),
        ({"sharpen": False}, "other sharpen"),
        ({"thresholds": (0.2,)}, "other thresholds"),
    ],
)
def test_a_snapshot_of_other_settings_is_refused_by_name(changed, words):
    population = sparse_people(np.random.default_rng(15), 5)
    settings = HorizonSettings(horizon=4, mistakes=1, first_slot=1)
    other = ContinuousAccountant(population, replace(settings, **changed))
    with pytest.raises(SnapshotError, match=words):
        ContinuousAccountant(population, settings).restore(other.snapshot())


def test_a_snapshot_of_other_people_or_of_another_beginning_is_refused():
    rng = np.random.default_rng(15)
    population, settings = sparse_people(rng, 5), HorizonSettings(4, 1)
    accountant = ContinuousAccountant(population, settings)
    for other in (
        ContinuousAccountant(sparse_people(rng, 5), settings),
        ContinuousAccountant(population.subset([1, 0, 2, 3, 4]), settings),
    ):
        with pytest.raises(SnapshotError, match="other people"):
            accountant.restore(other.snapshot())
    since = ContinuousAccountant(population, settings, np.full(5, 3))
    with pytest.raises(SnapshotError, match="other since"):
        accountant.restore(since.snapshot())


def harmed(snapshot: dict[str, np.ndarray], name: str, value: object) -> bytes:
    """A snapshot in which one array is another, or with None is missing."""
    arrays = {**snapshot, name: np.asarray(value)}
    if value is None:
        del arrays[name]
    out = BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


@pytest.mark.slow
@pytest.mark.indices
def test_a_snapshot_that_is_refused_leaves_no_trace():
    """Whichever array is the wrong one: nothing is written before everything is checked."""
    rng = np.random.default_rng(15)
    accountant = ContinuousAccountant(sparse_people(rng, 5), HorizonSettings(4, 1))
    before = accountant.snapshot()
    ahead = ContinuousAccountant(accountant.population, accountant.settings)
    ahead.apply_all(a_schedule(rng, 7))
    good = ahead.snapshot()
    with np.load(BytesIO(good)) as stored:
        arrays = dict(stored)
    names = [name for name in arrays if name != "basis"]
    assert len(names) > 20
    bad = [harmed(arrays, name, value) for name in names for value in (None, np.zeros((3, 3, 3)))]
    for snapshot in [*bad, b"", b"PK", good[:-30], b"\x80\x04."]:
        with pytest.raises(SnapshotError):
            accountant.restore(snapshot)
        assert accountant.snapshot() == before
    accountant.restore(good)
    assert accountant.snapshot() == good


def test_settings_that_figures_rest_on_stay_as_they_were_opened_with() -> None:
    """Only how hard people are looked at may be set anew."""
    prior = MovementPrior.from_dense("p", np.full((2, 2), 0.5), places=range(2))
    accountant = ContinuousAccountant(Population.pack([prior], ["a", "b"]), HorizonSettings(4, 1))
    accountant.settings = replace(accountant.settings, sharpen=False, operations=5)
    for other in (HorizonSettings(5, 1), HorizonSettings(4, 2), HorizonSettings(4, 1, vectors=4)):
        with pytest.raises(SettingsError, match="in sharpen and operations only"):
            accountant.settings = other
    with pytest.raises(SettingsError, match="must be HorizonSettings"):
        accountant.settings = 4  # type: ignore[assignment]
    assert accountant.settings.horizon == 4
