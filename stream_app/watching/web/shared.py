"""One answer for everybody who asks the same: made when it is out of date, in a bounded share of the time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from stream_app.watching.web.answers import WebAnswer

_REST = 9.0  # times the making of an answer, so that making takes at most a tenth of the time
_MOST_REST_SECONDS = 3.0


class Shared:
    """A costly answer: a request gets one made after it came, or the last one if that still holds.

    ``version`` changes when there is anything new; without it, always.
    """

    def __init__(self, make: Callable[[], WebAnswer], version: Callable[[], object] = object) -> None:
        self._make = make
        self._read_version = version
        self._making = asyncio.Lock()
        self._answer: WebAnswer | None = None
        self._version: object = None
        self._began_seconds = 0.0
        self._rested_seconds = 0.0

    async def get(self) -> WebAnswer:
        """The answer, now or as soon as it may be made again; all who wait get the same."""
        requested_seconds = time.monotonic()
        async with self._making:
            is_fresh = self._began_seconds >= requested_seconds or self._version == self._read_version()
            if self._answer is None or not is_fresh:
                await asyncio.sleep(self._rested_seconds - time.monotonic())
                self._answer = self._made()
            return self._answer

    def _made(self) -> WebAnswer:
        self._version, self._began_seconds = self._read_version(), time.monotonic()
        answer = self._make()
        ended = time.monotonic()
        self._rested_seconds = ended + min(_REST * (ended - self._began_seconds), _MOST_REST_SECONDS)
        return answer
