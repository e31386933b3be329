"""The worker that decides on steps: the release worker, or the coordinator of several regions.

Exactly one runs. When it starts, it fences the worker that wrote before, takes over the state which that one
left, and compares it with the settings and the log.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

from accounting.continuous import ContinuousAccountant
from accounting.decisions.what_if import KnownStep
from accounting.exposure.crowd import StepCrowd, with_strangers
from models.calendar import slots_by_the_clock
from models.keys import NoiseKey
from models.priors import Population
from models.releases import StepSchedule
from stream_app.exceptions import RunChangedError, restoring
from stream_app.kafka.broker.clients import FencedError, LogError, Writer
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.streams import App, Batch
from stream_app.kafka.broker.topics import LARGE_BYTES
from stream_app.kafka.deployment.deployment import (
    INPUTS,
    LOOKED_AT,
    RECORD_HEAD,
    Deployment,
    administration,
    require_requests,
)
from stream_app.kafka.deployment.log_reader import (
    accounted_steps,
    bounds,
    claim_key,
    last_decision,
    latest_records,
)
from stream_app.kafka.deployment.records import ANSWER
from stream_app.kafka.release.release_core import DecidingCore, ReleaseCore
from stream_app.kafka.release.release_log import TopicLog, TransactionLog, restore
from stream_app.kafka.release.stream_task import InputLogs, StreamTask, TaskMonitor
from stream_app.kafka.warm_up import compile_kernels
from stream_app.kafka.worker_process import Job, stop_if_cancelled
from stream_app.setup.declared import bounded_days
from stream_app.setup.release_settings import CROWD
from stream_app.setup.run_folder.facts import NETWORK
from stream_app.setup.run_folder.manifest import check_reason
from stream_app.setup.run_folder.record import Author, check_head
from stream_app.setup.settings import Settings
from stream_app.steps import (
    DeviceWatch,
    KeyedPublisher,
    Position,
    Spent,
    StepClock,
    StepEngine,
    StepWindow,
    carried,
    charge_rest,
    first_free_step,
    resume,
)
from stream_app.steps.policy import BudgetPolicy, Decided, Policy
from stream_app.steps.policy.proposals import (
    Answer,
    CrowdAnswer,
    CrowdQuestion,
    CrowdSurvey,
    Negotiation,
    Proposal,
    Source,
)
from stream_app.watching.events import RunStarted, RunStopped

logger = logging.getLogger(__name__)

_ASK_SECONDS = 0.5
_SESSIONS = 1.5


async def wait_for_earlier_worker(
    connection: Connection, group: str, session_seconds: float, title: str
) -> None:
    """Return once the group has no member; :class:`FencedError` if another worker stays alive.

    Asked before anything is taken over. A worker that was killed remains a member for one session.
    """
    deadline = time.monotonic() + _SESSIONS * session_seconds + 2 * _ASK_SECONDS
    members = await asyncio.to_thread(_members, connection, group)
    if members:
        logger.info("waiting for the session of an earlier %s to end: %s", title, ", ".join(members))
    while members:
        if time.monotonic() > deadline:
            raise FencedError(
                f"only one {title} may run",
                f"another one is alive ({', '.join(members)})",
                "stop that one first; this one has changed nothing",
            )
        await asyncio.sleep(_ASK_SECONDS)
        members = await asyncio.to_thread(_members, connection, group)


def _members(connection: Connection, group: str) -> list[str]:
    """Client names and hosts of a group's members."""
    from kafka.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError

    with administration(connection) as admin:
        try:
            described = admin.describe_groups([group])
        except (CoordinatorNotAvailableError, CoordinatorLoadInProgressError):
            return ["the broker does not know yet"]  # it has just started, and knows of no group yet
    groups = described.values() if isinstance(described, dict) else described
    return sorted(
        f"{member['client_id']} at {member['client_host']}"
        for each in groups
        for member in each.get("members", ())
    )


# Asking the account workers what a step would do to their people, and how many people its counts would hide
# among. A step is asked about only when the steps before it are committed, so that every account has reached
# it. A partition that does not answer in time allows nothing: the step is suppressed, or released as far as
# all partitions have answered.


class Proposer(Writer):
    """Sends questions to account workers and collects their answers.

    It runs on the event loop; :meth:`decide` and :meth:`survey` are called by the engine, on another thread.
    """

    def __init__(self, deployment: Deployment, first: int = 0) -> None:
        """``first`` is the step that is decided next."""
        super().__init__(deployment.connection, enable_idempotence=True, max_request_size=LARGE_BYTES)
        self._topics = deployment.topics
        self._answer_seconds = deployment.settings.kafka.answer_seconds
        self._loop = asyncio.get_running_loop()
        self._answers: asyncio.Queue[Answer | CrowdAnswer] = asyncio.Queue()
        self.partitions = deployment.topics.partitions
        self.source = Source(deployment=deployment.facts.digest_at(first), session=secrets.token_hex(8))

    async def start(self) -> None:
        """Connect, and note where answers to questions from now on begin."""
        await super().start()
        _, self.answers_from = await bounds(self._connection, self._topics.answers)

    def decide(self, negotiation: Negotiation) -> Decided:
        """The decision of all partitions together."""
        self._wait_for(self._ask(negotiation))
        decided = negotiation.decided or negotiation.give_up()
        if decided.why is not None and decided.why.people == 0:
            logger.warning(
                "step %d: nobody is accounted, so a risk budget releases nothing: load people with "
                "`tallyguard persons load`, or release with a mechanism that needs none",
                decided.schedule.step,
            )
        return decided

    def survey(self, survey: CrowdSurvey) -> tuple[StepCrowd, ...]:
        """The sums of all partitions; one that does not answer in time counts as if it had nobody."""
        self._wait_for(self._ask(survey))
        return survey.crowds

    def _wait_for(self, asking: Coroutine[Any, Any, None]) -> None:
        """On the engine's thread: wait for work on the event loop."""
        asyncio.run_coroutine_threadsafe(asking, self._loop).result()

    async def _ask(self, dialogue: Negotiation | CrowdSurvey) -> None:
        """Ask and take answers until there is nothing more to ask, or the time is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._answer_seconds
        sent: Proposal | CrowdQuestion | None = None
        while dialogue.proposal is not None:
            if dialogue.proposal is not sent:
                sent = dialogue.proposal
                await self._send(sent)
            try:
                dialogue.take(await asyncio.wait_for(self._answers.get(), max(0.0, deadline - loop.time())))
            except TimeoutError:
                missing = ", ".join(map(str, sorted(dialogue.waiting_for)))
                logger.warning("step %d: no answer in time from partitions %s", sent.step, missing)
                return

    async def _send(self, proposal: Proposal | CrowdQuestion) -> None:
        """Send a question to every partition; its size was checked when the worker started."""
        line = proposal.line().rstrip()
        for partition in range(self.partitions):
            await self._producer.send(self._topics.proposals, line, partition=partition)
        await self._producer.flush()

    def receive(self, batch: Batch) -> None:
        """Queue every answer; a record that is none is skipped, and so allows nothing."""
        for record in batch.records:
            answer = ANSWER.read_or_warn(record)
            if answer is not None:
                self._answers.put_nowait(answer)


class RemoteAccounts:
    """People whose accounts are in other processes, which read each step from the log.

    Here the account of ``nobody`` refuses a step that cannot be accounted before anything of it is published.
    Account workers (``proposer``) are asked before each decision where ``settings`` have a risk budget or a
    crowd, whose strangers are beside the people.
    """

    def __init__(
        self, nobody: ContinuousAccountant, settings: Settings, proposer: Proposer | None = None
    ) -> None:
        self._nobody, self._settings, self._proposer = nobody, settings, proposer
        self.has_crowd = settings.has_crowd

    def ask(self, steps: Sequence[StepSchedule]) -> tuple[KnownStep, ...]:
        """What each count of the next steps would hide among."""
        if self._proposer is None or not self.has_crowd:
            return ()
        survey = CrowdSurvey(steps, self._proposer.partitions, self._proposer.source)
        clock, adversary, found = self._nobody.settings, self._settings.crowd_adversary, []
        for step, crowds in zip(steps, self._proposer.survey(survey), strict=True):
            slots = slots_by_the_clock(clock.first_slot, step.step, clock.calendar)
            found.append(KnownStep(step, with_strangers(step, crowds, adversary, *slots)))
        return tuple(found)

    def bind(self, policy: Policy) -> None:
        """Let a policy under a risk budget ask all partitions together."""
        proposer, in_crowd = self._proposer, self._settings.adversary == CROWD
        if proposer is None or not isinstance(policy, BudgetPolicy):
            return
        limit, source, partitions = policy.limit, proposer.source, proposer.partitions
        policy.bind(
            lambda decider, known, coming: proposer.decide(
                Negotiation(
                    *(decider, limit, partitions, coming), source=source, known=known if in_crowd else ()
                )
            ),
            in_crowd=in_crowd,
        )

    def apply(self, decided: Decided) -> None:
        """See whether it can be accounted."""
        self._nobody.apply(decided.accounted)

    def summary(self) -> None:
        """None: each partition of people has its own."""


_MOST_RELEASES = 20_000  # in one transaction, unless a single step has more


class DecidingWorker(Job):
    """Runs one task whose core closes steps.

    ``title`` is its name in messages, ``transactional_id`` the name it writes under, without the prefix.
    ``schedule`` is the fingerprint of the schedule file that the policy follows. A worker that decides
    without publishing has no ``noise_key``.
    """

    title: str
    transactional_id: str
    core_kind: type[DecidingCore]

    def __init__(
        self,
        deployment: Deployment,
        policy: Policy,
        noise_key: NoiseKey | None,
        monitor: TaskMonitor,
        *,
        schedule: str | None = None,
        accept_changes: bool = False,
        author: Author | None = None,
    ) -> None:
        self._deployment = deployment
        self._policy = policy
        self._noise_key = noise_key
        self._schedule = schedule
        self._monitor = monitor
        self._accept_changes = accept_changes
        self._author = author or Author.given()
        self._joined = asyncio.Event()
        self._proposer: Proposer | None = None
        self._clock = self._step_clock()
        self._task: StreamTask | None = None
        self._core: DecidingCore | None = None

    @property
    @abstractmethod
    def _logs(self) -> Mapping[str, tuple[str, int]]:
        """The inputs by name: topic and partition of each."""

    @abstractmethod
    def _step_clock(self) -> StepClock:
        """When steps are over."""

    @abstractmethod
    def _engine(self, position: Position, accounts: RemoteAccounts) -> StepEngine:
        """The engine with its window as the last transaction left it."""

    def agents(self, app: App) -> None:
        """Inputs, and answers of the account workers: the only worker of the group is given all of them."""
        task, proposer = self._task, self._proposer
        assert task is not None  # prepared

        for topic in sorted({topic for topic, _ in self._logs.values()}):

            @app.agent(app.batches(topic))
            async def inputs(batches: AsyncIterator[Batch]) -> None:
                async for batch in batches:
                    await task.receive(batch.records)

        if proposer is not None:

            @app.agent(app.batches(self._deployment.topics.answers))
            async def answers(batches: AsyncIterator[Batch]) -> None:
                async for batch in batches:
                    proposer.receive(batch)

    async def prepare(self, app: App) -> None:
        """Take over: compile, refuse to run beside another worker, fence the earlier one, restore its state.

        The order matters: nothing is written before the state agrees with the settings and the log, and the
        rule of the next step is in the record before that step is decided.
        """
        self._app = app
        deployment, topics = self._deployment, self._deployment.topics
        await asyncio.to_thread(compile_kernels, deployment)
        await asyncio.to_thread(require_requests, deployment)
        kafka = deployment.settings.kafka
        await wait_for_earlier_worker(deployment.connection, app.conf.id, kafka.session_seconds, self.title)
        log = TransactionLog(
            deployment.connection, f"{topics.prefix}{self.transactional_id}", topics.decisions
        )
        inputs = InputLogs(deployment, self._logs)
        self._task = StreamTask("engine", deployment, inputs, log, self._monitor, app)
        await log.start()  # fences the earlier worker: nothing is written any more to what is read below
        topic = f"{topics.prefix}{self.core_kind.continues}"
        latest = await latest_records(deployment.connection, topic)
        progress = restore(latest, topic, self.core_kind.position_kind)
        own = TopicLog(topics, progress, self._task.write, self._task.read, continues=topic)
        has_begun = await asyncio.to_thread(deployment.read_record) is not None
        network = deployment.grown(accept_changes=self._accept_changes)
        key = self._noise_key
        basis = deployment.release_basis(None if key is None else key.fingerprint(), self._schedule)
        stored = deployment.check_continued(
            *(progress.basis, basis, progress.next_step, first_free_step(progress.window)),
            accept_changes=self._accept_changes,
        )
        known = deployment.facts.network
        before, now = ({} if each is None else {NETWORK: each.save()} for each in (known, network))
        said = stored.keys() | (LOOKED_AT if stored else set())  # a default is left out
        check_reason(
            {**stored, **before},
            {**{key: basis.get(key) for key in said}, **(now if before else {})},
            self._author,
        )
        spent = await self._carried(own, topic)
        progress, lost = await inputs.resume(progress, accept_changes=self._accept_changes)
        if has_begun:
            if deployment.looks_otherwise:
                await asyncio.to_thread(deployment.require_chains)
                await self._require_accounted(progress.next_step)
            await asyncio.to_thread(deployment.join, is_deciding=True)
        else:
            await asyncio.to_thread(deployment.record.begin, deployment.basis)
        head, facts = progress.basis.get(RECORD_HEAD) or {}, {**basis, **deployment.facts_of(network)}
        basis |= {RECORD_HEAD: await asyncio.to_thread(self._note_rule, progress.next_step, facts, head)}
        await asyncio.to_thread(deployment.join)
        basis[INPUTS] = inputs.identities
        own.position = progress.model_copy(update={"basis": basis})
        if key is not None:
            await claim_key(deployment, key, 0, progress.next_step)
        engine = self._engine(progress, await self._remote_accounts(progress.next_step))
        await asyncio.to_thread(self._resume, engine, own, spent)
        digest = deployment.facts.digest_at(progress.next_step)
        self._core = self.core_kind(engine, self._clock, own, self._commit_above, deployment=digest)
        await self._task.begin(self._core, self._clock, lost)
        self._monitor.observer.started(RunStarted(0, progress.next_step))
        logger.info("%s continues at step %d", self.title, progress.next_step)

    async def _require_accounted(self, step: int) -> None:
        """:class:`RunChangedError` while accounts of earlier steps would be looked at as from ``step`` on."""
        accounted = await accounted_steps(self._deployment.connection, self._deployment.topics)
        if accounted < step:
            raise RunChangedError(
                "all steps that were decided must be accounted before thresholds, sharpening, a check of the "
                "priors, the crowd, posterior_draws or holidays change",
                f"not yet steps {accounted} to {step - 1}",
                "let account workers run until they have caught up (lag on their page), then start it again",
            )

    def _resume(self, engine: StepEngine, log: TopicLog, spent: Spent) -> None:
        """Bring the engine to the log's position, on a thread of its own: the log may have to be read."""
        deployment = self._deployment
        days = bounded_days(deployment.settings, deployment.registry)
        charge_rest(spent, log, deployment.decided, deployment.facts.registries.groups, days)
        self._monitor.observer.carried(spent.account)
        resume(engine, log, deployment.decided, spent)

    @property
    def _commit_above(self) -> int:
        return 0 if self._proposer is not None else _MOST_RELEASES

    def _note_rule(
        self, step: int, basis: Mapping[str, object], head: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Write the rule to the record before the first step is decided by it; the record's new head.

        Raises :class:`LogError` if entries that were there before are gone.
        """
        record = self._deployment.record
        check_head(record.entries(), head, record.record_name)
        return record.hold(step, basis, self._author, self._deployment.description)

    async def assigned(self, partitions: set[int]) -> None:
        """Normally once. Another time, another worker may be in the group, and one of the two is fenced.

        The group does not tell which one: a worker that was suspended joins again when it wakes up.
        """
        assert self._task is not None  # prepared
        if self._joined.is_set():
            self._task.check_fence()
        self._joined.set()

    async def run(self) -> None:
        """Work from the time this process is a member of the group until cancelled."""
        while not self._joined.is_set():
            stop_if_cancelled()
            self._monitor.pulse.beat(has_work=False)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._joined.wait(), 1.0)
        assert self._task is not None  # prepared
        if self._proposer is not None:
            await self._app.read_from(self._deployment.topics.answers, 0, self._proposer.answers_from)
        await self._task.run()

    async def finish(self, reason: str) -> None:
        """Leave the group; records that were not committed will be read again."""
        self._monitor.observer.stopped(RunStopped(0 if self._core is None else self._core.next_step, reason))
        if self._task is not None:
            await self._task.stop()
        if self._proposer is not None:
            await self._proposer.stop()

    async def _remote_accounts(self, first: int) -> RemoteAccounts:
        """The people; with a risk budget or a crowd, account workers are asked before each decision."""
        settings, horizon = self._deployment.settings, self._deployment.horizon().starting_at(first)
        nobody = ContinuousAccountant(Population.pack((), self._deployment.location_names), horizon)
        if settings.decided_limit is None and not settings.has_crowd:
            return RemoteAccounts(nobody, settings)
        self._proposer = Proposer(self._deployment, first)
        await self._proposer.start()
        accounts = RemoteAccounts(nobody, settings, self._proposer)
        accounts.bind(self._policy)
        return accounts

    async def _carried(self, log: TopicLog, topic: str) -> Spent:
        """What was spent on privacy so far; refuses a position that is not at the end of the decisions."""
        topics, next_step = self._deployment.topics, log.position.next_step
        last = await last_decision(self._deployment.connection, topics.decisions)
        decided = 0 if last is None else last.step + 1
        if decided != next_step:
            raise LogError(
                f"{topic} must say to go on at step {decided}, where {topics.decisions} ends",
                f"step {next_step}",
                "both are written together, so one of them was changed or lost: "
                + restoring(f"{topic}, {topics.decisions} and {topics.releases}"),
            )
        return await asyncio.to_thread(carried, log, self._deployment.decided, self._policy.note)


class ReleaseWorker(DecidingWorker):
    """The one process that takes in counts, closes steps, draws values and writes the logs."""

    title = "release worker"
    transactional_id = "release"
    core_kind = ReleaseCore

    @property
    def _logs(self) -> Mapping[str, tuple[str, int]]:
        topics = self._deployment.topics
        return {topic: (topic, 0) for topic in (topics.activations, topics.readings)}

    def _step_clock(self) -> StepClock:
        return StepClock.of(self._deployment.settings)

    def _engine(self, position: Position, accounts: RemoteAccounts) -> StepEngine:
        deployment, settings = self._deployment, self._deployment.settings
        assert self._noise_key is not None  # a worker that publishes has one
        return StepEngine(
            deployment.intake(StepWindow.of(settings, saved=position.window)),
            self._policy,
            KeyedPublisher.of(settings, self._noise_key),
            accounts,
            devices=DeviceWatch.of(settings.quality, deployment.registry),
        )
