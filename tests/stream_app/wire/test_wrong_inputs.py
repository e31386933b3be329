"""An input that cannot become releases is named early, and its run does not end as if all were well."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path

import pytest

from stream_app.embedded import RunOptions, run
from stream_app.exceptions import InputError
from stream_app.wire.inputs import check_start
from stream_app.wire.messages import PRIVATE_REASONS, Reason
from stream_app.wire.parsing import FIRST_LOOK, mostly_refused
from tests.stream_app import engine_support
from tests.stream_app.cli.test_cli import TWO_PEOPLE
from tests.stream_app.command_line import Tallyguard

LATER = ("--listen", "", "--create-keys")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with priors, which is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "priors.json").write_text(json.dumps(TWO_PEOPLE))
    return tmp_path


def readings(sensor: str, steps: Iterable[int]) -> str:
    """One reading a step, unannounced."""
    lines = ({"v": 1, "type": "reading", "step": step, "sensor": sensor, "count": 5} for step in steps)
    return "".join(json.dumps(line) + "\n" for line in lines)


def day(steps: int) -> str:
    """Activation and reading of the sensor at work, step by step."""
    lines = []
    for step in range(steps):
        lines.append({"v": 1, "type": "activation", "step": step, "sensors": ["work"]})
        lines.append({"v": 1, "type": "reading", "step": step, "sensor": "work", "count": 5 + step})
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.mark.parametrize(
    ("start", "is_csv", "kind"),
    [
        (b"PAR1\x15\x04", False, "a Parquet file"),
        (b"\x1f\x8b\x08", False, "a gzip file"),
        (b"PK\x03\x04", True, "a spreadsheet"),
        (b"\xff\xfes\x00", True, "UTF-16"),
        (b"\xef\xbb\xbfstep,sensor,count\n", True, "byte order mark"),
        (b'[{"v": 1}]', False, "a JSON list"),
        (b'{\n  "v": 1\n', False, "over several lines"),
        (b"step,sensor,count\n1,work,5\n", False, "CSV read as JSON"),
        (b'{"v": 1}\n', True, "JSON read as CSV"),
        (b"when,where,how many\n", True, "3 columns, none of them"),
    ],
)
def test_an_input_of_another_kind_is_named(start: bytes, is_csv: bool, kind: str) -> None:
    """By its first bytes, with what to do."""
    with pytest.raises(InputError, match=kind) as caught:
        check_start("day", start, is_csv=is_csv)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("start", "is_csv"),
    [(b"", False), (b"", True), (b'{"v": 1}\n', False), (b"count,step,sensor\n", True), (b"oops\n", False)],
)
def test_messages_and_single_wrong_lines_pass(start: bytes, is_csv: bool) -> None:
    """A wrong line is a dead letter, not the end."""
    check_start("day", start, is_csv=is_csv)


def test_a_parquet_file_is_refused_before_anything_is_made(tallyguard: Tallyguard, folder: Path) -> None:
    """No folder, no keys."""
    (folder / "day.parquet").write_bytes(b"PAR1" + bytes(50))
    result = tallyguard("run", "--priors", "priors.json", "--input", "day.parquet", "--output", "out", *LATER)
    assert result.code == 1
    assert "got a Parquet file" in result.err
    assert sorted(path.name for path in folder.iterdir()) == ["day.parquet", "priors.json"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (readings("wrok", range(150)), "unknown_sensor"),
        (readings("work", range(150)), "no_activation"),
        (readings("work", range(3)), "no_activation"),
        ("nonsense\n" * 150, "not_json"),
        ("", "held no message"),
    ],
    ids=["names", "unannounced", "few", "nonsense", "empty"],
)
def test_a_run_that_closes_no_step_exits_with_3_and_says_why(
    tallyguard: Tallyguard, folder: Path, content: str, reason: str
) -> None:
    """Without a figure or anything a message said."""
    (folder / "day.jsonl").write_text(content)
    result = tallyguard("run", "--priors", "priors.json", "--input", "day.jsonl", "--output", "out", *LATER)
    assert result.code == 3
    last = result.err.strip().splitlines()[-1]
    assert last.startswith("tallyguard: no step could be closed")
    assert reason in last
    assert "wrok" not in result.err


def test_most_refused_is_said_after_the_first_lines(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While the input goes on; once."""
    said: list[int] = []

    def chunks() -> Iterable[bytes]:
        for number in range(5):
            yield readings("wrok", range(FIRST_LOOK * number, FIRST_LOOK * (number + 1))).encode()
            said.append(sum("most messages are refused" in text for text in caplog.messages))

    with caplog.at_level(logging.WARNING):
        run(
            engine_support.settings(),
            RunOptions(tmp_path / "out"),
            engine_support.population(),
            chunks=chunks(),
        )
    assert said == [1] * 5
    assert not [text for text in caplog.messages if "wrok" in text]


def test_every_reason_has_something_to_do() -> None:
    """And where half is taken nothing is said."""
    for reason in set(Reason) - PRIVATE_REASONS:
        sentence = mostly_refused(10, {reason: 6})
        assert sentence is not None
        assert reason.value in sentence
    assert mostly_refused(10, {Reason.UNKNOWN_SENSOR: 5}) is None
    assert "no_activation" in str(mostly_refused(10, {Reason.UNKNOWN_SENSOR: 2}, waiting=7))


def test_a_folder_without_a_release_is_not_tied_to_its_settings(tallyguard: Tallyguard, folder: Path) -> None:
    """The settings are corrected and the same input is read again, from its beginning."""
    arguments = ("run", "--priors", "priors.json", "--input", "day.jsonl", "--output", "out", *LATER)
    (folder / "day.jsonl").write_text(readings("work", range(4)))
    assert tallyguard(*arguments).code == 3
    (folder / "schedule.json").write_text(
        json.dumps({"steps": [{"sensors": ["work"], "mechanism": "raw"}] * 4})
    )
    again = tallyguard(*arguments, "--schedule", "schedule.json", "--horizon", "3", "--json")
    assert again.code == 0
    assert again.document["steps"] == 4
    assert "starts over with these settings" in again.err
    assert json.loads((folder / "out" / "run.json").read_text())["horizon"] == 3
    changed = tallyguard(*arguments, "--schedule", "schedule.json", "--horizon", "4")
    assert changed.code == 1
    assert "horizon was 3, is 4" in changed.err


def test_a_folder_that_lost_its_releases_stays_tied(tallyguard: Tallyguard, folder: Path) -> None:
    """Nothing to be seen is not nothing released."""
    arguments = ("run", "--priors", "priors.json", "--input", "day.jsonl", "--output", "out", *LATER)
    (folder / "day.jsonl").write_text(day(4))
    assert tallyguard(*arguments).code == 0
    for name in ("releases.jsonl", "decisions.jsonl"):
        (folder / "out" / name).write_bytes(b"")
    refused = tallyguard(*arguments, "--horizon", "4")
    assert refused.code == 1
    assert "horizon was 10, is 4" in refused.err
