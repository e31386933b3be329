"""Messages from lines: a line that is no message becomes a dead letter with a reason and a hint.

:func:`parse` never raises; the reason is one of a fixed list (:class:`~stream_app.wire.messages.Reason`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, TypeVar

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from models.exceptions import MOST_CHARACTERS, shortened
from models.text import distinct_members
from stream_app.wire.messages import MAX_COUNT, Activation, Reading, Readings, Reason, Rejected

FIRST_LOOK = 100
"""Lines after which :func:`mostly_refused` is first asked; then after ten times as many, and so on."""

_SENDER = "correct the sender; each hint in rejected.jsonl names the field"  # where nothing better is known
_REMEDIES = {
    Reason.NOT_JSON: "write one JSON object a line; give --csv for CSV",
    Reason.NOT_CSV: "write as many values a line as the header has columns",
    Reason.TOO_LONG: "write one message a line",
    Reason.UNKNOWN_SENSOR: "use the names of the sensors file; without one, those of the priors' locations",
    Reason.NEGATIVE_COUNT: "counts are integers from 0",
    Reason.COUNT_NOT_INTEGER: "counts are integers from 0, without quotes",
    Reason.COUNT_TOO_LARGE: "counts are at most 2^40",
    Reason.NO_ACTIVATION: "announce which sensors are active: an activation before each step's readings, or "
    "--schedule with a schedule (JSON) or activations (CSV)",
    Reason.EXCLUDED: "these devices are excluded by the table of quality.exclusions; nothing is to be done",
    Reason.CONTRADICTING_ACTIVATION: "the first one counts; look for a second sender",
    Reason.LATE_READING: "sort the input by step, or raise grace",
    Reason.NOT_OVER: "send counts once their step is over; set clocks and origin; raise max_ahead_seconds "
    "where times are simulated",
    Reason.UNEXPECTED_VERSION: "number the counts of a step from 1; declare corrections in the sensors file",
    Reason.LATE_ACTIVATION: "announce steps before their readings, sorted by step",
    Reason.TOO_FAR_AHEAD: "number steps from 0 at the settings' origin, or raise max_ahead",
    Reason.TOO_MANY_WAITING: "announce steps before their readings",
    Reason.REPEATED_SENSOR: "name each sensor once in a message",
    Reason.NO_WINDOW_ENDS: "announce a sensor with a window for the last step of each window",
    Reason.RECORDS_LOST: "send again whatever is missing and not late",
}


def mostly_refused(lines: int, rejected: Mapping[Reason, int], waiting: int = 0) -> str | None:
    """The most frequent reason and its remedy, if more than half of the lines are refused; else None.

    Readings that wait for the activation of their step count as refused for the lack of it. The text has no
    figure, and nothing that was in a message.
    """
    by_reason = dict(rejected)
    by_reason[Reason.NO_ACTIVATION] = by_reason.get(Reason.NO_ACTIVATION, 0) + waiting
    if 2 * sum(by_reason.values()) <= lines:
        return None
    reason = max(sorted(by_reason), key=by_reason.__getitem__)
    return f"most messages are refused, most often as {reason.value}: {_REMEDIES.get(reason, _SENDER)}"


MAX_PAYLOAD_CHARS = 4096
"""Dead letters keep this much of a payload."""

AnyInput = TypeVar("AnyInput", Activation | Reading | Readings, Reading | Readings)
InputMessage = Activation | Reading | Readings
CountMessage = Reading | Readings

_INPUT: TypeAdapter[InputMessage] = TypeAdapter(Annotated[InputMessage, Field(discriminator="type")])
_COUNTS: TypeAdapter[CountMessage] = TypeAdapter(Annotated[CountMessage, Field(discriminator="type")])
_EXPECTED = "activation, reading or readings"


def parse(line: bytes, source: str) -> InputMessage | Rejected:
    """The input message in a line, or a dead letter that names ``source``."""
    try:
        return _named_once(_INPUT.validate_json(line), line)
    except ValidationError as error:
        return reject(source, line, *explain(error, _EXPECTED))


def parse_fields(fields: Mapping[str, object], line: bytes, source: str) -> InputMessage | Rejected:
    """The message with these fields, read from ``line`` in another form than JSON."""
    try:
        return _INPUT.validate_python(fields)
    except ValidationError as error:
        return reject(source, line, *explain(error, _EXPECTED))


def parse_counts(line: bytes) -> CountMessage:
    """A reading or a batch of them; raises pydantic's ``ValidationError``."""
    return _named_once(_COUNTS.validate_json(line), line)


def _named_once(message: AnyInput, line: bytes) -> AnyInput:
    """The message; refused if a member, such as a sensor, is in it twice, as JSON readers keep the last."""
    if line.count(b'"') <= _least_quotes(message):  # nearly always: one more member would have two more
        return message
    try:
        json.loads(line, object_pairs_hook=distinct_members)
    except (ValueError, RecursionError):
        is_batch = isinstance(message, Readings)
        what = "a sensor has two counts, or a member is repeated" if is_batch else "a member is repeated"
        twice = PydanticCustomError("repeated_sensor" if is_batch else "repeated_member", what)
        raise ValidationError.from_exception_data(
            type(message).__name__, [{"type": twice, "loc": ("counts",) if is_batch else (), "input": None}]
        ) from None
    return message


def _least_quotes(message: AnyInput) -> int:
    """The least number of quotation marks in its JSON, if each member is there once."""
    texts = 1  # the type
    if isinstance(message, Reading):
        texts += 1
    elif isinstance(message, Activation):
        texts += len(message.sensors)
    else:
        texts += len(message.counts)
    return 2 * (len(message.model_fields_set) + texts)


def reject(source: str, payload: bytes, reason: Reason, hint: str) -> Rejected:
    """A dead letter; bytes that are not UTF-8 are kept as escapes."""
    hint = shortened(hint, MOST_CHARACTERS)  # it may name a field from the message
    text = payload.decode("utf-8", errors="backslashreplace")
    if len(text) > MAX_PAYLOAD_CHARS:
        text = text[:MAX_PAYLOAD_CHARS]
        hint = f"{hint} (payload cut to {MAX_PAYLOAD_CHARS} of {len(payload)} bytes)"
    return Rejected(source=source, payload=text, reason=reason, hint=hint)


_FIELD_NAME = re.compile(r"[A-Za-z_]{1,40}")


def _field_name(part: int | str) -> str:
    """The name of a field in a hint; a name that may contain a count or an id is left out."""
    return str(part) if isinstance(part, int) or _FIELD_NAME.fullmatch(part) else "..."


_TAGS = ("activation", "reading", "readings")  # how pydantic names the branch of a union
_BY_ERROR_TYPE = {
    "json_invalid": (Reason.NOT_JSON, "write one JSON object per line"),
    "union_tag_not_found": (Reason.MISSING_FIELD, 'add "type"'),
    "extra_forbidden": (Reason.UNKNOWN_FIELD, "remove the field"),
    "missing": (Reason.MISSING_FIELD, "add the field"),
    "repeated_sensor": (Reason.REPEATED_SENSOR, "name each sensor once"),
    "repeated_member": (Reason.INVALID_FIELD, "name each member once"),
}
_BY_COUNT_ERROR = {
    "greater_than_equal": (Reason.NEGATIVE_COUNT, "a count is 0 or more"),
    "less_than_equal": (Reason.COUNT_TOO_LARGE, f"a count is at most {MAX_COUNT}"),
    "int_parsing_size": (Reason.COUNT_TOO_LARGE, f"a count is at most {MAX_COUNT}"),
    "int_type": (Reason.COUNT_NOT_INTEGER, "write the count as an integer without quotes or decimals"),
    "int_from_float": (Reason.COUNT_NOT_INTEGER, "write the count as an integer without quotes or decimals"),
}


def explain(error: ValidationError, expected: str, *, quotes: bool = True) -> tuple[Reason, str]:
    """Reason and hint for the first error in a message; with ``quotes`` the hint names fields."""
    first = error.errors(include_url=False, include_input=False)[0]
    kind = first["type"]
    field = ".".join(_field_name(part) for part in first["loc"] if part not in _TAGS)
    where = f"field {field!r}: {first['msg']}" if field and quotes else first["msg"]
    if kind == "union_tag_invalid" or (kind == "literal_error" and field == "type"):
        return Reason.UNKNOWN_TYPE, f"type must be {expected}"
    if field == "v" and kind != "missing":
        return Reason.UNKNOWN_VERSION, 'this release reads "v": 1'
    if field == "count" and kind in _BY_COUNT_ERROR:
        reason, remedy = _BY_COUNT_ERROR[kind]
    else:
        reason, remedy = _BY_ERROR_TYPE.get(kind, (Reason.INVALID_FIELD, "correct the value"))
    return reason, f"{where}; {remedy}"


BATCH_BYTES = 1 << 19
"""The most bytes of lines in one batch, so that it fits in a line and in a record."""


def batched(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The messages of these lines, without line ends; consecutive readings of one step become a batch.

    Any other line stays unchanged and in its place. A sensor that comes again begins another batch, so that a
    repetition, or a contradiction, remains one.
    """
    counts: dict[str, int] = {}
    step, version, size = 0, None, 0
    for line in lines:
        message = parse(line, "")
        if counts and not (
            isinstance(message, Reading)
            and (message.step, message.version) == (step, version)
            and message.sensor not in counts
            and size + len(line) <= BATCH_BYTES
        ):
            yield Readings(v=1, step=step, counts=counts, version=version).line().rstrip()
            counts, size = {}, 0
        if isinstance(message, Reading):
            step, version = message.step, message.version
            counts[message.sensor] = message.count
            size += len(line)
        else:
            yield line
    if counts:
        yield Readings(v=1, step=step, counts=counts, version=version).line().rstrip()
