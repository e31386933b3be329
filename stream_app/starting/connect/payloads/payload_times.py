"""Times in payloads: instants, or what the clock of the counter shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from stream_app.exceptions import InputError
from stream_app.setup.sections.payload_settings import PayloadSettings
from stream_app.starting.connect.payloads.json_paths import ABSENT, JsonPath
from stream_app.starting.counts.times import check_zone

_EARLIEST, _LATEST = 0, 1 << 38  # 1970 to the year 10680: milliseconds are no seconds
_OFFSET = re.compile(r"(?:UTC|GMT)?\s*([+-]?)(\d{1,2})(?::?([0-5]\d))?|Z|UTC|GMT")
_DURATION = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_UNIT_SECONDS = (604_800, 86_400, 3600, 60, 1)
_NUMBER = re.compile(r"\d{9,13}(?:\.\d+)?")  # unix seconds or milliseconds as a text
_ZONE_NAME = re.compile(
    r"(Z|[+-]\d\d:?\d\d)\[[\w/+-]+\]$", re.IGNORECASE
)  # as Java writes it, after an offset
_END_OF_DAY = re.compile(r"([T ])24:00((?::00(?:[.,]0+)?)?)(?=$|[Z+ -])")
_MOST_HOURS = 15
_SUMMER = timedelta(hours=1)
_MILLISECONDS = 1000.0
_LAST_MILLISECOND = 0.9985  # of a second; a double of our century is exact to a microsecond


def iso_duration(text: str) -> float | None:
    """Seconds of a duration of ISO 8601 such as ``PT1H``; None for no such text, and for months and years."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or text.strip() in ("P", "PT"):
        return None
    return sum(float(number or 0) * unit for number, unit in zip(found.groups(), _UNIT_SECONDS, strict=True))


class PayloadTimes:
    """Reads times as a mapping declares them; a text with an offset of its own needs no declaration."""

    def __init__(self, mapping: PayloadSettings) -> None:
        self._map = mapping
        if mapping.timezone is not None:
            check_zone(mapping.timezone)
        self._zone = ZoneInfo(mapping.timezone) if mapping.timezone else None
        self._offset = JsonPath.of(mapping.offset) if mapping.offset else None
        self._daylight = JsonPath.of(mapping.daylight) if mapping.daylight else None

    def seconds(self, time: object, payload: Any, record: Any, *, is_end: bool = False) -> int:
        """A time in whole unix seconds; :class:`InputError` for none, and for one that may mean two.

        Of an end that is the last millisecond (or less) of a second: that second, as of one in whole seconds.
        """
        if isinstance(time, str) and self._map.time_format is None and _NUMBER.fullmatch(time.strip()):
            time = float(time)
        if isinstance(time, int | float) and not isinstance(time, bool):
            seconds = time / _MILLISECONDS if self._map.time_unit == "milliseconds" else float(time)
        else:
            seconds = self._instant(time, lambda: self._zone_of(payload, record)).timestamp()
        if not _EARLIEST <= seconds < _LATEST:
            raise InputError(
                "a time must be of the years 1970 to 8999",
                "another one",
                'numbers are unix seconds; set time_unit = "milliseconds" if they count those',
            )
        is_last = is_end and self._map.ends != "exclusive" and seconds % 1 >= _LAST_MILLISECOND
        if seconds != int(seconds) and not is_last and self._map.tolerance_seconds == 0:
            raise InputError(
                "a time must be a whole second", "a part of one", "set tolerance_seconds in the mapping"
            )
        return int(seconds)

    def _instant(self, time: object, zone: Callable[[], tzinfo | None]) -> datetime:
        at = self._written(time)
        if at.tzinfo is not None:
            return at
        of = zone()
        if of is None:
            raise InputError(
                "a time must be an instant", "one without an offset", "set timezone in the mapping"
            )
        early, late = (at.replace(tzinfo=of, fold=fold) for fold in (0, 1))
        if early.utcoffset() == late.utcoffset():
            return early
        if datetime.fromtimestamp(early.timestamp(), UTC).astimezone(of).replace(tzinfo=None) != at:
            raise InputError(
                f"every time must exist on a clock in {of}",
                "one in an hour that it skips",
                "correct timezone (Etc/GMT+8 if one time is kept all year)",
            )
        if self._map.ambiguous == "refuse":
            raise InputError(
                f"each time must be of one hour in {of}",
                "one in an hour that the clock shows twice",
                'set ambiguous = "earlier" or "later" in the mapping, or have times sent with their offset',
            )
        return early if self._map.ambiguous == "earlier" else late

    def _written(self, time: object) -> datetime:
        text = str(time).strip() if isinstance(time, str) else ""
        try:
            if self._map.time_format is not None:
                return datetime.strptime(text, self._map.time_format)
            text = _ZONE_NAME.sub(r"\1", text.replace("/", "-")).upper()
            midnight = _END_OF_DAY.sub(r"\g<1>00:00\2", text)
            return datetime.fromisoformat(midnight) + timedelta(days=midnight != text)
        except (ValueError, OverflowError):
            raise InputError(
                "a time must be a text in ISO 8601 or a number",
                "a text that is none" if isinstance(time, str) else type(time).__name__,
                "correct start and end of the mapping, or name time_format",
            ) from None

    def _zone_of(self, payload: Any, record: Any) -> tzinfo | None:
        """The clock's zone: declared, or as the payload says it."""
        if self._offset is None:
            return self._zone
        said = self._offset.at(payload, record)
        found = _OFFSET.fullmatch(said.strip()) if isinstance(said, str) else None
        hours = int(found[2] or 0) if found else _MOST_HOURS
        if found is None or hours >= _MOST_HOURS:
            raise InputError(
                f"{self._offset.text} must be an offset like UTC+8:00",
                "nothing" if said is ABSENT else "something else",
                "correct offset in the mapping, or set timezone",
            )
        ahead = timedelta(hours=hours, minutes=int(found[3] or 0)) * (-1 if found[1] == "-" else 1)
        if self._daylight is not None and self._daylight.at(payload, record) is True:
            ahead += _SUMMER
        return timezone(ahead)
