"""Counts over windows by enumeration of every trajectory: what an adversary gets from them at best.

Releases are in the form of ``passages.json``: fine moves, how often each is counted, a noise law.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.exposure import Exposure
from accounting.exposure.step_information import observe
from models.mechanisms import Gaussian, Mechanism, Raw
from models.releases import MoveSensor, Sensor, StepSchedule, WindowRelease
from tests.accounting.chains import chain_of
from tests.accounting.enumeration import Paths, all_paths, entropy_of, within
from tests.shared_files import shared

Floats = NDArray[np.float64]


def passages() -> list[dict[str, Any]]:
    """The reference cases."""
    return list(json.loads(shared("reference/passages.json").read_text())["cases"])


@dataclass(frozen=True)
class Counted:
    """One release: ``times`` (K, K) over the fine moves ``first..last``, and its noise (n,)."""

    first: int
    last: int
    times: NDArray[np.int64]
    noise: Floats

    @property
    def is_raw(self) -> bool:
        return self.noise.size == 1

    @property
    def is_on_places(self) -> bool:
        """Whether it only asks where a move ends, and counts once: a sensor on places."""
        return bool((self.times == self.times[0]).all() and self.times.max() <= 1)

    def fine(self, paths: NDArray[np.int64]) -> NDArray[np.int64]:
        """What each trajectory (N, T) adds at each fine move of the window, (N, moves)."""
        moves = range(self.first, self.last + 1)
        return np.stack([self.times[paths[:, t - 1], paths[:, t]] for t in moves], axis=1)

    def own(self, paths: NDArray[np.int64]) -> NDArray[np.int64]:
        """What each trajectory adds, (N,)."""
        return np.asarray(self.fine(paths).sum(axis=1))

    def ends(self, paths: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places that are shown of each trajectory when both ends of counted moves are raw places."""
        if self.is_on_places:
            return self.fine(paths)
        shown = []
        for t in range(self.first, self.last + 1):
            left, entered = self.times.any(axis=1), self.times.any(axis=0)
            shown.append(np.where(left[paths[:, t - 1]], paths[:, t - 1], -1))
            shown.append(np.where(entered[paths[:, t]], paths[:, t], -1))
        return np.stack(shown, axis=1)

    def as_release(self, most_counts: int, mechanism: Mechanism) -> WindowRelease:
        """As the library takes it."""
        if self.is_on_places:
            sensor: Sensor | MoveSensor = Sensor("c", tuple(np.flatnonzero(self.times[0]).tolist()))
        else:
            named = {(int(x), int(y)): int(self.times[x, y]) for x, y in np.argwhere(self.times)}
            sensor = MoveSensor.of("c", named)
        return WindowRelease(sensor, self.first, self.last, most_counts, mechanism)


def of_reference(release: dict[str, Any]) -> Counted:
    """A release of ``passages.json``."""
    noise = np.ones(1)
    if release["sigma"] is not None:
        values = np.arange(-release["noise_half_width"], release["noise_half_width"] + 1)
        weights = np.exp(-(values**2) / (2.0 * release["sigma"] ** 2))
        noise = weights / weights.sum()
    return Counted(*release["moves"], np.array(release["times_counted"]), noise)


def with_mechanism(counted: Counted, mechanism: Mechanism) -> Counted:
    """The same counts with the noise that a mechanism really draws."""
    law = mechanism.noise_law()
    assert law is not None
    return Counted(counted.first, counted.last, counted.times, law.probabilities)


@dataclass(frozen=True)
class Log:
    """A chain that never repeats (T - 1 matrices), a horizon and a number of mistakes."""

    start: Floats
    matrices: Floats
    horizon: tuple[int, int]
    mistakes: int

    @classmethod
    def of_reference(cls, case: dict[str, Any]) -> Log:
        chain = case["chain"]
        first, last = case["horizon"]
        return cls(
            np.array(chain["initial"]), np.array(chain["transitions"]), (first, last), case["mistakes"]
        )

    @cached_property
    def cycle(self) -> Floats:
        return np.concatenate([self.matrices, self.matrices[-1:]])

    @cached_property
    def everything(self) -> Paths:
        return all_paths(self.start, self.cycle, len(self.cycle))

    @cached_property
    def exposure(self) -> Exposure:
        """As the library takes it, with nothing released."""
        silent = tuple(observe(StepSchedule(t), self.start.size) for t in range(len(self.cycle)))
        return Exposure(chain_of(self.cycle, self.start), self.start, 0, silent)

    @cached_property
    def _close(self) -> tuple[Floats, NDArray[np.int64]]:
        first, last = self.horizon
        traces, which = np.unique(self.everything.paths[:, first : last + 1], axis=0, return_inverse=True)
        return within(traces, traces, self.mistakes), which.ravel()

    def _of_horizon(self, joint: Floats) -> Floats:
        close, which = self._close
        collapsed = np.zeros((len(close), joint.shape[1]))
        np.add.at(collapsed, which, joint)
        return collapsed

    def _joint(self, channels: Sequence[Floats]) -> Floats:
        """``Pr[trajectory, outputs]`` for channels (N, outputs)."""
        joint = self.everything.probability[:, None]
        for channel in channels:
            joint = (joint[:, :, None] * channel[:, None, :]).reshape(len(joint), -1)
            joint = joint[:, joint.any(axis=0)]
        return joint

    def noised(self, releases: Sequence[Counted]) -> list[Floats]:
        """Each release's outputs as a channel from trajectories."""
        found = []
        for release in releases:
            own = release.own(self.everything.paths)
            channel = np.zeros((len(own), int(own.max()) + release.noise.size))
            for count in np.unique(own):
                channel[own == count, count : count + release.noise.size] = release.noise
            found.append(channel)
        return found

    def exactly(
        self, values: Callable[[Counted], NDArray[np.int64]], releases: Sequence[Counted]
    ) -> list[Floats]:
        """A function of the trajectories, shown exactly, of each release."""
        found = []
        for release in releases:
            seen = values(release)
            _, labels = np.unique(seen, axis=0, return_inverse=True)
            found.append(np.eye(int(labels.max()) + 1)[labels.ravel()])
        return found

    def optimum(self, channels: Sequence[Floats]) -> float:
        """The best that any adversary can do about the horizon."""
        close, _ = self._close
        return float((close @ self._of_horizon(self._joint(channels))).max(0).sum())

    def information(self, channels: Sequence[Floats]) -> float:
        """``I(X_w..X_v; all outputs)``, nats."""
        joint = self._of_horizon(self._joint(channels))
        return entropy_of(joint.sum(1)) + entropy_of(joint.sum(0)) - entropy_of(joint.ravel())

    def with_coins(self, shown: Sequence[Floats], probability: Sequence[float]) -> float:
        """The optimum where each release is shown with its probability, else not at all."""
        total = 0.0
        for kept in product([False, True], repeat=len(shown)):
            weight = float(
                np.prod([p if keep else 1.0 - p for keep, p in zip(kept, probability, strict=True)])
            )
            if weight > 0.0:
                total += weight * self.optimum([each for keep, each in zip(kept, shown, strict=True) if keep])
        return total


def mechanism_of(release: dict[str, Any]) -> Mechanism:
    """The mechanism whose noise a reference's release has, but for its tails."""
    return Raw() if release["sigma"] is None else Gaussian(release["sigma"])
