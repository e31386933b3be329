"""The ceiling of one horizon of a log for everybody within a radius of the prior.

History counts: a person who forgets more slowly than the prior says is given away by old releases, and
nothing in the horizon's own steps shows it. So the bound that is raised never uses the prior for what lies
outside the radius's steps: the adversary is *shown* the place at which the radius begins (and in hindsight
the one at which it ends). To somebody who is Markov there (:attr:`Radius.is_markov`) that is worth more than
all releases beyond it. Of anybody else nothing is known but a radius over the whole log.
"""

from __future__ import annotations

from dataclasses import dataclass

from accounting import bounds
from accounting.bounds.radius.radius import Radius
from accounting.exceptions import HorizonError
from accounting.exposure import Exposure
from accounting.exposure.step_information import StepObservation, observe
from models.mechanisms import Raw
from models.releases import Sensor, SensorRelease, StepSchedule


@dataclass(frozen=True, slots=True)
class HorizonWithin:
    """``ceiling`` holds for everybody within the radius, ``certified`` for the prior itself.

    ``knows_place``: whether ``certified`` is that of an adversary to whom one of those places is shown; the
    ceiling then holds for those within the radius who are Markov there.
    """

    ceiling: float
    by: str
    certified: float
    certified_by: str
    knows_place: bool
    confidence: float


def horizon_within(
    exposure: Exposure,
    horizon: tuple[int, int],
    mistakes: int,
    radius: Radius,
    *,
    in_hindsight: bool = False,
    effort: bounds.Effort | None = None,
) -> HorizonWithin:
    """The ceiling of the steps ``horizon`` (both included) of the log in ``exposure``, within the radius.

    :class:`~accounting.exceptions.HorizonError` where the radius does not count the whole horizon, or less
    than the whole log although steps share noise or nothing is said of how the person moves outside it.
    """
    first, last = horizon
    seen = exposure.steps - 1 if in_hindsight else last
    begin, end = max(radius.first, 0), min(radius.last, seen)
    if not begin <= first <= last <= end:
        raise HorizonError(
            f"a radius must count every step of the horizon {first}..{last}",
            f"{radius.first}..{radius.last}",
            "declare it over the whole log, or from a step at which the adversary is shown the place",
        )
    knows_place = begin > 0 or end < seen
    if knows_place and not radius.is_markov:
        raise HorizonError(
            f"a radius must count every step of the log until {seen}, or be of people Markov at its ends",
            f"{radius.first}..{radius.last}",
            "declare it over the whole log, or is_markov=True if steps outside tell no more than the place",
        )
    if knows_place and not exposure.has_independent_noise:
        raise HorizonError(
            "a radius must count the whole log where noise is shared between steps",
            f"{radius.first}..{radius.last}",
            "declare it over the whole log",
        )
    known = Exposure(
        exposure.chain, exposure.marginal[begin], exposure.slot(begin), _seen(exposure, begin, end, seen)
    )
    risk = bounds.horizon_risk(
        known, first - begin, last - begin, mistakes, in_hindsight=in_hindsight, effort=effort
    )
    raised = radius.ceiling(risk.certified)
    return HorizonWithin(raised.value, raised.by, risk.certified, risk.by, knows_place, risk.confidence)


def _seen(exposure: Exposure, begin: int, end: int, seen: int) -> tuple[StepObservation, ...]:
    """What is seen in ``begin..end``: the place where the log goes on outside, elsewhere the releases."""
    shown = list(exposure.observations[begin : end + 1])
    places = exposure.chain.places.tolist()
    releases = tuple(SensorRelease(Sensor(f"place {place}", (place,)), Raw()) for place in places)
    shown_place = observe(StepSchedule(0, releases), exposure.observations[0].labels.size)
    if begin > 0:
        shown[0] = shown_place
    if end < seen:
        shown[-1] = shown_place
    return tuple(shown)
