"""After a loss of power, or a full disk, a run goes on as if nothing had happened; what was said stands."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from models.keys import NoiseKey
from stream_app.embedded.restored_accounts import FILE as SNAPSHOT
from stream_app.exceptions import DiskFullError, OutputLockedError
from stream_app.setup.run_folder import durable
from stream_app.setup.run_folder.durable import AppendFile, make_folder, replace_file
from stream_app.setup.run_folder.progress import log_lines
from stream_app.watching.events import Observer, StepClosed
from tests import volume
from tests.copies import Copy
from tests.stream_app.engine_support import (
    LITTLE_WORK,
    TickingClock,
    everything_in,
    lines_of,
    messages_of_a_day,
    outputs_of,
    run_on,
)
from tests.stream_app.setup.power import ForgetfulDisk, Left, PowerLoss, restore
from tests.stream_app.steps.test_tiers import TIERED

DAY = lines_of(messages_of_a_day(7, 5, faults=True)) + b"no message\n"
OUTPUT = Path("new", "out")
SETTINGS: dict[str, dict[str, object]] = {"plain": LITTLE_WORK, "tiers": {**LITTLE_WORK, **TIERED}}


def run_a_day(folder: Path, kind: str, listener: Observer | None = None) -> None:
    """With tiers as from a file, an archive, whose steps are made durable together; else as from a pipe."""
    more = {"input": Path(__file__), "clock": TickingClock(0.01)} if kind == "tiers" else {}
    run_on(folder, [DAY], settings=SETTINGS[kind], observer=listener, **more)


class Listener(Observer):
    """Remembers the last step that it was told is published."""

    may_lag = True

    def __init__(self) -> None:
        self.heard = -1

    def closed(self, event: StepClosed) -> None:
        self.heard = max(self.heard, event.step)


class Loss(NamedTuple):
    """What a loss of power at one moment leaves, and the last step that was heard of by then."""

    left: Left
    heard: int


class Rehearsal:
    """A day's run in a folder on a forgetful disk, started as often as one likes."""

    def __init__(self, base: Path, disk: ForgetfulDisk, kind: str) -> None:
        self.base, self.disk, self.kind = base, disk, kind
        self.listener = Listener()

    @property
    def folder(self) -> Path:
        return self.base / OUTPUT

    def run(self, stop_at: int = -1) -> bool:
        """Run until the end or the operation; whether the end was reached."""
        self.disk.operations, self.disk.stop_at = 0, stop_at
        try:
            run_a_day(self.folder, self.kind, self.listener)
        except PowerLoss:
            return False
        finally:
            self.disk.stop_at = -1
        return True

    def losses(self, moments: Iterable[int], *, luck: bool = False) -> dict[int, Loss]:
        """One run, and what a loss of power before each of these operations of it would leave.

        A run that ends before the last of them has what a loss after its end leaves under number 0.
        """
        wanted, found = set(moments), {}

        def look() -> None:
            if (now := self.disk.operations) in wanted:
                found[now] = Loss(self.disk.left(Random(now) if luck else None), self.listener.heard)

        self.disk.before_operation = look
        if self.run(max(wanted)):
            found[0] = Loss(self.disk.left(), self.listener.heard)
        return found


class Restarts:
    """Looks at what losses of power left, and at what a run makes of it: of the same files once."""

    def __init__(self, base: Path, kind: str, expected: dict[str, bytes]) -> None:
        self.base, self.kind, self.expected = base, kind, expected
        self._seen: dict[frozenset[tuple[Path, bytes | None]], bytes] = {}  # with the releases that are left

    def check(self, loss: Loss) -> None:
        """All that was heard is in the log or in the commit, and another run ends with the same files."""
        state = frozenset(loss.left.items())
        if state not in self._seen:
            machine = self.base / f"machine-{len(self._seen)}"
            machine.mkdir()
            restore(machine, loss.left)
            self._seen[state] = b"".join(log_lines(machine / OUTPUT / "releases.jsonl"))
            run_a_day(machine / OUTPUT, self.kind)
            assert everything_in(machine / OUTPUT) == self.expected
        assert self._seen[state].count(b"\n") > loss.heard
        assert self.expected["releases.jsonl"].startswith(self._seen[state])


@contextmanager
def rehearsal(base: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> Iterator[Rehearsal]:
    """A new folder whose disk forgets while the block runs."""
    base.mkdir()
    with monkeypatch.context() as patch:
        yield Rehearsal(base, ForgetfulDisk(base, patch), kind)


def rehearsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> tuple[dict[str, bytes], int]:
    """What an undisturbed run writes, and how many operations on the disk that takes."""
    with rehearsal(tmp_path / "whole", monkeypatch, kind) as whole:
        assert whole.run()
        return everything_in(whole.folder), whole.disk.operations


@pytest.mark.slow
@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("luck", [False, True])
def test_a_loss_of_power_at_any_operation_leads_to_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, luck: bool
) -> None:
    """What was synced is left, or by luck more of some files than of others."""
    expected, operations = rehearsed(tmp_path, monkeypatch, kind)
    assert operations > 50
    with rehearsal(tmp_path / "lost", monkeypatch, kind) as trial:
        losses = trial.losses(range(1, operations + 1), luck=luck)
    assert len(losses) == operations
    restarts = Restarts(tmp_path, kind, expected)
    for loss in losses.values():
        restarts.check(loss)


def killed_then_dark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, pairs: list[tuple[int, int]]
) -> int:
    """Kill a run at one operation, lose power at one of the next run's; how often both happened."""
    expected, _ = rehearsed(tmp_path, monkeypatch, kind)
    restarts, both = Restarts(tmp_path, kind, expected), 0
    for killed_at in sorted({first for first, _ in pairs}):
        moments = [dark_at for first, dark_at in pairs if first == killed_at]
        with rehearsal(tmp_path / f"killed-{killed_at}", monkeypatch, kind) as trial:
            trial.run(killed_at)
            losses = trial.losses(moments)
        both += sum(dark_at in losses for dark_at in moments)
        for loss in losses.values():
            restarts.check(loss)
    return both


@pytest.mark.slow
@pytest.mark.parametrize("kind", SETTINGS)
def test_a_loss_of_power_after_a_kill_loses_nothing_that_the_restart_built_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The killed run may have written without syncing; the next one must not take that as durable."""
    random = Random(11)
    pairs = [(random.randint(10, 90), random.randint(1, 60)) for _ in range(30)]
    assert killed_then_dark(tmp_path, monkeypatch, kind, pairs) > 20


@pytest.mark.thorough
@pytest.mark.slow
def test_a_loss_of_power_at_many_operations_after_a_kill_at_many_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, operations = rehearsed(tmp_path, monkeypatch, "plain")
    every_fourth = range(1, operations, 4)
    kills = every_fourth[volume.DAY % volume.PARTS :: volume.PARTS]  # early ones, and late
    pairs = list(product(kills, every_fourth))
    (tmp_path / "pairs").mkdir()
    assert killed_then_dark(tmp_path / "pairs", monkeypatch, "plain", pairs) > len(pairs) // 2


def test_a_file_that_a_killed_run_did_not_sync_is_synced_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    disk = ForgetfulDisk(root, monkeypatch)
    killed = AppendFile(disk.root / "log")
    durable.sync_folder(disk.root)
    killed.append(b"one\n")
    killed.flush()
    killed.close()
    after = AppendFile(disk.root / "log")
    after.truncate(4)
    disk.lose_power()
    assert (disk.root / "log").read_bytes() == b"one\n"


def test_a_new_folder_and_a_new_key_survive_a_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that is gone while what was drawn with it is not would end the deployment."""
    root = tmp_path / "disk"
    root.mkdir()
    disk = ForgetfulDisk(root, monkeypatch)
    make_folder(root / "a" / "b")
    NoiseKey.create(root / "a" / "b" / "noise.key")
    before = (root / "a" / "b" / "noise.key").read_bytes()
    disk.lose_power()
    assert (root / "a" / "b" / "noise.key").read_bytes() == before
    assert [path.name for path in (root / "a" / "b").iterdir()] == ["noise.key"]


class FullDisk:
    """A disk that has room for so many bytes more."""

    def __init__(self, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = room
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, descriptor: int, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = self._write(descriptor, bytes(data)[: self.room])
        self.room -= taken
        return taken


@pytest.mark.slow
@pytest.mark.parametrize("kind", SETTINGS)
def test_a_full_disk_is_said_in_a_sentence_and_with_room_the_same_files_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Whichever byte is the first without room; nothing that was told is lost, no draft takes up room."""
    run_a_day(tmp_path / "whole", kind)
    expected = everything_in(tmp_path / "whole")
    full = 0
    for room in range(1, 12_000, 613):
        folder, listener = tmp_path / str(room), Listener()
        with monkeypatch.context() as patch:
            FullDisk(room, patch)
            try:
                run_a_day(folder, kind, listener)
            except DiskFullError as error:
                full += 1
                assert "must have room" in str(error)
                assert "free some space, then start the same command again" in str(error)
        log = folder / "releases.jsonl"
        assert (log.read_bytes().count(b"\n") if log.exists() else 0) > listener.heard
        assert not list(folder.glob("*.new"))
        run_a_day(folder, kind)
        assert everything_in(folder) == expected, f"room for {room} bytes"
    assert full > 5


def test_what_a_full_disk_had_no_room_for_is_written_by_the_next_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = AppendFile(tmp_path / "log")
    with monkeypatch.context() as patch:
        FullDisk(5, patch)
        file.append(b"one\ntwo\n")
        with pytest.raises(DiskFullError):
            file.sync()
        file.append(b"three\n")
        with pytest.raises(DiskFullError):
            file.sync()
    file.sync()
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\nthree\n"
    assert file.length == 14


def test_a_snapshot_without_room_is_left_out_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cramped(path: Path, data: bytes, mode: int) -> None:
        if path.name == SNAPSHOT:
            raise DiskFullError("the disk must have room", "none", "free some")
        replace_file(path, data, mode)

    monkeypatch.setattr("stream_app.embedded.restored_accounts.replace_file", cramped)
    report = run_on(tmp_path, [DAY], settings={"snapshot_seconds": 0.1})
    assert report.steps == 7
    assert not (tmp_path / SNAPSHOT).exists()


RUN = """
import sys
from pathlib import Path
from stream_app.cli.shared import exit_on_known_errors
from stream_app.embedded import RunOptions, run
from tests.stream_app.engine_support import population, settings
from tests.volume import some
with exit_on_known_errors():
    run(settings(risk_every=1), RunOptions(Path(sys.argv[1]), Path(sys.argv[2])), population())
"""


@pytest.mark.slow
def test_on_a_small_disk_the_command_says_what_to_do_and_goes_on_once_there_is_room(tmp_path: Path) -> None:
    """A real file system of 512 KiB, most of it taken by something else."""
    small, source = tmp_path / "small", tmp_path / "messages.jsonl"
    small.mkdir()
    source.write_bytes(lines_of(messages_of_a_day(60, 21)))
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(small)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        (small / "ballast").write_bytes(b"x" * 470_000)
        status, said = ended(small / "out", source, tmp_path / "first.log")
        assert status == 1
        assert said.count("\n") == 1
        assert "free some space, then start the same command again" in said
        (small / "ballast").unlink()
        released = (small / "out" / "releases.jsonl").read_bytes()
        assert ended(small / "out", source, tmp_path / "second.log") == (0, "")
        assert ended(tmp_path / "whole", source, tmp_path / "whole.log") == (0, "")
        assert outputs_of(small / "out") == outputs_of(tmp_path / "whole")
        assert outputs_of(small / "out")["releases.jsonl"].startswith(released[: released.rfind(b"\n") + 1])
    finally:
        subprocess.run(["umount", str(small)], check=True)


def ended(output: Path, source: Path, log: Path) -> tuple[int, str]:
    """The command's run as a process: its exit code and what it said."""
    return Copy(RUN, [str(output), str(source)], os.environ, log).wait(120), log.read_text()


def test_a_second_run_in_the_same_folder_changes_nothing_of_the_first(tmp_path: Path) -> None:
    """It is refused before it opens a file; the first goes on to the same end."""
    attempts: list[str] = []

    class Second(Observer):
        def closed(self, event: StepClosed) -> None:
            if event.step == 3:
                with pytest.raises(OutputLockedError, match="one run at a time") as refused:
                    run_on(tmp_path / "out", [DAY])
                attempts.append(str(refused.value))

    run_on(tmp_path / "out", [DAY], observer=Second())
    run_on(tmp_path / "whole", [DAY])
    assert len(attempts) == 1
    assert outputs_of(tmp_path / "out") == outputs_of(tmp_path / "whole")
