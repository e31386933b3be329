"""``tg.attack``, ``tg.hindsight`` and ``tg.certify_windows``: what is found of each person, by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from accounting.audit import AttackReport, AttackSettings, audit_population
from accounting.bounds import Effort
from accounting.bounds.windows import WindowRisk, window_risk
from accounting.exceptions import HorizonError
from accounting.ledgers import Neighbours, ZcdpSpend, window_cost
from models.arguments import checked
from models.exceptions import ArgumentError, MechanismError
from models.priors import Question
from models.releases import MoveSensor, Schedule, StepSchedule, WindowRelease
from stream_app.watching import hindsight as of_a_log
from stream_app.watching.hindsight import Hindsight, PastHorizon
from stream_app.watching.prior_notes import basis_note
from stream_app.watching.wording import DOWN
from tallyguard.results import (
    ByPerson,
    Marks,
    People,
    ceiling_in_100,
    exposure_of,
    in_100,
    nats,
    noted,
    plot_ceilings,
    population_of,
    positions_of,
    seen_under,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Attacks(ByPerson[Mapping[str, AttackReport]]):
    """Each attack's success by person and name: ``attacks["ada"]["map"].success``."""

    def __init__(
        self, found: Mapping[str, Mapping[str, AttackReport]], steps: int, mistakes: int, note: str | None
    ) -> None:
        super().__init__(found, note)
        self._right = f"at least {steps - mistakes} of {steps} steps"

    def caption(self) -> str:
        """What the attacks try, and under which condition."""
        return (
            f"How often in 100 each attack tells where a person was in {self._right}, seeing all releases "
            f"and knowing where everybody else is, if habits are as the prior says{noted(self.note)}"
        )

    def shown(self) -> Mapping[str, Sequence[str]]:
        """One row a person and attack, with the interval of what was tried on draws."""
        rows = self.columns()
        return {
            "person": rows["person"],
            "attack": rows["attack"],
            "success": [in_100(each) for each in rows["success"]],
            "interval": [
                "exact" if low == high else f"{in_100(low, DOWN)} to {ceiling_in_100(high)}"
                for low, high in zip(rows["low"], rows["high"], strict=True)
            ],
        }

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row a person and attack; chances in 0..1, ``low = high`` where they are exact."""
        rows = [(person, name, each) for person, tried in self.found.items() for name, each in tried.items()]
        return {
            "person": [person for person, _, _ in rows],
            "attack": [name for _, name, _ in rows],
            "success": [each.success for _, _, each in rows],
            "low": [each.low for _, _, each in rows],
            "high": [each.high for _, _, each in rows],
        }


@checked(ArgumentError, leave=("people", "schedule"))
def attack(
    people: People,
    schedule: Schedule,
    mistakes: int = 1,
    *,
    person: str | None = None,
    draws: int = 10_000,
    question: Question | None = None,
    seed: int = 0,
) -> Attacks:
    """The success of every attack on one prior, on several, or on one ``person`` of them.

    An attack may be wrong in ``mistakes`` steps. Where no exact law is known it is tried on ``draws``
    trajectories, with a 95 % interval; the same ``seed`` gives the same results, those of an audit: none is
    above the ceiling. With a ``question`` its labels are guessed. An attack that cannot be tried on a
    schedule is left out. :class:`TallyguardError` says what must hold.
    """
    population = seen_under(schedule, people)
    chosen, tried = positions_of(population, person), AttackSettings(draws, seed)
    found = {
        each.person: {name: result for name, result in (each.attacks or {}).items() if result is not None}
        for each in audit_population(
            population, schedule, mistakes, people=chosen, attacks=tried, asked=question
        )
    }
    return Attacks(found, len(schedule.steps), mistakes, basis_note(len(population), population.assumed))


class InHindsight(ByPerson[Hindsight]):
    """One :class:`Hindsight` a person, by id: ``past["ada"].now``."""

    def __init__(self, found: Mapping[str, Hindsight], past: PastHorizon, note: str | None = None) -> None:
        super().__init__(found, note)
        self._past = past

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


class WindowRisks(ByPerson[WindowRisk]):
    """One :class:`WindowRisk` a person, by id: ``risks["ada"].certified``."""

    def __init__(self, risks: Mapping[str, WindowRisk], mistakes: int, note: str | None = None) -> None:
        super().__init__(risks, note)
        self.risks, self.mistakes = self.found, mistakes

    def caption(self) -> str:
        """What the ceilings bound, and under which condition."""
        if not self.risks:
            return "Nobody was certified."
        found = next(iter(self.risks.values()))
        steps = found.last - found.first + 1
        return (
            f"Chance in 100 of telling where a person was in at least {steps - self.mistakes} of the fine "
            f"steps {found.first} to {found.last}, if habits are as the prior says and nobody is counted "
            f"more often in a window than its most_counts{noted(self.note)}"
        )

    def shown(self) -> Mapping[str, Sequence[str]]:
        """Guess without the releases, ceiling, and the bound that gave it."""
        found = self.risks.values()
        return {
            "person": list(self.risks),
            "guess": [in_100(each.baseline) for each in found],
            "ceiling": [ceiling_in_100(each.certified) for each in found],
            "nats": [nats(each.information_nats) for each in found],
            "by": [each.by for each in found],
        }

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row a person; chances in 0..1, information in nats."""
        found = self.risks.values()
        return {
            "person": list(self.risks),
            "guess": [each.baseline for each in found],
            "ceiling": [each.certified for each in found],
            "information": [each.information_nats for each in found],
            "certified_by": [each.by for each in found],
            "confidence": [each.confidence for each in found],
        }

    def plot(self, axes: Axes | None = None) -> Axes:
        """Guess and ceiling of each person, sorted by what the releases add; needs matplotlib."""
        rows = self.columns()
        return plot_ceilings(axes, rows["person"], rows["guess"], rows["ceiling"])


@checked(ArgumentError, leave=("people",))
def certify_windows(
    people: People,
    releases: Sequence[WindowRelease],
    horizon: tuple[int, int],
    mistakes: int = 1,
    *,
    first_slot: int = 0,
    effort: Effort | None = None,
) -> WindowRisks:
    """Ceilings on the fine steps ``horizon`` (first and last) for each person, given all releases.

    Step 0 is in the priors' ``first_slot``; the log lasts until the horizon and all windows have ended.
    :class:`TallyguardError` says what must hold where it does not.
    """
    steps = 1 + max([*horizon, *(each.last for each in releases)])
    silent = Schedule(tuple(StepSchedule(step) for step in range(steps)), first_slot)
    counted: set[int] = set()
    for each in releases:
        if isinstance(each.sensor, MoveSensor):
            counted |= {place for start, end, _ in each.sensor.times_counted for place in (start, end)}
        else:
            counted |= set(each.sensor.locations)
    population = population_of(people, counted)
    found = {}
    for position, person in enumerate(population.people):
        exposure = exposure_of(population, position, silent)
        found[person] = window_risk(exposure, releases, horizon, mistakes, in_hindsight=True, effort=effort)
    return WindowRisks(found, mistakes, basis_note(len(population), population.assumed))


@checked(ArgumentError)
def ledger_of_windows(
    releases: Sequence[WindowRelease],
    most_sensors: int,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> ZcdpSpend:
    """The differential privacy guarantee: ``.rho_value()``, and ``.epsilon(delta)``.

    ``most_sensors`` is how many sensors can count one person in a window; epsilon is in nats.
    :class:`~accounting.exceptions.LedgerError` for fewer than one.
    """
    return window_cost(releases, most_sensors, neighbours)
