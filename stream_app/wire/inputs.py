"""Where messages come from: a file, a pipe or a program, line by line, with a position to continue from.

A position is checked against the content, not the file name: a restart that is given the same input again
(also through a pipe) skips what was taken; one that is given a continuation starts at its beginning.
"""

from __future__ import annotations

import os
import select
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from models.releases import SensorRegistry
from stream_app.exceptions import InputError, SettingsError
from stream_app.wire.messages import MAX_STEP, Activation

MAX_LINE_BYTES = 1 << 20
"""Longer lines come in pieces of this size, each of them a malformed message."""
_CHUNK_BYTES = 1 << 18
_LOOK_SECONDS = 0.2


class Line(NamedTuple):
    """One line without its end. ``data`` is None when nothing is waiting."""

    number: int
    data: bytes | None


class Chunks(Protocol):
    """Bytes as they come. An empty chunk means that nothing is waiting; the end is the end of iteration."""

    def __iter__(self) -> Iterator[bytes]:
        """Read on."""


@dataclass
class Position:
    """How much of an input was taken: whole lines only, with a running CRC-32 of their bytes.

    ``head`` is the CRC-32 of the first lines: by it an input is recognised.
    """

    line_count: int = 0
    byte_count: int = 0
    crc32: int = 0
    head: int = 0

    def take(self, line: bytes, head_lines: int) -> None:
        """Move on over one line, its end included."""
        self.line_count += 1
        self.byte_count += len(line)
        self.crc32 = zlib.crc32(line, self.crc32)
        if self.line_count <= head_lines:
            self.head = self.crc32


class LineReader:
    """Lines of a stream of bytes, from where an earlier run left it.

    ``head_lines`` is how many first lines tell one input from another (2 for CSV, whose first is the header).
    With ``keep_torn`` a last line without an end is left for later instead of being taken. Where the bytes
    cannot be read a second time (``is_fleeting``: a pipe), one may stop only when all whole lines that were
    read are taken: see :attr:`may_stop`.
    """

    def __init__(
        self,
        name: str,
        chunks: Chunks | Iterable[bytes],
        saved: Mapping[str, Any] | None = None,
        *,
        head_lines: int = 1,
        keep_torn: bool = False,
        is_fleeting: bool = False,
    ) -> None:
        self.name = name
        self.position = Position()
        self.header: bytes | None = None
        self._chunks = chunks
        self._saved = Position(**saved) if saved else Position()
        self._head_lines = head_lines
        self._keep_torn = keep_torn
        self._is_fleeting = is_fleeting
        self._has_more = False

    def __iter__(self) -> Iterator[Line]:
        """Every line not yet taken, and those without input in between."""
        held: list[bytes] = []
        for line in self._whole_lines():
            if line is None:
                yield Line(self.position.line_count, None)
            elif len(held) < self._recognisable_lines:
                held.append(line)
                if len(held) == self._recognisable_lines:
                    yield from self._start(held)
            elif self.is_behind:
                self._skip(line)
            else:
                yield from self._give(line)
        if len(held) < self._recognisable_lines:
            yield from self._start(held)
        if self.is_behind:
            raise self._changed("it ends before the point that was reached")

    @property
    def reached(self) -> Position:
        """Where the next run continues: where the earlier one stopped, until its lines are skipped."""
        return self._saved if self.is_behind else self.position

    @property
    def may_stop(self) -> bool:
        """Whether nothing is lost by asking for no further line."""
        return not (self._is_fleeting and self._has_more)

    @property
    def _recognisable_lines(self) -> int:
        """Lines needed before it is known whether this is the input of the earlier run."""
        return min(self._head_lines, self._saved.line_count)

    def _start(self, held: list[bytes]) -> Iterator[Line]:
        """Decide whether this is the earlier input; if not, it is taken from its beginning."""
        head = Position()
        for line in held:
            head.take(line, self._head_lines)
        if len(held) < self._recognisable_lines or (held and head.head != self._saved.head):
            self._saved = Position()
        for line in held:
            if self.is_behind:
                self._skip(line)
            else:
                yield from self._give(line)

    @property
    def is_behind(self) -> bool:
        """Whether lines that an earlier run has taken are still to be skipped; shown once some have come."""
        return self.position.line_count < self._saved.line_count

    def _skip(self, line: bytes) -> None:
        """Pass over a line the earlier run has taken."""
        self._keep_header(line)
        self.position.take(line, self._head_lines)
        if not self.is_behind and self.position != self._saved:
            raise self._changed("its content changed before the point that was reached")

    def _give(self, line: bytes) -> Iterator[Line]:
        """Take one line and hand it out."""
        self._keep_header(line)
        self.position.take(line, self._head_lines)
        yield Line(self.position.line_count, line.rstrip(b"\r\n"))

    def _keep_header(self, line: bytes) -> None:
        if self.position.line_count == 0:
            self.header = line.rstrip(b"\r\n")

    def _changed(self, how: str) -> InputError:
        """What to say of an input that only begins like the earlier one."""
        return InputError(
            f"input {self.name} must be the one this output was made from, or a new one",
            how,
            "give the unchanged input, or only what follows",
        )

    def _whole_lines(self) -> Iterator[bytes | None]:
        """Lines with their ends; None for an empty chunk."""
        rest = b""
        for chunk in self._chunks:
            if not chunk:
                yield None
                continue
            *lines, rest = (rest + chunk).split(b"\n")
            *whole, rest = _pieces(rest) or [b""]
            whole = [piece for line in lines for piece in _pieces(line + b"\n")] + whole
            for number, line in enumerate(whole, start=1):
                self._has_more = number < len(whole)
                yield line
        if rest and not self._keep_torn:
            yield rest


def _pieces(line: bytes) -> list[bytes]:
    """A line in pieces no longer than the limit, so that a line without end cannot fill the memory."""
    return [line[start : start + MAX_LINE_BYTES] for start in range(0, len(line), MAX_LINE_BYTES)]


class FileChunks:
    """Bytes of a file or pipe. ``wake`` is a descriptor that ends the wait for a pipe, e.g. on a signal.

    ``wait_seconds`` says before each wait how long it may be. A file that is followed has no end: others
    append to it, and it is looked at a few times a second.
    """

    def __init__(
        self,
        descriptor: int,
        wake: int | None = None,
        wait_seconds: Callable[[], float] = lambda: 1.0,
        *,
        follow: bool = False,
    ) -> None:
        self._follow = follow
        self._descriptor = descriptor
        self._wake = wake
        self._wait_seconds = wait_seconds
        self._is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)

    def __iter__(self) -> Iterator[bytes]:
        """Read until the end; an empty chunk when nothing is waiting, and after each wait in vain."""
        timeout_seconds = 0.0
        while True:
            if not (self._is_regular or self._has_input(timeout_seconds)):
                yield b""
                timeout_seconds = self._wait_seconds()
                continue
            timeout_seconds = 0.0
            chunk = os.read(self._descriptor, _CHUNK_BYTES)
            if chunk:
                yield chunk
            elif self._follow and self._is_regular:
                yield b""
                self._wait(min(self._wait_seconds(), _LOOK_SECONDS))
            else:
                return

    def _wait(self, timeout_seconds: float) -> None:
        """Wait for a signal or the time-out."""
        select.select([] if self._wake is None else [self._wake], [], [], timeout_seconds)

    def _has_input(self, timeout_seconds: float) -> bool:
        """Wait for input, a signal or the time-out."""
        watched = [self._descriptor] + ([] if self._wake is None else [self._wake])
        ready, _, _ = select.select(watched, [], [], timeout_seconds)
        return self._descriptor in ready


def require_lines(registry: SensorRegistry) -> None:
    """:class:`SettingsError` where an activation of all sensors would be too long for a line."""
    names = tuple(sensor.name for sensor in registry.sensors)
    size = len(Activation(v=1, step=MAX_STEP, sensors=names).line())
    if size >= MAX_LINE_BYTES:
        raise SettingsError(
            f"an activation of all {len(names)} sensors must fit in a line of {MAX_LINE_BYTES} bytes",
            f"up to {size} bytes",
            "shorten the names of sensors, let fewer of them count, or announce steps with --schedule",
        )


def open_input(path: Path) -> int:
    """A descriptor to read a file from; :class:`InputError` when it cannot be opened."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"input {path} must be readable", error.strerror, "check the path") from error
