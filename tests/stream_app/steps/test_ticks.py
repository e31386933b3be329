"""Steps that close by the clock: on their ticks, never before what waits is read, whatever the clock does."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from stream_app.embedded import RunOptions, RunReport, run
from stream_app.exceptions import SettingsError
from stream_app.steps.ticks import StepClock
from stream_app.watching.events import Observer, Observers
from stream_app.watching.metrics import EngineMetrics
from stream_app.wire.clock import ClockOff, SteadyTime
from stream_app.wire.messages import Activation, Reading, Readings
from tests.stream_app.engine_support import (
    activation,
    json_lines,
    lines_of,
    population,
    reading,
    settings,
)

STEP, GRACE, ORIGIN = 60, 20.0, 1_000_000
CHANGED = {"step_seconds": STEP, "grace_seconds": GRACE, "origin": ORIGIN}


class Clock:
    """Time by hand; ``jumped`` is by how much the wall clock is wrong."""

    def __init__(self, seconds: float) -> None:
        self.elapsed = seconds
        self.jumped = 0.0

    def now_seconds(self) -> float:
        return self.elapsed + self.jumped

    def monotonic_seconds(self) -> float:
        return self.elapsed


def at(step: int, seconds: float = 0.0) -> float:
    """So many seconds after the end of a step."""
    return ORIGIN + (step + 1) * STEP + seconds


def run_by(clock: Clock, output: Path, chunks: Iterator[bytes], *, keep_open: bool = True) -> RunReport:
    options = RunOptions(output, keep_open=keep_open)
    return run(settings(**CHANGED), options, population(), clock=clock, chunks=chunks)


def steps_in(output: Path) -> int:
    """How many steps are published so far."""
    path = output / "releases.jsonl"
    return len(path.read_bytes().splitlines()) if path.exists() else 0


def of_steps(first: int, until: int) -> list[Activation | Reading]:
    """Two sensors that report everything."""
    messages: list[Activation | Reading] = []
    for step in range(first, until):
        messages += [activation(step, "A", "B"), reading(step, "A", step), reading(step, "B", 1)]
    return messages


@pytest.mark.parametrize("pause", [False, True])
def test_after_ten_minutes_away_every_reading_that_waits_is_taken(tmp_path: Path, pause: bool) -> None:
    """At once as from a file, or with moments in which a pipe holds nothing."""
    clock = Clock(at(1, GRACE))
    run_by(clock, tmp_path, iter([lines_of(of_steps(0, 2))]))
    assert steps_in(tmp_path) == 2
    clock.elapsed = at(11, GRACE)

    def waiting() -> Iterator[bytes]:
        for message in of_steps(2, 12):
            if pause:
                clock.elapsed += 0.1
                yield b""
            yield message.line()

    report = run_by(clock, tmp_path, waiting())
    assert report.rejected == {}
    assert steps_in(tmp_path) == 12
    released = json_lines(tmp_path / "releases.jsonl")
    assert all("value" in entry for line in released for entry in line["releases"])  # type: ignore[attr-defined]


def test_an_input_that_is_given_again_slowly_is_skipped_before_the_clock_counts(tmp_path: Path) -> None:
    clock = Clock(at(1, GRACE))
    sent = of_steps(0, 12)
    run_by(clock, tmp_path, iter([lines_of(of_steps(0, 2))]))

    def again() -> Iterator[bytes]:
        clock.elapsed = at(11, GRACE)
        for message in sent:
            yield message.line()
            clock.elapsed += 0.9
            yield b""

    assert run_by(clock, tmp_path, again()).rejected == {}
    assert steps_in(tmp_path) == 12


@pytest.mark.parametrize("reported", [("A", "B"), ("A",), ()])
def test_a_step_is_published_on_its_tick_whoever_has_reported(
    tmp_path: Path, reported: tuple[str, ...]
) -> None:
    """Neither when the slowest sensor reports nor when a later step does: the moment tells nothing."""
    clock = Clock(at(0, -5.0))
    before: list[int] = []

    def live() -> Iterator[bytes]:
        yield lines_of([activation(0, "A", "B"), *(reading(0, name, 3) for name in reported)])
        yield lines_of([activation(9, "A", "B"), reading(9, "A", 3), reading(9, "B", 3)])
        while clock.elapsed < at(0, GRACE):
            yield b""
            before.append(steps_in(tmp_path))
            clock.elapsed += 0.5
        yield b""
        before.append(steps_in(tmp_path))

    run_by(clock, tmp_path, live())
    assert before == [0] * (len(before) - 1) + [1]


@pytest.mark.parametrize("jump", [600.0, 7200.0, 3e8])
def test_a_clock_that_jumps_and_comes_back_loses_nothing(
    tmp_path: Path, jump: float, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock(at(0))
    caplog.set_level(logging.WARNING)

    def live() -> Iterator[bytes]:
        for step in range(12):
            clock.elapsed = at(step)
            clock.jumped = jump if 3 <= step < 6 else -jump if 7 <= step < 9 else 0.0
            yield lines_of(of_steps(step, step + 1))
            for _ in range(5):
                clock.elapsed += 5.0
                yield b""

    assert run_by(clock, tmp_path, live()).rejected == {}
    released = json_lines(tmp_path / "releases.jsonl")
    assert len(released) == 12
    assert all(len(line["releases"]) == 2 for line in released)  # type: ignore[arg-type]
    assert sum("jumped" in record.message for record in caplog.records) == 1


@pytest.mark.slow
def test_a_clock_that_was_set_right_is_believed_once_the_sensors_agree(tmp_path: Path) -> None:
    """A machine that starts in 1970 must not wait for fifty years."""
    clock = Clock(at(0))
    clock.jumped = -at(0)

    def live() -> Iterator[bytes]:
        for step in range(30):
            clock.elapsed = at(step)
            clock.jumped = 0.0 if step else clock.jumped
            yield lines_of(of_steps(step, step + 1))
            clock.elapsed += GRACE
            yield b""

    assert run_by(clock, tmp_path, live()).rejected == {}
    assert steps_in(tmp_path) >= 29


DAY_OF = 1_700_000_040  # a minute of a time in which clocks are set


def test_a_count_of_a_step_that_is_not_over_is_refused_whoever_sends_it(tmp_path: Path) -> None:
    """Zero at ten to seven is not the count until seven: the true one is taken when it comes."""
    clock = Clock(DAY_OF)
    taken: list[int] = []

    def live() -> Iterator[bytes]:
        for step in range(3):
            clock.elapsed = DAY_OF + (step + 1) * STEP - 10.0
            early = Readings(v=1, step=step, counts={"B": 0})
            yield lines_of([activation(step, "A", "B"), reading(step, "A", 0)]) + early.line()
            yield lines_of([reading(step + 1, "A", 0)])  # before its activation, too
            clock.elapsed += 5.0  # what clocks may differ
            yield lines_of([reading(step, "A", 41), reading(step, "B", 43)])
        taken.append(1)

    changed = {**CHANGED, "origin": DAY_OF, "release": {"mechanism": "raw"}}
    report = run(settings(**changed), RunOptions(tmp_path), population(), clock=clock, chunks=live())
    assert report.rejected == {"not_over": 9}
    assert {letter["reason"] for letter in json_lines(tmp_path / "rejected.jsonl")} == {"not_over"}
    values = [
        [each["value"] for each in line["releases"]] for line in json_lines(tmp_path / "releases.jsonl")
    ]
    assert values == [[41, 43]] * 3


def test_no_sender_brings_the_time_forward_in_which_steps_are_over() -> None:
    """Steps shorter than what clocks may differ, each count as early as it may be, for a thousand steps."""
    clock = Clock(DAY_OF)
    steady, steps = (
        SteadyTime(clock.now_seconds(), clock.monotonic_seconds),
        StepClock(DAY_OF, 2, 1.0, 100, 5.0),
    )
    for _ in range(1000):
        last = steps.over_step(steady.at_most_seconds())
        assert steps.end_of(int(last)) <= clock.now_seconds() + 5.0
        steady.vouch(steps.end_of(int(last)))
        steady.observe(clock.now_seconds())
        clock.elapsed += 0.01
    clock.jumped = -3600.0  # set back: what is over stays over
    steady.observe(clock.now_seconds())
    assert steps.over_step(steady.at_most_seconds()) >= last
    assert StepClock(0, 2, None, 100, 5.0).over_step(3600.0) == math.inf, "no clock that was set"


def test_silent_steps_close_by_the_clock_and_a_silent_input_too(tmp_path: Path) -> None:
    clock = Clock(at(4, GRACE))

    def silent() -> Iterator[bytes]:
        for _ in range(50):
            clock.elapsed += 1.0
            yield b""

    run_by(clock, tmp_path, silent())
    assert steps_in(tmp_path) == 5


def test_what_no_clock_should_say_stops_the_run_with_a_sentence(tmp_path: Path) -> None:
    clock = Clock(at(0, GRACE))
    run_by(clock, tmp_path, iter([lines_of(of_steps(0, 1))]))
    clock.elapsed = at(5000)
    with pytest.raises(SettingsError, match="within 1000 steps of step 1"):
        run_by(clock, tmp_path, iter([b""]))
    assert steps_in(tmp_path) == 1


def test_steady_time_follows_small_corrections_and_what_was_vouched_for() -> None:
    elapsed = [0.0]
    steady = SteadyTime(100.0, lambda: elapsed[0])
    elapsed[0] = 10.0
    for shown, believed in [(110.5, 110.5), (50.0, 50.0), (110.5, 110.5), (500.0, 110.5), (111.4, 111.4)]:
        steady.observe(shown)
        assert steady.now_seconds() == pytest.approx(believed)
    steady.vouch(400.0)
    steady.observe(500.0)
    assert steady.now_seconds() == pytest.approx(400.0)
    elapsed[0] = 20.0
    assert steady.now_seconds() == pytest.approx(410.0)


def test_how_far_a_clock_is_off_is_known_until_it_is_made_up_for() -> None:
    """Ahead until it comes back or is vouched for, behind for as long as steps wait."""
    elapsed = [0.0]
    steady = SteadyTime(100.0, lambda: elapsed[0])
    seen = []
    for passed, shown in [(10, 110), (20, 500), (30, 130), (40, 80), (60, 100), (100, 140)]:
        elapsed[0] = float(passed)
        steady.observe(float(shown))
        seen.append(tuple(steady.off))
    assert seen == [(0, 0), (380, 0), (0, 0), (0, 50), (0, 30), (0, 0)]
    steady.observe(700.0)
    assert tuple(steady.off) == (500, 0)
    steady.vouch(699.5)
    steady.observe(700.0)
    assert tuple(steady.off) == (0, 0)


def test_an_operator_sees_a_clock_that_jumps_and_one_that_is_set_back(tmp_path: Path) -> None:
    """By a metric, while the run goes on; where no steps close by the clock it says nothing."""
    clock, registry = Clock(at(0)), CollectorRegistry()
    metrics = EngineMetrics(registry, [], (0.5,), 1e-6)
    seen = []

    def look() -> None:
        by = [{"direction": direction} for direction in ("ahead", "behind")]
        seen.append(tuple(registry.get_sample_value("tallyguard_clock_off_seconds", each) for each in by))

    def chunks() -> Iterator[bytes]:
        for jumped in (0.0, 3600.0, 0.0, -90.0):
            clock.elapsed += 1.0
            clock.jumped = jumped
            yield b""
            clock.elapsed += 1.0
            yield b""
            look()

    run(
        settings(**CHANGED),
        RunOptions(tmp_path / "run", keep_open=True),
        population(),
        clock=clock,
        chunks=chunks(),
        observer=Observers([metrics]),
    )
    assert seen == [(0, 0), (3600, 0), (0, 0), (0, 88)]
    seen.clear()
    clock = Clock(at(0))
    run(
        settings(**{**CHANGED, "grace_seconds": None}),
        RunOptions(tmp_path / "without", keep_open=True),
        population(),
        clock=clock,
        chunks=chunks(),
        observer=(observer := Heard()),
    )
    assert seen
    assert not observer.clocks


class Heard(Observer):
    """Keeps what is said of the clock."""

    def __init__(self) -> None:
        self.clocks: list[ClockOff] = []

    def clock_read(self, off: ClockOff) -> None:
        self.clocks.append(off)


def test_the_wait_for_input_ends_at_the_tick() -> None:
    clock = StepClock(ORIGIN, STEP, GRACE, 5)
    assert clock.wait_seconds(at(0, GRACE - 0.25)) == pytest.approx(0.25)
    assert clock.wait_seconds(at(0, GRACE)) == 1.0
    assert StepClock(ORIGIN, STEP, None, 5).wait_seconds(at(0)) == 1.0
