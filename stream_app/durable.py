"""Files that survive a kill at any moment: appended lines, and small documents replaced as a whole."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from stream_app.exceptions import OutputError, OutputLockedError, restoring

SECRET_MODE = 0o600
PUBLIC_MODE = 0o644
_BUFFER_BYTES = 1 << 20


class AppendFile:
    """A file that only grows. Writes are buffered; :meth:`sync` makes them durable.

    ``length`` counts the bytes handed to the system, all of them durable after :meth:`sync`.
    """

    def __init__(self, path: Path, mode: int = PUBLIC_MODE) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, mode)
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._is_synced = True
        self.length = os.fstat(self._descriptor).st_size

    def append(self, data: bytes) -> None:
        """Take bytes to be durable after the next :meth:`sync`; much of them is written at once."""
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes >= _BUFFER_BYTES:
            self._write()

    def sync(self) -> None:
        """Write what is pending and wait until all is on disk."""
        self._write()
        if not self._is_synced:
            os.fsync(self._descriptor)
            self._is_synced = True

    def _write(self) -> None:
        """Hand what is pending to the system."""
        data = memoryview(b"".join(self._pending))
        self._pending.clear()
        self._pending_bytes = 0
        self.length += len(data)
        while data:
            self._is_synced = False
            data = data[os.write(self._descriptor, data) :]

    def truncate(self, length: int) -> None:
        """Cut what an interrupted run wrote beyond ``length``; an error when the file is shorter."""
        if self.length < length:
            raise OutputError(
                f"{self.path} must hold at least the {length} bytes that were written to it",
                self.length,
                restoring(self.path.name),
            )
        if self.length > length:
            os.ftruncate(self._descriptor, length)
            os.fsync(self._descriptor)
            self.length = length

    def close(self) -> None:
        """Give the file back; what was not synced is dropped."""
        os.close(self._descriptor)


def replace_file(path: Path, data: bytes, mode: int = PUBLIC_MODE) -> None:
    """Write a file as a whole: a reader, or a restart, sees the old content or the new, never a part."""
    draft = path.with_name(path.name + ".new")
    descriptor = os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    draft.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and new files in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class FolderLock:
    """Held by the one run that may write to an output folder; the system frees it when the process ends."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, PUBLIC_MODE)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._descriptor, 32).decode(errors="replace").strip() or "unknown"
            os.close(self._descriptor)
            raise OutputLockedError(
                f"output folder {folder} must be written by one run at a time",
                f"a run with process id {holder}",
                "stop that run first, or wait for its end",
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another run have the folder."""
        os.close(self._descriptor)
