"""How kernels are compiled: cached on disk, without the interpreter lock, never with reordered arithmetic.

``fastmath`` stays off: a replay must give the same bits, whatever the number of threads. Every process
compiles for the same kind of CPU, so that machines that share people or a cache run the same instructions.

numba is not changed for kernels outside tallyguard (:mod:`models.numerics.own_target`); ours are cached in
folders of their own (:mod:`models.numerics.kernel_cache`).
"""

from __future__ import annotations

import fcntl
import functools
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import IO, Any, Concatenate, ParamSpec, TypeVar, cast

import numba

from models.numerics.compiling import announce_waiting
from models.numerics.kernel_cache import KernelCache, NoCache, cache_of
from models.numerics.linked import CalledCache, call_linked, call_shared
from models.numerics.own_target import Dispatcher, compiling, own_jit
from models.numerics.shipped import take_shipped
from models.numerics.threads import in_threads

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")


def jit(function: F) -> F:
    """Compile a kernel for one thread."""
    return cast(F, _kernel(function))


def bare_jit(function: F) -> F:
    """Compile a kernel that neither makes nor returns an array, for inner loops.

    It counts no references. Otherwise numba counts one to every array of every argument at each call, with
    an atomic instruction: on a person's few places that took longer than the arithmetic. The compiler refuses
    an array made in such a kernel (also by a method such as ``sum``) and a copy from one slice to another.
    """
    return cast(F, _kernel(function, _nrt=False))


def _kernel(function: Callable[..., Any], **options: bool) -> Dispatcher:
    """A kernel that Python calls as machine code; other kernels link it (:mod:`models.numerics.linked`)."""
    kernel = own_jit(nogil=True, no_cfunc_wrapper=True, **options)(function)
    _compile_in_one_process(kernel, CalledCache)
    call_linked(kernel, _compile_in_one_process)
    return kernel


def _compile_in_one_process(kernel: Any, cache: type[KernelCache]) -> None:
    """Make ``kernel.compile`` wait while another process compiles the same kernel, and load its result.

    Its cache is looked up at the first call: a process has hundreds of kernels and calls a few. A cached
    kernel is loaded without the lock, so that a worker that was stopped while it loaded cannot hold up others
    that start. There is no deadlock: kernels call each other without circles, and a process holds numba's own
    lock first. The lock ends with the process. Where nothing can be cached there is nothing to share.
    """
    compile_or_load = kernel.compile
    kept: KernelCache | NoCache | None = None

    @functools.wraps(compile_or_load)
    def compile_once(signature: Any) -> Any:
        nonlocal kept
        kept = kernel._cache = kept or cache_of(kernel.py_func, cache)
        with compiling(), ExitStack() as until_kept:
            if not kept.is_there:
                with suppress(OSError):
                    if (path := kept.lock_file(kernel.py_func.__qualname__)) is not None:
                        _wait_for(until_kept.enter_context(path.open("w")))
                        if isinstance(kept, KernelCache) and not kept.is_there:
                            take_shipped(kept)
            return compile_or_load(signature)

    kernel.compile = compile_once


def _wait_for(lock: IO[str]) -> None:
    """Take the lock, after a message where another process holds it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        announce_waiting()
        fcntl.flock(lock, fcntl.LOCK_EX)


def pjit(
    count: Callable[..., int], least: int = 1
) -> Callable[[Callable[Concatenate[int, int, P], None]], Callable[P, None]]:
    """Compile a kernel over independent people and run it on several threads.

    The kernel takes ``begin`` and ``end`` of a range of people, then its arguments; callers pass the
    arguments only, and ``count(*arguments)`` is how many people there are. A range has at least ``least`` of
    them, which are worth a thread: see :func:`models.numerics.threads.in_threads`.
    """
    return lambda function: in_threads(count, least, jit(function))


def bare_pjit(
    count: Callable[..., int], least: int = 1
) -> Callable[[Callable[Concatenate[int, int, P], None]], Callable[P, None]]:
    """A :func:`pjit` of a :func:`bare_jit`; with work arrays, make it a :func:`pjit` around a bare loop."""
    return lambda function: in_threads(count, least, bare_jit(function))


def shared(kernel: F) -> F:
    """Compile a kernel once that is large and has several callers: they call it and do not contain it.

    It goes above :func:`jit` or :func:`bare_jit`, for kernels that compute for microseconds and more.
    """
    call_shared(kernel)
    return kernel


def inline(function: F) -> F:
    """Compile a kernel into each caller: a call would copy the descriptors of dozens of arrays."""
    return cast(F, own_jit(inline="always", nogil=True)(function))


def intrinsic(function: Callable[..., Any]) -> Any:
    """Make a function that writes LLVM instructions callable from kernels."""
    return numba.extending.intrinsic(function)
