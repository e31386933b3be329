"""What an account worker shows of all its partitions together: metrics, page, people by pseudonym.

Every step is accounted and its risks are written; under load they are shown only a few times a second.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from accounting.continuous import Ranked, RiskFigures, RiskSummary, join_people, no_moments, summarise
from accounting.continuous.shadow import MeanAttack, mean_attack, mean_guess
from accounting.exposure.crowd import CrowdAdversary
from accounting.exposure.step_information import SensorInformation
from models.releases import StepSchedule
from stream_app.kafka.account.partition_accounts import PartitionAccounts
from stream_app.kafka.worker_metrics import AccountCounters
from stream_app.steps import crowd_message, summary_message
from stream_app.steps.policy import Decided
from stream_app.watching.events import Observer, RunStarted, RunStopped, StepClosed
from stream_app.watching.people import NATS_PER_BIT, PeopleView, Standing
from stream_app.watching.prior_notes import basis_note
from stream_app.wire import CrowdSummary

if TYPE_CHECKING:
    from accounting.audit import Explanation

SHOW_SECONDS = 0.5
NOBODY_HERE = (
    "nobody is loaded on this worker's partitions (`tallyguard persons load` does it), so it computes no "
    "risk of persons; the release worker promises differential privacy, as far as releases are noised"
)
NO_HINDSIGHT = "not computed: account workers keep no log; `tallyguard audit --hindsight` takes a schedule"


class PartitionsView(PeopleView):
    """The people of several partitions, one partition after the other."""

    def __init__(self, partitions: Sequence[PartitionAccounts]) -> None:
        self._partitions = tuple(partitions)
        self._accountants = tuple(accounts.accountant for accounts in partitions)
        self._assumed = min(
            (accounts.assumed for accounts in partitions if accounts.assumed is not None), default=None
        )
        self._sensor_information = tuple(
            SensorInformation(
                each.population.accounted,
                each.settings.first_slot,
                np.repeat(each.by_account.people, each.population.draws),
                each.settings.calendar,
            )
            for each in self._accountants
        )
        self._first = np.cumsum([0, *(len(each.people) for each in self._accountants)]).tolist()
        self._names = tuple(name for each in self._accountants for name in each.people)
        self._everybody = sum(each.everybody for each in self._accountants)

    @property
    def people(self) -> int:
        """How many people there are, those behind personas included."""
        return self._everybody

    @property
    def others(self) -> None:
        """None: other partitions may be at other workers."""

    @property
    def of_personas(self) -> bool:
        """Whether some names stand for many people."""
        return any(each.holders.stands_for is not None for each in self._accountants)

    @property
    def horizon(self) -> int:
        """``T``, the steps of an explanation."""
        return self._accountants[0].settings.horizon if self._accountants else 1

    @property
    def assumed(self) -> str | None:
        """What the habits of people who were not measured rest on."""
        return self._assumed

    @property
    def note(self) -> str | None:
        """A note for the page: that habits are assumed, or that nobody is accounted here yet."""
        if not self.people:
            return NOBODY_HERE
        first = self._partitions[0]
        return basis_note(self.people, self._assumed, first.priors_check, first.draws)

    @property
    def within_nats(self) -> float:
        """The radius around the priors for which ceilings hold."""
        return self._accountants[0].settings.within_nats if self._accountants else 0.0

    @property
    def adversary(self) -> CrowdAdversary | None:
        """The crowd adversary that ceilings are also computed against."""
        crowd = self._partitions[0].accounts.crowd if self._partitions else None
        return None if crowd is None else crowd.adversary

    def sensor_information_bits(self, step: StepSchedule) -> dict[str, float]:
        """Mean information each release of the step reveals about a person, bits, by sensor."""
        totals = dict.fromkeys((release.sensor.name for release in step.releases), 0.0)
        for accountant, information in zip(self._accountants, self._sensor_information, strict=True):
            everybody = accountant.everybody
            for name, nats in information.of_step(step).items():
                totals[name] += nats * everybody
        return {name: total / max(self.people, 1) / NATS_PER_BIT for name, total in totals.items()}

    def standing(self) -> Standing:
        """The figures of all people after the last step that every partition has applied."""
        step = min((each.next_step for each in self._accountants), default=0) - 1
        parts = [
            Standing.of(each.accountant, each.pseudonyms, each.accounts.crowd) for each in self._partitions
        ]
        crowd = [part.crowd for part in parts if part.crowd is not None]
        whole = _together(step, self._names, parts)
        if not crowd or len(crowd) < len(parts):
            return whole
        return replace(whole, crowd=_together(step, self._names, crowd))

    def hindsight(self, person: int, log: Sequence[StepSchedule], last_step: int) -> str:
        """A reason why there is none: people join and change, so no log reaches back to their first step."""
        return NO_HINDSIGHT

    def explain(self, person: int, steps: Sequence[StepSchedule]) -> Explanation:
        """One person's risk over these steps by release; safe on any thread."""
        number = bisect_right(self._first, person) - 1
        accountant = self._accountants[number]
        account = int(accountant.by_account.of(np.array([person - self._first[number]]))[0])
        view = PeopleView(accountant.population, accountant, accountant.population.people)
        return view.explain(account, steps)


class AccountWatch:
    """Turns changes of the partitions into events for the observer."""

    def __init__(
        self,
        observer: Observer,
        counters: AccountCounters,
        sensors: tuple[str, ...],
        now_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.observer = observer
        self.counters = counters
        self._sensors = sensors
        self._now_seconds = now_seconds
        self._partitions: tuple[PartitionAccounts, ...] = ()
        self._view = PartitionsView(())
        self._steps: dict[int, Decided] = {}
        self._shown_seconds = -np.inf
        self._shown_step = -1

    def owns(self, partitions: Iterable[PartitionAccounts]) -> None:
        """The partitions, or their people, have changed."""
        self._partitions = tuple(partitions)
        self._view = PartitionsView(self._partitions)
        self.counters.partitions.set(len(self._partitions))
        view = self._view if self._partitions else None
        self.observer.started(RunStarted(self._view.people, self._reached(), self._sensors, view))

    def accounted(self, accounts: PartitionAccounts, decided: Decided) -> None:
        """A partition has applied a step."""
        self.counters.person_steps.inc(accounts.accountant.everybody)
        self._steps[decided.schedule.step] = decided
        self.show()

    def show(self, *, at_once: bool = False) -> None:
        """Show the last step that every partition has applied, unless a step was shown just now."""
        reached = self._reached() - 1
        now = self._now_seconds()
        recent = now - self._shown_seconds < SHOW_SECONDS and not at_once
        if reached <= self._shown_step or reached not in self._steps or recent:
            return
        for step in sorted(step for step in self._steps if step < reached):
            self.observer.restored(self._steps.pop(step).accounted)
        self.observer.closed(self._event(self._steps.pop(reached)))
        self._shown_step, self._shown_seconds = reached, now

    def stopped(self, reason: str) -> None:
        """The worker ends: no more steps will be accounted."""
        self.show(at_once=True)
        self.observer.stopped(RunStopped(self._reached(), reason))

    def _reached(self) -> int:
        """The first step that some partition has not applied."""
        return min((accounts.next_step for accounts in self._partitions), default=0)

    def _event(self, decided: Decided) -> StepClosed:
        schedule = decided.schedule
        standing = self._view.standing()
        thresholds = self._partitions[0].accountant.settings.thresholds
        summary = replace(
            _summary(standing, thresholds, schedule.step),
            not_reached=sum(each.accountant.not_reached for each in self._partitions),
            within_nats=self._view.within_nats,
            draws=self._partitions[0].draws,
        )
        return StepClosed(
            step=schedule.step,
            schedule=schedule,
            published={},
            missing=(),
            people=standing.people,
            summary=summary_message(
                *(summary, 0, self._view.assumed, self._attack(standing)),
                self._in_crowd(schedule.step, standing),
                self._partitions[0].over_limit(lambda: standing),
            ),
            latency_seconds=0.0,
            lag_steps=0,
            crowds=decided.crowds,
            accounted=decided.single_steps,
        )

    def _in_crowd(self, step: int, standing: Standing) -> CrowdSummary | None:
        """The summary of the last step against the crowd adversary."""
        crowds = [each.accounts.crowd for each in self._partitions if each.accounts.crowd is not None]
        if standing.crowd is None or len(crowds) < len(self._partitions):
            return None
        summary = _summary(standing.crowd, crowds[0].settings.thresholds, step)
        not_reached = sum(each.not_reached for each in crowds)
        return crowd_message(replace(summary, not_reached=not_reached), crowds[0].adversary)

    def _attack(self, standing: Standing) -> MeanAttack | None:
        """The attack on all people here; None if some partition has none."""
        parts = [each.attack() for each in self._partitions]
        found = [each for part in parts if part is not None for each in part]
        is_whole = all(part is not None for part in parts)
        if not is_whole:
            return None
        guess = mean_guess(standing.baseline, standing.people_each)
        risks = np.minimum(standing.risk, standing.baseline + standing.added)  # the prior's, without a radius
        ceiling = Ranked(risks, standing.people_each).mean()
        return mean_attack(found, guess, self._partitions[0].confidence, ceiling, standing.step)


def _together(step: int, people: Sequence[str], parts: Sequence[Standing]) -> Standing:
    """The figures of partitions, concatenated."""
    risk, baseline, added, habits = (
        np.concatenate([np.empty(0), *(getattr(part, name) for part in parts)])
        for name in ("risk", "baseline", "added", "habits")
    )
    worst = reduce(join_people, (part.worst for part in parts), no_moments(0))
    people_each = np.concatenate([np.empty(0, dtype=np.int64), *(part.people_each for part in parts)])
    return Standing(step, people, people_each, risk, baseline, added, habits, worst)


def _summary(standing: Standing, thresholds: Sequence[float], step: int) -> RiskSummary:
    figures = RiskFigures(standing.risk, standing.baseline, standing.added)
    return summarise(step, figures, thresholds, standing.worst, standing.people_each)
