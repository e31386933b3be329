"""Everything that runs, and how an event on it is watched."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from kafka.errors import KafkaError

from models.exceptions import TallyguardError
from stream_app.kafka.deployment.deployment import administration
from tests.kafka.cluster.brokers import Cluster, wait_for_copies
from tests.kafka.cluster.public_reader import PublicReader
from tests.rehearsal.cluster.fleet import Ended, Fleet
from tests.rehearsal.cluster.load import Load
from tests.rehearsal.cluster.site import Site
from tests.rehearsal.saying import say, wait_until

SETTLE_SECONDS = 600.0
Answered = TypeVar("Answered")


@dataclass(frozen=True)
class Event:
    """Something that was done under load; ``pause`` is the longest time without a release meanwhile."""

    what: str
    pause_seconds: float
    settled_seconds: float
    ended: tuple[Ended, ...]


@dataclass
class Stage:
    """Brokers, workers, senders, the public; and what was found."""

    cluster: Cluster
    site: Site
    fleet: Fleet
    load: Load
    public: PublicReader
    events: list[Event] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)

    def event(self, what: str, do: Callable[[], None]) -> None:
        """Do it, and wait until what was sent by then, and three steps more, is published and accounted."""
        began, ended = time.monotonic(), len(self.fleet.ended)
        do()
        self.settle()
        now = time.monotonic()
        event = Event(
            what, self.public.longest_pause(began, now), now - began, tuple(self.fleet.ended[ended:])
        )
        self.events.append(event)
        ends = ", ".join(f"{each.worker} started again" for each in event.ended) or "no worker ended"
        say(f"{what}: longest pause {event.pause_seconds:.1f} s, {ends} ({event.settled_seconds:.0f} s)")

    def settle(self) -> int:
        """Until three more steps than were sent are accounted in every partition, and seen; how many."""
        wanted = self.load.sent + 3
        retry_until_answered(lambda: self.site.deployment.wait_for_steps(wanted, SETTLE_SECONDS))
        wait_until(f"{wanted} releases", lambda: self.public.steps >= wanted, SETTLE_SECONDS)
        return wanted

    def fact(self, what: str, found: str) -> None:
        """One line of the report."""
        self.facts.append((what, found))
        say(f"{what}: {found}")

    def leader(self) -> int:
        """The broker that decisions are written to."""
        return retry_until_answered(self._leader)

    def wait_for_copies(self) -> float:
        """Until each broker has everything again; how long that took."""
        began = time.monotonic()
        retry_until_answered(self._wait_for_copies)
        return time.monotonic() - began

    def _leader(self) -> int:
        with administration(self.site.deployment.connection) as admin:
            (topic,) = admin.describe_topics([self.site.deployment.topics.decisions])
        return int(topic["partitions"][0]["leader_id"])

    def _wait_for_copies(self) -> None:
        with administration(self.site.deployment.connection) as admin:
            wait_for_copies(admin, sorted(admin.list_topics()), 3, SETTLE_SECONDS)


def retry_until_answered(ask: Callable[[], Answered]) -> Answered:
    """Ask again where a broker dies while it is asked, as an operator would."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        try:
            return ask()
        except (TallyguardError, KafkaError):
            if time.monotonic() > deadline:
                raise
        time.sleep(1.0)
