"""The step engine: when steps close, what they release, and that counts decide nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting.exceptions import AttackAboveCeilingError, StepOrderError
from models.releases import StepSchedule
from stream_app.exceptions import AccountingFailedError
from stream_app.steps.accounts import PeopleAccounts
from stream_app.wire.messages import Activation, Reading, SensorValue, StepRelease
from tests.stream_app.engine_support import (
    accountant,
    activation,
    close_all,
    engine,
    feed,
    messages_of_a_day,
    reading,
    releases,
)


def test_a_step_closes_as_soon_as_every_announced_sensor_has_reported() -> None:
    target = engine()
    closed, _ = feed(target, [activation(0, "A", "B"), reading(0, "A", 5)], finish=False)
    assert closed == []
    closed, _ = feed(target, [reading(0, "B", 7)], finish=False)
    (step,) = releases(closed)
    assert [(entry.sensor, entry.mechanism, entry.sigma) for entry in step.releases] == [
        ("A", "gaussian", 2.0),
        ("B", "raw", None),
    ]
    assert step.releases[1].value == 7


def test_a_step_behind_the_watermark_closes_with_missing_counts_released_as_nothing() -> None:
    """Never as zero; and it is accounted as if the count had come."""
    target = engine(grace=1)
    messages = [activation(0, "A", "B"), reading(0, "B", 7), activation(2, "A", "B", "C"), reading(2, "B", 1)]
    closed, _ = feed(target, [*messages, reading(2, "C", 1)], finish=False)
    assert [step.release.step for step in closed] == [0]
    assert closed[0].release.releases == (
        SensorValue(sensor="A", mechanism="suppressed"),
        SensorValue(sensor="B", mechanism="raw", value=7),
    )
    assert closed[0].missing == ("A",)
    assert [release.mechanism.name for release in closed[0].schedule.releases] == ["gaussian", "raw"]


def test_an_unannounced_step_is_an_empty_release_and_no_step_is_left_out() -> None:
    closed, _ = feed(engine(), [activation(4, "A"), reading(4, "A", 1)])
    assert [(step.release.step, len(step.release.releases)) for step in closed] == [
        (0, 0),
        (1, 0),
        (2, 0),
        (3, 0),
        (4, 1),
    ]


def test_steps_within_the_grace_stay_open() -> None:
    target = engine(grace=2)
    messages = [activation(0, "A"), activation(2, "B"), reading(2, "B", 1)]
    assert feed(target, messages, finish=False)[0] == []
    closed, rejected = feed(target, [reading(0, "A", 3)], finish=False)
    assert [step.release.step for step in closed] == [0]
    assert rejected == []


def test_the_clock_closes_a_step_nobody_reports_for() -> None:
    target = engine()
    feed(target, [activation(0, "A"), activation(1, "A")], finish=False)
    target.close_through(0)
    assert [step.release.step for step in close_all(target)] == [0]


def test_a_schedule_known_beforehand_announces_its_steps() -> None:
    """Without a single activation; its empty steps close by themselves, steps after it stay open."""
    target = engine(announced={0: (), 1: ("A",), 2: (), 3: ("B",)})
    closed, _ = feed(target, [reading(1, "A", 2)], finish=False)
    assert [step.release.step for step in closed] == [0, 1, 2]


@pytest.mark.slow
@settings(max_examples=40)
@given(st.integers(0, 1000), st.integers(0, 4), st.randoms(use_true_random=False))
def test_any_order_within_the_grace_and_any_repetition_give_the_same_releases(
    seed: int, grace: int, random: object
) -> None:
    """A message of step k may come at any time until a reading of step k + grace + 1 does."""
    messages = messages_of_a_day(12, seed)
    expected, _ = feed(engine(grace=grace, accounts=accountant(operations=0)), messages)
    generator = np.random.default_rng(seed + 1)
    repeated = [m for m in messages for _ in range(1 + int(generator.integers(0, 2)))]
    arrival = [message.step + generator.uniform(0, grace) if grace else message.step for message in repeated]
    shuffled = [repeated[i] for i in np.argsort(arrival, kind="stable")]
    if not grace:
        shuffled = messages
    found, rejected = feed(engine(grace=grace, accounts=accountant(operations=0)), shuffled)
    assert releases(found) == releases(expected)
    assert [step.summary for step in found] == [step.summary for step in expected]
    assert rejected == []


@pytest.mark.slow
def test_the_same_stream_gives_the_same_bits_again() -> None:
    messages = messages_of_a_day(15, 3, faults=True)
    engines = engine(), engine()
    first, second = (feed(each, messages) for each in engines)
    assert releases(first[0]) == releases(second[0])
    assert [each.summary for each in first[0]] == [each.summary for each in second[0]]
    one, other = (each.accounts.records() for each in engines)  # type: ignore[attr-defined]
    assert one.risk.tobytes() == other.risk.tobytes()
    assert first[1] == second[1]


def test_decisions_and_risks_do_not_depend_on_counts() -> None:
    """The same schedule with other counts: the same decisions, the same risks, bit for bit."""
    messages = messages_of_a_day(15, 4)
    others: list[Activation | Reading] = [
        m.model_copy(update={"count": 39 - m.count}) if isinstance(m, Reading) else m for m in messages
    ]
    first, second = feed(engine(), messages)[0], feed(engine(), others)[0]
    assert releases(first) != releases(second)
    assert [step.schedule for step in first] == [step.schedule for step in second]
    assert [step.summary for step in first] == [step.summary for step in second]


class Refusing:
    """An accountant that cannot account the second step."""

    def __init__(self) -> None:
        self._real = accountant()

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)

    def apply(self, step: StepSchedule) -> None:
        if step.step == 1:
            raise StepOrderError("the step must be accountable", step.step, "see the log")
        self._real.apply(step)


class Watched:
    """A publisher that notes the steps it draws."""

    def __init__(self) -> None:
        self.drawn: list[int] = []

    def publish(self, schedule: StepSchedule, counts: list[int | None]) -> list[int | None]:
        self.drawn.append(schedule.step)
        return counts


def test_a_step_that_cannot_be_accounted_is_never_drawn() -> None:
    """The engine stops with an error before the publisher is asked."""
    target = engine(accounts=Refusing())  # type: ignore[arg-type]
    target._publisher = publisher = Watched()  # type: ignore[assignment]
    messages = [activation(0, "A"), reading(0, "A", 1), activation(1, "A"), reading(1, "A", 1)]
    with pytest.raises(AccountingFailedError, match="step 1 must be accounted before it is published"):
        feed(target, messages)
    assert publisher.drawn == [0]
    assert target.next_step == 1, "its counts are still there"
    assert target.intake.window.closing().counts == {"A": 1}


def test_a_step_whose_attack_refutes_the_ceiling_is_never_drawn() -> None:
    """A ceiling that is proved wrong protects nobody: nothing more is published on it."""

    noted: list[int] = []

    class Refuting:
        def note(self, step: StepSchedule) -> None:
            noted.append(step.step)

        def mean(self) -> None:
            if noted[-1] == 1:
                raise AttackAboveCeilingError("map", 0.9, "exact", 0.5)

    target = engine()
    target.accounts._shadow = Refuting()  # type: ignore[attr-defined]
    target._publisher = publisher = Watched()  # type: ignore[assignment]
    messages = [activation(0, "A"), reading(0, "A", 1), activation(1, "A"), reading(1, "A", 1)]
    with pytest.raises(AccountingFailedError, match="no attack may be right more often than the ceiling"):
        feed(target, messages)
    assert publisher.drawn == [0]


def test_everybody_is_reported_now_and_then_and_who_crosses_a_threshold_at_once() -> None:
    """Every five steps all six people; in between exactly those the accountant names."""
    target = engine()
    watched = target.accounts
    assert isinstance(watched, PeopleAccounts)
    for step in range(12):
        feed(target, [activation(step, "B"), reading(step, "B", 3)], finish=False)
        everybody = step % 5 == 0
        expected = list(range(6)) if everybody else watched.accountant.crossings().tolist()
        records = watched.records()
        assert records.person.tolist() == expected
        assert np.array_equal(records.risk, watched.accountant.risk()[records.person])
        assert len(records.by) == len(expected)


@pytest.mark.slow
def test_the_release_is_one_message_per_step() -> None:
    closed, _ = feed(engine(), messages_of_a_day(9, 1))
    assert all(isinstance(step.release, StepRelease) for step in closed)
    assert [step.release.step for step in closed] == list(range(len(closed)))
