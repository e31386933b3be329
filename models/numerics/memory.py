"""What a process does about memory: little while a command computes, what it must once it goes on for years.

Python looks for garbage by going through all classes and kernels, again and again while they come in. glibc
gives the pages of large arrays back to the kernel, which clears them for the next ones: of reading a large
table that took a fifth of the time, of counting check-ins more than a third.
"""

from __future__ import annotations

import ctypes
import gc
from typing import Final

SELDOM: Final = (100_000, 20, 100)
_USUAL: Final = gc.get_threshold()
_TRIM, _MAP = -1, -3  # glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD
_KEPT: Final = 256 << 20  # bytes
_MOST_BY_ITSELF: Final = 32 << 20  # up to which glibc's own threshold rises


def keep_memory() -> None:
    """For a command."""
    gc.set_threshold(*SELDOM)
    _give_back_from(_KEPT, _KEPT)


def give_memory_back() -> None:
    """For what goes on for years; what is there by now is not looked through again."""
    gc.freeze()
    gc.set_threshold(*_USUAL)
    _give_back_from(2 * _MOST_BY_ITSELF, _MOST_BY_ITSELF)


def _give_back_from(trim: int, mapped: int) -> None:
    """So much at the heap's end, and arrays of that size; nothing where there is no glibc."""
    option = getattr(ctypes.CDLL(None), "mallopt", None)
    if option is not None:
        option(_TRIM, trim)
        option(_MAP, mapped)
