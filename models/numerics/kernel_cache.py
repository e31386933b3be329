"""Where compiled kernels are kept: by contents, in folders that nobody else fills or empties.

numba keeps a compiled kernel by the path of its file, and notices when that file has changed but not when a
kernel it calls has. Ours are kept by contents instead: of the file and of every file with kernels it imports,
see :mod:`models.numerics.jit`. So copies of the same sources, wherever they stand, share what one of them
compiled, and a change compiles again what can depend on it and nothing else.

A folder that cannot be written to is read all the same, as in an image: what is compiled beyond it goes to
a folder of this user's own among the temporary files. Whoever could write there could have us run anything,
so it must be this user's, and closed to others.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import pickle
import re
import shutil
import stat
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import numba
from numba.core.caching import (
    Cache,
    CompileResultCacheImpl,
    IndexDataCacheFile,
    NullCache,
    UserProvidedCacheLocator,
)

from models.numerics.compiling import announce_unkept

_ROOT = Path(__file__).resolve().parents[2]
_IMPORT = re.compile(rb"^\s*from ([\w.]+) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
_STAMP = re.compile(r"[0-9a-f]{16}")
MARKER = ".kernels-of-tallyguard"
"""A file in each folder that was made here, and in no other: only such folders are ever removed."""
_OWN_FILES = (".nbi", ".nbc", ".lock")
_UNUSED_SECONDS = 14 * 86_400  # older folders belong to sources nobody runs any more


@cache
def _kernel_source(path: Path) -> bytes:
    """A file's contents if it holds kernels, which are those that import ``jit``; else nothing."""
    source = path.read_bytes() if path.is_file() else b""
    return source if b"models.numerics.jit" in source else b""


@cache
def _imported(path: Path, root: Path) -> Set[Path]:
    """Files with kernels below ``root`` that may be meant by the import lines of another."""
    found = set()
    for module, names in _IMPORT.findall(_kernel_source(path)):
        there = root.joinpath(*module.decode().split("."))
        found |= {there.with_suffix(".py")}
        found |= {there / f"{name.decode()}.py" for name in re.findall(rb"\w+", names)}
    return {each for each in found if _kernel_source(each)}


@cache
def source_stamp(path: Path, root: Path = _ROOT) -> str:
    """A name for the contents of a file and of all files with kernels it imports, also through others."""
    seen: set[Path] = set()
    waiting = {path}
    while waiting:
        each = waiting.pop()
        seen.add(each)
        waiting |= _imported(each, root) - seen
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for each in sorted(each for each in seen if _kernel_source(each)):
        name, source = os.path.relpath(each, root).encode(), _kernel_source(each)
        digest.update(b"%s\0%d\0" % (name, len(source)) + source)
    return digest.hexdigest()[:16]


def _wanted() -> Path | None:
    """Below ``NUMBA_CACHE_DIR``, which others may use, too, or the user's cache; None without a home."""
    if shared := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(shared).absolute() / "tallyguard"
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not home.is_absolute():  # which is to be ignored
        with suppress(RuntimeError):  # a user without a home
            home = Path.home() / ".cache"
    return home / "tallyguard" / "kernels" if home.is_absolute() else None


WANTED = _wanted()
"""The folder of all kernels that others of this user share."""


def _among_temporary_files() -> Path:
    """Where kernels are kept instead; :class:`OSError` if that is there and not this user's alone."""
    folder = Path(tempfile.gettempdir()) / f"kernels-of-tallyguard-{os.geteuid()}"
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return folder
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{str(folder)!r} is another user's, or open to others")
    return folder


def _folders() -> Iterator[Path]:
    """Where kernels may be kept, the one that is wanted first."""
    if WANTED is not None:
        yield WANTED
    with suppress(OSError):
        yield _among_temporary_files()


@cache
def _made(folder: Path) -> Path:
    """A folder for the kernels of some sources, which can be written to; :class:`OSError` if it cannot."""
    if folder.parent != WANTED:
        with suppress(FileExistsError):
            folder.parent.mkdir(mode=0o700)
        _among_temporary_files()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).touch()
    tempfile.TemporaryFile(dir=folder).close()
    _used(folder)
    forget_unused(folder.parent)
    return folder


@cache
def _used(folder: Path) -> None:
    """What was used is not forgotten, see :func:`forget_unused`."""
    with suppress(OSError):  # where it can be read only
        os.utime(folder)


@cache
def forget_unused(caches: Path) -> None:
    """Remove the folders of sources that have not been run for two weeks, of those that were made here."""
    with suppress(OSError):  # another process removes the same
        for old in caches.iterdir():
            is_ours = _STAMP.fullmatch(old.name) and not old.is_symlink() and (old / MARKER).is_file()
            if is_ours and time.time() - old.stat().st_mtime > _UNUSED_SECONDS and _holds_only_kernels(old):
                shutil.rmtree(old, ignore_errors=True)


def _holds_only_kernels(folder: Path) -> bool:
    names = (each.name for each in folder.iterdir())
    return all(name == MARKER or name.endswith(_OWN_FILES) or ".nb" in name for name in names)


class _Locator(UserProvidedCacheLocator):
    """The folder of a file's kernels in each of :func:`_folders`: its name is the file's stamp."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        self._py_file, self._lineno = py_file, py_func.__code__.co_firstlineno
        self.stamp = source_stamp(Path(py_file))

    def get_cache_path(self) -> str:
        return self.stamp

    def ensure_cache_path(self) -> None:
        """Done when something is kept."""


class KeptResult(CompileResultCacheImpl):
    """How what was compiled is written down; numba would look for a folder among those it is set to use."""

    def __init__(self, py_func: Any) -> None:
        file = Path(inspect.getfile(py_func))
        self._lineno, self._locator = py_func.__code__.co_firstlineno, _Locator(py_func, str(file))
        self._filename_base = self.get_filename_base(f"{file.stem}.{py_func.__qualname__}", sys.abiflags)  # type: ignore[no-untyped-call]


class _File(IndexDataCacheFile):
    """An index of kernels and the file of each. What is torn or changed counts as not there."""

    def _load_index(self) -> Any:
        try:
            return super()._load_index()  # type: ignore[no-untyped-call]
        except Exception:  # whatever pickle makes of bytes that are none of its own
            return {}

    def _save_data(self, name: str, data: Any) -> None:
        code = self._dump(data)  # type: ignore[no-untyped-call]
        with self._open_for_write(self._data_path(name)) as file:  # type: ignore[no-untyped-call]
            file.write(zlib.crc32(code).to_bytes(4, "big") + code)

    def _load_data(self, name: str) -> Any:
        kept = Path(self._data_path(name)).read_bytes()  # type: ignore[no-untyped-call]
        if zlib.crc32(kept[4:]).to_bytes(4, "big") != kept[:4]:
            raise OSError("torn or changed")
        return pickle.loads(kept[4:])


class KernelCache(Cache):
    """What was compiled of one kernel, in whichever of the folders it is."""

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)  # type: ignore[no-untyped-call]
        name, stamp = self._impl.filename_base, self._impl.locator.get_source_stamp()
        self._files = [_File(str(each / self.cache_path), name, stamp) for each in _folders()]  # type: ignore[no-untyped-call]
        self._cache_path = next((each._cache_path for each in self._files), None)

    @property
    def is_there(self) -> bool:
        """Whether something of this kernel is kept."""
        with suppress(PermissionError):  # where we may not even look
            return any(Path(each._index_path).exists() for each in self._files)
        return False

    def lock_file(self, name: str) -> Path | None:
        """What to lock while it is compiled; None where nothing can be kept, which is said."""
        written = self._written()
        return None if written is None else Path(written._cache_path) / f"{name}.lock"

    def _written(self) -> _File | None:
        """Where to keep it: the first folder that can be written to. Said, if that is not the one wanted."""
        reasons = []
        for each in self._files:
            folder = Path(each._cache_path)
            try:
                _made(folder)
            except OSError as error:
                reasons.append((folder.parent, error))
            else:
                if reasons or WANTED is None:
                    announce_unkept(*_first(reasons), instead=folder.parent)
                return each
        announce_unkept(*_first(reasons), instead=None)
        return None

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        for each in self._files:
            self._cache_file = each
            try:
                found = super()._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
            except Exception:  # what cannot be read or linked, for whatever reason, is compiled again
                continue
            if found is not None:
                _used(Path(each._cache_path))
                return found
        return None

    def _save_overload(self, sig: Any, data: Any) -> None:
        written = self._written()
        reasons = []
        for each in self._files[self._files.index(written) :] if written else ():
            self._cache_file = each
            try:
                _made(Path(each._cache_path))
                super()._save_overload(sig, data)  # type: ignore[no-untyped-call]
            except OSError as error:  # a disk that is full by now
                reasons.append((Path(each._cache_path).parent, error))
            else:
                if reasons:
                    announce_unkept(*_first(reasons), instead=Path(each._cache_path).parent)
                return
        if reasons:
            announce_unkept(*_first(reasons), instead=None)


def _first(reasons: Sequence[tuple[Path, OSError]]) -> tuple[Path | None, str]:
    """The folder that was wanted, and why nothing can be kept there."""
    if not reasons:
        return None, "no home folder is known"
    folder, error = reasons[0]
    return folder, error.strerror or str(error)


class NoCache(NullCache):
    """For kernels that are written at a prompt: nothing to know them by the next time."""

    is_there = True

    def lock_file(self, name: str) -> Path | None:
        """Nobody else compiles it."""


def cache_of(py_func: Any, kind: type[KernelCache]) -> KernelCache | NoCache:
    """Where a kernel is kept."""
    own = _kernel_source(Path(py_func.__code__.co_filename))
    return kind(py_func) if own else NoCache()
