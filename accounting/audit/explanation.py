"""Which release did it: every release's share of what one person's horizon gave away, largest first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from accounting.audit.audit import audit_exposure
from accounting.bounds import Effort
from accounting.exposure import Exposure, released_information
from accounting.exposure.step_information import observe
from models.releases import SensorRelease, StepSchedule


@dataclass(frozen=True, slots=True)
class InformationShare:
    """What one release of one sensor reveals about a horizon.

    ``information_nats`` is its share of the information by the chain rule over the steps (within a step in
    proportion to what each sensor reveals by itself).
    """

    step: int
    sensor: str
    mechanism: str
    information_nats: float


@dataclass(frozen=True, slots=True)
class ReleaseShare(InformationShare):
    """What one release reveals, and what the ceiling would be without it.

    ``certified_drop`` is the certified bound with all releases less the one without this release. It can be
    negative: a bound may get sharper when more is seen, although the true risk does not fall.
    """

    certified_drop: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """The risk of one horizon taken apart.

    ``shares``, of :func:`information_shares`, add up to ``information_nats``.
    """

    certified: float
    baseline: float
    information_nats: float
    shares: tuple[ReleaseShare, ...]

    def without(self, share: ReleaseShare) -> float:
        """The ceiling had this release not been made."""
        return self.certified - share.certified_drop


def information_shares(exposure: Exposure, steps: tuple[StepSchedule, ...]) -> tuple[InformationShare, ...]:
    """What each release of ``steps`` reveals about the person, the most first.

    ``steps`` are the schedule the exposure was made from. Releases that cannot concern the person are left
    out.
    """
    per_step = released_information(exposure).per_step
    visited = frozenset(exposure.chain.places.tolist())
    shares = []
    for t, step in enumerate(steps):
        weights = [
            0.0
            if visited.isdisjoint(release.sensor.locations)
            else _release_information(exposure, t, release)
            for release in step.releases
        ]
        for release, weight in zip(step.releases, weights, strict=True):
            if weight > 0.0:
                nats = per_step[t] * weight / sum(weights)
                shares.append(InformationShare(step.step, release.sensor.name, release.mechanism.name, nats))
    return tuple(sorted(shares, key=lambda share: (-share.information_nats, share.step, share.sensor)))


def explain(
    exposure: Exposure,
    steps: tuple[StepSchedule, ...],
    mistakes: int,
    *,
    effort: Effort | None = None,
) -> Explanation:
    """Take one person's exposure to ``steps`` apart: one audit a release of :func:`information_shares`."""
    whole = audit_exposure(exposure, mistakes, effort=effort)
    shares = []
    for share in information_shares(exposure, steps):
        without = audit_exposure(_without(exposure, steps, share), mistakes, effort=effort)
        shares.append(ReleaseShare(**asdict(share), certified_drop=whole.certified - without.certified))
    return Explanation(whole.certified, whole.baseline, sum(whole.information.per_step), tuple(shares))


def mean_explanation(each: Sequence[Explanation]) -> Explanation:
    """The mean over several chains that stand for one person; a release that one leaves out is 0 there."""
    count = len(each)
    nats: dict[tuple[int, str, str], float] = defaultdict(float)
    drop: dict[tuple[int, str, str], float] = defaultdict(float)
    for found in each:
        for share in found.shares:
            release = (share.step, share.sensor, share.mechanism)
            nats[release] += share.information_nats / count
            drop[release] += share.certified_drop / count
    shares = (ReleaseShare(*release, nats[release], drop[release]) for release in nats)
    return Explanation(
        sum(found.certified for found in each) / count,
        sum(found.baseline for found in each) / count,
        sum(found.information_nats for found in each) / count,
        tuple(sorted(shares, key=lambda share: (-share.information_nats, share.step, share.sensor))),
    )


def _release_information(exposure: Exposure, step: int, release: SensorRelease) -> float:
    """What a release by itself reveals about where the person was in that step, nats."""
    if not release.mechanism.is_released:
        return 0.0
    counted = np.isin(exposure.chain.places, release.sensor.locations)
    probability = min(1.0, float(exposure.marginal[step][counted].sum()))
    return float(release.accounted.information(np.array(probability)))


def _without(exposure: Exposure, steps: tuple[StepSchedule, ...], left_out: InformationShare) -> Exposure:
    """The exposure had one release not been made."""
    t = next(t for t, step in enumerate(steps) if step.step == left_out.step)
    kept = tuple(release for release in steps[t].releases if release.sensor.name != left_out.sensor)
    location_count = exposure.observations[t].labels.size
    changed = observe(replace(steps[t], releases=kept), location_count)
    observations = (*exposure.observations[:t], changed, *exposure.observations[t + 1 :])
    return exposure.under(observations)
