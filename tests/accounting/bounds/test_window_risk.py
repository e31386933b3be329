"""Counts over windows: reference numbers, enumeration, and what must not change for counts of one step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting.bounds import Effort, horizon_risk
from accounting.bounds.windows import window_risk
from accounting.exceptions import HorizonError
from accounting.exposure.own_counts import OwnCount, own_count, own_count_law, window_information
from accounting.exposure.step_information import observe
from models.exceptions import ScheduleError, SensorError
from models.mechanisms import Gaussian, Mechanism, Raw, Suppressed
from models.noise import own_count_information, shift_probability
from models.releases import MoveSensor, Sensor, SensorRelease, StepSchedule, WindowRelease
from tests.accounting.own_counts_enumerated import (
    Counted,
    Log,
    mechanism_of,
    of_reference,
    passages,
    with_mechanism,
)

REFERENCE = range(20)


def reference(number: int) -> tuple[dict[str, Any], Log, list[Counted]]:
    case = passages()[number]
    return case, Log.of_reference(case), [of_reference(release) for release in case["releases"]]


@pytest.mark.parametrize("number", REFERENCE)
def test_own_counts_of_the_reference(number: int) -> None:
    """Law, delta and exact information of every release, and the sum with its carried terms, to 1e-8."""
    case, log, counted = reference(number)
    owns = []
    for release, most, law, delta, nats in zip(
        counted,
        case["most_counted"],
        case["law_of_own_count"],
        case["delta"],
        case["window_information"],
        strict=True,
    ):
        raw = release.as_release(most, Raw())
        found = own_count_law(log.exposure, raw)
        assert found == pytest.approx(law, abs=1e-8)
        information = own_count_information(found, release.noise)
        assert information == pytest.approx(nats, abs=1e-8)
        if not release.is_raw:
            assert shift_probability(release.noise, most) == pytest.approx(delta, abs=1e-8)
        owns.append(OwnCount(raw, found, most, information))
    total = window_information(log.exposure, owns, *log.horizon)
    assert total == pytest.approx(case["information_bound"], abs=1e-8)
    assert total >= case["information"] - 1e-12


@pytest.mark.parametrize("number", REFERENCE)
def test_the_reference_by_our_enumeration(number: int) -> None:
    """What the reference enumerated, enumerated here: so the tests below stand on the same ground."""
    case, log, counted = reference(number)
    paths = log.everything.paths
    own = log.exactly(lambda release: release.own(paths), counted)
    fine = log.exactly(lambda release: release.fine(paths), counted)
    ends = log.exactly(lambda release: release.ends(paths), counted)
    large = log.exactly(lambda release: np.where(release.own(paths) > 1, release.own(paths), -1), counted)
    assert log.optimum([]) == pytest.approx(case["prior_optimum"], abs=1e-8)
    assert log.optimum(log.noised(counted)) == pytest.approx(case["optimum"], abs=1e-8)
    assert log.information(log.noised(counted)) == pytest.approx(case["information"], abs=1e-8)
    assert log.optimum(own) == pytest.approx(case["raw_window_optimum"], abs=1e-8)
    assert log.optimum(fine) == pytest.approx(case["raw_fine_optimum"], abs=1e-8)
    assert log.optimum(ends) == pytest.approx(case["raw_both_ends_optimum"], abs=1e-8)
    assert log.with_coins(own, case["delta"]) == pytest.approx(case["block_erasure_bound"], abs=1e-8)
    assert log.with_coins(fine, case["delta"]) == pytest.approx(case["block_erasure_fine_bound"], abs=1e-8)
    coins = [1.0 if release.is_raw else shift_probability(release.noise, 1) for release in counted]
    seen = [(large[k] if coins[k] < 1.0 else own[k]) for k in range(len(counted))]
    charged = _with_large_counts(log, own, seen, coins)
    assert charged == pytest.approx(case["large_counts_told_bound"], abs=1e-8)


def _with_large_counts(log: Log, own: list[Any], large: list[Any], coins: list[float]) -> float:
    """Each release shows its exact count by its coin, and counts of two or more always."""
    total = 0.0
    for kept in range(1 << len(coins)):
        falls = [kept >> k & 1 for k in range(len(coins))]
        weight = float(np.prod([p if fell else 1.0 - p for fell, p in zip(falls, coins, strict=True)]))
        if weight > 0.0:
            total += weight * log.optimum([own[k] if falls[k] else large[k] for k in range(len(coins))])
    return total


@pytest.mark.parametrize("number", REFERENCE)
def test_no_bound_of_the_reference_is_below_the_optimum(number: int) -> None:
    """With the noise that is really drawn: every bound is above every adversary, the raw ones above raw."""
    case, log, counted = reference(number)
    mechanisms = [mechanism_of(release) for release in case["releases"]]
    drawn = [with_mechanism(*both) for both in zip(counted, mechanisms, strict=True)]
    releases = [
        release.as_release(most, mechanism)
        for release, most, mechanism in zip(counted, case["most_counted"], mechanisms, strict=True)
    ]
    found = window_risk(log.exposure, releases, log.horizon, log.mistakes, in_hindsight=True)
    optimum = log.optimum(log.noised(drawn))
    assert min(found.bounds.values()) >= optimum - 1e-12
    assert found.certified >= optimum - 1e-12
    if all(release.is_raw for release in counted) and "in_steps" in found.bounds:
        assert found.bounds["in_steps"] >= case["raw_fine_optimum"] - 1e-9
    assert found.information_nats >= log.information(log.noised(drawn)) - 1e-12


def test_with_the_delta_of_a_shift_by_one_the_coins_would_promise_too_much() -> None:
    """Where somebody can be counted more than once, the coins must fall with delta_L."""
    broken = 0
    for number in REFERENCE:
        case, log, counted = reference(number)
        own = log.exactly(lambda release, paths=log.everything.paths: release.own(paths), counted)
        with_one = [1.0 if each.is_raw else shift_probability(each.noise, 1) for each in counted]
        broken += log.with_coins(own, with_one) < case["optimum"] - 1e-6
        assert log.with_coins(own, case["delta"]) >= case["optimum"] - 1e-9
    assert broken > 0


@st.composite
def logs(draw: st.DrawFn) -> tuple[Log, list[Counted], list[Mechanism]]:
    """Random chains of 2-3 places, 2-4 moves, 1-2 releases over windows of 1-3 moves."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    places, moves = int(rng.integers(2, 4)), int(rng.integers(2, 5))
    weights = rng.gamma(0.5, size=(moves, places, places)) + 1e-3
    weights[rng.random(weights.shape) < 0.15] = 0.0
    weights += 1e-3 * np.eye(places)
    start = rng.dirichlet(np.ones(places))
    first, last = sorted(rng.integers(0, moves + 1, size=2).tolist())
    mistakes = int(rng.integers(0, min(3, last - first + 1)))
    log = Log(start, weights / weights.sum(axis=2, keepdims=True), (first, last), mistakes)
    counted, mechanisms = [], []
    for _ in range(int(rng.integers(1, 3))):
        begin = int(rng.integers(1, moves + 1))
        end = min(moves, begin + int(rng.integers(0, 3)))
        if rng.random() < 0.4:
            times = np.tile((rng.random(places) < 0.5).astype(np.int64), (places, 1))
        else:
            times = rng.integers(0, 3, size=(places, places)) * (rng.random((places, places)) < 0.4)
        if not times.any():
            times[0, 0] = 1
            times[:, 0] = 1
        mechanism = Raw() if rng.random() < 0.2 else Gaussian(float(rng.choice([0.4, 1.0, 2.0])))
        counted.append(with_mechanism(Counted(begin, end, times.astype(np.int64), np.ones(1)), mechanism))
        mechanisms.append(mechanism)
    return log, counted, mechanisms


@pytest.mark.slow
@pytest.mark.indices
@given(logs(), st.booleans(), st.sampled_from([0, 1, 4, 4096]))
@settings(max_examples=60, deadline=None)
def test_every_bound_holds_against_enumeration(
    drawn: tuple[Log, list[Counted], list[Mechanism]], in_hindsight: bool, patterns: int
) -> None:
    """No adversary of an enumerated log is above a bound, at the moment and in hindsight, at any effort."""
    log, counted, mechanisms = drawn
    most = [max(1, int(each.own(log.everything.paths).max())) for each in counted]
    releases = [
        each.as_release(count, mechanism)
        for each, count, mechanism in zip(counted, most, mechanisms, strict=True)
    ]
    effort = Effort(patterns=patterns)
    found = window_risk(
        log.exposure, releases, log.horizon, log.mistakes, in_hindsight=in_hindsight, effort=effort
    )
    seen = [each for each in counted if in_hindsight or each.last <= log.horizon[1]]
    assert min(found.bounds.values()) >= log.optimum(log.noised(seen)) - 1e-12
    assert found.information_nats >= log.information(log.noised(seen)) - 1e-12


@given(logs())
@settings(max_examples=30, deadline=None)
def test_a_device_that_misses_and_doubles_is_bounded_too(
    drawn: tuple[Log, list[Counted], list[Mechanism]],
) -> None:
    """Each counted move is read 0, 1 or 2 times by chance: bounds of a device that miscounts hold for it."""
    log, counted, mechanisms = drawn
    paths = log.everything.paths
    releases, channels = [], []
    for each, mechanism in zip(counted, mechanisms, strict=True):
        own = each.own(paths)
        most = 2 * int(own.max()) or 1
        channel = np.zeros((len(own), most + each.noise.size))
        for count in np.unique(own):
            read = np.ones(1)
            for _ in range(count):
                read = np.convolve(read, [0.3, 0.5, 0.2])
            law = np.convolve(read, each.noise)
            channel[own == count, : law.size] = law
        channels.append(channel)
        exact = each.as_release(most, mechanism)
        releases.append(WindowRelease(exact.sensor, exact.first, exact.last, most, mechanism, miscounts=True))
    found = window_risk(log.exposure, releases, log.horizon, log.mistakes, in_hindsight=True)
    assert min(found.bounds.values()) >= log.optimum(channels) - 1e-12
    assert found.information_nats >= log.information(channels) - 1e-12


@given(logs(), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_a_device_that_misses_by_when_somebody_came_is_bounded_too(
    drawn: tuple[Log, list[Counted], list[Mechanism]], seed: int
) -> None:
    """What it reads is any function of what is to be counted in each fine step, at most ``most_counts``."""
    log, counted, mechanisms = drawn
    rng, paths = np.random.default_rng(seed), log.everything.paths
    releases, channels = [], []
    for each, mechanism in zip(counted, mechanisms, strict=True):
        most = int(rng.integers(1, 3))
        fine, which = np.unique(each.fine(paths), axis=0, return_inverse=True)
        read = np.where(fine.any(axis=1), rng.integers(0, most + 1, size=len(fine)), 0)[which.ravel()]
        channel = np.zeros((len(paths), most + each.noise.size))
        for count in np.unique(read):
            channel[read == count, count : count + each.noise.size] = each.noise
        channels.append(channel)
        exact = each.as_release(most, mechanism)
        releases.append(WindowRelease(exact.sensor, exact.first, exact.last, most, mechanism, miscounts=True))
    found = window_risk(log.exposure, releases, log.horizon, log.mistakes, in_hindsight=True)
    assert min(found.bounds.values()) >= log.optimum(channels) - 1e-12
    assert found.information_nats >= log.information(channels) - 1e-12


@pytest.mark.parametrize("limit", [None, 1])
@given(logs(), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_corrected_values_that_miss_some_steps_are_bounded_too(
    limit: int | None, drawn: tuple[Log, list[Counted], list[Mechanism]], seed: int
) -> None:
    """Each of two values of a window misses some of its steps and has noise of its own."""
    log, (counted, *_), (mechanism, *_) = drawn
    rng, fine = np.random.default_rng(seed), counted.fine(log.everything.paths)
    most = limit or fine.shape[1] * int(counted.times.max())
    channels = []
    for missed in rng.random((2, fine.shape[1])) < 0.3:
        read = np.minimum(np.where(missed, 0, fine).sum(axis=1), most)
        channel = np.zeros((len(read), most + counted.noise.size))
        for count in np.unique(read):
            channel[read == count, count : count + counted.noise.size] = counted.noise
        channels.append(channel)
    release = replace(counted.as_release(most, mechanism), corrections=1)
    found = window_risk(log.exposure, [release], log.horizon, log.mistakes, in_hindsight=True)
    assert min(found.bounds.values()) >= log.optimum(channels) - 1e-12
    assert found.information_nats >= log.information(channels) - 1e-12


def test_the_coins_of_one_value_promise_too_much_of_two() -> None:
    """The trap: the best adversary who has both values is above what the first one alone would bound."""
    log = Log(np.array([0.5, 0.5]), np.full((1, 2, 2), 0.5), (0, 1), 0)
    counted = with_mechanism(Counted(1, 1, np.array([[0, 1], [0, 1]]), np.ones(1)), Gaussian(1.0))
    once = counted.as_release(1, Gaussian(1.0))
    twice = replace(once, corrections=1)
    optimum = log.optimum(log.noised([counted, counted]))
    alone, both = (window_risk(log.exposure, [each], log.horizon, 0).certified for each in (once, twice))
    assert alone < optimum - 0.02
    assert optimum <= both < 1.25 * optimum


@pytest.mark.parametrize("stay", [0.0, 0.2])
@pytest.mark.parametrize("mechanism", [Raw(), Gaussian(0.3)])
def test_a_device_that_was_down_in_one_of_two_steps(stay: float, mechanism: Mechanism) -> None:
    """Who always changes place is counted once in two steps: that says nothing. Where it was down in the
    second, the count says all."""
    log = Log(np.array([0.5, 0.5]), np.array([[[stay, 1 - stay], [1 - stay, stay]]]), (0, 1), 0)
    release = WindowRelease(Sensor("door", (0,)), 0, 1, 1, mechanism, miscounts=True)
    found = window_risk(log.exposure, [release], log.horizon, log.mistakes)
    up = with_mechanism(Counted(0, 0, np.zeros((2, 2), dtype=np.int64), np.ones(1)), mechanism)
    own = (log.everything.paths[:, 0] == 0).astype(np.int64)
    channel = np.zeros((len(own), 1 + up.noise.size))
    for count in (0, 1):
        channel[own == count, count : count + up.noise.size] = up.noise
    optimum = log.optimum([channel])
    assert found.certified >= optimum - 1e-12
    assert optimum > 0.99 - stay


@given(logs())
@settings(max_examples=30, deadline=None)
def test_presence_in_single_steps_has_the_figures_of_today_bit_for_bit(
    drawn: tuple[Log, list[Counted], list[Mechanism]],
) -> None:
    log, counted, mechanisms = drawn
    steps: list[list[SensorRelease]] = [[] for _ in log.cycle]
    releases = []
    for each, mechanism in zip(counted, mechanisms, strict=True):
        sensor = Sensor("c", tuple(np.flatnonzero(each.times.any(axis=0)).tolist()))
        steps[each.first].append(SensorRelease(sensor, mechanism))
        releases.append(WindowRelease(sensor, each.first, each.first, 1, mechanism))
    schedule = [StepSchedule(t, tuple(active)) for t, active in enumerate(steps)]
    seen = log.exposure.under(tuple(observe(step, log.start.size) for step in schedule))
    for in_hindsight in (False, True):
        today = horizon_risk(seen, *log.horizon, log.mistakes, in_hindsight=in_hindsight)
        found = window_risk(log.exposure, releases, log.horizon, log.mistakes, in_hindsight=in_hindsight)
        assert (found.certified, found.by) == (today.certified, today.by)


def test_noise_from_nothing_to_very_much_takes_the_ceiling_from_raw_to_the_baseline() -> None:
    case, log, counted = reference(6)
    raw, *_, silent = [
        window_risk(log.exposure, [counted[0].as_release(6, mechanism)], log.horizon, log.mistakes)
        for mechanism in (Raw(), Gaussian(2.0), Gaussian(10.0), Suppressed())
    ]
    noised = [
        window_risk(log.exposure, [counted[0].as_release(6, Gaussian(sigma))], log.horizon, log.mistakes)
        for sigma in (1.0, 10.0, 100.0, 1000.0)
    ]
    values = [raw.certified, *(each.certified for each in noised), silent.certified]
    assert values == sorted(values, reverse=True)
    assert silent.certified == pytest.approx(case["prior_optimum"], abs=1e-9)
    assert noised[-1].certified < silent.certified + 0.01


def test_a_device_that_counts_everybody_once_hides_as_a_shift_by_one() -> None:
    log = Log(np.array([0.5, 0.5]), np.full((4, 2, 2), 0.5), (0, 4), 1)
    once = WindowRelease(Sensor("c", (1,)), 0, 3, 1, Gaussian(3.0))
    each = WindowRelease(Sensor("c", (1,)), 0, 3, 4, Gaussian(3.0))
    assert own_count(log.exposure, once).law == pytest.approx([1 / 16, 15 / 16])
    assert own_count(log.exposure, each).law == pytest.approx([1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16])
    assert own_count(log.exposure, once).reveal_probability() == Gaussian(3.0).reveal_probability()
    assert own_count(log.exposure, each).reveal_probability() > 3.9 * Gaussian(3.0).reveal_probability() * 0.9


@pytest.mark.parametrize(
    ("arguments", "must"),
    [
        ((MoveSensor.of("gate", {(0, 1): 1}), 0, 2, 1, Raw()), "step 1 or later"),
        ((Sensor("a", (0,)), 3, 2, 1, Raw()), "not end before"),
        ((Sensor("a", (0,)), 0, 2, 0, Raw()), "at least 1"),
    ],
)
def test_a_window_that_is_none_is_refused(arguments: tuple[Any, ...], must: str) -> None:
    with pytest.raises(ScheduleError, match=must):
        WindowRelease(*arguments)


@pytest.mark.parametrize("times", [{}, {(0, 1): 0}, {(-1, 0): 1}, {(0, 1): -1}])
def test_a_sensor_without_moves_is_refused(times: dict[tuple[int, int], int]) -> None:
    with pytest.raises(SensorError, match="moves"):
        MoveSensor.of("gate", times)


def test_a_window_beyond_the_log_is_refused() -> None:
    _, log, _ = reference(0)
    late = WindowRelease(Sensor("a", (0,)), 2, len(log.cycle), 1, Raw())
    with pytest.raises(HorizonError, match="windows must end"):
        window_risk(log.exposure, [late], log.horizon, 0)
