"""What a snapshot of accounts rests on besides the steps: one digest, of another version another one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from stream_app.setup.own_version import own_version


def snapshot_basis(basis: Mapping[str, Any]) -> str:
    """The digest of everything but decisions that a state follows from, and of this program's version."""
    return hashlib.sha256(json.dumps([dict(basis), own_version()], sort_keys=True).encode()).hexdigest()
