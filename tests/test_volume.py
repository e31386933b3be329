"""Days in a row run all slow tests and try all random cases; a day tries the same ones in every process."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import volume


def test_each_of_four_days_tries_a_quarter_and_together_they_try_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volume, "PARTS", 4)
    monkeypatch.setattr(volume, "SLOW_PARTS", 1)
    tried = []
    for day in range(739_946, 739_950):
        monkeypatch.setattr(volume, "DAY", day)
        numbers = [random.integers(1 << 60) for random in volume.randoms(3, 1_001)]
        assert len(numbers) in (250, 251)
        tried += numbers
    monkeypatch.setattr(volume, "PARTS", 1)
    assert sorted(tried) == sorted(random.integers(1 << 60) for random in volume.randoms(3, 1_001))
    assert len(set(tried)) == 1_001


def test_a_slow_test_has_one_turn_in_four_days_and_tries_other_cases_at_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(volume, "SLOW_PARTS", 4)
    monkeypatch.setattr(volume, "PARTS", 8)
    names = [f"tests/test_{number}.py::test_this" for number in range(200)]
    run: list[set[str]] = []
    tried: dict[str, set[int]] = {name: set() for name in names}
    for day in range(739_944, 739_944 + 32):
        monkeypatch.setattr(volume, "DAY", day)
        run.append({name for name in names if volume.has_its_turn(name)})
        for name in run[-1]:
            tried[name] |= set(volume.some(8_000))
    assert run[:4] == run[4:8]
    assert set().union(*run[:4]) == set(names)
    assert sum(map(len, run[:4])) == len(names)
    assert all(25 < len(part) < 75 for part in run)
    assert all(cases == set(range(8_000)) for cases in tried.values())


@pytest.mark.parametrize(("parts", "whole", "drawn"), [(4, 200, 50), (4, 30, 10), (4, 8, 8), (1, 200, 200)])
def test_a_property_test_draws_its_part_and_at_least_ten(
    parts: int, whole: int, drawn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volume, "EXAMPLE_PARTS", parts)
    found = []

    @settings(max_examples=whole, database=None)
    @given(st.floats(0, 1))
    def holds(value: float) -> None:
        found.append(value)

    volume.try_a_part([holds])
    holds()
    assert len(found) == drawn
