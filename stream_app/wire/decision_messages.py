"""Decided schedules as messages and back: what the journal stores to rebuild the accountant from."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

from models import mechanisms
from models.mechanisms import Designs, Mechanism
from models.releases import SensorRegistry, SensorRelease, StepSchedule
from stream_app.wire.messages import DecisionReason, SensorDecision, StepDecision

if TYPE_CHECKING:
    from accounting.exposure.crowd import StepCrowd


def decision_of(
    schedule: StepSchedule,
    why: DecisionReason | None = None,
    deployment: str | None = None,
    crowds: StepCrowd | None = None,
) -> StepDecision:
    """The message of a decided step, with its reason where a risk budget decided.

    ``deployment`` is the digest of what accounts it, where others do; ``crowds`` what each count hides among.
    """
    sums = [None] * len(schedule.releases) if crowds is None else [each.units for each in crowds]
    return StepDecision(
        step=schedule.step,
        decisions=tuple(
            _decided(release, crowd) for release, crowd in zip(schedule.releases, sums, strict=True)
        ),
        why=why,
        deployment=deployment,
    )


def schedule_of(decision: StepDecision, registry: SensorRegistry) -> StepSchedule:
    """The schedule in a stored decision: the one that was accounted, bit for bit."""
    return StepSchedule(
        decision.step,
        tuple(
            SensorRelease(
                registry.get(item.sensor),
                _mechanism(item.mechanism, tuple(sorted(item.parameters.items())), registry.designs),
            )
            for item in decision.decisions
        ),
    )


def crowds_of(decision: StepDecision) -> StepCrowd:
    """What each count of a stored decision hides among; nobody where that was not found."""
    from accounting.exposure.crowd import SensorCrowd

    return tuple(
        SensorCrowd() if item.crowd is None else SensorCrowd(item.crowd) for item in decision.decisions
    )


def fingerprint_of(schedule: StepSchedule) -> str:
    """Sixteen digits by which a decided step is known again, wherever it is stored."""
    return hashlib.sha256(decision_of(schedule).line()).hexdigest()[:16]


@lru_cache(maxsize=20_000)
def _decided(release: SensorRelease, crowd: tuple[int, ...] | None) -> SensorDecision:
    """One object per sensor and mechanism, however many steps say it."""
    name, mechanism = release.sensor.name, release.mechanism
    return SensorDecision(
        sensor=name, mechanism=mechanism.name, parameters=dict(mechanism.parameters), crowd=crowd
    )


@lru_cache(maxsize=256)
def _mechanism(name: str, parameters: tuple[tuple[str, float], ...], designs: Designs) -> Mechanism:
    """One object per distinct mechanism, however many steps use it."""
    return mechanisms.parse(name, dict(parameters), designs)
