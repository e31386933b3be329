"""What counts over windows cost in differential privacy: sensitivities follow from what is declared.

Who is added or removed changes the count of each sensor that counts them, at most ``m`` in a window, by at
most its ``most_counts``: ``mu^2 = sum over windows of the m largest L^2 / sigma^2``. In zCDP, ``k^2 rho`` for
a group of ``k`` (Bun and Steinke, "Concentrated Differential Privacy", 2016, proposition 1.9) is the same for
the discrete Gaussian. Priors, and what their support allows, play no part.
"""

from __future__ import annotations

from collections.abc import Iterable

from accounting.exceptions import LedgerError
from accounting.ledgers.neighbours import Cost, Neighbours
from accounting.ledgers.sampling import SamplerDistance, furthest, sampler_distance
from accounting.ledgers.zcdp import Unprotected, ZcdpSpend
from models.releases import WindowRelease


def window_cost(
    releases: Iterable[WindowRelease],
    most_sensors: int,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> ZcdpSpend:
    """zCDP of all releases for anybody, ``most_sensors`` of them counting one person in a window.

    Releases over the same steps are of one window; every other window is charged besides. Who moves instead
    of being removed changes twice as many counts. :class:`LedgerError` unless ``most_sensors`` is at least 1.
    """
    if most_sensors < 1:
        raise LedgerError(
            "most_sensors must be at least 1", most_sensors, "declare how many sensors can count one person"
        )
    windows: dict[tuple[int, int], list[tuple[Cost, SamplerDistance]]] = {}
    unprotected = Unprotected()
    for release in releases:
        rho = Cost.of(release.mechanism.zcdp_rho())
        times = release.most_counts**2
        cost = rho if rho.is_infinite else Cost(rho.amount * times)
        costs = windows.setdefault((release.first, release.last), [])
        costs.append((cost, sampler_distance(release.mechanism, release.most_counts)))
        if rho.is_infinite:
            unprotected = unprotected.and_of(release.sensor.name, release.mechanism.is_exact)
    most = neighbours.places * most_sensors
    total, distance = Cost(), SamplerDistance()
    for costs in windows.values():
        total = sum(sorted((cost for cost, _ in costs), reverse=True)[:most], total)
        distance += furthest([own for _, own in costs], most)
    return ZcdpSpend(total.amount, total.is_infinite, distance, unprotected)
