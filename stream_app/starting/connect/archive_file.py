"""One file of an archive: only the columns that its mapping names are read, batch by batch, as codes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_app.exceptions import InputError, SettingsError, meant
from stream_app.setup.sections import FilesMap
from stream_app.starting.counts.tables import (
    Progress,
    column_in_words,
    columns_in_words,
    is_named,
    named_columns,
    opened_table,
    read_table,
    text_column,
)
from stream_app.starting.counts.times import joined_cells

# What must not be taken in: single people, images, addresses of devices. The names of columns tell.

_PERSONS = (
    *("peopleid", "personid", "visitorid", "userid", "customerid", "passengerid", "pedestrianid", "trackid"),
    *("trackingid", "trajectoryid", "cardid", "ticketid", "licenseplate", "numberplate", "faceid"),
)
_IMAGES = ("snapshot", "image", "imagebase64", "imagedata", "photo", "picture", "thumbnail", "face")
_ADDRESSES = (
    *("mac", "macaddress", "macaddr", "machash", "hashedmac", "clientmac", "devicemac", "wifimac", "wlanmac"),
    "bssid",
    *("deviceaddress", "bluetoothaddress", "btaddress", "imei", "imsi", "msisdn", "advertisingid"),
)
_KINDS = (
    (_PERSONS, "events of single people", "count them per sensor and interval first, in memory"),
    (_IMAGES, "images", "have the counter send counts only; no image is stored here"),
    (_ADDRESSES, "addresses of devices", "have the counter send counts only; a hashed address is one, too"),
)
_ADDRESS = r"^(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$"


def refuse_personal_columns(source: str, names: Iterable[str]) -> None:
    """:class:`InputError` where a column's name says that a file is about people or devices, read or not."""
    for name in names:
        plain = _plain(name)
        for known, kind, remedy in _KINDS:
            if plain in known:
                raise InputError(f"{source} must hold counts", f"{kind}: {name!r}", remedy)


def is_address_name(name: str) -> bool:
    """Whether a field of this name holds the address of a device."""
    return _plain(name) in _ADDRESSES


def refuse_addresses(source: str, texts: Iterable[str]) -> None:
    """:class:`InputError` where what should name sensors has the form of devices' addresses."""
    if any(re.fullmatch(_ADDRESS, text) for text in texts):
        raise InputError(
            f"sensors of {source} must be named by places",
            "addresses of devices",
            "if these are the counters' own, replace them with names before; seen devices must not enter",
        )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


# Wide files: which sensor and channel a column counts.

_UPTIME = "uptime"
_EXAMPLE = 'set columns = {north = "bridge", south = "bridge"} or column_pattern in [connect.files]'


class WideColumn(NamedTuple):
    """A column of counts of one sensor and channel."""

    name: str
    sensor: str
    channel: str


def wide_columns(path: Path, names: Sequence[str], mapping: FilesMap) -> tuple[WideColumn, ...]:
    """The columns of counts; :class:`InputError` for one that is neither mapped nor ignored."""
    others = [name for name in names if not is_named(name, mapping.ignore)]
    if mapping.columns:
        found = _declared(others, mapping.columns)
    elif mapping.column_pattern is not None:
        found = _matching(others, mapping.column_pattern)
    else:
        raise InputError(
            "a mapping must say where the counts stand",
            "neither `sensor` and `count` nor `columns` nor `column_pattern`",
            f"for a wide file, {_EXAMPLE}; for a long one, set sensor and count",
        )
    totals = {each.sensor for each in found if each.channel} & {each.name for each in found}
    if mapping.columns:
        totals = set()
    unknown = len(set(others) - {each.name for each in found})
    if unknown or not found:
        raise InputError(
            f"each column of {path} must be mapped or ignored",
            f"{unknown} that are neither, of {len(names)}" if found else "none that is mapped",
            "add them to columns or to ignore in [connect.files]; a total counts people a second time",
        )
    return tuple(each for each in found if each.name not in totals)


def _declared(names: Sequence[str], columns: Mapping[str, str]) -> list[WideColumn]:
    """The columns by name, else by the first pattern that fits."""
    keys = [
        name
        if name in columns
        else next((key for key in columns if "*" in key and is_named(name, [key])), None)
        for name in names
    ]
    pairs = zip(names, keys, strict=True)
    return [WideColumn(name, columns[key], name) for name, key in pairs if key is not None]


def column_form(pattern: str) -> re.Pattern[str]:
    """``column_pattern`` at work; :class:`SettingsError` for one that finds no sensor."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise SettingsError(
            "connect.files.column_pattern must be a regular expression", error, _EXAMPLE
        ) from None
    if not {"sensor", "channel"} >= compiled.groupindex.keys() or "sensor" not in compiled.groupindex:
        raise SettingsError(
            "connect.files.column_pattern must have a group `sensor`, and may have one `channel`",
            "other groups",
            "write it like (?P<sensor>.+) (?P<channel>IN|OUT)",
        )
    return compiled


def _matching(names: Sequence[str], pattern: str) -> list[WideColumn]:
    compiled = column_form(pattern)
    matches = [(name, compiled.fullmatch(name)) for name in names]
    return [
        WideColumn(name, match["sensor"], match.groupdict().get("channel") or "")
        for name, match in matches
        if match is not None
    ]


class Coded(NamedTuple):
    """A column as its different cells (a table of one column) and which of them each row has; -1 is none."""

    values: pa.Table
    at: NDArray[np.int64]

    @property
    def texts(self) -> list[str]:
        """The different cells as trimmed text."""
        return [str(text).strip() for text in self.values.column(0).to_pylist()]


@dataclass(frozen=True)
class Chosen:
    """The columns of one file that count: ``sensor`` and ``count`` in a long one, ``wide`` in a wide one."""

    start: str
    end: str | None
    sensor: str | None
    channel: str | None
    count: tuple[str, ...]
    uptime: str | None
    wide: tuple[WideColumn, ...]
    joined: tuple[str, ...] = ()
    """The columns that ``start`` is joined of, where they are several."""

    @property
    def names(self) -> list[str]:
        """All of them, each once."""
        start = self.joined or (self.start,)
        long = (*start, self.end, self.sensor, self.channel, *self.count, self.uptime)
        return list(dict.fromkeys([name for name in long if name] + [each.name for each in self.wide]))


def choose(path: Path, names: Sequence[str], mapping: FilesMap) -> Chosen:
    """The columns that a mapping means; :class:`InputError` for one that is missing, or must not enter."""
    refuse_personal_columns(str(path), names)
    there = partial(_there, path, pa.table({name: pa.array([], pa.string()) for name in names}))
    starts = there("start", mapping.start)
    sensor = there("sensor", mapping.sensor)[0] if mapping.sensor else None
    count = there("count", mapping.count) if mapping.count else ()
    if (sensor is None) != (not count):
        raise InputError(
            "a mapping must name both sensor and count (long files), or columns (wide files)",
            "count alone" if count else "sensor alone",
            "add the other one to [connect.files]",
        )
    if mapping.uptime is None and _UPTIME in names and not is_named(_UPTIME, mapping.ignore):
        raise InputError(
            f"it must be declared what the column {_UPTIME!r} of {path} means",
            "neither uptime nor ignore in the mapping",
            f'set uptime = "{_UPTIME}", so that hours hardly counted are none; or ignore the column',
        )
    end, channel, uptime = (
        None if name is None else there(key, (name,))[0]
        for key, name in (("end", mapping.end), ("channel", mapping.channel), ("uptime", mapping.uptime))
    )
    wide = (
        ()
        if sensor
        else wide_columns(path, [name for name in names if name not in (*starts, end, uptime)], mapping)
    )
    joined = starts if len(starts) > 1 else ()
    return Chosen(" ".join(starts), end, sensor, channel, count, uptime, wide, joined)


def _there(path: Path, table: pa.Table, key: str, usual: Sequence[str]) -> tuple[str, ...]:
    """Those of a key's names that the file has; :class:`InputError` where it has none."""
    if not usual:
        raise InputError(
            "a mapping must say where an interval starts",
            "no `start`",
            "choose a --preset (`tallyguard connect guess` writes one), or set start, sensor and count in "
            "[connect.files]",
        )
    found = tuple(name for name in dict.fromkeys(usual) if name in table.column_names)
    if not found:
        raise InputError(
            f"{path} must have the column of `{key}`",
            f"no {' or '.join(map(repr, usual))}",
            meant(usual[0], named_columns(table), f"it has {columns_in_words(table)}"),
        )
    return found


def said_by(texts: Iterable[str | None], wanted: Sequence[str]) -> NDArray[np.bool_]:
    """Which texts are one of those that are wanted; none of these, where the first begins with ``!``."""
    names = [each.removeprefix("!") for each in wanted]
    fits = [text in names if not text else is_named(text, names) for text in ((each or "") for each in texts)]
    is_negated = bool(wanted) and wanted[0].startswith("!")
    return np.asarray(np.array(fits, dtype=bool) != is_negated)


class ArchiveTable:
    """The chosen columns of a file, each coded: years of text take little memory, and are parsed once."""

    def __init__(self, path: Path, mapping: FilesMap, progress: Progress = lambda size: None) -> None:
        """``progress`` is given how many bytes of the file more were read."""
        self.path = path
        opened = opened_table(path, mapping)
        self.chosen = choose(path, opened.names, mapping)
        self.remarks = list(opened.remarks)
        if mapping.footer:
            self.remarks.append(
                f"Lines at the end of {path.name} that are taken for no rows: {mapping.footer}."
            )
        self._first_line = opened.first_line if opened.blank is None else 0  # rows lie further down then
        unknown = [name for name in mapping.where if name not in opened.names]
        if unknown:
            raise InputError(
                f"{path} must have the columns of `where`",
                f"no {unknown[0]!r}",
                "correct where of the mapping",
            )
        names = list(dict.fromkeys((*self.chosen.names, *mapping.where)))
        counts = [*self.chosen.count, *(each.name for each in self.chosen.wide)]
        batches = list(opened.batches(names, progress, counts))
        if not batches:
            raise InputError(f"{path} must hold counts", "no row", "give a file with counts")
        self._table = pa.Table.from_batches(batches)
        self._rows: NDArray[np.int64] | None = None
        if mapping.where:
            self._take(mapping.where)
        if self.chosen.joined:
            together = joined_cells([text_column(self._table, name) for name in self.chosen.joined])
            self._table = self._table.append_column(self.chosen.start, together)
        self.rows = self._table.num_rows

    def _take(self, where: Mapping[str, Sequence[str]]) -> None:
        """Only the rows whose cells are what ``where`` says."""
        kept = np.ones(self._table.num_rows, dtype=bool)
        for name, wanted in where.items():
            coded = self.coded(name)
            kept &= said_by([*coded.texts, None], wanted)[coded.at]
        self._rows = np.flatnonzero(kept)
        if not self._rows.size:
            raise InputError(
                f"`where` must leave rows of {self.path}",
                "none",
                "correct where of the mapping: it names cells",
            )
        self._table = self._table.take(self._rows)
        left = kept.size - self._rows.size
        self.remarks += [f"{left:,} rows of {self.path.name} are left out by `where`."] if left else []

    def what(self, name: str) -> str:
        """A column in words."""
        if self.chosen.joined and name == self.chosen.start:
            return f"columns {' and '.join(map(repr, self.chosen.joined))}"
        return column_in_words(self._table, name)

    def place(self, row: int) -> str:
        """Where a row stands in the file."""
        own = int(row if self._rows is None else self._rows[row])
        line = f" (line {own + self._first_line} of {self.path.name})" if self._first_line else ""
        return f"row {own + 1}{line}"

    def where(self, coded: Coded) -> Callable[[int], str]:
        """Where the first of each different cell stands."""
        return lambda index: self.place(int(np.flatnonzero(coded.at == index)[0]))

    def coded(self, name: str) -> Coded:
        """A column with each different cell once; blank ones are none."""
        column: Any = self._table[name]
        if not (pa.types.is_dictionary(column.type) or pa.types.is_temporal(column.type)):
            column = text_column(self._table, name)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        whole: Any = column.unify_dictionaries().combine_chunks()
        if isinstance(whole, pa.ChunkedArray):
            whole = pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.string()))
        values, index = whole.dictionary, np.asarray(pc.fill_null(whole.indices.cast(pa.int64()), -1))
        if pa.types.is_string(values.type) and len(values):
            trimmed: Any = pc.utf8_trim_whitespace(values)
            blank = np.asarray(pc.equal(trimmed, pa.scalar("")))
            if blank.any():
                index = np.where((index >= 0) & blank[index], -1, index)
        return Coded(pa.table({name: values}), index)

    def digits(self, name: str) -> NDArray[np.int64] | None:
        """A column of texts as numbers, -1 for an empty cell; None unless all others are 1 to 13 digits."""
        column: Any = self._table[name]
        if not pa.types.is_string(column.type) or not pc.all(pc.ascii_is_decimal(column)).as_py():
            return None
        if pc.max(pc.binary_length(column)).as_py() > 13:
            return None
        return np.asarray(pc.fill_null(pc.cast(column, pa.int64()), -1))

    def full(self, name: str, what: str) -> Coded:
        """A column that must have a cell in each row."""
        coded = self.coded(name)
        empty = np.flatnonzero(coded.at < 0)
        if empty.size:
            raise no_cell(self.what(name), what, empty.size, self.place(int(empty[0])))
        return coded


def no_cell(column: str, what: str, empty: int, first: str) -> InputError:
    """What to say of a column that must have a cell in each row."""
    return InputError(
        f"{column} must have {what} in each row",
        f"{empty:,} empty cells, the first in {first}",
        "fill them, also below a merged cell, or drop them; for lines at the end that are no rows, set "
        "footer = 1 in [connect.files]",
    )


# Sensors and their channels, by what files call them and what the deployment does.


class SiteNames:
    """Numbers the channels of all files as they come; sensors are sorted by name."""

    def __init__(self, mapping: FilesMap) -> None:
        self._mapping = mapping
        self._lookup = _lookup(mapping)
        self._number: dict[tuple[str, str], int] = {}

    @property
    def channels(self) -> int:
        """How many channels there are so far."""
        return len(self._number)

    @property
    def texts(self) -> list[str]:
        """What the channels are called, by number: the sensor, and which channel of it."""
        return [
            sensor if channel in ("", sensor) else f"{sensor} {channel}" for sensor, channel in self._number
        ]

    def answered(self, names: Sequence[str]) -> list[str]:
        """The channels that these names mean: of a sensor, of a channel of it, or of every such channel."""
        pairs = zip(self._number, self.texts, strict=True)
        return [text for parts, text in pairs if any(is_named(each, names) for each in (*parts, text))]

    def of_rows(self, table: ArchiveTable, column: str = "") -> NDArray[np.int64]:
        """The channel of each row of a long file, -1 for one to ignore; ``column`` of several is counted."""
        sensor = table.full(str(table.chosen.sensor), "a sensor")
        refuse_addresses(str(table.path), sensor.texts)
        if table.chosen.channel is None:
            numbers = [self._taken(text, column) for text in sensor.texts]
            return np.array(numbers, dtype=np.int64)[sensor.at]
        channel = table.full(table.chosen.channel, "a channel")
        refuse_addresses(str(table.path), channel.texts)
        sensors, channels = sensor.texts, channel.texts
        width = len(channels)
        pairs, index = np.unique(sensor.at * width + channel.at, return_inverse=True)
        numbers = [
            self._taken(sensors[pair // width], f"{channels[pair % width]} {column}".strip())
            for pair in pairs.tolist()
        ]
        return np.array(numbers, dtype=np.int64)[index]

    def _taken(self, text: str, channel: str) -> int:
        called = (text, channel, f"{text} {channel}".strip())
        is_ignored = any(is_named(each, self._mapping.ignore) for each in called)
        return -1 if is_ignored else self.numbered(text, channel)

    @property
    def sensors(self) -> tuple[str, ...]:
        """The deployment's sensors; :class:`InputError` where it is not declared what channels are."""
        return tuple(self.by_sensor())

    def by_sensor(self) -> dict[str, list[int]]:
        """The channels of each sensor, in the order of :attr:`sensors`."""
        found: dict[str, list[int]] = {}
        for (sensor, channel), number in self._number.items():
            is_apart = self._mapping.channels == "apart" and channel
            found.setdefault(f"{sensor}/{channel}" if is_apart else sensor, []).append(number)
        several = [name for name, channels in found.items() if len(channels) > 1]
        if several and self._mapping.channels != "sum":
            raise InputError(
                "it must be declared what several channels of a sensor are",
                f"{len(several):,} sensors with several, such as {several[0]!r}",
                'set channels = "sum" in [connect.files] for one count, channels = "apart" for a sensor each',
            )
        return {name: found[name] for name in sorted(found)}

    def numbered(self, text: str, channel: str) -> int:
        """The number of a channel of what the file calls a sensor, a new one where it was not met before."""
        name = text
        if self._lookup is not None:
            if text not in self._lookup:
                raise InputError(
                    f"each sensor of the counts must stand in {self._mapping.lookup_file}",
                    f"{text!r} does not, in column {self._mapping.lookup_key!r}",
                    "add it, or correct lookup_key",
                )
            name = self._lookup[text]
            channel = channel or text
        if name in self._mapping.names:
            channel = channel or name
            name = self._mapping.names[name]
        if not 1 <= len(name) <= 256:
            raise InputError("a sensor's name must have 1 to 256 characters", f"{len(name)}", "set names")
        return self._number.setdefault((name, channel), len(self._number))


def _lookup(mapping: FilesMap) -> dict[str, str] | None:
    keys = (mapping.lookup_file, mapping.lookup_key, mapping.lookup_name)
    if all(key is None for key in keys):
        return None
    if mapping.lookup_file is None or mapping.lookup_key is None or mapping.lookup_name is None:
        raise InputError(
            "lookup_file, lookup_key and lookup_name must stand together in [connect.files]",
            "some of them",
            'write lookup_file = "channels.csv", lookup_key = "channel_id", lookup_name = "site_id"',
        )
    table = read_table(mapping.lookup_file)
    for key in (mapping.lookup_key, mapping.lookup_name):
        if key not in table.column_names:
            raise InputError(
                f"{mapping.lookup_file} must have the column {key!r}", "none", "correct the mapping"
            )
    columns = [text_column(table, key).to_pylist() for key in (mapping.lookup_key, mapping.lookup_name)]
    rows = [(str(key).strip(), str(name or "").strip()) for key, name in zip(*columns, strict=True)]
    found = dict(rows)
    if len(found) < len(set(rows)):
        raise InputError(
            f"{mapping.lookup_file} must name one sensor for each {mapping.lookup_key!r}",
            "several for one",
            "drop the rows that no longer hold",
        )
    return found
