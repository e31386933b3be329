"""Check-ins to priors: count each person's moves, smooth them, and pack the matrices as a population."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from models.arguments import checked
from models.calendar import Calendar
from models.exceptions import CheckinError
from models.fitting.checkins import Checkins
from models.fitting.contexts import NONE, PLACES, Habit, Kind, States, contexts_of, states_of
from models.fitting.fit_options import FitOptions
from models.fitting.windows import NOWHERE, Traces, is_in_slot, slots_of, traces
from models.numerics import elementwise
from models.numerics.arrays import Flags, Floats, Integers, Integers32
from models.priors import Evidence, FittedWindows, Lists, Moves, Population
from models.priors.packing import offsets_of

# What is counted: each person's own places, their moves between windows, and how often each was made.


class ChainPlaces(NamedTuple):
    """The places of each person: ``local[person, location]`` is the local index of a location, or -1."""

    start: Integers  # (N + 1,)
    locations: Integers32
    local: Integers32  # (N, M)

    @property
    def size(self) -> Integers:
        """Number of places of each person."""
        return np.diff(self.start)


class RowBlocks(NamedTuple):
    """Rows of all people in one flat array: person ``i`` has ``rows[i]`` of them, each ``width[i]`` entries.

    Rows of a cycle are numbered slot by slot: that of a place ``x`` in slot ``k`` is ``k * K + x``.
    """

    rows: Integers
    width: Integers  # own places of each person

    @property
    def start(self) -> Integers:
        """Where each person's entries begin."""
        return offsets_of(self.rows * self.width)

    @property
    def row_start(self) -> Integers:
        """The number, over all people, of each person's first row."""
        return offsets_of(self.rows)

    def row_of_entry(self) -> Integers:
        """Number of the row, over all people, that each entry belongs to."""
        width = self.row_width
        return np.repeat(np.arange(width.size), width)

    @property
    def row_width(self) -> Integers:
        """How many entries each row has, over all people."""
        return np.repeat(self.width, self.rows)

    def row(self) -> Integers:
        """The number of each row among its person's."""
        return np.arange(self.row_start[-1]) - np.repeat(self.row_start[:-1], self.rows)

    def column(self) -> Integers:
        """The number of each entry in its row."""
        width = self.row_width
        return np.arange(self.start[-1]) - np.repeat(offsets_of(width)[:-1], width)

    def find(self, person: Integers, row: Integers, column: Integers32 | int) -> tuple[Integers, Integers]:
        """The number of the row over all people, and the entry, of these rows and columns of people."""
        entry = self.start[person] + row * self.width[person] + column
        return self.row_start[person] + row, np.asarray(entry)


class MovesMade(NamedTuple):
    """Every move in the training windows: the person, the slot, and the own places before and after.

    ``window`` is the one after the move, ``context`` what :mod:`models.fitting.contexts` knows of the origin.
    """

    person: Integers
    slot: Integers
    window: Integers
    origin: Integers32
    target: Integers32
    context: Integers

    def found_in(self, blocks: RowBlocks, *, by_slot: bool) -> tuple[Integers, Integers]:
        """The row, over all people, and the entry of each move, in rows of places."""
        row = self.origin + (self.slot * blocks.width[self.person] if by_slot else 0)
        return blocks.find(self.person, row, self.target)

    def found_in_states(self, states: States, slots: int) -> tuple[Integers, Integers]:
        """The same in rows of states."""
        first, count = states.start[self.person], np.diff(states.start)
        state = states.find(self.person, self.origin.astype(np.int64), self.context)
        row = self.slot * count[self.person] + state - first
        return RowBlocks(count * slots, states.size).find(self.person, row, self.target)


def chain_places(training: Integers32, locations: int, options: FitOptions) -> ChainPlaces:
    """The locations of each person's chain: those of its training windows, or all of them."""
    people = training.shape[0]
    owned = np.full((people, locations), options.smoothing == "all")
    person, window = np.nonzero(training != NOWHERE)
    owned[person, training[person, window]] = True
    local = np.where(owned, np.cumsum(owned, axis=1) - 1, -1).astype(np.int32)
    start = np.concatenate(([0], np.cumsum(owned.sum(axis=1)))).astype(np.int64)
    return ChainPlaces(start, np.nonzero(owned)[1].astype(np.int32), local)


def moves_made(
    training: Integers32,
    places: ChainPlaces,
    first_slot: int,
    options: FitOptions,
    calendar: Calendar | None = None,
    kind: Kind = "places",
) -> MovesMade:
    """Moves between successive windows that are steps."""
    person, window = np.nonzero(training != NOWHERE)
    place = training[person, window]
    succeeds = person[1:] == person[:-1]
    if options.elsewhere == "skip":
        succeeds &= window[1:] == window[:-1] + 1
    own = places.local[person, place].astype(np.int64)
    context = contexts_of(kind, own, np.concatenate(([False], succeeds))[: own.size])
    succeeds &= is_in_slot(window[:-1], options.slots, calendar)
    at = np.flatnonzero(succeeds)
    mover = person[at]
    return MovesMade(
        mover,
        slots_of(window[at], first_slot, options.slots, calendar),
        window[at + 1],
        places.local[mover, place[at]],
        places.local[mover, place[at + 1]],
        context[at],
    )


def fading(windows: int, recency: float) -> Floats:
    """``recency ** age`` for ages 0 to ``windows``, by multiplication, for the same bits on every machine."""
    return np.concatenate(([1.0], np.cumprod(np.full(windows, recency))))


@dataclass(frozen=True, eq=False)
class FitResult:
    """Fitted priors and the real traces they came from.

    ``training[person, window]`` and ``held_out[person, window]`` are location indices (``NOWHERE`` for a
    window that is no step); person ``i`` is ``population.people[i]``. A held-out place may be one that the
    person's prior does not know. ``first_slot`` is the slot of the first training window,
    ``held_out_first_slot`` of the first held-out one. ``evidence`` says how many moves each row rests on,
    ``habit`` what the next place depends on.
    """

    population: Population
    evidence: Evidence
    training: Integers32
    held_out: Integers32
    origin_seconds: int
    first_slot: int
    held_out_first_slot: int
    dropped: dict[str, int]
    options: FitOptions
    calendar: Calendar | None = None
    habit: Habit = PLACES

    def summary(self) -> dict[str, Any]:
        """What was kept, what was dropped and why, and which choices looked ahead; for people to read."""
        arrays = self.population.arrays
        owner = np.repeat(np.arange(len(self.population)), np.diff(arrays.places_start))
        owned = np.unique(np.column_stack([owner, arrays.places]), axis=0)[:, 0]
        sizes, states = (np.bincount(each, minlength=len(self.population)) for each in (owned, owner))
        return {
            "people": len(self.population),
            "locations": self.population.location_count,
            "windows": self.training.shape[1] + self.held_out.shape[1],
            "training windows": self.training.shape[1],
            "held-out windows": self.held_out.shape[1],
            "places a person, median": float(np.median(sizes)) if sizes.size else 0.0,
            **({"states a person, median": float(np.median(states))} if self.habit.weight else {}),
            "people with a held-out place unknown to their prior": int(self.has_unknown_place().sum()),
            "dropped": dict(self.dropped),
            "looks ahead": list(self.options.looks_ahead),
        }

    def has_unknown_place(self) -> Flags:
        """For each person, whether a held-out place is impossible under the prior's places."""
        arrays = self.population.arrays
        people, locations = len(self.population), self.population.location_count
        known = np.zeros((people, locations), dtype=np.bool_)
        known[np.repeat(np.arange(people), np.diff(arrays.places_start)), arrays.places] = True
        rows = np.arange(people)[:, np.newaxis]
        unknown: Flags = ~known[rows, self.held_out] & (self.held_out != NOWHERE)
        return np.asarray(unknown.any(axis=1))


@checked(CheckinError)
def fit_priors(checkins: Checkins, options: FitOptions | None = None) -> FitResult:
    """Fit each person's prior; every choice is an option (:class:`~models.fitting.fit_options.FitOptions`).

    :class:`~models.exceptions.CheckinError` if nothing can be fitted with them.
    """
    options = options or FitOptions()
    found = traces(checkins, options)
    training_windows = found.places.shape[1] - options.held_out_windows
    fitted = (found.places[:, :training_windows] != NOWHERE).any(axis=1)
    dropped = {**found.dropped, "people without a training window": int((~fitted).sum())}
    training, held_out = np.split(found.places[fitted], [training_windows], axis=1)
    people = [person for person, kept in zip(found.people, fitted, strict=True) if kept]
    habit = PLACES
    if len(options.habits) > 1:
        tried = _surprises(training, len(found.location_names), found.first_slot, options, found.calendar)
        known = {name: value for name, value in tried.items() if value is not None}
        habit = min(known, key=known.__getitem__, default=habit)
    population, evidence = _fit(people, training, found, options, habit)
    return FitResult(
        population,
        evidence,
        training,
        held_out,
        found.origin_seconds,
        found.first_slot,
        int(slots_of(np.array(training_windows), found.first_slot, options.slots, found.calendar)),
        dropped,
        options,
        found.calendar,
        habit,
    )


class _FittedRows(NamedTuple):
    """Rows of blocks: the probability of each entry, and how many moves each row rests on."""

    probability: Floats
    evidence: Floats


def _fit(
    people: list[str], training: Integers32, found: Traces, options: FitOptions, habit: Habit
) -> tuple[Population, Evidence]:
    """The chain of each person, and the evidence it rests on."""
    places = chain_places(training, len(found.location_names), options)
    moves = moves_made(training, places, found.first_slot, options, found.calendar, habit.kind)
    weight = fading(training.shape[1], options.recency)[training.shape[1] - 1 - moves.window]
    blocks = free = RowBlocks(places.size, places.size)
    rows = _normalised(free, _count(free, moves.found_in(free, by_slot=False)[1], weight), options)
    if options.slots > 1:
        blocks = RowBlocks(places.size * options.slots, places.size)
        in_slot = _count(blocks, moves.found_in(blocks, by_slot=True)[1], weight)
        rows = _shrunk(free, blocks, in_slot, rows.probability, options)
    if habit.kind == "places":
        width = blocks.row_width
        slot, place = (each.astype(np.int32).repeat(width) for each in np.divmod(blocks.row(), width))
        packed_moves = Moves(blocks.start, slot, place, blocks.column().astype(np.int32), rows.probability)
        own = Lists(places.start, places.locations)
    else:
        states = states_of(habit.kind, places.size, moves.person, moves.origin, moves.context)
        packed_moves, rows = _in_states(states, blocks, rows, moves, weight, options.slots, habit.weight)
        own = Lists(states.start, places.locations[places.start[states.person] + states.place])
    packed = Population.from_moves(
        people,
        own,
        packed_moves,
        slots=np.full(len(people), options.slots, dtype=np.int32),
        location_names=found.location_names,
    )
    fitted = FittedWindows(
        window_seconds=options.window_seconds,
        origin="epoch" if options.origin == "epoch" else found.origin_seconds,
        window_place=options.window_place,
        elsewhere=options.elsewhere,
        elsewhere_name=options.elsewhere_name,
        until_seconds=found.origin_seconds + training.shape[1] * options.window_seconds,
        timezone=options.timezone,
        holidays=tuple(each.isoformat() for each in sorted(set(options.holidays))),
    )
    population = replace(packed, fitted=fitted)
    return population, Evidence(tuple(people), Lists(own.start * options.slots, rows.evidence))


def _in_states(
    states: States,
    blocks: RowBlocks,
    of_places: _FittedRows,
    moves: MovesMade,
    weight: Floats,
    slots: int,
    drawn: float,
) -> tuple[Moves, _FittedRows]:
    """Rows of states, drawn towards those of their places: ``(n + w p) / (sum n + w)``."""
    count = np.diff(states.start)
    laid_out = RowBlocks(count * slots, states.size)
    owner = np.repeat(np.arange(count.size), count * slots)  # of each row
    inner = np.arange(owner.size) - np.repeat(states.start[:-1] * slots, count * slots)
    slot, state = inner // count[owner], states.start[owner] + inner % count[owner]
    row, target = laid_out.row_of_entry(), laid_out.column()
    of_place, source = blocks.find(owner, slot * states.size[owner] + states.place[state], 0)
    base = of_places.probability[source[row] + target]
    _, entry = moves.found_in_states(states, slots)
    counts = np.bincount(entry, weight, minlength=row.size)
    left = np.bincount(row, counts, minlength=owner.size)
    bare = states.context[state] == NONE
    fitted = np.where(bare[row], base, (counts + drawn * base) / (left + drawn)[row])
    evidence = np.where(bare, of_places.evidence[of_place], left + drawn)
    begin = states.start[owner]
    packed = Moves(
        laid_out.start,
        slot[row].astype(np.int32),
        (state - begin)[row].astype(np.int32),
        (states.after(state[row], target) - begin[row]).astype(np.int32),
        fitted,
    )
    return packed, _FittedRows(fitted, evidence)


def _count(blocks: RowBlocks, entry: Integers, weight: Floats) -> Floats:
    """How often each move of the blocks was made; ``weight`` may let earlier windows count for less."""
    return np.asarray(np.bincount(entry, weight, minlength=int(blocks.start[-1])), dtype=np.float64)


def _normalised(blocks: RowBlocks, counts: Floats, options: FitOptions) -> _FittedRows:
    """Smoothed rows; ``never_left`` gives the rows of places never left, which have no evidence."""
    row = blocks.row_of_entry()
    left = np.bincount(row, counts) > 0
    weights = counts + options.pseudo_count
    if options.never_left != "smoothed":
        is_own = blocks.row()[row] == blocks.column()
        untouched_weights = is_own if options.never_left == "stay" else np.ones(row.size)
        weights = np.where(left[row], weights, untouched_weights)
    total = np.bincount(row, weights)
    evidence = total if options.never_left == "smoothed" else np.where(left, total, np.inf)
    return _FittedRows(weights / total[row], np.asarray(evidence, dtype=np.float64))


def _shrunk(
    free: RowBlocks, blocks: RowBlocks, counts: Floats, prior: Floats, options: FitOptions
) -> _FittedRows:
    """Rows of each slot drawn towards the person's cycle-free row: ``(n_k + w p) / (sum n_k + w)``."""
    length = np.repeat(free.rows * free.width, options.slots)
    begin = np.repeat(free.start[:-1], options.slots) - offsets_of(length)[:-1]
    width = blocks.row_width
    left = np.bincount(np.repeat(np.arange(width.size), width), counts)
    weight = np.where((left == 0) & (options.shrinkage_weight == 0), 1.0, options.shrinkage_weight)
    shrunk = prior[np.repeat(begin, length) + np.arange(counts.size)]
    shrunk *= np.repeat(weight, width)
    shrunk += counts
    shrunk /= np.repeat(left + weight, width)
    return _FittedRows(shrunk, np.asarray(left + weight, dtype=np.float64))


# How well fitted priors predict the windows they have not seen.


class HeldOutPrediction(NamedTuple):
    """The likeliest place of each held-out window, by habit alone: expected and actual share of hits.

    Means over ``people``, each with a held-out window that is a step; ``margin`` is two standard errors of
    the difference.
    """

    people: int
    expected: float
    actual: float
    margin: float


def predict_held_out(fit: FitResult) -> HeldOutPrediction | None:
    """Guess every held-out window by the likeliest place at that time of the cycle; None without any."""
    rows, windows = [], fit.training.shape[1] + np.arange(fit.held_out.shape[1])
    for person, trace in enumerate(fit.held_out):
        chain = fit.population.chain(person)
        law = chain.start[slots_of(windows, fit.first_slot, len(chain.start), fit.calendar)]
        first = np.flatnonzero(np.diff(chain.places, prepend=-1))  # the first state of each place
        law = np.add.reduceat(law, first, axis=1)
        is_step = trace != NOWHERE
        if is_step.any():
            hits = chain.places[first][law.argmax(axis=1)] == trace
            rows.append((law.max(axis=1)[is_step].mean(), hits[is_step].mean()))
    if not rows:
        return None
    expected, actual = np.array(rows).T
    margin = 2.0 * float(np.std(actual - expected)) / sqrt(len(rows))
    return HeldOutPrediction(len(rows), float(expected.mean()), float(actual.mean()), margin)


# How well a way of fitting predicts: each training move from those before it, and from nothing later.


class TrainingSurprise(NamedTuple):
    """Surprise of ``moves`` training moves, nats a move: with the recency chosen, and with equal weights.

    ``by_habit`` has the least of each kind of habit that was tried. None where a move was impossible. It
    compares ways of fitting on these windows; that ceilings are right it does not say.
    """

    moves: int
    surprise: float | None
    with_equal_weights: float | None
    by_habit: dict[Kind, float | None]


def training_surprise(fit: FitResult) -> TrainingSurprise:
    """Predict the training moves one window ahead, on the places of all training windows of each person."""
    given = (fit.training, fit.population.location_count, fit.first_slot)
    tried = _surprises(*given, fit.options, fit.calendar)
    equal = tried if fit.options.recency == 1.0 else _surprises(
        *given, replace(fit.options, recency=1.0), fit.calendar, (fit.habit,)
    )  # fmt: skip
    places = chain_places(fit.training, fit.population.location_count, fit.options)
    moves = moves_made(fit.training, places, fit.first_slot, fit.options, fit.calendar)
    least: dict[Kind, float | None] = {}
    for habit, value in sorted(tried.items(), key=lambda each: inf if each[1] is None else each[1]):
        least.setdefault(habit.kind, value)
    return TrainingSurprise(moves.person.size, tried[fit.habit], equal[fit.habit], least)


def _surprises(
    training: Integers32,
    locations: int,
    first_slot: int,
    options: FitOptions,
    calendar: Calendar | None,
    habits: Sequence[Habit] = (),
) -> dict[Habit, float | None]:
    """The surprise of each habit that the options allow."""
    places = chain_places(training, locations, options)
    return {
        habit: _surprise(moves, places.size, options, habit)
        for habit in habits or options.habits
        for moves in (moves_made(training, places, first_slot, options, calendar, habit.kind),)
    }


class _Fading:
    """Counts that fade by a factor a window, updated only when they are read: most are read seldom."""

    def __init__(self, size: int, factors: Floats) -> None:
        self._factors = factors
        self._counts = np.zeros(size)
        self._since = np.zeros(size, dtype=np.int64)

    def look(self, at: Integers, window: int) -> Floats:
        """The counts at distinct positions in a window."""
        self._counts[at] *= self._factors[window - self._since[at]]
        self._since[at] = window
        return self._counts[at]

    def add_one(self, at: Integers) -> None:
        """Count a move at distinct positions whose counts were read in this window."""
        self._counts[at] += 1.0


def _surprise(moves: MovesMade, size: Integers, options: FitOptions, habit: Habit) -> float | None:
    """Mean of ``-ln P(move)`` over all moves; 0 without any."""
    if not moves.person.size:
        return 0.0
    factors = fading(int(moves.window.max(initial=0)), options.recency)
    levels = [moves.found_in(RowBlocks(size, size), by_slot=False)]
    if options.slots > 1:
        levels.append(moves.found_in(RowBlocks(size * options.slots, size), by_slot=True))
    has_context = np.ones((len(levels) + 1, moves.person.size), dtype=np.bool_)
    if habit.kind != "places":
        states = states_of(habit.kind, size, moves.person, moves.origin, moves.context)
        has_context[len(levels)] = moves.context != NONE
        levels.append(moves.found_in_states(states, options.slots))
    weights = [0.0, *([options.shrinkage_weight] if options.slots > 1 else ()), habit.weight]
    counted = [_Fading(int(entry.max(initial=-1)) + 1, factors) for _, entry in levels]
    left = [_Fading(int(row.max(initial=-1)) + 1, factors) for row, _ in levels]
    order = np.argsort(moves.window, kind="stable")  # at most one move a person in each window
    ends = np.flatnonzero(np.diff(moves.window[order], append=-1)) + 1
    probability = np.zeros(order.size)
    for begin, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        window = int(moves.window[order[begin]])
        for level, (row, entry) in enumerate(levels):
            at = order[begin:end][has_context[level, order[begin:end]]]
            hits = counted[level].look(entry[at], window)
            total = left[level].look(row[at], window)
            if level == 0:
                probability[at] = _smoothed(hits, total, moves, at, size, options)
            else:
                probability[at] = _drawn(hits, total, probability[at], weights[level])
            counted[level].add_one(entry[at])
            left[level].add_one(row[at])
    if (probability <= 0.0).any():
        return None
    return -float(elementwise.log(probability).sum()) / order.size


def _smoothed(
    hits: Floats, total: Floats, moves: MovesMade, at: Integers, size: Integers, options: FitOptions
) -> Floats:
    """The moves' entries in the rows as fitted so far."""
    places = size[moves.person[at]]
    weight = options.pseudo_count
    rows = total + weight * places
    fitted = np.divide(hits + weight, rows, out=np.zeros(at.size), where=rows > 0.0)
    if options.never_left == "smoothed":
        return fitted
    stays = (moves.origin[at] == moves.target[at]).astype(np.float64)
    return np.where(total > 0.0, fitted, stays if options.never_left == "stay" else 1.0 / places)


def _drawn(hits: Floats, total: Floats, free: Floats, drawn: float) -> Floats:
    """The same in rows of a slot or a context, drawn towards those without by so many moves."""
    weight = np.where((total == 0.0) & (drawn == 0), 1.0, drawn)
    return np.asarray((hits + weight * free) / (total + weight), dtype=np.float64)
