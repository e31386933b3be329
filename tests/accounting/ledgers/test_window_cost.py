"""Differential privacy of counts over windows: sensitivity as declared."""

from __future__ import annotations

import math

import pytest

from accounting.exceptions import LedgerError
from accounting.ledgers import Neighbours, ReleaseLog, read_differential_privacy, window_cost
from models.mechanisms import Gaussian, Mechanism, Raw, Suppressed
from models.releases import Schedule, Sensor, WindowRelease


def window(first: int, last: int, most: int, mechanism: Mechanism) -> WindowRelease:
    return WindowRelease(Sensor(f"{first}-{last}", (0,)), first, last, most, mechanism)


def test_a_window_charges_the_m_largest_squared_ratios_and_windows_add_up() -> None:
    hours = [
        window(0, 3, 1, Gaussian(2.0)),  # 1/8
        window(0, 3, 4, Gaussian(4.0)),  # 16/32
        window(0, 3, 2, Gaussian(8.0)),  # 4/128
        window(4, 7, 3, Gaussian(3.0)),  # 9/18
        window(4, 7, 1, Suppressed()),
    ]
    assert float(window_cost(hours, 1).rho) == pytest.approx(0.5 + 0.5)
    assert float(window_cost(hours, 2).rho) == pytest.approx(0.5 + 0.125 + 0.5)
    assert float(window_cost(hours, 9).rho) == pytest.approx(0.5 + 0.125 + 4 / 128 + 0.5)
    moved = window_cost(hours, 1, Neighbours.MOVE)
    assert moved.rho == window_cost(hours, 2).rho


def test_one_step_of_presence_costs_what_it_costs_in_a_schedule() -> None:
    today = read_differential_privacy(ReleaseLog.of(Schedule.gaussian([[0], [0], [0]], 3.0).steps), 1e-6)
    found = window_cost([window(t, t, 1, Gaussian(3.0)) for t in range(3)], 1)
    assert found.rho == today.rho.amount
    assert found.epsilon(1e-6) == today.zcdp_epsilon


def test_a_raw_window_has_no_differential_privacy() -> None:
    assert math.isinf(window_cost([window(0, 1, 1, Raw())], 1).epsilon(1e-6))


def test_a_limit_of_no_sensors_a_person_is_refused() -> None:
    with pytest.raises(LedgerError, match="most_sensors"):
        window_cost([], 0)
