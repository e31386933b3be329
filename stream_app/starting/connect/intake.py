"""What connectors to brokers and services share: payloads are taken or become dead letters."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple, Self

from models.text import parse_json
from stream_app.exceptions import InputError, SettingsError
from stream_app.setup.run_folder.durable import SECRET_MODE, AppendFile, FolderLock, LineCount, make_folder
from stream_app.setup.sections import PayloadSettings
from stream_app.setup.settings import Settings
from stream_app.starting.connect.journal import ContradictionError, CountJournal, NotOverError, journal_of
from stream_app.starting.connect.payloads import PayloadMap
from stream_app.wire import Reason, reject


class Pauses:
    """Waits between attempts, each twice as long as the one before, up to the longest."""

    def __init__(self, first_seconds: float, longest_seconds: float, *, at_once: bool = False) -> None:
        """With ``at_once`` there is no wait before the second attempt, and the first before the third."""
        self._first, self._longest = first_seconds, longest_seconds
        self._begin = 0.0 if at_once else first_seconds
        self.seconds = self._begin
        """The next one."""

    def take(self) -> float:
        """The next wait; the one after it is longer."""
        now = self.seconds
        self.seconds = min(max(2 * now, self._first), self._longest)
        return now

    def reset(self) -> None:
        """Begin anew, after something has worked."""
        self.seconds = self._begin


UNTRUSTED = "have its certificate renewed for this host, or name the authority that made it in ca_file"
"""What to do about a broker or service whose certificate was not accepted."""


def client_tls(section: str, ca_file: Path | None, certificate_file: Path | None = None) -> ssl.SSLContext:
    """Encryption towards a broker or service, as the files of a section of the settings say."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
        if certificate_file is not None:
            context.load_cert_chain(certificate_file)
    except OSError as error:  # ssl.SSLError is one
        raise SettingsError(
            f"ca_file and certificate_file of [{section}] must be readable PEM files",
            error,
            "check paths and contents",
        ) from error
    return context


_REJECTED = "rejected.jsonl"
_MOST_KNOWN_LETTERS = 10_000


class Payload(NamedTuple):
    """A message as it came: its topic, or what stands for one, and what it says, in JSON.

    Of a broker's ``number`` is the one to acknowledge it by, and ``connection`` which it came on.
    """

    topic: str
    payload: bytes
    number: int = 0
    connection: int = 0


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

    def __exit__(self, *_: object) -> None:
        self._rejected.close()

    @property
    def ends(self) -> str | None:
        """How the intervals end (:attr:`CountJournal.ends`)."""
        return self._journal.ends

    def take(self, payloads: Sequence[Payload]) -> None:
        """Make these durable, each as counts or as a dead letter; what stops that raises."""
        for each in payloads:
            try:
                counts = self._map.read(_parsed(each.payload), each.topic)
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
        reason = Reason.INVALID_FIELD
        if isinstance(error, ContradictionError):
            reason = Reason.CONTRADICTING_READING
        elif isinstance(error, NotOverError):
            reason = Reason.NOT_OVER
        self._rejected.append(reject(payload.topic, b"", reason, str(error)).line())
        self.refused += 1


@contextmanager
def open_intake(
    folder: Path, settings: Settings, mapping: PayloadSettings | None, sensors: Sequence[str]
) -> Iterator[PayloadIntake | None]:
    """The intake of a connector's own folder, which is held for one process at a time while the block runs.

    None where there is no mapping: the connector takes no counts.
    """
    if mapping is None:
        make_folder(folder)
        with closing(FolderLock(folder)):
            yield None
        return
    with (
        journal_of(folder, settings, mapping, sensors) as journal,
        PayloadIntake(folder, journal, PayloadMap(mapping)) as intake,
    ):
        yield intake


def open_dead_letters(folder: Path) -> AppendFile:
    """The dead letters of a connector, without a line that was not written whole."""
    letters = AppendFile(folder / _REJECTED, SECRET_MODE)
    letters.truncate(LineCount.of(letters.path).bytes)
    return letters


def _parsed(payload: bytes) -> object:
    try:
        return parse_json(payload)
    except ValueError:
        raise InputError(
            "a payload must be JSON", "something else", "correct the sender, or topics"
        ) from None
