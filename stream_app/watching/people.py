"""A view of the people a run accounts for, for observers: what sensors reveal, who stands where, and why.

Nothing here depends on a count. Single people appear by pseudonym; code that passes on more than totals must
ask for an access token first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.radius import ceilings_within
from accounting.continuous import ContinuousAccountant, WorstMoments
from accounting.continuous.crowd import CrowdAccount
from accounting.exposure import Exposure
from accounting.exposure.crowd import CrowdAdversary
from accounting.exposure.step_information import SensorInformation
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

    @property
    def people(self) -> int:
        """How many people there are, all those behind personas included."""
        return int(self.people_each.sum())

    def count(self, chosen: NDArray[np.bool_]) -> int:
        """How many people are behind the chosen ones, (N,)."""
        return int(self.people_each[chosen].sum())

    def most_exposed(self, threshold: float, at_most: int) -> NDArray[np.int64]:
        """Positions of the people whose risk is at or above the threshold, highest added risk first."""
        reached = np.flatnonzero(self.risk >= threshold)
        added = self.added[reached]
        return reached[np.lexsort((reached, -self.risk[reached], -added))][:at_most]


class PeopleView:
    """What can be asked about a run's people, on the engine's thread, except :meth:`explain`."""

    def __init__(
        self,
        population: Population,
        accountant: ContinuousAccountant,
        pseudonyms: Sequence[str],
        *,
        note: str | None = None,
        crowd: CrowdAccount | None = None,
    ) -> None:
        """``note`` is what every output must say of the priors; None for measured, unrefuted habits.

        ``crowd`` is the same people's account against the crowd adversary, where it is kept.
        """
        settings = accountant.settings
        self._crowd = crowd
        self._population = population = settings.asked_of(population)
        self._note = note
        self.accountant = accountant
        self._settings = settings
        self.pseudonyms: Sequence[str] = tuple(pseudonyms)  # of all people, in the order of positions
        people = population.stands_for
        people = None if people is None else np.repeat(people, population.draws)
        self._information = SensorInformation(
            population.accounted, settings.first_slot, people, settings.calendar
        )

    @property
    def people(self) -> int:
        """How many there are, all those behind personas included."""
        return self._population.everybody

    @property
    def others(self) -> int | None:
        """How many others somebody may hide among; None where not all are here."""
        return max(0, self.people - 1)

    @property
    def of_personas(self) -> bool:
        """Whether some names stand for many people."""
        return self._population.weights is not None

    @property
    def horizon(self) -> int:
        """``T``, the steps of an explanation."""
        return self._settings.horizon

    @property
    def within_nats(self) -> float:
        """The radius that every ceiling is raised to; 0 where it is the prior's."""
        return self._settings.within_nats

    @property
    def assumed(self) -> str | None:
        """What assumed habits rest on; None for measured people."""
        return self._population.assumed

    @property
    def note(self) -> str | None:
        """What every output must say of the priors."""
        return self._note

    @property
    def adversary(self) -> CrowdAdversary | None:
        """The crowd adversary against which ceilings are computed, too; None for none."""
        return None if self._crowd is None else self._crowd.adversary

    @property
    def warning(self) -> str | None:
        """What to say where habits alone give most people away; None where they do not."""
        return habits_warning(self.accountant)

    def sensor_information_bits(self, step: StepSchedule) -> dict[str, float]:
        """Mean information each release of the step reveals about a person, bits, by sensor."""
        return {name: nats / NATS_PER_BIT for name, nats in self._information.of_step(step).items()}

    def standing(self) -> Standing:
        """Copies of all people's figures after the last accounted step."""
        return Standing.of(self.accountant, self.pseudonyms, self._crowd)

    def hindsight(self, person: int, log: Sequence[StepSchedule], last_step: int) -> Hindsight | str:
        """The risk of the horizon that ended at ``last_step``, given the whole ``log``; or why there is none.

        Safe on any thread.
        """
        from stream_app.watching.hindsight import SHARED_NOISE, PastHorizon, covers, hindsight

        if self._population.told is not None and self._population.told[person]:
            return HABITS_CHANGED
        past = PastHorizon.ending_at(last_step, self._settings.horizon, self._settings.mistakes)
        if not covers(log, past):
            return FORGOTTEN
        settings = self._settings
        found = hindsight(
            self._population, person, log, settings.first_slot, past, calendar=settings.calendar
        )
        return SHARED_NOISE if found is None else found.within(self.within_nats)

    def explain(self, person: int, steps: Sequence[StepSchedule]) -> Explanation:
        """One person's risk over these steps taken apart by release; safe on any thread.

        The explained risk is that of these steps alone, from the person's habitual start: what earlier
        releases revealed is in the running risk, not here. Of several chains it is the mean.
        """
        from accounting.audit import explain, mean_explanation

        first_slot = self._settings.first_slot + (steps[0].step if steps else 0)
        schedule = Schedule(tuple(steps), first_slot, self._settings.calendar)
        mistakes = min(self._settings.mistakes, len(steps) - 1)
        chains = self._population.accounted
        each = [
            explain(Exposure.of(chains.chain(chain), schedule, chains.location_count), tuple(steps), mistakes)
            for chain in self._population.chains_of(np.array([person]))
        ]
        return each[0] if len(each) == 1 else mean_explanation(each)
