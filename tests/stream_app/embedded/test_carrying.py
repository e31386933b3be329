"""A run that goes on takes what was spent from its last commit, and reads of the log only what it lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from accounting.continuous.shadow import recent_step_count
from accounting.ledgers import PrivacyAccount
from stream_app.analysis.accounted_again import read_decisions
from stream_app.embedded import journal
from stream_app.exceptions import OutputError
from stream_app.setup.run_folder.durable import load_sealed, seal
from stream_app.watching.events import Observer
from stream_app.wire.messages import StepDecision
from tests.stream_app.engine_support import REGISTRY, lines_of, messages_of_a_day, run_on

LOOKED_BACK = recent_step_count(4)


class Carried(Observer):
    account: PrivacyAccount

    def carried(self, account: PrivacyAccount) -> None:
        self.account = PrivacyAccount.load(account.save())


def begin(folder: Path, steps: int) -> None:
    """A run of so many steps with a snapshot at every commit, left open."""
    lines = lines_of(messages_of_a_day(steps, 3))
    run_on(folder, [lines], keep_open=True, settings={"snapshot_seconds": 1e-9})


def go_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], PrivacyAccount]:
    """The decisions read by a run that goes on, and what it was told of the spending."""
    read: list[int] = []
    as_it_is = journal.parsed_line

    def watched(kind: type[BaseModel], path: Path, line: bytes) -> BaseModel:
        found = as_it_is(kind, path, line)
        if isinstance(found, StepDecision):
            read.append(found.step)
        return found

    observer = Carried()
    with monkeypatch.context() as patched:
        patched.setattr(journal, "parsed_line", watched)
        run_on(folder, [], keep_open=True, observer=observer)
    assert read[0] == read[-1]  # the last one first: the commit names it
    return read[1:], observer.account


def of_log(folder: Path) -> PrivacyAccount:
    account = PrivacyAccount(sensor.group for sensor in REGISTRY.sensors)
    for schedule in read_decisions(folder / "decisions.jsonl", REGISTRY):
        account.charge(schedule)
    return account


def change(folder: Path, **changed: Any) -> None:
    path = folder / "progress.json"
    path.write_bytes(seal({**load_sealed(path), **changed}))


@pytest.mark.slow
@pytest.mark.parametrize("steps", [20, 90])
def test_a_start_with_a_snapshot_reads_what_is_looked_back_at_however_long_the_run_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    begin(tmp_path, steps)
    read, account = go_on(tmp_path, monkeypatch)
    assert len(read) == min(steps, LOOKED_BACK)
    assert account.save() == of_log(tmp_path).save()


@pytest.mark.slow
def test_a_folder_of_an_earlier_version_is_read_once_and_never_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(tmp_path, 60)
    change(tmp_path, account={}, decided=None)
    read, account = go_on(tmp_path, monkeypatch)
    assert read == list(range(len(read)))
    assert len(read) > LOOKED_BACK
    assert account.save() == of_log(tmp_path).save()
    again, account = go_on(tmp_path, monkeypatch)
    assert len(again) == LOOKED_BACK
    assert account.save() == of_log(tmp_path).save()


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [{"account": {"steps": 3, "spends": {}}}, {"account": {"steps": 3}}, {"decided": "0" * 16}],
)
def test_an_account_of_other_steps_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    begin(tmp_path, 20)
    change(tmp_path, **changed)
    with pytest.raises(OutputError, match=r"must hold the privacy account of .* restore decisions\.jsonl"):
        run_on(tmp_path, [], keep_open=True)
