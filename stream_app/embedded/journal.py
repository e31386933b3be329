"""The durable memory of a run: what was decided and published, and where to continue.

In the output folder:

- ``decisions.jsonl``: what was decided and accounted for each closed step, the internal twin of the releases
- ``releases.jsonl``: the public messages. A complete line is a fact, never written again nor differently
- ``releases-<tier>.jsonl``: with tiers, what each tier receives of them. ``releases.jsonl`` then holds all
  tiers and is for the owner only; a tier's file is made from it, after a kill too
- ``risks.jsonl``, ``rejected.jsonl``: as far as the last commit; a restart writes the rest again
- ``progress.json``: the last commit: position in the input, open steps, length of each file
- ``revised.jsonl``: late and corrected values of closed steps, facts as the releases are
- ``continued-<tier>.jsonl``, ``tiers.json``: what a tier added later received of the steps before
- ``run.json``: what the run was started with (fingerprints only); ``lock``: held while a run writes

A step is durable once its line in ``releases.jsonl`` is. A restart takes the last commit, applies the
decisions before it to a fresh accountant, and walks the input from there; steps published after the commit
keep their stored decision and release. So a kill at any moment leads to the same files, byte for byte.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stream_app.embedded.past_tiers import PastTiers
from stream_app.embedded.revised_log import RevisedLog
from stream_app.exceptions import OutputError, restoring
from stream_app.setup.run_folder.durable import (
    SECRET_MODE,
    AppendFile,
    FolderLock,
    make_folder,
    replace_file,
    sync_folder,
)
from stream_app.setup.run_folder.key_epochs import check_between_windows, whole_steps
from stream_app.setup.run_folder.key_record import RELEASES, REVISED, KeyRecord
from stream_app.setup.run_folder.manifest import ACCEPTABLE, Manifest, load_sealed, seal
from stream_app.steps import TierContinuation, public_release, release_for_tier, tier_file
from stream_app.wire import StepDecision, StepRelease

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Commit:
    """A point to continue from.

    ``position`` is the input's own; ``window`` the open steps (contains counts: the file is for the owner
    only); ``lengths`` the bytes of each file that belong to the steps before ``next_step``. ``account`` is
    the privacy spent by these steps, ``decided`` the fingerprint of the last of them; earlier versions wrote
    neither.
    """

    next_step: int = 0
    position: Mapping[str, Any] = field(default_factory=dict)
    window: Mapping[str, Any] = field(default_factory=dict)
    lengths: Mapping[str, int] = field(default_factory=dict)
    account: Mapping[str, Any] = field(default_factory=dict)
    decided: str | None = None


@dataclass(frozen=True)
class PublishedStep:
    """A step as the journal holds it."""

    decision: StepDecision
    release: StepRelease


class Journal:
    """One output folder, locked, recovered to its last commit and open for appending.

    ``manifest`` is what must not change between runs on the folder; keys in ``replaceable`` may. ``tiers``
    names the tiers of recipients that get a file of their own; ``continuation`` draws what a tier added later
    receives of the past; without it, nothing. ``key_record`` notes what is published, before it is.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Mapping[str, Any],
        replaceable: frozenset[str] = frozenset(),
        tiers: Sequence[str] = (),
        continuation: TierContinuation | None = None,
        key_record: KeyRecord | None = None,
    ) -> None:
        make_folder(folder)
        self.folder = folder
        self._tiers = tuple(tiers)
        self._lock = FolderLock(folder)
        self._files: dict[str, AppendFile] = {}
        self._tier_files: dict[str, AppendFile] = {}
        self._revised: RevisedLog | None = None
        self._key_record = key_record
        try:
            self.last_commit = self._read_commit()
            self._manifest = Manifest(folder, manifest, replaceable, has_released=self._has_released())
            taken_over = None if key_record is None else key_record.hold_to(folder)
            if self._manifest.begins_anew:
                self._begin_anew()
            if self._manifest.is_new:
                self._manifest.save(published=0)
            if self._manifest.has_other_key:
                check_between_windows(manifest["release"]["covariance"], whole_steps(folder))
            self._past_tiers = PastTiers(folder, continuation, self._release, self._noise_key_of)
            self._open_files()
            self._revised = RevisedLog(folder, self.last_commit.lengths.get("revised", 0))
            if key_record is not None:
                key_record.check_noise(manifest, is_accepted=replaceable >= ACCEPTABLE)
            self._manifest.save(self._published, taken_over)
            if key_record is not None:
                key_record.save()
        except BaseException:
            self.close()
            raise

    def accounted(self, first: int = 0) -> Iterator[StepDecision]:
        """Decisions of the steps from ``first`` to the last commit, to rebuild the accountant with."""
        with (self.folder / "decisions.jsonl").open("rb") as lines:
            yield from map(self._decision, islice(lines, first, self.last_commit.next_step))

    def published_since(self) -> tuple[PublishedStep, ...]:
        """Steps that were published after the last commit: what they say stands."""
        skip, end = self.last_commit.next_step, self._published
        with (self.folder / "decisions.jsonl").open("rb") as decisions:
            decided = [self._decision(line) for line in islice(decisions, skip, end)]
        with (self.folder / "releases.jsonl").open("rb") as releases:
            released = [self._release(line) for line in islice(releases, skip, end)]
        return tuple(map(PublishedStep, decided, released))

    def publish(self, decision: StepDecision, release: StepRelease) -> None:
        """Make a step durable: the decision first, so that no release is without one.

        Without tiers ``releases.jsonl`` is for everybody, and a release that has some is refused.
        """
        line = release.line() if self._tiers else public_release(release, ()).line()
        self._decisions.append(decision.line())
        self._decisions.sync()
        self._note(RELEASES, line)
        self._releases.append(line)
        self._releases.sync()
        self._append_tiers(release)

    def publish_revised(self, release: StepRelease) -> None:
        """Make late or corrected values durable, each once."""
        assert self._revised is not None
        self._revised.publish(release, lambda line: self._note(REVISED, line))

    def append_risks(self, lines: bytes) -> None:
        """Keep risk messages for the next commit."""
        self._risks.append(lines)

    def append_rejected(self, line: bytes) -> None:
        """Keep a dead letter for the next commit."""
        self._rejected.append(line)

    def commit(self, reached: Commit) -> None:
        """Everything handled so far is written; a restart continues here, with the files as they are now."""
        for file in self._files.values():
            file.sync()
        lengths = {name: file.length for name, file in self._files.items()}
        if self._revised is not None and self._revised.length:
            lengths["revised"] = self._revised.length
        self.last_commit = replace(reached, lengths=lengths)
        replace_file(self.folder / "progress.json", seal(vars(self.last_commit)), SECRET_MODE)

    def close(self) -> None:
        """Close the files and free the folder; what was not committed will be done again."""
        for file in (*self._files.values(), *self._tier_files.values()):
            file.close()
        if self._revised is not None:
            self._revised.close()
        if self._key_record is not None:
            self._key_record.close()
        self._lock.release()

    def bytes_written(self) -> dict[str, int]:
        """Durable bytes of each file that others may know the length of: dead letters depend on counts."""
        return {name: file.length for name, file in self._files.items() if name != "rejected"}

    def _read_commit(self) -> Commit:
        """The last commit; a fresh one for a new folder."""
        path = self.folder / "progress.json"
        return Commit(**load_sealed(path)) if path.exists() else Commit()

    def _has_released(self) -> bool:
        """Whether a step, or a part of one, was decided or released; a lost file counts as if."""
        logs = (self.folder / "decisions.jsonl", *self.folder.glob("releases*.jsonl"))
        return self.last_commit.next_step > 0 or any(log.exists() and log.stat().st_size for log in logs)

    def _begin_anew(self) -> None:
        """Forget what was read under other settings: nothing of it was released."""
        logger.warning("nothing was released to %s yet: the run starts over with these settings", self.folder)
        (self.folder / "progress.json").unlink(missing_ok=True)
        sync_folder(self.folder)
        self.last_commit = Commit()

    def _open_files(self) -> None:
        """Open all files and cut what an interrupted run left half written; what stays is durable then.

        A killed run may have written without syncing: nothing is built on that before it is on disk.
        """
        self._decisions = AppendFile(self.folder / "decisions.jsonl")
        self._releases = AppendFile(self.folder / "releases.jsonl")
        if self._tiers:
            self._releases.path.chmod(SECRET_MODE)
        self._risks = AppendFile(self.folder / "risks.jsonl", SECRET_MODE)
        self._rejected = AppendFile(self.folder / "rejected.jsonl", SECRET_MODE)
        self._files = {file.path.stem: file for file in self._each_file()}
        lengths = self.last_commit.lengths
        for file in (self._risks, self._rejected):
            file.truncate(lengths.get(file.path.stem, 0))
        releases = _LineCount.of(self._releases.path)
        decisions = _LineCount.of(self._decisions.path, releases.lines)
        self._published = releases.lines
        if decisions.lines < releases.lines or releases.lines < self.last_commit.next_step:
            raise OutputError(
                f"{self.folder} must hold a decision and a release for each step before "
                f"{max(releases.lines, self.last_commit.next_step)}",
                f"{decisions.lines} decisions and {releases.lines} releases",
                restoring("decisions.jsonl, releases.jsonl and progress.json"),
            )
        self._decisions.truncate(decisions.bytes)
        self._releases.truncate(releases.bytes)
        self._tier_files = {tier: self._open_tier(tier) for tier in self._tiers}
        sync_folder(self.folder)

    def _open_tier(self, tier: str) -> AppendFile:
        """A tier's file with a line for every release there is; what is missing is made from the log."""
        file = AppendFile(self.folder / tier_file(tier), SECRET_MODE)
        try:
            present = _LineCount.of(file.path, self._published)
            file.truncate(present.bytes)
            self._past_tiers.add(tier, present.lines, self._published)
            for release in self._past_tiers.releases(present.lines, self._published):
                file.append(release_for_tier(release, tier).line())
            file.sync()
        except BaseException:
            file.close()
            raise
        return file

    def _noise_key_of(self, step: int) -> str | None:
        """Fingerprint of the key that a step's noise was drawn with."""
        return self._manifest.noise_key(step, self._published)

    def _note(self, log: str, line: bytes) -> None:
        """Before a line leaves, whoever holds the noise key knows that it does."""
        if self._key_record is not None:
            self._key_record.note(log, line)

    def _append_tiers(self, release: StepRelease) -> None:
        """Each tier's own view of a release that is durable."""
        for tier, file in self._tier_files.items():
            file.append(release_for_tier(release, tier).line())
            file.sync()

    def _each_file(self) -> tuple[AppendFile, ...]:
        """The four appended files."""
        return self._decisions, self._releases, self._risks, self._rejected

    def _decision(self, line: bytes) -> StepDecision:
        try:
            return StepDecision.model_validate_json(line)
        except ValidationError as error:
            raise self._damaged("decisions.jsonl", error) from error

    def _release(self, line: bytes) -> StepRelease:
        try:
            return StepRelease.model_validate_json(line)
        except ValidationError as error:
            raise self._damaged("releases.jsonl", error) from error

    def _damaged(self, name: str, error: ValidationError) -> OutputError:
        """What to say of a complete line that cannot be read."""
        return OutputError(
            f"each line of {self.folder / name} must be as it was written",
            error.errors(include_url=False, include_input=False)[0]["msg"],
            restoring(name),
        )


@dataclass(frozen=True)
class _LineCount:
    """Complete lines of a file and the bytes they take; a torn last line is not one."""

    lines: int
    bytes: int

    @classmethod
    def of(cls, path: Path, at_most: int | None = None) -> _LineCount:
        lines = length = 0
        with path.open("rb") as content:
            for line in content:
                if not line.endswith(b"\n") or lines == at_most:
                    break
                lines += 1
                length += len(line)
        return cls(lines, length)
