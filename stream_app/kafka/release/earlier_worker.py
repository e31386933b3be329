"""Whether a worker that must be alone runs already: asked of the broker before anything is taken over."""

from __future__ import annotations

import asyncio
import logging
import time

from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.kafka_exceptions import FencedError
from stream_app.kafka.deployment.deployment import administration

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
