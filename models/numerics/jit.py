"""How kernels are compiled: cached on disk, without the interpreter lock, never with reordered arithmetic.

``fastmath`` stays off: a replay must give the same bits, whatever the number of threads. Every process
compiles for the same kind of CPU, so that machines that share people or a cache run the same instructions.

numba keeps a compiled kernel by the path of its file, and notices when that file has changed but not when a
kernel it calls has. Ours are kept by contents instead: of the file and of every file with kernels it imports.
So copies of the same sources, wherever they stand, share what one of them compiled, and a change compiles
again what can depend on it and nothing else.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Mapping, Set
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, Concatenate, ParamSpec, TypeVar, cast

import llvmlite.binding as llvm  # type: ignore[import-untyped]
import numba
from numba.core.caching import Cache, CacheImpl, UserProvidedCacheLocator
from numba.core.compiler_lock import global_compiler_lock
from numba.core.config import reload_config

from models.exceptions import MachineError
from models.numerics.compiling import announce_compiling, announce_waiting
from models.numerics.linked import CalledCache, call_linked
from models.numerics.threads import in_threads

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")

_ROOT = Path(__file__).resolve().parents[2]
_IMPORT = re.compile(rb"^\s*from ([\w.]+) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
CPU = "x86-64-v3"  # every server of the last ten years: AVX2 and FMA, no AVX-512
_CPU_FEATURES = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_UNUSED_SECONDS = 14 * 86_400  # older folders belong to sources nobody runs any more


@cache
def _kernel_source(path: Path) -> bytes:
    """A file's contents if it holds kernels, which are those that import this module; else nothing."""
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


def source_stamp(path: Path, root: Path = _ROOT) -> str:
    """A name for the contents of a file and of all files with kernels it imports, also through others."""
    seen: set[Path] = set()
    waiting = {path}
    while waiting:
        each = waiting.pop()
        seen.add(each)
        waiting |= _imported(each, root) - seen
    digest = hashlib.sha256(numba.__version__.encode())
    for each in sorted(each for each in seen if _kernel_source(each)):
        name, source = os.path.relpath(each, root).encode(), _kernel_source(each)
        digest.update(b"%s\0%d\0" % (name, len(source)) + source)
    return digest.hexdigest()[:16]


class KernelLocator(UserProvidedCacheLocator):
    """Where numba keeps the kernels of a file: a folder named by :func:`source_stamp`."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """None for kernels of other people's files."""
        if not _kernel_source(Path(py_file)):
            return None
        return super().from_function(py_func, py_file)  # type: ignore[no-untyped-call]

    @classmethod
    @cache
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """A folder for these contents, wherever the file stands."""
        return source_stamp(Path(py_file))

    def ensure_cache_path(self) -> None:
        """The folder exists and counts as used, see :func:`forget_unused`."""
        super().ensure_cache_path()  # type: ignore[no-untyped-call]
        os.utime(self.get_cache_path())  # type: ignore[no-untyped-call]


def use_one_cpu() -> None:
    """Compile for :data:`CPU` in this process and its children, whatever the environment asks for.

    :class:`~models.exceptions.MachineError` where the machine cannot run that.
    """
    if platform.machine() != "x86_64":
        return  # not supported: kernels are compiled for what there is
    check_cpu(llvm.get_host_cpu_features())
    os.environ |= {"NUMBA_CPU_NAME": CPU, "NUMBA_CPU_FEATURES": ""}
    reload_config()  # type: ignore[no-untyped-call]


def check_cpu(features: Mapping[str, bool]) -> None:
    """:class:`~models.exceptions.MachineError` unless a CPU with these features runs the kernels."""
    missing = [name for name in _CPU_FEATURES if not features.get(name)]
    if missing:
        raise MachineError(
            f"the CPU must be {CPU} (Intel since Haswell, AMD since Excavator)",
            f"one without {', '.join(missing)}",
            "run on a newer machine, or let the virtual machine show its host's CPU",
        )


def use_own_cache() -> None:
    """Keep kernels by contents, below ``NUMBA_CACHE_DIR`` or the user's cache folder."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    caches = Path(os.environ.get("NUMBA_CACHE_DIR") or home / "tallyguard" / "kernels")
    forget_unused(caches)
    others = [each.__name__ for each in CacheImpl._locator_classes]  # for kernels of other people's files
    numba.config.CACHE_LOCATOR_CLASSES = ",".join([f"{__name__}.KernelLocator", *others])  # type: ignore[attr-defined]
    numba.config.CACHE_DIR = str(caches)  # type: ignore[attr-defined]


def forget_unused(caches: Path) -> None:
    """Remove the folders of sources that have not been run for two weeks."""
    with suppress(OSError):  # no folder yet, or another process removes the same
        for old in caches.iterdir():
            is_ours = len(old.name) == 16 and old.is_dir()
            if is_ours and time.time() - old.stat().st_mtime > _UNUSED_SECONDS:
                shutil.rmtree(old, ignore_errors=True)


use_one_cpu()
use_own_cache()
announce_compiling()


def jit(function: F) -> F:
    """Compile a kernel for one thread."""
    return cast(F, _kernel(function))


def bare_jit(function: F) -> F:
    """Compile a kernel that neither makes nor returns an array, for inner loops.

    It counts no references. Otherwise numba counts one to every array of every argument at each call, with
    an atomic instruction: on a person's few places that took longer than the arithmetic. Making an array in
    such a kernel, by a method like ``sum`` too, or copying one slice to another is an error of the compiler.
    """
    return cast(F, _kernel(function, _nrt=False))


def _kernel(function: Callable[..., Any], **options: bool) -> Any:
    """One that Python calls by machine code, and kernels by :mod:`models.numerics.linked`."""
    njit: Any = numba.njit  # whose stubs do not know all options
    kernel = _shared(njit(nogil=True, no_cfunc_wrapper=True, **options)(function), CalledCache)
    call_linked(kernel, _shared)
    return kernel


def _shared(kernel: Any, keep: type[Cache]) -> Any:
    """What one process compiles and others load."""
    kernel.compile = _compiled_once(kernel, keep)
    return kernel


def _compiled_once(kernel: Any, keep: type[Cache]) -> Callable[[Any], Any]:
    """The kernel's ``compile`` while no other process compiles the same one, which this then loads.

    Where it is kept is looked up when it is called: a process has hundreds of kernels and calls a few.
    One that is kept already is loaded without a look at others: a worker that was stopped while it loaded
    must not hold up those that start. Kernels call each other without circles, and a process holds numba's
    own lock first, so nobody waits for somebody who waits for them. The lock goes with the process. Where the
    cache cannot be written to there is nothing to share.
    """
    compile_or_load = kernel.compile

    @functools.wraps(compile_or_load)
    def compile_once(signature: Any) -> Any:
        if not isinstance(kernel._cache, keep):
            kernel._cache = keep(kernel.py_func)
        if Path(kernel._cache._cache_file._index_path).exists():
            return compile_or_load(signature)
        with global_compiler_lock, ExitStack() as until_kept:
            with suppress(OSError):
                folder = Path(kernel._cache.cache_path)
                folder.mkdir(parents=True, exist_ok=True)
                lock = until_kept.enter_context((folder / f"{kernel.py_func.__qualname__}.lock").open("w"))
                _wait_for(lock)
            return compile_or_load(signature)

    return compile_once


def _wait_for(lock: IO[str]) -> None:
    """Hold the lock; said, if another process does."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        announce_waiting()
        fcntl.flock(lock, fcntl.LOCK_EX)


def pjit(
    count: Callable[..., int], least: int = 1
) -> Callable[[Callable[Concatenate[int, int, P], None]], Callable[P, None]]:
    """Compile a kernel over independent people and run it on several threads.

    The kernel takes the first number and the one behind the last, then its arguments; callers pass the
    arguments only, and ``count(*arguments)`` says how many there are. Fewer than ``least`` of them are not
    worth a thread: see :func:`models.numerics.threads.in_threads`.
    """
    return lambda function: in_threads(count, least, jit(function))


def bare_pjit(
    count: Callable[..., int], least: int = 1
) -> Callable[[Callable[Concatenate[int, int, P], None]], Callable[P, None]]:
    """:func:`pjit` of a :func:`bare_jit`. One that needs memory of its own makes it and calls a bare loop."""
    return lambda function: in_threads(count, least, bare_jit(function))


def inline(function: F) -> F:
    """Compile a kernel into its callers: a call would copy the descriptors of dozens of arrays."""
    return cast(F, numba.njit(inline="always", nogil=True)(function))


def intrinsic(function: Callable[..., Any]) -> Any:
    """Make code written for the compiler, instruction by instruction, callable from kernels."""
    return numba.extending.intrinsic(function)
