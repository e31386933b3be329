"""Snapshots of the accountant: a cache that may be missing, old or damaged without anybody noticing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from models.releases import StepSchedule
from stream_app.embedded.restored_accounts import FILE, SnapshotCache
from tests.stream_app.engine_support import (
    accountant,
    committed,
    lines_of,
    messages_of_a_day,
    outputs_of,
    run_on,
)

LINES = [message.line() for message in messages_of_a_day(30, 11, faults=True)]
QUICK = {"snapshot_seconds": 0.1}


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    """A folder with a snapshot in the middle of the input."""
    run_on(tmp_path / "half", [b"".join(LINES[:60])], keep_open=True, settings=QUICK)
    assert (tmp_path / "half" / FILE).stat().st_mode & 0o077 == 0
    return tmp_path / "half"


def steps_applied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps that the accountant applies when the run is continued to the end."""
    applied: list[int] = []
    apply = ContinuousAccountant.apply

    def watched(self: ContinuousAccountant, step: StepSchedule) -> None:
        applied.append(step.step)
        apply(self, step)

    monkeypatch.setattr(ContinuousAccountant, "apply", watched)
    run_on(folder, [b"".join(LINES)], settings=QUICK)
    monkeypatch.undo()
    return applied


@pytest.mark.slow
def test_a_restart_from_a_snapshot_applies_only_later_steps_and_gives_the_same_files(
    interrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_on(tmp_path / "whole", [b"".join(LINES)])
    applied = steps_applied(interrupted, monkeypatch)
    assert applied[0] > 0
    assert applied == list(range(applied[0], applied[-1] + 1))
    assert outputs_of(interrupted) == outputs_of(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["damaged", "cut", "empty", "other settings", "missing"])
def test_a_snapshot_that_does_not_fit_is_not_used(
    harm: str, interrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is applied again, and the files are the same."""
    run_on(tmp_path / "whole", [b"".join(LINES)])
    path = interrupted / FILE
    content = path.read_bytes()
    other = content.replace(b'"basis": "', b'"basis": "0')
    path.write_bytes(
        {"damaged": content[:-9] + b"x" + content[-8:], "cut": content[:-1], "other settings": other}.get(
            harm, b""
        )
    )
    if harm == "missing":
        path.unlink()
    assert steps_applied(interrupted, monkeypatch)[0] == 0
    assert outputs_of(interrupted) == outputs_of(tmp_path / "whole")


def test_a_snapshot_beyond_the_commit_or_of_other_decisions_is_not_used(tmp_path: Path) -> None:
    """The decisions before it must be those it was made from."""
    (tmp_path / "decisions.jsonl").write_bytes(b"one\ntwo\n")
    cache = SnapshotCache(tmp_path, {}, 1.0)
    ahead = accountant()
    ahead.apply(StepSchedule(0))
    ahead.apply(StepSchedule(1))
    cache.save(ahead, committed(tmp_path))
    for limit, decisions, expected in [(1, b"one\ntwo\n", 0), (2, b"one\nTWO\n", 0), (2, b"one\ntwo\n", 2)]:
        (tmp_path / "decisions.jsonl").write_bytes(decisions)
        fresh = accountant()
        cache.restore(fresh, limit)
        assert fresh.next_step == expected
    assert np.array_equal(fresh.risk(), ahead.risk())


def test_a_sound_snapshot_that_the_accountant_cannot_take_is_reported_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version's arrays: the caller must begin with a new accountant."""
    (tmp_path / "decisions.jsonl").write_bytes(b"one\n")
    cache, ahead = SnapshotCache(tmp_path, {}, 1.0), accountant()
    ahead.apply(StepSchedule(0))
    monkeypatch.setattr(ContinuousAccountant, "snapshot", lambda self: b"of another form")
    cache.save(ahead, committed(tmp_path))
    assert not cache.restore(accountant(), 1)


def test_without_an_interval_no_snapshot_is_kept(tmp_path: Path) -> None:
    run_on(tmp_path, [lines_of(messages_of_a_day(9, 1))], settings={"snapshot_seconds": 0.0})
    assert not (tmp_path / FILE).exists()
