"""How kernels are compiled: cached on disk, without the interpreter lock, never with reordered arithmetic.

``fastmath`` stays off: a replay must give the same bits, whatever the number of threads. Every process
compiles for the same kind of CPU, so that machines that share people or a cache run the same instructions.

Nothing of numba is changed for other people's kernels (:mod:`models.numerics.own_target`), and ours are kept
in folders of their own (:mod:`models.numerics.kernel_cache`).
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
from models.numerics.linked import CalledCache, call_linked
from models.numerics.own_target import Dispatcher, compiling, own_jit
from models.numerics.threads import in_threads

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")


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


def _kernel(function: Callable[..., Any], **options: bool) -> Dispatcher:
    """One that Python calls by machine code, and kernels by :mod:`models.numerics.linked`."""
    kernel = _shared(own_jit(nogil=True, no_cfunc_wrapper=True, **options)(function), CalledCache)
    call_linked(kernel, _shared)
    return cast(Dispatcher, kernel)


def _shared(kernel: Any, keep: type[KernelCache]) -> Any:
    """What one process compiles and others load."""
    kernel.compile = _compiled_once(kernel, keep)
    return kernel


def _compiled_once(kernel: Any, keep: type[KernelCache]) -> Callable[[Any], Any]:
    """The kernel's ``compile`` while no other process compiles the same one, which this then loads.

    Where it is kept is looked up when it is called: a process has hundreds of kernels and calls a few.
    One that is kept already is loaded without a look at others: a worker that was stopped while it loaded
    must not hold up those that start. Kernels call each other without circles, and a process holds numba's
    own lock first, so nobody waits for somebody who waits for them. The lock goes with the process. Where
    nothing can be kept there is nothing to share.
    """
    compile_or_load = kernel.compile
    kept: KernelCache | NoCache | None = None

    @functools.wraps(compile_or_load)
    def compile_once(signature: Any) -> Any:
        nonlocal kept
        kept = kernel._cache = kept or cache_of(kernel.py_func, keep)
        with compiling(), ExitStack() as until_kept:
            if not kept.is_there:
                with suppress(OSError):
                    if (path := kept.lock_file(kernel.py_func.__qualname__)) is not None:
                        _wait_for(until_kept.enter_context(path.open("w")))
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
    return cast(F, own_jit(inline="always", nogil=True)(function))


def intrinsic(function: Callable[..., Any]) -> Any:
    """Make code written for the compiler, instruction by instruction, callable from kernels."""
    return numba.extending.intrinsic(function)
