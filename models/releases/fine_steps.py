"""Releases over windows as releases of places in single steps, which reveal at least as much.

Accountants know counts of presence in one step, with independent noise. A release ``n + Z`` over a window is
converted to that form so that the release could be drawn from the form: no bound on the form is too low for
the release (Blackwell 1951). A *unit* is one count in 0, 1 that the window adds up: a person is at one of the
sensor's places in a step, or makes a move from one set of places to another.

**Sums.** Where the own count is the sum of ``U`` units, discrete Gaussian noise is the sum of ``U``
independent shares (:mod:`models.noise.gaussian_shares`), so the release is the sum of the units, each with a
share of its own. A unit of places is a count of presence with that noise. A unit of moves with a share is
shown by a coin, with the probability ``delta_1`` of the share, and not at all otherwise.

**Any other count in 0..L**, as of a device that counts a person at most ``L`` times or misses some: all
shifts ``0..L`` of the noise have ``1 - delta_L`` in common, so one coin with probability ``delta_L`` shows
all places of the window, or none.

**Corrections.** Each of several values of a window has noise of its own, and may miss a person in some of its
steps for reasons that do not depend on where the person goes. So a unit is a bit with one share from each
value, and a person's own counts in the values are any in ``0..L``: one coin with probability
``1 - (1 - delta_L)^values`` shows all places. Their information adds up.

**Coins.** A coin shows the places before and after a move, in two steps, or those of all steps. Accountants
use a coin for each step and set of places. ``m`` independent coins with probability ``delta^(1/m)`` all show
with probability ``delta``, and some of them more often: so the form with independent coins reveals at least
as much. The *information* is smaller: let the adversary see the one coin. On average over it, a step adds
``delta`` times the information of the exact places, and carried information is concave in what the steps add,
so the average may be taken first: ``delta h(p)`` in each step. ``revealed`` is smaller still, for accountants
that add it up by the steps in which it comes out (:mod:`accounting.exposure.own_counts`): for a unit of
moves, the information of its share; for a window with one coin, the most that any own count in ``0..L``
reveals, with the last step.

**In a crowd.** A sum of presence is the sum over all people of their units, so what was published could be
drawn from the counts of everybody in single steps, each with its share. Each of these hides among the others
as any count of presence does (:mod:`accounting.exposure.crowd`). A sum of moves, each counted once, is the
sum of everybody's moves from one step to the next, each with its share, and hides in them alike. A count that
a device limits is no such sum, nor a move that is counted twice: they hide nobody, and at their places
everybody is revealed. Nor do several values of one count hide anybody: their difference has no crowd in it.

For example a counter of the move from 1 to 2, sigma 8, each step by itself: one unit, ``delta_1 = 0.05``. In
the step before the move place 1, and in the step after it place 2, are shown with probability
``0.05^(1/2) = 0.22``, and reveal 0.05 times the entropy of being there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import sqrt
from typing import NamedTuple

from models.arguments import checked
from models.exceptions import ScheduleError, SensorError
from models.mechanisms import (
    Correlated,
    ErasureCoin,
    Gaussian,
    Mechanism,
    NoiseShare,
    Raw,
    admit,
    all_versions,
    joined_coins,
    most_revealed,
    revealed_by_shift,
    share_reveal_probability,
    shared_reveal,
    shares_noise,
)
from models.noise import MIN_SIGMA
from models.releases.schedule import (
    MoveEnd,
    OpenWindow,
    PlacesInStep,
    RevealedAmount,
    RevealedMove,
    Sensor,
    SensorRegistry,
    SensorRelease,
    ShownPlaces,
    StepParts,
    StepSchedule,
    sensor_at,
)

# Counts of passages or presence, summed over a window of fine steps.
#
# The priors move from one fine step to the next; move ``t`` goes from the place in step ``t - 1`` to the
# place in step ``t``. What a person adds to a release is the person's *own count*, at most ``most_counts``.


@checked(SensorError)
@dataclass(frozen=True, slots=True)
class MoveSensor:
    """One device that counts moves: how often it counts a person who goes from one location to another.

    ``times_counted`` has triples (from, to, times), locations by their index; moves that are not named are
    not counted. A counter between two locations that counts both directions is
    ``MoveSensor.of("bridge", {(0, 1): 1, (1, 0): 1})``; a device that counts the directions apart is two
    sensors. Staying is a move too, from a location to itself.
    """

    name: str
    times_counted: tuple[tuple[int, int, int], ...]

    def __post_init__(self) -> None:
        """:class:`SensorError` for a move named twice, a negative index, or a count below one."""
        named = [(start, end) for start, end, _ in self.times_counted]
        if not named:
            raise SensorError(f"sensor {self.name!r} must count at least one move", "none", "name its moves")
        if len(set(named)) < len(named):
            raise SensorError(
                f"sensor {self.name!r} must name each move once",
                sorted(named),
                "add up how often it is counted",
            )
        for start, end, times in self.times_counted:
            if start < 0 or end < 0 or times < 1:
                raise SensorError(
                    f"moves of sensor {self.name!r} must go between locations from 0 on, once or more",
                    (start, end, times),
                    "give location indices of the priors, and leave out moves that are not counted",
                )

    @classmethod
    @checked(SensorError)
    def of(cls, name: str, times_counted: Mapping[tuple[int, int], int]) -> MoveSensor:
        """The sensor that counts each move ``(from, to)`` so many times; 0 times means not at all."""
        return cls(name, tuple((a, b, times) for (a, b), times in sorted(times_counted.items()) if times))


@checked(ScheduleError)
@dataclass(frozen=True)
class WindowRelease:
    """One published sum over the steps ``first..last`` of what a sensor counted.

    A :class:`Sensor` counts presence: the steps of the window in which the person is at one of its locations.
    A :class:`MoveSensor` counts passages: moves ``first..last``, so the first of them leaves the place of
    step ``first - 1``. ``most_counts`` is how often one person can be counted in the window, as the
    deployment declares it: 1 for a device that counts each person once in a window. The own count is the
    smaller of it and of the sum.

    ``miscounts`` declares that the device may miss a person or count one several times, never more than
    ``most_counts`` in all, for reasons other than the person's movements: it may be down for a part of the
    window. A device that counts people *because* of where they come from is a :class:`MoveSensor`.

    Of the window ``corrections`` more values are published, each with noise of its own. Any of them may miss
    a person in some of the steps for such reasons.

    Of noise that several releases share the part that is this release's own is accounted
    (:func:`models.mechanisms.revealed_by_shift`): given the rest, releases hide by themselves.

    :class:`ScheduleError` for a window that does not exist.
    """

    sensor: Sensor | MoveSensor
    first: int
    last: int
    most_counts: int
    mechanism: Mechanism
    miscounts: bool = False
    corrections: int = 0

    def __post_init__(self) -> None:
        """Check the window, and a third-party mechanism."""
        admit(self.mechanism)
        earliest = 1 if isinstance(self.sensor, MoveSensor) else 0
        if not earliest <= self.first <= self.last:
            raise ScheduleError(
                f"a window of {self.sensor.name!r} must begin at step {earliest} or later, not end before it",
                (self.first, self.last),
                "move t ends in step t: the first move is 1" if earliest else "give its first and last step",
            )
        if self.most_counts < 1:
            raise ScheduleError(
                f"most_counts of {self.sensor.name!r} must be at least 1",
                self.most_counts,
                "declare how often the device can count one person in the window",
            )
        if self.corrections < 0:
            raise ScheduleError(
                f"corrections of {self.sensor.name!r} must be 0 or more",
                self.corrections,
                "say how many corrected values of the window are published at most",
            )

    @property
    def values(self) -> int:
        """How many values are published of the window at most."""
        return 1 + self.corrections

    @property
    def is_of_own_count(self) -> bool:
        """Whether what the device reads is a function of the person's own count."""
        return not self.miscounts and not self.corrections

    def reveal_probability(self, shift: int) -> float:
        """That all values show own counts which differ by up to ``shift``; else they show nothing."""
        return _any_of(revealed_by_shift(self.mechanism, shift), self.values)

    def most_revealed(self) -> float:
        """Information (nats) of all values, whatever the law of the own counts."""
        return self.values * most_revealed(self.mechanism, self.most_counts)

    @property
    def earliest_place(self) -> int:
        """The first step whose place the own count depends on."""
        return self.first - isinstance(self.sensor, MoveSensor)

    @property
    def has_own_law(self) -> bool:
        """Whether what is published depends on the own count alone, with noise of its own."""
        has_law = not shares_noise(self.mechanism) and self.mechanism.noise_law() is not None
        return self.is_of_own_count and has_law

    @cached_property
    def as_step(self) -> SensorRelease | None:
        """The same release in a schedule of steps; None unless it counts presence, once, in one step."""
        is_step = isinstance(self.sensor, Sensor) and self.first == self.last
        if not is_step or self.corrections or (self.miscounts and self.most_counts > 1):
            return None
        assert isinstance(self.sensor, Sensor)
        return SensorRelease(self.sensor, self.mechanism)


_ROUNDING = 1.0 + 1e-12
_MOST_SENSORS = 2**15  # of a deployment: all of them are brought to single steps in every step


def in_step(
    step: int,
    plain: tuple[SensorRelease, ...],
    shown: tuple[ShownPlaces, ...],
    revealed: tuple[RevealedMove | RevealedAmount, ...],
) -> StepSchedule:
    """A step with its counts of presence, and what windows show and reveal in it."""
    return StepSchedule(step, (*plain, *together(plain, shown)), revealed)


def revealed_in_steps(release: WindowRelease) -> tuple[tuple[int, RevealedMove | RevealedAmount], ...]:
    """What the coins of the release reveal, each with how many steps after the window's first it comes out.

    Each move of the window is a counted one or not. So the noise has as many shares as there are moves, times
    how often one is counted.
    """
    steps, mechanism = release.last - release.first + 1, release.mechanism
    if not mechanism.is_released or mechanism.is_exact:
        return ()
    units = _units(release.sensor, steps)
    whole = _in_shares(release)
    if whole is None:
        places = {location for each in _distinct(units) for location in each.locations}
        most = RevealedAmount(tuple(sorted(places)), release.most_revealed())
        return ((steps - 1, most),)
    if not isinstance(release.sensor, MoveSensor) or _is_as_good_as_exact(whole, len(units)):
        return ()
    levels = _levels(release.sensor)
    shares = steps * len(levels)
    return tuple(
        (step, RevealedMove(counted, _share(release, whole, shares, step * len(levels) + number)))
        for step in range(steps)
        for number, counted in enumerate(levels)
    )


@lru_cache(256)
def without_coins(releases: tuple[SensorRelease, ...]) -> tuple[SensorRelease, ...]:
    """The releases of a step without coins, whose information ``revealed`` bounds more closely."""
    return tuple(
        each for each in releases if not isinstance(each.mechanism, ErasureCoin) or each.mechanism.is_exact
    )


def shown_places(release: WindowRelease) -> tuple[ShownPlaces, ...]:
    """What the release shows, from the first step to the last."""
    steps, mechanism = release.last - release.first + 1, release.mechanism
    if not mechanism.is_released:
        return ()
    units = _units(release.sensor, steps)
    if mechanism.is_exact:
        return _coins(units, release, 1.0, 1.0)
    whole = _in_shares(release)
    if whole is not None:
        return _shares(units, release, whole)
    delta = release.reveal_probability(release.most_counts)
    return _coins(units, release, delta ** (1.0 / len(_distinct(units))), delta)


def _in_shares(release: WindowRelease) -> Gaussian | None:
    """The mechanism, where the own count is the sum of its units and the noise is a sum of shares."""
    return release.mechanism if _is_sum(release) and isinstance(release.mechanism, Gaussian) else None


def _is_sum(release: WindowRelease) -> bool:
    """Whether the own count is the sum of its units, whatever a person does."""
    steps, sensor = release.last - release.first + 1, release.sensor
    times = max(times for *_, times in sensor.times_counted) if isinstance(sensor, MoveSensor) else 1
    return not release.miscounts and release.most_counts >= steps * times


@lru_cache(256)
def together(plain: tuple[SensorRelease, ...], shown: tuple[ShownPlaces, ...]) -> tuple[SensorRelease, ...]:
    """Everything that windows show in one step: coins for the same places become one coin.

    Where one of the ``plain`` counts of the step is exact, more about its places shows nothing.
    """
    coins: dict[tuple[int, ...], list[ErasureCoin]] = {}
    noised: list[tuple[tuple[int, ...], Mechanism]] = []
    exact = {release.sensor.locations for release in plain if release.mechanism.is_exact}
    for part in shown:
        if part.places.locations in exact:
            continue
        if isinstance(part.mechanism, ErasureCoin):
            coins.setdefault(part.places.locations, []).append(part.mechanism)
        else:
            noised.append((part.places.locations, part.mechanism))
    whole = [*noised, *((locations, joined_coins(own)) for locations, own in coins.items())]
    return tuple(SensorRelease(sensor_at(locations), mechanism) for locations, mechanism in whole)


@lru_cache(_MOST_SENSORS)
def _units(sensor: Sensor | MoveSensor, steps: int) -> tuple[tuple[PlacesInStep, ...], ...]:
    """The places that each unit of a window depends on: one set, or one before a move and one after it."""
    if isinstance(sensor, Sensor):
        return tuple((PlacesInStep(step, sensor.locations),) for step in range(steps))
    return tuple(
        (PlacesInStep(step - 1, before), PlacesInStep(step, after))
        for step in range(steps)
        for level in _levels(sensor)
        for before, after in level
    )


@lru_cache(_MOST_SENSORS)
def _levels(sensor: MoveSensor) -> tuple[tuple[tuple[tuple[int, ...], tuple[int, ...]], ...], ...]:
    """For 1, 2 and so on times, pairs of sets of places between which moves are counted at least so often.

    A move that is counted twice is in a pair of the first level and in one of the second. Places from
    which the same moves are counted are one set.
    """
    found = []
    for level in range(1, 1 + max(times for _, _, times in sensor.times_counted)):
        ends: dict[int, list[int]] = {}
        for start, end, times in sorted(sensor.times_counted):
            if times >= level:
                ends.setdefault(start, []).append(end)
        starts: dict[tuple[int, ...], list[int]] = {}
        for start, own in ends.items():
            starts.setdefault(tuple(own), []).append(start)
        found.append(tuple((tuple(before), after) for after, before in starts.items()))
    return tuple(found)


def _shares(
    units: Sequence[Sequence[PlacesInStep]], release: WindowRelease, whole: Gaussian
) -> tuple[ShownPlaces, ...]:
    """A share of the noise of each value for each unit; the shares of moves are coins."""
    count = len(units)
    if _is_as_good_as_exact(whole, count):
        return _coins(units, release, 1.0, 1.0)
    shown: list[ShownPlaces] = []
    for position, places in enumerate(units):
        if len(places) == 1:
            shown.append(ShownPlaces(places[0], _share(release, whole, count, position)))
        else:
            falls = _any_of(min(1.0, share_reveal_probability(whole, count)), release.values)
            revealed = _any_of(shared_reveal(whole, count), release.values)
            shown += _coins([places], release, falls ** (1.0 / len(places)), revealed)
    return tuple(sorted(shown, key=lambda part: part.places.offset))


def _share(release: WindowRelease, whole: Gaussian, shares: int, position: int) -> Mechanism:
    """One unit's share of the noise of each value."""
    return all_versions([NoiseShare(whole, shares, position)] * release.values)


def _any_of(probability: float, count: int) -> float:
    """That at least one of ``count`` coins falls."""
    return probability if count == 1 else min(1.0, (1.0 - (1.0 - probability) ** count) * _ROUNDING)


def _is_as_good_as_exact(mechanism: Gaussian, shares: int) -> bool:
    """Whether a share of the noise is too small to have a law."""
    return mechanism.sigma / sqrt(shares) < MIN_SIGMA


def _coins(
    units: Sequence[Sequence[PlacesInStep]], release: WindowRelease, shown: float, revealed: float
) -> tuple[ShownPlaces, ...]:
    """A coin for each set of places of these units, each once a step.

    One coin for several noised units shows all of them or none, which is not what each hides by itself.
    """
    parts = (release.mechanism,) * release.values
    coin = ErasureCoin(parts, min(1.0, shown * _ROUNDING), min(1.0, revealed))
    ends = _ends(release, units) if coin.is_exact or len(units) == 1 else {}
    return tuple(ShownPlaces(each, coin, ends.get(each, ())) for each in _distinct(units))


def _ends(
    release: WindowRelease, units: Sequence[Sequence[PlacesInStep]]
) -> dict[PlacesInStep, tuple[MoveEnd, ...]]:
    """The ends of the moves of these units; none unless the count is the sum of moves, each counted once."""
    found: dict[PlacesInStep, tuple[MoveEnd, ...]] = {}
    if not _is_sum_of_moves(release):
        return found
    for before, after in units:
        leaving = MoveEnd(release.sensor.name, before.locations, after.locations, leaves=True)
        arriving = MoveEnd(release.sensor.name, after.locations, before.locations, leaves=False)
        for places, end in ((before, leaving), (after, arriving)):
            found[places] = (*found.get(places, ()), end)
    return found


def _is_sum_of_moves(release: WindowRelease) -> bool:
    """Whether what is published is the sum of everybody's moves, each counted once."""
    sensor = release.sensor
    if not isinstance(sensor, MoveSensor) or release.corrections:
        return False
    return _is_sum(release) and all(times == 1 for *_, times in sensor.times_counted)


def _distinct(units: Sequence[Sequence[PlacesInStep]]) -> list[PlacesInStep]:
    """Every set of places once a step, first to last."""
    return sorted({places for unit in units for places in unit})


# Decided steps of a deployment for accountants: sensors with windows converted to single steps.
#
# What a window shows is accounted in each of its steps, before it is known whether there will be a count. So
# it is accounted in every step, whatever is announced, and with the one mechanism that the deployment has for
# it.


def in_single_steps(step: StepSchedule, registry: SensorRegistry) -> StepSchedule:
    """A decided step for accountants.

    Counts of presence in the step stay as they are. The step's part of each sensor with windows is added,
    whether its count is published or not: it must be accounted before that is known. :class:`ScheduleError`
    for a count that is not the one accounted.
    """
    if not registry.windowed_in(step.step):
        return step
    for release in step.releases:
        _check_is_accounted(step, release, registry)
    open_windows = list(_open_in(step, registry))
    parts = list(_shown_in_windows(step, open_windows))
    revealed = [
        each
        for window in open_windows
        for offset, each in revealed_of_window(window.release)
        if window.first + offset == step.step
    ]
    plain = tuple(release for release in step.releases if release.sensor.window is None)
    among = counting_in(step.step, [each.sensor for each in plain], registry)
    shown = tuple(part for _, part in parts)
    of_others = [part for window, part in parts if not _is_whole(window)]
    ended = (each.release for each in open_windows if each.last == step.step and _is_whole(each))
    published = (*plain, *together(plain, tuple(of_others)), *ended)
    found = in_step(step.step, plain, shown, tuple(revealed))
    own = StepParts(plain, shown, tuple(window for window, _ in parts))
    return replace(found, among=among, published=published, parts=own)


def _is_whole(window: OpenWindow) -> bool:
    """Whether what is published depends on the own count of the window alone."""
    return _any_window(window.release).has_own_law


def counting_in(
    step: int, announced: Iterable[Sensor], registry: SensorRegistry
) -> tuple[Sensor | MoveEnd, ...] | None:
    """What counts in a step: the announced counts of presence, then each window's places; None without any.

    Whatever mechanism a window has, and whether its count is published or not.
    """
    windowed = registry.windowed_in(step)
    if not windowed:
        return None
    found: list[Sensor | MoveEnd] = [sensor for sensor in announced if sensor.window is None]
    for sensor in windowed:
        parts = _counting_parts(sensor)
        found += [part for offset, part in parts if _is_first(sensor, step - offset)]
    return tuple(found)


def most_counting(registry: SensorRegistry) -> int:
    """How long :func:`counting_in` is at most, of all sensors in one step."""
    found = sum(sensor.window is None for sensor in registry.sensors)
    for sensor in registry.windowed:
        assert sensor.window is not None
        steps = sensor.window.steps
        found += max(Counter(offset % steps for offset, _ in _counting_parts(sensor)).values())
    return found


@lru_cache(_MOST_SENSORS)
def _counting_parts(sensor: Sensor) -> tuple[tuple[int, Sensor | MoveEnd], ...]:
    """What each window of a sensor counts, with the steps after its first.

    Of a sum of presence that is published once each is a sensor without a window, by the same name; of a sum
    of moves each is one end of them.
    """
    release = _any_window(SensorRelease(sensor, Raw()))
    units = _units(release.sensor, release.last - release.first + 1)
    if _is_sum_of_moves(release):
        return tuple((at.offset, end) for at, ends in _ends(release, units).items() for end in ends)
    is_sum = isinstance(release.sensor, Sensor) and _is_sum(release) and not release.corrections
    return tuple(
        (
            places.offset,
            Sensor(sensor.name, places.locations) if is_sum else replace(sensor, locations=places.locations),
        )
        for places in _distinct(units)
    )


def _open_in(step: StepSchedule, registry: SensorRegistry) -> Iterator[OpenWindow]:
    """The windows that can have a part in a step, whether their count will be published or not."""
    if step.windows is not None:
        yield from step.windows
        return
    for sensor in registry.windowed_in(step.step):
        window = sensor.window
        assert window is not None
        last = step.step - step.step % window.steps + window.steps - 1
        # With its last move a window ends in the place that the next window's first move leaves.
        following = [last + window.steps] if window.moves and last == step.step else []
        for each in (*following, last):
            if window.ends_with(each):
                yield OpenWindow(SensorRelease(sensor, _mechanism_of(sensor, registry, each)), each)


def _shown_in_windows(
    step: StepSchedule, windows: Iterable[OpenWindow]
) -> Iterator[tuple[OpenWindow, ShownPlaces]]:
    """What each of these windows shows in a step."""
    for window in windows:
        for part in parts_of(window.release):
            if window.first + part.places.offset == step.step:
                yield window, part


class PartOfCount(NamedTuple):
    """What one count shows in one step, as a release of that step; ``whole`` unless it is of a window."""

    published: int  # the step that it is published with
    whole: SensorRelease
    shown: SensorRelease
    ends: tuple[MoveEnd, ...] = ()  # as of `ShownPlaces`


def counts_in(step: StepSchedule) -> list[PartOfCount]:
    """What each count shows in a step that was brought to single steps."""
    parts = step.parts or StepParts(step.releases, ())
    found = [PartOfCount(step.step, each, each) for each in parts.plain]
    for window, part in zip(parts.windows, parts.shown, strict=True):
        own = SensorRelease(part.sensor, part.mechanism)
        found.append(PartOfCount(window.last, window.release, own, part.ends))
    return found


def without_count(step: StepSchedule, published: int, sensor: str) -> StepSchedule:
    """A step that was brought to single steps, had a sensor's count of one step not been published."""
    parts = step.parts or StepParts(step.releases, ())
    plain = tuple(each for each in parts.plain if (step.step, each.sensor.name) != (published, sensor))
    of_windows = zip(parts.windows, parts.shown, strict=True)
    kept = [each for each in of_windows if (each[0].last, each[0].release.sensor.name) != (published, sensor)]
    if len(plain) == len(parts.plain) and len(kept) == len(parts.shown):
        return step
    shown = tuple(part for _, part in kept)
    own = StepParts(plain, shown, tuple(window for window, _ in kept))
    return StepSchedule(step.step, (*plain, *together(plain, shown)), parts=own)


def parts_by_step(steps: Sequence[StepSchedule]) -> list[list[PartOfCount]]:
    """What each count of a schedule shows in each of its steps, where nothing but the schedule is published.

    :class:`ScheduleError` for a window that does not end with its step, or begins before the schedule.
    """
    found: list[list[PartOfCount]] = [[] for _ in steps]
    for number, step in enumerate(steps):
        for release in step.releases:
            if release.sensor.window is None:
                found[number].append(PartOfCount(step.step, release, release))
                continue
            window = published_window(release, step.step, steps[0].step)
            for part in parts_of(release):
                own = SensorRelease(part.sensor, part.mechanism)
                at = window.first - steps[0].step + part.places.offset
                found[at].append(PartOfCount(step.step, release, own, part.ends))
    return found


def published_window(release: SensorRelease, step: int, earliest: int) -> WindowRelease:
    """The window that a schedule from step ``earliest`` on publishes with this step."""
    check_window_ends(release.sensor, step)
    window = window_release(release, step)
    if window.earliest_place < earliest:
        raise ScheduleError(
            f"the window of {release.sensor.name!r} that ends with step {step} must lie in the schedule",
            f"its first place is that of step {window.earliest_place}, the schedule begins with {earliest}",
            "begin the schedule earlier, or leave this count out",
        )
    return window


def schedule_in_single_steps(steps: Sequence[StepSchedule]) -> tuple[StepSchedule, ...]:
    """A whole schedule for accountants: each window that it publishes is shown in the steps it covers."""
    if all(release.sensor.window is None for step in steps for release in step.releases):
        return tuple(steps)
    found = []
    for step, parts in zip(steps, parts_by_step(steps), strict=True):
        plain = tuple(part.shown for part in parts if part.whole.sensor.window is None)
        shown = tuple(
            ShownPlaces(PlacesInStep(0, part.shown.sensor.locations), part.shown.mechanism, part.ends)
            for part in parts
            if part.whole.sensor.window is not None
        )
        windows = (
            OpenWindow(part.whole, part.published) for part in parts if part.whole.sensor.window is not None
        )
        among = tuple(each for part in parts for each in _counting_part(part))
        own = StepParts(plain, shown, tuple(windows))
        found.append(StepSchedule(step.step, (*plain, *together(plain, shown)), among=among, parts=own))
    return tuple(found)


def _counting_part(part: PartOfCount) -> tuple[Sensor | MoveEnd, ...]:
    """What a part of a count counts, as :func:`counting_in` has it."""
    if part.whole.sensor.window is None:
        return (part.shown.sensor,)
    places = part.shown.sensor.locations
    return part.ends or tuple(
        {each: None for _, each in _counting_parts(part.whole.sensor) if each.locations == places}
    )


def check_window_ends(sensor: Sensor, step: int) -> None:
    """:class:`ScheduleError` where the sensor has a window that does not end with the step."""
    window = sensor.window
    if window is None or window.ends_with(step):
        return
    first = window.first_end
    raise ScheduleError(
        f"a count of {sensor.name!r} must be announced and published with the last step of a window",
        f"step {step} of windows of {window.steps}",
        f"announce it with the steps {first}, {first + window.steps} and so on",
    )


def window_release(release: SensorRelease, last: int) -> WindowRelease:
    """What a sensor with a window publishes with the step ``last``."""
    sensor, window = release.sensor, release.sensor.window
    assert window is not None
    counting = (
        MoveSensor(sensor.name, window.moves) if window.moves else Sensor(sensor.name, sensor.locations)
    )
    own = sensor.most_counts, release.mechanism, window.miscounts, sensor.corrections
    return WindowRelease(counting, window.first_of(last), last, *own)


def _mechanism_of(sensor: Sensor, registry: SensorRegistry, last: int) -> Mechanism:
    """The mechanism of the sensor's count that is published with the step ``last``."""
    try:
        own = registry.in_windows[sensor.name]
    except KeyError:
        raise ScheduleError(
            f"the mechanism of sensor {sensor.name!r} must be known before its steps are accounted",
            "none",
            "account sensors with windows in runs and plans with a fixed mechanism",
        ) from None
    return Correlated.of(own.noise, last) if isinstance(own, Correlated) else own


def _check_is_accounted(step: StepSchedule, release: SensorRelease, registry: SensorRegistry) -> None:
    """:class:`ScheduleError` unless the release is of a whole window, with the mechanism accounted."""
    sensor, window = release.sensor, release.sensor.window
    if window is None or not release.mechanism.is_released:
        return
    check_window_ends(sensor, step.step)
    if step.windows is not None:
        decided = OpenWindow(release, step.step) in step.windows
    else:
        decided = release.mechanism == _mechanism_of(sensor, registry, step.step)
    if not decided:
        raise ScheduleError(
            f"counts of {sensor.name!r} must be published with the mechanism that is accounted in every step",
            f"{release.mechanism.name} {dict(release.mechanism.parameters)} in step {step.step}",
            "leave the mechanism to the settings, for sensors with windows",
        )


@lru_cache(_MOST_SENSORS)
def revealed_of_window(release: SensorRelease) -> tuple[tuple[int, RevealedMove | RevealedAmount], ...]:
    """What the coins of each window of a sensor reveal, in steps counted from its first."""
    return revealed_in_steps(_any_window(release))


def _is_first(sensor: Sensor, first: int) -> bool:
    """Whether a window of the sensor begins with this step."""
    window = sensor.window
    assert window is not None
    return first % window.steps == 0 and window.ends_with(first + window.steps - 1)


def _any_window(release: SensorRelease) -> WindowRelease:
    """The release of a window that lies within the log, as if its count were published."""
    window = release.sensor.window
    assert window is not None
    return window_release(release, 2 * window.steps - 1)


@lru_cache(_MOST_SENSORS)
def parts_of(release: SensorRelease) -> tuple[ShownPlaces, ...]:
    """What each window of a sensor shows, in steps counted from its first."""
    return shown_places(_any_window(release))
