"""Stretches of time in which an accountant's chains and slots stay as they are.

Without a calendar there is one stretch. With one, time is cut into blocks of steps. In most blocks no clock
is changed near any step that the block's horizons depend on: slots count on, and only the first one differs.
In the others each step has a slot of its own (:mod:`models.priors.unrolled`), so that every recursion, bound
and constant is that of the moves people really make. Which stretch a step is in depends on nothing but the
settings, so an accountant that restarts or is joined by people has the same bits.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from accounting.continuous.accounts_kernel import HISTORY, MEMORY
from accounting.settings import HorizonSettings
from models.calendar import Calendar
from models.priors import PopulationArrays
from models.priors.unrolled import unrolled_arrays

_BLOCK = 64  # steps that share the work of a stretch with a changed clock


class Stretch(NamedTuple):
    """The chains of consecutive steps, and ``first_slot``, from which on step 0 would be counted.

    ``begin`` is None where chains are as their priors say. Else there is a slot for each of the ``steps``
    from step ``begin`` on. Horizons start in slot ``first_start + k``; ``like[k]`` is the position from which
    slots count on during the horizon, -1 where a clock is changed or a holiday is in it.
    """

    first_slot: int
    calendar: Calendar | None = None
    begin: int | None = None
    steps: int = 0
    first_start: int = 0
    like: tuple[int, ...] = ()

    @classmethod
    def of(cls, settings: HorizonSettings, step: int) -> Stretch:
        """The stretch of the accounts whose last step is ``step``."""
        calendar = settings.calendar
        if calendar is None:
            return cls(settings.first_slot)
        return _stretch(calendar, settings.horizon, step // _BLOCK)

    @property
    def is_regular(self) -> bool:
        """Whether chains are as their priors say, and slots count on."""
        return self.begin is None

    def arrays(self, arrays: PopulationArrays) -> PopulationArrays:
        """The chains of this stretch from those of the priors."""
        if self.calendar is None or self.begin is None:
            return arrays
        return unrolled_arrays(arrays, self.calendar, self.calendar.first_slot + self.begin, self.steps)


@lru_cache(maxsize=16)
def _stretch(calendar: Calendar, horizon: int, block: int) -> Stretch:
    """The stretch of the accounts whose last step is in a block."""
    before = horizon + HISTORY + MEMORY + 1  # steps that what follows can depend on
    begin = block * _BLOCK - before
    steps = before + _BLOCK + horizon  # people who start later have horizons beyond the last step
    position = calendar.first_slot + begin
    regular = calendar.regular_position(position, steps)
    if regular is not None:
        return Stretch(regular - begin)
    first = before - horizon
    found = (calendar.regular_position(position + start, horizon) for start in range(first, before + _BLOCK))
    like = tuple(-1 if each is None or each < 0 else each for each in found)
    return Stretch(-begin, calendar, begin, steps, first, like)
