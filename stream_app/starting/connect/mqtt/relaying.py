"""Counts from a broker's topics, and releases to them: one connection, one thread, until asked to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from stream_app.starting.connect.mqtt.broker_session import Arrived, BrokerSession
from stream_app.starting.connect.mqtt.retained_releases import RetainedReleases

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

    What ``take`` has taken is durable; where it raises, nothing is acknowledged.
    """
    session.open()
    try:
        while not stop.is_set:
            arrived = session.turn(_WAIT_SECONDS)
            if arrived and take is not None:
                take(arrived)
                session.acknowledge(arrived)
            if releases is not None:
                releases.advance()
    finally:
        session.close()
