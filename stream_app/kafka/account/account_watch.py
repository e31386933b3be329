"""What an account worker shows of all its partitions together: metrics, page, people by pseudonym.

Every step is accounted and its risks are written; under load they are shown only a few times a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from accounting.continuous import Ranked, RiskFigures, summarise
from accounting.continuous import RiskSummary as Figures
from accounting.continuous.shadow import MeanAttack, mean_attack
from stream_app.kafka.account.partition_accounts import PartitionAccounts
from stream_app.kafka.worker_metrics import AccountCounters
from stream_app.steps import PeopleAccounts, crowd_message, sampled_together, summary_message
from stream_app.steps.policy import Decided
from stream_app.watching.events import Observer, RunStarted, RunStopped, StepClosed
from stream_app.watching.people import PeopleView, Standing, standing_of
from stream_app.watching.prior_notes import basis_note
from stream_app.wire import CrowdSummary, RiskSummary

SHOW_SECONDS = 0.5
NOBODY_HERE = (
    "nobody is loaded on this worker's partitions (`tallyguard persons load` does it), so it computes no "
    "risk of persons; the release worker promises differential privacy, as far as releases are noised"
)
NO_HINDSIGHT = "not computed: account workers keep no log; `tallyguard audit --hindsight` takes a schedule"


def view_of(partitions: Sequence[PartitionAccounts]) -> PeopleView:
    """The people of several partitions, one partition after the other.

    People join and change, so no log reaches back to their first step.
    """
    view = PeopleView(partitions, beside=NO_HINDSIGHT)
    settings = partitions[0].settings if partitions else None
    if settings is None or not view.people:
        view.note = NOBODY_HERE
    else:
        view.note = basis_note(view.people, view.assumed, settings.priors_check, settings.draws)
    return view


class AccountWatch:
    """Turns changes of the partitions into events for the observer."""

    def __init__(
        self,
        observer: Observer,
        counters: AccountCounters,
        now_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.observer = observer
        self.counters = counters
        self._now_seconds = now_seconds
        self._partitions: tuple[PartitionAccounts, ...] = ()
        self._view = view_of(())
        self._steps: dict[int, Decided] = {}
        self._shown_seconds = -np.inf
        self._shown_step = -1

    def owns(self, partitions: Iterable[PartitionAccounts]) -> None:
        """The partitions, or their people, have changed."""
        self._partitions = tuple(partitions)
        self._view = view_of(self._partitions)
        self.counters.partitions.set(len(self._partitions))
        view = self._view if self._partitions else None
        self.observer.started(RunStarted(self._view.people, self._reached(), view))

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
        schedule, standing = decided.schedule, standing_of(self._partitions)
        return StepClosed(
            step=schedule.step,
            schedule=schedule,
            published={},
            missing=(),
            people=standing.people,
            summary=_summary_of(self._partitions, standing, self._view.assumed),
            latency_seconds=0.0,
            lag_steps=0,
            crowds=decided.crowds,
            accounted=decided.single_steps,
        )


def _summary_of(parts: Sequence[PeopleAccounts], standing: Standing, assumed: str | None) -> RiskSummary:
    """The summary of the last step over all partitions, with that of each further question."""
    first = parts[0]
    figures = replace(
        _figures(standing, first),
        not_reached=sum(each.accountant.not_reached for each in parts),
        within_nats=first.accountant.settings.within_nats,
        draws=first.settings.draws,
    )
    return summary_message(
        *(figures, 0, assumed, _attack(parts, standing)),
        *(_in_crowd(parts, standing), first.over_limit(lambda: standing)),
        sampled_together([each.sampled() for each in parts]),
        {
            own[0].settings.question: _summary_of(own, standing_of(own), assumed)
            for own in zip(*(each.beside for each in parts), strict=True)
        },
    )


def _in_crowd(parts: Sequence[PeopleAccounts], standing: Standing) -> CrowdSummary | None:
    """The summary of the last step against the crowd adversary."""
    crowds = [each.crowd for each in parts if each.crowd is not None]
    if standing.crowd is None or len(crowds) < len(parts):
        return None
    not_reached = sum(each.not_reached for each in crowds)
    figures = replace(_figures(standing.crowd, parts[0]), not_reached=not_reached)
    return crowd_message(figures, crowds[0].adversary)


def _attack(parts: Sequence[PeopleAccounts], standing: Standing) -> MeanAttack | None:
    """The attack on all people here; None if some partition has none."""
    tried = [each.attack() for each in parts]
    found = [each for part in tried if part is not None for each in part]
    if any(part is None for part in tried):
        return None
    guess = Ranked(standing.baseline, standing.people_each).mean()
    risks = np.minimum(standing.risk, standing.baseline + standing.added)  # the prior's, without a radius
    ceiling = Ranked(risks, standing.people_each).mean()
    return mean_attack(found, guess, parts[0].settings.confidence, ceiling, standing.step)


def _figures(standing: Standing, of: PeopleAccounts) -> Figures:
    figures = RiskFigures(standing.risk, standing.baseline, standing.added)
    thresholds = of.accountant.settings.thresholds
    return summarise(standing.step, figures, thresholds, standing.worst, standing.people_each)
