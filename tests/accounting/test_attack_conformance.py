"""What every attack promises. A new attack joins by adding a line to ``ATTACKS_TO_TEST``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting.attacks import ATTACKS, Attack, RecordedTarget, Target, attack_person
from accounting.exposure import Exposure
from models.mechanisms import Gaussian, Mechanism, Raw, Suppressed
from tests.accounting.chains import Case, random_case
from tests.accounting.enumeration import all_paths, optimum, prior_optimum, raw_channels
from tests.accounting.exposures import case_exposure, exposure_to, step_of

ATTACKS_TO_TEST = ("map", "prior", "constant", "marginal", "either", "searched")
SURE = 1.0 - 1e-9
seeds = st.integers(0, 2**32 - 1)
pytestmark = pytest.mark.parametrize(
    "attack", [ATTACKS[name] for name in ATTACKS_TO_TEST], ids=ATTACKS_TO_TEST
)


def exposure_of(case: Case, mechanism: Callable[[int], Mechanism]) -> Exposure:
    """The case with a sensor at each of its hits, mechanisms by running number."""
    number, steps = 0, []
    for row in case.labels:
        hits = np.flatnonzero(row).tolist()
        steps.append(step_of(hits, [mechanism(number + k) for k in range(len(hits))]))
        number += len(hits)
    return exposure_to(case.start, case.matrices, steps, case.first_slot)


def test_it_is_registered_under_its_name(attack: Attack) -> None:
    assert ATTACKS[attack.name] is attack
    assert set(ATTACKS) == set(ATTACKS_TO_TEST)


@given(seeds)
@settings(max_examples=25)
def test_on_raw_counts_it_stays_below_the_exact_optimum(attack: Attack, seed: int) -> None:
    """Of all adversaries that see the counts, by enumeration; a blind one below the best blind guess."""
    case = random_case(np.random.default_rng(seed))
    everything = all_paths(case.start, case.matrices, len(case.labels), case.first_slot)
    exposure = case_exposure(case)
    for mistakes in range(exposure.steps):
        highest = optimum(everything, raw_channels(case.labels), mistakes)
        if attack.is_blind:
            highest = prior_optimum(everything, mistakes)
        result = attack.success(Target(exposure, mistakes, 2_000, confidence=SURE))
        if result is not None:
            assert 0.0 <= result.low <= result.success <= result.high <= 1.0
            assert result.low <= highest + 1e-12


@pytest.mark.parametrize("places", [2, 3, 4])
def test_a_move_of_any_rarity_does_not_lift_it_above_the_optimum(attack: Attack, places: int) -> None:
    """Patterns of hits from those that matter to those that hardly ever come, which nobody looks at."""
    labels = np.zeros((5, places), dtype=np.int32)
    labels[0, 1] = labels[1, 0] = labels[2, 0] = 1
    for rare in np.geomspace(1e-8, 1e-2, 45):
        matrix = np.full((places, places), 0.5 / (places - 1)) + (0.5 - 0.5 / (places - 1)) * np.eye(places)
        matrix[0] = (1.0 - rare) / (places - 1)
        matrix[0, 0] = rare
        case = Case(np.linspace(0.8, 0.2, places) / places * 2.0, matrix[np.newaxis], labels)
        highest = optimum(all_paths(case.start, case.matrices, 5), raw_channels(labels), 1)
        result = attack.success(Target(case_exposure(case), 1, 100, confidence=SURE))
        assert result is not None and result.low <= highest + 1e-12


@given(seeds)
@settings(max_examples=10)
def test_noise_does_not_help_it(attack: Attack, seed: int) -> None:
    """Sampled under noise, it stays below the optimum for the same counts without noise."""
    case = random_case(np.random.default_rng(seed), largest=3, longest=3)
    everything = all_paths(case.start, case.matrices, len(case.labels), case.first_slot)
    exposure = exposure_of(case, lambda k: (Gaussian(0.8), Raw(), Suppressed())[k % 3])
    result = attack.success(Target(exposure, 0, 2_000, seed % 1000, SURE))
    if result is not None:
        assert result.low <= optimum(everything, raw_channels(case.labels), 0) + 1e-12


@pytest.mark.parametrize("mechanism", [Raw(), Gaussian(1.0)], ids=repr)
def test_the_same_seed_gives_the_same_result(attack: Attack, mechanism: Mechanism) -> None:
    exposure = exposure_of(random_case(np.random.default_rng(8)), lambda _: mechanism)
    first, again = (attack.success(Target(exposure, 1, 5_000, 7)) for _ in range(2))
    assert first == again


@pytest.mark.parametrize("mechanism", [Raw(), Gaussian(1.0), Suppressed()], ids=repr)
def test_edge_cases_have_the_result_they_must_have(attack: Attack, mechanism: Mechanism) -> None:
    """One place; nobody who moves, and counts of nothing but one place; no sensor at all."""
    everywhere = [step_of([0], [mechanism])] * 3
    one_place = exposure_to(np.ones(1), np.ones((1, 1, 1)), everywhere)
    still = exposure_to(np.array([0.0, 1.0]), np.eye(2)[None], everywhere)
    unseen = exposure_to(np.array([0.0, 1.0]), np.eye(2)[None], [step_of([], [])] * 3)
    for exposure in (one_place, still, unseen):
        for mistakes in (0, 2):
            result = attack.success(Target(exposure, mistakes, 100))
            assert result is None or result.success == 1.0


def test_a_replayed_trace_counts_as_right_or_wrong(attack: Attack) -> None:
    """Somebody who never moves is found by whoever is replayed; whoever leaves the known places is not."""
    exposure = exposure_to(np.array([0.0, 1.0]), np.eye(2)[None], [step_of([1], [Raw()])] * 3)
    usual = attack.replay(RecordedTarget(Target(exposure, 0), np.array([1, 1, 1])))
    moved = attack.replay(RecordedTarget(Target(exposure, 0), np.array([1, 0, 1])))
    if usual is None or moved is None:
        assert usual is moved is None
        return
    assert (usual.success, usual.impossible) == (1.0, 0)
    assert moved.success == 0.0


def test_it_is_tried_where_it_can_be(attack: Attack) -> None:
    """What the face returns under its name is what the attack itself says."""
    exposure = case_exposure(random_case(np.random.default_rng(3)))
    assert attack_person(exposure, 0, 500).get(attack.name) == attack.success(Target(exposure, 0, 500))
