"""Was this person counted at all? The game of *Knock Knock, Who's There?*, decided by likelihood ratios.

Pyrgelis, Troncoso and De Cristofaro, *Knock Knock, Who's There? Membership Inference on Aggregate Location
Data* (NDSS 2018): from the counts of some steps an attacker decides whether one person is among the counted.
They train a classifier on counts of groups with and without the person; here the attacker knows everybody's
habits, so the laws that a classifier would have to learn are at hand: the others a normal vector with
exact means and covariances, the person's trace drawn from their habits. Nobody else is needed to stand in.

The same game at every sensor and step, each by its step's counts alone, gives a guess of the trace: the
likeliest by habits and by these decisions, as if steps knew nothing of each other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import logsumexp
from scipy.stats import rankdata

from experiments.crowd_attackers.drawn_traces import draw_traces
from experiments.crowd_attackers.scene import Floats, Habits, Integers, Moments, Scene, Watched
from models.priors import ChainView

_TRACES = 256  # that stand for the person's habits


class MembershipTest:
    """How much likelier counts are with one person among them than without."""

    def __init__(self, watched: Watched, target: ChainView, others: Moments) -> None:
        traces = draw_traces(target, watched.first_slot, len(watched.count_at), _TRACES, seed=0)
        self._bits = np.zeros((_TRACES, others.mean.size))
        for t in range(traces.shape[1]):
            counted = watched.count_at[t, traces[:, t]]
            self._bits[counted >= 0, counted[counted >= 0]] = 1.0
        self._mean = others.mean
        self._factor = cho_factor(others.covariance_of_counts)
        self._half = 0.5 * (self._bits * cho_solve(self._factor, self._bits.T).T).sum(axis=1)

    def log_ratios(self, counts: Floats) -> Floats:
        """``ln Pr[counts | with the person] - ln Pr[counts | without]`` of counts (n, J)."""
        pull = self._bits @ cho_solve(self._factor, (counts - self._mean).T)
        return np.asarray(logsumexp(pull - self._half[:, None], axis=0) - np.log(_TRACES))


def area_under_curve(with_person: Floats, without: Floats) -> float:
    """``Pr[a score with the person is higher than one without]``, ties half: 1/2 is a coin's."""
    ranks = rankdata(np.concatenate([with_person, without]))[: with_person.size]
    above = ranks.sum() - 0.5 * with_person.size * (with_person.size + 1)
    return float(above / (with_person.size * without.size))


def area_ceiling(probabilities: Floats, revealed: Floats) -> float:
    """No test of membership has a larger area, from each count's chance to count the person, and delta.

    Given what is told of the others, counts are independent and each differs by at most its delta in total
    variation where the person is counted; variations of independent counts add up at most, and are
    convex. So with and without differ by ``D <= sum_j p_j E delta_j``, no point of the curve is more than
    ``D`` above the diagonal, and the area under it is at most ``1 - (1 - D)^2 / 2``.
    """
    apart = min(1.0, float(probabilities @ revealed))
    return 1.0 - 0.5 * (1.0 - apart) ** 2


class Membership:
    """The likeliest trace by habits, and by membership at each sensor and step on its own."""

    name = "membership"

    def guesses(self, scene: Scene, targets: Sequence[int], counts: Floats) -> Integers:
        """See :class:`~experiments.crowd_attackers.scene.CrowdAttack`."""
        found = []
        for target in targets:
            chain = scene.population.chain(target)
            habits, others = Habits.of(chain, scene.watched), scene.others(target)
            ratios = self._ratios(scene.watched, others, counts)
            evidence = np.where(habits.own >= 0, ratios[:, habits.own], 0.0)
            found.append(chain.places[habits.likeliest(evidence)[0]])
        return np.array(found, np.int64)

    def _ratios(self, watched: Watched, others: Moments, counts: Floats) -> Floats:
        """Log-likelihood ratios (n, J) of "the person is in this count", by all counts of its step."""
        ratios = np.zeros_like(counts)
        covariance = others.covariance_of_counts
        for t in range(len(watched.count_at)):
            own = np.flatnonzero(watched.steps_of == t)
            if own.size:
                inverse = np.linalg.inv(covariance[np.ix_(own, own)])
                ratios[:, own] = (counts[:, own] - others.mean[own]) @ inverse - 0.5 * np.diag(inverse)
        return ratios
