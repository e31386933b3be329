"""What a worker says of a record that it cannot use."""

from __future__ import annotations

import re
from typing import NamedTuple

from stream_app.wire import Reason, Rejected, reject

_PSEUDONYM = re.compile(rb"[0-9a-f]{32}")


class RefusedRecord(NamedTuple):
    """A record of an internal topic that is not what it must be."""

    source: str
    payload: bytes
    hint: str
    reason: Reason = Reason.INVALID_FIELD

    def letter(self) -> Rejected:
        """The dead letter."""
        return reject(self.source, self.payload, self.reason, self.hint)


def refused_person(
    source: str, key: bytes | None, hint: str, reason: Reason = Reason.INVALID_FIELD
) -> RefusedRecord:
    """A record of ``persons`` that is no prior: whose it is and why, nothing of the prior itself.

    Dead letters have other readers than ``persons``, where the record stays. ``hint`` quotes nothing of it.
    """
    pseudonym = _PSEUDONYM.fullmatch(key or b"")
    return RefusedRecord(source, pseudonym[0] if pseudonym else b"", hint, reason)
