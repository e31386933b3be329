"""The privacy level of each recipient: it falls with the distance in a graph of who trusts whom.

Koufogiannis and Pappas, "Diffusing Private Data over Networks", section II: shortest-path distance counts
the handshakes; resistance distance also depends on how many paths there are. Neither depends on data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from models.arguments import checked
from models.exceptions import MechanismError
from models.numerics.arrays import Floats

Measure = Literal["shortest-path", "resistance"]


@checked(MechanismError)
@dataclass(frozen=True)
class TrustGraph:
    """Who trusts whom: edges with a length above 0 (1 = direct acquaintance).

    An edge holds both ways unless the graph ``is_directed``: then data flow from the first to the second.
    """

    members: tuple[str, ...]
    edges: Mapping[tuple[str, str], float]
    is_directed: bool = False

    def __post_init__(self) -> None:
        """:class:`MechanismError` for an edge to nobody or one without a length."""
        if len(set(self.members)) < len(self.members):
            raise MechanismError("members must be named once", list(self.members), "drop repeats")
        for pair, length in self.edges.items():
            if not self.is_directed and self.edges.get(pair[::-1], length) != length:
                raise MechanismError(
                    f"the edge between {pair[0]!r} and {pair[1]!r} must have one length",
                    (length, self.edges[pair[::-1]]),
                    "give each once, or say is_directed=True",
                )
            if not set(pair) <= set(self.members) or pair[0] == pair[1]:
                raise MechanismError("an edge must join two members", pair, "add the member or drop the edge")
            if not (math.isfinite(length) and length > 0):
                raise MechanismError(f"the length of edge {pair} must be positive", length, "e.g. 1")

    @checked(MechanismError)
    def distances(self, owner: str, measure: Measure = "shortest-path") -> dict[str, float]:
        """Distance of every member from ``owner``; inf where there is no path.

        :class:`MechanismError` for an owner who is no member, and resistance in a directed graph.
        """
        if owner not in self.members:
            raise MechanismError("the owner must be a member", repr(owner), "add it to the graph")
        position = {name: index for index, name in enumerate(self.members)}
        lengths, start = np.zeros((len(self.members), len(self.members))), position[owner]
        for (first, second), length in self.edges.items():
            lengths[position[first], position[second]] = length
            if not self.is_directed:
                lengths[position[second], position[first]] = length
        if measure == "resistance" and self.is_directed:
            raise MechanismError("resistance must be of edges both ways", "a directed graph", "shortest-path")
        if measure == "resistance":
            values = _resistance_distances(lengths, start)
        else:  # Dijkstra's shortest paths from the owner alone
            from scipy.sparse import csgraph  # takes long to import, and few ask for it

            values = csgraph.shortest_path(
                lengths, method="D", directed=self.is_directed, indices=[start]
            ).reshape(-1)
        return dict(zip(self.members, values.tolist(), strict=True))


def _resistance_distances(lengths: Floats, owner: int) -> Floats:
    """Electrical resistance between ``owner`` and each member (n,), where an edge's resistance is its length.

    inf where there is no path. ``R_ij = G_ii + G_jj - 2 G_ij`` with ``G`` the pseudo-inverse of the Laplacian
    of the conductances (Klein, Randic, "Resistance distance", 1993). Grounding the owner instead
    gives ``R_oj = (L_oo^-1)_jj``.
    """
    from scipy.sparse import csgraph

    edges = lengths > 0.0
    conductances = np.where(edges, 1.0 / np.where(edges, lengths, 1.0), 0.0)
    component = csgraph.connected_components(conductances, directed=False)[1]
    distances = np.full(lengths.shape[0], math.inf)
    distances[owner] = 0.0
    others = np.flatnonzero((component == component[owner]) & (np.arange(distances.size) != owner))
    if others.size:
        laplacian = np.diag(conductances.sum(axis=1)) - conductances
        distances[others] = np.diag(np.linalg.inv(laplacian[np.ix_(others, others)]))
    return distances


Level = Callable[[float], float]


@checked(MechanismError)
def reciprocal_level(at_one: float) -> Level:
    """``epsilon(d) = at_one / d`` nats, infinite at distance 0; :func:`assign_tiers` caps it.

    :class:`~models.exceptions.MechanismError` there if it rises, as it does below 0.
    """
    return lambda distance: math.inf if distance == 0.0 else at_one / distance


@checked(MechanismError)
def exponential_level(at_zero: float, length: float) -> Level:
    """``epsilon(d) = at_zero exp(-d / length)`` nats; ``length`` has the unit of the distances.

    :class:`~models.exceptions.MechanismError` by :func:`assign_tiers` if it rises.
    """
    return lambda distance: at_zero * math.exp(-distance / length)


@checked(MechanismError)
def stepwise_level(steps: Sequence[tuple[float, float]]) -> Level:
    """The epsilon (nats) of the first of ``steps`` (largest distance, epsilon) within reach; 0 beyond.

    :class:`~models.exceptions.MechanismError` by :func:`assign_tiers` if it rises.
    """
    return lambda distance: next((epsilon for most, epsilon in steps if distance <= most), 0.0)


@dataclass(frozen=True, slots=True)
class TierAssignment:
    """``tiers``: name and epsilon (nats), rising; ``tier_of``: each recipient's tier, None for nothing."""

    tiers: tuple[tuple[str, float], ...]
    tier_of: Mapping[str, str | None]


@checked(MechanismError, infinite=("distances",))  # infinite without a path
def assign_tiers(
    distances: Mapping[str, float], level: Level, allowed: Iterable[float], names: Sequence[str] | None = None
) -> TierAssignment:
    """Each recipient's tier: the largest of the ``allowed`` epsilons that its distance permits.

    Rounding down to a few levels keeps the number of published files small, and no recipient gets more than
    ``level(distance)``. ``names`` are those of the levels, rising (default ``tier-1`` for the least
    informed). :class:`MechanismError` where the level rises with the distance, or is not a number.
    """
    levels = sorted(set(allowed))
    called = [f"tier-{index + 1}" for index in range(len(levels))] if names is None else list(names)
    if not levels or len(called) != len(levels):
        raise MechanismError(
            "each allowed epsilon must have one name", f"{levels} and {called}", "give as many as levels"
        )
    try:
        permitted = {name: float(level(distance)) for name, distance in distances.items()}
    except (TypeError, ValueError) as error:
        raise MechanismError(
            "a level must be a function of the distance", str(error), "use reciprocal_level(1.0)"
        ) from None
    highest = math.inf
    for distance, epsilon in sorted((distances[name], value) for name, value in permitted.items()):
        if math.isnan(epsilon) or epsilon < 0.0 or epsilon > highest:
            raise MechanismError(
                "epsilon must not rise with distance, and be 0 or more",
                f"{epsilon} at distance {distance}",
                "choose a falling function of the distance",
            )
        highest = epsilon
    tiers = tuple(zip(called, levels, strict=True))
    best = {name: [tier for tier, epsilon in tiers if epsilon <= most] for name, most in permitted.items()}
    return TierAssignment(tiers, {name: own[-1] if own else None for name, own in best.items()})
