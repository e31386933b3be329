"""Asking the account workers what a step would do to their people, before it is decided.

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

from models.releases import StepSchedule
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.topics import LARGE_BYTES, Topics
from stream_app.kafka.deployment.background_listener import BackgroundListener
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.log_reader import reading
from stream_app.kafka.deployment.records import ANSWER
from stream_app.steps.policy import BudgetPolicy, Decided
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
        self._heard: asyncio.Queue[Answer] = asyncio.Queue()
        self._is_listening = asyncio.Event()

    async def start(self) -> None:
        """Listen from now on."""
        from aiokafka import AIOKafkaProducer

        self._producer = AIOKafkaProducer(
            **self._connection.aiokafka(), enable_idempotence=True, max_request_size=LARGE_BYTES
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
        self._hearing.check()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._answer_seconds
        asked: Proposal | None = None
        while negotiation.proposal is not None:
            if negotiation.proposal is not asked:
                asked = negotiation.proposal
                await self._send(asked)
            try:
                negotiation.take(await asyncio.wait_for(self._heard.get(), max(0.0, deadline - loop.time())))
            except TimeoutError:
                missing = ", ".join(map(str, sorted(negotiation.waiting_for)))
                logger.warning("step %d: no answer in time from partitions %s", asked.step, missing)
                return negotiation.give_up()
        decided = negotiation.decided or negotiation.give_up()
        if decided.why is not None and decided.why.people == 0:
            logger.warning(
                "step %d: nobody is accounted, so a risk budget releases nothing: load people with "
                "`tallyguard persons load`, or release with a mechanism that needs none",
                decided.schedule.step,
            )
        return decided

    async def _send(self, proposal: Proposal) -> None:
        """Put a proposal to every partition; that it fits in a record was looked at before the start."""
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


class ProposingPolicy:
    """A risk budget whose accounts are elsewhere; decides on the engine's thread while the loop talks."""

    def __init__(
        self,
        policy: BudgetPolicy,
        proposer: Proposer,
        deployment: Deployment,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._policy = policy
        self._proposer = proposer
        self._partitions = deployment.topics.partitions
        self._source = Source(deployment=deployment.digest, session=secrets.token_hex(8))
        self._loop = loop

    def decide(self, step: int, sensors: Sequence[str]) -> Decided:
        """The decision of all partitions together."""
        decider, coming = self._policy.decider(step, sensors), self._policy.coming(step)
        negotiation = Negotiation(
            decider,
            self._policy.limit,
            self._partitions,
            coming,
            source=self._source,
        )
        return asyncio.run_coroutine_threadsafe(self._proposer.ask(negotiation), self._loop).result()

    def accounted(self, step: StepSchedule) -> None:
        """The account workers hear of it by the log."""
