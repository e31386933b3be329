"""Claim: trying both attacks on simulated traces costs microseconds a trace, and nothing for raw counts.

MAP and posterior marginals on a synthetic chain of Koga, Meehan, Chaudhuri (section 4.1), one sensor a step.
``python -m benchmarks.attacks``
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accounting.attacks import ATTACKS, Target
from accounting.attacks.targets import draw_on_graph, draw_raw
from accounting.exposure import Exposure
from benchmarks.harness import Contestant, measure, rate, show, times
from benchmarks.peers.hmmlearn_peer import PROCESSES, AttackProblem, attack_run, start_pool
from models.mechanisms import Gaussian, Mechanism, Raw
from models.priors import MovementPrior
from models.releases import Schedule

PLACES, STEPS, MISTAKES, TAU = 100, 10, 5, 0.1
PEER_DRAWS = 400


def synthetic_matrix(places: int, tau: float) -> np.ndarray:
    """``P[x, y]`` proportional to ``exp(-|x - y| / (tau M))``."""
    distance = np.abs(np.subtract.outer(np.arange(places), np.arange(places)))
    weight = np.exp(-distance / (tau * places))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def synthetic_exposure(matrix: np.ndarray, sensors: np.ndarray, mechanism: Mechanism) -> Exposure:
    """One sensor a step, from the stationary start."""
    chain = MovementPrior.from_dense("p", matrix).chain()
    return Exposure.of(chain, Schedule.of([[place] for place in sensors.tolist()], mechanism), len(matrix))


def sampled(exposure: Exposure, draws: int, is_raw: bool) -> Callable[[], None]:
    """A run of the sampling attack, the tables included."""
    draw = draw_raw if is_raw else draw_on_graph

    def run() -> None:
        draw(Target(exposure, MISTAKES, draws, 1))

    return run


def exact(exposure: Exposure) -> Callable[[], None]:
    """A run of the exact law, the tables included."""

    def run() -> None:
        target = Target(exposure, MISTAKES)
        for name in ("map", "marginal", "either"):
            ATTACKS[name].success(target)

    return run


def main() -> None:
    """Print the table."""
    matrix = synthetic_matrix(PLACES, TAU)
    sensors = np.random.default_rng(0).integers(PLACES, size=STEPS)
    noise = Gaussian(1.0).noise_law()
    assert noise is not None
    raw = synthetic_exposure(matrix, sensors, Raw())
    noised = synthetic_exposure(matrix, sensors, Gaussian(1.0))
    blank = AttackProblem(matrix, raw.start, sensors, np.ones(1), MISTAKES, PEER_DRAWS)
    with start_pool() as pool:
        contestants = {
            "raw, sampled": Contestant(sampled(raw, 1_000_000, True), 1_000_000),
            "raw, exact law (persons/s)": Contestant(exact(raw), 1),
            "sigma 1, sampled": Contestant(sampled(noised, 100_000, False), 100_000),
            "raw, numpy + hmmlearn": Contestant(attack_run(pool, blank), PROCESSES * PEER_DRAWS),
            "sigma 1, numpy + hmmlearn": Contestant(
                attack_run(pool, blank._replace(noise=noise.probabilities / noise.probabilities.sum())),
                PROCESSES * PEER_DRAWS,
            ),
        }
        found = measure(contestants)
    rows = [
        [name, rate(value), times(value, found[f"{name.split(',')[0]}, numpy + hmmlearn"])]
        for name, value in found.items()
    ]
    show(
        f"MAP and posterior marginals, {PLACES} places, {STEPS} steps, {MISTAKES} mistakes",
        ["", "traces/s", "numpy + hmmlearn, two processes"],
        rows,
        "the exact law replaces sampling altogether: its rate counts persons, not traces",
    )


if __name__ == "__main__":
    main()
