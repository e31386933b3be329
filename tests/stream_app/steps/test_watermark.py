"""The watermark: what most of the sensors heard last have reached, whatever a single one says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.steps.intake import Intake
from stream_app.steps.window import Origin, StepWindow
from stream_app.wire.messages import Activation, Reading
from tests.stream_app.engine_support import REGISTRY, activation, reading, saved_window

ORIGIN = Origin("test:1", b"payload")


def closed_after(window: StepWindow, messages: list[Activation | Reading]) -> int:
    """How many steps have closed once these messages are in."""
    intake = Intake(REGISTRY, window, max_ahead=2000)
    for message in messages:
        assert intake.receive(message, ORIGIN).rejected == ()
        while window.is_due():
            window.close()
    return window.next_step


def ahead(steps: int, *sensors: str) -> list[Activation | Reading]:
    return [activation(step, *sensors) for step in range(steps)]


@pytest.mark.parametrize("others", [("B",), ("B", "C"), ("B", "C", "D")])
def test_one_sensor_far_ahead_closes_nothing_and_loses_nothing(others: tuple[str, ...]) -> None:
    """With a thousand steps announced, A says 999; the others' counts of each step are still taken."""
    sent = ahead(1000, "A", *others)
    for step in range(5):
        sent += [reading(999 - step, "A", 1), *(reading(step, name, 2) for name in others)]
    window = StepWindow(grace=2)
    assert closed_after(window, sent) <= 5
    assert all(window.at(step).counts for step in range(window.next_step, 5))


def test_one_sensor_that_runs_ahead_for_good_does_not_set_the_pace() -> None:
    """A is five steps ahead in every step: the others' readings all come in time."""
    sent = ahead(60, "A", "B", "C")
    for step in range(50):
        sent += [reading(step + 5, "A", 1), reading(step, "B", 1), reading(step, "C", 1)]
    assert closed_after(StepWindow(grace=1), sent) >= 45


@pytest.mark.parametrize("others", [("B",), ("B", "C")])
def test_a_sensor_that_falls_silent_holds_up_nobody_for_ever(others: tuple[str, ...]) -> None:
    sent = [*ahead(40, "A", *others), reading(0, "A", 1)]
    sent += [reading(step, name, 1) for step in range(40) for name in others]
    assert closed_after(StepWindow(grace=2), sent) == 37


def test_a_sensor_that_never_reports_holds_up_nobody() -> None:
    sent = ahead(40, "A", "B") + [reading(step, "B", 1) for step in range(40)]
    assert closed_after(StepWindow(grace=2), sent) == 37


def test_the_only_sensor_is_believed_and_with_a_share_of_nothing_so_is_any() -> None:
    one_sensor = [*ahead(40, "A"), *(reading(step, "A", 1) for step in range(1, 40))]
    assert closed_after(StepWindow(grace=2), one_sensor) == 40
    any_of_two = [*ahead(9, "A", "B"), reading(0, "B", 1), reading(8, "A", 1)]
    assert closed_after(StepWindow(grace=2), any_of_two) == 0
    assert closed_after(StepWindow(grace=2, watermark_share=0.0), any_of_two) == 6


def test_at_the_end_of_the_input_one_sensor_far_ahead_closes_no_step_of_a_schedule_file() -> None:
    window = StepWindow(2, dict.fromkeys(range(1000), ("A", "B")))
    closed_after(window, [reading(0, "A", 1), reading(0, "B", 1), reading(1, "B", 1), reading(999, "A", 1)])
    window.finish()
    while window.is_due():
        window.close()
    assert window.next_step == 2


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from("ABCD")), unique=True), st.integers(0, 40))
def test_a_window_saved_and_loaded_closes_the_same_steps(sent: list[tuple[int, str]], cut: int) -> None:
    whole, first, second = StepWindow(1), StepWindow(1), StepWindow(1)
    messages: list[Activation | Reading] = [activation(step, *"ABCD") for step in range(31)]
    messages += [reading(step, name, 1) for step, name in sent]
    closed = [steps_closed(whole, messages)]
    steps_closed(first, messages[:cut])
    second.load(json.loads(json.dumps(saved_window(first))))
    closed.append(steps_closed(second, messages[cut:]))
    assert closed[0] == closed[1]


def steps_closed(window: StepWindow, messages: list[Activation | Reading]) -> int:
    """As :func:`closed_after`, where readings may come late."""
    intake = Intake(REGISTRY, window, max_ahead=2000)
    for message in messages:
        intake.receive(message, ORIGIN)
        while window.is_due():
            window.close()
    return window.next_step
