"""Files that only their owner can read: counts, priors, keys, decisions. Everything secret is opened here.

Permissions are set when a file is made, whatever the umask, and corrected where an earlier file had wider
ones. A file that is written as a whole appears whole or not at all: its draft is a new file, so nobody can
have put a link in its place, and replaces the old file at the end.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
OPEN_FOLDER = 0o755  # others can list it; only the owner can add or replace files
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
DISK_ERRORS = FULL | {errno.EIO, errno.EROFS}
_OTHERS = 0o077
_BUFFER_BYTES = 1 << 20


@contextmanager
def private_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write as a whole; it replaces ``path``, durably, when the block ends without an error.

    Anything but a regular file (a pipe, a terminal) is written directly.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    with private_draft(path) as draft:
        try:
            with draft.open("r+b", buffering=_BUFFER_BYTES) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            if error.errno in DISK_ERRORS and error.filename is None:  # a write does not say to which file
                raise OSError(error.errno, error.strerror, str(path)) from error
            raise
        draft.replace(path)
    sync_folder(path.parent)


@contextmanager
def private_draft(path: Path) -> Iterator[Path]:
    """A new, empty file in the folder of ``path``; deleted at the end unless it was moved."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        draft.unlink(missing_ok=True)  # left by a process that was killed
        os.close(new_file(draft, PRIVATE_FILE))
    except OSError as error:  # nobody has heard of the draft
        raise OSError(error.errno, error.strerror, str(path.parent)) from None
    try:
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def new_file(path: Path, mode: int) -> int:
    """The descriptor of a new file; ``FileExistsError`` where there is one already."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def open_kept(path: Path, flags: int, mode: int) -> int:
    """The descriptor of a file, made with ``mode`` where there is none; wider permissions are taken away.

    ``PermissionError`` where the path is a link that neither this user nor root has made.
    """
    with suppress(FileNotFoundError):
        link = path.lstat()
        if stat.S_ISLNK(link.st_mode) and link.st_uid not in (0, os.geteuid()):
            raise PermissionError(f"a link that user {link.st_uid} has made")
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, mode)
    found = os.fstat(descriptor)
    wider = stat.S_IMODE(found.st_mode) & ~mode
    if stat.S_ISREG(found.st_mode) and wider & _OTHERS and found.st_uid == os.geteuid():
        os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & mode)
    return descriptor


def readable_by_others(path: Path) -> tuple[str, str] | None:
    """What is wrong with the permissions of a secret file, and a remedy; None if only its owner can read it.

    A file in a folder that others cannot enter is fine. So is one that an orchestrator has mounted:
    read-only, or owned by root and readable for a group of this process.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or not found.st_mode & _OTHERS:
            return None
        our_groups = {os.getegid(), *os.getgroups()}
        if found.st_mode & 0o007 == 0 and found.st_uid == 0 != os.geteuid() and found.st_gid in our_groups:
            return None
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            return None
        above = [folder.stat().st_mode for folder in path.resolve().parents]
    except OSError:
        return None  # the error of reading the file says what is wrong
    enter = 0o001 if found.st_mode & 0o007 else 0o011  # by those who could read the file
    if not all(mode & enter for mode in above):
        return None
    return f"{path} can be read by others than its owner", f"chmod 600 {shlex.quote(str(path))}"


def new_folder(folder: Path, mode: int = OPEN_FOLDER) -> None:
    """Make a folder, with no wider permissions than ``mode``, and those above it; an existing one is kept."""
    for above in [each for each in folder.parents if not each.exists()][::-1]:
        above.mkdir(mode=OPEN_FOLDER, exist_ok=True)
    folder.mkdir(mode=mode, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Make new files and renames in a folder durable: they survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
