"""Intake: every refusal of the contract, and that repetitions change nothing."""

from __future__ import annotations

import pytest

from stream_app.steps.intake import Receipt
from stream_app.steps.window import Origin, StepWindow
from stream_app.wire.messages import PRIVATE_REASONS, Activation, Outcome, Reading, Reason
from tests.stream_app.engine_support import activation, close_all, engine, feed, reading, saved_window

ORIGIN = Origin("test:1", b"payload")


def receive(before: list[Activation | Reading], message: Activation | Reading, grace: int = 0) -> Receipt:
    """What becomes of a message after others, in a window of 10 steps."""
    target = engine(grace=grace, max_ahead=10)
    feed(target, before, finish=False)
    return target.receive(message, ORIGIN)


ANNOUNCED = [activation(0, "A", "B"), reading(0, "A", 5)]
CLOSED = [*ANNOUNCED, reading(0, "B", 1)]


@pytest.mark.parametrize(
    ("before", "message", "reason"),
    [
        (ANNOUNCED, reading(0, "Z", 1), Reason.UNKNOWN_SENSOR),
        (ANNOUNCED, reading(0, "C", 1), Reason.NO_ACTIVATION),
        (ANNOUNCED, reading(0, "A", 6), Reason.CONTRADICTING_READING),
        (CLOSED, reading(0, "A", 6), Reason.CONTRADICTING_READING),
        (CLOSED, reading(0, "C", 6), Reason.LATE_READING),
        (ANNOUNCED, reading(10, "A", 1), Reason.TOO_FAR_AHEAD),
        ([reading(1, "A", 1)], reading(1, "A", 2), Reason.CONTRADICTING_READING),
        ([], activation(0, "A", "Z"), Reason.UNKNOWN_SENSOR),
        ([], activation(0, "A", "A"), Reason.REPEATED_SENSOR),
        ([], activation(10, "A"), Reason.TOO_FAR_AHEAD),
        (ANNOUNCED, activation(0, "A"), Reason.CONTRADICTING_ACTIVATION),
        (CLOSED, activation(0, "A"), Reason.LATE_ACTIVATION),
    ],
)
def test_each_refusal_has_its_reason_and_keeps_source_and_payload(
    before: list[Activation | Reading], message: Activation | Reading, reason: Reason
) -> None:
    receipt = receive(before, message)
    (rejected,) = receipt.rejected
    assert (rejected.reason, rejected.source, rejected.payload) == (reason, "test:1", "payload")
    assert rejected.hint
    fate = Outcome.DUPLICATE if reason in PRIVATE_REASONS else Outcome.REJECTED
    assert receipt.outcomes == ((fate,) if isinstance(message, Reading) else ())


@pytest.mark.parametrize(
    ("before", "message", "outcomes"),
    [
        (ANNOUNCED, reading(0, "A", 5), (Outcome.DUPLICATE,)),
        (CLOSED, reading(0, "B", 1), (Outcome.DUPLICATE,)),
        (ANNOUNCED, activation(0, "B", "A"), ()),
        (CLOSED, activation(0, "A", "B"), ()),
        ([reading(1, "A", 1)], reading(1, "A", 1), (Outcome.DUPLICATE,)),
    ],
)
def test_a_repetition_is_neither_taken_again_nor_refused(
    before: list[Activation | Reading], message: Activation | Reading, outcomes: tuple[Outcome, ...]
) -> None:
    assert receive(before, message) == Receipt(outcomes)


def test_a_reading_before_its_activation_is_decided_by_the_activation() -> None:
    """Announced sensors are accepted, others rejected; until then there is no outcome."""
    target = engine()
    assert target.receive(reading(0, "A", 3), ORIGIN) == Receipt()
    assert target.receive(reading(0, "C", 3), ORIGIN) == Receipt()
    receipt = target.receive(activation(0, "A"), ORIGIN)
    assert receipt.outcomes == (Outcome.ACCEPTED, Outcome.REJECTED)
    assert [letter.reason for letter in receipt.rejected] == [Reason.NO_ACTIVATION]
    (closed,) = close_all(target)
    assert [entry.sensor for entry in closed.release.releases] == ["A"]


def test_a_reading_whose_activation_never_comes_is_rejected_at_the_end() -> None:
    closed, rejected = feed(engine(), [reading(3, "A", 3)])
    assert closed == []
    assert [(letter.reason, letter.source) for letter in rejected] == [(Reason.NO_ACTIVATION, "test:1")]


def test_neither_a_poison_step_nor_an_early_announcement_closes_the_steps_before() -> None:
    """Only accepted readings move the watermark."""
    target = engine(grace=1, max_ahead=50)
    messages = [activation(0, "A"), reading(40, "B", 1), activation(30, "C"), reading(10**9, "A", 1)]
    closed, rejected = feed(target, messages, finish=False)
    assert closed == []
    assert [letter.reason for letter in rejected] == [Reason.TOO_FAR_AHEAD]


def test_a_window_saved_in_the_middle_goes_on_as_if_it_had_not_been() -> None:
    """Counts, readings that wait, where they came from, and the watermark survive."""
    target = engine()
    feed(target, [*CLOSED, activation(1, "A", "B"), reading(1, "B", 4), reading(2, "D", 9)], finish=False)
    target.receive(reading(3, "C", 1), Origin("pipe:9", b"\xff\x00raw"))
    window = target.intake.window
    copy = StepWindow(window.grace)
    copy.load(saved_window(window))
    assert saved_window(copy) == saved_window(window)
    copy.finish()
    while copy.is_due():
        assert copy.close() == window.close()
    assert copy.drain() == window.drain()


def test_no_more_readings_wait_for_their_activation_than_memory_is_kept_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stream_app.steps.intake.MAX_WAITING", 3)
    target = engine(max_ahead=50)
    early = [reading(step, "A", step) for step in range(3)]
    _, rejected = feed(target, [*early, reading(3, "A", 3), reading(2, "A", 2)], finish=False)
    assert [letter.reason for letter in rejected] == [Reason.TOO_MANY_WAITING]
    closed, rejected = feed(target, [activation(0, "A"), reading(3, "A", 3)], finish=False)
    assert [step.schedule.step for step in closed] == [0]
    assert rejected == []


def test_the_dead_letter_of_a_reading_that_waited_holds_the_reading_and_where_it_came_from() -> None:
    target = engine()
    padded = Origin("readings:7", b" " * 5_000 + reading(1, "B", 4).line())
    target.receive(reading(1, "B", 4), padded)
    letters = target.receive(activation(1, "A"), ORIGIN).rejected
    assert [(each.source, each.payload) for each in letters] == [
        ("readings:7", '{"v":1,"type":"reading","step":1,"sensor":"B","count":4}')
    ]
