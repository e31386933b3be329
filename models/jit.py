"""How kernels are compiled: cached on disk, without the interpreter lock, never with reordered arithmetic.

``fastmath`` stays off: a replay must give the same bits, whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """Compile a kernel for one thread."""
    return cast(F, numba.njit(cache=True, nogil=True)(function))


def pjit(function: F) -> F:
    """Compile a kernel whose ``prange`` loops run over independent people."""
    return cast(F, numba.njit(cache=True, nogil=True, parallel=True)(function))


prange = numba.prange


def inline(function: F) -> F:
    """Compile a kernel into its callers: a call would copy the descriptors of dozens of arrays."""
    return cast(F, numba.njit(inline="always", nogil=True)(function))
