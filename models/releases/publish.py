"""Counts become values: a whole step in one batch, with noise that a replay cannot average away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from models.exceptions import MechanismError, SensorError
from models.keys import NoiseKey, batch_message, reading_message
from models.mechanisms import DrawnPerWindow, Mechanism, PublishesTiers
from models.numerics.arrays import Integers, Words

_VERSION = "version"  # a parameter in the message from which noise is drawn
MAX_COUNT = 2**53  # every JSON reader reads it as an integer; with noise it fits in 64 bits


class TierValues(NamedTuple):
    """A reading's value of each tier, as drawn and as ``released``: the same unless clamped."""

    drawn: Mapping[str, int]
    released: Mapping[str, int]


PublishedValue: TypeAlias = int | TierValues | None
"""A value, the values of each tier (least informed first), or nothing."""


class StepInterval(NamedTuple):
    """The absolute time one step covers, ``[start_seconds, end_seconds)``, unix seconds UTC."""

    start_seconds: int
    end_seconds: int


@dataclass(frozen=True, slots=True)
class CountToPublish:
    """One sensor's count and the mechanism decided for it; None where no count came in.

    ``sensor_id`` is permanent; until sensors have an id beside their name, it is the name.
    """

    sensor_id: str
    mechanism: Mechanism
    count: int | None


def publish_step(
    key: NoiseKey,
    deployment: str,
    interval: StepInterval,
    counts: Sequence[CountToPublish],
    *,
    clamp_negative: bool = False,
    version: int = 1,
) -> list[PublishedValue]:
    """The published value of each count, in order; None for a missing count and for a suppressed one.

    A ``version`` above 1 is a later value of counts that were published: its noise is drawn anew, even where
    the count is the same. :class:`MechanismError` then for noise that several values share.

    The values are a function of the arguments, and each depends on its own count alone. ``clamp_negative``
    raises negative values to 0 after the noise: this is post-processing without a privacy cost, and biases
    small counts upwards. Tiers also keep the values as drawn, as their chain can only be continued from
    these. :class:`SensorError` for a sensor named twice, :class:`MechanismError` for an impossible count,
    both before anything is drawn.
    """
    _check_step(interval, counts)
    by_mechanism: dict[Mechanism, list[int]] = {}
    for position, item in enumerate(counts):
        if item.count is not None:
            by_mechanism.setdefault(item.mechanism, []).append(position)
    values: list[PublishedValue] = [None] * len(counts)
    for mechanism, positions in by_mechanism.items():
        batch = [counts[position] for position in positions]
        words = _words(key, deployment, interval, mechanism, batch, version)
        numbers = np.array([item.count for item in batch], dtype=np.int64)
        drawn = _published(mechanism, numbers, words, clamp_negative)
        for position, value in zip(positions, drawn, strict=True):
            values[position] = value
    return values


def _published(
    mechanism: Mechanism, counts: Integers, words: Words, clamp_negative: bool
) -> Sequence[PublishedValue]:
    """The values of a batch of counts with one mechanism."""
    least = 0 if clamp_negative else np.iinfo(np.int64).min
    if isinstance(mechanism, PublishesTiers):
        names = [name for name, _ in mechanism.tiers]
        drawn = mechanism.publish_tiers(counts, words)
        rows = [dict(zip(names, row, strict=True)) for row in drawn.tolist()]
        if not clamp_negative:
            return [TierValues(row, row) for row in rows]
        released = [dict(zip(names, row, strict=True)) for row in np.maximum(drawn, least).tolist()]
        return list(map(TierValues, rows, released))
    published = mechanism.publish(counts, words)
    if published is None:
        return [None] * counts.size
    values: list[PublishedValue] = np.maximum(published, least).tolist()
    return values


def _check_step(interval: StepInterval, counts: Sequence[CountToPublish]) -> None:
    """Refuse the whole step where a sensor is named twice or a count is impossible."""
    if not interval.start_seconds < interval.end_seconds:
        raise MechanismError("a step must end after it starts", interval, "check step_seconds and origin")
    sensors = Counter(item.sensor_id for item in counts)
    for sensor_id, times in sensors.items():
        if times > 1:
            raise SensorError(
                "a sensor must be released once a step", f"{sensor_id!r} {times} times", "name it once"
            )
    for item in counts:
        count: object = item.count
        is_count = isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MAX_COUNT
        if count is not None and not is_count:
            raise MechanismError(
                f"the count of sensor {item.sensor_id!r} must be an integer in 0..2^53",
                "another value",
                "leave out a count that is not known",
            )


def _words(
    key: NoiseKey,
    deployment: str,
    interval: StepInterval,
    mechanism: Mechanism,
    batch: Sequence[CountToPublish],
    version: int,
) -> Words:
    """128 keyed uniform bits for each count; zeros where the mechanism draws no noise."""
    if mechanism.is_exact or not mechanism.is_released:
        return np.zeros((len(batch), 2), dtype=np.uint64)
    if isinstance(mechanism, DrawnPerWindow):
        # The window's uniform bits, the same at each of its steps: they must not depend on the counts.
        window = mechanism.noise_window
        step_seconds = interval.end_seconds - interval.start_seconds
        start = interval.start_seconds - window.position * step_seconds
        end = start + window.steps * step_seconds
        parameters = window.parameters if version == 1 else {**window.parameters, _VERSION: version}
        shared = batch_message(deployment, start, end, mechanism.name, parameters, key.epoch)
        return key.uniform_words([reading_message(shared, item.sensor_id, 0) for item in batch])
    shared = batch_message(
        deployment,
        interval.start_seconds,
        interval.end_seconds,
        mechanism.name,
        mechanism.parameters if version == 1 else {**mechanism.parameters, _VERSION: version},
        key.epoch,
    )
    return key.uniform_words(
        [reading_message(shared, item.sensor_id, item.count) for item in batch if item.count is not None]
    )
