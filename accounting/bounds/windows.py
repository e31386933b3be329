"""Bounds on counts over windows of steps: passages, presence summed, devices that count somebody again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from accounting.bounds.certified import HorizonRisk, horizon_risk, smallest
from accounting.bounds.protocol import Effort
from accounting.exceptions import HorizonError
from accounting.exposure import Exposure, baseline, check_mistakes, prior_guess, window_of
from accounting.exposure.own_counts import OwnCount, own_count, window_information
from accounting.exposure.step_information import observe
from accounting.numerics import divergence_root, most_moved
from models.mechanisms import Raw, revealed_by_shift
from models.releases import MoveSensor, Sensor, SensorRelease, StepSchedule, WindowRelease

# A release over a window as raw counts of places in its fine steps, which reveal at least as much.
#
# What a person adds is a function of the places at the ends of the moves in the window, so an adversary who
# is shown the places knows it (data processing). A sensor on places is shown as it is, in each of its steps;
# for one on moves the places it counts from, at the beginning of each move, and those it counts to, at its
# end.

_RAW = Raw()


def shown_schedule(
    steps: int, shown: Iterable[WindowRelease], presence: Iterable[WindowRelease]
) -> list[StepSchedule]:
    """Steps ``0..steps - 1`` with the places of the releases ``shown``, each place once a step.

    Releases of one step's ``presence`` are added as they are.
    """
    counted: list[dict[tuple[int, ...], SensorRelease]] = [{} for _ in range(steps)]
    as_they_are: list[list[SensorRelease]] = [[] for _ in range(steps)]
    for release in presence:
        if release.as_step is not None:
            as_they_are[release.first].append(release.as_step)
    for release in shown:
        for step, locations in _places(release):
            name = "+".join(map(str, locations))
            counted[step].setdefault(locations, SensorRelease(Sensor(name, locations), _RAW))
    return [StepSchedule(step, (*as_they_are[step], *counted[step].values())) for step in range(steps)]


def _places(release: WindowRelease) -> Iterable[tuple[int, tuple[int, ...]]]:
    """Pairs of a step and the locations that a raw sensor counts together in it."""
    sensor = release.sensor
    for step in range(release.first, release.last + 1):
        if not isinstance(sensor, MoveSensor):
            yield step, sensor.locations
            continue
        for start, end, _ in sensor.times_counted:
            yield step - 1, (start,)
            yield step, (end,)


# Noised releases over windows as coins: each is shown as a whole, or not at all. Beyond the papers.
#
# All values that a person's own count can have leave ``1 - delta`` of the noise's law in common, so a
# noised release is a function of a channel that shows the own count with probability ``delta`` and nothing
# otherwise: one coin a release, not one a fine step, whose windows the same noise covers. Hence
#
#     success <= E[ success where the releases whose coin fell are shown ].
#
# Where a person is rarely counted more often than ``k``, those cases may be charged as found, and
# everybody else's coin falls with the smaller ``delta_k``: whatever is guessed, success together with
# "nobody was counted more than ``k`` times" has at most the probability that the coins leave.
#
# Success rises with what is shown. So several releases may share one coin that falls when any of theirs
# would, and no set of releases is charged more than a larger one.

MOST_COINS = 6
"""Sets of shown releases double with each coin; more releases share coins, neighbours in time together."""


def with_large_counts_charged(own_counts: Sequence[OwnCount]) -> tuple[list[float], float]:
    """Each release's probability of being shown, and the probability charged for large counts.

    ``k`` is, release by release, the one that makes ``delta_k + Pr[n > k]`` least.
    """
    shown, charged = [], 0.0
    for own in own_counts:
        mechanism, spread = own.release.mechanism, own.spread
        thresholds = [spread] if own.release.miscounts else range(spread + 1)
        choices = [(revealed_by_shift(mechanism, k), own.probability_above(k)) for k in thresholds]
        probability, of_large = min(choices, key=sum)
        shown.append(probability)
        charged += of_large
    return shown, charged


def coin_groups(own_counts: Sequence[OwnCount], most: int) -> list[list[int]]:
    """Positions of the releases that share each of at most ``most`` coins."""
    order = sorted(range(len(own_counts)), key=lambda each: own_counts[each].release.last)
    coins = min(most, len(order))
    return [order[len(order) * k // coins : len(order) * (k + 1) // coins] for k in range(coins)]


def success_of_sets(groups: int, success: Callable[[Sequence[int]], float]) -> list[float]:
    """A bound for each set of ``groups``, by the bits of its index; ``success`` of those that are shown."""
    found = [success([k for k in range(groups) if shown >> k & 1]) for shown in range(1 << groups)]
    for k in range(groups):
        for shown in range(1 << groups):
            found[shown] = min(found[shown], found[shown | 1 << k])
    return found


def expected_success(
    success: Sequence[float], groups: Sequence[Sequence[int]], shown: Sequence[float]
) -> float:
    """The expectation over coins, releases being shown with the probabilities ``shown``."""
    falls = [1.0 - prod(1.0 - shown[each] for each in group) for group in groups]
    expected = 0.0
    for index, value in enumerate(success):
        expected += value * prod(falls[k] if index >> k & 1 else 1.0 - falls[k] for k in range(len(groups)))
    return expected


# Certified success against a horizon of a log whose releases count over windows of fine steps.
#
# Every bound holds for any adversary; the least counts:
#
# - ``shown``: the places of all windows, raw;
# - ``erasure`` and ``large_counts``: noised windows as coins;
# - ``divergence``: the information of all own counts under the binary divergence;
# - ``shifted``: without the windows, plus ``sqrt(I / 2)`` for what their own counts reveal (Pinsker,
#   Jensen).
#
# Releases of one step's presence stay as they are in all of them; a log of such releases alone has the risk
# of :func:`accounting.bounds.certified`, bit for bit.


@dataclass(frozen=True, slots=True)
class WindowRisk:
    """``certified`` bounds any adversary's success about the steps ``first..last``, counted in fine steps.

    ``bounds`` has every bound that was computed, ``by`` names the least of them; ``baseline`` is the best
    guess without any release. ``own_counts`` (one a release, in the order given) has the laws of what the
    person adds. ``information_nats`` is what all own counts reveal about the horizon, at most.
    """

    first: int
    last: int
    in_hindsight: bool
    certified: float
    by: str
    confidence: float
    baseline: float
    bounds: Mapping[str, float]
    information_nats: float
    own_counts: tuple[OwnCount, ...]


def window_risk(
    exposure: Exposure,
    releases: Sequence[WindowRelease],
    horizon: tuple[int, int],
    mistakes: int,
    *,
    in_hindsight: bool = False,
    effort: Effort | None = None,
) -> WindowRisk:
    """Risk of the steps ``horizon`` (first and last, inclusive) of the person of ``exposure``.

    ``exposure`` says how many fine steps the log has; its own releases are not looked at. At the moment only
    windows that have ended with the horizon count, in hindsight all.
    :class:`~accounting.exceptions.HorizonError` for windows or a horizon outside the log.
    """
    effort = effort or Effort()
    first, last = horizon
    check_mistakes(mistakes, window_of(exposure, first, last).steps)
    for release in releases:
        if release.last >= exposure.steps:
            raise HorizonError(
                f"windows must end in steps of the log, 0..{exposure.steps - 1}",
                release.last,
                "lengthen the log, or leave the release out",
            )
    owns = tuple(own_count(exposure, release) for release in releases)
    published = [
        own
        for own in owns
        if own.release.mechanism.is_released and (in_hindsight or own.release.last <= last)
    ]
    bounds = _bounds_by_name(exposure, owns, published, horizon, mistakes, in_hindsight, effort)
    without = baseline(window_of(exposure, first, last), mistakes).success
    least = smallest(bounds, without, effort)
    return WindowRisk(
        first=first,
        last=last,
        in_hindsight=in_hindsight,
        certified=least.value,
        by=least.by,
        confidence=least.confidence,
        baseline=without,
        bounds=bounds,
        information_nats=window_information(exposure, published, first, last).total,
        own_counts=owns,
    )


def _bounds_by_name(
    exposure: Exposure,
    owns: Sequence[OwnCount],
    published: Sequence[OwnCount],
    horizon: tuple[int, int],
    mistakes: int,
    in_hindsight: bool,
    effort: Effort,
) -> dict[str, float]:
    """Every bound given the own counts of what the adversary has seen, ``published``.

    Releases of one step's presence stay as they are, those to come too (``owns`` has all): the risk of steps
    leaves them out where it must.
    """
    first, last = horizon
    locations = exposure.observations[0].labels.size
    presence = [own.release for own in owns if own.release.as_step is not None]

    def step_risk(shown: Iterable[WindowRelease], work: Effort) -> HorizonRisk:
        schedule = shown_schedule(exposure.steps, shown, presence)
        seen = exposure.under(tuple(observe(step, locations) for step in schedule))
        return horizon_risk(seen, first, last, mistakes, in_hindsight=in_hindsight, effort=work)

    windows = [own for own in published if own.release.as_step is None and not own.is_constant]
    if not windows:
        found = step_risk((), effort)
        return {found.by: found.certified}
    certain = replace(effort, draws=0)
    raw = [own.release for own in windows if own.release.mechanism.is_exact]
    noised = [own for own in windows if not own.release.mechanism.is_exact]
    groups = coin_groups(noised, min(MOST_COINS, max(1, effort.patterns.bit_length() - 1)))

    work = replace(certain, patterns=effort.patterns >> len(groups))  # of each of the sets that coins leave

    def success(shown: Sequence[int]) -> float:
        kept = [noised[each].release for k in shown for each in groups[k]]
        return step_risk([*raw, *kept], certain if len(shown) == len(groups) else work).certified

    information = window_information(exposure, published, first, last).total
    guess = prior_guess(window_of(exposure, first, last), mistakes).best
    revealed = sum(own.information_nats for own in windows)  # given the steps' releases: not carried
    bounds = {
        "divergence": float(divergence_root(information, guess)),
        "shifted": min(1.0, step_risk((), certain).certified + most_moved(revealed)),
        "shown": success(range(len(groups))),
    }
    if groups:
        values = success_of_sets(len(groups), success)
        by_the_spread = [own.reveal_probability() for own in noised]
        bounds["erasure"] = expected_success(values, groups, by_the_spread)
        shown, charged = with_large_counts_charged(noised)
        bounds["large_counts"] = min(1.0, charged + expected_success(values, groups, shown))
    return bounds
