"""Times as cities write them: instants, or what the clock on the wall shows (two odd nights a year)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from itertools import chain, product
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from models.calendar import known_zone
from stream_app.exceptions import InputError

_DATES = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d"),
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y"),
    *("%y/%m/%d", "%y-%m-%d", "%d-%m-%y", "%m-%d-%y"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d. %b %Y", "%b %d, %Y"),
    *("%b %d %Y", "%Y %b %d", "%Y-%b-%d"),
)
_CLOCKS = ("%H", "%H:%M", "%H:%M:%S", "%I %p", "%I:%M %p", "%I:%M:%S %p", "%I%p", "%I:%M%p")
_FORMATS = (
    *_DATES,
    *(f"{date}{between}{clock}" for date, between, clock in product(_DATES, (" ", ", ", "T"), _CLOCKS)),
    *(f"{clock}{between}{date}" for date, between, clock in product(_DATES, (" ", ", "), _CLOCKS)),
)
_TIMES_LONGER = 3
_SAMPLE = 40  # cells that a form must fit before all are tried with it
_UNIX_DIGITS = "^(?:[0-9]{9,11}|[0-9]{13}|[0-9]{16}|[0-8][0-9]{18})(?:[.][0-9]+)?$"
_UNIX, _HOURS = "%s", "%Y%m%d%H"
_DIGITS_ONLY = re.compile("(%[YymdHMSj])+")
_ISO = r"^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?)?$"
_UTC = r"(\d) ?(?:UTC|GMT)$"
_OFFSET = r"(\d) ?([+-]\d{2}):?(\d{2})$"
_DAY = 86_400
_END_OF_DAY = r"(\d(?:[T ]|, ))24((?::00)*(?:[.,]0+)?(?:[Z+-].*)?)$"
_MIDNIGHT = r"\d(?:[T ]|, )0?0((?::00)*(?:[.,]0+)?(?:[Z+-].*)?)$"
_EARLIEST, _LATEST = -30_610_224_000, 221_845_392_000  # years that every calendar here knows, in any zone

# Names of months in the languages of Europe by their first letters, the longer ones first; June before July.
_MONTHS = (
    ("Jan", "jan|gen|ene|led|sty|tammi|ιαν"),
    ("Feb", "feb|fév|fev|únor|uno|lut|helmi|φεβ"),
    ("Mar", "mar|mär|mrz|maar|mrt|bře|bre|μαρ|maalis"),
    ("Apr", "apr|avr|abr|dub|kwi|huhti"),
    ("May", "may|mai|maj|mei|mag|kvě|kve|touko"),
    ("Jun", "jun|juin|giu|červ(?:en$|n)|czerw|cze|kesä"),
    ("Jul", "jul|juil|lug|červen|lip|heinä"),
    ("Aug", "aug|aoû|aou|ago|srp|sie|elo"),
    ("Sep", "sep|set|zář|zar|wrz|syys"),
    ("Oct", "oct|okt|ott|out|říj|rij|paź|paz|loka"),
    ("Nov", "nov|lis|marras"),
    ("Dec", "dec|déc|dez|dic|pro|gru|joulu"),
)
_WEEKDAY = re.compile(
    r"\b(?:mo|di|mi|do|fr|sa|so|mon|tue|wed|thu|fri|sat|sun|lun|mar|mer|mié|mie|jeu|jue|ven|vie|sam|sáb|dim|"
    r"dom|gio|sab|maa|din|woe|don|vri|zat|zon|montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag|"
    r"lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|miércoles|jueves|viernes|sábado|domingo|"
    r"lunedì|martedì|mercoledì|giovedì|venerdì|sabato|domenica|maandag|dinsdag|woensdag|donderdag|vrijdag|"
    r"zaterdag|zondag|ma|ti|ke|to|pe|la|su|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b\.?,?",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]{3,}\.?")
_RANGE = re.compile(
    r"(\d)\s*(?:-|–|/|to|bis|à|until)\s*(?:\d{4}-\d\d-\d\dT)?\d{1,2}:\d{2}(?::\d{2})?\s*(?:[ap]m)?$", re.I
)
_NOON = re.compile(r"\b([ap])\.?\s?m\.?(?!\w)", re.IGNORECASE)
_FRENCH = re.compile(r"\b(\d{1,2})\s?h\s?(\d{2})?\b", re.IGNORECASE)
_CLOCK_WORDS = re.compile(r"\s*\b(?:uhr|um|de|del|à|at|klo|kl|godz)\b\.?\s*", re.IGNORECASE)


class Times(NamedTuple):
    """Unix seconds of each row; where ``is_local``, what the clock on the wall shows, as if in UTC.

    ``are_numbers`` where nothing in the file says which of the two; ``are_ends`` where days go from 01:00 to
    24:00 and have no 00:00.
    """

    seconds: NDArray[np.int64]
    is_local: bool
    are_numbers: bool = False
    are_ends: bool = False


def check_zone(name: str) -> None:
    """:class:`InputError` for a time zone nobody knows."""
    try:
        known_zone(name)
    except ValueError:
        known = sorted(available_timezones() - {name})
        near = get_close_matches(name, known, n=1) or [zone for zone in known if name.title() in zone][:1]
        hint = f"did you mean {near[0]}?" if near else "write it like Europe/Vienna"
        raise InputError("--timezone must be a name of the IANA database", repr(name), hint) from None


def parse_times(
    cells: Any,
    what: str,
    form: str | None = None,
    wall_clock: bool = False,
    where: Callable[[int], str] = lambda index: f"row {index + 1}",
) -> Times:
    """The times of cells without an empty one; :class:`InputError` where they are none we know.

    ``what`` names the column and ``where`` the place of one cell, as a person finds it.
    """
    if pa.types.is_timestamp(cells.type):
        return Times(_seconds(cells, where), cells.type.tz is None)
    if pa.types.is_date(cells.type):
        return Times(_seconds(pc.cast(cells, pa.timestamp("s")), where), is_local=True)
    if not pa.types.is_string(cells.type):
        cells = pc.cast(cells, pa.string())
    digits = all(pc.all(pc.match_substring_regex(some, _UNIX_DIGITS)).as_py() for some in (cells[:1], cells))
    whole: Any = pc.replace_substring_regex(cells, "[.].*", "") if digits else cells
    if digits and form is None and not wall_clock:
        hours: Any = pc.strptime(whole, format=_HOURS, unit="s", error_is_null=True)
        if not hours.null_count and pc.all(pc.match_substring_regex(whole, "^[0-9]{10}$")).as_py():
            raise _not_one_way(what, "unix seconds, or year, month, day and hour", _HOURS, _UNIX)
    if digits and (form in (None, _UNIX) or not _DIGITS_ONLY.fullmatch(str(form))):
        seconds = np.asarray(pc.cast(whole, pa.int64()))
        for _ in range(3):  # nanoseconds, microseconds, milliseconds
            seconds = np.where(seconds >= 10**12, seconds // 1000, seconds)
        return Times(seconds, wall_clock, form != _UNIX)
    if form is None:
        cells = _in_plain_words(cells)
    cells, days, are_ends = _without_24_hours(cells)
    if form is None:
        cells = pc.replace_substring_regex(cells, _UTC, r"\1Z")
        if pc.all(pc.match_substring_regex(cells, _OFFSET)).as_py():
            cells = pc.replace_substring_regex(cells, _OFFSET, r"\1\2:\3")
        for kind, is_local in ((pa.timestamp("us"), True), (pa.timestamp("us", "UTC"), False)):
            try:
                return Times(_seconds(pc.cast(cells, kind), where) + days, is_local, are_ends=are_ends)
            except pa.ArrowInvalid:
                continue
        cells = pc.replace_substring_regex(cells, r"(:\d\d)[.,]\d+", r"\1")  # parts of a second
    seconds = _by_form(cells, what, form, where)
    is_local = form is None or "%z" not in form  # a time with its offset is an instant
    return Times(seconds + days, is_local, are_ends=are_ends)


def joined_cells(columns: list[Any]) -> Any:
    """A date and an hour as one text; a date at midnight, as spreadsheets write it, is the date."""
    date, *others = (pc.utf8_trim_whitespace(column) for column in columns)
    date = pc.replace_substring_regex(date, r"[T ]0?0:00(?::00(?:\.0+)?)?$", "")
    return pc.binary_join_element_wise(date, *others, " ")


def _by_form(cells: Any, what: str, form: str | None, where: Callable[[int], str]) -> NDArray[np.int64]:
    """Times by a declared form, or by the only known one that fits; all that fit must agree."""
    forms: tuple[str, ...] = (form,) if form is not None else _FORMATS
    if form is None and len(cells):
        picked = np.unique(np.linspace(0, len(cells) - 1, _SAMPLE).astype(np.int64))
        sample = cells.take(pa.array(picked))
        # A space of a form matches nothing, too; a word among the times has none.
        spaces = Counter(text.count(" ") for text in sample.to_pylist()).most_common(1)[0][0]
        fits = {each: _strptime(sample, each).null_count for each in forms if each.count(" ") <= spaces}
        least = min(fits.values())
        forms = tuple(each for each, missing in fits.items() if missing == least < len(sample)) or forms[:1]
    found = {each: _strptime(cells, each) for each in forms}
    read = {each: times for each, times in found.items() if not times.null_count}
    if not read:
        no_iso = pc.invert(pc.match_substring_regex(cells, _ISO))
        are_none = [*(np.asarray(times.is_null()) for times in found.values()), np.asarray(no_iso)]
        nearest = min(are_none, key=np.count_nonzero)
        if nearest.all() or not nearest.any():
            raise _not_one_way(what, "none", "%d/%m/%Y %H:%M")
        raise _some_are_none(nearest, what, where)
    kept = {form: seconds for form, times in read.items() if not _beyond(seconds := _unix(times)).any()}
    if not kept:
        return _seconds(next(iter(read.values())), where)
    return _only(kept, what)


def _only(read: Mapping[str, NDArray[np.int64]], what: str) -> NDArray[np.int64]:
    """The times on which all forms agree; how long they last says whether two digits of a year are first."""
    groups = [
        [seconds for form, seconds in read.items() if ("%y/" in form or "%y-" in form) is is_first]
        for is_first in (False, True)
    ]
    if all(groups):
        short, long = sorted(groups, key=lambda group: min(map(np.ptp, group)))
        longest = min(map(np.ptp, long))
        groups = [short] if _TIMES_LONGER * min(map(np.ptp, short)) < longest else groups
    first, *more = chain.from_iterable(groups)
    if any((seconds != first).any() for seconds in more):
        raise _not_one_way(what, "several ways", "%d/%m/%Y %H:%M")
    return first


def _strptime(cells: Any, form: str) -> Any:
    return pc.strptime(cells, format=form, unit="s", error_is_null=True)


def _in_plain_words(cells: Any) -> Any:
    """Months in English, no days of the week, AM and PM, and of a range its beginning."""
    cells = pc.utf8_trim_whitespace(cells)
    is_plain = pc.all(pc.match_substring_regex(cells, r"^[0-9][0-9T:., Z/+-]*$")).as_py()
    is_range = pc.any(pc.match_substring_regex(cells, r"\d:\d\d\s*[-–/]\s*\d")).as_py()
    if not len(cells) or (is_plain and not is_range):
        return cells
    return pa.array([_plain(text) for text in cells.to_pylist()], pa.string())


def _plain(text: str) -> str:
    text = _NOON.sub(lambda found: f"{found[1].upper()}M", text.replace("\u00a0", " ").replace("\u202f", " "))
    text = _RANGE.sub(r"\1", _CLOCK_WORDS.sub(" ", _FRENCH.sub(lambda at: f"{at[1]}:{at[2] or '00'}", text)))
    words = _WORD.findall(text)
    if words:
        without = _WEEKDAY.sub("", text)  # "mar" is a Tuesday of France, or March
        has_month = any(map(_month, words))
        text = without if not has_month or any(map(_month, _WORD.findall(without))) else text
        text = _WORD.sub(lambda word: _month(word[0]) or word[0], text)
    return " ".join(text.split()).strip(" /,")


def _month(word: str) -> str | None:
    """The English name of a month, by how its name begins in any language."""
    lower = word.lower()
    return next((name for name, starts in _MONTHS if re.match(starts, lower)), None)


def _not_one_way(what: str, found: str, *forms: str) -> InputError:
    examples = " or ".join(f'time_format = "{form}"' for form in forms)
    return InputError(
        f"{what} must hold times that can be read in one way",
        found,
        f"say how with {examples} in [connect.files]",
    )


def _some_are_none(are_none: NDArray[np.bool_], what: str, where: Callable[[int], str]) -> InputError:
    return InputError(
        f"{what} must have a time in each row",
        f"{int(are_none.sum()):,} cells that are none, or written another way, first in "
        f"{where(int(are_none.argmax()))}",
        "correct or drop them; lines at the end that are no rows are told by footer = 1, and how times are "
        'written by time_format = "%d/%m/%Y %H:%M" in [connect.files]',
    )


def _without_24_hours(cells: Any) -> tuple[Any, Any, bool]:
    """Times as text, the end of a day (24:00) as its beginning, the seconds that it is later, and whether
    days have no other midnight.
    """
    is_end = pc.match_substring_regex(cells, _END_OF_DAY)
    if not pc.any(is_end).as_py():
        return cells, 0, False
    begins = pc.replace_substring_regex(cells, _END_OF_DAY, r"\100\2")
    is_only = not pc.any(pc.match_substring_regex(cells, _MIDNIGHT)).as_py()
    return begins, np.asarray(pc.cast(is_end, pa.int64())) * _DAY, is_only


class LocalTimes(NamedTuple):
    """The two instants (unix seconds) that each of many times on the clock on the wall may mean.

    They differ in the hour that the clock shows twice in autumn. ``is_shown`` is False in the hour that it
    skips in spring.
    """

    early: NDArray[np.int64]
    late: NDArray[np.int64]
    is_shown: NDArray[np.bool_]


def local_times(local: NDArray[np.int64], zone: str) -> LocalTimes:
    """What times mean that a clock in a time zone shows; ``local`` is in seconds, as if in UTC."""
    naive: Any = pa.array(local, pa.timestamp("s"))
    early = pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="earliest")
    late = pc.assume_timezone(naive, zone, ambiguous="latest", nonexistent="latest")
    # "latest" moves a skipped time forward: the clock then shows another one.
    is_shown = np.asarray(pc.equal(pc.local_timestamp(late), naive))
    first, second = (np.asarray(pc.cast(each, pa.int64())) for each in (early, late))
    return LocalTimes(first, second, is_shown)


def calendar_days(local: NDArray[np.int64], zone: str) -> NDArray[np.int64] | None:
    """When the steps of daily counts begin: a day each, from midnight by standard time; None for any others.

    A calendar day has 23 or 25 hours where the clock changes, and stays one step.
    """
    if ((local - local[:1]) % _DAY).any():
        return None
    times = np.unique(local)
    if times.size < 2:
        return None
    first = datetime.fromtimestamp(int(times[0]), UTC).replace(tzinfo=ZoneInfo(zone))
    summer = first.dst() or timedelta(0)
    offset = (first.utcoffset() or timedelta(0)) - max(summer, timedelta(0))
    return local - int(offset.total_seconds())


def _unix(times: Any) -> NDArray[np.int64]:
    kind = pa.timestamp("s", times.type.tz)
    return np.asarray(pc.cast(pc.cast(times, kind, safe=False), pa.int64()))


def _beyond(seconds: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.asarray((seconds < _EARLIEST) | (seconds >= _LATEST))


def _seconds(times: Any, where: Callable[[int], str]) -> NDArray[np.int64]:
    seconds = _unix(times)
    beyond = _beyond(seconds)
    if beyond.any():
        raise InputError(
            "counts must be of the years 1000 to 8999",
            f"another year in {int(beyond.sum()):,} rows, the first is {where(int(beyond.argmax()))}",
            'correct the file, or say time_format = "%d/%m/%Y %H:%M" in [connect.files]',
        )
    return seconds
