"""Files that survive a kill at any moment: logs of lines, small documents replaced as a whole, locks.

Whatever is durable in a folder is written and read here.
"""

from __future__ import annotations

import fcntl
import hashlib
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from models import private_files
from models.private_files import OPEN_FOLDER, PRIVATE_FILE, new_file, new_folder, open_kept
from models.text import parse_json
from stream_app.exceptions import (
    DiskFullError,
    OutputError,
    OutputLockedError,
    RunChangedError,
    first_fault,
    restoring,
)

Model = TypeVar("Model", bound=BaseModel)

SECRET_MODE = PRIVATE_FILE
SECRET_FOLDER_MODE = 0o700
PUBLIC_MODE = 0o644


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the operating system into :class:`DiskFullError` or :class:`OutputError`."""
    try:
        yield
    except OSError as error:
        again = "then start the same command again: it continues where it stopped and loses nothing published"
        if error.errno in private_files.FULL:
            raise DiskFullError(
                f"the disk must have room for {path}", error.strerror, f"free some space, {again}"
            ) from error
        raise OutputError(
            f"{path} must be writable", error.strerror, f"check path, permissions and disk, {again}"
        ) from error


class AppendFile:
    """A file that only grows. Writes are buffered; :meth:`sync` makes them durable.

    ``length`` counts the bytes handed to the system, all of them durable after :meth:`sync`. What the disk
    had no room for stays buffered: a later :meth:`sync` goes on where an earlier one failed.
    """

    most_pending: float = 1 << 20
    """Bytes that are kept back before they are handed on unasked."""

    def __init__(self, path: Path, mode: int = PUBLIC_MODE) -> None:
        self.path = path
        with writing(path):
            self._descriptor = open_kept(path, os.O_RDWR | os.O_APPEND, mode)
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._is_synced = False  # an earlier run may have been killed between writing and syncing
        self.length = os.fstat(self._descriptor).st_size

    def append(self, data: bytes) -> None:
        """Take bytes to be durable after the next :meth:`sync`; much of them is written at once."""
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes >= self.most_pending:
            self.flush()

    def sync(self) -> None:
        """Write what is pending and wait until all is on disk, what was there before included."""
        self.flush()
        if not self._is_synced:
            with writing(self.path):
                os.fsync(self._descriptor)
            self._is_synced = True

    def flush(self) -> None:
        """Hand what is pending to the system: other processes see it, but a loss of power may lose it."""
        data = memoryview(b"".join(self._pending))
        try:
            while data:
                self._is_synced = False
                with writing(self.path):
                    written = os.write(self._descriptor, data)
                self.length += written
                data = data[written:]
        finally:
            self._pending = [bytes(data)] if data else []
            self._pending_bytes = len(data)

    def truncate(self, length: int) -> None:
        """Cut what an interrupted run wrote beyond ``length``; what stays is durable.

        :class:`OutputError` when the file is shorter.
        """
        if self.length < length:
            raise OutputError(
                f"{self.path} must hold at least the {length} bytes that were written to it",
                self.length,
                restoring(self.path.name),
            )
        self.cut(length)
        self.sync()

    def cut(self, length: int) -> None:
        """Cut what is beyond ``length``; a loss of power may bring it back before the next :meth:`sync`."""
        if self.length > length:
            with writing(self.path):
                os.ftruncate(self._descriptor, length)
            self.length = length
            self._is_synced = False

    @property
    def is_durable(self) -> bool:
        """Whether all that was taken is on disk."""
        return self._is_synced and not self._pending

    def close(self) -> None:
        """Close the file; what was not synced is dropped."""
        os.close(self._descriptor)


def replace_file(path: Path, data: bytes, mode: int = PUBLIC_MODE) -> None:
    """Write a file as a whole: a reader, or a restart, sees the old content or the new, never a part.

    If that fails the old content stays, and no draft takes up room.
    """
    draft = path.with_name(path.name + ".new")  # one name, so that a draft left by a kill is replaced
    with writing(path):
        try:
            _write_file(draft, data, mode)
            draft.replace(path)
        except OSError:
            with suppress(OSError):
                draft.unlink()
            raise
    sync_folder(path.parent)


def _write_file(path: Path, data: bytes, mode: int) -> None:
    """Write a new file, durable but for its name."""
    with suppress(FileNotFoundError):
        path.unlink()  # left by a kill, or a link that somebody planted
    descriptor = new_file(path, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path, mode: int = OPEN_FOLDER) -> None:
    """Make a folder and those above it durable, whoever made them.

    New ones have these rights at most, whatever the umask: nobody else puts anything into them.
    """
    with writing(folder):
        new_folder(folder, mode)
    for above in folder.resolve().parents:
        with suppress(OSError):  # one that we may not open, or on a read-only disk, was there before
            private_files.sync_folder(above)


def sync_folder(folder: Path) -> None:
    """Make renames and new files in a folder durable."""
    with writing(folder):
        private_files.sync_folder(folder)


def lock_file(path: Path) -> int:
    """Open a file that only one process may hold; the system frees it when that process ends.

    ``BlockingIOError`` while another process holds it, :class:`OutputError` where files cannot be locked.
    """
    with writing(path):
        descriptor = open_kept(path, os.O_RDWR, SECRET_MODE)  # who may open it may hold it
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise
        raise OutputError(
            f"{path} must be on a file system with locks, so that one run at a time writes there",
            error.strerror,
            "put the folder on a local disk, or mount the share with locks",
        ) from error
    return descriptor


class FolderLock:
    """Held by the one run that may write to an output folder."""

    def __init__(self, folder: Path) -> None:
        path = folder / "lock"
        try:
            self._descriptor = lock_file(path)
        except BlockingIOError:
            holder = path.read_text(errors="replace").strip() or "unknown"
            raise OutputLockedError(
                f"output folder {folder} must be written by one run at a time",
                f"a run with process id {holder}",
                "stop that run first, or wait for its end",
            ) from None
        with suppress(OSError):  # for the other's message only: a full disk must not keep it from being freed
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        """Let another run have the folder."""
        os.close(self._descriptor)


# Logs: files of whole lines that only grow, each line a JSON object.


class ChainedLog(AppendFile):
    """A log of whole lines that knows the digest of all it holds.

    A digest continues from the one before (:func:`extended`), so a commit of a long log reads no line again.
    """

    digest = ""

    def append(self, data: bytes) -> None:
        """Take whole lines to be durable after the next :meth:`sync`."""
        super().append(data)
        self.digest = extended(self.digest, data)

    @property
    def pending(self) -> bytes:
        """What was taken and not handed on yet."""
        return b"".join(self._pending)

    @property
    def end(self) -> int:
        """The length with what is pending, which :attr:`digest` is of."""
        return self.length + self._pending_bytes

    def complete(self, committed: int, held: bytes) -> None:
        """Bring the file to its ``committed`` length; ``held`` are the last of these bytes.

        A torn line is completed and not cut, as readers follow the file; what a loss of power left is.
        """
        begin = committed - len(held)
        if held and begin <= self.length <= committed:
            there = os.pread(self._descriptor, len(held), begin)
            if not held.startswith(there):
                self.truncate(begin)
            AppendFile.append(self, held[self.length - begin :])
        self.sync()

    def go_on(self, committed: int, digest: str) -> None:
        """Continue behind the committed bytes, whose digest this is."""
        self.length, self.digest = committed, digest


class AheadLog(ChainedLog):
    """A log whose lines are durable in a commit before they come here, so that all of them count, or none.

    Nothing is handed on before :meth:`flush`, which follows the commit. Lines beyond it (:meth:`go_on`) were
    published by a run that lost its commit, or by an earlier version: they stay, and must come again.
    """

    most_pending = math.inf
    _beyond: Iterator[bytes] = iter(())

    def go_on(self, committed: int, digest: str) -> None:
        """Continue behind the committed bytes; what is there beyond them comes next."""
        super().go_on(committed, digest)
        self._beyond = whole_lines(self.path, committed)

    def append(self, data: bytes) -> None:
        """Take lines for the next commit; those that are there already must be the same.

        :class:`RunChangedError` where they are not: nothing is published a second time with other values.
        """
        for line in data.splitlines(keepends=True):
            published = next(self._beyond, None)
            if published is None:
                super().append(line)
            elif published == line:
                self.length, self.digest = self.length + len(line), extended(self.digest, line)
            else:
                raise RunChangedError(
                    f"{self.path.name} must go on as it was published beyond the last commit",
                    f"another line at byte {self.length:,}",
                    "start it with the input, key and settings that it had then, or "
                    + restoring("progress.json and progress.jsonl"),
                )


def extended(digest: str, data: bytes) -> str:
    """The digest of a log after these whole lines, from that of the lines before ("" for none)."""
    for line in data.splitlines(keepends=True):
        digest = hashlib.sha256(digest.encode() + line).hexdigest()
    return digest


def digests_of(lines: Iterable[bytes], lengths: Iterable[int]) -> dict[int, str | None]:
    """The digests of the first so many bytes of a log; None where there are fewer, or a line is cut by it."""
    found: dict[int, str | None] = dict.fromkeys(lengths)
    digest, read, most = "", 0, max(found, default=0)
    if 0 in found:
        found[0] = digest
    for line in lines:
        if read >= most:
            break
        digest, read = extended(digest, line), read + len(line)
        if read in found:
            found[read] = digest
    return found


def whole_lines(path: Path, start: int = 0) -> Iterator[bytes]:
    """The lines of a file up to a torn one, which is still being written; none where there is no file.

    From the byte ``start`` on, where a line begins.
    """
    if not path.exists():
        return
    with path.open("rb") as content:
        content.seek(start)
        for line in content:
            if not line.endswith(b"\n"):
                return
            yield line


class LineCount(NamedTuple):
    """How many whole lines a file has, and the bytes that they take."""

    lines: int
    bytes: int

    @classmethod
    def of(cls, path: Path, at_most: int | None = None) -> LineCount:
        """The first lines of a file, or all there are."""
        lines = length = 0
        for line in islice(whole_lines(path), at_most):
            lines, length = lines + 1, length + len(line)
        return cls(lines, length)


def parsed_line(kind: type[Model], path: Path, line: bytes) -> Model:
    """The message in a line of a log; :class:`OutputError` where it is not as it was written."""
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:  # whose text quotes the line, which may hold a count or a person
        raise OutputError(
            f"each line of {path} must be as it was written", first_fault(error), restoring(path.name)
        ) from None


# Documents: JSON objects replaced as a whole; a sealed one carries the digest of its content.

_SEAL = b'{"sha256":"'
_SEAL_BYTES = len(_SEAL) + 65


def load_document(path: Path) -> dict[str, Any]:
    """A JSON object of an output folder; :class:`OutputError` when it is none."""
    try:
        loaded = parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise OutputError(f"{path} must be readable JSON", error, restoring(path.name)) from error
    if not isinstance(loaded, dict):
        raise OutputError(f"{path} must hold an object", type(loaded).__name__, restoring(path.name))
    return loaded


def seal(fields: Mapping[str, Any]) -> bytes:
    """A JSON object with its digest, which :func:`load_sealed` reads again only if nothing was changed."""
    return _sealed(to_json(fields, inf_nan_mode="constants"))


def _sealed(document: bytes) -> bytes:
    digest, separator = hashlib.sha256(document).hexdigest().encode(), b"" if document == b"{}" else b","
    return _SEAL + digest + b'"' + separator + document[1:] + b"\n"


def unsealed(data: bytes) -> dict[str, Any] | None:
    """What :func:`seal` was given; None for any other bytes."""
    document = b"{" + data[_SEAL_BYTES:].removeprefix(b",").removesuffix(b"\n")
    if data != _sealed(document):
        return None
    try:
        fields = parse_json(document)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None


def load_sealed(path: Path) -> dict[str, Any]:
    """What :func:`seal` was given; :class:`OutputError` when it is anything else."""
    return read_sealed(path)[0]


def read_sealed(path: Path) -> tuple[dict[str, Any], bytes]:
    """As :func:`load_sealed`, and the bytes that it was read from."""
    load_document(path)
    data = path.read_bytes()
    fields = unsealed(data)
    if fields is None:
        raise OutputError(f"{path} must be as it was written", "other content", restoring(path.name))
    return fields, data
