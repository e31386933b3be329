"""What a crowd hides of one count: against exact modes, monotone, and what must not be got wrong."""

from __future__ import annotations

from itertools import pairwise
from math import log

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ive

from accounting.bounds import Effort, certify, question
from accounting.bounds.certified import SeenInCrowd, certify_in_crowd
from accounting.exceptions import SettingsError
from accounting.exposure import Exposure, baseline
from accounting.exposure.crowd import (
    LEVELS,
    CrowdAdversary,
    Crowded,
    HidingCrowd,
    Others,
    SensorCrowd,
    at_level,
    in_crowd,
    revealed,
)
from accounting.exposure.crowd.variance_kernel import COLUMNS, RATES, UNITS, difference_masses
from models.mechanisms import Correlated, Mechanism, Suppressed, Tiered
from models.noise import CorrelatedNoise, binary_entropy
from models.priors import MovementPrior, Population
from models.releases import Schedule, Sensor, SensorRelease, StepSchedule
from tests.accounting.crowd.collective import Count, collective_optimum, joint_law, others_law
from tests.accounting.crowd.instances import TargetApart
from tests.accounting.exposures import RAW, gaussian

APART = TargetApart()
COIN_MOVES = np.full((2, 2), 0.5)


def sums_of(q: NDArray[np.float64]) -> SensorCrowd:
    """A crowd of which nothing is revealed, of bits with the probabilities ``q``."""
    variance = q * (1.0 - q)
    transforms = [sum(rate * each for each in variance) for rate in RATES]  # ln e^(-rate v), turned around
    found = [variance.sum(), (2 * np.minimum(q, 1 - q)).sum(), *transforms]
    return SensorCrowd(tuple(int(each * UNITS) for each in found))


def product_tree(laws: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Law of a sum, pairs first."""
    while len(laws) > 1:
        pairs = [np.convolve(a, b) for a, b in zip(laws[::2], laws[1::2], strict=False)]
        laws = pairs + ([laws[-1]] if len(laws) % 2 else [])
    return laws[0]


@pytest.mark.parametrize("mechanism", [RAW, gaussian(0.5), gaussian(2.0), Tiered((("public", 0.8),))])
def test_no_value_of_a_count_is_likelier_than_what_is_revealed(mechanism: Mechanism) -> None:
    """``g`` of the sum of variances against the exact mode, also of the difference of two Poisson counts."""
    rng = np.random.default_rng(1)
    law = mechanism.noise_law()
    assert law is not None
    for _ in range(400):
        shape = rng.choice([0.05, 0.5, 5.0])
        q = rng.beta(shape, shape * rng.choice([1.0, 10.0]), size=int(rng.integers(1, 80)))
        q = np.where(rng.random(q.size) < 0.5, q, 1.0 - q)
        exact = product_tree([np.array([1 - each, each]) for each in q])
        mode = np.convolve(exact, law.probabilities).max()
        found = revealed(sums_of(q).variance(APART), mechanism)
        assert mode <= found
        if q.size * q.mean() * (1 - q.mean()) > 30 and mechanism is RAW:
            assert found < 1.1 * mode
    q = np.where(np.arange(20_000) % 2 == 0, 2.0 / 10_000, 1.0 - 2.0 / 10_000)  # where it is attained
    exact = np.convolve(product_tree([np.array([1 - each, each]) for each in q[:2000]]), law.probabilities)
    assert exact.max() <= revealed(sums_of(q[:2000]).variance(APART), mechanism) < 1.001 * exact.max()


def test_masses_of_the_difference_are_bessel_functions_rounded_up() -> None:
    for variance in (1e-5, 0.01, 0.3, 2.0, 40.0, 1e4, 3e6):
        masses = difference_masses(variance, 60)
        exact = ive(np.arange(61), variance)
        likely = exact > 1e-250
        assert (masses[likely] >= exact[likely] * (1 - 1e-13)).all()
        assert (masses[likely] <= exact[likely] * (1 + 1e-9)).all()
    assert difference_masses(0.0, 2).tolist() == [1.0, 0.0, 0.0]
    assert 0.0 < difference_masses(1e300, 0)[0] < 1e-4


def test_the_normal_value_would_be_no_bound() -> None:
    """``1 / sqrt(2 pi V)`` is below the mode of some crowds; what is used is not."""
    q = np.where(np.arange(600) % 2 == 0, 0.005, 0.995)
    mode = product_tree([np.array([1 - each, each]) for each in q]).max()
    variance = sums_of(q).variance(APART)
    assert (2 * np.pi * variance) ** -0.5 < mode <= revealed(variance, RAW)


def test_more_of_a_crowd_never_reveals_more() -> None:
    """In the variance, in the noise, in the number of others and of those who are known."""
    variances = [0.0, 1e-7, 1e-3, 0.2, 1.0, 5.0, 5.1, 300.0, 1e5, 1e10]
    for mechanism in (RAW, gaussian(0.6), gaussian(4.0)):
        found = [revealed(variance, mechanism) for variance in variances]
        assert all(a >= b for a, b in pairwise(found))
    for variance in variances:
        found = [revealed(variance, each) for each in (RAW, *map(gaussian, (0.3, 0.6, 1.0, 3.0, 10.0)))]
        assert all(a >= b * (1 - 1e-10) for a, b in pairwise(found))  # but for rounding up
    crowd = sums_of(np.full(100, 0.3))
    for known in range(100):
        more, fewer = CrowdAdversary(known=known), CrowdAdversary(known=known + 1)
        assert crowd.variance(more) >= crowd.variance(fewer)
        assert crowd.coins(more) >= crowd.coins(fewer)
        assert crowd.variance_at(0.01, more) >= crowd.variance_at(0.01, fewer)
    half, whole = CrowdAdversary(alone=0.5), CrowdAdversary()
    assert (crowd + crowd).variance(half) <= crowd.variance(whole)
    assert crowd.variance_at(1e-5, whole) <= crowd.variance_at(1e-2, whole) <= crowd.variance(whole)


def test_levels_hold_where_the_variance_is_drawn() -> None:
    """``Pr[V < v(b)] <= b`` for people who add 1/4 or nothing, at every level."""
    share, people = 0.3, 60
    transforms = [-people * log(1 - share * (1 - np.exp(-rate / 4))) for rate in RATES]
    found = [people * share / 4, 0.0, *transforms]
    crowd = SensorCrowd(tuple(int(each * UNITS) for each in found))
    law = product_tree([np.array([1 - share, share])] * people)
    for level in LEVELS:
        variance = crowd.variance_at(level, APART)
        below = law[np.arange(people + 1) / 4 < variance - 1e-12].sum()
        assert below <= level
    assert crowd.variance_at(0.5, APART) > 0.0
    assert crowd.variance_at(0.0, APART) == 0.0


def coin_exposure(steps: int, mechanism: Mechanism = RAW) -> tuple[Exposure, Schedule]:
    """Somebody who is at either of two places with 1/2, one of them counted in every step."""
    schedule = Schedule.of([[0]] * steps, mechanism)
    person = Population.pack([MovementPrior.from_dense("target", COIN_MOVES)])
    return Exposure.of(person.chain(0), schedule, 2), schedule


def ceiling(exposure: Exposure, seen: SeenInCrowd, mistakes: int = 0) -> float:
    without = baseline(exposure, mistakes).success
    return certify_in_crowd(exposure, seen, mistakes, Effort(), without).value


def crowd_of(people: int, schedule: Schedule) -> list[tuple[SensorCrowd, ...]]:
    others = Others(Population.pack([MovementPrior.from_dense(f"p{k}", COIN_MOVES) for k in range(people)]))
    return [others.apply(step) for step in schedule.steps]


def test_couples_must_not_be_counted_as_two_who_move_alone() -> None:
    """Ten couples, each there with 1/2: the parity of the count reveals all; as 20 people they would hide.

    Declared as what they are, nobody moving alone, they count for nothing and the ceiling is the true 1.
    """
    exposure, schedule = coin_exposure(1)
    target, couple = (np.array([0.5, 0.5]), COIN_MOVES[None]), (np.array([0.5, 0.5]), COIN_MOVES[None])
    count = [Count(0, np.array([True, False]), np.ones(1))]
    one_of_each = others_law([couple] * 10, count, 1)
    law = np.zeros(21)
    law[::2] = one_of_each
    best = collective_optimum(joint_law(target, count, law, (0, 0)), 0)
    assert best == pytest.approx(1.0)
    crowds = [(sums_of(np.full(20, 0.5)),)]
    wrong = ceiling(exposure, SeenInCrowd(schedule.steps, crowds, APART))
    assert wrong < 0.6 < best
    assert ceiling(exposure, SeenInCrowd(schedule.steps, crowds, TargetApart(alone=0.0))) == 1.0


def test_steps_of_a_crowd_are_not_independent() -> None:
    """Others who linger: as if each step had a crowd of its own the "ceiling" lies below what can be done.

    Two counts of the same five people, who nearly never move: their difference is the target's move.
    """
    linger = np.array([[0.999, 0.001], [0.001, 0.999]])
    half = np.array([0.5, 0.5])
    exposure, schedule = coin_exposure(3)
    counts = [Count(t, np.array([True, False]), np.ones(1)) for t in range(3)]
    law = others_law([(half, linger[None])] * 5, counts, 3)
    best = collective_optimum(joint_law((half, COIN_MOVES[None]), counts, law, (0, 2)), 0)
    independent = [(sums_of(np.full(5, 0.5)),)] * 3
    assert ceiling(exposure, SeenInCrowd(schedule.steps, independent, APART)) < best - 0.05
    people = Population.pack([MovementPrior.from_dense(f"p{k}", linger) for k in range(5)])
    others = Others(people)
    crowds = [others.apply(step) for step in schedule.steps]
    assert best <= ceiling(exposure, SeenInCrowd(schedule.steps, crowds, APART))


def test_who_knows_everybody_is_the_informed_adversary_to_the_bit() -> None:
    """``known`` as many as there are others, raw and noised: ceiling and its name are the informed ones."""
    for mechanism in (RAW, gaussian(0.8)):
        exposure, schedule = coin_exposure(4, mechanism)
        crowds = crowd_of(40, schedule)
        for mistakes in (0, 1):
            without = baseline(exposure, mistakes).success
            informed = certify(question(exposure, mistakes, Effort()), without)
            seen = SeenInCrowd(schedule.steps, crowds, CrowdAdversary(known=39))
            assert certify_in_crowd(exposure, seen, mistakes, Effort(), without) == informed
            fewer = SeenInCrowd(schedule.steps, crowds, CrowdAdversary())
            assert certify_in_crowd(exposure, fewer, mistakes, Effort(), without).value < informed.value


def test_nobody_hides_themselves_nor_behind_companions_or_the_known() -> None:
    """A crowd of the person alone, of a group, of people who are followed: the informed ceiling."""
    for people, adversary in (
        (1, CrowdAdversary()),
        (3, CrowdAdversary(known=2)),
        (3, CrowdAdversary(companions=2)),
    ):
        exposure, schedule = coin_exposure(3)
        crowds = crowd_of(people, schedule)
        assert sum(crowd.units[0] for step in crowds for crowd in step) > 0
        found = ceiling(exposure, SeenInCrowd(schedule.steps, crowds, adversary))
        assert found == certify(question(exposure, 0, Effort()), 0.0).value == 1.0
    thousand = SensorCrowd((300 * UNITS, 600 * UNITS, *(500 * UNITS for _ in RATES)))
    for missing in (CrowdAdversary(), CrowdAdversary(known=4), CrowdAdversary(companions=3, known=2)):
        people = 1 + missing.known + missing.companions
        assert thousand.variance(missing) == 300 - people / 4
        assert thousand.coins(missing) == 600 - people
        assert thousand.variance_at(1.0, missing) == pytest.approx(1000 - people / 4)


def test_a_level_is_shared_among_the_counts_that_see_the_person() -> None:
    """Of three, in one of which the person is never counted, two have half of it each."""
    places = MovementPrior.from_dense("target", np.full((2, 2), 0.5), places=[0, 1])
    person = Population.pack([places], ["0", "1", "2"])
    schedule = Schedule.of([[0], [2], [1]], RAW)
    exposure = Exposure.of(person.chain(0), schedule, 3)
    crowd = sums_of(np.full(4, 0.4))
    seen = SeenInCrowd(schedule.steps, [(crowd,)] * 3, APART)
    (first,), _, (last,) = (each.mechanisms for each in seen.at_level(exposure, 0.02).observations)
    shown = revealed(crowd.variance_at(0.01, APART), RAW)
    assert shown <= first.reveal_probability() <= 1.02 * shown
    assert last == first
    assert first.reveal_probability() < revealed(crowd.variance_at(0.001, APART), RAW)


def test_companions_shift_the_count_by_their_number() -> None:
    """A group of three among people who flip coins: above the optimum, and above the ceiling of one alone."""
    half = np.array([0.5, 0.5])
    coin = (half, COIN_MOVES[None])
    for mechanism, noise in ((RAW, np.ones(1)), (gaussian(0.7), gaussian(0.7).noise_law().probabilities)):
        exposure, schedule = coin_exposure(2, mechanism)
        counts = [Count(t, np.array([True, False]), noise) for t in range(2)]
        law = others_law([coin] * 30, counts, 2)
        best = collective_optimum(joint_law(coin, counts, law, (0, 1), group=3), 0)
        crowds = crowd_of(33, schedule)
        found = ceiling(exposure, SeenInCrowd(schedule.steps, crowds, CrowdAdversary(companions=2)))
        single = ceiling(exposure, SeenInCrowd(schedule.steps, crowds, CrowdAdversary()))
        assert single < found
        assert best <= found
        nobody = ceiling(
            exposure, SeenInCrowd(schedule.steps, crowd_of(1, schedule), CrowdAdversary(companions=2))
        )
        assert nobody >= ceiling(
            exposure, SeenInCrowd(schedule.steps, crowd_of(1, schedule), CrowdAdversary())
        )


def step_of(mechanism: Mechanism) -> StepSchedule:
    return StepSchedule(0, (SensorRelease(Sensor("s0", (0,)), mechanism),))


def test_information_is_the_least_of_what_crowd_and_noise_leave() -> None:
    """A share of the entropy, or the noise's own; never more than either at any probability."""
    p = np.linspace(0.0, 1.0, 2001)
    crowd = sums_of(np.full(40, 0.4))
    for mechanism in (RAW, gaussian(0.5), gaussian(3.0), Tiered((("public", 0.8),))):
        (release,) = in_crowd(step_of(mechanism), (crowd,), APART).releases
        share = min(revealed(crowd.variance(APART), mechanism), 1 / crowd.coins(APART))
        left = np.minimum(share * binary_entropy(p), mechanism.information(p))
        found = release.mechanism.information(p)
        assert (found >= left * (1 - 1e-9)).all()
        assert (found <= left * 1.03 + 1e-12).all()
        assert release.mechanism.reveal_probability() == mechanism.reveal_probability()


def test_only_a_channel_for_all_that_may_be_told_is_used_as_one() -> None:
    """The mean over what is revealed never becomes a reveal probability; a level does."""
    crowd = sums_of(np.full(40, 0.4))
    (mean,) = in_crowd(step_of(RAW), (crowd,), APART).releases
    (level,) = at_level(step_of(RAW), (crowd,), APART, 1e-3).releases
    assert mean.mechanism.reveal_probability() == 1.0
    assert isinstance(level.mechanism, Crowded)
    assert 0.0 < level.mechanism.reveal_probability() < 1.0
    assert level.mechanism.divergence() == np.inf


def test_what_is_not_released_stays_hidden_and_other_noise_counts_as_none() -> None:
    """Suppressed stays so; noise without a symmetric law of its own step is as good as none."""
    crowd = sums_of(np.full(40, 0.4))
    (suppressed,) = in_crowd(step_of(Suppressed()), (crowd,), APART).releases
    assert suppressed.mechanism == Suppressed()
    assert revealed(9.6, Correlated.of(CorrelatedNoise.of_covariance(np.eye(2)), 0)) == revealed(9.6, RAW)


def test_equivalent_noise_hides_no_better_than_the_crowd() -> None:
    """Gaussian noise of the scale that is shown reveals a bit at least as often."""
    nobody = SensorCrowd()
    assert HidingCrowd(nobody, APART).sigma == 0.0
    found = [HidingCrowd(sums_of(np.full(n, 0.3)), APART).sigma for n in (5, 50, 500, 50_000)]
    assert found == sorted(found)
    assert found[-1] == pytest.approx((50_000 * 0.21) ** 0.5, rel=0.01)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"known": -1}, "known must not be negative"),
        ({"companions": -2}, "companions must not be negative"),
        ({"alone": 1.2}, "must lie in 0..1"),
        ({"alone": float("nan")}, "must lie in 0..1"),
    ],
)
def test_an_adversary_out_of_range_is_refused(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        CrowdAdversary(**wrong)  # type: ignore[arg-type]


def test_no_sum_overflows_with_a_hundred_million_people() -> None:
    """The largest of a person's sums, a hundred million times, is a number of 64 bits."""
    most = max(16.2, *(rate / 4 for rate in RATES))
    assert most * UNITS * 1e8 < 2**63
    assert len(SensorCrowd().units) == COLUMNS
