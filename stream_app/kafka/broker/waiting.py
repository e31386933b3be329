"""Saying what a worker waits for, while brokers take long to acknowledge what it writes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

logger = logging.getLogger(__name__)

SAY_SECONDS = 10.0


@asynccontextmanager
async def said_while_waiting(what: str, meanwhile: str) -> AsyncIterator[None]:
    """Warn every :data:`SAY_SECONDS` while the block goes on: brokers are too few, or cannot be reached.

    ``what`` has not been acknowledged; ``meanwhile`` is what does not happen until it is.
    """
    saying = asyncio.create_task(_say(what, meanwhile))
    try:
        yield
    finally:
        saying.cancel()


async def _say(what: str, meanwhile: str) -> None:
    waited_seconds = 0.0
    while True:
        await asyncio.sleep(SAY_SECONDS)
        waited_seconds += SAY_SECONDS
        logger.warning(
            "the brokers have not acknowledged %s for %.0f s; %s until as many of them run, and reach each "
            "other, as min.insync.replicas asks",
            *(what, waited_seconds, meanwhile),
        )
