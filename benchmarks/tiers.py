"""Claim: ten tiers from one chain, or correlated noise, cost two to three keyed values; one read later six.

``python -m benchmarks.tiers`` prints medians and ratios of one run for a step of 10 000 sensors, repeats
interleaved.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.noise import SENSORS, compare
from models.keys import NoiseKey, UniformStream
from models.mechanisms import Correlated, Gaussian, Mechanism, Tiered
from models.noise import CorrelatedNoise, chain_noise, continued_value
from models.noise.continuous_process import Grid, PrivateProcess, publish_tiers
from models.releases import CountToPublish, StepInterval, publish_step

DAY = 24


def step_of(mechanism: Mechanism) -> Callable[[], object]:
    """All sensors of one step with one mechanism."""
    key = NoiseKey.generate()
    counts = [CountToPublish(f"sensor-{index}", mechanism, index % 500) for index in range(SENSORS)]
    return lambda: publish_step(key, "city", StepInterval(0, 3600), counts)


def chain_of(tiers: int) -> Callable[[], object]:
    """Tiers with levels from 0.1 to 1."""
    levels = np.geomspace(0.1, 1.0, tiers)
    return step_of(Tiered(tuple((f"tier-{index}", float(level)) for index, level in enumerate(levels))))


def continued() -> Callable[[], object]:
    """A tier between two others, added later: every reading's chain read at one more level."""
    key, random = NoiseKey.generate(), np.random.default_rng(5)
    noise = chain_noise((0.1, 1.0), random.integers(0, 2**64, (SENSORS, 2, 2), np.uint64)).tolist()
    messages = [f"sensor-{index}".encode() for index in range(SENSORS)]

    def publish() -> None:
        words = key.uniform_words(messages).tolist()
        for (low, high), (first, second) in zip(noise, words, strict=True):
            continued_value({0.1: 300 + low, 1.0: 300 + high}, 0.4, first << 64 | second)

    return publish


def window_at(position: int) -> Callable[[], object]:
    """A step of a day's noise window."""
    steps = np.arange(DAY)
    noise = CorrelatedNoise.of_covariance(
        4.0 * np.exp(-(np.subtract.outer(steps, steps) ** 2) / 18.0) + np.eye(DAY)
    )
    return step_of(Correlated.of(noise, position))


def real_values() -> Callable[[], object]:
    """Places in the plane at two levels, one path each."""

    def publish() -> None:
        for index in range(SENSORS):
            process = PrivateProcess(2, 1.0, UniformStream(index.to_bytes(16, "big")))
            publish_tiers(np.zeros(2), process, (0.1, 1.0), Grid.for_level(1.0))

    return publish


def main() -> None:
    """Print the table."""
    work = {
        "gaussian, one value": step_of(Gaussian(3.0)),
        "tiered, 1 tier": chain_of(1),
        "tiered, 3 tiers": chain_of(3),
        "tiered, 10 tiers": chain_of(10),
        "tiered, one more later": continued(),
        "correlated, 1st of 24": window_at(0),
        "correlated, 24th of 24": window_at(DAY - 1),
        "real values, 2 tiers": real_values(),
    }
    compare(work, f"noise for {SENSORS} sensors, one step")


if __name__ == "__main__":
    main()
