"""The recent log of the shadow adversary: arrays made once a step, and put together after each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.shadow.adversary_kernel import RecentLog
from accounting.exposure.drawing import noise_values
from accounting.exposure.step_information import observe
from models.mechanisms import Mechanism
from models.releases import SensorRelease, StepSchedule

_MOST_STEPS = 256  # a week of hours, each with sensors of its own, and more


class NotedStep(NamedTuple):
    """One step: ``size[k]`` sensors count outcome ``k``, numbered in ``sensor``, one outcome after the other.

    ``law`` is the number of each one's noise among the step's ``mechanisms``.
    """

    labels: NDArray[np.int32]  # (M,)
    size: NDArray[np.int64]  # (outcomes,)
    sensor: NDArray[np.int64]  # (S,)
    law: NDArray[np.int64]  # (S,)
    mechanisms: tuple[Mechanism, ...]
    can_be_drawn: bool


@lru_cache(_MOST_STEPS)
def noted(releases: tuple[SensorRelease, ...], location_count: int) -> NotedStep:
    """A step with these releases; the same object when they come again."""
    step = observe(StepSchedule(0, releases), location_count)
    laws: dict[Mechanism, int] = {}
    law = np.array([laws.setdefault(each, len(laws)) for each in step.mechanisms], dtype=np.int64)
    sensor = np.array(list(chain.from_iterable(step.outcomes)), dtype=np.int64)
    size = np.array([len(sensors) for sensors in step.outcomes], dtype=np.int64)
    return NotedStep(step.labels, size, sensor, law[sensor], tuple(laws), step.can_be_drawn)


def recent_log(first_step: int, steps: Sequence[NotedStep]) -> RecentLog:
    """These steps, the first of which is ``first_step``, in the form the kernel reads."""
    laws: dict[Mechanism, int] = {}
    law, first_of = [], dict[int, int]()
    for row, step in enumerate(steps):
        first_of.setdefault(id(step), row)
        number = np.array([laws.setdefault(each, len(laws)) for each in step.mechanisms], dtype=np.int64)
        law.append(number[step.law])
    size = np.concatenate([step.size for step in steps])
    outcomes = np.array([step.size.size for step in steps], dtype=np.int64)
    return RecentLog(
        first_step,
        np.array([first_of[id(step)] for step in steps], dtype=np.int64),
        np.stack([step.labels for step in steps]),
        np.cumsum(outcomes) - outcomes,
        np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(size))),
        np.concatenate([step.sensor for step in steps]),
        np.concatenate(law),
        noise_values(tuple(laws)),
    )
