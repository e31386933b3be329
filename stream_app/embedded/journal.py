"""The durable state of a run: what was decided and published, and where to continue.

In the output folder:

- ``decisions.jsonl``: what was decided and accounted for each closed step, the internal twin of the releases
- ``releases.jsonl``: the public messages. A complete line is final: it is never written again or changed
- ``releases-<tier>.jsonl``: with tiers, what each tier receives of them. ``releases.jsonl`` then holds all
  tiers and is for the owner only; a tier's file is made from it, also after a kill
- ``revised.jsonl``: late and corrected values of closed steps, final as the releases are; with tiers also
  ``revised-<tier>.jsonl``
- ``risks.jsonl``, ``rejected.jsonl``: valid up to the last commit; a restart writes the rest again
- ``quality.jsonl``: the same, of devices that seem broken, where devices are watched
- ``progress.json``, ``progress.jsonl``: a commit and what later commits changed: position in the input, open
  steps, length of each file, and the lines of decisions, releases and revised values that came with it
- ``continued-<tier>.jsonl``, ``tiers.json``: what a tier added later received of the steps before
- ``run.json``: what the run was started with (fingerprints only); ``lock``: held while a run writes
- ``record.jsonl``: which rule held from which step on, who set it and why, under which description; where
  runs ended. ``design-<number>.npy``: covariances of noise that the description names

Everything that follows from a batch of messages becomes durable with the position after it, or not at all, as
in one transaction on Kafka. First risks, dead letters and findings are on disk if they are long, and count as
far as the commit says; then the commit is, with all other lines. From here on its steps are released: the
lines are noted beside the noise key before anybody can read them, then written to their logs, and observers
are told. A start completes what is missing of that. So decisions, releases and position always agree, nothing
is gone through twice, and a kill at any moment leads to the same files, byte for byte.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from heapq import merge
from itertools import groupby, islice
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field

from stream_app.exceptions import OutputError, restoring
from stream_app.setup.run_folder.durable import (
    PUBLIC_MODE,
    SECRET_MODE,
    AheadLog,
    AppendFile,
    ChainedLog,
    FolderLock,
    LineCount,
    digests_of,
    load_sealed,
    make_folder,
    parsed_line,
    replace_file,
    seal,
    sync_folder,
    whole_lines,
)
from stream_app.setup.run_folder.key_record import KeyRecord, check_between_windows
from stream_app.setup.run_folder.manifest import ACCEPTABLE, Manifest
from stream_app.setup.run_folder.progress import (
    COMMITTED_ONLY,
    DECISIONS,
    MOST_CARRIED,
    QUALITY,
    REJECTED,
    RELEASES,
    REVISED,
    RISKS,
    ProgressLog,
    SavedStep,
    has_released,
    require_committed,
)
from stream_app.setup.run_folder.record import RECORD, Author, Entry, Record, check_head
from stream_app.steps import (
    Position,
    TierContinuation,
    first_free_step,
    public_release,
    release_for_tier,
    tier_file,
    with_continued,
)
from stream_app.wire import BaseMessage, ContinuedStep, StepDecision, StepRelease

# The released steps of an output folder together with what tiers added later received of them.
#
# ``continued-<tier>.jsonl`` (for the owner) holds such values, ``tiers.json`` how many lines of each are
# complete. A value is durable there before it is written to the tier's own file: a restart draws none again.

logger = logging.getLogger(__name__)

_INDEX = "tiers.json"
_NO_MORE: tuple[float, Iterator[ContinuedStep]] = (inf, iter(()))
_step_of = attrgetter("step")
REVISED_FILE = f"{REVISED}.jsonl"


class PastTiers:
    """Reads a folder's steps with all values that were published, and adds those of a new tier.

    ``key_of`` gives the fingerprint of the noise key of a step.
    """

    def __init__(
        self, folder: Path, continuation: TierContinuation | None, key_of: Callable[[int], str | None]
    ) -> None:
        self._folder = folder
        self._continuation = continuation
        self._key_of = key_of
        index = folder / _INDEX
        self._lines: dict[str, int] = load_sealed(index) if index.exists() else {}

    def releases(self, start: int, stop: int) -> Iterator[StepRelease]:
        """The steps ``start <= step < stop``, each with every tier's value that was published."""
        values = merge(*map(self._continued, self._lines), key=_step_of)
        ahead: Iterator[tuple[float, Iterator[ContinuedStep]]] = groupby(values, _step_of)
        step, found = next(ahead, _NO_MORE)
        for release in _parsed(StepRelease, self._folder / "releases.jsonl", start, stop):
            while step < release.step:
                step, found = next(ahead, _NO_MORE)
            yield with_continued(release, list(found) if step == release.step else [])

    def complete(self, tier: str, start: int, stop: int) -> Iterator[StepRelease]:
        """The same with the values that a tier lacked, which are durable before."""
        self._add(tier, start, stop)
        return self.releases(start, stop)

    def _add(self, tier: str, start: int, stop: int) -> None:
        """Give a tier the values it lacks of the steps ``start <= step < stop``, durably.

        :class:`stream_app.exceptions.TierContinuationError` when a step's noise key is not the run's; then
        nothing is added.
        """
        if self._continuation is None or not self._lacks(tier, start, stop):
            return
        length, next_step = self._extent(tier)
        steps = values = 0
        with closing(AppendFile(self._path(tier), SECRET_MODE)) as file:
            file.truncate(length)  # an interrupted attempt may have had other settings
            for release in self.releases(max(start, next_step), stop):
                continued = self._continuation.continue_step(release, tier, self._key_of)
                if continued is not None:
                    file.append(continued.line())
                    steps += 1
                    values += len(continued.values)
            file.sync()
        if steps:
            self._lines[tier] = self._lines.get(tier, 0) + steps
            replace_file(self._folder / _INDEX, seal(self._lines), SECRET_MODE)
        logger.info("tier %s: %d earlier values continued from their chains", tier, values)

    def _extent(self, tier: str) -> tuple[int, int]:
        """Bytes of the complete lines of a tier, and the step after the last of them."""
        if tier not in self._lines:
            return 0, 0
        length, last = 0, b""
        for last in self._standing(tier):
            length += len(last)
        return length, parsed_line(ContinuedStep, self._path(tier), last).step + 1

    def _lacks(self, tier: str, start: int, stop: int) -> bool:
        """Whether a tiered reading has no value for the tier."""
        return any(
            entry.tiers is not None and tier not in entry.tiers
            for release in self.releases(start, stop)
            for entry in release.releases
        )

    def _continued(self, tier: str) -> Iterator[ContinuedStep]:
        return (parsed_line(ContinuedStep, self._path(tier), line) for line in self._standing(tier))

    def _standing(self, tier: str) -> Iterator[bytes]:
        """The lines of a tier that the index counts; :class:`OutputError` when some are gone."""
        wanted, path = self._lines[tier], self._path(tier)
        found = 0
        for line in islice(whole_lines(path), wanted):
            found += 1
            yield line
        if found < wanted:
            raise OutputError(
                f"{path} must hold the {wanted} lines that were written to it",
                found,
                "restore the file: its values were published and cannot be drawn again differently",
            )

    def _path(self, tier: str) -> Path:
        return self._folder / f"continued-{tier}.jsonl"


_Message = TypeVar("_Message", StepDecision, StepRelease)


def _parsed(kind: type[_Message], path: Path, start: int, stop: int) -> Iterator[_Message]:
    """The messages in the lines ``start`` to ``stop`` (exclusive) of a log, a line a step."""
    for line in islice(whole_lines(path), start, stop):
        yield parsed_line(kind, path, line)


class PublishedLog(AheadLog):
    """A log of releases, and each tier's own file, which is made from it, also after a kill.

    With tiers the log holds all of them; without, it is public, and a release that has tiers is refused.
    """

    def __init__(self, folder: Path, name: str, tiers: Sequence[str]) -> None:
        super().__init__(folder / f"{name}.jsonl", SECRET_MODE if tiers else PUBLIC_MODE)
        self._has_tiers = bool(tiers)
        self._tiers: dict[str, AppendFile] = {}

    def open_tier(self, tier: str, lines: int, missing: Callable[[int, int], Iterable[StepRelease]]) -> None:
        """Give a tier's file a line for each of the log: the ``missing`` ones are asked for by number."""
        path = self.path.with_name(tier_file(tier, self.path.stem))
        file = self._tiers[tier] = AppendFile(path, SECRET_MODE)
        file.most_pending = self.most_pending  # with the log, and not before
        present = LineCount.of(path, lines)
        file.truncate(present.bytes)
        for release in missing(present.lines, lines):
            file.append(release_for_tier(release, tier).line())
        file.sync()

    def publish(self, release: StepRelease) -> None:
        """Take a release for the next commit."""
        before = self._pending_bytes
        self.append((release if self._has_tiers else public_release(release, ())).line())
        if self._pending_bytes > before:  # else an earlier run has published it
            for tier, file in self._tiers.items():
                file.append(release_for_tier(release, tier).line())

    def flush(self) -> None:
        """Write what was committed, for every tier."""
        super().flush()
        for file in self._tiers.values():
            file.flush()

    def sync(self) -> None:
        """Make it durable, for every tier."""
        super().sync()
        for file in self._tiers.values():
            file.sync()

    def close(self) -> None:
        """Close all files."""
        super().close()
        for file in self._tiers.values():
            file.close()


class Commit(Position):
    """A point to continue from; ``position`` is the input's own, with the ``marks`` of its lines.

    ``lengths`` are the bytes of each file that belong to the steps before ``next_step``, ``digests`` those of
    these bytes, and ``record`` names the last entry of the record: they show whether a line was changed or
    removed. Earlier versions wrote neither digests nor record.
    """

    position: Mapping[str, Any] = Field(default_factory=dict)
    lengths: Mapping[str, int] = Field(default_factory=dict)
    digests: Mapping[str, str] = Field(default_factory=dict)
    record: Mapping[str, Any] = Field(default_factory=dict)
    marks: Sequence[int] = ()


_WRITTEN = ("next_step", "position", "window", "lengths", "account", "decided", "digests", "record")


class Journal:
    """One output folder, locked, recovered to its last commit and open for appending.

    ``manifest`` is what must not change between runs on the folder; keys in ``replaceable`` may. ``tiers``
    names the tiers of recipients that get a file of their own; ``continuation`` draws the past values of a
    tier added later (None: it gets none). ``author`` and ``about`` go to the record with a new or changed
    manifest, once ``keep`` has made durable what these name. ``key_record`` notes every line before it is
    published. With ``watches_devices`` there is a file of those that seem broken.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Mapping[str, Any],
        replaceable: frozenset[str] = frozenset(),
        tiers: Sequence[str] = (),
        continuation: TierContinuation | None = None,
        key_record: KeyRecord | None = None,
        *,
        author: Author | None = None,
        about: Mapping[str, Any] | None = None,
        keep: Callable[[], None] = lambda: None,
        now_seconds: Callable[[], float] = time.time,
        watches_devices: bool = False,
    ) -> None:
        make_folder(folder)
        self.folder = folder
        self._tiers, self._key_record = tuple(tiers), key_record
        with ExitStack() as opened:  # which closes everything where the folder cannot be continued
            self._opened = opened
            opened.callback(FolderLock(folder).close)
            self._progress = ProgressLog(folder)
            opened.callback(self._progress.close)
            if key_record is not None:
                opened.callback(key_record.close)
            self.last_commit = Commit(**self._progress.commit_read)
            # the record is checked first: what run.json may say is compared with it
            self._record = Record(folder, author, about, now_seconds)
            check_head(self._record.entries, self.last_commit.record, RECORD)
            self._manifest = Manifest(
                folder, manifest, replaceable, record=self._record, has_released=has_released(folder)
            )
            taken_over = None if key_record is None else key_record.compare(folder)
            if self._manifest.begins_anew:  # what was read under other settings: nothing of it was released
                logger.warning(
                    "nothing was released to %s yet: the run starts over with these settings", folder
                )
                self._progress.forget()
                self.last_commit = Commit()
            if self._manifest.is_new:  # before any log is made: logs without run.json are refused as damaged
                keep()
                self._manifest.save(published=0)
            if self._manifest.has_changed:
                require_committed(folder, self.last_commit.next_step)
            if self._manifest.has_other_key:
                check_between_windows(manifest["release"]["covariance"], self.last_commit.next_step)
            self._past_tiers = PastTiers(
                folder, continuation, lambda step: self._manifest.noise_key(step, self._steps)
            )
            self._open_files(watches_devices=watches_devices)
            if key_record is not None:
                key_record.check_noise(manifest, is_accepted=replaceable >= ACCEPTABLE)
            self._manifest.check_declared(max(self._steps, first_free_step(self.last_commit.window)))
            # what changed is saved last: a start that is refused leaves run.json and the key's record as they
            # were
            keep()
            self._manifest.save(self._steps, taken_over)
            if key_record is not None:
                key_record.save()
            self._opened = opened.pop_all()

    @property
    def record(self) -> Sequence[Entry]:
        """What held from which step on, who said so and why."""
        return self._record.entries

    @property
    def position(self) -> Commit:
        """The last commit."""
        return self.last_commit

    def decisions(self, first: int, until: int) -> Iterator[StepDecision]:
        """What was decided on the steps ``first..until - 1``."""
        if first < until:  # else the whole file would be passed over
            yield from _parsed(StepDecision, self._files[DECISIONS].path, first, until)

    def wrong(self, found: str) -> OutputError:
        """See :meth:`stream_app.steps.Log.wrong`."""
        steps = self.last_commit.next_step
        return OutputError(
            f"progress.json must hold the privacy account of the {steps} steps in decisions.jsonl",
            found,
            restoring("decisions.jsonl and progress.json"),
        )

    def keep(self, log: str, written: BaseMessage | bytes) -> None:
        """Keep a message, or whole lines, for the next commit; tiers get their part of what is published."""
        if log not in self._files:
            self._open_revised()
            sync_folder(self.folder)
        file = self._files[log]
        if isinstance(file, PublishedLog) and isinstance(written, StepRelease):
            file.publish(written)
        else:
            file.append(written if isinstance(written, bytes) else written.line())

    def commit(
        self,
        reached: Mapping[str, Any],
        changed: Mapping[int, SavedStep | None] | None = None,
        *,
        whole: bool = False,
        may_wait: bool = False,
    ) -> None:
        """Make durable everything handled so far, all or nothing; a restart continues here.

        ``reached`` are the fields of the commit that changed, of which ``window`` has all but the open steps:
        ``changed`` are those that did, None for a forgotten one. ``whole`` leaves one document, as a run does
        at its end; with ``may_wait`` somebody waits for what is published, and not for tidying up.
        """
        note = None
        for name, file in self._files.items():
            if name in COMMITTED_ONLY:
                committed = self.last_commit.lengths.get(name, 0)
                if file.length != committed or file.end - committed > MOST_CARRIED:
                    file.sync()
            elif name != DECISIONS and self._key_record is not None and file.pending:
                self._key_record.note(name, file.pending.splitlines(keepends=True))
                note = self._key_record.save
        files = {name: file for name, file in self._files.items() if name != REVISED or file.end}
        lengths = {name: file.end for name, file in files.items()}
        digests = {name: file.digest for name, file in files.items()}
        found = {**reached, "lengths": lengths, "digests": digests, "record": self._record.head}
        # copied, as making one anew takes long
        self.last_commit = commit = self.last_commit.model_copy(update=found)
        said = {name: getattr(commit, name) for name in _WRITTEN}
        if commit.devices:
            said["devices"] = commit.devices
        logs = tuple(self._files.values())
        self._progress.write(said, changed or {}, commit.marks, logs, note, whole=whole, may_wait=may_wait)

    def end(self, outcome: str) -> None:
        """The run came to an end by itself: everything is committed, and the record says so."""
        commit = self.last_commit
        logs = {name: (length, commit.digests[name]) for name, length in commit.lengths.items()}
        private = [REJECTED, *([RELEASES, REVISED] if self._tiers else [])]
        self._record.end(commit.next_step, outcome, logs, private)
        self.commit({}, whole=True)

    def close(self) -> None:
        """Close the files and free the folder; what was not committed will be done again."""
        self._opened.close()

    def bytes_written(self) -> dict[str, int]:
        """Durable bytes of each file that others may know the length of.

        That of dead letters and of suspected devices depends on counts.
        """
        secret = {REJECTED, QUALITY, REVISED}
        return {name: file.length for name, file in self._files.items() if name not in secret}

    def _open_files(self, *, watches_devices: bool) -> None:
        """Open all files, complete what the commit holds of them, and cut what is in no commit.

        Steps that an earlier version published after its last commit stay, and are gone through again; a step
        that has a decision and no whole release is repeated.
        """
        own = [RISKS, REJECTED]
        if watches_devices or (self.folder / f"{QUALITY}.jsonl").exists():
            own.append(QUALITY)
        logs = [ChainedLog(self.folder / f"{name}.jsonl", SECRET_MODE) for name in own]
        releases = PublishedLog(self.folder, RELEASES, self._tiers)
        decisions = AheadLog(self.folder / f"{DECISIONS}.jsonl", SECRET_MODE)
        self._files: dict[str, ChainedLog] = {}
        for log in (decisions, releases, *logs):  # decisions first: no release is written without one
            self._files[log.path.stem] = log
            self._opened.callback(log.close)
        self._steps = self._recover(releases)
        decided = self._recover(decisions, self._steps)
        for log in logs:
            self._recover(log)
        if decided < self._steps or self._steps < self.last_commit.next_step:
            raise OutputError(
                f"{self.folder} must hold a decision and a release for each step before "
                f"{max(self._steps, self.last_commit.next_step)}",
                f"{decided} decisions and {self._steps} releases",
                restoring("decisions.jsonl, releases.jsonl and progress.json"),
            )
        for tier in self._tiers:
            releases.open_tier(tier, self._steps, partial(self._past_tiers.complete, tier))
        if (self.folder / REVISED_FILE).exists() or self.last_commit.lengths.get(REVISED):
            self._open_revised()
        sync_folder(self.folder)

    def _open_revised(self) -> None:
        """Open the file of late and corrected values, which is made with the first of them."""
        log = self._files[REVISED] = PublishedLog(self.folder, REVISED, self._tiers)
        self._opened.callback(log.close)
        lines = self._recover(log)
        for tier in self._tiers:
            log.open_tier(tier, lines, partial(_parsed, StepRelease, log.path))

    def _recover(self, log: ChainedLog, most: int | None = None) -> int:
        """Bring a log to the last commit, cut behind so many lines at ``most``; how many lines that leaves.

        :class:`OutputError` where it does not hold what was committed. Risks and dead letters may be long,
        and are as long as the commit says: their digest is taken from it.
        """
        name, commit, lines = log.path.stem, self.last_commit, 0
        known, committed = commit.digests.get(name), commit.lengths.get(name, 0)
        if not isinstance(log, AheadLog):
            log.cut(committed)
        log.complete(committed, self._progress.held.get(name, "").encode())
        if isinstance(log, AheadLog):
            lines, length = LineCount.of(log.path, most)
            log.truncate(length)
        else:
            log.truncate(committed)
        digest = known
        if known is None or name not in COMMITTED_ONLY:
            digest = digests_of(whole_lines(log.path), (committed,))[committed]
        if digest is None or known not in (None, digest):
            raise OutputError(
                f"each line of {log.path} must be as it was written",
                "another content than was committed",
                restoring(log.path.name),
            )
        log.go_on(committed, digest)
        return lines
