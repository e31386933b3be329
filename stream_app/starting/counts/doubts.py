"""What looks wrong in a table of counts: totals beside parts, running totals, columns that are no counts.

Publishing a total beside its parts counts everybody twice; a running total is thousands of people too many.
Neither shows in a single cell, so they are looked for in what was read, and whoever brings the file answers:
nothing is guessed, and nothing is dropped without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from stream_app.exceptions import InputError
from stream_app.starting.counts.tables import is_named
from stream_app.watching.wording import duration

NOT_COUNTED = -1
"""A cell without a count."""
ABSENT = NOT_COUNTED - 1
"""No row for the interval at all."""
_ROWS = 2_000  # looked at, evenly over the file
_MANY = 300  # channels, of which all are compared with all
_MOST_PARTS = 40  # of one total
_NO_COUNT_IS_MORE = np.iinfo(np.int64).max
_NEARLY = 0.9  # of the rows in which what is called a total is one: counts are corrected, totals are not
_LEAST_ROWS = 3  # with people in two parts: fewer may be equal by chance
_STATUS = re.compile(r"^(?P<base>.+?)[-_ ](?:status|quality|flag)$", re.IGNORECASE)
_TOTAL_WORDS = re.compile(
    r"\b(?:total|totals|sum|all|both|gesamt|insgesamt|summe|somme|totale)\b", re.IGNORECASE
)
_NUMBER = re.compile(r"[0-9][0-9.,]*")
_DAY = 24  # intervals after which counts of people have fallen, and some have come
_NAMED = 3  # in a sentence
_LONG_SECONDS, _LONG_STEPS = 18 * 3600, 6
_DAY_SECONDS = 86_400
_SPARSE = 12  # counts that are equally far apart, and no interval's length


_IGNORE = "name it in ignore of [connect.files], or name it in keep if it counts people of its own"
_TOTAL = 'set kind = "total" in [connect.files], or name it in keep if it counts anew in each interval'


def ask_about(
    table: NDArray[np.int64],
    names: Sequence[str],
    keep: Sequence[str],
    *,
    are_totals: bool,
    by_place: bool,
    interval: int | None,
) -> None:
    """:class:`InputError` for what needs an answer before counts are taken.

    ``table`` (intervals, channels) has one row an interval in order of time, below 0 where nobody counted.
    Whoever brings the file has said which channels to ``keep``, although they look like totals or are 0, and
    whether counts ``are_totals`` since a counter began; ``by_place`` names are those of columns. ``interval``
    is the length in seconds that all are taken for, None where each row says its own.
    """
    columns = np.ascontiguousarray(table.T)
    series = [_counted(column) for column in columns]
    doubtful = [number for number, name in enumerate(names) if not is_named(name, keep)]
    if by_place:  # without a header the first row stands for names, and a number in it is a count
        names = [f"column {k + 1}" if _NUMBER.fullmatch(name) else name for k, name in enumerate(names)]
    states = [names[each] for each in doubtful if _is_state(names[each], names)]
    if states:
        raise InputError(
            "each column must count people", f"{some_of(states)}, which say how others are", _IGNORE
        )
    if not are_totals:
        running = [names[each] for each in doubtful if never_falls(series[each])]
        if running:
            raise InputError(
                "counts must be of people in an interval",
                f"those of {some_of(running)}, which never fall: they look like totals since a counter began",
                _TOTAL,
            )
        found = [(total, parts) for total, parts in totals(columns, names) if total in doubtful]
        if found:
            raise InputError(
                "each person must be counted in one place",
                "; ".join(
                    f"{names[total]!r}, the sum of {some_of([names[part] for part in parts])}"
                    for total, parts in found[:_NAMED]
                )
                + (f"; and {len(found) - _NAMED} more such sums" if len(found) > _NAMED else ""),
                _IGNORE,
            )
    long = [each for each in doubtful if series[each].size >= _DAY]
    silent = [names[each] for each in long if not series[each].any()]
    if silent:
        raise InputError(
            "each channel must have counted somebody",
            f"nothing but zeros of {some_of(silent)}, in {_DAY} intervals or more",
            _IGNORE,
        )
    constant = [names[each] for each in long if (series[each] == series[each][0]).all()]
    if constant and not are_totals:  # of totals it says that nobody came
        raise InputError(
            "counts must be of people in each interval",
            f"the same number of {some_of(constant)} in all of {_DAY} intervals or more: something else, or "
            "a device that was stuck",
            _IGNORE,
        )
    apart = {} if interval is None else {each: _apart(columns[each], interval) for each in doubtful}
    sparse = [names[each] for each, gap in apart.items() if gap > 1]
    if sparse and interval is not None:
        most = duration(max(apart.values()) * interval)
        raise InputError(
            f"all counts must be of intervals of one length, {duration(interval)} as times are apart",
            f"those of {some_of(sparse)}, which lie up to {most} apart",
            "bring all times to full intervals, give each length a file of its own, and write zeros that are "
            f"left out; or name it in keep if each of its counts is of {duration(interval)} all the same",
        )


def _apart(column: NDArray[np.int64], interval: int) -> int:
    """How many intervals, of a day at most, a channel's counts are apart for long, or always.

    Whoever counts by the hour has a count in each fourth quarter of an hour; 1 is that of any other.
    """
    is_counted = column >= 0
    gaps = np.zeros(0, dtype=np.int64) if is_counted.all() else np.diff(np.flatnonzero(is_counted))
    if gaps.size < _SPARSE or gaps.max() == 1:
        return 1
    ends = np.flatnonzero(np.append(gaps[1:] != gaps[:-1], True))
    is_long = np.diff(ends, prepend=-1) >= _SPARSE
    found = np.append(gaps[ends[is_long]], gaps.min())
    return int(found.max(initial=1, where=found * interval <= _DAY_SECONDS))


def _counted(column: NDArray[np.int64]) -> NDArray[np.int64]:
    """The counts of a channel without intervals in which nobody counted."""
    is_counted = column >= 0
    return column if is_counted.all() else column[is_counted]


def _is_state(name: str, names: Sequence[str]) -> bool:
    """Whether a column is named after another one, and says how that one is."""
    state = _STATUS.match(name)
    return state is not None and any(state["base"] in each for each in names if each != name)


def some_of(names: Sequence[str]) -> str:
    """The first of many names."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(repr, names[:_NAMED])) + more


def never_falls(counted: NDArray[np.int64]) -> bool:
    """Whether counts of a channel look like a running total: they only rise, for long or from far up."""
    if counted.size < 4 or (counted[1:] < counted[:-1]).any():
        return False
    most = int(np.diff(counted).max())
    is_far_above = int(counted[0]) > 20 * most
    return most > 0 and (is_far_above or counted.size >= _DAY)


def totals(columns: NDArray[np.int64], names: Sequence[str]) -> Iterator[tuple[int, list[int]]]:
    """Channels that are the sum of others wherever all of them counted: the total, and its parts.

    ``columns`` (channels, intervals) are below 0 where nobody counted. Parts are looked for among channels of
    the same name, and among all that never count more. Of many channels only the busiest can be totals of
    others whose names do not tell.
    """
    are_many = len(names) > _MANY
    intervals = columns.shape[1]
    picked = np.linspace(0, intervals - 1, min(intervals, _ROWS // 8 if are_many else _ROWS))
    values = columns[:, np.unique(picked.astype(np.int64))]
    few, *more = (np.ascontiguousarray(values[:, ::every]) for every in (32, 4, 1))
    counted = values >= 0
    lower = [name.lower() for name in names]
    joined = "\n".join(lower)
    busy = np.sort(np.argsort(-values.sum(axis=1, where=counted), kind="stable")[:_MANY])
    possible = np.all(few <= _most(few[busy])[:, None], axis=2)
    for total, chosen in zip(busy.tolist(), list(possible), strict=True):
        for parts, least in (
            (_named_parts(total, lower, joined), _NEARLY),
            (_least_squares_parts(total, np.flatnonzero(chosen), more, counted), 1.0),
        ):
            if len(parts) > 1 and _is_sum(total, parts, values, counted, least):
                yield total, parts
                break


def _most(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """What each part of a total may have counted at most."""
    return np.where(counts >= 0, counts, _NO_COUNT_IS_MORE)


def _named_parts(total: int, names: Sequence[str], joined: str) -> list[int]:
    """The channels whose names begin with that of the total, without words that say that it is one.

    ``names`` are in lower case, also ``joined``.
    """
    base = " ".join(_TOTAL_WORDS.sub(" ", names[total]).split())
    if not base:
        return [each for each in range(len(names)) if each != total]
    if joined.isascii() and joined.count(base) < 2 + (base in names[total]):
        return []  # nearly all totals: a pattern takes long to compile
    own = re.compile(rf"^{re.escape(base)}(?!\w)|[(\[]{re.escape(base)}(?!\w)", re.IGNORECASE)
    return [each for each, name in enumerate(names) if each != total and own.search(name)]


def _least_squares_parts(
    total: int, chosen: NDArray[np.int64], thinned: Sequence[NDArray[np.int64]], counted: NDArray[np.bool_]
) -> list[int]:
    """The channels that weigh one in the sum nearest to the total, of those that never count more than it.

    ``chosen`` do not in few intervals, which rule most channels out, and are looked at in more, and in all.
    """
    values = thinned[-1]
    for some in thinned:
        if chosen.size <= 2:  # the total is one of them
            return []
        chosen = chosen[(some[chosen] <= _most(some[total])).all(axis=1)]
    chosen = chosen[chosen != total]
    if chosen.size < 2:
        return []
    both = counted[chosen] & counted[total]
    often = 2 * both.sum(axis=1) >= counted[total].sum()
    is_part = often & ((values[chosen] * both).sum(axis=1) > 0)
    chosen, both = chosen[is_part], both[is_part]
    if not 2 <= chosen.size <= _MOST_PARTS:
        return []
    rows = both.all(axis=0)
    if rows.sum() < _LEAST_ROWS:
        return []
    from scipy.optimize import nnls  # takes long to import, and few tables come this far

    weights, _ = nnls(values[chosen][:, rows].T.astype(np.float64), values[total, rows].astype(np.float64))
    return [int(each) for each in chosen[np.abs(weights - 1.0) < 1e-6]]


def _is_sum(
    total: int, parts: list[int], values: NDArray[np.int64], counted: NDArray[np.bool_], least: float
) -> bool:
    """Whether the total is the sum of these parts in this share of rows with people where all counted."""
    rows = counted[[total, *parts]].all(axis=0)
    found = values[parts][:, rows]
    shown = int(((found > 0).sum(axis=0) > 1).sum())
    sums, own = found.sum(axis=0), values[total, rows]
    fits = (sums == own)[sums + own > 0]
    return shown >= _LEAST_ROWS - 1 and int(fits.sum()) >= least * fits.size


def differences(table: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Counts of the intervals between totals since a counter began, and how many are not known.

    A total that is lower than the one before is that of a counter that began again.
    """
    before, after = table[:-1], table[1:]
    is_known = (before >= 0) & (after >= before)
    unknown = int(((before >= 0) & (after != ABSENT) & ~is_known).sum())
    return np.where(is_known, after - before, np.minimum(before, NOT_COUNTED)), unknown


def remarks_of(table: NDArray[np.int64], names: Sequence[str], step_seconds: int) -> Iterator[str]:
    """What may be a broken device, in a sentence each: the same count for most of a day and more."""
    least = max(_LONG_STEPS, -(-_LONG_SECONDS // step_seconds))
    for name, column in zip(names, np.ascontiguousarray(table.T), strict=True):
        counts = _counted(column)
        if counts.size < 2 * least or not counts.any():
            continue
        every = least - 1  # of so many comparisons in a row one is looked at
        if not (counts[1::every] == counts[:-1:every]).any():
            continue
        starts = np.flatnonzero(np.concatenate([[True], counts[1:] != counts[:-1]]))
        lengths = np.diff(np.append(starts, counts.size))
        longest = int(lengths.argmax())
        if lengths[longest] >= least:
            what = "no people" if counts[starts[longest]] == 0 else "the same number of people"
            yield (
                f"{name!r} counted {what} in {int(lengths[longest]):,} intervals in a row. If the device was "
                "down, leave these hours out: docs/how-to/broken-devices.md"
            )
