"""What a deployment declares of counts: of what, how often of one person, in which steps, scaled by what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import ceil
from typing import Literal, NamedTuple, Protocol

from models.exceptions import SensorError
from models.releases import CountingWindow, Counts, MoveSensor, SensorRegistry
from stream_app.exceptions import SettingsError

# The fields of a sensor that say what it counts; every one of them is accounted as it is declared.

_COUNTS, _MOST, _CORRECTIONS = "counts", "most_counts", "corrections"
_WINDOW, _MOVES, _MISCOUNTS = "window", "moves", "miscounts"
KEYS = (_COUNTS, _MOST, _CORRECTIONS, _WINDOW, _MOVES, _MISCOUNTS)
MOST_STEPS = 48
"""Of a window: as many steps before a horizon are followed one by one."""

_MOST_CORRECTIONS = 10
_MOVES_EXAMPLE = 'write "moves": [["office", "station"], ["station", "office"]], a third entry for how often'

Locate = Callable[[object], int]


class Counting(NamedTuple):
    """What one sensor counts: fields of :class:`~models.releases.Sensor`.

    ``locations`` are those of the moves, None for a sensor on places.
    """

    counts: Counts | None
    most_counts: int
    corrections: int
    window: CountingWindow | None = None
    locations: tuple[int, ...] | None = None


def counting_of(where: str, row: Mapping[str, object], locate: Locate) -> Counting:
    """What a sensor's row declares; :class:`SensorError` says what it must.

    ``locate`` finds a location by its index or name.
    """
    moves = _moves(where, row, locate)
    window = _window(where, row, moves)
    counts, most = _declared(where, row, window)
    corrections = _corrections(where, row)
    if window is None:
        return Counting(counts, most, corrections)
    if corrections:
        raise SensorError(
            f"{where} must have no corrections, since its counts are of windows or moves",
            corrections,
            "correct counts of presence in single steps only",
        )
    if counts is Counts.PASSAGES and not moves:  # how often who is there is counted: any function of that
        window = CountingWindow(window.steps, moves, True, window.most_sensors)
    ends = {place for start, end, _ in moves for place in (start, end)}
    return Counting(counts, most, 0, window, tuple(sorted(ends)) if moves else None)


def _window(
    where: str, row: Mapping[str, object], moves: tuple[tuple[int, int, int], ...]
) -> CountingWindow | None:
    """None for what counts in one step, at places."""
    steps, miscounts = row.get(_WINDOW, 1), row.get(_MISCOUNTS, False)
    if not is_whole(steps) or not 1 <= int(str(steps)) <= MOST_STEPS:
        raise SensorError(
            f"{where} must have a window of 1 to {MOST_STEPS} steps of the priors",
            steps,
            "count over fewer steps, or fit priors with longer ones",
        )
    if not isinstance(miscounts, bool):
        raise SensorError(f"{where} must say miscounts as true or false", miscounts, "leave it out for false")
    if int(str(steps)) == 1 and not moves:
        return None
    declared = row.get("most_sensors")
    most_sensors = int(str(declared)) if is_whole(declared) else None
    return CountingWindow(int(str(steps)), moves, miscounts, most_sensors)


def _moves(where: str, row: Mapping[str, object], locate: Locate) -> tuple[tuple[int, int, int], ...]:
    """Triples (from, to, times) of a sensor on moves."""
    given = row.get(_MOVES)
    if given is None:
        return ()
    if "locations" in row:
        raise SensorError(f"{where} must have either locations or moves", "both", "a door has moves only")
    if not isinstance(given, list) or not all(isinstance(each, list) for each in given):
        raise SensorError(f"{where} must have a list of moves", given, _MOVES_EXAMPLE)
    found = {}
    for move in given:
        times = move[2] if len(move) == 3 else 1
        if len(move) not in (2, 3) or not is_whole(times):
            raise SensorError(f"each move of {where} must have from and to", move, _MOVES_EXAMPLE)
        pair = locate(move[0]), locate(move[1])
        if pair in found:
            raise SensorError(f"{where} must name each move once", move, "add up how often it is counted")
        found[pair] = int(times)
    triples = tuple((start, end, times) for (start, end), times in sorted(found.items()))
    return MoveSensor(where, triples).times_counted


def _declared(
    where: str, row: Mapping[str, object], window: CountingWindow | None
) -> tuple[Counts | None, int]:
    """What the sensor counts, None if nobody says, and one person how often at most."""
    counts, most = row.get(_COUNTS), row.get(_MOST)
    if window is not None and counts is None:
        counts = Counts.PASSAGES if window.moves else Counts.PRESENCE
    if counts is None and most is None:
        return None, 1
    if counts not in (*Counts,) or (most is not None and not (is_whole(most) and int(str(most)) >= 1)):
        raise SensorError(
            f'{where} must count "presence" or "passages", one person most_counts (1 or more) times',
            {key: row[key] for key in (_COUNTS, _MOST) if key in row},
            'for a door counter write "counts": "passages", "most_counts": 4',
        )
    declared = Counts(str(counts))
    if declared is Counts.PASSAGES and most is None:
        raise SensorError(
            f"{where} must declare most_counts, since it counts passages",
            "none",
            "ask the vendor how often the device can count one person in a window (a step, where none is "
            "declared); 1 for one that deduplicates",
        )
    if declared is Counts.PASSAGES:
        return declared, int(str(most))
    return declared, _most_presence(where, most, window)


def _most_presence(where: str, most: object, window: CountingWindow | None) -> int:
    """How often a sensor of presence counts one person: once a step."""
    steps = 1 if window is None else window.steps
    if window is not None and window.moves:
        raise SensorError(f"{where} must count passages, since it counts moves", "presence", "declare them")
    if most is not None and int(str(most)) > steps:
        raise SensorError(
            f"{where} must count each person once{' a step' if steps > 1 else ''}, as presence",
            most,
            "declare passages",
        )
    return steps if most is None else int(str(most))


def _corrections(where: str, row: Mapping[str, object]) -> int:
    """How many more values of one step are published at most."""
    declared = row.get(_CORRECTIONS, 0)
    if not is_whole(declared) or not 0 <= int(str(declared)) <= _MOST_CORRECTIONS:
        raise SensorError(
            f"{where} must declare from 0 to {_MOST_CORRECTIONS} corrections of a step",
            declared,
            "every one is accounted from the start, whether it comes or not (docs/how-to/late-data.md)",
        )
    return int(str(declared))


def is_whole(value: object) -> bool:
    """Whether a value is an integer; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


# Counts that were scaled, filled in or converted before they came: how far one person moves them.
#
# A value ``round(a N + b)`` with a public ``a`` of at most ``A`` is moved by one person by ``floor(a)`` or
# ``ceil(a)``, so noise and accounts take one person for ``ceil(A)`` counts. Nothing is assumed where ``A``
# is not declared: a count with decimals was scaled by something.


class ScaledCounts(Protocol):
    """What a mapping of files or payloads, or of datastreams, says of its counts."""

    @property
    def decimals(self) -> Literal["refuse", "round"]:
        """Whether counts with decimals are taken."""

    @property
    def largest_factor(self) -> float | None:
        """By how much one person moves a count at most; None where it was not declared."""


def most_counts_of(mapping: ScaledCounts) -> int:
    """For how many counts of a step one person stands in counts that come by this mapping.

    :class:`SettingsError` where counts are rounded and nobody says what they were scaled by.
    """
    if mapping.largest_factor is not None:
        return max(1, ceil(mapping.largest_factor))
    if mapping.decimals == "round":
        raise SettingsError(
            "a mapping that rounds counts must say by how much one person moves one",
            "no largest_factor",
            "set largest_factor: 2 for counts scaled up from half of an interval, 1 for averages of what one "
            "person changes once; ask for whole counts where hours were filled in from others",
        )
    return 1


def require_most_counts(registry: SensorRegistry | None, mappings: Iterable[ScaledCounts]) -> None:
    """:class:`SettingsError` unless every sensor declares what the scaled counts make of one person.

    ``registry`` is None where a deployment does not say its sensors.
    """
    most = max(map(most_counts_of, mappings), default=1)
    if most == 1:
        return
    if registry is None:
        raise SettingsError(
            "the sensors must be known before their scaled counts are taken",
            "no locations",
            f"set locations and sensors in the settings, with most_counts of {most} or more",
        )
    less = [sensor.name for sensor in registry.sensors if sensor.most_counts < most]
    if less:
        raise SettingsError(
            f"each sensor must declare most_counts of {most} or more, as largest_factor says that one person "
            "moves a count by so much",
            f"less at {len(less):,} of {len(registry.sensors):,}, such as {less[0]!r}",
            f'add "counts": "passages", "most_counts": {most} to the sensors file, or have counts unscaled',
        )
