"""A mapping for a file that nobody declared: what each column is, with the reason why it was taken so.

What can be read in one way only is found; anything else is a question. `tallyguard init` reads a file by
such a mapping, `tallyguard connect guess` prints it, to be read, corrected and kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from operator import or_
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.exceptions import InputError
from stream_app.setup.sections import FilesMap
from stream_app.starting.connect.archive import read_archive
from stream_app.starting.connect.archive_file import no_cell, refuse_personal_columns, said_by
from stream_app.starting.connect.presets_at_hand import recognised_preset, resolved_map
from stream_app.starting.counts.count_table import MOST_COUNTS, CountTable
from stream_app.starting.counts.tables import (
    WORKBOOKS,
    OpenedTable,
    check_is_file,
    column_in_words,
    columns_in_words,
    count_cells,
    is_named,
    named_columns,
    opened_table,
    opened_text,
    read_table,
    text_column,
)
from stream_app.starting.counts.times import joined_cells, parse_times

_SAMPLE_ROWS = 20_000
_MANY_ROWS = 24
_LAST_BYTES, _LAST_ROWS, _MOST_FOOTER = 65_536, 200, 20
_TIME_LIKE = re.compile(r"\d[-/.]\d{1,2}[-/.]\d|\d:\d\d|\d{8}")


def _plain(name: str) -> str:
    """A name without capitals and signs, of a path its end: ``fields.Site_ID`` is ``siteid``."""
    return re.sub(r"[^\w]|_", "", name.rsplit(".", 1)[-1].lower())


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(_plain, text.split(", "))))


# What columns are called, the surer names first.
_TIME_NAMES = _names(
    "time, date, datetime, date_time, timestamp, time_local, date & time, date time, start, start_time, "
    "starttime, start_datetime, zeitpunkt, zeitpunkt der messung, zeit, zeitstempel, date/time, "
    "horodatage, date_heure, date et heure, fecha y hora, fecha_hora, datahora, tidspunkt, tijd, "
    "measured_from, dateobservedfrom, dateobserved, datetime_from, from, von, beginn, datum, fecha, "
    "data, day, tag, jour, dato, dt"
)
_PLAIN_TIMES = 8  # of them say what they are in any file
_SENSOR_NAMES = _names(
    "sensor, sensor_id, sensor id, sensor_name, site, site_name, site_id, counter, counter_id, "
    "counter_name, location, locationname, location_name, locations_id, location_dir_id, segment_id, "
    "station, zaehlstelle, zählstelle, standort, lage, messstelle, nom_compteur, compteur, id_compteur, "
    "device, device_id, devicename, device_name, camera, street, street_name, entrance, zone, name, id, "
    "fk_zaehler, fk_standort, numero_boucle, agg_compteur, id_aforo, identificador, sitecode, "
    "countlinename, countline, navn, punto, numer, lokalizacja, paikka, plats"
)
_COUNT_NAMES = _names(
    "count, counts, hourly_counts, hourly_count, total_of_directions, pedestrians, pedestrian, "
    "pedestrians_count, pedestrian_count, peds, people, people_count, peoplecount, visitors, visits, "
    "footfall, totalcount, totale, fussgaenger, fußgänger, passanten, anzahl, anzahl_passanten, "
    "besucher, comptage, sum_counts, nb_passages, passages, volume, value_pedestrians, peatones, "
    "personas, value, valeur, wert, total, totals, n, zaehlung, nb_pietons, ped_count, crossings, "
    "liczba, antal"
)
_WEEKDAYS = re.compile(
    r"^(?:mon|tue|wed|thu|fri|sat|sun|lun|mar|mer|jeu|ven|sam|dim|mo|di|mi|do|fr|sa|so)\b", re.I
)
_HOUR = re.compile(
    r"^(?:hour|hours|hr|hour_?of_?day|hour_?day|hour_?beginning|time|time_?of_?day|clock|stunde|uhrzeit|zeit|heure|heures|"
    r"hora|ora|uur|tijd|tid|time_?period|interval|hodina|godzina)$",
    re.IGNORECASE,
)
_HOUR_OF_COLUMN = re.compile(
    r"^(?:h(?:eure|our|ora)?|kl|uhr)?[ _.]*(?:[01]?\d|2[0-4])(?::00|h|h00| ?[ap]m)?(?:\s?[-–].*)?$", re.I
)
_OF_THE_CLOCK = (
    r"(?i)^(?:[01]?[0-9]|2[0-4])(?:(?::|h)[0-5]?[0-9]?(?::[0-5][0-9](?:[.]0+)?)?)?"
    r"\s?(?:[ap]\.?m\.?)?(?:\s?[-–].*)?$"
)
_BEGIN = re.compile(
    r"(?:^|[^a-z])(?:start|begin|from|von|d[ée]but|desde|inizio|od|fra)(?:[^a-z]|$|time|date)|From$",
    re.IGNORECASE,
)
_END = re.compile(
    r"(?:^|[^a-z])(?:end|until|to|bis|ende|fin|hasta|do|til)(?:[^a-z]|$|time|date)|To$", re.IGNORECASE
)
_PEOPLE = re.compile(
    r"pedestr|people|person|foot|fu(?:ss|ß|.)g|passan|pi[ée]ton|peat|visitor|besuch", re.IGNORECASE
)
_CHANNEL_NAMES = _names(
    "direction, dir, richtung, richtung id, sens, lane, channel, channel id, side, sentido, direzione, flow, "
    "flow id, direction name, lane name, lane code"
)
_MODE_NAMES = _names(
    "mode, type, class, klasse, vehicle, vehicle type, road user, category, kategorie, classification, "
    "traffic type, verkehrsart, tipo, mobility type, travel mode, user type, transport, verkehrsmittel, "
    "parameter, metric, variable, measure, indicator"
)
_CHANNELS = re.compile(
    r"(?:^|[^a-z])(?:in|out|ein|aus|entr[ée]e|sortie|channel|kanal|lane|direction|richtung|ri|left|right|nb|sb|eb|wb|"
    r"north|south|east|west|[nsew]|entries|exits|towards|away|lft|rgt|up|down)(?:[^a-z]|$)",
    re.IGNORECASE,
)
_NO_COUNTS = re.compile(
    r"^(?:day|month|year|week|weekday|day_?of_?week|dayofweek|quarter|monat|jahr|tag|wochentag|woche|jour|mois|ann[ée]e|"
    r"mdate|hour|hr|stunde|heure|hora|ano|mes|dia|temp\w*|temperatur.*|.*speed.*|v85|.*%.*|weather|wetter.*|rain\w*|humidity|lat|latitude|gid|id|status|state|etat|quality|uptime|"
    r"lon|lng|long|longitude|x|y|x_coord|y_coord|geo.*|objectid|fid|index|unnamed.*|is_?holiday|holiday|confidence|version|"
    r"snow\w*|wind\w*|precip\w*|.*_yr|brcweek|week_no|nr|lfd\.? ?nr\.?)"
    r"(?: ?[(\[].*[)\]]| °?[CF]| mm| km/h)?$",
    re.IGNORECASE,
)
_RECORDED = re.compile(
    r"(?:creat|updat|insert|modifi|upload|export|receiv|import|load|edit)ed|last.?(?:edit|updat)", re.I
)


@dataclass
class Guess:
    """What a file is taken for: keys of [connect.files], why each, and the columns that nobody takes."""

    keys: dict[str, Any] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def say(self, key: str, value: Any, reason: str) -> None:
        """Set a key that is not given, with its reason."""
        self.keys[key] = value
        self.reasons[key] = reason

    def mapping(self, given: Mapping[str, Any]) -> FilesMap:
        """All keys together; an hour of autumn that stands once is of nobody, unless somebody says else."""
        usual = {} if "preset" in {*self.keys, *given} else {"ambiguous": "pairs"}
        ignore = {"ignore": self.keys["ignore"]} if "ignore" in self.keys else {}
        return FilesMap.model_validate({**usual, **self.keys, **given, **ignore})

    def remarks(self) -> list[str]:
        """What was assumed, for whoever knows the file."""
        said = []
        if "preset" in self.keys:
            said.append(f"Read by the preset {self.keys['preset']!r}: {self.reasons['preset']}.")
        if "only column" in self.reasons.get("start", ""):
            said.append(f"T{self.reasons['start'][1:]}.")
        if "ignore" in self.keys:
            said.append(f"Columns left out: {', '.join(self.keys['ignore'])}; {self.reasons['ignore']}.")
        return said + ([f"Columns left out: {', '.join(self.left_out)}."] if self.left_out else [])


def guessed(path: Path, given: Mapping[str, Any]) -> Guess:
    """What a file is taken for, beside what is ``given``; :class:`InputError` for what must be said."""
    own = FilesMap.model_validate(given)
    guess = Guess()
    has_preset = own.preset is not None
    if has_preset:
        own = resolved_map(own)
        if own.start:
            return guess
    opened = opened_table(path, own)
    refuse_personal_columns(str(path), opened.names)
    if not has_preset and not (own.start or own.sensor or own.count or own.columns or own.column_pattern):
        found = recognised_preset(opened.names)
        if found is not None:
            guess.say("preset", found[0], f"it has the columns of {found[1]}")
    if guess.keys:
        return guess
    footer = 0 if own.footer else _footer(opened)
    if footer:
        guess.say("footer", footer, "they have fewer cells than the rows above, or no time")
        opened = opened_table(path, own.model_copy(update={"footer": footer}))
    sample = _sample(opened, own)
    columns = _Columns(sample, own, guess)
    columns.find_times()
    columns.find_counts()
    return guess


def _footer(opened: OpenedTable) -> int:
    """How many lines at the end are no rows: they have fewer cells, hardly one that is filled, or no time."""
    lines = [[cell.strip(' "\r') for cell in line] for line in _last_lines(opened)]
    if len(lines) < 4:
        return 0
    widths = [len(line) for line in lines]
    usual = max(set(widths), key=widths.count)
    is_short = [len(line) < usual or sum(map(bool, line)) < 2 for line in lines]
    is_timeless = [not any(map(_TIME_LIKE.search, line)) for line in lines]
    either = _at_end(map(or_, is_short, is_timeless))
    above = is_timeless[: len(lines) - either]
    footer = either if above and not any(above) else _at_end(is_short)
    return footer if footer <= _MOST_FOOTER else 0


def _at_end(are: Iterable[bool]) -> int:
    """How many there are behind the last that is not."""
    return len(list(takewhile(bool, reversed(list(are)))))


def _last_lines(opened: OpenedTable) -> list[list[str]]:
    """The cells of a file's last lines, where it may end in others than rows."""
    if opened.path.suffix.lower() in WORKBOOKS and opened.rows is not None:
        last = opened.rows.slice(max(0, len(opened.rows) - _LAST_ROWS)).to_pylist()
        return [[cell or "" for cell in row.values()] for row in last]
    if opened.separator is None:
        return []
    with opened_text(opened.path) as file:
        if file.seekable():
            file.seek(max(0, file.size() - _LAST_BYTES))
        content = b""
        while block := file.read(_LAST_BYTES):
            content = (content + block)[-_LAST_BYTES:]
    above = opened.first_line - 1 if len(content) < _LAST_BYTES else 1  # names of columns, or half a line
    content = content if opened.blank is None else opened.blank.sub(b"", content)
    text = content.decode(opened.encoding.replace("utf-8-sig", "utf-8"), errors="replace")
    return [line.split(opened.separator) for line in text.rstrip("\r\n").split("\n")[above:]]


def _sample(opened: OpenedTable, own: FilesMap) -> pa.Table:
    """The first rows, as texts where they are none of time."""
    names = [name for name in opened.names if not is_named(name, own.ignore) and name != MOST_COUNTS]
    batches, rows = [], 0
    for batch in opened.batches(names):
        batches.append(batch)
        rows += batch.num_rows
        if rows >= _SAMPLE_ROWS:
            break
    if not rows:
        raise InputError(f"{opened.path} must hold counts", "no row", "give a file with counts")
    table: Any = pa.Table.from_batches(batches).slice(0, _SAMPLE_ROWS)
    for name, wanted in own.where.items():
        fits = said_by(text_column(table, name).to_pylist(), wanted) if name in names else np.zeros(0)
        table = table.filter(pa.array(fits)) if fits.any() else table
    columns = {}
    for name in names:
        column: Any = table[name].combine_chunks()
        if not pa.types.is_temporal(column.type):
            try:
                column = pc.utf8_trim_whitespace(pc.cast(column, pa.string()))
                column = pc.if_else(pc.equal(column, pa.scalar("")), None, column)
            except (pa.ArrowException, UnicodeDecodeError):
                raise InputError(
                    f"{column_in_words(table, name)} must hold texts or numbers",
                    "something else",
                    "correct it",
                ) from None
        columns[name] = column
    return pa.table(columns)


class _Columns:
    """The columns of a file's first rows, each to be found what it is."""

    def __init__(self, sample: pa.Table, own: FilesMap, guess: Guess) -> None:
        self._table, self._own, self._guess = sample, own, guess
        self._times: tuple[str, ...] = ()
        self._moments: Any = None

    def find_times(self) -> None:
        """The start of intervals, and their end."""
        own, table = self._own, self._table
        if own.start:
            self._times = tuple(name for name in own.start if name in table.column_names)
            self._moments = self._read(self._times, is_said=True) if self._times else None
            return
        found = {  # digits in a name are those of a file without a header
            name: moments for name in named_columns(table) if (moments := self._read((name,))) is not None
        }
        dates = [name for name in found if self._are_dates(name)]
        hours = [name for name in table.column_names if self._are_hours(name)]
        options: dict[tuple[str, ...], Any] = {(name,): moments for name, moments in found.items()}
        for date in dates:
            for hour in hours:
                moments = self._read((date, hour))
                if moments is not None:
                    options[date, hour] = moments
        if not options:
            days = [name for name in table.column_names if _WEEKDAYS.match(name)]
            if len(days) > 4:
                raise InputError(
                    "each row must say its date, or each column one sensor",
                    "days of the week across, hours down: weeks in blocks, of which the file says no date",
                    "say the Monday of the week in a file for --preset: week = 2007-01-01",
                )
            for name in table.column_names:
                if _rank(name, _TIME_NAMES) < 999:  # says why it is none
                    self._require_full(name)
                    cells = table[name].combine_chunks()
                    parse_times(cells, column_in_words(table, name), own.time_format, own.wall_clock)
            raise InputError(
                "the column of times must be known",
                columns_in_words(table),
                'name it with start = "time" in [connect.files], or add a header line',
            )
        begins = [names for names in options if len(names) == 1 and _BEGIN.search(names[0])]
        ends = [
            names for names in options if len(names) == 1 and _END.search(names[0]) and names not in begins
        ]
        if begins:  # whatever else is a time there: an end, when it was recorded
            options = {names: found for names, found in options.items() if _BEGIN.search(names[0])}
        options = {
            names: each for names, each in options.items() if not _RECORDED.search(names[0])
        } or options
        distinct = {names: len(np.unique(moments)) for names, moments in options.items()}
        most = max(distinct.values())
        finest = [names for names in options if distinct[names] == most]
        best = min(finest, key=lambda names: (_rank(names[0], _TIME_NAMES), len(names)))
        others = [
            names for names in finest if _rank(names[0], _TIME_NAMES) == _rank(best[0], _TIME_NAMES) == 999
        ]
        if any((options[names] != options[best]).any() for names in others):
            raise InputError(
                "the column of times must be known",
                " and ".join(repr(names[0]) for names in others),
                f'name one as start, e.g. start = "{best[0]}" in [connect.files]',
            )
        self._times, self._moments = best, options[best]
        reason = "a date and an hour" if len(best) > 1 else "it holds times"
        if len(options) == 1 and _rank(best[0], _TIME_NAMES[:_PLAIN_TIMES]) == 999:
            reason = f"times are those of {column_in_words(table, best[0])}, the only column that has any"
        self._guess.say("start", list(best), reason)
        if begins and ends and best in begins:
            (end,) = ends[0]
            self._guess.say("end", end, "it holds the ends of intervals")
            self._times = (*best, end)

    def _require_full(self, name: str) -> None:
        empty = np.flatnonzero(np.asarray(self._table[name].is_null()))
        if empty.size:
            raise no_cell(column_in_words(self._table, name), "a time", empty.size, f"row {empty[0] + 1}")

    def find_counts(self) -> None:
        """Sensors and counts of a long file, or the columns of a wide one."""
        own, table = self._own, self._table
        rest = [name for name in table.column_names if name not in self._times]
        numbers = [name for name in rest if self._are_counts(name)]
        sensor = self._sensor(rest)
        counts = self._counts(numbers, rest, sensor)
        if sensor is not None and counts:
            self._long(rest, sensor, counts)
            return
        if own.sensor or own.count or own.columns or own.column_pattern:
            return
        hours = [name for name in numbers if _HOUR_OF_COLUMN.match(name)]
        if len(hours) >= 12:
            raise InputError(
                "each row must be of one time",
                f"{len(hours)} columns that are named as hours of the day",
                "write date, hour, sensor and count in a row each: hours across are not read",
            )
        words = [
            name for name in rest if name not in numbers or (_NO_COUNTS.match(name) and len(numbers) > 1)
        ]
        if len(words) == len(rest):
            words = []
        if self._moments is not None and len(np.unique(self._moments)) * 2 < len(self._moments):
            raise InputError(
                "it must be known what the columns of the file are",
                f"{columns_in_words(table)}, with several rows of the same time",
                'name them with sensor = "site" and count = "count" in [connect.files]',
            )
        self._say_uptime(rest)
        if words:
            self._guess.say("ignore", [*own.ignore, *words], "they hold no counts of people")
        self._guess.say("column_pattern", "(?P<sensor>.+)", "a column a sensor: one row a time")

    def _say_uptime(self, rest: Sequence[str]) -> None:
        found = [name for name in rest if name.lower() == "uptime"]
        if self._own.uptime is None and found:
            self._guess.say("uptime", found[0], "the share of the interval in which the counter worked")

    def _long(self, rest: Sequence[str], sensor: str, counts: Sequence[str]) -> None:
        own, guess = self._own, self._guess
        if not own.sensor:
            guess.say("sensor", [sensor], "it names where was counted")
        if not own.count:
            reason = "it holds counts" if len(counts) == 1 else "they are the channels of a counter"
            guess.say("count", list(counts), reason)
        self._say_uptime(rest)
        if own.channel is None and self._repeats([sensor]):
            others = [name for name in rest if name not in (sensor, *counts)]
            kinds = {name: self._table[name].unique().to_pylist() for name in others}
            modes = [name for name in others if _rank(name, _MODE_NAMES) < 999 and name not in own.where]
            modes = [name for name in modes if len(kinds[name]) > 1]
            if modes:
                known = sorted(map(str, kinds[modes[0]]))
                people = [each for each in known if _PEOPLE.search(each)] or known[:1]
                raise InputError(
                    "it must be said who is counted",
                    f"{len(known)} kinds in column {modes[0]!r}: {', '.join(known[:10])}",
                    f"set where = {_toml({modes[0]: people})} in [connect.files]",
                )
            named = [
                name
                for name in others
                if _rank(name, _CHANNEL_NAMES) < 999 and not self._repeats([sensor, name])
            ]
            if named:
                guess.say("channel", named[0], "a sensor has a row for each of them")
        of_rows = map(guess.keys.get, ("uptime", "channel"))
        used = {*self._times, sensor, *counts, *of_rows, *own.where}
        guess.left_out = sorted(name for name in rest if name not in used)

    def _sensor(self, rest: Sequence[str]) -> str | None:
        """The column that names sensors: of a usual name, or the one with which times come once."""
        own, table = self._own, self._table
        if own.sensor:
            return next((name for name in own.sensor if name in table.column_names), None)
        usual = sorted(
            (_rank(name, _SENSOR_NAMES), name) for name in rest if _rank(name, _SENSOR_NAMES) < 999
        )
        full = [
            name
            for _, name in usual
            if not (table[name].null_count or self._numbers_rows(name) or self._changes_like_counts(name))
        ]
        alone = [name for name in full if not self._repeats([name])]
        if alone or full:
            return (alone or full)[0]
        if self._moments is None or not self._repeats([]):
            return None
        words = [
            name
            for name in rest
            if not table[name].null_count
            and not self._are_counts(name)
            and self._read((name,)) is None
            and not self._repeats([name])
        ]
        return min(words, key=lambda name: len(table[name].unique()), default=None)

    def _numbers_rows(self, name: str) -> bool:
        """Whether each of many rows has another cell there, as where rows have numbers."""
        return len(self._table) >= _MANY_ROWS and len(self._table[name].unique()) == len(self._table)

    def _changes_like_counts(self, name: str) -> bool:
        """Whether it is a counter called Station or Street: numbers that keep changing, one row a time."""
        if self._moments is None or self._repeats([]) or not self._are_counts(name):
            return False
        return int(np.count_nonzero(np.diff(self._codes(name)))) * 10 > len(self._table)

    def _counts(self, numbers: Sequence[str], rest: Sequence[str], sensor: str | None) -> list[str]:
        own, table = self._own, self._table
        if own.count:
            return [name for name in own.count if name in table.column_names]
        if sensor is None:
            return []
        ranked = sorted((_rank(name, _COUNT_NAMES), name) for name in rest if _rank(name, _COUNT_NAMES) < 999)
        if ranked:
            return [ranked[0][1]]
        left = [name for name in numbers if name != sensor and not _NO_COUNTS.match(name)]
        people = [name for name in left if _PEOPLE.search(name)]
        if people:
            whole = [name for name in people if not _CHANNELS.search(name)]
            return [min(whole, key=len)] if whole else people
        if len(left) == 1 or (left and all(map(_CHANNELS.search, left))):
            return left
        if left and self._repeats([]):
            raise InputError(
                "it must be known which column holds the counts",
                ", ".join(column_in_words(table, name) for name in left[:10]),
                'name it with count = "count" in [connect.files]; several are channels',
            )
        return []

    def _repeats(self, keys: Sequence[str]) -> bool:
        """Whether a time comes again with the same cells of these columns, more often than by accident."""
        if self._moments is None:
            return False
        parts = [self._moments, *(self._codes(name) for name in keys)]
        different = len(np.unique(np.stack(parts), axis=1).T)
        return different * 10 < len(self._moments) * 9

    def _codes(self, name: str) -> Any:
        coded: Any = self._table[name].combine_chunks().dictionary_encode()
        return np.asarray(pc.fill_null(coded.indices.cast(pa.int64()), -1))

    def _read(self, names: tuple[str, ...], is_said: bool = False) -> Any:
        """The moments of columns, by their places where they can be read in several ways; None for none."""
        columns: list[Any] = [self._table[name].combine_chunks() for name in names]
        if any(column.null_count or not len(column) for column in columns):
            return None
        cells = (
            columns[0]
            if len(columns) == 1
            else joined_cells([pc.cast(each, pa.string()) for each in columns])
        )
        coded = cells.dictionary_encode()
        at, different = np.asarray(coded.indices), coded.dictionary
        is_text = pa.types.is_string(different.type)
        named = any(
            _rank(name, _TIME_NAMES) < 999 or _BEGIN.search(name) or _END.search(name) for name in names
        )
        if is_text and not is_said and not named:
            bare = pc.all(pc.match_substring_regex(different, r"^-?[0-9.,]*$")).as_py()
            if bare:
                return None
        try:
            times = parse_times(different, names[0], self._own.time_format, self._own.wall_clock)
        except InputError as error:
            return at.astype(np.int64) if named and error.got != "none" else None
        except pa.ArrowException:
            return None
        return times.seconds[at]

    def _are_dates(self, name: str) -> bool:
        has_clock = r"[1-9]:\d|\d:[0-5]*[1-9]|\d\d:\d\d:\d\d.+[+Z]"
        return not pc.any(pc.match_substring_regex(self._texts(name), has_clock)).as_py()

    def _are_hours(self, name: str) -> bool:
        """Whether it holds hours of the day: times of the clock, or numbers to 24 if it is called so."""
        column = self._texts(name)
        if column.null_count or _END.search(name):
            return False
        form = _OF_THE_CLOCK if _HOUR.match(name.strip()) else r"^\d{1,2}:\d\d\D?"
        return bool(pc.all(pc.match_substring_regex(column, form)).as_py())

    def _texts(self, name: str) -> Any:
        return pc.cast(self._table[name].combine_chunks(), pa.string())

    def _are_counts(self, name: str) -> bool:
        """Whether cells may be counts: most of them numbers, and not all empty."""
        column: Any = self._table[name].combine_chunks()
        if not pa.types.is_string(column.type):
            return False
        if column.null_count == len(column):
            return True
        try:
            text = count_cells(column, name)
        except InputError:
            return True  # of which is asked how they are written
        good = pc.sum(pc.match_substring_regex(text, r"^-?[0-9][0-9.,' ]*$")).as_py() or 0
        return bool(2 * good >= len(text) - text.null_count) and text.null_count < len(text)


def _rank(name: str, names: Sequence[str]) -> int:
    plain = _plain(name)
    return names.index(plain) if plain in names else 999


# As text, and as `tallyguard init` reads by it.

_OPTIONS = {
    "start": "--time-column",
    "sensor": "--sensor-column",
    "count": "--count-column",
    "timezone": "--timezone",
    "time_format": "--time-format",
    "kind": "--kind",
    "thousands": "--thousands",
    "decimal": "--decimal",
    "missing": "--missing",
    "channels": "--channels",
}
_FLAGS = {
    'repeated = "drop"': "--drop-repeated",
    'nonexistent = "drop"': "--skip-missing-hour",
    "wall_clock = true": "--wall-clock",
}
_PLACE = re.compile(r" (?:in|of) \[connect\.files\]")
_KEY = re.compile(rf'(set )?\b({"|".join(_OPTIONS)}) = ("[^"]*"|\S+)')


def on_command_line(sentence: str) -> str:
    """A sentence about keys of [connect.files] as one about options of `tallyguard init`."""
    for key, flag in _FLAGS.items():
        sentence = sentence.replace(f"set {key}", f"say {flag}").replace(key, flag)
    sentence = sentence.replace("name it in ignore", "leave it out with --ignore and its name")
    sentence = sentence.replace("name it in keep", "say --keep and its name")
    sentence = _KEY.sub(_option, sentence)
    is_left = re.search(r"\b\w+ = [\"{\d]", sentence) is not None
    return _PLACE.sub(" in a file for --preset" if is_left else "", sentence)


def _option(found: re.Match[str]) -> str:
    value = found[3] if re.search("[ ']", found[3]) else found[3].replace('"', "")
    return f"{'say ' if found[1] else ''}{_OPTIONS[found[2]]} {value}"


def beforehand(sentence: str) -> str:
    """The same for a command that takes no answers but the time zone."""
    if "set timezone =" in sentence:
        return on_command_line(sentence)
    first = "bring it in with `tallyguard connect files` first, and there "
    return f"{first}{sentence}" if _PLACE.search(sentence) else sentence


def read_counts(
    path: Path,
    *,
    most_counts: int = 1,
    remedies: Callable[[str], str] = on_command_line,
    **given: object,
) -> CountTable:
    """The counts of a file by what is ``given`` of [connect.files], and what is found out beside it.

    :class:`InputError` says what is wrong, with its row, and never shows a count; ``remedies`` says its
    answers as the command at hand takes them.
    """
    said = {key: value for key, value in given.items() if value is not None}
    try:
        guess = guessed(path, said)
        mapping = resolved_map(guess.mapping(said))
        if MOST_COUNTS in opened_table(path, mapping).names:  # `connect files` wrote it for scaled counts
            declared = read_table(path, mapping).column(MOST_COUNTS).cast(pa.int64()).to_numpy()
            most_counts = max(most_counts, int(declared.max()))
        found = read_archive([path], mapping)
    except InputError as error:
        raise InputError(error.must, error.got, remedies(str(error.remedy))) from None
    remarks = [*guess.remarks(), *map(on_command_line, found.remarks)]
    if mapping.timezone is None:
        remarks.append("Hours of the day are those of UTC, as no --timezone was given.")
    return replace(found, remarks=tuple(remarks), most_counts=max(most_counts, found.most_counts))


class Proposal(NamedTuple):
    """A mapping as TOML with a reason for each key, what it reads, and the question that the file raises."""

    text: str
    found: CountTable | None
    question: InputError | None


def proposal(path: Path, given: Mapping[str, Any]) -> Proposal:
    """What a file is taken for, and what comes of it; nothing in it is refused, but asked."""
    check_is_file(path)
    guess, found, question = Guess(), None, None
    mapping = FilesMap.model_validate(given)
    try:
        guess = guessed(path, given)
        mapping = resolved_map(guess.mapping(given))
        found = read_archive([path], mapping)
    except InputError as error:
        question = error
    lines = [
        f"# What {path.name} was taken for. Read it, correct it, keep it for --preset.",
        f"about = {_toml(f'as found in {path.name}')}",
    ]
    if question is not None:
        lines += [f"# QUESTION: {question.must}, got {question.got}.", f"# ANSWER: {question.remedy}."]
    reasons = {"ambiguous": "pairs: an hour of autumn that stands once may be of either, and is not counted"}
    if "preset" in guess.keys:  # its keys are copied, as no preset names another
        lines.append(f"# {guess.remarks()[0]}")
        reasons = dict.fromkeys(FilesMap.model_fields, "as in the preset")
    reasons |= guess.reasons
    for key, value in mapping.model_dump(exclude_unset=True, exclude_none=True, exclude={"preset"}).items():
        lines.append(f"{key} = {_toml(value)}  # {'as you said' if key in given else reasons.get(key, '')}")
    lines += [f"# {each}" for each in guess.remarks() if each.startswith("Columns left out")]
    lines += [f"# {_PLACE.sub('', each)}" for each in (found.remarks if found else ())]
    return Proposal("\n".join(lines) + "\n", found, question)


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, str) and "\\" in value and "'" not in value:
        return f"'{value}'"
    value = str(value) if isinstance(value, Path) else value
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
