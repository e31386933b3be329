"""What a step that comes again reveals about everybody, kept from the last time.

Sensors that count all day long make the same step again and again. What such a step reveals about a person is
the same each time in the same slot of the person's chain, so it is computed once; what it adds up to with
the steps around it is not kept here.
"""

from __future__ import annotations

from collections import OrderedDict
from math import lcm

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.horizon_kernel import KnownTerms
from accounting.exposure.step_information.step_terms_kernel import StepView

MOST_BYTES = 96 * 2**20
_MOST_KEYS = 1024  # steps of which only the occurrence is kept
_UNKNOWN = -1

Key = tuple[int, int, int]


class RepeatedSteps:
    """Terms by step, step before and slot, those used last first; of people who start like their chain.

    A step is recognised by its view being the same object, which
    :func:`accounting.exposure.step_information.observation.view_of` sees to. ``slots`` (N,) are the slots of
    each person's chain.
    """

    def __init__(self, slots: NDArray[np.int32], most_bytes: int = MOST_BYTES) -> None:
        self._people = slots.size
        self._period = lcm(*np.unique(slots).tolist())
        self._most = max(1, most_bytes // max(1, 16 * slots.size))
        self._seen: OrderedDict[Key, tuple[StepView, StepView]] = OrderedDict()
        self._kept: OrderedDict[Key, KnownTerms] = OrderedDict()
        self._nothing = KnownTerms(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

    def __len__(self) -> int:
        """How many steps' terms are kept."""
        return len(self._kept)

    def terms(self, before: StepView, step: StepView, step_number: int) -> KnownTerms:
        """Where the kernel finds what is known, and leaves what it finds; empty for a step seen first."""
        hangs_on_before = step.is_raw and before.is_raw
        key = (id(step), id(before) if hangs_on_before else 0, step_number % self._period)
        if key not in self._seen:
            self._seen[key] = (before, step)  # kept alive, so that no other view gets their identity
            if len(self._seen) > _MOST_KEYS:
                self._kept.pop(self._seen.popitem(last=False)[0], None)
            return self._nothing
        self._seen.move_to_end(key)
        if key not in self._kept:
            self._kept[key] = KnownTerms(
                *(np.full(self._people, _UNKNOWN, dtype=np.int64) for _ in KnownTerms._fields)
            )
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]
