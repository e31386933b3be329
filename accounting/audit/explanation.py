"""Which release did it: every release's share of what one person's horizon gave away, largest first."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from accounting.audit.audit import audit_exposure
from accounting.bounds import Effort
from accounting.exposure import Exposure
from accounting.exposure.step_information import observe
from models.releases import SensorRelease, StepSchedule


@dataclass(frozen=True, slots=True)
class ReleaseShare:
    """What one release of one sensor contributed.

    ``information_nats`` is its share of the information by the chain rule over the steps (within a step in
    proportion to what each sensor tells on its own); the shares of an explanation add up to its total.
    ``certified_drop`` is the certified bound with all releases less the one without this release. It can be
    negative: a bound may get sharper when more is seen, although the true risk does not fall.
    """

    step: int
    sensor: str
    mechanism: str
    information_nats: float
    certified_drop: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """The risk of one horizon taken apart; ``shares`` are sorted by information, largest first."""

    certified: float
    baseline: float
    information_nats: float
    shares: tuple[ReleaseShare, ...]

    def without(self, share: ReleaseShare) -> float:
        """The ceiling had this release not been made."""
        return self.certified - share.certified_drop


def explain(
    exposure: Exposure,
    steps: tuple[StepSchedule, ...],
    mistakes: int,
    *,
    effort: Effort | None = None,
) -> Explanation:
    """Take one person's exposure to ``steps`` apart; releases that cannot concern the person are left out.

    ``steps`` are the schedule the exposure was made from. One audit a release that concerns the person.
    """
    whole = audit_exposure(exposure, mistakes, effort=effort)
    per_step = whole.information.per_step
    shares = []
    for t, step in enumerate(steps):
        weights = [_alone(exposure, t, release) for release in step.releases]
        for k, release in enumerate(step.releases):
            if weights[k] > 0.0:
                without = audit_exposure(_without(exposure, t, step, k), mistakes, effort=effort)
                shares.append(
                    ReleaseShare(
                        step=step.step,
                        sensor=release.sensor.name,
                        mechanism=release.mechanism.name,
                        information_nats=per_step[t] * weights[k] / sum(weights),
                        certified_drop=whole.certified - without.certified,
                    )
                )
    shares.sort(key=lambda share: (-share.information_nats, share.step, share.sensor))
    return Explanation(whole.certified, whole.baseline, sum(per_step), tuple(shares))


def _alone(exposure: Exposure, step: int, release: SensorRelease) -> float:
    """What a sensor tells on its own about where the person was in that step, nats."""
    if not release.mechanism.is_released:
        return 0.0
    counted = np.isin(exposure.chain.places, release.sensor.locations)
    probability = min(1.0, float(exposure.marginal[step][counted].sum()))
    return float(release.mechanism.information(np.array(probability)))


def _without(exposure: Exposure, t: int, step: StepSchedule, left_out: int) -> Exposure:
    """The exposure had one release of step ``t`` not been made."""
    kept = tuple(release for k, release in enumerate(step.releases) if k != left_out)
    location_count = exposure.observations[t].labels.size
    changed = observe(replace(step, releases=kept), location_count)
    observations = (*exposure.observations[:t], changed, *exposure.observations[t + 1 :])
    return exposure.under(observations)
