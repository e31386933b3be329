"""How far people may be from their prior, and the ceiling that still holds for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp, expm1, inf, sqrt

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.radius.path_divergence_kernel import (
    PathLaw,
    expected_distances,
    log_largest_ratio,
    renyi_divergence,
)
from accounting.bounds.radius.raised_kernel import raised_by_renyi, raised_by_reversed
from accounting.exceptions import HorizonError
from accounting.exposure import Exposure
from accounting.exposure.step_information.contraction_kernel import dense_matrix
from accounting.numerics.divergence_root_kernel import divergence_root
from models.arguments import checked

RENYI_ORDERS = (0.5, 2.0, 5.0)


@dataclass(frozen=True, slots=True)
class RadiusCeiling:
    """``value`` bounds any adversary's success against everybody within the radius; ``by`` which formula."""

    value: float
    by: str


@checked(HorizonError, infinite=("kl", "kl_reversed", "renyi", "log_max_ratio"))
@dataclass(frozen=True, slots=True)
class Radius:
    """How far the law of a person's places may be from the prior's, over steps ``first..last`` of a log.

    ``Q`` is the person's law of the places in *all* these steps, ``P`` the prior's; nats. ``kl`` is
    ``KL(Q || P)``, ``kl_reversed`` is ``KL(P || Q)``, ``renyi`` holds ``D_a(Q || P)`` by order ``a``,
    ``log_max_ratio`` is ``D_inf``. What is not known is infinite (a total variation is at most 1) and raises
    no ceiling's formula but its own. A ceiling may be raised by a radius only if no release or goal that it
    depends on lies outside ``first..last``: :func:`~accounting.bounds.radius.horizon_within` sees to that.
    """

    first: int
    last: int
    kl: float = inf
    kl_reversed: float = inf
    tv: float = 1.0
    renyi: Mapping[float, float] = field(default_factory=dict)
    log_max_ratio: float = inf

    def __post_init__(self) -> None:
        """:class:`HorizonError` for steps out of order or a distance below 0."""
        if not 0 <= self.first <= self.last:
            raise HorizonError(
                "a radius must count steps in order, from 0 on",
                f"{self.first}..{self.last}",
                "name the first and the last step",
            )
        if any(not 0.0 < order < inf or order == 1.0 for order in self.renyi):
            raise HorizonError(
                "an order of Renyi divergence must be above 0, finite and not 1",
                list(self.renyi),
                "give order 1 as kl",
            )
        distances = (self.kl, self.kl_reversed, self.tv, *self.renyi.values(), self.log_max_ratio)
        if not all(distance >= 0.0 for distance in distances):
            raise HorizonError("a radius must be 0 or more", min(distances), "give nats, 0.1 say")

    @classmethod
    @checked(HorizonError, infinite=("nats",))
    def of_rows(
        cls, first: int, last: int, *, nats: float = inf, tv: float = 1.0, start: float = 0.0
    ) -> Radius:
        """Every row of every move within ``nats`` of relative entropy, or ``tv`` of total variation.

        ``start`` is the distance of the first place's law, in the same measure; give one of the two.
        """
        if not (nats >= 0.0 and tv >= 0.0 and start >= 0.0 and 0 <= first <= last):
            raise HorizonError(
                "distances of rows must be 0 or more, over steps in order from 0 on",
                (first, last, nats, tv, start),
                "give nats, 0.1 say",
            )
        moves = last - first
        kl = inf if nats == inf else start + moves * nats
        return cls(first, last, kl=kl, tv=1.0 if tv >= 1.0 else min(1.0, start + moves * tv))

    @classmethod
    @checked(HorizonError)
    def between(cls, prior: Exposure, person: Exposure, first: int = 0, last: int | None = None) -> Radius:
        """How far one person's chain is from another's over steps of the same schedule, each exactly but TV.

        The total variation is bounded: by telescoping, from either side, and by ``sqrt(1 - BC^2)`` of the
        Bhattacharyya coefficient.
        """
        last = prior.steps - 1 if last is None else last
        if not 0 <= first <= last < min(prior.steps, person.steps):
            steps = min(prior.steps, person.steps)
            raise HorizonError(
                f"a radius must count steps of the schedule, in order in 0..{steps - 1}",
                f"{first}..{last}",
                "choose others",
            )
        places = np.union1d(prior.chain.places, person.chain.places)
        p, q = (_path_law(each, places, first, last) for each in (prior, person))
        forwards, backwards = expected_distances(q, p), expected_distances(p, q)
        renyi = {order: float(renyi_divergence(q, p, order)) for order in RENYI_ORDERS}
        bhattacharyya = sqrt(-expm1(-renyi[0.5])) if renyi[0.5] < inf else 1.0
        return cls(
            first,
            last,
            kl=float(forwards.relative_entropy),
            kl_reversed=float(backwards.relative_entropy),
            tv=min(float(forwards.total_variation), float(backwards.total_variation), bhattacharyya),
            renyi=renyi,
            log_max_ratio=float(log_largest_ratio(q, p)),
        )

    @checked(HorizonError)
    def ceilings(self, bound: float) -> dict[str, float]:
        """A bound on success under the prior, raised to everybody within the radius, formula by formula."""
        raised = {
            "tv": min(1.0, bound + self.tv),
            "kl": float(divergence_root(self.kl, bound)),
            "kl_reversed": float(raised_by_reversed(bound, self.kl_reversed)),
        }
        for order, divergence in self.renyi.items():
            raised[f"renyi_{order:g}"] = float(raised_by_renyi(bound, divergence, order))
        raised["max_ratio"] = min(1.0, bound * exp(min(self.log_max_ratio, 700.0)))
        return raised

    @checked(HorizonError)
    def ceiling(self, bound: float) -> RadiusCeiling:
        """The least of them."""
        raised = self.ceilings(bound)
        by = min(raised, key=raised.__getitem__)
        return RadiusCeiling(raised[by], by)


def _path_law(exposure: Exposure, places: NDArray[np.int32], first: int, last: int) -> PathLaw:
    """The law of the places in ``first..last``, on ``places``, of which the person's own are some.

    Who never is at a place never leaves it: what its row says has no weight.
    """
    own = np.searchsorted(places, exposure.chain.places)
    start = np.zeros(places.size)
    start[own] = exposure.marginal[first]
    slots = exposure.chain.start.shape[0]
    matrices = np.zeros((slots, places.size, places.size))
    for slot in range(slots):
        matrices[slot] = np.eye(places.size)
        matrices[slot][np.ix_(own, own)] = dense_matrix(exposure.chain, slot)
    return PathLaw(start, matrices, exposure.slot(first), last - first + 1)
