"""``phenomenonTime``: an instant or interval of ISO 8601 (OGC 18-088, table 12), as text and in seconds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple


class Interval(NamedTuple):
    """Unix seconds; ``end`` is exclusive, and None for an instant."""

    start: float
    end: float | None

    @classmethod
    def parse(cls, text: object) -> Interval:
        """``ValueError`` where it is none, lacks an offset or does not end after it starts."""
        if not isinstance(text, str):
            raise ValueError("must be a text")
        start, slash, end = text.partition("/")
        found = cls(_seconds(start), _seconds(end) if slash else None)
        if found.end is not None and found.end <= found.start:
            raise ValueError("must end after it starts")
        return found


def in_words(seconds: float) -> str:
    """An instant as services take it in a filter: UTC, with a Z, so that no + needs escaping."""
    at = datetime.fromtimestamp(seconds, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"


def _seconds(text: str) -> float:
    at = datetime.fromisoformat(text.strip())
    if at.tzinfo is None:
        raise ValueError("must have an offset from UTC")
    return at.timestamp()
