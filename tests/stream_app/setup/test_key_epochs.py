"""Advancing the noise key: history stands, the old key is gone, and no step is drawn with two keys."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from models.exceptions import NoiseKeyError
from models.keys import NoiseKey
from stream_app.exceptions import OutputError, OutputLockedError, RunChangedError, SettingsError
from stream_app.setup.run_folder.durable import FolderLock
from stream_app.setup.run_folder.key_record import AdvancedKey, advance_noise_key
from stream_app.setup.settings import Settings
from tests.hex_keys import hex_key
from tests.stream_app.embedded.test_journal import Crash, Disk
from tests.stream_app.engine_support import (
    NOISE_SECRET,
    lines_of,
    messages_of_a_day,
    run_on,
    settings,
)

DAY = lines_of(messages_of_a_day(20, 5, faults=True))
HALF = DAY[: DAY.rindex(b"\n", 0, len(DAY) // 2) + 1]


class Deployment:
    """A run and its key file; ``more`` are further settings."""

    def __init__(self, folder: Path, epoch: int = 0, **more: object) -> None:
        folder.mkdir()
        self.output, self.file = folder / "out", folder / "noise.key"
        self.file.write_text(NOISE_SECRET)
        if epoch:
            NoiseKey.load(self.file).advance_file(self.file, epoch)
        self._changed = {"noise_key_secret": None, "noise_key": self.file, **more}

    @property
    def settings(self) -> Settings:
        return settings(**self._changed)

    def run(self, day: bytes, **options: object) -> list[bytes]:
        """Run on a day as far as it goes; everything released."""
        run_on(self.output, [day], settings=self._changed, **options)
        return self.releases()

    def releases(self) -> list[bytes]:
        log = self.output / "releases.jsonl"
        return log.read_bytes().splitlines() if log.exists() else []

    def advance(self) -> AdvancedKey:
        return advance_noise_key(self.settings, self.output)


@pytest.mark.slow
def test_released_values_stand_and_later_ones_are_drawn_with_the_next_key(tmp_path: Path) -> None:
    """The run goes on as before, without --accept-changes; the key of the steps before is nowhere."""
    before = Deployment(tmp_path / "before").run(DAY)
    after = Deployment(tmp_path / "after", epoch=1).run(DAY)
    deployment = Deployment(tmp_path / "advanced")
    first = len(deployment.run(HALF, keep_open=True))
    assert 2 < first < len(before) - 2
    assert deployment.advance() == AdvancedKey(deployment.file, 1, first)
    assert deployment.run(DAY) == before[:first] + after[first:]
    assert before[first:] != after[first:]
    kept = {path.name: path.read_bytes() for path in deployment.file.parent.rglob("*") if path.is_file()}
    assert not any(NOISE_SECRET.encode() in content for content in kept.values())
    assert deployment.file.stat().st_mode & 0o077 == 0
    with pytest.raises(NoiseKeyError, match="history is never noised again"):
        NoiseKey.load(deployment.file).at_epoch(0)
    [earlier] = json.loads(kept["run.json"])["earlier_noise_keys"]
    assert earlier == {"fingerprint": NoiseKey.parse(NOISE_SECRET).fingerprint(), "until_step": first}


@pytest.mark.slow
def test_a_step_that_was_begun_is_finished_with_its_own_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed anywhere, a run goes on with the next key: what was committed has its lines, the rest was not
    begun."""
    before = Deployment(tmp_path / "before").run(HALF)
    after = Deployment(tmp_path / "after", epoch=1).run(HALF)
    disk = Disk(monkeypatch)
    Deployment(tmp_path / "counted").run(HALF)
    firsts = set()
    for crash_at in range(40, disk.operations, 11):
        deployment = Deployment(tmp_path / str(crash_at))
        disk.operations, disk.crash_at = 0, crash_at
        with pytest.raises(Crash):
            deployment.run(HALF)
        disk.crash_at = -1
        first = deployment.advance().first_step
        assert first is not None
        assert deployment.run(HALF) == before[:first] + after[first:]
        firsts.add(first)
    assert len(firsts) > 2


def test_no_key_is_erased_that_a_step_of_an_earlier_version_still_needs(tmp_path: Path) -> None:
    """Which may be out in part, and has to be finished first."""
    before = Deployment(tmp_path / "before").run(HALF)
    after = Deployment(tmp_path / "after", epoch=1).run(DAY)
    deployment = Deployment(tmp_path / "deployment")
    deployment.run(HALF)
    log = deployment.output / "releases.jsonl"
    log.write_bytes(log.read_bytes()[:-20])
    for name in ("progress.json", "progress.jsonl"):
        (deployment.output / name).unlink(missing_ok=True)
    with pytest.raises(OutputError, match="start the run once more with the key it has"):
        deployment.advance()
    assert deployment.run(HALF) == before
    assert deployment.advance().first_step == len(before)
    assert deployment.run(DAY) == before + after[len(before) :]


@pytest.mark.slow
def test_an_interrupted_call_is_completed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two files nothing runs, and the key does not advance twice."""
    deployment = Deployment(tmp_path / "deployment")
    released = deployment.run(HALF, keep_open=True)
    with monkeypatch.context() as patch:
        patch.setattr(NoiseKey, "advance_file", lambda *_: (_ for _ in ()).throw(Crash))
        with pytest.raises(Crash):
            deployment.advance()
    with pytest.raises(RunChangedError, match="noise_key"):
        deployment.run(DAY)
    assert deployment.advance() == AdvancedKey(deployment.file, 1, len(released))
    assert deployment.run(DAY)[: len(released)] == released


def test_a_noise_window_ends_before_its_key(tmp_path: Path) -> None:
    np.save(tmp_path / "noise.npy", np.full((3, 3), 4.0) + np.eye(3))
    release = {"mechanism": "correlated", "covariance": str(tmp_path / "noise.npy")}
    deployment = Deployment(tmp_path / "deployment", release=release)
    day = messages_of_a_day(6, 4)
    deployment.run(lines_of([each for each in day if each.step < 4]))
    with pytest.raises(OutputError, match=r"position 1 of a window; run on to step 6"):
        deployment.advance()
    deployment.run(lines_of(day))
    assert deployment.advance().first_step == 6


def test_another_key_that_is_accepted_is_held_to_the_same(tmp_path: Path) -> None:
    """Neither within a noise window nor while a step may be out in part; nothing is written then."""
    np.save(tmp_path / "noise.npy", np.full((3, 3), 4.0) + np.eye(3))
    release = {"mechanism": "correlated", "covariance": str(tmp_path / "noise.npy")}
    deployment = Deployment(tmp_path / "deployment", release=release)
    day = messages_of_a_day(6, 4)
    released = deployment.run(lines_of([each for each in day if each.step < 4]))
    run_json = (deployment.output / "run.json").read_bytes()
    deployment.file.write_text(hex_key("33"))
    with pytest.raises(OutputError, match=r"position 1 of a window; run on to step 6"):
        deployment.run(lines_of(day), accept_changes=True)
    assert (deployment.output / "run.json").read_bytes() == run_json
    assert deployment.releases() == released
    deployment.file.write_text(NOISE_SECRET)
    released = deployment.run(lines_of(day))
    log = deployment.output / "releases.jsonl"
    log.write_bytes(log.read_bytes()[:-20])
    (deployment.output / "progress.json").unlink()
    deployment.file.write_text(hex_key("33"))
    with pytest.raises(OutputError, match="start the run once more with the key it has"):
        deployment.run(lines_of(day), accept_changes=True)
    deployment.file.write_text(NOISE_SECRET)
    assert deployment.run(lines_of(day)) == released
    deployment.file.write_text(hex_key("33"))
    assert deployment.run(lines_of(day), accept_changes=True) == released


def test_what_is_not_a_stopped_run_with_its_own_key_is_refused(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path / "deployment")
    with pytest.raises(OutputError, match="on Kafka leave it out"):
        deployment.advance()
    deployment.run(HALF, keep_open=True)
    lock = FolderLock(deployment.output)
    with pytest.raises(OutputLockedError):
        deployment.advance()
    lock.close()
    with pytest.raises(SettingsError, match="write the key to a file"):
        advance_noise_key(settings(), deployment.output)
    deployment.file.write_text(hex_key("33"))
    with pytest.raises(RunChangedError, match="another key"):
        deployment.advance()
    assert deployment.file.read_text() == hex_key("33")


def test_a_key_without_a_run_is_advanced_in_its_file(tmp_path: Path) -> None:
    """For a release worker on Kafka: the key of each epoch follows from the one before."""
    deployment = Deployment(tmp_path / "deployment")
    for epoch in (1, 2):
        assert advance_noise_key(deployment.settings, None) == AdvancedKey(deployment.file, epoch, None)
    expected = NoiseKey.parse(NOISE_SECRET).at_epoch(2)
    assert NoiseKey.load(deployment.file).fingerprint() == expected.fingerprint()
