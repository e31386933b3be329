"""The released steps of an output folder together with what tiers added later received of them.

``continued-<tier>.jsonl`` (for the owner) holds such values, ``tiers.json`` how many lines of each stand. A
value stands before the tier's own file says it; a restart draws none again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from pydantic import ValidationError

from stream_app.exceptions import OutputError
from stream_app.setup.run_folder.durable import SECRET_MODE, AppendFile, replace_file
from stream_app.setup.run_folder.manifest import load_sealed, seal
from stream_app.steps import TierContinuation, with_continued
from stream_app.wire import ContinuedStep, StepRelease

logger = logging.getLogger(__name__)

_INDEX = "tiers.json"


class PastTiers:
    """Reads a folder's steps with all values that are out, and adds a tier's.

    ``read`` turns a line of ``releases.jsonl`` into a release; ``key_of`` gives the fingerprint of the noise
    key of a step.
    """

    def __init__(
        self,
        folder: Path,
        continuation: TierContinuation | None,
        read: Callable[[bytes], StepRelease],
        key_of: Callable[[int], str | None],
    ) -> None:
        self._folder = folder
        self._continuation = continuation
        self._read = read
        self._key_of = key_of
        index = folder / _INDEX
        self._lines: dict[str, int] = load_sealed(index) if index.exists() else {}

    def releases(self, start: int, stop: int) -> Iterator[StepRelease]:
        """The steps ``start <= step < stop``, each with every tier's value that is out."""
        with (self._folder / "releases.jsonl").open("rb") as log:
            continued = [_Continued(self._standing(tier)) for tier in self._lines]
            for line in islice(log, start, stop):
                release = self._read(line)
                found = [file.at(release.step) for file in continued]
                yield with_continued(release, [step for step in found if step is not None])

    def add(self, tier: str, start: int, stop: int) -> None:
        """Give a tier the values it lacks of the steps ``start <= step < stop``, durably.

        :class:`stream_app.exceptions.TierContinuationError` when a step's noise key is another one than the
        run's; nothing stands then that did not stand before.
        """
        if self._continuation is None or not self._lacks(tier, start, stop):
            return
        length, next_step = self._extent(tier)
        file = AppendFile(self._path(tier), SECRET_MODE)
        try:
            file.truncate(length)  # an interrupted attempt may have had other settings
            steps, values = self._append(file, self._continuation, tier, range(max(start, next_step), stop))
            file.sync()
        finally:
            file.close()
        if steps:
            self._lines[tier] = self._lines.get(tier, 0) + steps
            replace_file(self._folder / _INDEX, seal(self._lines), SECRET_MODE)
        logger.info("tier %s: %d earlier values continued from their chains", tier, values)

    def _append(
        self, file: AppendFile, continuation: TierContinuation, tier: str, wanted: range
    ) -> tuple[int, int]:
        """Draw and write; how many steps and values that were."""
        steps = values = 0
        for release in self.releases(wanted.start, wanted.stop):
            continued = continuation.continue_step(release, tier, self._key_of)
            if continued is not None:
                file.append(continued.line())
                steps += 1
                values += len(continued.values)
        return steps, values

    def _extent(self, tier: str) -> tuple[int, int]:
        """Bytes of the lines of a tier that stand, and the step after the last of them."""
        if tier not in self._lines:
            return 0, 0
        length, last = 0, b""
        for last in self._standing(tier):
            length += len(last)
        return length, _parsed(last).step + 1

    def _lacks(self, tier: str, start: int, stop: int) -> bool:
        """Whether a tiered reading has no value for the tier."""
        return any(
            entry.tiers is not None and tier not in entry.tiers
            for release in self.releases(start, stop)
            for entry in release.releases
        )

    def _standing(self, tier: str) -> Iterator[bytes]:
        """The lines of a tier that stand; :class:`OutputError` when some are gone."""
        wanted, path = self._lines[tier], self._path(tier)
        found = 0
        if path.exists():
            with path.open("rb") as lines:
                for line in islice(lines, wanted):
                    found += line.endswith(b"\n")
                    yield line
        if found < wanted:
            raise OutputError(
                f"{path} must hold the {wanted} lines that were written to it",
                found,
                "restore the file: its values were published and cannot be drawn again differently",
            )

    def _path(self, tier: str) -> Path:
        return self._folder / f"continued-{tier}.jsonl"


class _Continued:
    """Walks the values of one tier along with the log."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self._ahead: ContinuedStep | None = None

    def at(self, step: int) -> ContinuedStep | None:
        """The values of a step; asked for with rising steps."""
        while self._ahead is None or self._ahead.step < step:
            line = next(self._lines, None)
            if line is None:
                return None
            self._ahead = _parsed(line)
        return self._ahead if self._ahead.step == step else None


def _parsed(line: bytes) -> ContinuedStep:
    try:
        return ContinuedStep.model_validate_json(line)
    except ValidationError as error:
        raise OutputError(
            "each line of a continued-<tier>.jsonl must be as it was written",
            error.errors(include_url=False, include_input=False)[0]["msg"],
            "restore the file",
        ) from error
