"""``tg.hindsight``: what later releases reveal about earlier steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from accounting.bounds import Effort
from accounting.exceptions import HorizonError
from models.arguments import checked
from models.exceptions import ArgumentError, MechanismError
from models.releases import Schedule
from stream_app.watching import hindsight as of_a_log
from stream_app.watching.hindsight import Hindsight, PastHorizon
from stream_app.watching.prior_notes import basis_note
from tallyguard.results import (
    Marks,
    People,
    Table,
    ceiling_in_100,
    in_100,
    noted,
    plot_ceilings,
    positions_of,
    seen_under,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class InHindsight(Table):
    """One :class:`Hindsight` a person, by id: ``past["ada"].now``."""

    def __init__(self, found: Mapping[str, Hindsight], past: PastHorizon, note: str | None = None) -> None:
        self.found = dict(found)
        self.note = note
        self._past = past

    def __len__(self) -> int:
        """Number of people."""
        return len(self.found)

    def __iter__(self) -> Iterator[str]:
        """Their ids."""
        return iter(self.found)

    def __getitem__(self, person: str) -> Hindsight:
        """One person's ceilings; ``KeyError`` for an unknown id."""
        return self.found[person]

    def caption(self) -> str:
        """What the ceilings bound, and under which condition."""
        first, last, mistakes = self._past
        steps = last - first + 1
        return (
            f"Chance in 100 of telling where a person was in at least {steps - mistakes} of the {steps} "
            f"steps {first} to {last}, when the last of them was released and after the whole schedule, if "
            f"habits are as the prior says{noted(self.note)}"
        )

    def shown(self) -> Mapping[str, Sequence[str]]:
        """Guess without the releases, ceiling then and now, and the bound that gives the latter."""
        found = self.found.values()
        return {
            "person": list(self.found),
            "guess": [in_100(each.baseline) for each in found],
            "ceiling then": [ceiling_in_100(each.then) for each in found],
            "ceiling now": [ceiling_in_100(each.now) for each in found],
            "by": [each.now_by for each in found],
        }

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row a person; chances in 0..1."""
        found = self.found.values()
        return {
            "person": list(self.found),
            "guess": [each.baseline for each in found],
            "ceiling_then": [each.then for each in found],
            "ceiling_now": [each.now for each in found],
            "certified_by": [each.now_by for each in found],
            "confidence": [each.confidence for each in found],
        }

    def plot(self, axes: Axes | None = None) -> Axes:
        """Guess and both ceilings of each person, sorted by what the releases add; needs matplotlib."""
        rows = self.columns()
        then = Marks("ceiling then", rows["ceiling_then"], "x")
        return plot_ceilings(
            axes, rows["person"], rows["guess"], rows["ceiling_now"], then, label="ceiling now"
        )


@checked(ArgumentError, leave=("people", "schedule"))
def hindsight(
    people: People,
    schedule: Schedule,
    first: int,
    last: int,
    mistakes: int = 1,
    *,
    person: str | None = None,
    effort: Effort | None = None,
) -> InHindsight:
    """Ceilings for the steps ``first..last`` of a longer schedule: when they had passed, and after all of it.

    A later count can reveal an earlier step: a person seen at the station at noon was near it at eleven. The
    adversary may be wrong in ``mistakes`` of these steps. :class:`TallyguardError` says what must hold where
    it does not, also for noise that several steps share, for which no bound in hindsight is known.
    """
    population = seen_under(schedule, people)
    if not 0 <= first <= last < len(schedule.steps):
        raise HorizonError(
            f"past steps must be in order and within 0..{len(schedule.steps) - 1}",
            f"{first}..{last}",
            "name the first and the last of them",
        )
    if not 0 <= mistakes <= last - first:
        raise HorizonError(
            f"mistakes must lie in 0..{last - first}, fewer than the steps asked for",
            mistakes,
            "allow fewer, or ask for more steps",
        )
    past, found = PastHorizon(first, last, mistakes), {}
    for position in positions_of(population, person):
        one = of_a_log.hindsight(
            population,
            position,
            schedule.steps,
            schedule.first_slot,
            past,
            effort,
            calendar=schedule.calendar,
        )
        if one is None:
            raise MechanismError(
                "noise must be drawn anew for each step to be bounded in hindsight",
                "noise shared between steps",
                "ask for the whole schedule with audit or certify",
            )
        found[population.people[position]] = one
    return InHindsight(found, past, basis_note(len(population), population.assumed))
