"""A view of the people a run accounts for, for observers: what sensors reveal, who stands where, and why.

Nothing here depends on a count. Single people appear by pseudonym; code that passes on more than totals must
ask for an access token first.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.radius import ceilings_within
from accounting.continuous import ContinuousAccountant, WorstMoments, join_people, no_moments
from accounting.continuous.crowd import CrowdAccount
from accounting.exposure import Exposure
from accounting.exposure.step_information import SensorInformation
from accounting.settings import HorizonSettings
from models.priors import Population
from models.releases import Schedule, StepSchedule
from stream_app.watching.wording import habits_warning

if TYPE_CHECKING:
    from accounting.audit import Explanation
    from stream_app.watching.hindsight import Hindsight

NATS_PER_BIT = math.log(2.0)
HABITS_CHANGED = "not computed: the person's habits changed, and the account began anew at that step"
FORGOTTEN = (
    "not computed: the steps around it are no longer in memory; `tallyguard report` with the run's priors "
    "computes it from the log"
)


@dataclass(frozen=True)
class Standing:
    """Each person's certified risk, baseline and added risk after a step, (N,) each, and worst moments.

    ``pseudonyms`` are in the same order; ``people_each`` (N,) is how many people each of them stands for.
    ``habits`` are the risks with nothing released: the baselines, or what they are raised to where risks are
    those within a radius. ``crowd`` is the same against the crowd adversary, where that is computed.
    ``as_of`` are the steps that each person's figures are of, (N,), where those may be earlier ones; None:
    all are of this step.
    """

    step: int
    pseudonyms: Sequence[str]
    people_each: NDArray[np.int64]
    risk: NDArray[np.float64]
    baseline: NDArray[np.float64]
    added: NDArray[np.float64]
    habits: NDArray[np.float64]
    worst: WorstMoments
    crowd: Standing | None = None
    as_of: NDArray[np.int64] | None = None

    @classmethod
    def of(
        cls,
        accountant: ContinuousAccountant | CrowdAccount,
        pseudonyms: Sequence[str],
        crowd: CrowdAccount | None = None,
    ) -> Standing:
        """What an accountant says after its last step."""
        baseline = accountant.baseline()
        return cls(
            accountant.next_step - 1,
            pseudonyms,
            accountant.people_each,
            accountant.risk(),
            baseline,
            accountant.added(),
            ceilings_within(accountant.settings.within_nats, baseline),
            accountant.worst(),
            None if crowd is None else cls.of(crowd, pseudonyms),
        )

    def judged(self, *, in_crowd: bool) -> Standing:
        """The figures that a limit is about: those in the crowd where it is kept there."""
        return self.crowd if in_crowd and self.crowd is not None else self

    def at_most(self, added: NDArray[np.float64], within_nats: float) -> Standing:
        """These figures where no more than so much was added, (N,)."""
        lower = np.minimum(self.added, added)
        risk = np.minimum(self.risk, ceilings_within(within_nats, self.baseline + lower))
        return replace(self, added=lower, risk=risk)

    @classmethod
    def together(cls, parts: Sequence[Standing]) -> Standing:
        """The figures of people who are held in parts, one part after the other."""
        nobody = np.empty(0)
        risk, baseline, added, habits = (
            np.concatenate([nobody, *(getattr(part, name) for part in parts)])
            for name in ("risk", "baseline", "added", "habits")
        )
        crowds = [part.crowd for part in parts if part.crowd is not None]
        return cls(
            min((part.step for part in parts), default=-1),
            [name for part in parts for name in part.pseudonyms],
            np.concatenate([nobody.astype(np.int64), *(part.people_each for part in parts)]),
            *(risk, baseline, added, habits),
            reduce(join_people, (part.worst for part in parts), no_moments(0)),
            cls.together(crowds) if crowds and len(crowds) == len(parts) else None,
        )

    @property
    def people(self) -> int:
        """How many people there are, all those behind personas included."""
        return int(self.people_each.sum())

    def count(self, chosen: NDArray[np.bool_]) -> int:
        """How many people are behind the chosen ones, (N,)."""
        return int(self.people_each[chosen].sum())

    def most_exposed(self, threshold: float, at_most: int) -> NDArray[np.int64]:
        """Positions of the people whose risk is at or above the threshold, highest added risk first.

        Where figures are of several steps they cannot be ranked: then by the highest added risk so far.
        """
        reached = np.flatnonzero(self.risk >= threshold)
        added = (self.added if self.as_of is None else self.worst.added)[reached]
        return reached[np.lexsort((reached, -self.risk[reached], -added))][:at_most]


class Accounted(Protocol):
    """Some people and their accounts, as :class:`stream_app.steps.PeopleAccounts` has them."""

    @property
    def accountant(self) -> ContinuousAccountant:
        """The accounts against an adversary who knows where everybody else is."""

    @property
    def crowd(self) -> CrowdAccount | None:
        """The same people's against the crowd adversary, where they are kept."""

    @property
    def pseudonyms(self) -> Sequence[str]:
        """The people, in the order of positions."""

    @property
    def assumed(self) -> str | None:
        """What the habits of people who were not measured rest on; None if all were measured."""


def standing_of(parts: Sequence[Accounted]) -> Standing:
    """Copies of all people's figures after the last step that every part has accounted."""
    each = [Standing.of(part.accountant, part.pseudonyms, part.crowd) for part in parts]
    return each[0] if len(each) == 1 else Standing.together(each)


class PeopleView:
    """What can be asked about people, on the engine's thread, except :meth:`explain` and :meth:`hindsight`.

    They are in several ``parts``, one after the other, where an account worker has several partitions.
    """

    def __init__(
        self, parts: Sequence[Accounted], note: str | None = None, *, beside: str | None = None
    ) -> None:
        """``note`` is what every output must say of the priors; None for measured, unrefuted habits.

        ``beside`` says why no log is kept where others may be accounted elsewhere; None where all are here.
        """
        self._parts, self.note, self._beside = tuple(parts), note, beside
        self._accountants = tuple(part.accountant for part in parts)  # whose people stay the same
        self.settings = self._accountants[0].settings if parts else HorizonSettings(1, 0)
        """Horizon and radius of every ceiling."""
        self._first = np.cumsum([0, *(len(each.people) for each in self._accountants)]).tolist()
        self._everybody = tuple(each.everybody for each in self._accountants)
        self._information = tuple(map(_information, self._accountants))

    @property
    def people(self) -> int:
        """How many there are, all those behind personas included."""
        return sum(self._everybody)

    @property
    def others(self) -> int | None:
        """How many others somebody may hide among; None where not all are here."""
        return None if self._beside is not None else max(0, self.people - 1)

    @property
    def of_personas(self) -> bool:
        """Whether some names stand for many people."""
        return any(each.holders.stands_for is not None for each in self._accountants)

    @property
    def assumed(self) -> str | None:
        """What assumed habits rest on; None for measured people."""
        return min((part.assumed for part in self._parts if part.assumed is not None), default=None)

    @property
    def warning(self) -> str | None:
        """What to say where habits alone give most people away; None where they do not."""
        return next(filter(None, map(habits_warning, self._accountants)), None)

    def sensor_information_bits(self, step: StepSchedule) -> dict[str, float]:
        """Mean information each release of the step reveals about a person, bits, by sensor."""
        totals = dict.fromkeys((release.sensor.name for release in step.releases), 0.0)
        for everybody, information in zip(self._everybody, self._information, strict=True):
            for name, nats in information.of_step(step).items():
                totals[name] += nats * everybody
        return {name: total / max(self.people, 1) / NATS_PER_BIT for name, total in totals.items()}

    def standing(self) -> Standing:
        """Copies of all people's figures after the last step that every part has accounted."""
        return standing_of(self._parts)

    def hindsight(self, person: int, log: Sequence[StepSchedule], last_step: int) -> Hindsight | str:
        """The risk of the horizon that ended at ``last_step``, given the whole ``log``; or why there is none.

        Safe on any thread.
        """
        from stream_app.watching.hindsight import SHARED_NOISE, PastHorizon, covers, hindsight

        if self._beside is not None:
            return self._beside
        population, account = self._account_of(person)
        if population.told is not None and population.told[account]:
            return HABITS_CHANGED
        past = PastHorizon.ending_at(last_step, self.settings.horizon, self.settings.mistakes)
        if not covers(log, past):
            return FORGOTTEN
        settings = self.settings
        found = hindsight(population, account, log, settings.first_slot, past, calendar=settings.calendar)
        return SHARED_NOISE if found is None else found.within(self.settings.within_nats)

    def explain(self, person: int, steps: Sequence[StepSchedule]) -> Explanation:
        """One person's risk over these steps taken apart by release; safe on any thread.

        The explained risk is that of these steps alone, from the person's habitual start: what earlier
        releases revealed is in the running risk, not here. Of several chains it is the mean.
        """
        from accounting.audit import explain, mean_explanation

        first_slot = self.settings.first_slot + (steps[0].step if steps else 0)
        schedule = Schedule(tuple(steps), first_slot, self.settings.calendar)
        mistakes = min(self.settings.mistakes, len(steps) - 1)
        population, account = self._account_of(person)
        chains = population.accounted
        each = [
            explain(Exposure.of(chains.chain(chain), schedule, chains.location_count), tuple(steps), mistakes)
            for chain in population.chains_of(np.array([account]))
        ]
        return each[0] if len(each) == 1 else mean_explanation(each)

    def _account_of(self, person: int) -> tuple[Population, int]:
        """The priors of the accounts that a person's is among, and its position there."""
        number = bisect_right(self._first, person) - 1
        accountant = self._accountants[number]
        account = accountant.by_account.of(np.array([person - self._first[number]]))[0]
        return accountant.population, int(account)


def _information(accountant: ContinuousAccountant) -> SensorInformation:
    """What sensors reveal about the people of an accountant, on average."""
    settings, population = accountant.settings, accountant.population
    people = np.repeat(accountant.by_account.people, population.draws)
    return SensorInformation(population.accounted, settings.first_slot, people, settings.calendar)
