"""``phenomenonTime``: an instant or interval of ISO 8601 (OGC 18-088, table 12), as text and in seconds."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import NamedTuple

from stream_app.starting.connect.payloads import iso_duration


class Interval(NamedTuple):
    """Unix seconds; ``end`` is exclusive, and None for an instant, even one written as an interval."""

    start: float
    end: float | None

    @classmethod
    def parse(cls, text: object, zone: tzinfo | None = None) -> Interval:
        """``ValueError`` where it is none, ends before it starts, or lacks an offset and there is no zone.

        One of the two ends may be a duration (``PT1H``).
        """
        if not isinstance(text, str):
            raise ValueError("must be a text")
        first, slash, last = text.partition("/")
        lasts, lasted = iso_duration(last), iso_duration(first)
        if lasted is not None:
            end = _seconds(last, zone)
            found = cls(end - lasted, end)
        else:
            start = _seconds(first, zone)
            end_or_none = start + lasts if lasts is not None else _seconds(last, zone) if slash else None
            found = cls(start, end_or_none)
        if found.end is not None and found.end < found.start:
            raise ValueError("must end after it starts")
        return cls(found.start, None) if found.end == found.start else found


def in_words(seconds: float) -> str:
    """An instant as services take it in a filter: UTC, with a Z, so that no + needs escaping."""
    at = datetime.fromtimestamp(seconds, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"


def _seconds(text: str, zone: tzinfo | None) -> float:
    at = datetime.fromisoformat(text.strip())
    if at.tzinfo is None:
        if zone is None:
            raise ValueError("must have an offset from UTC")
        at = at.replace(tzinfo=zone)
    return at.timestamp()
