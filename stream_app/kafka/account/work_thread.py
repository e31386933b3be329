"""The thread that an account worker's numeric work is done on, one piece after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from stream_app.kafka.process.worker import Pulse

Result = TypeVar("Result")


class WorkThread:
    """Work off the event loop, so that the group keeps hearing from us."""

    def __init__(self, pulse: Pulse) -> None:
        self.pulse = pulse
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="accountant")

    async def do(self, work: Callable[[], Result]) -> Result:
        """What a piece of work gives; while it is done there is work, which must move."""
        future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        while not future.done():
            await asyncio.wait({future}, timeout=1.0)
            self.pulse.beat(has_work=True)
        return future.result()

    def stop(self) -> None:
        """Take no more work."""
        self._thread.shutdown(wait=False)
