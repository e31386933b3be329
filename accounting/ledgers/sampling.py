"""What it costs that noise is sampled, and not ideal: a release's sampler beside the law a theorem is about.

Two ways are known, and the better one counts. **By mass**: laws within ``tau`` of the ideal in total
variation cost ``(1 + e^epsilon) tau`` of delta: nothing for small epsilon, everything from 45 on or so.
**By table**: where ``|z| <= K`` let the sampler's probabilities be within a factor ``e^r`` of the ideal ones,
and ``beta = Pr[z < -K or z > K - L]``, with ``L`` the most that one person changes the count by. Then

    delta(epsilon + 2 sum r) <= e^(sum r) delta_ideal(epsilon) + sum beta

as on those outputs ``P - e^(epsilon + 2r) Q <= e^r (P_ideal - e^epsilon Q_ideal)``, and all others together
have the mass ``sum beta`` at most. No ``e^epsilon`` stands before it: large epsilons can be certified, too.
The last ``L`` values *inside* count: their neighbours have no such output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache

from accounting.ledgers.neighbours import Neighbours, WindowCosts, seen_together
from models.mechanisms import Composite, Mechanism
from models.releases import SensorRelease

_MARGIN = 1.001  # charged beyond what was found: the next epsilon is larger, and so is its cost
_ROUNDS = 64


@dataclass(frozen=True, slots=True, order=True)
class SamplerDistance:
    """How far samplers may be from ideal noise; of several releases the sums.

    ``truncated_mass`` is the total variation. Of samplers that are tables ``log_ratio`` is ``r`` and
    ``outside`` is ``beta``; ``untabled_mass`` is the total variation of all others (floating point, or a law
    of which no more is known).
    """

    truncated_mass: float = 0.0
    log_ratio: float = 0.0
    outside: float = 0.0
    untabled_mass: float = 0.0

    def __add__(self, other: SamplerDistance) -> SamplerDistance:
        return SamplerDistance(
            self.truncated_mass + other.truncated_mass,
            self.log_ratio + other.log_ratio,
            self.outside + other.outside,
            self.untabled_mass + other.untabled_mass,
        )

    def epsilon(self, ideal: Callable[[float], float], delta: float) -> float:
        """Epsilon (nats) at ``delta`` as the samplers are, ``ideal`` giving that of the ideal noise; or inf.

        ``ideal`` is asked for deltas above 0 and must not rise with them.
        """
        by_mass = _epsilon_by_mass(ideal, delta, self.truncated_mass)
        if self.untabled_mass == self.truncated_mass:
            return by_mass

        def on_tables(left: float) -> float:
            left = (left - self.outside) * math.exp(-self.log_ratio)
            return ideal(left) + 2.0 * self.log_ratio if left > 0.0 else math.inf

        return min(by_mass, _epsilon_by_mass(on_tables, delta, self.untabled_mass))


def step_distance(
    releases: Iterable[SensorRelease], neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> SamplerDistance:
    """The furthest that the samplers of one step may be from ideal noise in the counts that anybody changes.

    As :func:`accounting.ledgers.neighbours.step_cost`, in each way of measuring: the noise that costs most is
    not the one that is furthest.
    """
    released = tuple(releases)
    own = [sampler_distance(release.charged) for release in released]
    windows = WindowCosts[SamplerDistance]()
    for release, distance in zip(released, own, strict=True):
        if release.sensor.window is not None:
            windows.add(release.sensor.window, distance)
    places = [sum((own[i] for i in seen), SamplerDistance()) for seen in seen_together(released)]
    found = furthest(places, neighbours.places)
    return sum((furthest(*group) for group in windows.by_length(neighbours.places)), found)


def furthest(distances: Sequence[SamplerDistance], most: int) -> SamplerDistance:
    """At least the sum of any ``most`` of them."""
    if len(set(distances)) <= 1:  # nearly always: one kind of noise
        return sum(distances[:most], SamplerDistance())
    return SamplerDistance(
        *(sum(sorted(values, reverse=True)[:most]) for values in zip(*map(astuple, distances), strict=True))
    )


def sampler_distance(mechanism: Mechanism, most_counts: int = 1) -> SamplerDistance:
    """The distance of one release whose count one person changes by ``most_counts``; of all its parts."""
    return _distance(mechanism, most_counts)  # type: ignore[arg-type]  # mechanisms are hashable values


@lru_cache(maxsize=4096)
def _distance(mechanism: Mechanism, most_counts: int) -> SamplerDistance:
    if isinstance(mechanism, Composite):
        most = most_counts * mechanism.most_counts
        return sum((sampler_distance(part, most) for part in mechanism.parts), SamplerDistance())
    law = mechanism.noise_law()
    if law is None:
        return SamplerDistance()
    if law.faithful_last < 0:
        return SamplerDistance(law.truncated_mass, untabled_mass=law.truncated_mass)
    return SamplerDistance(law.truncated_mass, law.faithful_log_ratio, law.outside_faithful(most_counts))


def mass_in_delta(epsilon: float, mass: float) -> float:
    """What samplers that miss the ideal by ``mass`` cost of delta: ``(1 + e^epsilon) mass``, 0 for none."""
    return (1.0 + math.exp(min(epsilon, 700.0))) * mass if mass > 0.0 else 0.0


def _epsilon_by_mass(ideal: Callable[[float], float], delta: float, mass: float) -> float:
    """Where ``delta`` pays for the ideal's epsilon and for what its samplers miss; inf where it does not."""
    charged = 0.0
    for _ in range(_ROUNDS):
        if charged >= delta:
            return math.inf
        epsilon = ideal(delta - charged)
        cost = mass_in_delta(epsilon, mass)
        if cost <= charged:
            return epsilon
        charged = cost * _MARGIN
    return math.inf
