"""A panel of volunteers held against the priors while an engine runs: their true places, step by step.

Each volunteer's steps are cut into horizons, one after the other. Before a horizon is looked at, the prior
and the last place known before it name a best guess and say how likely it is right; afterwards it was, or was
not. Under the prior that probability is exact given everything that came before, since a chain forgets all
but its last place and people move independently, so the evidence is a martingale, whenever one looks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accounting.attacks import RecordedTarget, Target
from accounting.audit.calibration.running_check import RunningCheck
from accounting.exposure import Exposure, baseline
from accounting.exposure.step_information.contraction_kernel import dense_matrix
from accounting.settings import HorizonSettings
from models.priors import ChainView, Population
from models.releases import Schedule, StepSchedule


@dataclass
class _Volunteer:
    """One person's places since the horizon at hand began, and the last place known before it."""

    trace: list[int] = field(default_factory=list)  # location indices
    first: int = 0
    before: tuple[int, int] | None = None  # step and location

    @property
    def next_step(self) -> int:
        """The step that continues the horizon."""
        return self.first + len(self.trace)


class PanelCheck:
    """Evidence against the priors of a population, from true places in the order of steps.

    Guesses are judged over the horizon of the settings, with its mistakes. :attr:`guesses` counts them.
    """

    def __init__(self, population: Population, settings: HorizonSettings, check: RunningCheck) -> None:
        self.check = check
        self.guesses = 0
        self._population = population
        self._settings = settings
        self._volunteers: dict[int, _Volunteer] = {}

    @property
    def people(self) -> int:
        """Volunteers who were heard of."""
        return len(self._volunteers)

    def record(self, person: int, step: int, location: int) -> bool:
        """Take in where a volunteer was; whether that step was later than what is known of them.

        A step that is left out ends a horizon unjudged, and the next one begins behind it.
        """
        volunteer = self._volunteers.setdefault(person, _Volunteer(first=step))
        if step < volunteer.next_step:
            return False
        if step > volunteer.next_step:
            if volunteer.trace:
                volunteer.before = volunteer.next_step - 1, volunteer.trace[-1]
            volunteer.trace, volunteer.first = [], step
        volunteer.trace.append(location)
        if len(volunteer.trace) == self._settings.horizon:
            self._judge(person, volunteer)
            volunteer.before = step, location
            volunteer.trace, volunteer.first = [], step + 1
        return True

    def _judge(self, person: int, volunteer: _Volunteer) -> None:
        """Hold the best guess against what happened."""
        settings, chain = self._settings, self._population.chain(person)
        slot = settings.first_slot + volunteer.first
        nothing = Schedule(tuple(map(StepSchedule, range(settings.horizon))), slot)
        start = self._start(person, chain, volunteer)
        exposure = Exposure.of(chain, nothing, self._population.location_count, start)
        best = baseline(exposure, settings.mistakes)
        target = RecordedTarget(
            Target(exposure, settings.mistakes, draws=1, seed=0), np.array(volunteer.trace, dtype=np.int32)
        )
        is_right = target.blind(best.guess).success == 1.0
        self.guesses += 1
        self.check.record(is_right, min(1.0, best.success))

    def _start(self, person: int, chain: ChainView, volunteer: _Volunteer) -> NDArray[np.float64] | None:
        """The law of the horizon's first place given the last one known; None for the long-run law.

        Of a place that the prior excludes nothing follows.
        """
        if volunteer.before is not None:
            step, location = volunteer.before
            here = np.flatnonzero(chain.places == location)
            if here.size:
                law = np.zeros(chain.places.size)
                law[here] = 1.0
                return self._moved(chain, law, step, volunteer.first)
            return None
        initial = self._population.initial(person)
        since = self._settings.first_step
        return None if initial is None else self._moved(chain, initial, since, volunteer.first)

    def _moved(
        self, chain: ChainView, law: NDArray[np.float64], step: int, until: int
    ) -> NDArray[np.float64]:
        """The law some steps later."""
        slots = chain.start.shape[0]
        for each in range(step, until):
            moves = dense_matrix(chain, (self._settings.first_slot + each) % slots)
            law = (law[:, None] * moves).sum(axis=0)
        return law / law.sum()
