"""A task that hears records beside a worker's own: what the sources of records have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


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
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def check(self) -> None:
        """Raise what ended the task, if anything did."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()
