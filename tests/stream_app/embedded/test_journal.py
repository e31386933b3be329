"""The output folder: torn lines, locks, changed settings, and a crash at every single write."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from stream_app.embedded.assembly import FILE as SNAPSHOT
from stream_app.embedded.journal import Commit, Journal
from stream_app.exceptions import OutputError, OutputLockedError, RunChangedError
from stream_app.setup.run_folder import durable
from stream_app.setup.run_folder.record import Author
from stream_app.wire.messages import StepDecision, StepRelease
from tests.stream_app.engine_support import (
    LITTLE_WORK,
    TickingClock,
    lines_of,
    messages_of_a_day,
    outputs_of,
    run_on,
)


def published(journal: Journal, steps: int) -> None:
    """Publish and commit some empty steps."""
    for step in range(steps):
        journal.append(StepDecision(step=step, decisions=()), StepRelease(step=step, releases=()))
        journal.publish()


def test_a_torn_last_line_is_cut_and_complete_ones_stand(tmp_path: Path) -> None:
    """A release is a fact from its line's end on; a decision without a release is none."""
    journal = Journal(tmp_path, {})
    published(journal, 2)
    journal.close()
    with (tmp_path / "releases.jsonl").open("ab") as file:
        file.write(b'{"v":1,"type":"rel')
    with (tmp_path / "decisions.jsonl").open("ab") as file:
        file.write(StepDecision(step=2, decisions=()).line())
    again = Journal(tmp_path, {})
    assert [release.step for _, release in again.published_since()] == [0, 1]
    again.close()
    for name in ("releases.jsonl", "decisions.jsonl"):
        assert len((tmp_path / name).read_bytes().splitlines()) == 2


def test_what_was_not_committed_is_cut_from_risks_and_dead_letters(tmp_path: Path) -> None:
    journal = Journal(tmp_path, {})
    journal.keep("risks", b"one\n")
    journal.commit(Commit())
    journal.keep("risks", b"two\n")
    journal.keep("rejected", b"three\n")
    for file in journal._files.values():
        file.sync()
    journal.close()
    Journal(tmp_path, {}).close()
    assert (tmp_path / "risks.jsonl").read_bytes() == b"one\n"
    assert (tmp_path / "rejected.jsonl").read_bytes() == b""


def test_two_runs_cannot_write_to_one_folder(tmp_path: Path) -> None:
    """The second is told the process id of the first; afterwards the folder is free again."""
    journal = Journal(tmp_path, {})
    with pytest.raises(OutputLockedError, match=f"process id {os.getpid()}"):
        Journal(tmp_path, {})
    journal.close()
    Journal(tmp_path, {}).close()


def test_a_file_system_without_locks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some network shares have none; the folder's lock is given back."""

    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    before = len(list(Path("/proc/self/fd").iterdir()))
    with monkeypatch.context() as patched, pytest.raises(OutputError, match="file system with locks"):
        patched.setattr(durable.fcntl, "flock", none)
        Journal(tmp_path, {})
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_changed_setting_is_refused_by_name_unless_it_may_change(tmp_path: Path) -> None:
    journal = Journal(tmp_path, {"horizon": 10, "release": "raw"})
    published(journal, 1)
    journal.close()
    with pytest.raises(RunChangedError, match=r"horizon was 10, is 12; put back what it was; with"):
        Journal(tmp_path, {"horizon": 12, "release": "raw"})
    with pytest.raises(RunChangedError, match=r"or accept it .* with --accept-changes"):
        Journal(tmp_path, {"horizon": 10, "release": "gaussian"})
    accepted = frozenset({"release"})
    with pytest.raises(RunChangedError, match="must have a reason"):
        Journal(tmp_path, {"horizon": 10, "release": "gaussian"}, accepted)
    why = Author.given("ada", "more noise")
    Journal(tmp_path, {"horizon": 10, "release": "gaussian"}, accepted, author=why).close()
    Journal(tmp_path, {"horizon": 10, "release": "gaussian"}).close()


@pytest.mark.parametrize("name", ["releases.jsonl", "decisions.jsonl", "risks.jsonl"])
def test_a_folder_that_lost_what_was_committed_is_refused(tmp_path: Path, name: str) -> None:
    journal = Journal(tmp_path, {})
    published(journal, 3)
    journal.keep("risks", b"one\n")
    journal.commit(Commit(3))
    journal.close()
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(OutputError, match=r"restore .*jsonl.* from a backup; a new deployment would forget"):
        Journal(tmp_path, {})


def test_a_folder_with_releases_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "releases.jsonl").write_text("hello\n")
    with pytest.raises(OutputError, match=r"releases\.jsonl without run\.json"):
        Journal(tmp_path, {})
    assert (tmp_path / "releases.jsonl").read_text() == "hello\n"


def test_files_that_hold_counts_are_for_their_owner_only(tmp_path: Path) -> None:
    run_on(tmp_path / "out", [lines_of(messages_of_a_day(5, 1, faults=True))])
    for name in ("progress.json", "rejected.jsonl", "risks.jsonl"):
        assert (tmp_path / "out" / name).stat().st_mode & 0o077 == 0


class Crash(BaseException):
    """The machine is switched off."""


class Disk:
    """Counts the operations that change the disk and stops the process at one of them, half done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.operations = 0
        self.crash_at = -1
        self._write = os.write
        self._replace = Path.replace
        monkeypatch.setattr(durable.os, "write", self.write)
        monkeypatch.setattr(
            Path,
            "replace",
            lambda draft, target: self.replace(draft, target),  # noqa: PLW0108 - not a method of Path
        )
        monkeypatch.setattr(durable.os, "fsync", lambda descriptor: self._count())

    def write(self, descriptor: int, data: bytes) -> int:
        if self.operations + 1 == self.crash_at:
            self._write(descriptor, bytes(data)[: len(data) // 2])
        self._count()
        return self._write(descriptor, data)

    def replace(self, draft: Path, target: Path) -> Path:
        self._count()
        return self._replace(draft, target)

    def _count(self) -> None:
        self.operations += 1
        if self.operations == self.crash_at:
            raise Crash

    def mended(
        self, crashes: Iterable[int], run: Callable[[Path], object], beside: Path, begun: Path | None = None
    ) -> Iterator[Path]:
        """For each of these operations a folder whose run was stopped there, and then run to its end.

        It goes on from a copy of what had ``begun``.
        """
        for crash_at in crashes:
            folder = beside / f"crash at operation {crash_at}"
            if begun is not None:
                shutil.copytree(begun, folder)
            self.operations, self.crash_at = 0, crash_at
            with pytest.raises(Crash):
                run(folder)
            self.crash_at = -1
            run(folder)
            yield folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["a pipe", "an archive"])
def test_a_crash_at_any_write_leads_to_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Every operation on the disk in turn is the last one of a run; a second run finishes the work.

    Of an archive, steps are made durable together: a crash leaves some of them.
    """
    day = lines_of(messages_of_a_day(7, 5, faults=True)) + b"no message\n"
    archive = tmp_path / "day.jsonl"
    archive.write_bytes(day)

    def run(folder: Path) -> None:
        if kind == "a pipe":
            run_on(folder, [day], settings=LITTLE_WORK)
        else:  # commits, which end a group, are rarer: after three steps or so
            run_on(folder, [day], settings=LITTLE_WORK, input=archive, clock=TickingClock(0.01))

    disk = Disk(monkeypatch)
    run(tmp_path / "whole")
    expected, operations = outputs_of(tmp_path / "whole"), disk.operations
    assert operations > 50
    for folder in disk.mended(range(1, operations), run, tmp_path):
        assert outputs_of(folder) == expected, folder
    assert len(json.loads((tmp_path / "whole" / "progress.json").read_text())["window"]) == 4


def test_a_run_to_which_nothing_comes_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it waits, and however much may still be corrected of what it has."""
    disk, day = Disk(monkeypatch), lines_of(messages_of_a_day(7, 5, faults=True))
    changed = {"late": 5, "snapshot_seconds": 2.0}

    def operations(folder: str, chunks: list[bytes]) -> int:
        disk.operations = 0
        run_on(tmp_path / folder, chunks, settings=changed, keep_open=True)
        return disk.operations

    wait = [b""] * 200
    assert operations("short", [day, *wait]) == operations("long", [day, *wait * 4]) > 20
    assert (tmp_path / "long" / SNAPSHOT).exists()
    first = operations("long", [day, *wait])
    assert first == operations("long", [day, *wait * 4])
