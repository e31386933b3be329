"""Readings that stand one behind the other, gathered into batches: the same counts in fewer messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stream_app.wire.messages import Reading, Readings
from stream_app.wire.parsing import parse

BATCH_BYTES = 1 << 19
"""At most so many bytes of lines go into one batch: with its envelope it fits in a line, and in a record."""


def batched(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The messages of these lines, without line ends; consecutive readings of one step come together.

    Any other line stays as it is and where it is. A sensor that comes again begins another batch, so that a
    repetition, or a contradiction, stays one.
    """
    counts: dict[str, int] = {}
    step, version, size = 0, None, 0
    for line in lines:
        message = parse(line, "")
        if counts and not (
            isinstance(message, Reading)
            and (message.step, message.version) == (step, version)
            and message.sensor not in counts
            and size + len(line) <= BATCH_BYTES
        ):
            yield Readings(v=1, step=step, counts=counts, version=version).line().rstrip()
            counts, size = {}, 0
        if isinstance(message, Reading):
            step, version = message.step, message.version
            counts[message.sensor] = message.count
            size += len(line)
        else:
            yield line
    if counts:
        yield Readings(v=1, step=step, counts=counts, version=version).line().rstrip()
