"""Priors that are right pass at the promised level; priors that are wrong are found, in both directions."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import rel_entr
from scipy.stats import binom, kstest

from accounting.audit.calibration import (
    CheckSettings,
    PriorsCheck,
    RecordedPeople,
    Verdict,
    check_priors,
    hits_law,
    sharpness,
)
from accounting.exceptions import HorizonError, SettingsError
from models.priors import MovementPrior, Population
from models.releases import Schedule
from tests.accounting.calibration.walkers import (
    Floats,
    population,
    random_people,
    sharpened,
    walked,
)

STEPS, REPETITIONS, LEVEL = 3, 250, 0.2


@pytest.fixture(scope="module")
def repeated() -> list[PriorsCheck]:
    """The same eight people, again and again walking as their priors say; a generous level, to see alarms."""
    random = np.random.default_rng(17)
    people = random_people(random, 8, slots=2)
    priors = population(people)
    settings = CheckSettings(groups=2, level=LEVEL)
    return [check_priors(priors, walked(random, people, STEPS), STEPS, settings) for _ in range(REPETITIONS)]


@pytest.mark.slow
def test_p_values_of_right_priors_are_uniform(repeated: list[PriorsCheck]) -> None:
    """Kolmogorov and Smirnov find nothing, once ties between equal counts are broken at random."""
    random = np.random.default_rng(5)
    predicted = repeated[0].guess.everybody.predicted
    values = []
    for check in repeated:
        row = check.guess.everybody
        assert row.predicted == predicted
        tie = row.p_higher + row.p_lower - 1.0
        assert tie > 0
        values.append(row.p_higher - random.random() * tie)
    assert kstest(values, "uniform").pvalue > 0.01
    # and the test has teeth: p-values of a prediction 0.1 too low are not uniform
    shifted = [max(0.0, value - 0.15) for value in values]
    assert kstest(shifted, "uniform").pvalue < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("verdict", [Verdict.TOO_LOW, Verdict.TOO_HIGH])
def test_right_priors_are_refuted_at_most_as_often_as_the_level_says(
    repeated: list[PriorsCheck], verdict: Verdict
) -> None:
    """Counting everybody and every group, the guess and the attack."""
    alarms = sum(check.refuted is verdict for check in repeated)
    assert binom.sf(alarms - 1, REPETITIONS, LEVEL) > 1e-3
    assert [check for check in repeated if check.verdict == "not refuted by 8 people"]


def checked(power: float, **changes: int) -> PriorsCheck:
    """Two hundred people whose rows are not those of their priors."""
    random = np.random.default_rng(8)
    people = random_people(random, 200)
    recorded = walked(random, sharpened(people, power), 4)
    return check_priors(population(people), recorded, 4, replace(CheckSettings(), **changes))


@pytest.mark.slow
@pytest.mark.indices
def test_people_with_sharper_rows_than_their_priors_are_found() -> None:
    """Ceilings too low: by the guess, by the attack, in most groups, and by less surprise."""
    found = checked(2.0)
    assert found.guess.refuted is found.attack.refuted is found.refuted is Verdict.TOO_LOW
    assert found.verdict == "ceilings too low"
    assert sum(group.refuted is Verdict.TOO_LOW for group in found.guess.groups) >= 2
    assert found.guess.everybody.p_higher < 1e-6
    assert found.sharpness.z is not None
    assert found.sharpness.z < -5
    assert found.kappa_min > 0


@pytest.mark.slow
@pytest.mark.indices
def test_people_with_flatter_rows_than_their_priors_are_found() -> None:
    """Too high: only the guess can say so, an attack may stay below its ceiling."""
    found = checked(0.3)
    assert found.refuted is found.guess.refuted is Verdict.TOO_HIGH
    assert found.attack.refuted is Verdict.NOT_REFUTED
    assert all(row.p_lower is None for row in (found.attack.everybody, *found.attack.groups))
    assert found.sharpness.z is not None
    assert found.sharpness.z > 5
    assert found.kappa_min == 0


def test_the_verdict_is_the_worst_groups_and_not_the_means() -> None:
    """Half are easier to guess than predicted, half harder: the mean agrees, the groups do not."""
    regular, erratic = np.array([[[0.5, 0.5], [0.5, 0.5]]]), np.array([[[0.9, 0.1], [0.9, 0.1]]])
    random = np.random.default_rng(2)
    priors = population([regular] * 60 + [erratic] * 60)
    found = check_priors(priors, walked(random, [erratic] * 60 + [regular] * 60, 3), 3)
    assert found.guess.everybody.refuted is Verdict.NOT_REFUTED
    low, high = found.guess.groups[0], found.guess.groups[-1]
    assert (low.refuted, high.refuted) == (Verdict.TOO_LOW, Verdict.TOO_HIGH)
    assert found.refuted is Verdict.TOO_LOW


def path_divergence(true: list[Floats], believed: list[Floats], steps: int) -> float:
    """Mean over people of ``KL(Q || P)`` of whole paths, by the chain rule."""
    found = []
    for chain, prior, law, start in zip(
        true, believed, population(true).priors(), population(believed).priors(), strict=True
    ):
        q = population([chain]).chain(0).start[0]
        p = population([prior]).chain(0).start[0]
        assert law.places.size == start.places.size
        total = rel_entr(q, p).sum()
        for _ in range(steps - 1):
            total += q @ rel_entr(chain[0], prior[0]).sum(axis=1)
            q = q @ chain[0]
        found.append(float(total))
    return float(np.mean(found))


@pytest.mark.slow
@pytest.mark.indices
def test_the_radius_refuted_is_below_the_true_one() -> None:
    """``kappa_min`` is a lower bound: above the true mean divergence in hardly any of thirty data sets."""
    random = np.random.default_rng(31)
    people = random_people(random, 25)
    true = sharpened(people, 3.0)
    radius = path_divergence(true, people, STEPS)
    priors = population(people)
    found = [
        check_priors(priors, walked(random, true, STEPS), STEPS, CheckSettings(mistakes=0)) for _ in range(30)
    ]
    refuted = [each.guess.everybody.kappa_min for each in found]
    assert max(refuted) > 0
    assert sum(value > radius for value in refuted) <= 4  # expected at most 1.5


def test_the_radius_of_a_group_is_the_formula() -> None:
    """``d(a_low || b)`` at 95 %, shared by the groups: 178 of 423 where 0.288 is predicted give 0.0197."""
    from accounting.audit.calibration import least_radius

    assert least_radius(178, 423, 0.288, 0.05) == pytest.approx(0.0197, abs=2e-4)
    assert least_radius(194, 423, 0.293, 0.05) == pytest.approx(0.035, abs=5e-4)
    assert least_radius(178, 423, 0.288, 0.0125) < least_radius(178, 423, 0.288, 0.05)
    assert least_radius(100, 423, 0.288, 0.05) == 0.0


@pytest.mark.slow
def test_surprise_has_mean_and_variance_of_the_rows() -> None:
    """Standard normal over many moves of right priors; the spread between people says the same."""
    random = np.random.default_rng(23)
    people = random_people(random, 30, slots=3)
    priors = population(people)
    found = [sharpness(priors, walked(random, people, 8)) for _ in range(80)]
    scores = np.array([each.z for each in found])
    assert abs(scores.mean()) < 0.35
    assert 0.8 < scores.std() < 1.25
    assert kstest(scores, "norm").pvalue > 0.01
    assert {each.moves for each in found} == {30 * 7}
    clustered = np.array([each.z_by_person for each in found])
    assert np.corrcoef(scores, clustered)[0, 1] > 0.95


def test_places_that_the_prior_excludes_are_counted_apart() -> None:
    """A move that cannot be, one from and one to a place never seen: none has a finite surprise."""
    priors = Population.pack(
        [MovementPrior.from_dense("p", [[0.5, 0.5, 0.0], [0.2, 0.5, 0.3], [0.4, 0.3, 0.3]], [0, 1, 2])],
        ["a", "b", "c", "d"],
    )
    recorded = RecordedPeople(np.array([0]), np.array([[0, 1, 3, 1, 0, 2]], dtype=np.int32), 0)
    found = sharpness(priors, recorded)
    assert (found.moves, found.unknown) == (2, 3)
    assert found.surprise == pytest.approx((np.log(2) - np.log(0.2)) / 2)
    nothing = sharpness(priors, replace(recorded, places=recorded.places[:, :1]))
    assert (nothing.moves, nothing.z) == (0, None)


def test_a_person_has_one_horizon_of_known_steps_in_the_slot_asked_for() -> None:
    """Unknown steps are stepped around, who has too few known ones is left out."""
    random = np.random.default_rng(4)
    people = random_people(random, 3, slots=2)
    recorded = walked(random, people, 9)
    places = recorded.places.copy()
    places[0, 4] = -1
    places[1, 2::3] = -1
    gaps = replace(recorded, places=places)
    found = check_priors(population(people), gaps, 4)
    assert (found.guess.everybody.people, found.left_out) == (2, 1)
    schedule = Schedule.raw([[0], [1], [0]], first_slot=1)
    assert check_priors(population(people), gaps, schedule).left_out == 1
    again = [check_priors(population(people), gaps, 4, CheckSettings(seed=seed)) for seed in (0, 0, 1, 2, 3)]
    assert again[0] == again[1]
    assert len({each.guess.everybody.predicted for each in again}) > 1


def test_an_attack_that_sees_raw_counts_is_held_against_the_ceiling_of_the_schedule() -> None:
    """It succeeds more often than the guess, and right priors still are not refuted."""
    random = np.random.default_rng(12)
    people = random_people(random, 60)
    schedule = Schedule.raw([[0], [1], [0]])
    found = check_priors(
        population(people), walked(random, people, 3), schedule, CheckSettings(mistakes=0, attack="map")
    )
    assert found.attack.everybody.predicted > found.guess.everybody.predicted + 0.1
    assert found.attack.everybody.realised > found.guess.everybody.realised
    assert found.refuted is Verdict.NOT_REFUTED


@pytest.mark.slow
@pytest.mark.indices
def test_the_groups_p_values_are_times_their_number() -> None:
    """Each is the exact tail of its own people; together they are everybody."""
    found = checked(1.0, groups=5)
    assert sum(group.people for group in found.guess.groups) == 200
    assert sum(group.hits for group in found.guess.groups) == found.guess.everybody.hits
    edges = [(group.predicted_lowest, group.predicted_highest) for group in found.guess.groups]
    assert all(before[1] <= after[0] for before, after in pairwise(edges))
    one_group = checked(1.0, groups=1).guess
    assert one_group.groups[0].p_higher == pytest.approx(one_group.everybody.p_higher)
    one = population([np.array([[[0.9, 0.1], [0.9, 0.1]]])] * 6)
    there = RecordedPeople(np.arange(6), np.zeros((6, 2), dtype=np.int32), 0)
    low = check_priors(one, there, 2, CheckSettings(mistakes=0, groups=3)).guess.groups[0]
    assert low.p_higher == pytest.approx(min(1.0, 3 * hits_law(np.full(2, 0.81))[2]))


def test_what_cannot_be_checked_is_said() -> None:
    """Settings out of range, a horizon that nobody has, an attack that is not replayed."""
    random = np.random.default_rng(1)
    people = random_people(random, 2)
    priors, recorded = population(people), walked(random, people, 4)
    with pytest.raises(HorizonError, match="at most the 4 recorded steps, got 5"):
        check_priors(priors, recorded, 5)
    with pytest.raises(HorizonError, match="mistakes must lie in 0"):
        check_priors(priors, recorded, 1)
    with pytest.raises(HorizonError, match="somebody must have 3 known steps"):
        check_priors(priors, replace(recorded, places=np.full((2, 4), -1, dtype=np.int32)), 3)
    with pytest.raises(SettingsError, match="must be one of map, prior, constant, marginal, got either"):
        check_priors(priors, recorded, 3, CheckSettings(attack="either"))
    for wrong in ({"attack": "mapp"}, {"groups": 0}, {"level": 0.0}, {"seed": -1}):
        with pytest.raises(SettingsError):
            CheckSettings(**wrong)
