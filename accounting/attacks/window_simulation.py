"""Counts over windows as a simulated attack takes them: whose counts the decoder follows, and how."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from accounting.attacks.window_draws_kernel import WindowCodes
from accounting.exposure import Exposure
from accounting.exposure.drawing import noise_tables
from accounting.exposure.own_counts import counted_moves, own_count
from models.mechanisms import Mechanism
from models.releases import MoveSensor, WindowRelease

MOST_WORK = 1e10
"""Multiplications of all draws: ten seconds or so. The counts followed are as many as that allows."""

_VISITS = 3  # to the chain in each step of a draw


def window_codes(exposure: Exposure, draws: int) -> WindowCodes:
    """The sensors whose counts the attack follows: an attack need not use everything that is published.

    Of each sensor one window is open at a time. Those that reveal most for the states they take come first.
    """
    assert exposure.windows is not None
    of_sensor: dict[str, list[WindowRelease]] = {}
    for release in exposure.windows.releases:
        of_sensor.setdefault(release.sensor.name, []).append(release)
    worth = []
    for name, own in of_sensor.items():
        counts = [own_count(exposure, each) for each in own]
        most = max(int(np.flatnonzero(each.law)[-1]) for each in counts)
        nats = sum(each.information_nats for each in counts)
        if nats > 0.0 and most > 0:  # of a constant count rounding may leave some
            worth.append((-nats / log(1.0 + most), name, most))
    entries = exposure.chain.value.size / exposure.chain.start.shape[0]
    affordable, states = MOST_WORK / (draws * exposure.steps * _VISITS * entries), 1
    followed: list[tuple[list[WindowRelease], int]] = []
    for _, name, most in sorted(worth):
        if states * (most + 1) <= affordable:
            states *= most + 1
            followed.append((of_sensor[name], most))
    return _codes(exposure, followed, states)


def _codes(
    exposure: Exposure, followed: Sequence[tuple[Sequence[WindowRelease], int]], states: int
) -> WindowCodes:
    """The codes of these sensors, each with the most that the person can be counted in a window."""
    steps, places, sensors = exposure.steps, exposure.place_count, len(followed)
    code, stride = np.arange(states), 1
    counted, dropped = np.zeros((2, sensors, states), np.int32)
    ends = np.full((steps, sensors), -1, np.int32)
    added = np.zeros((steps, places, places), np.int64)  # what a move adds, all sensors in one number
    laws: dict[Mechanism, int] = {}
    for r, (releases, most) in enumerate(followed):
        counted[r] = code // stride % (most + 1)
        dropped[r] = code - counted[r] * stride
        times = _times_counted(exposure, releases[0])
        for release in releases:
            added[release.first : release.last + 1] += stride * np.minimum(times, most)
            ends[release.last, r] = laws.setdefault(release.mechanism, len(laws))
        stride *= most + 1
    kinds, kind = np.unique(added, return_inverse=True)
    after = np.zeros((kinds.size, states), np.int32)
    stride = 1
    for r, (_, most) in enumerate(followed):
        more = kinds // stride % (most + 1)
        after += (np.minimum(counted[r] + more[:, np.newaxis], most) * stride).astype(np.int32)
        stride *= most + 1
    shape = (steps, places, places)
    return WindowCodes(
        kind.reshape(shape).astype(np.int32), after, counted, dropped, ends, noise_tables(tuple(laws))
    )


def _times_counted(exposure: Exposure, release: WindowRelease) -> NDArray[np.int64]:
    """How often each move between own places is counted, (K, K); a count of presence asks where it ends."""
    sensor = release.sensor
    if isinstance(sensor, MoveSensor):
        return counted_moves(exposure, sensor)
    here = np.isin(exposure.chain.places, sensor.locations)
    return np.broadcast_to(here.astype(np.int64), (here.size, here.size))
