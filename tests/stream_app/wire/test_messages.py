"""Messages: what is taken, what is refused, and that nothing makes the parser fail."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting.decisions import BudgetReason
from stream_app.wire.messages import (
    MAX_COUNT,
    Activation,
    DecisionReason,
    Reading,
    Readings,
    Reason,
    Rejected,
    SensorValue,
    StepDecision,
    StepRelease,
)
from stream_app.wire.parsing import MAX_PAYLOAD_CHARS, parse
from tests.stream_app.any_message import parse_any

READING = {"v": 1, "type": "reading", "step": 12, "sensor": "s3", "count": 41}
READINGS = {"v": 1, "type": "readings", "step": 12, "counts": {"s3": 41, "s17": 7}}
ACTIVATION = {"v": 1, "type": "activation", "step": 12, "sensors": ["s3", "s17"]}


def line(fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_readings_and_an_activation_are_read_as_documented() -> None:
    assert parse(line(READING), "x") == Reading(v=1, step=12, sensor="s3", count=41)
    assert parse(line(READINGS), "x") == Readings(v=1, step=12, counts={"s3": 41, "s17": 7})
    assert parse(line(ACTIVATION), "x") == Activation(v=1, step=12, sensors=("s3", "s17"))


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", Reason.NOT_JSON),
        (b"{", Reason.NOT_JSON),
        (b"\xff\xfe", Reason.NOT_JSON),
        (b"[" * 100_000, Reason.NOT_JSON),
        (b"null", Reason.INVALID_FIELD),
        (b"[]", Reason.INVALID_FIELD),
        (b'{"v": 1}', Reason.MISSING_FIELD),
        (line({**READING, "v": 2}), Reason.UNKNOWN_VERSION),
        (line({**READING, "v": True}), Reason.UNKNOWN_VERSION),
        (line({k: v for k, v in READING.items() if k != "v"}), Reason.MISSING_FIELD),
        (line({k: v for k, v in READING.items() if k != "count"}), Reason.MISSING_FIELD),
        (line({**READING, "type": "release"}), Reason.UNKNOWN_TYPE),
        (line({**READING, "note": "hello"}), Reason.UNKNOWN_FIELD),
        (line({**READING, "count": -1}), Reason.NEGATIVE_COUNT),
        (line({**READING, "count": 1.5}), Reason.COUNT_NOT_INTEGER),
        (line({**READING, "count": 2.0}), Reason.COUNT_NOT_INTEGER),
        (line({**READING, "count": "2"}), Reason.COUNT_NOT_INTEGER),
        (line({**READING, "count": True}), Reason.COUNT_NOT_INTEGER),
        (line({**READING, "count": None}), Reason.COUNT_NOT_INTEGER),
        (line({**READING, "count": MAX_COUNT + 1}), Reason.COUNT_TOO_LARGE),
        (line({**READING, "count": 10**30}), Reason.COUNT_TOO_LARGE),
        (line({**READING, "step": -1}), Reason.INVALID_FIELD),
        (line({**READING, "step": 10**30}), Reason.INVALID_FIELD),
        (line({**READING, "sensor": ""}), Reason.INVALID_FIELD),
        (line({**READINGS, "counts": [41, 7]}), Reason.INVALID_FIELD),
        (line({**READINGS, "step": "12"}), Reason.INVALID_FIELD),
        (line({**READINGS, "version": 0}), Reason.INVALID_FIELD),
        (line({**READINGS, "sensor": "s3"}), Reason.UNKNOWN_FIELD),
        (line({k: v for k, v in READINGS.items() if k != "counts"}), Reason.MISSING_FIELD),
        (line(READINGS).replace(b"s17", b"s3"), Reason.REPEATED_SENSOR),
        (line(READINGS).replace(b"s17", b"\\u0073\\u0033"), Reason.REPEATED_SENSOR),
        (line({**ACTIVATION, "sensors": "s3"}), Reason.INVALID_FIELD),
        (line({**ACTIVATION, "sensors": ["s3", 4]}), Reason.INVALID_FIELD),
    ],
)
def test_what_is_no_message_is_rejected_with_its_reason(payload: bytes, reason: Reason) -> None:
    """Source and payload are kept, the hint says what to do."""
    rejected = parse(payload, "feed:3")
    assert isinstance(rejected, Rejected)
    assert (rejected.reason, rejected.source) == (reason, "feed:3")
    assert rejected.payload == payload.decode(errors="backslashreplace")[:MAX_PAYLOAD_CHARS]
    assert len(rejected.hint) > 5


def test_a_huge_payload_is_cut_and_the_hint_says_so() -> None:
    rejected = parse(b"x" * 10_000, "feed:1")
    assert isinstance(rejected, Rejected)
    assert len(rejected.payload) == MAX_PAYLOAD_CHARS
    assert "of 10000 bytes" in rejected.hint


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["v", "type", "step", "sensor", "sensors", "count", "counts", "extra"])
VALUES = [1, 2, -1, "reading", "activation", "readings", "A", ["A"], {"A": 1, "B": 0.5}, 0.5]
NEARLY = st.dictionaries(KEYS, st.sampled_from(VALUES) | JSON)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.binary(max_size=60) | st.builds(line, JSON) | st.builds(line, NEARLY))
def test_whatever_comes_is_a_message_or_a_dead_letter_that_can_be_written(payload: bytes) -> None:
    """Never an exception, and the dead letter itself is a message of the contract."""
    result = parse(payload, "fuzz:1")
    if isinstance(result, Rejected):
        assert parse_any(result.line()) == result
    else:
        assert parse_any(result.line()) == result


def test_a_release_says_value_and_parameters_only_where_there_are_any() -> None:
    release = StepRelease(
        step=12,
        releases=(
            SensorValue(sensor="s3", mechanism="gaussian", sigma=1.0, value=40),
            SensorValue(sensor="s17", mechanism="suppressed"),
        ),
    )
    assert json.loads(release.line()) == {
        "v": 1,
        "type": "release",
        "step": 12,
        "releases": [
            {"sensor": "s3", "mechanism": "gaussian", "sigma": 1.0, "value": 40},
            {"sensor": "s17", "mechanism": "suppressed"},
        ],
    }
    assert parse_any(release.line()) == release


def test_a_decisions_reason_has_the_names_that_logs_have_had() -> None:
    """Workers of an earlier version read it while a cluster is upgraded, and its logs are read after."""
    why = DecisionReason(
        reason=BudgetReason.SPENT, people=9, allowed=2, natural=1, over=1, cleared=3, rounds=4
    )
    decision = StepDecision(step=5, decisions=(), why=why)
    written = {"because": "spent", "people": 9, "allowed": 2, "natural": 1, "over": 1, "dear": 3, "rounds": 4}
    assert json.loads(decision.line())["why"] == why.model_dump(exclude_none=True) == written
    assert StepDecision.model_validate_json(decision.line()) == decision
