"""The output folder: torn lines, locks, changed settings, and a crash at every single write."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from stream_app.analysis.run_lines import public_releases
from stream_app.embedded.journal import Journal
from stream_app.embedded.restored_accounts import FILE as SNAPSHOT
from stream_app.exceptions import OutputError, OutputLockedError, RunChangedError
from stream_app.setup.run_folder import durable
from stream_app.setup.run_folder.progress import CHANGES, WHOLE, log_lines, steps_out
from stream_app.setup.run_folder.record import Author
from stream_app.wire.messages import Reading, StepDecision, StepRelease
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
        journal.keep("decisions", StepDecision(step=step, decisions=()).line())
        journal.keep("releases", StepRelease(step=step, releases=()))
        journal.commit({"next_step": step + 1})


@pytest.mark.parametrize("has_commit", [True, False])
def test_a_torn_last_line_is_cut_and_complete_ones_stand(tmp_path: Path, has_commit: bool) -> None:
    """A release is a fact from its line's end on; a decision without a release is none.

    Where the commit is lost, the steps are gone through again, and give what they have given or are refused.
    """
    journal = Journal(tmp_path, {})
    published(journal, 2)
    journal.close()
    lines = {name: (tmp_path / name).read_bytes() for name in ("releases.jsonl", "decisions.jsonl")}
    with (tmp_path / "releases.jsonl").open("ab") as file:
        file.write(b'{"v":1,"type":"rel')
    with (tmp_path / "decisions.jsonl").open("ab") as file:
        file.write(StepDecision(step=2, decisions=()).line())
    if not has_commit:
        (tmp_path / "progress.json").unlink()
    again = Journal(tmp_path, {})
    assert again.last_commit.next_step == (2 if has_commit else 0)
    assert lines == {name: (tmp_path / name).read_bytes() for name in lines}
    if not has_commit:
        published(again, 2)
        assert lines == {name: (tmp_path / name).read_bytes() for name in lines}
    again.close()
    if not has_commit:
        (tmp_path / "progress.json").unlink()
        again = Journal(tmp_path, {})
        with pytest.raises(RunChangedError, match="must go on as it was published beyond the last commit"):
            again.keep("releases", StepRelease(step=7, releases=()))
        again.close()
    assert lines == {name: (tmp_path / name).read_bytes() for name in lines}


@pytest.mark.parametrize("harm", ["cut", "zeros"])
def test_what_the_logs_lack_is_read_and_completed_from_the_commit(tmp_path: Path, harm: str) -> None:
    """However much of its lines a kill or a loss of power kept out of them, and whoever reads meanwhile."""
    journal = Journal(tmp_path / "run", {})
    published(journal, 5)
    journal.close()
    whole = {name: (tmp_path / "run" / name).read_bytes() for name in ("decisions.jsonl", "releases.jsonl")}
    most = min(map(len, whole.values()))
    for lost in range(0, most, 9):
        for name, data in whole.items():
            (tmp_path / "run" / name).write_bytes(data[: len(data) - lost])
            if harm == "zeros":
                with (tmp_path / "run" / name).open("ab") as file:
                    file.write(b"\0" * lost)
            elif lost:
                assert b"".join(log_lines(tmp_path / "run" / name)) == data
        out = sum(1 for _ in public_releases(tmp_path / "run"))
        there = whole["releases.jsonl"][: len(whole["releases.jsonl"]) - lost]
        assert out == there.count(b"\n"), "nobody is given what may not be noted beside the key"
        assert steps_out(tmp_path / "run") <= out
        Journal(tmp_path / "run", {}).close()
        assert whole == {name: (tmp_path / "run" / name).read_bytes() for name in whole}


def test_few_bytes_of_risks_are_durable_with_the_commit_and_many_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a step of few people waits for one file; what a loss of power kept out of the other is completed."""
    synced: list[str] = []

    def count(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").resolve().name)

    journal, kept = Journal(tmp_path, {}), b""
    published(journal, 1)
    monkeypatch.setattr(durable.os, "fsync", count)
    for step, size in enumerate((5, 700, 40_000, 3, 2_000_000, 9), start=1):
        line = b"r" * size + b"\n"
        journal.keep("risks", line)
        journal.keep("decisions", StepDecision(step=step, decisions=()).line())
        journal.keep("releases", StepRelease(step=step, releases=()))
        synced.clear()
        journal.commit({"next_step": step + 1}, may_wait=True)
        assert synced == (["risks.jsonl", CHANGES] if size > 16_384 else [CHANGES])
        before, kept = kept, kept + line
        assert (tmp_path / "risks.jsonl").read_bytes() == kept
        for there in {0, len(line) // 2, len(line)} if size <= 16_384 else {len(line)}:
            other = tmp_path.with_name(f"{step} {there}")
            shutil.copytree(tmp_path, other)
            (other / "risks.jsonl").write_bytes(before + line[:there] + b"\0" * (len(line) - there))
            Journal(other, {}).close()
            assert (other / "risks.jsonl").read_bytes() == kept
    journal.close()


def test_lines_that_the_logs_have_for_good_leave_the_commit(tmp_path: Path) -> None:
    """They are held for some hundred steps, and not at the end; a log that lost such a line is refused."""
    journal, most = Journal(tmp_path, {}), 0
    for number in range(1, 400):
        journal.keep("decisions", StepDecision(step=number - 1, decisions=()).line())
        journal.keep("releases", StepRelease(step=number - 1, releases=()))
        journal.commit({"next_step": number}, may_wait=True)
        journal.commit({"next_step": number})
        most = max(most, (tmp_path / "progress.json").stat().st_size)
    assert most < 40_000
    assert b'"lines"' in b"".join((tmp_path / name).read_bytes() for name in (WHOLE, CHANGES))
    journal.commit({"next_step": 400}, whole=True)
    journal.close()
    assert b'"lines"' not in (tmp_path / WHOLE).read_bytes()
    assert not (tmp_path / CHANGES).read_bytes()
    (tmp_path / "releases.jsonl").write_bytes((tmp_path / "releases.jsonl").read_bytes()[:-1])
    with pytest.raises(OutputError, match=r"restore .*jsonl"):
        Journal(tmp_path, {})


def test_what_was_not_committed_is_cut_from_risks_and_dead_letters(tmp_path: Path) -> None:
    journal = Journal(tmp_path, {})
    journal.keep("risks", b"one\n")
    journal.commit({})
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
    journal.commit({"next_step": 3}, whole=True)  # else the commit itself holds the last lines
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


@pytest.mark.slow
def test_a_release_that_was_committed_stands_whatever_is_read_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One durable release per sensor and step: no other count changes it, also before it is in its log."""
    day = messages_of_a_day(7, 5)
    others = [each.model_copy(update={"count": 99}) if isinstance(each, Reading) else each for each in day]
    disk, steps = Disk(monkeypatch), set()
    run_on(tmp_path / "whole", [lines_of(day)], settings=LITTLE_WORK)
    for crash_at in range(10, disk.operations, 3):
        folder = tmp_path / str(crash_at)
        disk.operations, disk.crash_at = 0, crash_at
        with pytest.raises(Crash):
            run_on(folder, [lines_of(day)], settings=LITTLE_WORK)
        disk.crash_at = -1
        logs = {name: b"".join(log_lines(folder / name)) for name in ("releases.jsonl", "decisions.jsonl")}
        run_on(folder, [lines_of(others)], settings=LITTLE_WORK)
        for name, log in logs.items():
            assert (folder / name).read_bytes().startswith(log)
            assert (folder / name).read_bytes().count(b"\n") == 7
        steps.add(logs["releases.jsonl"].count(b"\n"))
    assert len(steps) > 3


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
