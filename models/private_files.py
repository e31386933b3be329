"""What is secret is opened here, for its owner only: counts, priors, keys, decisions."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

# Files that only their owner may read: counts, priors, keys, decisions. Everything secret is opened here.
#
# Rights are set when a file is made, whatever the umask, and put right where an earlier file had wider
# ones. A file that is written as a whole appears whole or not at all: its draft is new (nobody can lay a
# link in its place beforehand) and takes the old one's place at the end.

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
OPEN_FOLDER = 0o755  # others may look in, nobody else may put or replace anything
_OTHERS = 0o077


@contextmanager
def private_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write as a whole; it takes its place, durable, when the block ends well.

    What is no regular file (a pipe, a terminal) is written as it is.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    with private_draft(path) as draft:
        with draft.open("r+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    sync_folder(path.parent)


@contextmanager
def private_draft(path: Path) -> Iterator[Path]:
    """A new, empty file beside a path, for whoever writes by name; gone in the end unless it was moved."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    draft.unlink(missing_ok=True)  # one that a kill left
    try:
        os.close(new_file(draft, PRIVATE_FILE))
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def new_file(path: Path, mode: int) -> int:
    """The descriptor of a file that nobody else has made; ``FileExistsError`` where somebody has."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def open_kept(path: Path, flags: int, mode: int) -> int:
    """The descriptor of a file that is there, or is made with ``mode``, and has no wider rights afterwards.

    ``PermissionError`` for a link that somebody else has laid.
    """
    refuse_others_link(path)
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, mode)
    found = os.fstat(descriptor)
    wider = stat.S_IMODE(found.st_mode) & ~mode
    if stat.S_ISREG(found.st_mode) and wider & _OTHERS and found.st_uid == os.geteuid():
        os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & mode)
    return descriptor


def refuse_others_link(path: Path) -> None:
    """``PermissionError`` where a path is a link that neither this user nor root has made."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(found.st_mode) and found.st_uid not in (0, os.geteuid()):
        raise PermissionError(f"a link that user {found.st_uid} has made")


def readable_by_others(path: Path) -> tuple[str, str] | None:
    """What is wrong with the rights of a secret file, and what to do; None where only its owner reads it.

    That is also where a folder above is closed to others, and where an orchestrator has mounted the file: for
    reading only, or as root's for a group of this process.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or not found.st_mode & _OTHERS:
            return None
        if found.st_mode & 0o007 == 0 and found.st_uid == 0 != os.geteuid() and _is_ours(found.st_gid):
            return None
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            return None
        above = [folder.stat() for folder in path.resolve().parents]
    except OSError:
        return None  # whoever reads it says what is wrong
    if any(not _is_passable(found.st_mode, folder) for folder in above):
        return None
    return f"{path} can be read by others than its owner", f"chmod 600 {shlex.quote(str(path))}"


def _is_ours(group: int) -> bool:
    return group == os.getegid() or group in os.getgroups()


def _is_passable(rights: int, folder: os.stat_result) -> bool:
    """Whether somebody whom a file's rights let read it gets through a folder above."""
    return bool(folder.st_mode & (0o001 if rights & 0o007 else 0o011))


def new_folder(folder: Path, mode: int = OPEN_FOLDER) -> None:
    """A folder with these rights at most, whatever the umask, and those above it; one that is there stays."""
    for above in [each for each in folder.parents if not each.exists()][::-1]:
        above.mkdir(mode=OPEN_FOLDER, exist_ok=True)
    folder.mkdir(mode=mode, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Make new files and renames in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
