"""The partition of one person."""

from __future__ import annotations

from stream_app.steps.policy.people_shards import partitions_of


def partition_of(key: str, partitions: int) -> int:
    """As :func:`partitions_of` has it."""
    return int(partitions_of([key], partitions)[0])
