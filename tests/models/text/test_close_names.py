"""Suggestions for names that do not exist: right for a slip, and cheap whatever is asked."""

from __future__ import annotations

import time

import pytest

from models.exceptions import SensorError
from models.releases import SensorRegistry
from models.text import CloseNames

NAMES = ("station", "mill street", "harbour", "s1", "s10", "s17")


@pytest.mark.parametrize(
    ("wrong", "close"),
    [
        ("statoin", ("station",)),
        ("Station", ("station",)),
        ("staton", ("station",)),
        ("stattion", ("station",)),
        ("mill-street", ("mill street",)),
        ("harbor", ("harbour",)),
        ("s7", ("s17", "s1")),
        ("airport", ()),
        ("", ()),
    ],
)
def test_a_name_with_one_slip_finds_those_it_may_mean(wrong: str, close: tuple[str, ...]) -> None:
    assert CloseNames(NAMES).like(wrong) == close


def test_there_are_never_more_suggestions_than_a_sentence_holds() -> None:
    assert len(CloseNames(f"sensor-{number}" for number in range(10_000)).like("sensor-12")) == 3


@pytest.mark.slow
def test_ten_thousand_unknown_sensors_cost_less_than_one_step() -> None:
    """However many sensors there are and whatever the names look like: a batch must not stop a worker."""
    registry = SensorRegistry.one_per_location([f"sensor-{number:06d}" for number in range(10_000)])
    wrong = [f"sensor-{number:06d}" for number in range(20_000, 29_998)]
    wrong += ["x" * 256, "s" * 1_000_000]
    began = time.process_time()
    for name in wrong:
        with pytest.raises(SensorError):
            registry.get(name)
    assert time.process_time() - began < 10.0
