"""What to say, early and at the end, where most messages of an input are refused."""

from __future__ import annotations

from collections.abc import Mapping

from stream_app.wire.messages import Reason

FIRST_LOOK = 100
"""Lines after which it is looked at first; then after ten times as many, and so on."""

_SENDER = "correct the sender; each hint in rejected.jsonl names the field"
_REMEDIES = {
    Reason.NOT_JSON: "write one JSON object a line; give --csv for CSV",
    Reason.NOT_CSV: "write as many values a line as the header has columns",
    Reason.TOO_LONG: "write one message a line",
    Reason.UNKNOWN_VERSION: _SENDER,
    Reason.UNKNOWN_TYPE: _SENDER,
    Reason.UNKNOWN_FIELD: _SENDER,
    Reason.MISSING_FIELD: _SENDER,
    Reason.INVALID_FIELD: _SENDER,
    Reason.UNKNOWN_SENSOR: "use the names of the sensors file; without one, those of the priors' locations",
    Reason.NEGATIVE_COUNT: "counts are integers from 0",
    Reason.COUNT_NOT_INTEGER: "counts are integers from 0, without quotes",
    Reason.COUNT_TOO_LARGE: "counts are at most 2^40",
    Reason.NO_ACTIVATION: "announce which sensors are active: an activation before each step's readings, or "
    "--schedule with a schedule (JSON) or activations (CSV)",
    Reason.CONTRADICTING_ACTIVATION: "the first one stands; look for a second sender",
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


def mostly_refused(lines: int, rejected: Mapping[str, int], waiting: int = 0) -> str | None:
    """The most frequent reason and what to do, where more than half of the lines are refused; else None.

    Readings that wait for the activation of their step count as refused for the lack of it. Names no figure
    and nothing that a message said.
    """
    by_reason = dict(rejected)
    by_reason[Reason.NO_ACTIVATION.value] = by_reason.get(Reason.NO_ACTIVATION.value, 0) + waiting
    if 2 * sum(by_reason.values()) <= lines:
        return None
    reason = Reason(max(sorted(by_reason), key=by_reason.__getitem__))
    return f"most messages are refused, most often as {reason.value}: {_REMEDIES[reason]}"
