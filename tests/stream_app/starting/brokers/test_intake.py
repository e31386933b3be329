"""Payloads of brokers are taken or become dead letters, durably; the same again changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stream_app.exceptions import OutputLockedError
from stream_app.setup.sections import PayloadSettings
from stream_app.setup.settings import Settings
from stream_app.starting.connect.intake import PayloadIntake, open_intake

SETTINGS = Settings.model_validate({"origin": "2026-01-01T00:00:00Z"})
MAPPING = PayloadSettings.model_validate(
    {"topic": "city/{sensor}/counts", "start": "start", "interval_seconds": 3600, "count": "n"}
)


class Sent(NamedTuple):
    """A message."""

    topic: str
    payload: bytes


def sent(step: int, count: object, sensor: str = "mill", **more: object) -> Sent:
    """A count of a step."""
    document = {"start": 1767225600 + 3600 * step, "n": count, **more}
    return Sent(f"city/{sensor}/counts", json.dumps(document).encode())


def take(folder: Path, *batches: list[Sent]) -> PayloadIntake:
    """A process that takes these, one batch after the other."""
    with open_intake(folder, SETTINGS, MAPPING, ("mill", "port")) as intake:
        assert intake is not None
        for batch in batches:
            intake.take(batch)
        return intake


def lines(path: Path) -> list[dict[str, Any]]:
    """The documents of a file."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def readings(folder: Path) -> list[tuple[Any, ...]]:
    """What a run will read."""
    found = [each for each in lines(folder / "messages.jsonl") if each["type"] == "reading"]
    return [(each["step"], each["sensor"], each["count"]) for each in found]


def test_good_and_bad_payloads_of_a_batch_are_told_apart(tmp_path: Path) -> None:
    """Counts stand in the messages, the rest as dead letters: a sentence each, nothing of the payload."""
    bad = [sent(4, -1), sent(4, 1, "nobody's"), Sent("city/mill/counts", b"{"), Sent("elsewhere", b"{}")]
    intake = take(tmp_path, [sent(3, 7), *bad, sent(3, 8, "port")])
    assert readings(tmp_path) == [(3, "mill", 7), (3, "port", 8)]
    letters = lines(tmp_path / "rejected.jsonl")
    assert [each["source"] for each in letters] == [each.topic for each in bad]
    assert all(each["payload"] == "" and "must" in each["hint"] for each in letters)
    assert (intake.taken, intake.refused) == (2, 4)


@pytest.mark.parametrize("more", [{"PeopleId": 7}, {"a": [{"snapshot": "aGk="}]}, {"seen": {"mac": "aa"}}])
def test_people_images_and_devices_do_not_enter(tmp_path: Path, more: dict[str, Any]) -> None:
    """Not at any depth, and no file of the connector holds them."""
    take(tmp_path, [sent(3, 7, **more)])
    assert readings(tmp_path) == []
    assert len(lines(tmp_path / "rejected.jsonl")) == 1
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"aGk=" not in written


def test_the_same_again_changes_nothing(tmp_path: Path) -> None:
    """Within a process and in the next; of another count the first stands, said once a process."""
    for process in (1, 2):
        take(tmp_path, [sent(3, 7), sent(3, 7)], [sent(3, 8)], [sent(3, 8), sent(3, 7)])
        assert readings(tmp_path) == [(3, "mill", 7)]
        letters = lines(tmp_path / "rejected.jsonl")
        assert [each["reason"] for each in letters] == ["contradicting_reading"] * process


def test_a_torn_dead_letter_is_cut(tmp_path: Path) -> None:
    """A process was killed while it wrote one."""
    take(tmp_path, [sent(3, -1)])
    with (tmp_path / "rejected.jsonl").open("ab") as file:
        file.write(b'{"v":1,"type":"rej')
    take(tmp_path, [sent(4, -1)])
    assert len(lines(tmp_path / "rejected.jsonl")) == 2


def test_one_process_has_the_folder(tmp_path: Path) -> None:
    """Also of a connector that only sends releases."""
    for mapping in (MAPPING, None):
        with open_intake(tmp_path, SETTINGS, mapping, ("mill",)):
            for other in (MAPPING, None):
                with pytest.raises(OutputLockedError), open_intake(tmp_path, SETTINGS, other, ("mill",)):
                    pass


def test_what_it_writes_is_for_its_owner(tmp_path: Path) -> None:
    """Both files hold counts, or what they were refused for."""
    take(tmp_path, [sent(3, 7), sent(3, -1)])
    names = ("messages.jsonl", "rejected.jsonl")
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in names} == {0o600}
