"""A disk that forgets: at a loss of power only what was synced is left, of files and of folders."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest


class PowerLoss(BaseException):
    """The lights go out."""


Left = dict[Path, bytes | None]
"""What lies below a folder: the bytes of each file, None for a folder, which comes before what is in it."""


def restore(root: Path, left: Left) -> None:
    """Write it below an empty folder."""
    for name, data in left.items():
        if data is None:
            (root / name).mkdir()
        else:
            (root / name).write_bytes(data)


class ForgetfulDisk:
    """Watches what is synced below ``root``, and stops the program at a chosen operation on the disk.

    A file's bytes are durable once the file was synced, its name once its folder was. ``lose_power`` leaves
    of everything else nothing, or with a random generator of each file and name what was or what would be;
    ``left`` says what that is and loses nothing, so that one run shows every moment (``before_operation``).
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.operations = 0
        self.stop_at = -1
        self.before_operation: Callable[[], None] = lambda: None
        self._bytes: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {root.stat().st_ino: {}}
        self._open, self._write, self._fsync, self._replace = os.open, os.write, os.fsync, Path.replace
        monkeypatch.setattr(os, "open", self.open)
        monkeypatch.setattr(os, "write", self.write)
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(
            Path,
            "replace",
            lambda draft, target: self.replace(draft, target),  # noqa: PLW0108 - not a method of Path
        )

    def open(self, path: object, flags: int, mode: int = 0o777, **more: object) -> int:
        is_new = bool(flags & os.O_CREAT) and not os.path.lexists(path)  # type: ignore[arg-type]
        if is_new:
            self._count()
        descriptor = self._open(path, flags, mode, **more)  # type: ignore[arg-type]
        if is_new:
            self._bytes.pop(os.fstat(descriptor).st_ino, None)  # a number that a file now gone had before
        return descriptor

    def write(self, descriptor: int, data: bytes) -> int:
        self._count()
        return self._write(descriptor, data)

    def replace(self, draft: Path, target: Path) -> Path:
        self._count()
        return self._replace(draft, target)

    def fsync(self, descriptor: int) -> None:
        self._count()
        found = os.fstat(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if not path.is_relative_to(self.root):
            return
        if stat.S_ISDIR(found.st_mode):
            self._names[found.st_ino] = {each.name: each.stat().st_ino for each in path.iterdir()}
        else:
            self._bytes[found.st_ino] = path.read_bytes()

    def lose_power(self, random: Random | None = None) -> None:
        """Leave below ``root`` what a restart of the machine would find."""
        left = self.left(random)
        shutil.rmtree(self.root)
        self.root.mkdir()
        restore(self.root, left)
        self._bytes, self._names = {}, {}  # numbers are given again
        self._all_durable(self.root)

    def left(self, random: Random | None = None) -> Left:
        """What a restart of the machine would find if the power were lost now."""
        left: Left = {}
        self._lose(self.root, Path(), left, random)
        return left

    def _lose(self, folder: Path, name_below: Path, left: Left, random: Random | None) -> None:
        paths = {each.stat().st_ino: each for each in folder.iterdir()}
        now = {path.name: number for number, path in paths.items()}
        names = dict(self._names.get(folder.stat().st_ino, {}))
        for name in sorted(now.keys() | names.keys()):
            if random is not None and random.random() < 0.5:
                names[name] = now.get(name, 0)
        for name, number in names.items():
            if (path := paths.get(number)) is not None and path.is_dir():
                left[name_below / name] = None
                self._lose(path, name_below / name, left, random)
            elif number in self._bytes or path is not None:
                left[name_below / name] = self._left_of(number, path, random)

    def _left_of(self, number: int, path: Path | None, random: Random | None) -> bytes:
        """The bytes of a file: those synced, and with luck some more."""
        synced = self._bytes.get(number, b"")
        if random is None or path is None:
            return synced
        now = path.read_bytes()
        return now[: random.randint(len(synced), len(now))] if now.startswith(synced) else synced

    def _all_durable(self, folder: Path) -> None:
        """What a machine finds when it starts is on its disk."""
        self._names[folder.stat().st_ino] = {each.name: each.stat().st_ino for each in folder.iterdir()}
        for path in folder.iterdir():
            if path.is_dir():
                self._all_durable(path)
            else:
                self._bytes[path.stat().st_ino] = path.read_bytes()

    def _count(self) -> None:
        self.operations += 1
        self.before_operation()
        if self.operations == self.stop_at:
            raise PowerLoss
