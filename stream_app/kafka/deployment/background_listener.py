"""A task that hears records beside a worker's own: what the sources of records have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

_AGAIN_SECONDS = 1.0  # a client that is connecting or closing may swallow a cancellation


class BackgroundListener:
    """At most one such task; what ended it by itself comes out of :meth:`check`."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def begin(self, hearing: Coroutine[Any, Any, None]) -> None:
        """Hear these records and no others."""
        await self.stop()
        self._task = asyncio.create_task(hearing)

    async def stop(self) -> None:
        """Hear of nothing any more."""
        task, self._task = self._task, None
        while task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_AGAIN_SECONDS)
        if task is not None and not task.cancelled():
            task.exception()  # of no use any more

    def check(self) -> None:
        """Raise what ended the task, if anything did."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()
