"""hmmlearn on the same work, the way its users run it: a model, `score`, `decode`; two processes.

``implementation="scaling"`` is its fast one. Its own threads are one a process, as ours are two in one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np

PROCESSES = 2


class Problem(NamedTuple):
    """``people`` traces of ``steps`` steps a process on ``places`` places; own matrices, or one for all."""

    places: int
    steps: int
    people: int
    is_shared: bool


def start_pool() -> ProcessPoolExecutor:
    """Two fresh processes with one thread each."""
    os.environ["OMP_NUM_THREADS"] = "1"
    return ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn"))


def hmmlearn_run(pool: ProcessPoolExecutor, problem: Problem) -> Callable[[], float]:
    """A contestant's run: the seconds of the slower of the two processes, data made outside the clock."""
    return lambda: max(pool.map(_score_and_decode, [problem] * PROCESSES, range(PROCESSES)))


def categorical_model(places: int, matrix: np.ndarray, start: np.ndarray) -> Any:
    """Two symbols: seen at the first place, or not."""
    from hmmlearn.hmm import CategoricalHMM

    model = CategoricalHMM(places, implementation="scaling")
    model.n_features = 2
    model.startprob_ = start
    model.transmat_ = matrix
    model.emissionprob_ = np.where(np.arange(places)[:, None] == 0, [0.3, 0.7], [0.7, 0.3])
    return model


class AttackProblem(NamedTuple):
    """``draws`` trajectories a process, one sensor a step, raw or with discrete noise ``-reach..reach``."""

    matrix: np.ndarray
    start: np.ndarray
    sensors: np.ndarray
    noise: np.ndarray  # probabilities of -reach..reach; one entry is raw
    mistakes: int
    draws: int


def attack_run(pool: ProcessPoolExecutor, problem: AttackProblem) -> Callable[[], float]:
    """A contestant's run: simulate with numpy, decode and take posterior marginals with hmmlearn."""
    return lambda: max(pool.map(_simulate_and_attack, [problem] * PROCESSES, range(PROCESSES)))


def sensor_model(problem: AttackProblem) -> Any:
    """A hidden Markov model whose observations are (step, published value of the step's sensor)."""
    from hmmlearn.base import BaseHMM

    reach = len(problem.noise) // 2
    law = np.concatenate([[0.0], problem.noise, [0.0]])  # of -reach - 1 .. reach + 1
    here = np.arange(len(problem.start))[None, :] == problem.sensors[:, None]

    class SensorModel(BaseHMM):  # type: ignore[misc]
        def _compute_likelihood(self, seen: np.ndarray) -> np.ndarray:
            step, value = seen.T
            shown = value[:, None] - here[step]
            return np.asarray(law[np.clip(shown + reach + 1, 0, len(law) - 1)])

        def _compute_log_likelihood(self, seen: np.ndarray) -> np.ndarray:
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(self._compute_likelihood(seen)))

    model = SensorModel(len(problem.start), implementation="scaling")
    model.startprob_, model.transmat_, model.n_features = problem.start, problem.matrix, 2
    return model


def simulate(problem: AttackProblem, rng: np.random.Generator) -> np.ndarray:
    """Trajectories (draws, T), all at once, each step by its row's cumulative probabilities."""
    cumulative = problem.matrix.cumsum(axis=1)
    traces = np.empty((problem.draws, len(problem.sensors)), np.int64)
    traces[:, 0] = rng.choice(len(problem.start), size=problem.draws, p=problem.start)
    for t in range(1, traces.shape[1]):
        below = cumulative[traces[:, t - 1]] < rng.random((problem.draws, 1))
        traces[:, t] = np.minimum(below.sum(axis=1), len(problem.start) - 1)
    return traces


def _simulate_and_attack(problem: AttackProblem, seed: int) -> float:
    rng = np.random.default_rng(seed)
    model, steps = sensor_model(problem), len(problem.sensors)
    began = time.perf_counter()
    traces = simulate(problem, rng)
    reach = len(problem.noise) // 2
    noise = rng.choice(len(problem.noise), size=traces.shape, p=problem.noise) - reach
    values = (traces == problem.sensors) + noise
    seen = np.stack([np.tile(np.arange(steps), problem.draws), values.ravel()], axis=1)
    lengths = [steps] * problem.draws
    for guess in (model.decode(seen, lengths)[1], model.predict_proba(seen, lengths).argmax(axis=1)):
        (((guess.reshape(traces.shape) != traces).sum(axis=1)) <= problem.mistakes).mean()
    return time.perf_counter() - began


def _score_and_decode(problem: Problem, seed: int) -> float:
    rng = np.random.default_rng(seed)
    count = 1 if problem.is_shared else problem.people
    matrices = rng.dirichlet(np.ones(problem.places), size=(count, problem.places))
    symbols = rng.integers(2, size=(problem.people, problem.steps, 1))
    model = categorical_model(problem.places, matrices[0], np.full(problem.places, 1 / problem.places))
    began = time.perf_counter()
    if problem.is_shared:
        lengths = [problem.steps] * problem.people
        model.score(symbols.reshape(-1, 1), lengths)
        model.decode(symbols.reshape(-1, 1), lengths)
    else:
        for matrix, trace in zip(matrices, symbols, strict=True):
            model.transmat_ = matrix
            model.score(trace)
            model.decode(trace)
    return time.perf_counter() - began
