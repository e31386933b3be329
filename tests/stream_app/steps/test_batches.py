"""A batch of readings is what the same readings are one by one: taken, repeated, refused, published."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_app.kafka.release.release_core import InputRecord, ReleaseCore
from stream_app.steps import Origin, StepClock
from stream_app.wire import (
    Activation,
    InputMessage,
    Outcome,
    Reading,
    Readings,
    Reason,
    Rejected,
    parse,
    parse_counts,
)
from stream_app.wire import batched as gather
from tests.stream_app.engine_support import (
    NAMES,
    activation,
    engine,
    lines_of,
    messages_of_a_day,
    outputs_of,
    reading,
    run_on,
)
from tests.stream_app.memory_log import MemoryLog, took

ORIGIN = Origin("test:1", b"a whole batch")
OPEN = [activation(0, *NAMES), reading(0, "A", 5)]


def batch(step: int, version: int | None = None, **counts: Any) -> Readings:
    return Readings(v=1, step=step, counts=counts, version=version)


def batched(messages: Sequence[Activation | Reading], seed: int) -> list[InputMessage]:
    """Runs of readings of one step in batches of random length, each sensor once in a batch."""
    random = np.random.default_rng(seed)
    found: list[InputMessage] = []
    for step, group in groupby(messages, key=lambda each: each.step if isinstance(each, Reading) else None):
        rest = list(group)
        if step is None:
            found += rest
        while step is not None and rest:
            counts: dict[str, int] = {}
            for each in rest[: int(random.integers(1, 5))]:
                assert isinstance(each, Reading)
                if each.sensor in counts:
                    break
                counts[each.sensor] = each.count
            found.append(batch(step, **counts))
            rest = rest[len(counts) :]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_releases_and_risks_are_those_of_single_readings_bit_for_bit(tmp_path: Path, seed: int) -> None:
    """With readings missing, unannounced, and before their activation; every output, dead letters too."""
    messages = messages_of_a_day(25, seed, faults=True)
    for at in range(3, len(messages) - 1, 11):  # some come before their activation
        messages[at], messages[at + 1] = messages[at + 1], messages[at]
    together = batched(messages, seed)
    assert len(together) < len(messages)
    single = run_on(tmp_path / "single", [lines_of(messages)])
    report = run_on(tmp_path / "batches", [b"".join(each.line() for each in together)])
    assert (report.steps, report.lines) == (single.steps, single.lines)
    one, other = outputs_of(tmp_path / "single"), outputs_of(tmp_path / "batches")
    assert refusals(one.pop("rejected.jsonl")) == refusals(other.pop("rejected.jsonl"))
    assert one == other


def refusals(letters: bytes) -> list[tuple[str, Reason]]:
    """Payload and reason of each dead letter.

    An unannounced count behind the last announced one of its step is late alone, and not yet in a batch.
    """
    alike = {Reason.LATE_READING: Reason.NO_ACTIVATION}
    found = map(Rejected.model_validate_json, letters.splitlines())
    return sorted((each.payload, alike.get(each.reason, each.reason)) for each in found)


@pytest.mark.parametrize(
    ("count", "reason"),
    [
        ({"Z": 3}, Reason.UNKNOWN_SENSOR),
        ({"": 3}, Reason.INVALID_FIELD),
        ({"B": -1}, Reason.NEGATIVE_COUNT),
        ({"B": 1.0}, Reason.COUNT_NOT_INTEGER),
        ({"B": True}, Reason.COUNT_NOT_INTEGER),
        ({"B": None}, Reason.COUNT_NOT_INTEGER),
        ({"B": [4, 2]}, Reason.COUNT_NOT_INTEGER),
        ({"B": 2**50}, Reason.COUNT_TOO_LARGE),
        ({"B": 10**30}, Reason.COUNT_TOO_LARGE),
        ({"A": 6}, Reason.CONTRADICTING_READING),
    ],
)
def test_one_wrong_count_does_not_cost_the_others(count: dict[str, Any], reason: Reason) -> None:
    """Its dead letter holds the one count as a reading, which may be sent again."""
    target = engine()
    for message in OPEN:
        target.receive(message, ORIGIN)
    receipt = target.receive(batch(0, C=7, **count, D=8), ORIGIN)
    assert receipt.outcomes.count(Outcome.ACCEPTED) == 2
    (letter,) = receipt.rejected
    assert (letter.reason, letter.source) == (reason, "test:1")
    ((sensor, _),) = count.items()
    assert f'"type":"reading","step":0,"sensor":"{sensor}","count":' in letter.payload
    step = target.intake.window.at(0)
    assert step.counts == {"A": 5, "C": 7, "D": 8}


def test_a_batch_after_its_readings_changes_nothing_and_readings_after_their_batch_neither() -> None:
    target = engine()
    for message in OPEN:
        target.receive(message, ORIGIN)
    outcomes = [
        target.receive(message, ORIGIN).outcomes
        for message in (batch(0, A=5, B=1), batch(0, B=1, A=5), reading(0, "B", 1), batch(0))
    ]
    again = Outcome.DUPLICATE
    assert [sorted(each) for each in outcomes] == [[Outcome.ACCEPTED, again], [again, again], [again], []]


def test_a_batch_waits_for_its_activation_and_one_of_a_closed_step_is_late() -> None:
    target = engine(grace=0)
    assert target.receive(batch(0, A=3, C=4), ORIGIN).outcomes == ()
    receipt = target.receive(activation(0, "A"), ORIGIN)
    assert receipt.outcomes == (Outcome.ACCEPTED, Outcome.REJECTED)
    assert target.close_next() is not None
    receipt = target.receive(batch(0, A=3, B=4, C=5), ORIGIN)
    assert receipt.outcomes == (Outcome.DUPLICATE, Outcome.REJECTED, Outcome.REJECTED)
    assert [letter.reason for letter in receipt.rejected] == [Reason.LATE_READING] * 2


def test_a_batch_is_entered_whole_before_any_step_closes(tmp_path: Path) -> None:
    """Readings one by one could close their step by the watermark, and the rest of them would be late."""
    messages = [
        activation(0, *NAMES),
        *(activation(step, *NAMES) for step in (1, 2)),
        batch(2, A=1, B=1, C=1),
        batch(0, A=1, B=1, C=1, D=1),
    ]
    report = run_on(tmp_path, [b"".join(each.line() for each in messages)], settings={"grace": 2})
    assert report.rejected == {}


def test_a_sensor_with_two_counts_makes_no_batch() -> None:
    """Of two members of one name JSON readers keep the last: which of the counts was meant, nobody knows."""
    twice = b'{"v":1,"type":"readings","step":0,"counts":{"A":1,"B":2,"A":1}}'
    refused = parse(twice, "x")
    assert isinstance(refused, Rejected)
    assert refused.reason is Reason.REPEATED_SENSOR


def test_on_the_topic_of_readings_a_batch_is_one_record(tmp_path: Path) -> None:
    """A transaction behind it holds all of its counts; dead letters of its counts can be sent again."""
    core = ReleaseCore(engine(), StepClock(0, 60, None, 100), MemoryLog())
    values = [activation(0, *NAMES), batch(0, A=1, B=2, Z=9), reading(0, "C", 3), batch(0, C=3, D=4)]
    records = [
        InputRecord("activations" if at == 0 else "readings", float(at), max(at - 1, 0), each.line().rstrip())
        for at, each in enumerate(values)
    ]
    taken = took(core, records, 0.0)
    assert [event.step for event in taken.events] == [0]
    assert dict(taken.outcomes) == {Outcome.ACCEPTED: 4, Outcome.DUPLICATE: 1, Outcome.REJECTED: 1}
    assert [(each.source, each.payload) for each in taken.rejected] == [
        ("readings:0", '{"v":1,"type":"reading","step":0,"sensor":"Z","count":9}')
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_lines_gathered_into_batches_publish_the_same(tmp_path: Path, seed: int) -> None:
    """Whatever stands between readings stays where it is; a reading that comes again comes again."""
    messages = messages_of_a_day(20, seed, faults=True)
    lines = [each.line().rstrip() for each in messages]
    lines.insert(7, b"no message")
    gathered = list(gather(lines))
    assert len(gathered) < len(lines)
    assert [each for each in gathered if b'"readings"' not in each] == [
        each for each in lines if b'"reading"' not in each
    ]
    counts = [parse(each, "") for each in gathered]
    assert sum(len(each.counts) for each in counts if isinstance(each, Readings)) == sum(
        isinstance(each, Reading) for each in messages
    )
    for name, chosen in (("single", lines), ("gathered", gathered)):
        run_on(tmp_path / name, [b"".join(line + b"\n" for line in chosen)])
    one, other = outputs_of(tmp_path / "single"), outputs_of(tmp_path / "gathered")
    assert refusals(one.pop("rejected.jsonl")) == refusals(other.pop("rejected.jsonl"))
    assert one == other


def test_no_batch_is_longer_than_a_line_or_a_record_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_app.wire.parsing.BATCH_BYTES", 300)
    lines = [reading(0, f"sensor {number}", number).line().rstrip() for number in range(50)]
    gathered = list(gather(lines))
    assert max(map(len, gathered)) <= 300
    counts = [dict(each.counts) for each in map(parse_counts, gathered) if isinstance(each, Readings)]
    assert {name: count for each in counts for name, count in each.items()} == {
        f"sensor {number}": number for number in range(50)
    }
