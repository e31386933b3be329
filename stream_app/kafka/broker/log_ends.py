"""A look at the ends of logs now and then, for a worker to which nothing comes.

A member that its group has forgotten would wait for ever; one that sees records it was not handed can say so.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from stream_app.kafka.broker.broker_errors import is_passing

logger = logging.getLogger(__name__)

Seen = TypeVar("Seen")


class LogEnds:
    """Looks at most once in ``every_seconds``, and sees nothing while the broker is away."""

    def __init__(self, every_seconds: float, now_seconds: Callable[[], float] = time.monotonic) -> None:
        self._every_seconds = every_seconds
        self._now_seconds = now_seconds
        self._looked_seconds = now_seconds()

    async def look(self, ask: Callable[[], Awaitable[Seen]]) -> Seen | None:
        """What is seen; None if it is too early for another look, or the broker does not answer."""
        if self._now_seconds() - self._looked_seconds < self._every_seconds:
            return None
        try:
            return await ask()
        except Exception as error:  # the client's and sockets' own
            if not is_passing(error):
                raise
            logger.warning("the broker does not answer: %s", str(error) or type(error).__name__)
            return None
        finally:
            self._looked_seconds = self._now_seconds()
