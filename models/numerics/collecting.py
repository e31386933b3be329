"""When Python looks for garbage: rarely while classes and kernels come in, for it would look through them."""

from __future__ import annotations

import gc
from typing import Final

SELDOM: Final = (100_000, 20, 100)
_USUAL: Final = gc.get_threshold()


def collect_seldom() -> None:
    """For a command: collecting took a tenth of the time of a short one."""
    gc.set_threshold(*SELDOM)


def collect_as_usual() -> None:
    """For what goes on for years; what is there by now is not looked through again."""
    gc.freeze()
    gc.set_threshold(*_USUAL)
