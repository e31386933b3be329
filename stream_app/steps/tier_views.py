"""What everybody and each tier of recipients receives: projections of the one log that holds all tiers.

The log keeps every tier's value of a reading, drawn once from one chain. A tier's file is made from it and
can be made again: raising a recipient is handing over another file, and draws nothing. A level nobody had
is read from the same chain, see :mod:`stream_app.steps.tier_continuation`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from models.mechanisms import PublishesTiers, Suppressed
from stream_app.exceptions import SettingsError
from stream_app.wire import SensorValue, StepRelease

_SUPPRESSED = Suppressed().name


def tier_file(tier: str) -> str:
    """Name of a tier's file in the output folder."""
    return f"releases-{tier}.jsonl"


def public_release(release: StepRelease, tiers: Collection[str]) -> StepRelease:
    """What everybody may read of a step: of a tiered reading the value of its least informed tier.

    That is the value a reading carries beside its tiers, which its mechanism ranks by epsilon. ``tiers`` are
    those with a log of their own; :class:`SettingsError` for a reading with another one.
    """
    unknown = {name for entry in release.releases for name in entry.tiers or ()} - set(tiers)
    if unknown:
        raise SettingsError(
            "every tier must have a log of its own before a reading is released to it",
            ", ".join(sorted(unknown)),
            "name it in release.tiers; on Kafka then run `tallyguard topics create`",
        )
    return release.model_copy(update={"releases": tuple(map(_for_everybody, release.releases))})


def release_for_tier(release: StepRelease, tier: str) -> StepRelease:
    """What one tier receives of a step: its own value of tiered readings, all others as they are."""
    return release.model_copy(
        update={"releases": tuple(_for_tier(entry, tier) for entry in release.releases)}
    )


def tier_names(mechanisms: Iterable[object]) -> tuple[str, ...]:
    """Names of the tiers that mechanisms publish for, least informed first; empty without tiers.

    :class:`SettingsError` when two mechanisms have different tiers: a recipient's file would have gaps.
    """
    found = {
        tuple(name for name, _ in mechanism.tiers)
        for mechanism in mechanisms
        if isinstance(mechanism, PublishesTiers)
    }
    if len(found) > 1:
        raise SettingsError(
            "all tiered releases must have the same tiers in the same order",
            " and ".join(", ".join(names) for names in sorted(found)),
            "name every tier wherever a release is tiered; the epsilons may differ",
        )
    return next(iter(found), ())


def _for_everybody(entry: SensorValue) -> SensorValue:
    return entry if entry.tiers is None else entry.model_copy(update={"tiers": None})


def _for_tier(entry: SensorValue, tier: str) -> SensorValue:
    if entry.tiers is None:
        return entry
    value = entry.tiers.get(tier)
    if value is None:
        return SensorValue(sensor=entry.sensor, mechanism=_SUPPRESSED)
    return SensorValue(
        sensor=entry.sensor, mechanism=entry.mechanism, epsilon=value.epsilon, value=value.value
    )
