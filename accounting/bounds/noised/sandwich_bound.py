"""The sandwich bound of one person's noised horizon: every value of every count, as far as it matters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.noised.sandwich_kernel import OwnSignals, Window, history_laws, sandwich_success
from accounting.bounds.patterns import Size, affordable_vectors
from accounting.bounds.protocol import Bound, LogQuestion, Question, Scope
from accounting.exposure import Exposure, window_of
from accounting.exposure.step_information import StepObservation
from models.mechanisms import DrawnPerWindow, Mechanism, NoiseLaw
from models.priors.chain import LocalChain

_LEAST_WEIGHT = 1e-9  # of an output; what is rarer is left out and added to the bound
_LEAST_STEP = 1e-12  # between two thetas; closer ones are one
_MOST_OUTPUTS = 64  # of one count in the horizon; a wider noise's are joined by their neighbours
_PAST_OUTPUTS = 7  # of one count before it
_PAST_LAWS = 16
_CHANCES = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98])  # of being counted
_PRECISION = 0.1  # of what is attained beyond the guess: how close the bound shall come
_CLOSE = 2e-4  # of success: no bound need be closer
_OPERATIONS = 2e5  # for each vector of the searches; 64 of them take about a tenth of a second
_MOST_NODES, _MOST_ENTRIES = 8192, 1 << 22  # of a tree, and of what is kept of all nodes
_FEWEST_NODES = 16
_MOST_PLACES = 100  # of one person: covering a law takes the cube


class Rays(NamedTuple):
    """One count's outputs: ``w = (P0 + P1) / 2`` and ``theta = P1 / (P0 + P1)``, sorted by ``theta``."""

    weight: NDArray[np.float64]  # (O,)
    theta: NDArray[np.float64]  # (O,)
    distance: float  # total variation between counted and not counted
    left_out: float  # probability that is not in the outputs: to be added to a bound


class _Signal(NamedTuple):
    """One sensor in one step, as far as it can count the person."""

    step: int
    cover: NDArray[np.bool_]  # (K,)
    rays: Rays
    mechanism: Mechanism | None  # whose outputs they are; None: as if the count were exact


@lru_cache(1024)
def rays_of(mechanism: Mechanism) -> Rays:
    """All outputs of a count under this mechanism.

    A mechanism without an own law is an erasure channel, which shows the exact count with the probability
    that the mechanism states and otherwise nothing.
    """
    law = mechanism.noise_law()
    if mechanism.is_exact or (law is not None and law.probabilities.size == 1):
        return _erased(1.0)
    if law is None or isinstance(mechanism, DrawnPerWindow):
        return _erased(min(1.0, mechanism.reveal_probability()))
    return _rays(law)


def _erased(shown: float) -> Rays:
    weight, theta = np.array([shown / 2.0, 1.0 - shown, shown / 2.0]), np.array([0.0, 0.5, 1.0])
    return Rays(weight[weight > 0.0], theta[weight > 0.0], shown, 0.0)


def _rays(law: NoiseLaw) -> Rays:
    """Outputs of a count with this noise, and of one more, joined where their ``theta`` is the same."""
    absent, present = np.append(law.probabilities, 0.0), np.append(0.0, law.probabilities)
    distance = 0.5 * float(np.abs(absent - present).sum())
    is_kept = (absent + present) / 2.0 > _LEAST_WEIGHT
    left_out = max(absent[~is_kept].sum(), present[~is_kept].sum()) + law.truncated_mass
    absent, present = absent[is_kept], present[is_kept]
    theta = present / (absent + present)
    order = np.argsort(theta, kind="stable")
    first = np.flatnonzero(np.diff(theta[order], prepend=-1.0) > _LEAST_STEP)
    absent, present = np.add.reduceat(absent[order], first), np.add.reduceat(present[order], first)
    rays = Rays((absent + present) / 2.0, present / (absent + present), distance, float(left_out))
    if rays.weight.size > _MOST_OUTPUTS:
        cumulated = np.cumsum(rays.weight) / rays.weight.sum()
        kept = np.searchsorted(cumulated, np.linspace(0.0, 1.0, _MOST_OUTPUTS))
        kept = np.unique(np.clip(np.append(kept, 0), 0, rays.weight.size - 1))
        rays = _spread(rays, np.unique(np.append(kept, rays.weight.size - 1)).tolist())
    return rays


def _spread(rays: Rays, kept: Sequence[int]) -> Rays:
    """Only the ``kept`` outputs, both extremes among them; each other one is spread over its neighbours.

    What can be won is convex in ``theta``, so this reveals no less.
    """
    weight = rays.weight[list(kept)].copy()
    for i, (low, high) in enumerate(pairwise(kept)):
        between = slice(low + 1, high)
        above = (rays.theta[between] - rays.theta[low]) / (rays.theta[high] - rays.theta[low])
        weight[i] += float((rays.weight[between] * (1.0 - above)).sum())
        weight[i + 1] += float((rays.weight[between] * above).sum())
    return Rays(weight, rays.theta[list(kept)], rays.distance, rays.left_out)


@lru_cache(4096)
def few_rays(mechanism: Mechanism, outputs: int, chance: float) -> Rays:
    """The best so many outputs to keep for a person who is counted with this probability.

    The least loss of chi-square about the bit, by dynamic programming over intervals (Tal and Vardy, *How to
    Construct Polar Codes*, from above).
    """
    rays = rays_of(mechanism)  # type: ignore[arg-type]
    weight, theta = rays.weight, rays.theta
    count = weight.size
    if count <= outputs:
        return rays
    p = min(max(chance, 0.02), 0.98)
    counted, not_counted = 2.0 * p * theta, 2.0 * (1.0 - p) * (1.0 - theta)
    known = (counted**2 / p + not_counted**2 / (1.0 - p)) / (counted + not_counted)
    cost = np.full((count, count), np.inf)
    for low in range(count):
        for high in range(low + 1, count):
            between = slice(low + 1, high)
            above = (theta[between] - theta[low]) / (theta[high] - theta[low])
            chord = (1.0 - above) * known[low] + above * known[high]
            cost[low, high] = (weight[between] * (chord - known[between])).sum()
    least, before = np.full(count, np.inf), []
    least[0] = 0.0
    for _ in range(outputs - 1):
        total = least[:, np.newaxis] + cost
        before.append(total.argmin(axis=0))
        least = total.min(axis=0)
    kept = [count - 1]
    for each in reversed(before):
        kept.append(int(each[kept[-1]]))
    return _spread(rays, sorted(set(kept)))


def sandwich_in_log(
    exposure: Exposure, window: tuple[int, int], mistakes: int, ends: NDArray[np.float64], wanted: int
) -> float | None:
    """Success of any adversary who sees the log and guesses the steps of ``window`` (inclusive).

    Of what comes after the window only ``ends`` (E, K) is seen, of ``future_ends`` as if every count were
    exact; one row of ones for nothing. None where no count until the window's end is noised, and where it is
    too expensive.
    """
    first, last = window
    seen = exposure.under(exposure.observations[: last + 1])
    size = Size.of(window_of(exposure, first, last))
    vectors = min(wanted, affordable_vectors(size, mistakes, max(wanted, 1)))
    if seen.is_raw or vectors == 0 or exposure.place_count > _MOST_PLACES:
        return None
    signals = [each for t in range(last + 1) for each in _own_signals(seen, t)]
    past = [each for each in signals if each.step < first]
    own = [each._replace(step=each.step - first) for each in signals if each.step >= first]
    operations = _OPERATIONS * vectors
    leaf = (1 + size.hits) * size.steps * (mistakes + 1) * (size.moves + size.places)
    nodes = min(_MOST_NODES, _MOST_ENTRIES // (2 * size.steps + len(own) + size.places))
    if nodes < _FEWEST_NODES or _FEWEST_NODES * leaf > operations:
        return None
    chain, marginal = exposure.chain, seen.marginal
    few = [_with_few_outputs(each, float(marginal[each.step][each.cover].sum())) for each in past]
    laws = history_laws(exposure.person, _arrays(few, size.places), marginal[:1], first, marginal, _PAST_LAWS)
    person = LocalChain(chain, marginal[first], exposure.slot(first))
    arrays = _arrays(own, size.places)
    total = sum(each.rays.left_out for each in (*few, *own))
    for end in ends:
        question = Window(person, size.steps, end, mistakes, vectors * size.steps, operations / len(ends))
        total += sandwich_success(question, arrays, laws, _PRECISION, _CLOSE, nodes)[0]
    return float(min(1.0, total))


def _with_few_outputs(signal: _Signal, chance: float) -> _Signal:
    """With the outputs that suit the likes of somebody who is counted with this probability."""
    if signal.mechanism is None:
        return signal
    chance = float(_CHANCES[np.abs(_CHANCES - chance).argmin()])
    return signal._replace(rays=few_rays(signal.mechanism, _PAST_OUTPUTS, chance))  # type: ignore[arg-type]


def _own_signals(exposure: Exposure, t: int) -> list[_Signal]:
    """The sensors of one step that can count the person.

    Where sensors overlap, and noise is not each sensor's own, a count says something of another's noise:
    it counts as exact.
    """
    observation = exposure.observations[t]
    covers: dict[int, NDArray[np.bool_]] = {}
    for x in np.flatnonzero(exposure.hits[t]).tolist():
        for sensor in observation.outcomes[exposure.labels[t, x]]:
            covers.setdefault(sensor, np.zeros(exposure.place_count, np.bool_))[x] = True
    found = []
    for sensor, cover in sorted(covers.items()):
        mechanism = observation.mechanisms[sensor]
        is_own = mechanism.noise_law() is not None and not isinstance(mechanism, DrawnPerWindow)
        if is_own or _is_separate(observation):
            found.append(_Signal(t, cover, rays_of(mechanism), mechanism))  # type: ignore[arg-type]
        else:
            found.append(_Signal(t, cover, _erased(1.0), None))
    return found


def sandwich_bound(question: Question) -> float | None:
    """Of the horizon on its own; None where every count is exact, or where it is too expensive."""
    exposure = question.exposure
    window, ends = (0, exposure.steps - 1), np.ones((1, exposure.place_count))
    return sandwich_in_log(exposure, window, question.mistakes, ends, question.effort.vectors)


def _within_log(asked: LogQuestion) -> float | None:
    """Noised counts of history and horizon, and of the future what exact counts would show."""
    window = asked.first, asked.last
    return sandwich_in_log(asked.exposure, window, asked.mistakes, asked.ends, asked.effort.vectors)


def _is_separate(observation: StepObservation) -> bool:
    """Whether no count of a step says anything of another."""
    return observation.is_disjoint and all(len(own) == 1 for own in observation.outcomes[1:])


def _arrays(signals: Sequence[_Signal], places: int) -> OwnSignals:
    """In the form the kernel reads."""
    count, outputs = len(signals), max((each.rays.weight.size for each in signals), default=1)
    weight, theta = np.zeros((count, outputs)), np.zeros((count, outputs))
    for g, (_, _, rays, _) in enumerate(signals):
        weight[g, : rays.weight.size], theta[g, : rays.weight.size] = rays.weight, rays.theta
    return OwnSignals(
        np.array([each.step for each in signals], np.int64),
        np.array([each.cover for each in signals], np.bool_).reshape(count, places),
        np.array([each.rays.weight.size for each in signals], np.int64),
        weight,
        theta,
        np.array([each.rays.distance for each in signals], np.float64),
    )


SANDWICH = Bound(
    "sandwich",
    idea="below; the values of each noised count, as far as they matter",
    scope=Scope.NOISED,
    cost="grows a tree until it is close, or `vectors` are used up",
    compute=sandwich_bound,
    within_log=_within_log,
)
