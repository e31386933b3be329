"""Asking the account workers what a step would do to their people, and among whom it would count them.

A step is asked about only when the steps before it are committed, so that every account is where it must be.
Answers that do not come in time are answers that allow nothing: the step is suppressed, or released as far
as everybody has answered for.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.exposure.crowd import StepCrowd
from models.releases import StepSchedule
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.reachable import reachable
from stream_app.kafka.broker.topics import LARGE_BYTES, Topics
from stream_app.kafka.deployment.background_listener import BackgroundListener
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.log_reader import reading
from stream_app.kafka.deployment.records import ANSWER
from stream_app.steps.policy import BudgetPolicy, Decided
from stream_app.steps.policy.crowd_sums import CrowdAnswer, CrowdQuestion, CrowdSurvey
from stream_app.steps.policy.proposals import Answer, Negotiation, Proposal, Source

logger = logging.getLogger(__name__)

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
