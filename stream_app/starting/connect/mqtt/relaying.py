"""Counts from a broker's topics, and releases to them: one connection, one thread, until asked to stop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from models.exceptions import TallyguardError
from stream_app.starting.connect.mqtt.broker_session import Arrived, BrokerSession
from stream_app.starting.connect.mqtt.retained_releases import RetainedReleases

logger = logging.getLogger(__name__)

_WAIT_SECONDS = 0.2


class Stop(Protocol):
    """Says when to stop."""

    @property
    def is_set(self) -> bool:
        """Whether somebody asked to."""


def relay(
    session: BrokerSession,
    take: Callable[[Sequence[Arrived]], object] | None,
    releases: RetainedReleases | None,
    stop: Stop,
) -> None:
    """Acknowledge messages once they are durable, and send releases, until ``stop`` is set.

    What ``take`` has taken is durable; where it raises, nothing is acknowledged. Releases that cannot be read
    end no intake: what is wrong with them is logged, and raised at the end.
    """
    session.open()
    fault: TallyguardError | None = None
    try:
        while not stop.is_set:
            arrived = session.turn(_WAIT_SECONDS)
            if arrived and take is not None:
                take(arrived)
                session.acknowledge(arrived)
            if releases is not None and fault is None:
                try:
                    releases.advance()
                except TallyguardError as error:
                    if take is None:
                        raise
                    logger.error("no more releases are sent: %s", error)
                    fault = error
    finally:
        session.close()
    if fault is not None:
        raise fault
