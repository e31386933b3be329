"""The tightness table: the certified bound is never below an attack, and misses of the target are named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from experiments.tightness import TARGET_RATIO, Row, cells, measure_cell, report, table, verdict


@pytest.fixture(scope="module")
def row() -> Row:
    """Ten places, four steps, one mistake."""
    return measure_cell(10, 4, 1, schedules=3)


def test_a_cell_has_ordered_figures(row: Row) -> None:
    """Prior alone <= attack <= certified <= tight, all exact."""
    assert 0 < row.baseline <= row.attack <= row.certified <= row.tight <= 1
    assert row.attack_low == row.attack == row.attack_high
    assert row.serious == 3  # attacks are far above 1 % here
    assert 1 <= row.worst_ratio <= TARGET_RATIO
    assert row.missed == 0
    assert row.seconds > 0


def test_without_mistakes_the_certified_bound_is_the_best_attack() -> None:
    """At s = 0 the optimum is known exactly and the most likely trace attains it."""
    exact = measure_cell(8, 4, 0, schedules=2)
    assert exact.certified == pytest.approx(exact.attack, rel=1e-9)
    assert exact.ratio == pytest.approx(1.0, rel=1e-9)


def test_the_sweep_has_every_cell_in_which_an_attack_can_fail() -> None:
    """Four sizes, and 0, 2, 5 mistakes of 6 steps and 0, 2, 5, 8 of 10."""
    found = list(cells())
    assert len(found) == len(set(found)) == 4 * (3 + 4)
    assert all(mistakes < steps for _, steps, mistakes in found)


def test_a_missed_target_is_named(row: Row) -> None:
    """Which cell, in how many draws, and by how much."""
    good = replace(row, missed=0, worst_ratio=2.0)
    missed = replace(row, missed=2, worst_ratio=3.25)
    assert "met in all 6" in verdict([good, good])
    assert "missed in 2 of them: M = 10, T = 4, s = 1 (2 of 3, worst 3.25)" in verdict([good, missed])


def test_the_page_has_a_line_a_cell(row: Row) -> None:
    """Attacks that were sampled show their interval."""
    sampled = replace(row, attack=0.25, attack_low=0.2, attack_high=0.3)
    assert "0.25 (0.2 to 0.3)" in table([sampled])
    page = report([row, sampled], schedules=3)
    assert page.count("| 10 | 4 | 1 |") == 2
    assert "{" not in page
