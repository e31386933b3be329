"""Releases over windows as releases of places in single steps, which reveal at least as much.

Accounts know counts of presence in one step, with a noise of its own. A release ``n + Z`` over a window is
put in that form so that whoever sees the form could draw the release from it: no bound on the form is too
low for the release (Blackwell 1951). A *unit* is one count in 0, 1 that the window adds up: somebody is at
one of the sensor's places in a step; or makes a move from one set of places to another.

**Sums.** Where the own count is the sum of ``U`` units, discrete Gaussian noise is the sum of ``U``
independent shares (:mod:`models.noise.gaussian_shares`), so the release is the sum of the units, each with a
share of its own. A unit of places is a count of presence with that noise. A unit of moves with a share is
shown by a coin that falls with the share's ``delta_1``, and not at all otherwise.

**Any other count in 0..L**, as of a device that counts nobody more often than ``L`` times or misses some: all
shifts ``0..L`` of the noise have ``1 - delta_L`` in common, so one coin that falls with ``delta_L`` shows all
places of the window, or none.

**Coins.** What a coin shows are the places before and after a move, in two steps, or those of all steps.
Accounts have a coin for each step and set of places. ``m`` independent coins that fall with
``delta^(1/m)`` all fall with probability ``delta``, and more is shown where only some do: so the form with
independent coins reveals at least as much. The *information* is smaller: let the adversary see the one
coin. What a step adds is on average over it ``delta`` times that of the exact places, and carried information
is concave in what the steps add, so the average may be taken first: ``delta h(p)`` in each step. Smaller
still is what stands in ``revealed``, for those who add it up by the steps in which it comes out
(:mod:`accounting.exposure.own_counts.revealed_information`): of a unit of moves, the information of its
share; of a window with one coin, the most that any own count in ``0..L`` reveals, with the last step.

For example a counter of the move from 1 to 2, sigma 8, each step by itself: one unit, ``delta_1 = 0.05``. In
the step before the move place 1, and in the step after it place 2, are shown with probability
``0.05^(1/2) = 0.22``, and reveal 0.05 times the entropy of being there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import NamedTuple

from models.mechanisms import (
    Gaussian,
    Mechanism,
    NoiseShare,
    ShownNowAndThen,
    most_revealed,
    revealed_by_shift,
    share_reveal_probability,
    shared_reveal,
    shown_together,
)
from models.noise import MIN_SIGMA
from models.releases.schedule import RevealedAmount, RevealedMove, SensorRelease, StepSchedule
from models.releases.sensors import Sensor
from models.releases.window_release import MoveSensor, WindowRelease

_ROUNDING = 1.0 + 1e-12


class Places(NamedTuple):
    """A set of places in the step ``offset`` steps after a window's first."""

    offset: int
    locations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShownPlaces:
    """Presence at these places as accounts see it, with the mechanism of this part of the release."""

    places: Places
    mechanism: Mechanism

    @property
    def sensor(self) -> Sensor:
        """What would count there."""
        return _sensor_at(self.places.locations)


def in_step(
    step: int,
    plain: tuple[SensorRelease, ...],
    shown: tuple[ShownPlaces, ...],
    revealed: tuple[RevealedMove | RevealedAmount, ...],
) -> StepSchedule:
    """A step with counts of its own, and what windows show and reveal in it."""
    return StepSchedule(step, (*plain, *together(plain, shown)), revealed)


def revealed_in_steps(release: WindowRelease) -> tuple[tuple[int, RevealedMove | RevealedAmount], ...]:
    """What the coins of the release reveal, each with how long after the window's first step it comes out.

    A move is one of those counted or not, whichever it is: for what it reveals, the noise has as many shares
    as there are moves, or more where one is counted more than once.
    """
    steps, mechanism = release.last - release.first + 1, release.mechanism
    if not mechanism.is_released or mechanism.is_exact:
        return ()
    units = _units(release.sensor, steps)
    whole = _shared_out(release)
    if whole is None:
        places = {location for each in _distinct(units) for location in each.locations}
        most = RevealedAmount(tuple(sorted(places)), most_revealed(mechanism, release.most_counts))
        return ((steps - 1, most),)
    if not isinstance(release.sensor, MoveSensor) or _is_as_good_as_exact(whole, len(units)):
        return ()
    levels = _levels(release.sensor)
    return tuple(
        (step, RevealedMove(counted, NoiseShare(whole, steps * len(levels), step * len(levels) + number)))
        for step in range(steps)
        for number, counted in enumerate(levels)
    )


@lru_cache(256)
def without_coins(releases: tuple[SensorRelease, ...]) -> tuple[SensorRelease, ...]:
    """The releases of a step but for coins, of whose information ``revealed`` says more."""
    return tuple(
        each
        for each in releases
        if not isinstance(each.mechanism, ShownNowAndThen) or each.mechanism.is_exact
    )


def shown_places(release: WindowRelease) -> tuple[ShownPlaces, ...]:
    """What the release shows, step by step, first to last."""
    steps, mechanism = release.last - release.first + 1, release.mechanism
    if not mechanism.is_released:
        return ()
    units = _units(release.sensor, steps)
    if mechanism.is_exact:
        return _always(units, mechanism)
    whole = _shared_out(release)
    return _one_coin(units, mechanism, release.most_counts) if whole is None else _shares(units, whole)


def _shared_out(release: WindowRelease) -> Gaussian | None:
    """The mechanism where the own count is the sum of its units, and the noise a sum of shares."""
    steps = release.last - release.first + 1
    is_sum = not release.miscounts and release.most_counts >= _most(release.sensor, steps)
    return release.mechanism if is_sum and isinstance(release.mechanism, Gaussian) else None


@lru_cache(256)
def together(plain: tuple[SensorRelease, ...], shown: tuple[ShownPlaces, ...]) -> tuple[SensorRelease, ...]:
    """Everything that one step shows: coins that show the same places are one coin.

    Beside ``plain`` counts of the step; where one of them is exact, another look at its places shows nothing.
    """
    coins: dict[tuple[int, ...], list[ShownNowAndThen]] = {}
    noised: list[tuple[tuple[int, ...], Mechanism]] = []
    exact = {release.sensor.locations for release in plain if release.mechanism.is_exact}
    for part in shown:
        if part.places.locations in exact:
            continue
        if isinstance(part.mechanism, ShownNowAndThen):
            coins.setdefault(part.places.locations, []).append(part.mechanism)
        else:
            noised.append((part.places.locations, part.mechanism))
    whole = [*noised, *((locations, shown_together(own)) for locations, own in coins.items())]
    return tuple(SensorRelease(_sensor_at(locations), mechanism) for locations, mechanism in whole)


def _sensor_at(locations: tuple[int, ...]) -> Sensor:
    return Sensor(f"at {'+'.join(map(str, locations))}", locations)


def _most(sensor: Sensor | MoveSensor, steps: int) -> int:
    """The most that a sum over the window can be."""
    if isinstance(sensor, MoveSensor):
        return steps * max(times for _, _, times in sensor.times_counted)
    return steps


@lru_cache(256)
def _units(sensor: Sensor | MoveSensor, steps: int) -> tuple[tuple[Places, ...], ...]:
    """The places that each unit of a window depends on: one set, or one before a move and one after it."""
    if isinstance(sensor, Sensor):
        return tuple((Places(step, sensor.locations),) for step in range(steps))
    return tuple(
        (Places(step - 1, before), Places(step, after))
        for step in range(steps)
        for level in _levels(sensor)
        for before, after in level
    )


@lru_cache(256)
def _levels(sensor: MoveSensor) -> tuple[tuple[tuple[tuple[int, ...], tuple[int, ...]], ...], ...]:
    """For 1, 2 and so on times, pairs of sets; moves from one to the other are counted at least so often.

    A move that is counted twice is in a pair of the first level and in one of the second. Places from which
    the same moves are counted go together.
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


def _always(units: Sequence[Sequence[Places]], mechanism: Mechanism) -> tuple[ShownPlaces, ...]:
    return _coins(_distinct(units), mechanism, 1.0, 1.0)


def _one_coin(
    units: Sequence[Sequence[Places]], mechanism: Mechanism, most_counts: int
) -> tuple[ShownPlaces, ...]:
    """One coin for all places of the window."""
    places, delta = _distinct(units), revealed_by_shift(mechanism, most_counts)
    return _coins(places, mechanism, delta ** (1.0 / len(places)), delta)


def _shares(units: Sequence[Sequence[Places]], mechanism: Gaussian) -> tuple[ShownPlaces, ...]:
    """A share of the noise for each unit; those of moves are coins."""
    count = len(units)
    if _is_as_good_as_exact(mechanism, count):
        return _always(units, mechanism)
    shown: list[ShownPlaces] = []
    for position, places in enumerate(units):
        if len(places) == 1:
            shown.append(ShownPlaces(places[0], NoiseShare(mechanism, count, position)))
        else:
            falls = min(1.0, share_reveal_probability(mechanism, count))
            shown += _coins(places, mechanism, falls ** (1.0 / len(places)), shared_reveal(mechanism, count))
    return tuple(sorted(shown, key=lambda part: part.places.offset))


def _is_as_good_as_exact(mechanism: Gaussian, shares: int) -> bool:
    """Whether a share of the noise is too small to have a law."""
    return mechanism.sigma / sqrt(shares) < MIN_SIGMA


def _coins(
    places: Sequence[Places], mechanism: Mechanism, shown: float, revealed: float
) -> tuple[ShownPlaces, ...]:
    coin = ShownNowAndThen((mechanism,), min(1.0, shown * _ROUNDING), min(1.0, revealed))
    return tuple(ShownPlaces(each, coin) for each in places)


def _distinct(units: Sequence[Sequence[Places]]) -> list[Places]:
    """Every set of places once a step, first to last."""
    return sorted({places for unit in units for places in unit})
