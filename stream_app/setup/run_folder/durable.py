"""Files that survive a kill at any moment: appended lines, and small documents replaced as a whole."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from models.private_files import OPEN_FOLDER, PRIVATE_FILE, new_file, new_folder, open_kept
from stream_app.exceptions import DiskFullError, OutputError, OutputLockedError, restoring

SECRET_MODE = PRIVATE_FILE
SECRET_FOLDER_MODE = 0o700
PUBLIC_MODE = 0o644
_BUFFER_BYTES = 1 << 20
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the system refuses becomes a sentence: :class:`DiskFullError`, else :class:`OutputError`."""
    try:
        yield
    except OSError as error:
        again = "then start the same command again: it continues where it stopped and loses nothing published"
        if error.errno in _FULL:
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
        if self._pending_bytes >= _BUFFER_BYTES:
            self._write()

    def sync(self) -> None:
        """Write what is pending and wait until all is on disk, what was there before included."""
        self._write()
        if not self._is_synced:
            with writing(self.path):
                os.fsync(self._descriptor)
            self._is_synced = True

    def flush(self) -> None:
        """Hand what is pending to the system: other processes see it, and a loss of power may take it."""
        self._write()

    def _write(self) -> None:
        """Hand what is pending to the system."""
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
        if self.length > length:
            with writing(self.path):
                os.ftruncate(self._descriptor, length)
            self.length = length
            self._is_synced = False
        self.sync()

    def close(self) -> None:
        """Give the file back; what was not synced is dropped."""
        os.close(self._descriptor)


def replace_file(path: Path, data: bytes, mode: int = PUBLIC_MODE) -> None:
    """Write a file as a whole: a reader, or a restart, sees the old content or the new, never a part.

    Where that fails the old content stands, and nothing else takes up room.
    """
    draft = path.with_name(path.name + ".new")
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
        path.unlink()  # one that a kill left, or a link that somebody laid
    descriptor = new_file(path, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path, mode: int = OPEN_FOLDER) -> None:
    """A folder and those above it, all of them durable, whoever made them.

    New ones have these rights at most, whatever the umask: nobody else puts anything into them.
    """
    with writing(folder):
        new_folder(folder, mode)
    for above in folder.resolve().parents:
        with suppress(OSError):  # one that we may not open, or on a read-only disk, was there before
            _sync(above)


def sync_folder(folder: Path) -> None:
    """Make renames and new files in a folder durable."""
    with writing(folder):
        _sync(folder)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _locking(path: Path) -> Iterator[None]:
    """A file system without locks becomes a sentence; one that somebody holds is an answer."""
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as error:
        raise OutputError(
            f"{path} must be on a file system with locks, so that one run at a time writes there",
            error.strerror,
            "put the folder on a local disk, or mount the share with locks",
        ) from error


class FolderLock:
    """Held by the one run that may write to an output folder; the system frees it when the process ends."""

    def __init__(self, folder: Path) -> None:
        path = folder / "lock"
        with writing(path):
            self._descriptor = open_kept(path, os.O_RDWR, SECRET_MODE)  # who may open it may hold it
        try:
            with _locking(path):
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OutputError:
            os.close(self._descriptor)
            raise
        except BlockingIOError:
            holder = os.read(self._descriptor, 32).decode(errors="replace").strip() or "unknown"
            os.close(self._descriptor)
            raise OutputLockedError(
                f"output folder {folder} must be written by one run at a time",
                f"a run with process id {holder}",
                "stop that run first, or wait for its end",
            ) from None
        with suppress(OSError):  # for the other's message only: a full disk must not keep it from being freed
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another run have the folder."""
        os.close(self._descriptor)
