"""What a worker says of a record that it cannot use."""

from __future__ import annotations

from typing import NamedTuple

from stream_app.messages import Reason, Rejected, reject


class Refused(NamedTuple):
    """A record of an internal topic that is not what it must be."""

    source: str
    payload: bytes
    hint: str

    def letter(self) -> Rejected:
        """The dead letter."""
        return reject(self.source, self.payload, Reason.INVALID_FIELD, self.hint)
