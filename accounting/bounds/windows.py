"""Bounds on counts over windows of steps: passages, presence summed, devices that count somebody again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from accounting.bounds.certified import HorizonRisk, horizon_risk, smallest
from accounting.bounds.noised.own_counts_bound import own_counts_success
from accounting.bounds.protocol import Effort
from accounting.exceptions import HorizonError
from accounting.exposure import Exposure, baseline, check_mistakes, prior_guess, window_of
from accounting.exposure.own_counts import OwnCount, own_count, window_information
from accounting.exposure.step_information import observe
from accounting.numerics import divergence_root, most_moved
from models.releases import SensorRelease, ShownPlaces, StepSchedule, WindowRelease, shown_places, together


def in_steps(
    steps: int, windows: Iterable[WindowRelease], presence: Iterable[WindowRelease]
) -> list[StepSchedule]:
    """Steps ``0..steps - 1`` with the releases of one step's ``presence`` and what the windows show in them.

    An adversary who is shown the places of a window's steps, with parts of its noise, knows at least as much
    (:mod:`models.releases.fine_steps`).
    """
    plain: list[list[SensorRelease]] = [[] for _ in range(steps)]
    shown: list[list[ShownPlaces]] = [[] for _ in range(steps)]
    for release in presence:
        if release.as_step is not None:
            plain[release.first].append(release.as_step)
    for release in windows:
        for part in shown_places(release):
            shown[release.first + part.places.offset].append(part)
    return [
        StepSchedule(step, (*plain[step], *together(tuple(plain[step]), tuple(shown[step]))))
        for step in range(steps)
    ]


# Certified success against a horizon of a log whose releases count over windows of fine steps.
#
# Every bound holds for any adversary; the least counts:
#
# - ``own_counts``: each window as a channel of what the person adds to its count;
# - ``in_steps``: what all windows show in single steps;
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
        information_nats=window_information(exposure, published, first, last),
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

    def seen_in(steps: Iterable[StepSchedule]) -> Exposure:
        return exposure.under(tuple(observe(step, locations) for step in steps))

    def step_risk(shown: Iterable[WindowRelease], work: Effort) -> HorizonRisk:
        seen = seen_in(in_steps(exposure.steps, shown, presence))
        return horizon_risk(seen, first, last, mistakes, in_hindsight=in_hindsight, effort=work)

    windows = [own for own in published if own.release.as_step is None and not own.is_constant]
    if not windows:
        found = step_risk((), effort)
        return {found.by: found.certified}
    certain = replace(effort, draws=0)
    information = window_information(exposure, published, first, last)
    guess = prior_guess(window_of(exposure, first, last), mistakes).best
    revealed = sum(own.information_nats for own in windows)  # given the steps' releases: not carried
    bounds = {
        "divergence": float(divergence_root(information, guess)),
        "shifted": min(1.0, step_risk((), certain).certified + most_moved(revealed)),
        "in_steps": step_risk([own.release for own in windows], certain).certified,
    }
    until = exposure.steps if in_hindsight else last + 1
    presence_alone = seen_in(in_steps(exposure.steps, (), presence)[:until])
    counted = own_counts_success(presence_alone, windows, horizon, mistakes, effort.vectors)
    if counted is not None:
        bounds["own_counts"] = counted
    return bounds
