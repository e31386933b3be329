"""The Bayesian-differential-privacy reader of a release log.

A tuple is one person's whole trace. Where people move independently of each other, and only there, leakages
of the log's steps add up; each step's is the pure epsilon of moving a person between two places. That is the
ideal noise's: a sampler's table ends somewhere, and what it misses is charged to a delta.
"""

from __future__ import annotations

from dataclasses import dataclass

from accounting.ledgers import (
    Cost,
    Neighbours,
    ReleaseLog,
    check_delta,
    log_distance,
    pure_cost,
    step_cost,
)
from accounting.ledgers.bayesian.bayesian_composition import Declared, summed


@dataclass(frozen=True, slots=True)
class BdpStatement:
    """``epsilon`` (nats): but for ``delta``, no two traces are further apart, whoever else is known.

    inf where nothing is certified: a release has no such noise, or the samplers' distance from it,
    ``truncated_mass``, needs more than ``delta``. ``releasing_steps`` is how many terms were added.
    """

    epsilon: float
    delta: float
    truncated_mass: float
    releasing_steps: int


def read_bayesian(log: ReleaseLog, declared: Declared, delta: float) -> BdpStatement:
    """The statement of a log; :class:`CompositionError` unless what makes the sum valid is declared.

    Each step's epsilon is the supremum over every known set (the noise does not depend on who is counted) and
    steps have independent coins by construction, so that people are independent is what is left to declare.
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
