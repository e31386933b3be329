"""Payloads of brokers and services, which are taken or become dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from models.text import parse_json
from stream_app.exceptions import InputError
from stream_app.setup.run_folder.durable import SECRET_MODE, AppendFile, FolderLock, make_folder, whole_lines
from stream_app.setup.sections import PayloadSettings
from stream_app.setup.settings import Settings
from stream_app.starting.connect.journal import ContradictionError, CountJournal, NotOverError, journal_of
from stream_app.starting.connect.payloads import PayloadMap
from stream_app.wire import Reason, reject

# Payloads into the journal, or to the dead letters with the sentence that says why.

_REJECTED = "rejected.jsonl"
_MOST_KNOWN_LETTERS = 10_000


class Payload(Protocol):
    """A message as it came: what it says, and where."""

    @property
    def topic(self) -> str:
        """Its topic, or what stands for one."""

    @property
    def payload(self) -> bytes:
        """JSON."""


class PayloadIntake:
    """Takes payloads by a mapping while the block runs; the dead letters stand beside the journal.

    A dead letter has no payload: what was refused may be about people. One that comes again adds none while
    it is among the last ten thousand.
    """

    def __init__(self, folder: Path, journal: CountJournal, mapping: PayloadMap) -> None:
        self._journal, self._map = journal, mapping
        self._rejected = open_dead_letters(folder)
        self._rejected_marks: dict[int, None] = {}
        self.taken = self.refused = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rejected.close()

    @property
    def ends(self) -> str | None:
        """How the intervals end, in a sentence, where that was recognised (:attr:`CountJournal.ends`)."""
        return self._journal.ends

    def take(self, payloads: Sequence[Payload]) -> None:
        """Make these durable, each as counts or as a dead letter; what stops that raises."""
        for each in payloads:
            try:
                counts = self._map.read(_document(each.payload), each.topic)
                taken = self._journal.take(counts)
                self.taken += taken.new
                for letter in taken.letters:
                    self._rejected.append(letter.line())
            except InputError as error:
                self._refuse(each, error)
        self._rejected.sync()
        self._journal.commit()

    def _refuse(self, payload: Payload, error: InputError) -> None:
        mark = hash((payload.topic, payload.payload))
        if mark in self._rejected_marks:
            return
        self._rejected_marks[mark] = None
        if len(self._rejected_marks) > _MOST_KNOWN_LETTERS:
            del self._rejected_marks[next(iter(self._rejected_marks))]
        self._rejected.append(reject(payload.topic, b"", _reason(error), str(error)).line())
        self.refused += 1


@contextmanager
def open_intake(
    folder: Path, settings: Settings, mapping: PayloadSettings | None, sensors: Sequence[str]
) -> Iterator[PayloadIntake | None]:
    """A connector's own folder while the block runs, for one process at a time.

    None of a connector that takes no counts.
    """
    if mapping is None:
        make_folder(folder)
        lock = FolderLock(folder)
        try:
            yield None
        finally:
            lock.release()
        return
    with (
        journal_of(folder, settings, mapping, sensors) as journal,
        PayloadIntake(folder, journal, PayloadMap(mapping)) as intake,
    ):
        yield intake


def open_dead_letters(folder: Path) -> AppendFile:
    """The dead letters of a connector, without a line that was not written whole."""
    letters = AppendFile(folder / _REJECTED, SECRET_MODE)
    letters.truncate(sum(map(len, whole_lines(letters.path))))
    return letters


def _reason(error: InputError) -> Reason:
    if isinstance(error, ContradictionError):
        return Reason.CONTRADICTING_READING
    return Reason.NOT_OVER if isinstance(error, NotOverError) else Reason.INVALID_FIELD


def _document(payload: bytes) -> object:
    try:
        return parse_json(payload)
    except ValueError:
        raise InputError(
            "a payload must be JSON", "something else", "correct the sender, or topics"
        ) from None
