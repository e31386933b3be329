"""The disk cache of compiled kernels: by contents, in folders that only tallyguard fills and empties.

numba caches a compiled kernel by the path of its file, and notices when that file has changed but not when a
kernel that it calls has (https://github.com/numba/numba/issues/1833). Ours are cached by contents instead: of
the file and of every file with kernels that it imports, see :mod:`models.numerics.jit`. So copies of the same
sources share compiled code, wherever they are, and a change recompiles what can depend on it and nothing
else.

A folder that cannot be written to is still read, as in a container image: what is compiled beyond it goes to
a folder among the temporary files. Cached code is run unchecked, so that folder must belong to this user and
be closed to others.
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
from collections.abc import Iterator, Mapping, Sequence, Set
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
_FORMAT = 2  # of what is kept of a kernel: versions with another would take turns to compile the same
_OWN_FILES = (".nbi", ".nbc", ".lock")
_UNUSED_SECONDS = 14 * 86_400  # older folders belong to sources that nobody runs any more


@cache
def _kernel_source(path: Path) -> bytes:
    """A file's contents if it has kernels, that is, imports ``jit``; else nothing."""
    source = path.read_bytes() if path.is_file() else b""
    return source if b"models.numerics.jit" in source else b""


@cache
def _imported(path: Path, root: Path) -> Set[Path]:
    """Files with kernels below ``root`` that the import lines of another may name."""
    found = set()
    for module, names in _IMPORT.findall(_kernel_source(path)):
        there = root.joinpath(*module.decode().split("."))
        found |= {there.with_suffix(".py")}
        found |= {there / f"{name.decode()}.py" for name in re.findall(rb"\w+", names)}
    return {each for each in found if _kernel_source(each)}


@cache
def source_stamp(path: Path, root: Path = _ROOT) -> str:
    """A hash of the contents of a file and of all files with kernels that it imports, directly or not."""
    seen: set[Path] = set()
    waiting = {path}
    while waiting:
        each = waiting.pop()
        seen.add(each)
        waiting |= _imported(each, root) - seen
    digest = hashlib.sha256(f"{_FORMAT} {numba.__version__} {llvmlite.__version__}".encode())
    for each in sorted(each for each in seen if _kernel_source(each)):
        name, source = os.path.relpath(each, root).encode(), _kernel_source(each)
        digest.update(b"%s\0%d\0" % (name, len(source)) + source)
    return digest.hexdigest()[:16]


def kernel_sources(root: Path = _ROOT) -> Iterator[Path]:
    """Our files with kernels."""
    for package in ("models", "accounting", "stream_app"):
        yield from (each for each in (root / package).rglob("*.py") if _kernel_source(each))


def _wanted() -> Path | None:
    """A folder in ``NUMBA_CACHE_DIR``, which may be shared, or in the user's cache; None without a home."""
    if shared := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(shared).absolute() / "tallyguard"
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not home.is_absolute():  # the XDG specification: a relative path is invalid and ignored
        with suppress(RuntimeError):  # a user without a home
            home = Path.home() / ".cache"
    return home / "tallyguard" / "kernels" if home.is_absolute() else None


WANTED = _wanted()
"""The folder of kernels that all processes of this user share."""


def _among_temporary_files() -> Path:
    """The fallback; :class:`OSError` if it exists and is not this user's, or is open to others."""
    folder = Path(tempfile.gettempdir()) / f"kernels-of-tallyguard-{os.geteuid()}"
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return folder
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{str(folder)!r} is another user's, or open to others")
    return folder


def _folders() -> Iterator[Path]:
    """The folders to look in and to write to, in this order."""
    if WANTED is not None:
        yield WANTED
    with suppress(OSError):
        yield _among_temporary_files()


@cache
def _made(folder: Path) -> Path:
    """Make a folder for the kernels of some sources; :class:`OSError` if it cannot be written to."""
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
    """Note that a folder was used, so that :func:`forget_unused` keeps it."""
    with suppress(OSError):  # read-only
        os.utime(folder)


@cache
def forget_unused(caches: Path) -> None:
    """Remove our folders of sources that have not been run for two weeks."""
    with suppress(OSError):  # another process may remove the same
        for old in caches.iterdir():
            is_ours = _STAMP.fullmatch(old.name) and not old.is_symlink() and (old / MARKER).is_file()
            if not is_ours or time.time() - old.stat().st_mtime <= _UNUSED_SECONDS:
                continue
            names = [each.name for each in old.iterdir()]  # a user's own file there keeps the folder
            if all(name == MARKER or name.endswith(_OWN_FILES) or ".nb" in name for name in names):
                shutil.rmtree(old, ignore_errors=True)


class _Locator(UserProvidedCacheLocator):
    """numba's locator: in each of :func:`_folders`, a file's kernels are in a folder named by its stamp."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        self._py_file, self._lineno = py_file, py_func.__code__.co_firstlineno
        self.stamp = source_stamp(Path(py_file))

    def get_cache_path(self) -> str:
        return self.stamp

    def ensure_cache_path(self) -> None:
        """Nothing: the folder is made when something is written."""


class KeptResult(CompileResultCacheImpl):
    """How compiled code is written; numba's own class would look for a folder among its locators."""

    def __init__(self, py_func: Any) -> None:
        file = Path(inspect.getfile(py_func))
        self._lineno, self._locator = py_func.__code__.co_firstlineno, _Locator(py_func, str(file))
        self._filename_base = self.get_filename_base(f"{file.stem}.{py_func.__qualname__}", sys.abiflags)  # type: ignore[no-untyped-call]


class _File(IndexDataCacheFile):
    """An index of kernels and the file of each; a truncated or damaged file counts as missing.

    numba ends with an ``EOFError`` there (https://github.com/numba/numba/issues/10434), hence the checksum.
    """

    def _load_index(self) -> Any:
        try:
            return super()._load_index()  # type: ignore[no-untyped-call]
        except Exception:  # pickle raises almost anything for damaged bytes
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
    """The cached code of one kernel, in whichever of the folders it is."""

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)  # type: ignore[no-untyped-call]
        name, stamp = self._impl.filename_base, self._impl.locator.get_source_stamp()
        self._files = [_File(str(each / self.cache_path), name, stamp) for each in _folders()]  # type: ignore[no-untyped-call]
        self._cache_path = next((each._cache_path for each in self._files), None)

    @property
    def is_there(self) -> bool:
        """Whether any code of this kernel is cached."""
        with suppress(PermissionError):  # a folder that this user cannot enter
            return any(Path(each._index_path).exists() for each in self._files)
        return False

    def lock_file(self, name: str) -> Path | None:
        """The file to lock while it is compiled; None, after a message, where nothing can be cached."""
        written = self._written()
        return None if written is None else Path(written._cache_path) / f"{name}.lock"

    @property
    def stamp(self) -> str:
        """The hash of the sources that its code was compiled from."""
        return str(self._impl.locator.stamp)

    def put(self, files: Mapping[str, bytes]) -> None:
        """Keep those of these files, of this or of other kernels of its source file, that are its own.

        Its lock is held. An index comes after the files it names.
        """
        written = self._written()
        if written is None:
            return
        for name, data in files.items():
            if name.startswith(f"{self._impl.filename_base}."):
                with written._open_for_write(str(Path(written._cache_path) / name)) as file:
                    file.write(data)

    def _written(self) -> _File | None:
        """The first folder that can be written to, with a message where it is not the wanted one."""
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
            except Exception:  # whatever cannot be read or linked is compiled again
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
            except OSError as error:  # the disk may be full by now
                reasons.append((Path(each._cache_path).parent, error))
            else:
                if reasons:
                    announce_unkept(*_first(reasons), instead=Path(each._cache_path).parent)
                return
        if reasons:
            announce_unkept(*_first(reasons), instead=None)


def _first(reasons: Sequence[tuple[Path, OSError]]) -> tuple[Path | None, str]:
    """The wanted folder, and why nothing can be written there."""
    if not reasons:
        return None, "no home folder is known"
    folder, error = reasons[0]
    return folder, error.strerror or str(error)


class NoCache(NullCache):
    """For kernels written at a prompt: the next process could not recognise them."""

    is_there = True

    def lock_file(self, name: str) -> Path | None:
        """None: no other process compiles it."""


def cache_of(py_func: Any, kind: type[KernelCache]) -> KernelCache | NoCache:
    """The cache of a kernel."""
    own = _kernel_source(Path(py_func.__code__.co_filename))
    return kind(py_func) if own else NoCache()
