"""What is accounted of some people: of all of a run in one process, or of a partition in an account worker.

Everything here is a function of the people, the settings and the steps as they were decided, never of a
count. So accounts are brought up to date from a log of decisions alone, and a snapshot only saves time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import Cells, ContinuousAccountant, digest_of, pack_state, unpack_state
from accounting.continuous.crowd import CrowdAccount
from accounting.continuous.shadow import AttackedPart, MeanAttack, Shadow, recent_step_count
from accounting.decisions.what_if import KnownStep, WhatIf
from accounting.exposure.crowd import StepCrowd
from accounting.settings import HorizonSettings
from models.priors import Population
from models.releases import StepSchedule
from stream_app.setup.release_settings import CROWD
from stream_app.setup.settings import Settings
from stream_app.steps.policy import BudgetPolicy, Decided, Policy, settled
from stream_app.steps.policy.people_shards import new_shadow, people_shares
from stream_app.steps.risk_output import (
    JsonlRisks,
    RiskRecords,
    RiskWriter,
    crowd_message,
    summary_message,
    with_worst,
)
from stream_app.watching.metrics import over_limit_counts, who_is_over
from stream_app.watching.people import Standing
from stream_app.wire import OverLimitCounts, RiskSummary, SampledRisks


class Accounts(NamedTuple):
    """The account against an adversary who knows where all other people are, and the one against the crowd's.

    ``decides`` says whether a risk budget limits the crowd account; by default it limits the informed one.
    ``beside`` are the same people's accounts for each further question that the settings ask, at the same
    step; no limit is about these.
    """

    informed: ContinuousAccountant
    crowd: CrowdAccount | None = None
    decides: bool = False
    beside: tuple[Accounts, ...] = ()

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
        informed = ContinuousAccountant(population, horizon, effective_from, shares, apart, population.told)
        beside = tuple(
            cls.of(
                *(each, replace(horizon, decided=None, question=each.asked_first), population, pseudonyms),
                effective_from,
            )
            for each in settings.beside
        )
        if not settings.has_crowd:
            return cls(informed, beside=beside)
        decides = settings.adversary == CROWD
        limit = settings.refined_limit if decides else None
        adversary = settings.crowd_adversary
        crowd = CrowdAccount(informed, adversary, pseudonyms, limit, population.weights)
        return cls(informed, crowd, decides, beside)

    def held_by(self, settings: Settings, people: tuple[str, ...], cells: Cells) -> Accounts:
        """These accounts before any step, with people in a snapshot's cells; in a crowd, each in its own."""
        if self.crowd is not None:
            return self
        shares = people_shares(people, settings.kafka.partitions)
        beside = tuple(each.held_by(settings, people, cells) for each in self.beside)
        return self._replace(informed=self.informed.held_by(people, cells, shares), beside=beside)

    @property
    def next_step(self) -> int:
        """The step that is applied next."""
        return self.informed.next_step

    def snapshot(self) -> bytes:
        """The state of all accounts, equal for equal histories."""
        states = [each.whole.snapshot() for each in (self, *self.beside)]
        if len(states) == 1:
            return states[0]
        named = {f"question_{k}": np.frombuffer(state, np.uint8) for k, state in enumerate(states)}
        return pack_state(self._cells, named)

    def restore(self, snapshot: bytes) -> None:
        """Load the :meth:`snapshot` of accounts of the same people and questions.

        After a :class:`~accounting.exceptions.SnapshotError` these accounts must not be used.
        """
        if not self.beside:
            self.whole.restore(snapshot)
            return
        everyone = (self, *self.beside)
        like = {f"question_{k}": np.zeros(0, np.uint8) for k in range(len(everyone))}
        stored = unpack_state(snapshot, self._cells, {}, like)
        for name, each in zip(like, everyone, strict=True):
            each.whole.restore(stored[name].tobytes())

    @property
    def whole(self) -> ContinuousAccountant | CrowdAccount:
        """The account that holds the state of both."""
        return self.informed if self.crowd is None else self.crowd

    @property
    def _cells(self) -> dict[str, object]:
        """Who shares an account by each question: a partition keeps that of the first only."""
        return {"accounts": [digest_of(each.informed.holders.account) for each in (self, *self.beside)]}

    @property
    def deciding(self) -> CrowdAccount | None:
        """The crowd's account, if the risk budget limits it."""
        return self.crowd if self.decides else None

    def ask(self, steps: Sequence[StepSchedule]) -> tuple[KnownStep, ...]:
        """What each count of the next steps would hide among; none without a crowd's account."""
        return () if self.crowd is None else tuple(map(KnownStep, steps, self.crowd.ask_ahead(steps)))

    def apply(self, step: StepSchedule, crowds: StepCrowd | None = None) -> None:
        """Account one step; steps come in order without gaps."""
        self.informed.apply(step)
        if self.crowd is not None:
            self.crowd.apply(step, crowds)
        for each in self.beside:
            each.apply(step, crowds)

    def with_people(self, newcomers: Accounts) -> Accounts:
        """These accounts and those of other people, at the same step, as one."""
        informed, crowd = self.informed.with_people(newcomers.informed), None
        if self.crowd is not None and newcomers.crowd is not None:
            crowd = self.crowd.with_people(newcomers.crowd, informed)
        both = zip(self.beside, newcomers.beside, strict=True)
        beside = tuple(own.with_people(others) for own, others in both)
        return self._replace(informed=informed, crowd=crowd, beside=beside)

    def of_people(self, people: NDArray[np.int64]) -> Accounts:
        """The accounts of some of the people, by position."""
        informed = self.informed.of_people(people)
        crowd = None if self.crowd is None else self.crowd.of_people(people, informed)
        beside = tuple(each.of_people(people) for each in self.beside)
        return self._replace(informed=informed, crowd=crowd, beside=beside)

    def reveal_next(self, people: NDArray[np.int64]) -> None:
        """Count on nobody of these, by position, in a crowd at the next step: their habits have changed."""
        if self.crowd is not None:
            self.crowd.others.reveal_next(people)
        for each in self.beside:
            each.reveal_next(people)


class PeopleAccounts:
    """The ceilings of some people and what rests on them, moved on by :meth:`apply`, step by step.

    Beside ``accounts`` it has the attack that is reported with the ceilings, and under a risk budget
    questions about the next step (``what_if``). ``partition`` is said in summaries; ``has_windows`` as for
    :class:`accounting.decisions.what_if.WhatIf`. ``most_exposed`` people are :meth:`named` by their
    ``pseudonyms`` (N,), which default to the accountant's own names. ``beside`` are the same people by each
    further question.
    """

    def __init__(
        self,
        settings: Settings,
        accounts: Accounts,
        *,
        has_windows: bool = False,
        partition: int = 0,
        most_exposed: int = 0,
        pseudonyms: Sequence[str] | None = None,
    ) -> None:
        self.settings, self.partition = settings, partition
        self.has_crowd = settings.has_crowd
        self._has_windows = has_windows
        self._most_exposed, self._pseudonyms = most_exposed, pseudonyms
        self._shadow: Shadow | None = None
        self.what_if: WhatIf | None = None
        self.beside: tuple[PeopleAccounts, ...] = ()
        self.use(accounts)

    def use(self, accounts: Accounts) -> None:
        """Go on with these accounts, at the same step, as where people came or left."""
        self.accounts = accounts
        self._sampled: tuple[int, SampledRisks | None] = -1, None
        before, self._shadow = self._shadow, new_shadow(self.settings, accounts.informed)
        if self._shadow is not None and before is not None:
            self._shadow.take_over_log(before)
        if (limit := self.settings.decided_limit) is not None:
            has_windows = self._has_windows
            self.what_if = WhatIf(accounts.informed, limit, accounts.deciding, has_windows=has_windows)
        if not self.beside:
            self.beside = tuple(
                PeopleAccounts(settings, own, partition=self.partition, pseudonyms=self._pseudonyms)
                for settings, own in zip(self.settings.beside, accounts.beside, strict=True)
            )
            return
        for people, own in zip(self.beside, accounts.beside, strict=True):
            people.use(own)

    def bind(self, policy: Policy) -> None:
        """Let a policy under a risk budget ask these people."""
        if self.what_if is not None and isinstance(policy, BudgetPolicy):
            in_crowd = self.what_if.crowd is not None
            policy.bind(partial(settled, self.what_if), self.what_if.people, in_crowd=in_crowd)

    @property
    def accountant(self) -> ContinuousAccountant:
        """The accounts against an adversary who knows where everybody else is."""
        return self.accounts.informed

    @property
    def crowd(self) -> CrowdAccount | None:
        """The accounts against the crowd adversary, where they are kept."""
        return self.accounts.crowd

    @property
    def next_step(self) -> int:
        """The step that is applied next."""
        return self.accountant.next_step

    @property
    def pseudonyms(self) -> Sequence[str]:
        """The people, in the accountant's order."""
        return self.accountant.people if self._pseudonyms is None else self._pseudonyms

    @property
    def assumed(self) -> str | None:
        """What the habits of people who were not measured rest on; None if all were measured."""
        return self.accountant.population.assumed

    def ask(self, steps: Sequence[StepSchedule]) -> tuple[KnownStep, ...]:
        """As :meth:`Accounts.ask`."""
        return self.accounts.ask(steps)

    def apply(self, decided: Decided) -> None:
        """Account one step; steps come in order without gaps."""
        if self.what_if is not None:  # first: it looks at the accounts before this step
            self.what_if.note(decided.schedule, decided.crowds)
        self.accounts.apply(decided.accounted, decided.crowds)
        self._note(decided.accounted)

    def _note(self, step: StepSchedule) -> None:
        for each in (self, *self.beside):
            if each._shadow is not None:
                each._shadow.note(step)

    def restore(self, steps: Iterable[Decided], on_progress: Callable[[], None] = lambda: None) -> None:
        """Take steps of the log, in order, from :attr:`first_to_restore` on; the new ones are applied."""
        for decided in steps:
            if decided.schedule.step >= self.next_step:
                self.apply(decided)
            else:
                self._note(decided.accounted)
            on_progress()

    @property
    def first_to_restore(self) -> int:
        """The first step to read of a log: the attack looks back at some that a snapshot has applied."""
        recent = 0 if self._shadow is None else recent_step_count(self.accountant.settings.horizon)
        return max(0, self.next_step - recent)

    def attack(self) -> tuple[AttackedPart, ...] | None:
        """The success of an attack on people drawn from these after the last step; None if none is tried."""
        return None if self._shadow is None else self._shadow.attack()

    def mean_attack(self) -> MeanAttack | None:
        """The same over all people; an error where it refutes the ceiling."""
        return None if self._shadow is None else self._shadow.mean()

    def sampled(self) -> SampledRisks | None:
        """What is found by sampling after the last step; None where nobody is looked at so."""
        above = self.settings.sampled_above
        if self._shadow is None or above is None or self._sampled[0] == self.next_step:
            return self._sampled[1]
        standing, limit = self.standing(), self.settings.release.budget.limit
        in_crowd = self.settings.adversary == CROWD
        # Companions are counted with the person: knowing where all others are is not to know more.
        if in_crowd and self.settings.crowd_adversary.companions:
            limit = None
        judged = standing.judged(in_crowd=in_crowd)
        is_over = np.zeros(standing.added.size, dtype=np.bool_)
        if limit is not None:
            is_over, _ = who_is_over(judged, limit)
        found = self._shadow.sampled(above, is_over)
        risks = None
        if found is not None:
            within = None
            if limit is not None:
                lowered = judged.at_most(found.added, self.accountant.settings.within_nats)
                within = judged.count(is_over & ~who_is_over(lowered, limit)[0])
            people, most = standing.count(found.is_looked_at), float(found.added.max(initial=0.0))
            risks = SampledRisks(
                confidence=self.settings.confidence, people=people, most_added=most, within_limit=within
            )
        self._sampled = self.next_step, risks
        return risks

    def standing(self) -> Standing:
        """Everybody's figures after the last step."""
        return Standing.of(self.accountant, self.pseudonyms, self.crowd)

    def summary(self) -> RiskSummary:
        """The last step in a few numbers, without names."""
        crowd = self.crowd
        return summary_message(
            *(self.accountant.summary(), self.partition, self.assumed, self.mean_attack()),
            None if crowd is None else crowd_message(crowd.summary(), crowd.adversary),
            self.over_limit(self.standing),
            self.sampled(),
            {each.settings.question: each.summary() for each in self.beside},
        )

    def named(self, summary: RiskSummary) -> RiskSummary:
        """The summary that names the most exposed people, if the settings ask for it; for the owner only."""
        return with_worst(summary, self.accountant, self.pseudonyms, self._most_exposed)

    def over_limit(self, standing: Callable[[], Standing]) -> OverLimitCounts | None:
        """How many people are over the limit of the rule; None if no limit is set."""
        limit = self.settings.release.budget.limit
        if limit is None:
            return None
        return over_limit_counts(standing(), limit, in_crowd=self.settings.adversary == CROWD)

    def records(self) -> RiskRecords:
        """Risks after the last step of who crossed a threshold; at each ``risk_every``-th step of all."""
        accountant, crowd, step = self.accountant, self.crowd, self.next_step - 1
        is_whole = step % self.settings.risk_every == 0
        person = np.arange(len(accountant.people)) if is_whole else accountant.crossings()
        if crowd is not None and not is_whole:
            person = np.union1d(person, crowd.crossings())
        risks = accountant.risks_of(person)
        return RiskRecords(
            *(person, risks.risk, risks.baseline, risks.added, risks.by),
            None if crowd is None else crowd.risk()[person],
            () if crowd is None else tuple(map(crowd.decided_by, person.tolist())),
        )

    def written(self, summary: RiskSummary | None = None, to: RiskWriter | None = None) -> Iterator[bytes]:
        """What is written of everybody after the last step, in blocks of lines: first its ``summary``."""
        yield self.named(summary or self.summary()).line()
        yield from (to or JsonlRisks(self.pseudonyms)).blocks(self.next_step - 1, self.records())
