"""The accounts of some people, against each adversary that the settings name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import Cells, ContinuousAccountant
from accounting.continuous.crowd import CrowdAccount
from accounting.exposure.crowd import StepCrowd
from accounting.settings import HorizonSettings
from models.mechanisms import Raw
from models.priors import Population
from models.releases import Sensor, SensorRelease, StepSchedule
from stream_app.setup.release_settings import CROWD
from stream_app.setup.settings import Settings
from stream_app.steps.policy.people_shards import people_shares
from stream_app.steps.risk_output import crowd_message
from stream_app.wire import CrowdSummary


class Accounts(NamedTuple):
    """The account against an adversary who knows where everybody else is, and the one against the crowd's.

    ``decides`` says whether a risk budget is kept by the crowd account; by default the informed one.
    """

    informed: ContinuousAccountant
    crowd: CrowdAccount | None = None
    decides: bool = False

    @classmethod
    def of(
        cls,
        settings: Settings,
        horizon: HorizonSettings,
        population: Population,
        pseudonyms: Sequence[str],
        effective_from: NDArray[np.int64] | None = None,
    ) -> Accounts:
        """Before the first step of ``horizon``; ``pseudonyms`` (N,) decide shares of work and toss coins."""
        shares = people_shares(pseudonyms, settings.kafka.partitions)
        apart = settings.has_crowd  # in a crowd people with equal priors still differ
        informed = ContinuousAccountant(population, horizon, effective_from, shares, apart)
        if not settings.has_crowd:
            return cls(informed)
        decides = settings.adversary == CROWD
        limit = settings.refined_limit if decides else None
        return cls(informed, CrowdAccount(informed, settings.crowd.adversary, pseudonyms, limit), decides)

    def held_by(self, settings: Settings, people: tuple[str, ...], cells: Cells) -> Accounts:
        """These accounts before any step, with a snapshot's people in its cells; in a crowd each has one."""
        if self.crowd is not None:
            return self
        shares = people_shares(people, settings.kafka.partitions)
        return self._replace(informed=self.informed.held_by(people, cells, shares))

    @property
    def whole(self) -> ContinuousAccountant | CrowdAccount:
        """What holds the state of all."""
        return self.informed if self.crowd is None else self.crowd

    @property
    def deciding(self) -> CrowdAccount | None:
        """The crowd's account where a risk budget is kept by it."""
        return self.crowd if self.decides else None

    def ask(self, step: int, sensors: Sequence[Sensor]) -> StepCrowd | None:
        """What each of these sensors would hide among in the next step; None without a crowd's account."""
        if self.crowd is None:
            return None
        return self.crowd.ask(StepSchedule(step, tuple(SensorRelease(each, Raw()) for each in sensors)))

    def apply(self, step: StepSchedule, crowds: StepCrowd | None = None) -> None:
        """Account one step; steps come in order without gaps."""
        self.informed.apply(step)
        if self.crowd is not None:
            self.crowd.apply(step, crowds)

    def with_people(self, newcomers: Accounts) -> Accounts:
        """These accounts and those of other people, at the same step, as one."""
        informed = self.informed.with_people(newcomers.informed)
        if self.crowd is None or newcomers.crowd is None:
            return self._replace(informed=informed)
        return self._replace(informed=informed, crowd=self.crowd.with_people(newcomers.crowd, informed))

    def of_people(self, people: NDArray[np.int64]) -> Accounts:
        """The accounts of some of the people, by position."""
        informed = self.informed.of_people(people)
        crowd = None if self.crowd is None else self.crowd.of_people(people, informed)
        return self._replace(informed=informed, crowd=crowd)

    def crowd_summary(self) -> CrowdSummary | None:
        """The last step in a few numbers against the crowd adversary; None where that is not computed."""
        return None if self.crowd is None else crowd_message(self.crowd.summary(), self.crowd.adversary)
