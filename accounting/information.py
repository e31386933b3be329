"""How much the releases tell about one person's trajectory: upper bounds on ``I(X; Y_1..Y_T)``, nats.

All are valid, the smallest counts. Raw releases: Koga et al.'s sum and the exact value by renewals (beyond
the paper). Noised ones: pairwise divergences, the exact information of each count, and data processing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.exposure import Exposure
from accounting.kernels.renewal import renewal_information
from accounting.observation import StepObservation
from models.chain import ChainView
from models.information import truncation_information_nats
from models.jit import jit


@dataclass(frozen=True, slots=True)
class Information:
    """Information released about one person over a horizon, nats.

    ``koga`` is the paper's bound, None unless each step has exactly one released sensor. ``exact`` is
    ``I(X; Y)``, None for noised releases and where a count leaves open which of several own places was meant.
    ``best`` is the smallest valid bound; ``per_step`` (T,) adds up to a valid bound, and to ``exact`` where
    that exists (chain rule).
    """

    koga: float | None
    exact: float | None
    best: float
    per_step: tuple[float, ...]

    @property
    def paper(self) -> float:
        """What the paper's bounds are given: ``koga``, else ``exact``, else the best there is."""
        if self.koga is not None:
            return self.koga
        return self.best if self.exact is None else self.exact


def entropy_nats(probabilities: NDArray[np.float64]) -> float:
    """Shannon entropy of a law, any shape, with ``0 ln 0 = 0``."""
    positive = probabilities[probabilities > 0.0]
    return float(-(positive * np.log(positive)).sum())


@jit
def joint_outcomes(
    chain: ChainView,
    slot: int,
    before: NDArray[np.float64],
    labels_before: NDArray[np.int32],
    labels: NDArray[np.int32],
) -> NDArray[np.float64]:
    """``Pr[Y_{t-1} = i, Y_t = j]`` from the marginal before; the cost of one pass over the matrix."""
    joint = np.zeros((labels_before.max() + 1, labels.max() + 1))
    for y in range(labels.size):
        for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
            x = chain.row[j]
            joint[labels_before[x], labels[y]] += before[x] * chain.value[j]
    return joint


def outcome_law(exposure: Exposure, step: int) -> NDArray[np.float64]:
    """Probability of each outcome of a step, (O,)."""
    count = len(exposure.observations[step].outcomes)
    return np.bincount(exposure.labels[step], exposure.marginal[step], count).astype(np.float64)


def raw_step_information(exposure: Exposure, step: int) -> float:
    """``H(Y_t | Y_{t-1})`` after a raw step, ``H(Y_t)`` in the first step and after a noised one.

    Koga et al., section 3.3, here for any number of sensors.
    """
    if step == 0 or not exposure.observations[step - 1].is_raw:
        return entropy_nats(outcome_law(exposure, step))
    joint = joint_outcomes(
        exposure.chain,
        exposure.slot(step - 1),
        exposure.marginal[step - 1],
        exposure.labels[step - 1],
        exposure.labels[step],
    )
    return max(0.0, entropy_nats(joint) - entropy_nats(joint.sum(axis=1)))


def pairwise_information(exposure: Exposure, step: int) -> float:
    """``-sum_i p_i ln sum_j p_j exp(-D_ij)``: Koga et al. eq. (4) for any sensors, mechanisms and sigmas.

    The mixture bound of Kolchinsky and Tracey (*Estimating Mixture Entropy with Pairwise Distances*, 2017).
    ``D`` is the ideal noise's; what the tables' cut tails may add is charged.
    """
    observation = exposure.observations[step]
    law = outcome_law(exposure, step)
    likeness = np.exp(-observation.distances_nats) @ law
    present = law > 0.0
    total = -float((law[present] * np.log(likeness[present])).sum())
    return max(0.0, total) + _truncation_nats(observation, law)


def separate_information(exposure: Exposure, step: int) -> float:
    """Sum over sensors of the exact ``I(counted; published)``: the noises are independent given the place."""
    observation = exposure.observations[step]
    law = outcome_law(exposure, step)
    return sum(
        float(mechanism.information(_counted_by(observation, law, sensor)))
        for sensor, mechanism in enumerate(observation.mechanisms)
    )


def _counted_by(observation: StepObservation, law: NDArray[np.float64], sensor: int) -> NDArray[np.float64]:
    """Probability that this sensor counts the person, as a 0-d array."""
    members = [outcome for outcome, sensors in enumerate(observation.outcomes) if sensor in sensors]
    return np.array(min(float(law[members].sum()), 1.0))


def _truncation_nats(observation: StepObservation, law: NDArray[np.float64]) -> float:
    """What cut tails can add over all sensors that may count the person."""
    return sum(
        truncation_information_nats(noise.truncated_mass)
        for sensor, mechanism in enumerate(observation.mechanisms)
        if (noise := mechanism.noise_law()) is not None and _counted_by(observation, law, sensor) > 0.0
    )


def noised_step_information(exposure: Exposure, step: int) -> float:
    """The smallest valid bound on ``I(X_t; Y_t)`` of a step that is not all raw."""
    return min(
        pairwise_information(exposure, step),
        separate_information(exposure, step),
        entropy_nats(outcome_law(exposure, step)),  # data processing: the raw step tells more
    )


def step_information(exposure: Exposure, step: int) -> float:
    """The best term of one step; terms add up to a bound on ``I(X; Y_1..Y_T)``."""
    if exposure.observations[step].is_empty:
        return 0.0
    if exposure.observations[step].is_raw:
        return raw_step_information(exposure, step)
    return noised_step_information(exposure, step)


def koga_information(exposure: Exposure) -> float | None:
    """The paper's sum over steps; None unless each step has exactly one released sensor."""
    if any(len(observation.mechanisms) != 1 for observation in exposure.observations):
        return None
    return sum(
        raw_step_information(exposure, t) if observation.is_raw else pairwise_information(exposure, t)
        for t, observation in enumerate(exposure.observations)
    )


def renewal_terms(exposure: Exposure) -> NDArray[np.float64]:
    """``H(Y_t | Y_1..Y_{t-1})`` of the raw version of the schedule, (T,); see :attr:`Exposure.is_refined`."""
    return renewal_information(
        exposure.chain, exposure.start, exposure.first_slot, exposure.hits, exposure.marginal
    )


def released_information(exposure: Exposure) -> Information:
    """All bounds on the information of one person's horizon and the smallest of them."""
    koga = koga_information(exposure)
    shares = renewal_terms(exposure)
    raw = float(shares.sum())
    if exposure.is_raw and not exposure.is_refined:
        return Information(koga, raw, raw, tuple(shares.tolist()))
    terms = [step_information(exposure, t) for t in range(exposure.steps)]
    # A noised release tells no more than the raw one (data processing).
    best = min(sum(terms), raw) if koga is None else min(sum(terms), raw, koga)
    shown = terms if sum(terms) <= raw else shares.tolist()
    return Information(koga, None, best, tuple(shown))
