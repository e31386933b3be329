"""Payloads in JSON, as counters and brokers send them, understood by a declared mapping."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from math import floor
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from stream_app.exceptions import InputError, SettingsError
from stream_app.setup.declared import most_counts_of
from stream_app.setup.sections import SENSOR, PayloadSettings
from stream_app.starting.connect import is_address_name, refuse_addresses, refuse_personal_columns
from stream_app.starting.counts.times import check_zone
from stream_app.wire import MAX_COUNT

# Paths into JSON: ``time_info.start``, ``lines[0].in``, ``['a.b']``; from the whole payload with ``$.``.

ABSENT = object()
"""What a path that leads nowhere finds; null is a value, and means "not counted"."""
_ROOT = "$"
_STEP = re.compile(r"\.?([^.\[\]'$]+)|\[(\d{1,6})\]|\['([^']+)'\]")


class FirstOf:
    """Paths from the record, or from the payload around it, of which the first counts that leads somewhere.

    :class:`SettingsError` for a text that is no path.
    """

    def __init__(self, *texts: str) -> None:
        self._texts = texts
        self._paths = tuple((text.startswith(_ROOT), _steps(text)) for text in texts)

    def at(self, payload: Any, record: Any) -> Any:
        """What stands there, or :data:`ABSENT`."""
        for is_from_root, steps in self._paths:
            found = payload if is_from_root else record
            for step in steps:
                if isinstance(step, str) and isinstance(found, Mapping):
                    found = found.get(step, ABSENT)
                elif isinstance(step, int) and isinstance(found, list) and step < len(found):
                    found = found[step]
                else:
                    found = ABSENT
            if found is not ABSENT:
                return found
        return ABSENT

    @property
    def beginnings(self) -> list[str]:
        """The names that the paths begin with."""
        return [str(steps[0]) for _, steps in self._paths]

    def __bool__(self) -> bool:
        return bool(self._texts)

    def __str__(self) -> str:
        return " or ".join(self._texts)


def _steps(text: str) -> tuple[str | int, ...]:
    """The names and indices of a path."""
    steps: list[str | int] = []
    position = len(_ROOT) if text.startswith(_ROOT) else 0
    while position < len(text):
        found = _STEP.match(text, position)
        if found is None:
            break
        name, index, quoted = found.groups()
        steps.append(int(index) if index else name or quoted)
        position = found.end()
    if not steps or position < len(text):
        raise SettingsError(
            "a path into a payload must be names and indices, like time_info.start or $.lines[0].in",
            repr(text),
            "write ['a.b'] for a name with a dot in it",
        )
    return tuple(steps)


def _one(text: str | None) -> FirstOf:
    """The path of a key that need not be set."""
    return FirstOf(text) if text else FirstOf()


def names_with_paths(payload: Any) -> Iterator[tuple[str, str]]:
    """Each name of a field at any depth, with its path from the payload, indices left out."""
    waiting: list[tuple[str, Any]] = [("", payload)]
    while waiting:
        above, value = waiting.pop()
        if isinstance(value, Mapping):
            for name, below in value.items():
                path = f"{above}.{name}" if above else str(name)
                yield str(name), path
                waiting.append((path, below))
        elif isinstance(value, list):
            waiting += [(above, below) for below in value]


# Times in payloads: instants, or what the clock of the counter shows.

_EARLIEST, _LATEST = 0, 1 << 38  # 1970 to the year 10680: milliseconds are no seconds
_OFFSET = re.compile(r"(?:UTC|GMT)?\s*([+-]?)(\d{1,2})(?::?([0-5]\d))?|Z|UTC|GMT")
_DURATION = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_UNIT_SECONDS = (604_800, 86_400, 3600, 60, 1)
_NUMBER = re.compile(r"\d{9,13}(?:\.\d+)?")  # unix seconds or milliseconds as a text
_ZONE_NAME = re.compile(r"(Z|[+-]\d\d:?\d\d)\[[\w/+-]+\]$", re.I)  # as Java writes it, after an offset
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
        self._offset, self._daylight = _one(mapping.offset), _one(mapping.daylight)

    def seconds(self, time: object, payload: Any, record: Any, *, is_end: bool = False) -> int:
        """A time in whole unix seconds; :class:`InputError` for none, and for one that may mean two.

        An end in the last millisecond of a second (08:59:59.999) becomes that second, as 08:59:59 does.
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
        if not self._offset:
            return self._zone
        said = self._offset.at(payload, record)
        found = _OFFSET.fullmatch(said.strip()) if isinstance(said, str) else None
        hours = int(found[2] or 0) if found else _MOST_HOURS
        if found is None or hours >= _MOST_HOURS:
            raise InputError(
                f"{self._offset} must be an offset like UTC+8:00",
                "nothing" if said is ABSENT else "something else",
                "correct offset in the mapping, or set timezone",
            )
        ahead = timedelta(hours=hours, minutes=int(found[3] or 0)) * (-1 if found[1] == "-" else 1)
        if self._daylight.at(payload, record) is True:
            ahead += _SUMMER
        return timezone(ahead)


# Payloads become counts of a sensor and an interval, by a declared mapping: pure, nothing is remembered.

MOST_RECORDS = 10_000
_PAYLOAD, _UPTIME = "a payload", "uptime"
_MOST_CHARACTERS = 256
_KEY = "key"  # of a record that stands in an object under the sensor's name
_NGSI_LD_NULL = "urn:ngsi-ld:null"  # what JSON-LD cannot say otherwise (ETSI GS CIM 009, 4.5.0)


_Counted = tuple[str, int | None, int, int]  # sensor, start, end, version


class SensorCount(NamedTuple):
    """What a sensor counted from ``start`` to ``end`` (unix seconds, exclusive).

    Of a total ``start`` is None, and ``people`` those counted until ``end`` since the counter ``began``,
    where that is said. ``version`` is 2 or more for a corrected count.
    """

    sensor: str
    start: int | None
    end: int
    people: int
    version: int = 1
    began: int | None = None

    def saved(self) -> list[str | int | None]:
        """Its fields, without those at the end that say nothing."""
        return list(self if (self.version, self.began) != (1, None) else self[:4])


class Versions:
    """Which count of an interval a record has: 1 the first, 2 or more a corrected one, 0 provisional."""

    def __init__(self, paths: Sequence[str], numbers: Mapping[str, int]) -> None:
        self._paths, self._numbers = FirstOf(*paths), numbers

    def of(self, payload: Any, record: Any) -> int:
        """Its number; :class:`InputError` for what is none."""
        said = self._paths.at(payload, record)
        if said is ABSENT or said is None:
            return 1
        text = str(said).strip().lower() if isinstance(said, bool) else str(said).strip()
        number = self._numbers.get(text)
        if number is None and not self._numbers and re.fullmatch(r"[1-9]\d{0,2}", text):
            number = int(text)
        if number is None:
            raise InputError(
                f"{self._paths} must be a version: a number from 1 on, or a word of `versions`",
                "something else",
                "give each word its number in `versions` of the mapping, 0 for what is provisional",
            )
        return number


class PayloadMap:
    """A mapping at work; :class:`SettingsError` for one that leaves open what counts."""

    def __init__(self, mapping: PayloadSettings) -> None:
        self._map = mapping
        self._records, self._sensor = FirstOf(*mapping.records), FirstOf(*mapping.sensor)
        self._start, self._end = FirstOf(*mapping.start), FirstOf(*mapping.end)
        self._interval, self._channel = _one(mapping.interval), _one(mapping.channel)
        self._uptime, self._began = _one(mapping.uptime), FirstOf(*mapping.began)
        self._versions = Versions(mapping.version, mapping.versions)
        self._counts = [FirstOf(*mapping.count), *map(FirstOf, mapping.count_more)]
        self._times = PayloadTimes(mapping)
        self._topic = _topic_form(mapping.topic)
        self._pattern = _sensor_form(mapping.sensor_pattern)
        self._own = frozenset(mapping.own_addresses)
        _check_complete(mapping)

    @property
    def is_total(self) -> bool:
        """Whether counts are totals since the counter began."""
        return self._map.kind == "total"

    def read(self, payload: object, topic: str | None = None) -> list[SensorCount]:
        """The counts of a payload, each sensor, interval and version once.

        What is not counted, or provisional, is left out.

        ``payload`` is parsed JSON, ``topic`` where it came: an MQTT topic, the path of a request.
        :class:`InputError` says what is wrong, and never shows a count.
        """
        names = (name for name, path in names_with_paths(payload) if path not in self._own)
        refuse_personal_columns(_PAYLOAD, names)
        found: dict[_Counted, int | None] = {}
        began: dict[tuple[str, int], int | None] = {}
        seen: set[tuple[str, str, int | None, int, int]] = set()
        for record in self._records_of(payload):
            sensor, channel = self._named(payload, record, topic)
            start, end = self._interval_of(payload, record)
            version = self._versions.of(payload, record)
            if (sensor, channel, start, end, version) in seen:
                raise InputError(
                    "each channel must be counted once in an interval",
                    "several counts in one payload",
                    "name the path of lines or regions as channel in the mapping",
                )
            seen.add((sensor, channel, start, end, version))
            worked = self._has_worked(payload, record)
            count = self._count_of(payload, record)
            said = self._began.at(payload, record)
            since = None if said in (ABSENT, None) else self._times.seconds(said, payload, record)
            if began.setdefault((sensor, end), since) != since:
                raise InputError(
                    "channels that are summed must be of counters that began together",
                    "two times at which they began",
                    'set channels = "apart" in the mapping, or leave began out',
                )
            self._add(found, (sensor, start, end, version), count if worked else None)
        if self._map.channels == "sum":
            self._require_same_versions(seen)
        return [
            SensorCount(sensor, start, end, count, version, began[sensor, end])
            for (sensor, start, end, version), count in found.items()
            if count is not None and version > 0
        ]

    def _require_same_versions(self, seen: Iterable[tuple[str, str, int | None, int, int]]) -> None:
        """A corrected sum has a corrected count of each channel, or it would be a part of it."""
        channels: dict[tuple[str, int | None, int], dict[int, set[str]]] = {}
        for sensor, channel, start, end, version in seen:
            channels.setdefault((sensor, start, end), {}).setdefault(version, set()).add(channel)
        if any(each != own for of in channels.values() for own in of.values() for each in of.values()):
            raise InputError(
                "all channels of an interval must be of one version, as their sum is",
                "a channel without a count of each",
                "send the corrected counts of all channels together",
            )

    def _add(self, found: dict[_Counted, int | None], key: _Counted, count: int | None) -> None:
        """A count, or a channel's part of it: a sum that lacks a channel is none."""
        if key not in found:
            found[key] = count
            return
        if self._map.channels != "sum":
            raise InputError(
                "it must be declared what several channels of a sensor are",
                "several in one payload",
                'set channels = "sum" (one count) or "apart" (a sensor each) in the mapping',
            )
        before = found[key]
        found[key] = None if before is None or count is None else before + count

    def _records_of(self, payload: Any) -> list[Any]:
        records = self._records.at(payload, payload) if self._records else payload
        if not self._records and not isinstance(records, list):
            records = [records]
        if (
            self._records
            and isinstance(records, dict)
            and all(isinstance(each, dict) for each in records.values())
        ):
            records = [{**each, _KEY: name} for name, each in records.items()]
        if not isinstance(records, list) or len(records) > MOST_RECORDS:
            raise InputError(
                f"{self._records or _PAYLOAD} must be a list of at most {MOST_RECORDS:,} records",
                "nothing" if records is ABSENT else type(records).__name__,
                "correct records in the mapping, or send fewer in each payload",
            )
        return records

    def _named(self, payload: Any, record: Any, topic: str | None) -> tuple[str, str]:
        """The deployment's name of the sensor, and its channel."""
        if self._sensor:
            text = _text(self._sensor.at(payload, record), f"the sensor at {self._sensor}")
        else:
            found = self._topic.fullmatch((topic or "").strip("/")) if self._topic else None
            if found is None:
                raise InputError(
                    f"a topic must have the form {self._map.topic}", "another one", "correct topic"
                )
            text = found[1]
        refuse_addresses("payloads", [text])
        if self._pattern is not None:
            matched = self._pattern.fullmatch(text)
            if matched is None or not matched["sensor"]:
                raise InputError(
                    "a sensor must match sensor_pattern of the mapping", "one that does not", "correct it"
                )
            text = matched["sensor"]
        name = self._map.names.get(text, text)
        channel = ""
        if self._channel:
            channel = _text(self._channel.at(payload, record), f"the channel at {self._channel}")
            refuse_addresses("payloads", [channel])
        if channel and self._map.channels == "apart":
            name, channel = f"{name}/{channel}", ""
            name = self._map.names.get(name, name)
        if not 1 <= len(name) <= _MOST_CHARACTERS:
            raise InputError(
                f"a sensor's name must have 1 to {_MOST_CHARACTERS} characters", len(name), "set names"
            )
        return name, channel

    def _interval_of(self, payload: Any, record: Any) -> tuple[int | None, int]:
        start, end = self._start.at(payload, record), self._end.at(payload, record)
        lasting = None
        if self._interval:
            text = _text(self._interval.at(payload, record), f"the interval at {self._interval}")
            start, slash, after = text.partition("/")
            end = after if slash else ABSENT
            start, end, lasting = _without_duration(start, end)
        begins, ends = (
            None if each is ABSENT else self._times.seconds(each, payload, record, is_end=is_end)
            for each, is_end in ((start, False), (end, not self.is_total))
        )
        length = self._map.interval_seconds if lasting is None else lasting
        if self.is_total:
            begins, ends = None, begins if ends is None else ends
        elif begins is not None and ends is None and length is not None:
            ends = begins + length
        elif ends is not None and begins is None and length is not None:
            begins = ends - length
        if ends is None or (begins is None and not self.is_total):
            raise InputError(
                "a count must have an interval",
                "no start" if ends is not None else "no end" if begins is not None else "no time",
                "correct start and end of the mapping, or set interval_seconds",
            )
        if begins is not None and ends <= begins:
            raise InputError(
                "an interval must end after its start",
                "one that does not",
                "correct start and end of the mapping, or set interval_seconds where a time is an instant",
            )
        return begins, ends

    def _has_worked(self, payload: Any, record: Any) -> bool:
        """Whether the counter worked for enough of the interval: else its count of nobody is none."""
        if not self._uptime:
            share = record.get(_UPTIME) if isinstance(record, dict) else None
            if _is_share(share):
                raise InputError(
                    "it must be declared what the uptime of a record means",
                    "records that have it, and no uptime in the mapping",
                    f'set uptime = "{_UPTIME}" in the mapping, so that hours that were hardly counted are '
                    "none; with least_uptime = 0 all are taken",
                )
            return True
        share = self._uptime.at(payload, record)
        if not _is_share(share):
            raise InputError(
                f"{self._uptime} must be a share from 0 to 1",
                "nothing" if share is ABSENT else "something else",
                "correct uptime in the mapping",
            )
        return bool(share >= self._map.least_uptime)

    def _count_of(self, payload: Any, record: Any) -> int | None:
        """People, or None where one of the parts was not counted."""
        total = 0
        for each in self._counts:
            count = each.at(payload, record)
            if count is ABSENT:
                raise InputError(
                    f"each record must have its count at {each}", "none", "correct count in the mapping"
                )
            if count is None or count == _NGSI_LD_NULL or total < 0:
                total = -1
            else:
                total += self._whole(count)
        if total > MAX_COUNT:
            raise InputError(f"a count must be at most {MAX_COUNT}", "more", "look at the counter")
        return total if total >= 0 else None

    def _whole(self, count: object) -> int:
        if isinstance(count, str) and re.fullmatch(r"[0-9]{1,15}", count.strip()):
            return int(count)
        if isinstance(count, bool) or not isinstance(count, int | float):
            raise InputError("a count must be a number", type(count).__name__, "correct count in the mapping")
        if not 0 <= count <= MAX_COUNT:
            raise InputError(
                f"a count must be from 0 to {MAX_COUNT}", "another number", "look at the counter"
            )
        whole = floor(count + 0.5)  # round() takes halves to even numbers: one person more could be two
        if whole != count and self._map.decimals == "refuse":
            raise InputError(
                "a count must be a whole number", "decimals", 'set decimals = "round" in the mapping'
            )
        return whole


def _text(value: object, what: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or str(value).strip() == "":
        found = "nothing" if value is ABSENT or value is None or value == "" else type(value).__name__
        raise InputError(f"{what} must be a text or a whole number", found, "correct the mapping")
    return str(value).strip()


def _without_duration(start: Any, end: Any) -> tuple[Any, Any, int | None]:
    """Both ends of an interval, one of them absent where a duration stands for it, and its seconds."""
    for text, others in ((end, (start, ABSENT)), (start, (ABSENT, end))):
        seconds = iso_duration(text) if isinstance(text, str) else None
        if seconds is not None and seconds == int(seconds) and seconds > 0:
            return (*others, int(seconds))
    return start, end, None


def _topic_form(topic: str | None) -> re.Pattern[str] | None:
    if topic is None:
        return None
    before, found, after = topic.strip("/").partition(SENSOR)
    if not found or SENSOR in after:
        raise SettingsError(
            f"topic must have {SENSOR} in it once", repr(topic), f"write city/{SENSOR}/counts"
        )
    return re.compile(f"{re.escape(before)}([^/]+){re.escape(after)}")


def _sensor_form(pattern: str | None) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise SettingsError("sensor_pattern must be a regular expression", error, "correct it") from None
    if "sensor" not in compiled.groupindex:
        raise SettingsError(
            "sensor_pattern must have a group `sensor`", pattern, "write (?P<sensor>.+) for it"
        )
    return compiled


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _check_complete(mapping: PayloadSettings) -> None:
    """:class:`SettingsError` for a mapping that leaves open what counts."""
    said = {
        "sensor": mapping.sensor or mapping.topic,
        "start": mapping.interval or mapping.end or mapping.start,
        "count": mapping.count,
    }
    lacking = [name for name, where in said.items() if not where]
    if lacking:
        raise SettingsError(
            "a mapping of payloads must say where sensor, time and count stand",
            f"no {', no '.join(lacking)}",
            f"set sensor (or topic with {SENSOR}), start and end, and count; or choose a preset",
        )
    most_counts_of(mapping)
    if mapping.kind == "total" and (mapping.decimals == "round" or mapping.largest_factor is not None):
        raise SettingsError(
            "totals must be whole and unscaled",
            "decimals or largest_factor",
            "take the counter's own total: one person moves all later differences of a rounded one",
        )
    if mapping.kind == "total" and mapping.version:
        raise SettingsError(
            "totals must have no version, as each difference would have several",
            "version beside kind",
            "take the counter's own total, or its counts of intervals",
        )
    if mapping.versions and not mapping.version:
        raise SettingsError("versions must stand beside version", "versions alone", "say where it stands")
    if mapping.began and mapping.kind != "total":
        raise SettingsError(
            'began must stand beside kind = "total"',
            repr(mapping.kind),
            "leave it out for periodic counts",
        )
    if mapping.daylight and not mapping.offset:
        raise SettingsError("daylight must stand beside offset", "daylight alone", "set timezone instead")
    for path in mapping.own_addresses:
        if not is_address_name(path.rpartition(".")[2]):
            raise SettingsError(
                "own_addresses must name fields of addresses", repr(path), "leave out what is about people"
            )
