"""Stretches of time in which an accountant's chains and slots stay as they are.

Without a calendar there is one stretch. With one, time is cut into blocks of steps. In most blocks no clock
is changed near any step that the block's horizons depend on: slots count on, and only the first one differs.
In the others each step has a slot of its own (:mod:`models.priors.unrolled`), so that every recursion, bound
and constant is that of the moves people really make. Which stretch a step is in depends on nothing but the
settings, so an accountant that restarts or is joined by people has the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from accounting.continuous.accounts_kernel import HISTORY, MEMORY, NOT_ALIKE
from accounting.settings import HorizonSettings
from models.calendar import Calendar
from models.priors import PopulationArrays
from models.priors.unrolled import unrolled_arrays

_BLOCK = 64  # steps that share the work of a stretch with a changed clock


class Stretch(NamedTuple):
    """The chains of consecutive steps, and ``first_slot``, from which on step 0 would be counted.

    ``begin`` is None where chains are as their priors say. Else there is a slot for each of the ``steps``
    from step ``begin`` on. Horizons start in slot ``first_start + k``; ``like[k]`` is the position from which
    slots count on during the horizon, ``NOT_ALIKE`` where a clock is changed or a holiday is in it.
    """

    first_slot: int
    calendar: Calendar | None = None
    begin: int | None = None
    steps: int = 0
    first_start: int = 0
    like: tuple[int, ...] = ()

    @classmethod
    def of(cls, settings: HorizonSettings, step: int, ahead: int = 0, *, is_carried: bool = False) -> Stretch:
        """The stretch of the accounts whose last step is ``step``.

        So many steps ``ahead`` belong to it, too. With ``is_carried`` each step has a slot of its own in any
        case, for chains that have left the law of their cycle.
        """
        calendar = settings.calendar
        if calendar is None:
            return cls(settings.first_slot)
        return _stretch(calendar, settings.horizon, step // _BLOCK, ahead, is_carried)

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
def _stretch(calendar: Calendar, horizon: int, block: int, ahead: int, is_carried: bool) -> Stretch:
    """The stretch of the accounts whose last step is in a block."""
    before = horizon + HISTORY + MEMORY + 1  # steps that what follows can depend on
    begin = block * _BLOCK - before
    steps = before + _BLOCK + horizon + ahead  # people who start later have horizons beyond the last step
    position = calendar.first_slot + begin
    regular = calendar.regular_position(position, steps)
    if regular is not None and not is_carried:
        return Stretch(regular - begin)
    first = before - horizon
    starts = range(first, before + _BLOCK + ahead)
    found = (calendar.regular_position(position + start, horizon) for start in starts)
    like = tuple(NOT_ALIKE if each is None else each for each in found)
    return Stretch(-begin, calendar, begin, steps, first, like)


def changed_stretches(settings: HorizonSettings, cycles: Sequence[int]) -> Iterator[Stretch]:
    """A stretch around each time that a clock is changed; of changes alike for these cycles only one.

    All horizons in which clocks are changed are among its own.
    """
    calendar, horizon = settings.calendar, settings.horizon
    if calendar is None:
        return
    seen, starts = set(), horizon + calendar.most_repeated + 1
    for change in calendar.changes:
        begin, steps = change - horizon, starts + horizon
        position = calendar.first_slot + begin
        moves = [calendar.moves(cycle, position, steps) for cycle in cycles]
        key = tuple(array.tobytes() for each in moves for array in each)
        if key not in seen:
            seen.add(key)
            found = (calendar.regular_position(position + start, horizon) for start in range(starts))
            like = tuple(NOT_ALIKE if each is None else each for each in found)
            yield Stretch(-begin, calendar, begin, steps, 0, like)
