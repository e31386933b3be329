"""Bayesian differential privacy: what correlated people or steps cost together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from accounting.exceptions import CompositionError, LedgerError
from accounting.ledgers.differential_privacy import check_delta, log_distance, pure_cost
from accounting.ledgers.person_cost import Cost, Neighbours, step_cost
from accounting.ledgers.release_log import ReleaseLog
from models.arguments import checked
from models.numerics.arrays import Floats

# Bayesian differential privacy of small finite databases, exactly.
#
# Zhao, "Composition Properties of Bayesian Differential Privacy", section III: an adversary knows the tuples
# ``K`` of a database and wants tuple ``i``. What the adversary does not know is averaged over the database's
# own law. The leakage to this adversary is the largest log-ratio of an output's probability under two values
# of tuple ``i``; epsilon is the largest leakage over all ``(i, K)``.

_MOST_WORK = 2**26  # database entries times adversaries times outputs


@dataclass(frozen=True, slots=True)
class Adversary:
    """Knows the tuples ``known`` and wants tuple ``target``."""

    target: int
    known: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Leakage:
    """``epsilon`` in nats (inf where an output rules a value out), and the adversary who learns that much."""

    epsilon: float
    adversary: Adversary


@dataclass(frozen=True, eq=False)
class FiniteDatabase:
    """``law[x_1, ..., x_n]``: joint probability of the values of n tuples, which may be correlated."""

    law: Floats

    def __post_init__(self) -> None:
        """:class:`LedgerError` unless the law is one."""
        if self.law.ndim < 1 or np.any(self.law < 0.0) or not math.isclose(float(self.law.sum()), 1.0):
            raise LedgerError(
                "a database's law must be probabilities that sum to 1",
                float(self.law.sum()),
                "renormalise it",
            )


def adversaries(tuples: int) -> Iterator[Adversary]:
    """Every target with every set of other tuples."""
    for target in range(tuples):
        others = [j for j in range(tuples) if j != target]
        for size in range(len(others) + 1):
            yield from (Adversary(target, known) for known in combinations(others, size))


def compose(*channels: Floats) -> Floats:
    """The joint channel of several with independent coins: ``channel[x_1, ..., x_n, output]`` each.

    Outputs of the result are all combinations, in the order of the channels. A channel with an axis more sees
    what came out so far: ``channel[x_1, ..., x_n, earlier, output]``, where ``earlier`` counts the combined
    outputs of the channels before it (Zhao's auxiliary input).
    """
    joint = channels[0]
    for channel in channels[1:]:
        pair = joint[..., :, None] * (channel if channel.ndim > joint.ndim else channel[..., None, :])
        joint = pair.reshape(*pair.shape[:-2], -1)
    return joint


def leakage_to(database: FiniteDatabase, channel: Floats, adversary: Adversary) -> Leakage:
    """What one adversary learns at most: ``sup ln Pr[y | x_i, x_K] / Pr[y | x_i', x_K]`` (Zhao, section III).

    ``channel[x_1, ..., x_n, y]``: probability of each output for each database. Values that cannot occur
    together with what is known are left out. Single outputs are enough: a set of outputs never has a larger
    ratio than its worst member.
    """
    kept = (adversary.target, *adversary.known)
    hidden = tuple(j for j in range(database.law.ndim) if j not in kept)
    order = [sorted(kept).index(j) for j in kept]
    outputs = channel.shape[-1]
    mass = database.law.sum(axis=hidden).transpose(order).reshape(database.law.shape[adversary.target], -1)
    joint = (database.law[..., None] * channel).sum(axis=hidden)
    joint = joint.transpose([*order, len(kept)]).reshape(*mass.shape, outputs)
    worst = 0.0
    for known in range(mass.shape[1]):
        possible = mass[:, known] > 0.0
        if possible.any():
            given = joint[possible, known] / mass[possible, known][:, None]
            worst = max(worst, _largest_log_ratio(given))
    return Leakage(worst, adversary)


def leakage(database: FiniteDatabase, channel: Floats) -> Leakage:
    """Epsilon, exactly: the largest leakage over all adversaries; :class:`LedgerError` for too many."""
    if channel.shape[:-1] != database.law.shape:
        raise LedgerError(
            f"a channel must have a law of outputs for each of the databases {database.law.shape}",
            channel.shape,
            "give channel[x_1, ..., x_n, output]",
        )
    if not np.allclose(channel.sum(axis=-1), 1.0) or np.any(channel < 0.0):
        raise LedgerError(
            "each row of a channel must be probabilities that sum to 1", "other rows", "renormalise them"
        )
    tuples = database.law.ndim
    work = channel.size * tuples * 2 ** (tuples - 1)
    if work > _MOST_WORK:
        raise LedgerError(
            f"an exact leakage must take at most {_MOST_WORK:.0e} operations",
            f"{work:.0e}",
            "use fewer tuples, values or outputs",
        )
    found = [leakage_to(database, channel, adversary) for adversary in adversaries(tuples)]
    return max(found, key=lambda each: each.epsilon)


def _largest_log_ratio(given: Floats) -> float:
    """The largest ``ln given[a, y] / given[b, y]`` over the outputs that are possible at all."""
    high, low = given.max(axis=0), given.min(axis=0)
    possible = high > 0.0
    if np.any(low[possible] == 0.0):
        return math.inf
    return math.log(float((high[possible] / low[possible]).max(initial=1.0)))


# When Bayesian leakages may be added up. Each rule requires its condition to be declared, and refuses
# without.
#
# Zhao ("Composition Properties of Bayesian Differential Privacy", theorems 1 and 2) states the sum and the
# maximum for any correlation. Neither holds as stated. The proof needs outputs that are independent given
# what the adversary knows, but they still depend on the same unknown tuples. The tests have a counterexample
# for each theorem.

_INDEPENDENT_REMEDY = "compose the mechanisms first and take the leakage of the joint one (bayesian.compose)"


@checked(CompositionError)
@dataclass(frozen=True, slots=True)
class Declared:
    """What the caller vouches for; nothing is assumed.

    - ``independent_tuples``: no person's tuple says anything about another's.
    - ``independent_coins``: each release has its own randomness.
    - ``every_known_set``: each epsilon is the largest over all adversaries, including those who know everyone
      else's tuple.
    - ``disjoint_people``: the releases are about sets of people that do not overlap and were fixed before the
      data.
    """

    independent_tuples: bool = False
    independent_coins: bool = False
    every_known_set: bool = False
    disjoint_people: bool = False


def summed(epsilons_nats: Sequence[float], declared: Declared) -> float:
    """The sum of the epsilons of several releases; :class:`CompositionError` where the sum is not a bound.

    With independent tuples, all others known, each output depends on the target's tuple alone. The outputs'
    probabilities then multiply, so their log-ratios add up.
    """
    _require(
        declared.independent_tuples,
        "the sum of Bayesian leakages must have independent tuples",
        "correlated ones: two releases of 1.565 and 1.476 can leak 3.203 together",
        _INDEPENDENT_REMEDY,
    )
    _check_coins_and_sets(declared)
    return float(sum(epsilons_nats))


def largest(epsilons_nats: Sequence[float], declared: Declared) -> float:
    """The largest epsilon of releases about disjoint people; :class:`CompositionError` if they overlap."""
    _require(
        declared.disjoint_people,
        "the maximum of Bayesian leakages must be over disjoint sets of people, fixed before the data",
        "releases that may count the same person, such as those of two sensors in one step",
        "add them up instead",
    )
    _require(
        declared.independent_tuples,
        "the maximum of Bayesian leakages must have independent tuples",
        "correlated ones: two equal bits released apart leak twice the maximum",
        _INDEPENDENT_REMEDY,
    )
    _check_coins_and_sets(declared)
    return max(epsilons_nats, default=0.0)


def _check_coins_and_sets(declared: Declared) -> None:
    _require(
        declared.independent_coins,
        "each release must have randomness of its own",
        "randomness that releases may share",
        "take the leakage of the joint mechanism",
    )
    _require(
        declared.every_known_set,
        "each epsilon must be the largest over every set of known tuples",
        "leakages for one such set: two releases of an exclusive or leak 0 each and 1.52 together",
        "use the epsilon of accounting.ledgers.bayesian.leakage",
    )


def _require(condition: bool, must: str, got: str, remedy: str) -> None:
    if not condition:
        raise CompositionError(must, got, remedy)


# The Bayesian-differential-privacy reader of a release log.
#
# A tuple is one person's whole trace. If people move independently of each other, and only then, the leakages
# of the log's steps add up. The leakage of a step is the pure epsilon of moving a person between two places.
# This holds for ideal noise. A sampler's table is finite, and the mass it leaves out is charged to delta.


@dataclass(frozen=True, slots=True)
class BdpStatement:
    """``epsilon`` (nats) bounds the log-ratio of any two traces, except with probability ``delta``.

    It holds against adversaries who know any set of other people's traces. It is inf where nothing is
    certified: a release has no noise with a pure epsilon, or the samplers' distance from ideal noise,
    ``truncated_mass``, needs more than ``delta``. ``releasing_steps`` is how many terms were added.
    """

    epsilon: float
    delta: float
    truncated_mass: float
    releasing_steps: int


def read_bayesian(log: ReleaseLog, declared: Declared, delta: float) -> BdpStatement:
    """The statement of a log; :class:`CompositionError` unless what makes the sum valid is declared.

    Two of the conditions hold by construction: noise does not depend on who is counted, so each step's
    epsilon is the largest over every known set, and the noise of different steps is independent. The caller
    has to declare that people move independently.
    """
    check_delta(delta)
    costs = [step_cost(step.releases, pure_cost, Neighbours.MOVE) for step in log.steps]
    spent = [cost for cost in costs if Cost() < cost]
    by_construction = Declared(declared.independent_tuples, True, True, declared.disjoint_people)
    summed([float(cost) for cost in spent], by_construction)  # refuses where adding is not allowed
    distance = log_distance(log, Neighbours.MOVE)
    ideal = float(sum(spent, Cost()))
    epsilon = distance.epsilon(lambda _: ideal, delta)
    return BdpStatement(epsilon, delta, distance.truncated_mass, len(spent))
