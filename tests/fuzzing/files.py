"""Where doors put what is read as a file: a folder in memory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path


@cache
def memory_folder() -> Path:
    """The folder of this process."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="fuzzing-", dir=memory if memory.is_dir() else None))


def remove_folder() -> None:
    """Remove what was written."""
    shutil.rmtree(memory_folder(), ignore_errors=True)
    memory_folder.cache_clear()


def as_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """A reader of files as one of bytes."""

    def call(data: bytes) -> object:
        path = memory_folder() / name
        path.write_bytes(data)
        return read(path)

    return call
