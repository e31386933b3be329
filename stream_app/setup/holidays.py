"""Holidays of a deployment that lives: declared for days of which nothing is known yet."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from stream_app.exceptions import RunChangedError

HOLIDAYS = "holidays"


def check_holidays(before: Mapping[str, Any], now: Mapping[str, Any], first_free: int) -> None:
    """:class:`RunChangedError` where days differ that begin before ``first_free``.

    ``before`` and ``now`` are what a run is recorded with, of the same time zone. Steps before ``first_free``
    are closed or announced, or counts of them have come: else a count could decide what a day was.
    """
    was, is_now = (set(facts.get(HOLIDAYS) or ()) for facts in (before, now))
    changed = sorted(day for day in was ^ is_now if _first_step(now, day) < first_free)
    if changed:
        day = changed[0]
        raise RunChangedError(
            "holidays must stay as they were on days that have begun, or of which steps are announced or "
            f"counts have come: here those with steps before step {first_free}",
            f"{day} {'was one and is none now' if day in was else 'was none and is one now'}",
            "put these days back as they were; later days may be added and taken out",
        )


def _first_step(facts: Mapping[str, Any], day: str) -> int:
    """The step in which a day begins by the clock on the wall."""
    begins = datetime.combine(date.fromisoformat(day), datetime.min.time(), ZoneInfo(facts["timezone"]))
    origin = int(datetime.fromisoformat(facts["origin"]).timestamp())
    return int((begins.timestamp() - origin) // facts["step_seconds"])
