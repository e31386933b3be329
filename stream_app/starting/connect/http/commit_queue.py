"""Many payloads, one wait for the disk: those that come while it is busy are made durable together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

from models.exceptions import TallyguardError
from stream_app.exceptions import OutputError
from stream_app.setup.run_folder.durable import AppendFile
from stream_app.starting.connect.journal import CountJournal, Taken
from stream_app.starting.connect.payloads import SensorCount

logger = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    counts: Sequence[SensorCount]
    answer: asyncio.Future[Taken]


class CommitQueue:
    """Gives payloads to a journal, which one thread at a time uses.

    ``letters`` are for contradictions, written once everybody is answered: neither what a sender is answered
    nor when depends on what was counted before.
    """

    def __init__(self, journal: CountJournal, letters: AppendFile) -> None:
        self._journal = journal
        self._letters = letters
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
                results = await asyncio.shield(work)
                _give(batch, results)
            except asyncio.CancelledError:
                results = await work
                _give(batch, results)
                self._write_letters(results)
                raise
            await asyncio.to_thread(self._write_letters, results)

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

    def _write_letters(self, results: Sequence[Taken | TallyguardError]) -> None:
        for result in results:
            for letter in () if isinstance(result, TallyguardError) else result.letters:
                self._letters.append(letter.line())
        try:
            self._letters.sync()
        except OutputError as error:  # they stay for the next time
            logger.error("%s", error)


def _give(batch: Sequence[_Waiting], results: Sequence[Taken | TallyguardError]) -> None:
    """Answer whoever still listens."""
    for each, result in zip(batch, results, strict=True):
        if each.answer.done():
            continue
        if isinstance(result, TallyguardError):
            each.answer.set_exception(result)
        else:
            each.answer.set_result(result)
