"""What decides on steps: the release worker, or the coordinator of several regions. Exactly one runs.

It fences whoever wrote before, takes over what that one left, and holds it against the settings and the log.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import ContinuousAccountant
from accounting.exposure.crowd import StepCrowd
from accounting.ledgers import PrivacyAccount
from models.keys import NoiseKey
from models.priors import Population
from models.releases import StepSchedule
from stream_app.exceptions import restoring
from stream_app.kafka.broker.clients import FencedError, LogError, reachable
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.topics import LARGE_BYTES, Topics
from stream_app.kafka.deployment.deployment import (
    HEAD,
    Deployment,
    administration,
    check_basis,
    require_requests,
)
from stream_app.kafka.deployment.log_reader import (
    BackgroundListener,
    claim_key,
    last_decision,
    latest_records,
    read_steps,
    reading,
)
from stream_app.kafka.deployment.records import ANSWER
from stream_app.kafka.process import Job, Pulse, ReleaseCounters, account_a_little, heed_cancellation
from stream_app.kafka.release.desk import INPUTS, Desk, DeskWatch, Inputs
from stream_app.kafka.release.release_core import (
    DecidingCore,
    Flush,
    Progress,
    ReleaseCore,
    Restored,
    restore,
)
from stream_app.kafka.release.release_log import StepRecords, TransactionLog
from stream_app.setup.release_settings import CROWD
from stream_app.setup.run_folder.key_record import check_between_windows
from stream_app.setup.run_folder.manifest import check_reason
from stream_app.setup.run_folder.record import Author, check_head
from stream_app.setup.settings import Settings
from stream_app.steps import Intake, KeyedPublisher, StepClock, StepEngine, StepWindow
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
from stream_app.watching.events import Observer, RunStarted, RunStopped
from stream_app.wire import fingerprint_of

# Whether a worker that must be alone runs already: asked of the broker before anything is taken over.

logger = logging.getLogger(__name__)

_ASK_SECONDS = 0.5
_SESSIONS = 1.5  # a worker that was killed stays a member for one session


async def wait_for_earlier_worker(
    connection: Connection, group: str, session_seconds: float, title: str
) -> None:
    """Return once the group has no member; :class:`FencedError` if one keeps answering the broker."""
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
    """Client names and hosts of a group's members; a broker that just started knows of no group yet."""
    from kafka.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError

    with administration(connection) as admin:
        try:
            described = admin.describe_groups([group])
        except (CoordinatorNotAvailableError, CoordinatorLoadInProgressError):
            return ["the broker is still looking"]
    groups = described.values() if isinstance(described, dict) else described
    return sorted(
        f"{member['client_id']} at {member['client_host']}"
        for each in groups
        for member in each.get("members", ())
    )


# Asking the account workers what a step would do to their people, and among whom it would count them.
#
# A step is asked about only when the steps before it are committed, so that every account is where it must
# be. Answers that do not come in time are answers that allow nothing: the step is suppressed, or released
# as far as everybody has answered for.

_LISTEN_SECONDS = 0.05


class Proposer:
    """Sends proposals, hears answers; on the event loop."""

    def __init__(self, connection: Connection, topics: Topics, answer_seconds: float) -> None:
        self._connection = connection
        self._topics = topics
        self._answer_seconds = answer_seconds
        self._producer: Any = None
        self._hearing = BackgroundListener()
        self._heard: asyncio.Queue[Answer | CrowdAnswer] = asyncio.Queue()
        self._is_listening = asyncio.Event()

    async def start(self) -> None:
        """Listen from now on."""
        from aiokafka import AIOKafkaProducer

        self._producer = AIOKafkaProducer(
            **await reachable(self._connection), enable_idempotence=True, max_request_size=LARGE_BYTES
        )
        await self._producer.start()
        await self._hearing.begin(self._hear())
        while not self._is_listening.is_set():
            self._hearing.check()
            await asyncio.sleep(_LISTEN_SECONDS)

    async def stop(self) -> None:
        """Listen no longer."""
        await self._hearing.stop()
        if self._producer is not None:
            await self._producer.stop()

    async def ask(self, negotiation: Negotiation) -> Decided:
        """Propose and hear answers until there is a decision or the time is over."""
        await self._talk(negotiation)
        decided = negotiation.decided or negotiation.give_up()
        if decided.why is not None and decided.why.people == 0:
            logger.warning(
                "step %d: nobody is accounted, so a risk budget releases nothing: load people with "
                "`tallyguard persons load`, or release with a mechanism that needs none",
                decided.schedule.step,
            )
        return decided

    async def survey(self, survey: CrowdSurvey) -> StepCrowd:
        """Ask for everybody's sums; a partition that does not answer in time hides nobody."""
        await self._talk(survey)
        return survey.crowds

    async def _talk(self, dialogue: Negotiation | CrowdSurvey) -> None:
        """Ask and hear answers until there is nothing to ask any more or the time is over."""
        self._hearing.check()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._answer_seconds
        sent: Proposal | CrowdQuestion | None = None
        while dialogue.proposal is not None:
            if dialogue.proposal is not sent:
                sent = dialogue.proposal
                await self._send(sent)
            try:
                dialogue.take(await asyncio.wait_for(self._heard.get(), max(0.0, deadline - loop.time())))
            except TimeoutError:
                missing = ", ".join(map(str, sorted(dialogue.waiting_for)))
                logger.warning("step %d: no answer in time from partitions %s", sent.step, missing)
                return

    async def _send(self, proposal: Proposal | CrowdQuestion) -> None:
        """Put a question to every partition; that it fits in a record was looked at before the start."""
        line = proposal.line().rstrip()
        for partition in range(self._topics.partitions):
            await self._producer.send(self._topics.proposals, line, partition=partition)
        await self._producer.flush()

    async def _hear(self) -> None:
        """Every answer from now on; what is none is left alone: it allows nothing."""
        from aiokafka import TopicPartition

        where = TopicPartition(self._topics.answers, 0)
        async with reading(self._connection) as consumer:
            consumer.assign([where])
            await consumer.seek_to_end(where)
            await consumer.position(where)
            self._is_listening.set()
            async for record in consumer:
                answer = ANSWER.read_or_warn(record)
                if answer is not None:
                    self._heard.put_nowait(answer)


class Inquirer:
    """Asks from the engine's thread, while the event loop talks."""

    def __init__(self, proposer: Proposer, deployment: Deployment, loop: asyncio.AbstractEventLoop) -> None:
        self._proposer = proposer
        self._loop = loop
        self.partitions = deployment.topics.partitions
        self.source = Source(deployment=deployment.digest, session=secrets.token_hex(8))

    def decision(self, negotiation: Negotiation) -> Decided:
        """The decision of all partitions together."""
        return asyncio.run_coroutine_threadsafe(self._proposer.ask(negotiation), self._loop).result()

    def crowds(self, survey: CrowdSurvey) -> StepCrowd:
        """The sums of all partitions together."""
        return asyncio.run_coroutine_threadsafe(self._proposer.survey(survey), self._loop).result()


class ProposingPolicy:
    """A risk budget whose accounts are elsewhere; ``in_crowd`` where it limits risks in the crowd."""

    def __init__(self, policy: BudgetPolicy, inquirer: Inquirer, *, in_crowd: bool) -> None:
        self._policy = policy
        self._inquirer = inquirer
        self._in_crowd = in_crowd

    def decide(self, step: int, sensors: Sequence[str], crowds: StepCrowd | None = None) -> Decided:
        """The decision of all partitions together."""
        negotiation = Negotiation(
            self._policy.decider(step, sensors),
            self._policy.limit,
            self._inquirer.partitions,
            self._policy.coming(step),
            source=self._inquirer.source,
            crowds=crowds if self._in_crowd else None,
        )
        return self._inquirer.decision(negotiation)

    def accounted(self, step: StepSchedule, crowds: StepCrowd | None = None) -> None:
        """The account workers hear of it by the log."""


class DistantCrowd:
    """The crowd of people whose accounts are elsewhere: sums are asked for, nobody is accounted here."""

    def __init__(self, inquirer: Inquirer) -> None:
        self._inquirer = inquirer

    def ask(self, step: StepSchedule) -> StepCrowd:
        """What each release of the next step would hide among."""
        inquirer = self._inquirer
        return inquirer.crowds(CrowdSurvey(step, inquirer.partitions, inquirer.source))

    def apply(self, step: StepSchedule, crowds: StepCrowd | None = None) -> StepCrowd:
        """The account workers hear of it by the log."""
        return crowds or ()

    def risk(self) -> NDArray[np.float64]:
        """Nobody's."""
        return np.empty(0)

    def crossings(self) -> NDArray[np.int64]:
        """Nobody."""
        return np.empty(0, dtype=np.int64)

    def decided_by(self, person: int) -> str:
        """Nobody is asked about."""
        raise IndexError(person)

    def summary(self) -> None:
        """Each partition has its own."""


_MOST_RELEASES = 20_000  # sensors of all steps in one transaction, but for a single step that has more


class ReleaseRules(NamedTuple):
    """How counts are released; ``schedule`` is the fingerprint of the schedule file the policy follows.

    Who decides and does not publish has no ``noise_key``.
    """

    policy: Policy
    noise_key: NoiseKey | None
    schedule: str | None = None


class Watched(NamedTuple):
    """Whom a worker notifies of what it does."""

    observer: Observer
    counters: ReleaseCounters
    pulse: Pulse


class DecidingWorker(Job):
    """One desk whose core closes steps.

    ``title`` is what messages call it, ``transactional_id`` the name it writes under, without the prefix.
    """

    title: str
    transactional_id: str
    progress_kind: type[Progress] = Progress

    def __init__(
        self,
        deployment: Deployment,
        rules: ReleaseRules,
        watched: Watched,
        *,
        accept_changes: bool = False,
        author: Author | None = None,
    ) -> None:
        self._deployment = deployment
        self._rules = rules
        self._policy = rules.policy
        self._observer, _, self._pulse = watched
        self._watch = DeskWatch(*watched)
        self._accept_changes = accept_changes
        self._author = author or Author.given()
        self._joined = asyncio.Event()
        self._proposer: Proposer | None = None
        self._crowd: DistantCrowd | None = None
        self._clock = self._step_clock()
        self._desk: Desk | None = None
        self._core: DecidingCore | None = None

    @property
    def shared(self) -> str:
        """Any topic: whoever must be alone is given all its partitions."""
        return self._deployment.topics.steps

    @property
    @abstractmethod
    def _logs(self) -> Mapping[str, tuple[str, int]]:
        """The inputs by name: topic and partition of each."""

    @property
    @abstractmethod
    def _progress_topic(self) -> str:
        """Where it stands where to continue."""

    @abstractmethod
    def _step_clock(self) -> StepClock:
        """When steps are over."""

    @abstractmethod
    async def _make_core(
        self, restored: Restored, basis: Mapping[str, object], accountant: ContinuousAccountant, flush: Flush
    ) -> DecidingCore:
        """The core as the last transaction left it.

        The accountant has nobody: it refuses what cannot be accounted before anything is published, and the
        account workers account it for everybody.
        """

    async def prepare(self, app: Any) -> None:
        """Compile, refuse where another one runs, fence whoever comes back, take over the state it left."""
        deployment, topics = self._deployment, self._deployment.topics
        await asyncio.to_thread(account_a_little, deployment)
        await asyncio.to_thread(require_requests, deployment)
        kafka = deployment.settings.kafka
        await wait_for_earlier_worker(deployment.connection, app.conf.id, kafka.session_seconds, self.title)
        log = TransactionLog(
            deployment.connection, f"{topics.prefix}{self.transactional_id}", topics.decisions
        )
        inputs = Inputs(deployment, self._logs)
        self._desk = Desk("engine", deployment, inputs, log, self._watch)
        await log.start()
        await self._propose_where_needed()
        topic = self._progress_topic
        restored = restore(await latest_records(deployment.connection, topic), topic, self.progress_kind)
        progress = restored.progress
        key = self._rules.noise_key
        basis = deployment.release_basis(None if key is None else key.fingerprint(), self._rules.schedule)
        stored = {key: value for key, value in progress.basis.items() if key not in (INPUTS, HEAD)}
        check_basis(stored, basis, accept_changes=self._accept_changes)
        check_reason(stored, {key: basis.get(key) for key in stored}, self._author)
        if progress.basis.get("noise_key", basis["noise_key"]) != basis["noise_key"]:
            check_between_windows(deployment.settings.release.covariance, progress.next_step)
        await self._check_continues(progress)
        offsets, lost = await inputs.take_up(
            progress.offsets, progress.basis.get(INPUTS, {}), accept_changes=self._accept_changes
        )
        await asyncio.to_thread(deployment.record.begin, deployment.basis)
        head = progress.basis.get(HEAD) or {}
        basis |= {HEAD: await asyncio.to_thread(self._note_rule, progress.next_step, basis, head)}
        basis[INPUTS] = inputs.identities
        progress = await self._carry(progress.model_copy(update={"offsets": offsets}))
        flush = Flush(self._desk.flush, _MOST_RELEASES if self._proposer is None else 0)
        nobody = Population.pack((), deployment.location_names)
        accountant = ContinuousAccountant(nobody, deployment.horizon().starting_at(progress.next_step))
        restored = restored.model_copy(update={"progress": progress})
        if key is not None:
            await claim_key(deployment, key, 0, progress.next_step)
        self._core = await self._make_core(restored, basis, accountant, flush)
        await self._desk.begin(self._core, self._clock, [each.letter() for each in lost])
        names = tuple(sensor.name for sensor in deployment.registry.sensors)
        self._observer.started(RunStarted(0, progress.next_step, names))
        logger.info("%s continues at step %d", self.title, progress.next_step)

    def _note_rule(
        self, step: int, basis: Mapping[str, object], head: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Have the rule in the record before the first step is decided by it; the record's new head.

        :class:`LogError` where entries are gone that were there before.
        """
        record = self._deployment.record
        check_head(record.entries(), head, record.record_name)
        return record.hold(step, basis, self._author)

    async def assigned(self, partitions: set[int]) -> None:
        """All of them: with some of them there is another one in the group, and one of the two is fenced.

        Which of them does not follow from the group: one that slept joins again when it wakes.
        """
        assert self._desk is not None  # prepared
        if 0 < len(partitions) < self._deployment.topics.partitions:
            self._desk.doubt()
        self._joined.set()

    async def run(self) -> None:
        """Once the group knows us, until cancelled."""
        while not self._joined.is_set():
            heed_cancellation()
            self._pulse.beat(has_work=False)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._joined.wait(), 1.0)
        assert self._desk is not None  # prepared
        await self._desk.run()

    async def finish(self, reason: str) -> None:
        """Leave; records that were not committed will be read again."""
        self._observer.stopped(RunStopped(0 if self._core is None else self._core.next_step, reason))
        if self._desk is not None:
            await self._desk.stop()
        if self._proposer is not None:
            await self._proposer.stop()

    async def _propose_where_needed(self) -> None:
        """With a risk budget or a crowd the account workers are asked before each decision."""
        deployment, settings = self._deployment, self._deployment.settings
        if not isinstance(self._policy, BudgetPolicy) and not settings.has_crowd:
            return
        self._proposer = Proposer(deployment.connection, deployment.topics, settings.kafka.answer_seconds)
        await self._proposer.start()
        inquirer = Inquirer(self._proposer, deployment, asyncio.get_running_loop())
        if isinstance(self._policy, BudgetPolicy):
            self._policy = ProposingPolicy(self._policy, inquirer, in_crowd=settings.adversary == CROWD)
        if settings.has_crowd:
            self._crowd = DistantCrowd(inquirer)

    async def _check_continues(self, progress: Progress) -> None:
        """A progress that was lost, or is another log's, would publish steps a second time."""
        topics, topic = self._deployment.topics, self._progress_topic
        last = await last_decision(self._deployment.connection, topics.decisions)
        decided = 0 if last is None else last.step + 1
        if decided != progress.next_step:
            raise LogError(
                f"{topic} must say to go on at step {decided}, where {topics.decisions} ends",
                f"step {progress.next_step}",
                "both are written together, so one of them was changed or lost: "
                + restoring(f"{topic}, {topics.decisions} and {topics.releases}"),
            )
        logged = None if last is None else fingerprint_of(self._deployment.schedule_of(last))
        charged = progress.account.get("steps", decided)
        if charged != decided or progress.decided not in (None, logged):
            raise LogError(
                f"{topic} must belong to the steps of {topics.decisions}",
                f"another step {decided - 1}, or another number of them",
                "both are written together, so one of them was changed or lost: "
                + restoring(f"{topic} and {topics.decisions}"),
            )

    async def _carry(self, progress: Progress) -> Progress:
        """Go on with what earlier runs have spent; the log is read only where no progress says it in full."""
        account = PrivacyAccount.load(progress.account) if progress.account else None
        if account is None or not account.is_of_this_version:
            account = PrivacyAccount(sensor.group for sensor in self._deployment.registry.sensors)
            decisions = self._deployment.topics.decisions
            async for decision in read_steps(self._deployment.connection, decisions, 0, progress.next_step):
                account.charge(self._deployment.schedule_of(decision))
        self._observer.carried(account)
        return progress.model_copy(update={"account": account.save()})


# The release worker: one process that takes counts in, closes steps, draws values, writes the logs.


class ReleaseWorker(DecidingWorker):
    """Runs one engine between the input topics and the logs."""

    title = "release worker"
    transactional_id = "release"

    @property
    def _logs(self) -> Mapping[str, tuple[str, int]]:
        topics = self._deployment.topics
        return {topic: (topic, 0) for topic in (topics.activations, topics.readings)}

    @property
    def _progress_topic(self) -> str:
        return self._deployment.topics.progress

    def _step_clock(self) -> StepClock:
        return StepClock.of(self._deployment.settings)

    async def _make_core(
        self, restored: Restored, basis: Mapping[str, object], accountant: ContinuousAccountant, flush: Flush
    ) -> ReleaseCore:
        settings, registry = self._deployment.settings, self._deployment.registry
        key = self._rules.noise_key
        assert key is not None  # who publishes has one
        engine = StepEngine(
            Intake(registry, restored_window(settings, restored), settings.max_ahead),
            self._policy,
            KeyedPublisher.of(settings, key),
            accountant,
            risk_every=settings.risk_every,
            crowd=self._crowd,
        )
        await self._recall(engine)
        topics = self._deployment.topics
        written = StepRecords(topics, self._deployment.digest)
        return ReleaseCore(engine, self._clock, restored.progress, basis, flush, topics, written)

    async def _recall(self, engine: StepEngine) -> None:
        """Tell the engine what was decided of the closed steps of which more values are published."""
        connection, decisions = self._deployment.connection, self._deployment.topics.decisions
        steps = read_steps(connection, decisions, engine.intake.window.first_revisable, engine.next_step)
        engine.recall([self._deployment.schedule_of(decision) async for decision in steps])


def restored_window(settings: Settings, restored: Restored) -> StepWindow:
    """The open steps as the last transaction left them."""
    window = StepWindow.of(settings)
    if saved := restored.window():
        window.load(saved)
    return window
