"""Claim: keyed, exact noise for a step of 10 000 sensors costs less than drawing it from OpenDP's sampler.

``python -m benchmarks.noise`` prints one table of medians and ratios of one run, repeats interleaved.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import opendp.prelude as dp

from benchmarks.harness import taken
from models.keys import NoiseKey
from models.mechanisms import Gaussian
from models.noise import discrete_gaussian_table
from models.releases import CountToPublish, StepInterval, publish_step

SENSORS, SIGMA, REPEATS = 10_000, 3.0, 7


def ours() -> Callable[[], object]:
    """A whole step: messages, HMAC, table look-up."""
    key, mechanism = NoiseKey.generate(), Gaussian(SIGMA)
    counts = [CountToPublish(f"sensor-{index}", mechanism, index % 500) for index in range(SENSORS)]
    return lambda: publish_step(key, "city", StepInterval(0, 3600), counts)


def opendp_batch() -> Callable[[], object]:
    """OpenDP's exact sampler, one call for all counts; its noise is fresh on every replay."""
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    measure = dp.m.make_gaussian(*space, SIGMA)
    counts = [index % 500 for index in range(SENSORS)]
    return lambda: measure(counts)


def tables() -> Callable[[], object]:
    """Computing the table of one sigma, once per process."""
    return lambda: discrete_gaussian_table.__wrapped__(SIGMA)


def compare(work: dict[str, Callable[[], object]], title: str) -> None:
    """Print the median milliseconds of each, and how many times those of the first."""
    medians = taken(work, REPEATS, time.perf_counter)
    print(title)
    for name, seconds in medians.items():
        print(f"{name:24} {1e3 * seconds:9.2f} ms {seconds / next(iter(medians.values())):8.2f} x")


def main() -> None:
    """Print the table."""
    work = {"tallyguard": ours(), "OpenDP": opendp_batch(), "table of one sigma": tables()}
    compare(work, f"noise for {SENSORS} sensors, one step, sigma {SIGMA}")


if __name__ == "__main__":
    main()
