"""What a run leaves in its output folder: releases, decisions, risks, dead letters, the privacy account."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from accounting.ledgers import PrivacyAccount
from accounting.settings import RiskBudget
from models.releases import StepSchedule
from stream_app.embedded.journal import Commit, Journal
from stream_app.steps import ClosedStep, RiskWriter, StepEngine, crowd_message, summary_message, with_worst
from stream_app.watching.budget_metrics import over_limit_counts
from stream_app.watching.people import PeopleView
from stream_app.wire import PRIVATE_REASONS, Rejected, RiskSummary, StepRelease, decision_of, fingerprint_of

MOST_EXPOSED = 10
"""People whom the risk summaries of an output folder name, unless the settings say otherwise."""


class RunOutput:
    """Writes steps in the order that makes a run safe to kill: the release first, then what follows of it.

    ``account`` is what the steps before have spent. ``most_exposed`` people are named by pseudonym in every
    risk summary, by the figures of ``view``. ``limit`` is the rule's, of ceilings in the crowd where these
    decide. ``snapshot`` is given the time after every commit.
    """

    def __init__(
        self,
        journal: Journal,
        risks: RiskWriter,
        account: PrivacyAccount,
        view: PeopleView,
        *,
        most_exposed: int | None = None,
        limit: RiskBudget | None = None,
        decides_in_crowd: bool = False,
        snapshot: Callable[[float], None] | None = None,
    ) -> None:
        self.rejected: Counter[str] = Counter()
        self._journal = journal
        self._risks = risks
        self._account = account
        self.view = view
        self._most_exposed = MOST_EXPOSED if most_exposed is None else most_exposed
        self._limit, self._in_crowd = limit, decides_in_crowd
        self._snapshot = snapshot
        self._last_closed: StepSchedule | None = None

    def begin(self, next_step: int) -> None:
        """Remove what an interrupted run wrote of this step and later ones."""
        self._risks.discard_from(next_step)

    def publish(self, closed: ClosedStep) -> RiskSummary | None:
        """Make a step durable, then write its risks; its summary, where there are people."""
        if not closed.is_replayed:
            decision = decision_of(closed.schedule, closed.why, crowds=closed.crowds)
            self._journal.publish(decision, closed.release)
        self.publish_revised(closed.revised)
        self._account.charge(closed.schedule)
        self._last_closed = closed.schedule
        summary = None
        if self.view.people:
            adversary, crowd = self.view.adversary, None
            if closed.in_crowd is not None and adversary is not None:
                crowd = crowd_message(closed.in_crowd, adversary)
            over = None
            if self._limit is not None:
                over = over_limit_counts(self.view.standing(), self._limit, in_crowd=self._in_crowd)
            summary = summary_message(closed.summary, 0, self.view.assumed, closed.attack, crowd, over)
            self._journal.append_risks(self._naming(summary).line())
        for block in self._risks.blocks(closed.schedule.step, closed.records):
            self._journal.append_risks(block)
        return summary

    def publish_revised(self, releases: Sequence[StepRelease]) -> None:
        """Make late and corrected values durable."""
        for release in releases:
            self._journal.publish_revised(release)

    def reject(self, rejected: Rejected) -> None:
        """Write a dead letter."""
        self._journal.append_rejected(rejected.line())
        if rejected.reason not in PRIVATE_REASONS:
            self.rejected[rejected.reason.value] += 1

    def commit(
        self,
        engine: StepEngine,
        position: Mapping[str, Any],
        now_seconds: float,
        *,
        marks: Sequence[int] = (),
        is_last: bool = False,
    ) -> None:
        """Nothing up to this ``position`` of the input need be done again; ``marks`` belong to it.

        Where nothing changed since the last time, nothing is written.
        """
        decided = self._journal.last_commit.decided
        if self._last_closed is not None:
            decided = fingerprint_of(self._last_closed)
        window = engine.intake.window
        reached = Commit(
            engine.next_step,
            position,
            window.save_position(),
            account=self._account.save(),
            decided=decided,
            marks=marks,
        )
        self._journal.commit(reached, window.take_changed(), whole=is_last)
        if self._snapshot is not None:
            self._snapshot(now_seconds)

    def end(self, outcome: str) -> None:
        """The run ended by itself, with everything committed."""
        self._journal.end(outcome)

    def bytes_written(self) -> Mapping[str, int]:
        """Bytes of this run by file."""
        return self._journal.bytes_written()

    def _naming(self, summary: RiskSummary) -> RiskSummary:
        """The summary as the owner's file has it; observers get it without names."""
        return with_worst(summary, self.view.accountant, self.view.pseudonyms, self._most_exposed)
