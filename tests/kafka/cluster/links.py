"""Connections that pass through this process, so that they can be cut as a network is: silently.

While a link is cut nothing passes, and nobody is told: connections stay, what was sent waits, as on a machine
that is suddenly unreachable. Once it is mended whatever waited arrives, for those who have not given up.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, NamedTuple

_CHUNK_BYTES = 2**16


class Address(NamedTuple):
    """Where something listens."""

    host: str
    port: int


class Link:
    """Whoever connects to ``listens`` speaks to ``target``, while the link is not cut."""

    def __init__(self, listens: Address, target: Address) -> None:
        self.listens = listens
        self._target = target
        self._passes = asyncio.Event()
        self._passes.set()

    async def open(self) -> asyncio.Server:
        """Listen."""
        return await asyncio.start_server(self._connected, *self.listens)

    def cut(self) -> None:
        """Nothing passes from now on."""
        self._passes.clear()

    def mend(self) -> None:
        """Everything passes again."""
        self._passes.set()

    async def _connected(self, near: asyncio.StreamReader, to_near: asyncio.StreamWriter) -> None:
        with suppress(asyncio.CancelledError):
            await self._serve(near, to_near)

    async def _serve(self, near: asyncio.StreamReader, to_near: asyncio.StreamWriter) -> None:
        await self._passes.wait()
        try:
            far, to_far = await asyncio.open_connection(*self._target)
        except OSError:
            to_near.transport.abort()  # as where nobody listens
            return
        async with asyncio.TaskGroup() as both:
            both.create_task(self._pass_on(near, to_far))
            both.create_task(self._pass_on(far, to_near))

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await source.read(_CHUNK_BYTES):
                await self._passes.wait()
                sink.write(chunk)
                await sink.drain()
        await self._passes.wait()
        sink.close()


class Network:
    """All links, served by one thread; a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._servers: list[asyncio.Server] = []

    def __enter__(self) -> Network:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def add(self, listens: Address, target: Address) -> Link:
        """A link that is open."""
        link = Link(listens, target)
        self._servers.append(self._do(link.open()))
        return link

    def cut(self, *links: Link) -> None:
        """Nothing passes through them from now on."""
        for link in links:
            self._loop.call_soon_threadsafe(link.cut)

    def mend(self, *links: Link) -> None:
        """Everything passes through them again."""
        for link in links:
            self._loop.call_soon_threadsafe(link.mend)

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _do(self, what: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(30.0)
