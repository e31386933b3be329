"""Many payloads, one wait for the disk: those that come while it is busy are made durable together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from models.exceptions import TallyguardError
from stream_app.starting.connect.journal import CountJournal, Taken
from stream_app.starting.connect.payloads import SensorCount


class _Waiting(NamedTuple):
    counts: Sequence[SensorCount]
    answer: asyncio.Future[Taken]


class CommitQueue:
    """Gives payloads to a journal, which one thread at a time uses."""

    def __init__(self, journal: CountJournal) -> None:
        self._journal = journal
        self._waiting: list[_Waiting] = []
        self._has_some = asyncio.Event()

    async def take(self, counts: Sequence[SensorCount]) -> Taken:
        """What became of a payload, once that is on disk; :class:`TallyguardError` where it was not taken."""
        answer: asyncio.Future[Taken] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(counts, answer))
        self._has_some.set()
        return await answer

    async def run(self) -> None:
        """Go on until cancelled; what was begun is finished."""
        while True:
            await self._has_some.wait()
            self._has_some.clear()
            batch, self._waiting = self._waiting, []
            work = asyncio.ensure_future(asyncio.to_thread(self._commit, [each.counts for each in batch]))
            try:
                _give(batch, await asyncio.shield(work))
            except asyncio.CancelledError:
                _give(batch, await work)
                raise

    def _commit(self, batch: Sequence[Sequence[SensorCount]]) -> list[Taken | TallyguardError]:
        results: list[Taken | TallyguardError] = []
        for counts in batch:
            try:
                results.append(self._journal.take(counts))
            except TallyguardError as error:
                results.append(error)
        try:
            self._journal.commit()
        except TallyguardError as error:
            return [each if isinstance(each, TallyguardError) else error for each in results]
        return results


def _give(batch: Sequence[_Waiting], results: Sequence[Taken | TallyguardError]) -> None:
    """Answer whoever still listens."""
    for each, result in zip(batch, results, strict=True):
        if each.answer.done():
            continue
        if isinstance(result, TallyguardError):
            each.answer.set_exception(result)
        else:
            each.answer.set_result(result)
