"""Differential privacy by unit, and bounds over a day: reference numbers, and every way to be counted."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from accounting.ledgers import Neighbours, PrivacyAccount, ReleaseLog, read_differential_privacy
from accounting.ledgers.differential_privacy import days_of, zcdp_cost
from accounting.ledgers.units import Unit, read_units
from models.calendar import Days
from models.exceptions import SensorError
from models.mechanisms import Gaussian, Raw
from models.releases import CountingWindow, PerDay, Sensor, SensorRegistry, SensorRelease, StepSchedule
from tests.shared_files import shared
from tests.volume import some

DELTA = 1e-6
HOURS = Days(0, 3600)


@pytest.fixture
def reference() -> dict[str, Any]:
    cases = json.loads(shared("reference/living.json").read_text())["cases"]
    return next(case for case in cases if case["kind"] == "unit")


def log_with(bound: PerDay | None, noise: list[list[float]]) -> ReleaseLog:
    sensors = [Sensor(name, (place,), per_day=bound) for place, name in enumerate("ab")]
    return ReleaseLog.of(
        StepSchedule(
            step, tuple(SensorRelease(*pair) for pair in zip(sensors, map(Gaussian, sigmas), strict=True))
        )
        for step, sigmas in enumerate(noise)
    )


def test_units_are_those_of_the_reference(reference: dict[str, Any]) -> None:
    rho, epsilon, sigmas = reference["rho"], reference["epsilon_zcdp"], reference["sigma"]
    found = {each.unit: each.statement for each in read_units(log_with(None, sigmas), DELTA, HOURS, 4, 3)}
    for unit, name in ((Unit.LOG, "whole_log"), (Unit.STEPS, "any_w_steps"), (Unit.VISIT, "visit")):
        assert found[unit].rho_value() == pytest.approx(rho[name], rel=1e-12)
        assert found[unit].zcdp_epsilon == pytest.approx(epsilon[name], rel=1e-8)
    # One day holds all eight steps, or four.
    for bound, hours, name in (
        (PerDay(counts=5), 1, "K_counts"),
        (PerDay(sensors=1), 1, "q_sensors"),
        (PerDay(counts=2), 6, "k_steps_a_day"),
        (PerDay(counts=2), 1, "k_steps_in_log"),
    ):
        days = Days(0, hours * 3600)
        added = read_differential_privacy(log_with(bound, sigmas), DELTA, days=days)
        moved = read_differential_privacy(log_with(bound, sigmas), DELTA, Neighbours.MOVE, days)
        assert added.rho_value() == pytest.approx(rho[name], rel=1e-12), name
        assert moved.rho_value() <= reference["move_at_most"][name] * (1 + 1e-12)


def in_one_part(counts: dict[str, int], sensors: dict[str, Sensor]) -> bool:
    """Whether no device counts the person more often than it can, in all its parts together."""
    own: dict[str, int] = {}
    for name, count in counts.items():
        device = sensors[name].part_of or name
        own[device] = own.get(device, 0) + count
    return all(own.get(each.part_of or name, 0) <= each.most_counts for name, each in sensors.items())


def dearest(steps: list[StepSchedule], bound: PerDay, owns: dict[str, int | None]) -> Fraction:
    """The most that a day costs over every way in which a person can be counted in it."""
    ways: list[list[dict[str, int]]] = []
    for step in steps:
        released = {each.sensor.name: each.sensor for each in step.releases}
        here: list[dict[str, int]] = [{}]
        for place in range(2):
            own = [each for each in released.values() if place in each.locations]
            here += [
                dict(zip((each.name for each in own), counts, strict=True))
                for counts in product(*(range(each.most_counts + 1) for each in own))
            ]
        ways.append([counts for counts in here if in_one_part(counts, released)])
    parts = {
        each.sensor.name: each.sensor.part_of or each.sensor.name for step in steps for each in step.releases
    }
    most = Fraction()
    for way in product(*ways):
        by_sensor: dict[str, int] = {}
        for counts in way:
            for name, count in counts.items():
                device = parts.get(name, name)
                by_sensor[device] = by_sensor.get(device, 0) + count
        if bound.counts is not None and sum(by_sensor.values()) > bound.counts:
            continue
        if bound.sensors is not None and sum(map(bool, by_sensor.values())) > bound.sensors:
            continue
        if any((own := owns[name]) is not None and count > own for name, count in by_sensor.items()):
            continue
        cost = Fraction()
        for step, counts in zip(steps, way, strict=True):
            for each in step.releases:
                cost += Fraction(each.mechanism.zcdp_rho()) * counts.get(each.sensor.name, 0) ** 2
        most = max(most, cost)
    return most


@pytest.mark.parametrize("seed", some(60))
def test_no_way_of_being_counted_costs_more_than_the_day(seed: int) -> None:
    draw = np.random.default_rng(seed)
    bound = PerDay(
        counts=int(draw.integers(1, 6)) if draw.random() < 0.6 else None,
        sensors=int(draw.integers(1, 3)) if draw.random() < 0.5 else None,
        own=9,
    )
    owns = {name: int(draw.integers(1, 4)) if draw.random() < 0.5 else None for name in "abc"}
    sensors = [
        Sensor(
            name,
            tuple(sorted({int(place) for place in draw.integers(0, 2, 2)})),
            most_counts=int(draw.integers(1, 3)),
            per_day=None
            if bound.counts is None and bound.sensors is None and owns[name] is None
            else replace(bound, own=owns[name]),
        )
        for name in "abc"
    ]
    steps = [
        StepSchedule(
            step,
            tuple(
                SensorRelease(each, Gaussian(float(draw.choice([0.7, 1.0, 2.0, 5.0]))))
                for each in sensors
                if draw.random() < 0.6
            ),
        )
        for step in range(3)
    ]
    if seed % 2:  # the first two are parts of one device
        first, second, third = sensors
        first = replace(first, part_of="both")
        second = replace(first, name="b")
        owns = {"both": owns["a"], "c": owns["c"]}
        sensors = [first, second, third]
        noises = [[each.mechanism for each in step.releases] for step in steps]
        steps = [
            StepSchedule(
                step.step,
                tuple(map(SensorRelease, sensors, (own * 3)[:3])) if own else (),
            )
            for step, own in zip(steps, noises, strict=True)
        ]
        steps = [replace(step, releases=step.releases[: 1 + seed // 2 % 3]) for step in steps]
    (day,) = days_of(steps, zcdp_cost, HOURS, 2)
    most = dearest(steps, bound, owns)
    assert day.cost().amount >= most
    if seed % 2:
        log = ReleaseLog.of(steps)
        assert read_differential_privacy(log, DELTA).rho.amount >= most


def test_one_sensor_and_one_place_are_charged_exactly() -> None:
    sensor = Sensor("gate", (0,), most_counts=2, per_day=PerDay(own=3))
    steps = [
        StepSchedule(t, (SensorRelease(sensor, Gaussian(sigma)),)) for t, sigma in enumerate((2.0, 1.0, 3.0))
    ]
    (day,) = days_of(steps, zcdp_cost, HOURS, 2)
    assert (
        day.cost().amount == dearest(steps, PerDay(own=3), {"gate": 3}) == 4 * Fraction(1, 2) + Fraction(1, 8)
    )


def test_a_bound_over_the_day_pays_and_the_live_account_says_what_the_ledger_says() -> None:
    """A month of hours in Vienna with the change of clocks; saved and loaded in the middle of each day."""
    days = Days(1_772_319_600, 3600, "Europe/Vienna")  # 1 March 2026, midnight
    sensor = Sensor("gate", (0,), per_day=PerDay(counts=4))
    log = ReleaseLog.of(StepSchedule(t, (SensorRelease(sensor, Gaussian(10.0)),)) for t in range(31 * 24 - 1))
    account = PrivacyAccount(["default"], days)
    for step in log.steps:
        account.charge(step)
        if step.step % 7 == 3:
            account = PrivacyAccount.load(json.loads(json.dumps(account.save())))
    stated = read_differential_privacy(log, DELTA, days=days)
    assert account.spends["all"].rho == account.spends["default"].rho == stated.rho.amount
    assert stated.rho_value() == pytest.approx(31 * 4 / 200.0)
    unbounded = read_differential_privacy(log, DELTA)
    assert unbounded.rho_value() == pytest.approx((31 * 24 - 1) / 200.0)
    assert stated.epsilon < unbounded.epsilon / 2.8
    # The day of 23 hours is one day, and any 25 hours meet two.
    found = {each.unit: each.statement.rho_value() for each in read_units(log, DELTA, days, 25, 2)}
    assert found[Unit.DAY] == pytest.approx(4 / 200.0)
    assert found[Unit.STEPS] == pytest.approx(8 / 200.0)
    assert found[Unit.VISIT] == pytest.approx(2 / 200.0)


def test_a_bound_that_is_raised_during_a_day_does_not_hold_for_it() -> None:
    few, many = (Sensor("gate", (0,), per_day=PerDay(own=own, counts=own)) for own in (1, 3))
    steps = [
        StepSchedule(t, (SensorRelease(each, Gaussian(1.0)),))
        for t, each in enumerate((few, few, many, many))
    ]
    (day,) = days_of(steps, zcdp_cost, HOURS, 2)
    assert day.cost().amount == 2
    account = PrivacyAccount(["default"])
    account.charge(steps[0])
    account.open(["default"], HOURS)  # declared for a deployment that is under way
    account.charge(steps[1])
    account.charge(replace(steps[0], step=24))
    assert account.spends["all"].rho == Fraction(3, 2)


def test_windows_belong_to_every_unit_that_they_reach() -> None:
    window = CountingWindow(4, most_sensors=1)
    sensor = Sensor("street", (0,), most_counts=2, window=window, per_day=PerDay(counts=1))
    days = Days(0, 6 * 3600)
    noise = SensorRelease(sensor, Gaussian(1.0))
    log = ReleaseLog.of(StepSchedule(t, (noise,) if window.ends_with(t) else ()) for t in range(8))
    found = {each.unit: each.statement.rho_value() for each in read_units(log, DELTA, days, 2, 1)}
    assert found[Unit.LOG] == 1.0  # each window lies within a day, in which one count is left of two
    assert found[Unit.STEPS] == 2.0 + 0.5  # one that ends later counts in full
    assert found[Unit.VISIT] == 2.0
    noon = replace(days, origin=12 * 3600)  # windows reach over midnight
    assert read_differential_privacy(log, DELTA, days=noon).rho_value() == 4.0


def test_a_log_without_steps_costs_nothing_in_any_unit() -> None:
    assert {each.statement.epsilon for each in read_units(ReleaseLog.of([]), DELTA, HOURS, 25, 2)} == {0.0}


def test_exact_counts_have_no_guarantee_in_any_unit() -> None:
    log = ReleaseLog.of([StepSchedule(0, (SensorRelease(Sensor("a", (0,)), Raw()),))])
    assert not any(np.isfinite(each.statement.epsilon) for each in read_units(log, DELTA, HOURS, 25, 2))


def test_the_parts_of_a_device_are_charged_once() -> None:
    """Children, adults and cyclists of one counter; a person who is moved changes two of them at most."""
    parts = [Sensor(name, (0,), part_of="gate", most_counts=2) for name in ("child", "adult", "cycle")]
    noises = [Gaussian(sigma) for sigma in (1.0, 2.0, 2.0)]
    step = StepSchedule(0, tuple(map(SensorRelease, parts, noises)))
    log = ReleaseLog.of([step])
    assert read_differential_privacy(log, DELTA).rho.amount == 2
    assert read_differential_privacy(log, DELTA, Neighbours.MOVE).rho.amount == 4
    others = [replace(each, part_of=None) for each in parts]
    apart = ReleaseLog.of([StepSchedule(0, tuple(map(SensorRelease, others, noises)))])
    assert read_differential_privacy(apart, DELTA).rho.amount == 3
    account = PrivacyAccount(["default"])
    account.charge(step)
    assert account.spends["all"].rho == 2
    found = {each.unit: each.statement.rho_value() for each in read_units(log, DELTA, HOURS, 25, 2)}
    assert set(found.values()) == {2.0}
    window = CountingWindow(2)
    two = [replace(each, window=window) for each in parts]
    windows = ReleaseLog.of([StepSchedule(1, tuple(SensorRelease(each, Gaussian(1.0)) for each in two))])
    assert read_differential_privacy(windows, DELTA).rho.amount == 2
    with pytest.raises(SensorError, match="same most_counts"):
        SensorRegistry(("here",), (parts[0], replace(parts[1], most_counts=1)))
