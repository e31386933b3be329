"""A cache of the accountant's state, so that a restart need not apply years of decisions again.

The decisions are the truth. A snapshot is used only if it was made by the same version from the same priors,
settings and decisions, and is undamaged; otherwise it is as if there were none.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from models.exceptions import TallyguardError
from models.text import parse_json
from stream_app.exceptions import DiskFullError
from stream_app.setup.run_folder.durable import SECRET_MODE, replace_file
from stream_app.steps import snapshot_basis

logger = logging.getLogger(__name__)

FILE = "accountant.snapshot"


class Snapshotted(Protocol):
    """An accountant whose state can be put away."""

    @property
    def next_step(self) -> int:
        """The step it expects."""

    def snapshot(self) -> bytes:
        """The state, a pure function of priors and applied steps."""

    def restore(self, snapshot: bytes) -> None:
        """Take over such a state."""


class SnapshotCache:
    """Keeps one snapshot in an output folder.

    ``basis`` is everything but the decisions that the state follows from; ``every_seconds`` 0 keeps none.
    """

    def __init__(self, folder: Path, basis: Mapping[str, Any], every_seconds: float) -> None:
        self._folder = folder
        self._basis = snapshot_basis(basis)
        self._every_seconds = every_seconds
        self._decisions = _LineDigest(folder / "decisions.jsonl")
        self._saved_at: float | None = None
        self._saved_step = 0  # nothing to spare before there is a step

    def save_sometimes(self, accountant: Snapshotted, now_seconds: float) -> None:
        """Save when the last snapshot, or the start, is some time ago and steps came; call after a commit."""
        if self._saved_at is None:
            self._saved_at = now_seconds
        is_time = 0 < self._every_seconds <= now_seconds - self._saved_at
        if is_time and accountant.next_step != self._saved_step:
            self._saved_at = now_seconds
            self.save(accountant)

    def save(self, accountant: Snapshotted) -> None:
        """Put the state away; every step applied must have its decision in the folder."""
        self._saved_step = accountant.next_step
        state = accountant.snapshot()
        heading = self._heading(accountant.next_step, state)
        try:
            replace_file(self._folder / FILE, json.dumps(heading).encode() + b"\n" + state, SECRET_MODE)
        except DiskFullError as error:
            logger.warning("no snapshot is kept, a restart takes longer: %s", error)

    def restore(self, accountant: Snapshotted, limit_step: int) -> bool:
        """Bring the accountant as far as the snapshot goes, if it is sound and not beyond ``limit_step``.

        False when that failed half way: the accountant must not be used then, take a new one.
        """
        self._decisions = _LineDigest(self._decisions.path)
        path = self._folder / FILE
        if not path.exists():
            return True
        first, _, state = path.read_bytes().partition(b"\n")
        if not self._is_sound(first, state, limit_step):
            logger.warning("%s does not fit and is not used; the decisions are applied again", path)
            return True
        try:
            accountant.restore(state)
            self._saved_step = accountant.next_step
        except (TallyguardError, ValueError, KeyError) as error:
            logger.warning("%s is of another version and is not used: %s", path, error)
            return False
        return True

    def _is_sound(self, first: bytes, state: bytes, limit_step: int) -> bool:
        """Whether a file's heading says what it must."""
        try:
            heading = parse_json(first)
            step = heading["next_step"]
            return bool(step <= limit_step and heading == self._heading(step, state))
        except (ValueError, KeyError, TypeError):
            return False

    def _heading(self, step: int, state: bytes) -> dict[str, object]:
        """What a snapshot of the state after the steps before ``step`` must say of itself."""
        return {
            "next_step": step,
            "basis": self._basis,
            "decisions": self._decisions.of(step),
            "state": hashlib.sha256(state).hexdigest(),
        }


class _LineDigest:
    """SHA-256 of the first lines of a file that only grows: each line is read once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin()

    def of(self, lines: int) -> str:
        """Of so many lines, or of all there are."""
        if lines < self._lines:
            self._begin()
        with self.path.open("rb") as content:
            content.seek(self._bytes)
            for line in islice(content, lines - self._lines):
                self._digest.update(line)
                self._lines += 1
                self._bytes += len(line)
        return self._digest.hexdigest()

    def _begin(self) -> None:
        self._digest, self._lines, self._bytes = hashlib.sha256(), 0, 0
