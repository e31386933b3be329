"""After a loss of power, or a full disk, a run goes on as if nothing had happened; what was said stands."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from models.keys import NoiseKey
from stream_app.embedded.snapshots import FILE as SNAPSHOT
from stream_app.exceptions import DiskFullError, OutputLockedError
from stream_app.setup.run_folder import durable
from stream_app.setup.run_folder.durable import AppendFile, make_folder, replace_file
from stream_app.watching.events import Observer, StepClosed
from tests.stream_app.engine_support import LITTLE_WORK, lines_of, messages_of_a_day, outputs_of, run_on
from tests.stream_app.setup.power import ForgetfulDisk, PowerLoss
from tests.stream_app.steps.test_tiers import TIERED

DAY = lines_of(messages_of_a_day(7, 5, faults=True)) + b"no message\n"
SETTINGS: dict[str, dict[str, object]] = {"plain": LITTLE_WORK, "tiers": {**LITTLE_WORK, **TIERED}}


class Listener(Observer):
    """Remembers the steps that it was told are published."""

    def __init__(self) -> None:
        self.heard = -1

    def closed(self, event: StepClosed) -> None:
        self.heard = event.step


class Rehearsal:
    """A day's run in a folder on a forgetful disk, started as often as one likes."""

    def __init__(self, base: Path, disk: ForgetfulDisk, changed: dict[str, object]) -> None:
        self.base, self.disk, self.changed = base, disk, changed
        self.heard = -1

    @property
    def folder(self) -> Path:
        return self.base / "new" / "out"

    def run(self, stop_at: int = -1) -> bool:
        """Run until the end or the operation; whether the end was reached."""
        listener = Listener()
        self.disk.operations, self.disk.stop_at = 0, stop_at
        try:
            run_on(self.folder, [DAY], settings=self.changed, observer=listener)
        except PowerLoss:
            return False
        finally:
            self.disk.stop_at = -1
            self.heard = max(self.heard, listener.heard)
        return True

    def check_and_finish(self, expected: dict[str, bytes]) -> None:
        """All that was heard is there, and another run ends with the same files."""
        log = self.folder / "releases.jsonl"
        left = log.read_bytes() if log.exists() else b""
        assert left.count(b"\n") > self.heard
        assert expected["releases.jsonl"].startswith(left[: left.rfind(b"\n") + 1])
        assert self.run()
        assert everything_in(self.folder) == expected


def everything_in(folder: Path) -> dict[str, bytes]:
    """The output files, those of tiers included."""
    tiers = {path.name: path.read_bytes() for path in sorted(folder.glob("releases-*.jsonl"))}
    return {**outputs_of(folder), **tiers}


def rehearsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> tuple[dict[str, bytes], int]:
    """What an undisturbed run writes, and how many operations on the disk that takes."""
    (tmp_path / "whole").mkdir()
    with monkeypatch.context() as patch:
        whole = Rehearsal(tmp_path / "whole", ForgetfulDisk(tmp_path / "whole", patch), SETTINGS[kind])
        assert whole.run()
        return everything_in(whole.folder), whole.disk.operations


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "luck"), [("plain", False), ("tiers", True)])
def test_a_loss_of_power_leads_to_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, luck: bool
) -> None:
    """At every fourth operation; what was synced is left, or by luck more of some files than of others."""
    lose_power_in_every(4, tmp_path, monkeypatch, kind, luck)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("luck", [False, True])
def test_a_loss_of_power_at_any_operation_leads_to_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, luck: bool
) -> None:
    lose_power_in_every(1, tmp_path, monkeypatch, kind, luck)


def lose_power_in_every(
    stride: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, luck: bool
) -> None:
    """Lose power at these operations of a run's, each in a folder of its own, and look at what is left."""
    expected, operations = rehearsed(tmp_path, monkeypatch, kind)
    assert operations > 50
    for stop_at in range(1, operations + 1, stride):
        base = tmp_path / str(stop_at)
        base.mkdir()
        with monkeypatch.context() as patch:
            trial = Rehearsal(base, ForgetfulDisk(base, patch), SETTINGS[kind])
            assert not trial.run(stop_at), f"operation {stop_at}"
            trial.disk.lose_power(Random(stop_at) if luck else None)
            trial.check_and_finish(expected)


def killed_then_dark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, pairs: list[tuple[int, int]]
) -> int:
    """Kill a run at one operation, lose power at one of the next run's; how often both happened."""
    expected, _ = rehearsed(tmp_path, monkeypatch, kind)
    both = 0
    for number, (killed_at, dark_at) in enumerate(pairs):
        base = tmp_path / str(number)
        base.mkdir()
        with monkeypatch.context() as patch:
            trial = Rehearsal(base, ForgetfulDisk(base, patch), SETTINGS[kind])
            trial.run(killed_at)
            both += not trial.run(dark_at)
            trial.disk.lose_power()
            trial.check_and_finish(expected)
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


@pytest.mark.slow
def test_a_loss_of_power_at_many_operations_after_a_kill_at_many_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, operations = rehearsed(tmp_path, monkeypatch, "plain")
    pairs = [(first, then) for first in range(1, operations, 4) for then in range(1, operations, 4)]
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
    killed._write()
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
    run_on(tmp_path / "whole", [DAY], settings=SETTINGS[kind])
    expected = everything_in(tmp_path / "whole")
    full = 0
    for room in range(1, 12_000, 613):
        folder, listener = tmp_path / str(room), Listener()
        with monkeypatch.context() as patch:
            FullDisk(room, patch)
            try:
                run_on(folder, [DAY], settings=SETTINGS[kind], observer=listener)
            except DiskFullError as error:
                full += 1
                assert "must have room" in str(error)
                assert "free some space, then start the same command again" in str(error)
        log = folder / "releases.jsonl"
        assert (log.read_bytes().count(b"\n") if log.exists() else 0) > listener.heard
        assert not list(folder.glob("*.new"))
        run_on(folder, [DAY], settings=SETTINGS[kind])
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

    monkeypatch.setattr("stream_app.embedded.snapshots.replace_file", cramped)
    report = run_on(tmp_path, [DAY], settings={"snapshot_seconds": 0.1})
    assert report.steps == 7
    assert not (tmp_path / SNAPSHOT).exists()


RUN = """
import sys
from pathlib import Path
from stream_app.cli.shared.output import exit_on_known_errors
from stream_app.embedded import RunOptions, run
from tests.stream_app.engine_support import population, settings
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
        first = started(small / "out", source)
        assert first.returncode == 1
        assert first.stderr.count("\n") == 1
        assert "free some space, then start the same command again" in first.stderr
        (small / "ballast").unlink()
        told = (small / "out" / "releases.jsonl").read_bytes()
        assert started(small / "out", source).returncode == 0
        assert started(tmp_path / "whole", source).returncode == 0
        assert outputs_of(small / "out") == outputs_of(tmp_path / "whole")
        assert outputs_of(small / "out")["releases.jsonl"].startswith(told[: told.rfind(b"\n") + 1])
    finally:
        subprocess.run(["umount", str(small)], check=True)


def started(output: Path, source: Path) -> subprocess.CompletedProcess[str]:
    """The command's run as a process."""
    return subprocess.run(
        [sys.executable, "-c", RUN, str(output), str(source)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


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
