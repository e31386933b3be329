"""A file that is followed while others write to it, rotate it, truncate it or remove it.

What logrotate and similar programs do to a file, and how it is read here:

- *renamed, and a new one created*: it is read to its end once the new file has content, then the new file
  from its beginning; several rotations between two looks are read in the order of their last change
- *copied and truncated* (``copytruncate``): the rest of the copy is read, then the file from its beginning
- *truncated without a copy, or overwritten*: :class:`InputError`; what was written since the last look is
  lost
- *removed*: waited for, with a warning, so that the silence is not taken for that of the sensors
- *changed while no run was there*: the place where the run stopped is looked for by content, in the file and
  in rotated files beside it; if it is in none, :class:`InputError` unless the operator continues without the
  rest

An open file is recognised by device and inode number, which no other file can have at the same time; at a
start, by the CRC-32 of what was read of it.
"""

from __future__ import annotations

import logging
import os
import re
import select
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from stream_app.exceptions import InputError
from stream_app.wire.inputs import CHUNK_BYTES, NextFile, open_input, reading

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.2
_TAIL_BYTES = 256
"""How much of the end of what was read is compared at each look."""
_PACKED = (".gz", ".xz", ".bz2", ".zst", ".lz4", ".Z")
_TURN = r"[.-]?\d[\d.-]*"


class Start(NamedTuple):
    """The files to begin with, oldest first, and whether the first one is that of the earlier run."""

    files: list[Path]
    is_known: bool


def find_start(path: Path, saved: Mapping[str, Any] | None, *, accept_changes: bool = False) -> Start:
    """The file with a saved position: the file itself, or one that it was rotated to meanwhile.

    Raises :class:`InputError` if the position is in none of them, its input was not read to its end, and the
    operator has not accepted that.
    """
    taken = int((saved or {}).get("byte_count", 0))
    if saved is None or not taken or not path.exists():
        return Start([path], is_known=bool(taken))
    if _begins_as(path, taken, saved["crc32"]):
        return Start([path], is_known=True)
    for turned in _beside(path):
        if _begins_as(turned, taken, saved["crc32"]):
            later = _later(path, turned.stat().st_mtime_ns, {turned})
            logger.info("%s was rotated to %s: the rest of that file is read first", path.name, turned.name)
            return Start([turned, *later, path], is_known=True)
    if saved.get("is_whole") is False and not accept_changes:
        raise InputError(
            f"input {path.name} must still begin with what was read up to byte {taken}, or have been rotated "
            "to a file beside it",
            "neither",
            f"put the earlier file beside it as {path.name}.1; or say --accept-changes to continue without "
            "the rest of it: what is missing is then published as missing",
        )
    return Start([path], is_known=False)


class FollowedFile:
    """The bytes of a followed file; an empty chunk if nothing is waiting, :class:`NextFile` before each file.

    ``start`` are the files to begin with. ``wake`` is a descriptor that ends a wait early, and
    ``wait_seconds`` says how long a wait may be.
    """

    def __init__(
        self,
        path: Path,
        start: Start,
        wake: int | None = None,
        wait_seconds: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self._path = path
        self._waiting = list(start.files)
        self._wake = wake
        self._wait_seconds = wait_seconds
        self._descriptor = -1
        self._before = -1  # the earlier file, which must not be written to any more
        self._read = self._before_read = self._crc32 = 0
        self._tail = b""
        self.is_away = False
        """Whether there is no file of this name, so that silence says nothing about the sensors."""

    def __iter__(self) -> Iterator[bytes | NextFile]:
        """Read without end."""
        yield self._open(self._waiting.pop(0))
        while True:
            with reading(self._path):  # asked before this file is read to its end
                is_due = bool(self._waiting) or self._is_turned_over()
            yield from self._rest()
            if is_due or self._waiting:
                if not self._waiting:
                    with reading(self._path):
                        self._waiting = self._next_files()
                yield self._open(self._waiting.pop(0))
                continue
            with reading(self._path):
                self._check_before()
            yield b""
            watched = [] if self._wake is None else [self._wake]
            select.select(watched, [], [], min(self._wait_seconds(), _LOOK_SECONDS))

    def close(self) -> None:
        """Close the files."""
        for descriptor in (self._descriptor, self._before):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptor = self._before = -1

    def _open(self, path: Path) -> NextFile:
        """Begin with a file; the earlier one stays open, to notice if somebody still writes to it."""
        opened = open_input(path)
        if self._before >= 0:
            os.close(self._before)
        self._before, self._before_read = self._descriptor, self._read
        if self._before >= 0 and os.path.sameopenfile(self._before, opened):  # the same file, truncated
            os.close(self._before)
            self._before = -1
        self._descriptor, self._read, self._crc32, self._tail = opened, 0, 0, b""
        return NextFile(path.name)

    def _rest(self) -> Iterator[bytes]:
        """Everything there is now; for a truncated file, the rest of its copy."""
        while True:
            with reading(self._path):
                chunk = os.read(self._descriptor, CHUNK_BYTES)
            if self._is_cut():  # asked after reading, as the chunk may be new content
                yield from self._copied_rest()
                return
            if not chunk:
                return
            self._take(chunk)
            yield chunk

    def _take(self, chunk: bytes) -> None:
        self._read += len(chunk)
        self._crc32 = zlib.crc32(chunk, self._crc32)
        self._tail = (self._tail + chunk)[-_TAIL_BYTES:]

    def _is_cut(self) -> bool:
        """Whether what was read is no longer in the file."""
        with reading(self._path):
            if os.fstat(self._descriptor).st_size < self._read:
                return True
            return os.pread(self._descriptor, len(self._tail), self._read - len(self._tail)) != self._tail

    def _copied_rest(self) -> Iterator[bytes]:
        """The rest of the copy after the point that was reached; then the file is read from its beginning."""
        with reading(self._path):
            beside = _beside(self._path) if self._read else ()
            copy = next((each for each in beside if _begins_as(each, self._read, self._crc32)), None)
            now = os.fstat(self._descriptor).st_size
        if copy is None:
            raise InputError(
                f"input {self._path.name} must only grow while it is followed, be rotated by renaming, "
                "or copied to a file beside it before it is cut",
                f"{now} bytes instead of the {self._read} that were read, and no copy",
                "start again with --accept-changes to read it from its beginning, without what was written "
                "between the last look and the cut",
            )
        logger.warning(
            "%s was copied to %s and cut: a line written in that moment is lost to every reader; renaming "
            "(logrotate: create) loses none",
            self._path.name,
            copy.name,
        )
        descriptor = open_input(copy)
        try:
            at = self._read
            while True:
                with reading(copy):
                    chunk = os.pread(descriptor, CHUNK_BYTES, at)
                if not chunk:
                    break
                at += len(chunk)
                yield chunk
        finally:
            os.close(descriptor)
        self._waiting = [self._path]

    def _is_turned_over(self) -> bool:
        """Whether another file with content has the name, so that the writer is done with this one."""
        own = os.fstat(self._descriptor)
        try:
            named = self._path.stat()
        except FileNotFoundError:
            if not self.is_away:
                logger.warning("input %s is gone: waiting for a file of this name", self._path)
            self.is_away = True
            return False
        self.is_away = False
        return (named.st_dev, named.st_ino) != (own.st_dev, own.st_ino) and named.st_size > 0

    def _next_files(self) -> list[Path]:
        """The files after this one: those rotated since, then the one that has the name now."""
        own = os.fstat(self._descriptor)
        return [*_later(self._path, own.st_mtime_ns, set(), (own.st_dev, own.st_ino)), self._path]

    def _check_before(self) -> None:
        """Refuse a writer that still writes to the rotated file: its lines would not be read."""
        if self._before >= 0 and os.fstat(self._before).st_size > self._before_read:
            raise InputError(
                f"the file that {self._path.name} was rotated to must not be written to any more",
                f"something after its {self._before_read} bytes",
                f"have every writer open {self._path.name} again when it is rotated; append what is "
                "there to it, and start again",
            )


def _begins_as(path: Path, size: int, crc32: int) -> bool:
    """Whether a file begins with the bytes that were read."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < size:
                return False
            found, left = 0, size
            while left and (chunk := file.read(min(left, CHUNK_BYTES))):
                found, left = zlib.crc32(chunk, found), left - len(chunk)
    except OSError:
        return False
    return not left and found == crc32


def _beside(path: Path) -> list[Path]:
    """The files that a file was rotated to, newest first: ``name.1``, ``name-20260101``, ``stem-1.x``."""
    stem, suffix = re.escape(path.stem), re.escape(path.suffix)
    turned = re.compile(rf"{re.escape(path.name)}{_TURN}|{stem}{_TURN}{suffix}")
    return _files(path, lambda name: turned.fullmatch(name) is not None)


def _files(path: Path, is_meant: Callable[[str], bool]) -> list[Path]:
    """Regular files beside a name and the target of its link, newest first; without the file itself."""
    found: dict[tuple[int, int], tuple[int, Path]] = {}
    itself = {path, path.resolve()}
    for folder in {path.parent, path.resolve().parent}:
        for each in folder.iterdir():
            if is_meant(each.name) and each not in itself and each.is_file():
                with suppress(FileNotFoundError):  # renamed at this moment
                    seen = each.stat()
                    found[seen.st_dev, seen.st_ino] = (seen.st_mtime_ns, each)
    if path.exists():
        now = path.stat()
        found.pop((now.st_dev, now.st_ino), None)
    return [each for _, each in sorted(found.values(), reverse=True)]


def _later(path: Path, since_ns: int, without: set[Path], own: tuple[int, int] | None = None) -> list[Path]:
    """Files rotated after a time, oldest first; :class:`InputError` if one is compressed."""
    packed = re.compile(rf"{re.escape(path.name)}{_TURN}({'|'.join(map(re.escape, _PACKED))})")
    for each in _files(path, lambda name: packed.fullmatch(name) is not None):
        if each.stat().st_mtime_ns > since_ns:
            raise InputError(
                f"files that {path.name} was rotated to must be readable until they were read",
                f"{each.name}, which came after it and is compressed",
                "uncompress it, and have logrotate compress one rotation later (delaycompress)",
            )
    later = []
    for each in reversed(_beside(path)):
        seen = each.stat()
        if each not in without and (seen.st_dev, seen.st_ino) != own and seen.st_mtime_ns > since_ns:
            later.append(each)
    return later


def is_regular(path: Path) -> bool:
    """Whether a name is that of a file that can be read again; not a pipe."""
    return stat.S_ISREG(path.stat().st_mode)
