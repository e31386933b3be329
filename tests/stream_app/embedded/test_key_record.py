"""What was published with a key stays known beside it: nothing is published a second time unseen."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest

from models.keys import NoiseKey
from stream_app.exceptions import KeyUsedError, OutputError, OutputLockedError
from stream_app.setup.run_folder.key_record import (
    MOST_TOGETHER,
    KeyRecord,
    advance_noise_key,
    claim_for_kafka,
    read_record,
    record_file,
)
from tests.stream_app.engine_support import (
    NAMES,
    activation,
    json_lines,
    lines_of,
    reading,
    run_on,
    settings,
)

STEPS = 6


def day(steps: int = STEPS, *, changed_from: int = STEPS) -> bytes:
    """Counts of all sensors; in the changed steps so many more at A that no noise can give the same value."""
    messages = []
    for step in range(steps):
        messages.append(activation(step, *NAMES))
        messages += [
            reading(step, name, 5 + 1_000 * (name == "A" and step >= changed_from)) for name in NAMES
        ]
    return lines_of(messages)


class Deployment:
    """One key in a file, and runs with it; the correlated noise is one window of all steps."""

    def __init__(self, folder: Path, mechanism: str = "gaussian") -> None:
        self.folder = folder
        self.key = folder / "secrets" / "noise.key"
        self.key.parent.mkdir()
        NoiseKey.create(self.key)
        release: dict[str, object] = {"mechanism": mechanism}
        if mechanism == "correlated":
            np.save(folder / "cov.npy", np.eye(STEPS) * 4.0 + 1.0)
            release["covariance"] = str(folder / "cov.npy")
        else:
            release["sigma"] = 2.0
        self.changed = {"noise_key_secret": None, "noise_key": str(self.key), "release": release}

    def run(self, name: str, data: bytes, **more: object) -> list[dict[str, object]]:
        """The releases of a folder after a run."""
        changed = {**self.changed, **more.pop("changed", {})}  # type: ignore[dict-item]
        run_on(self.folder / name, [data], settings=changed, **more)
        return json_lines(self.folder / name / "releases.jsonl")

    @property
    def record(self) -> Path:
        (found,) = self.key.parent.glob("*.published")
        return found


@pytest.mark.parametrize("mechanism", ["gaussian", "correlated"])
def test_an_older_copy_of_a_folder_publishes_nothing_until_it_is_taken_over(
    tmp_path: Path, mechanism: str
) -> None:
    """A restored backup with counts that were corrected meanwhile gave away the exact difference."""
    made = Deployment(tmp_path, mechanism)
    made.run("out", day(3), keep_open=True)
    shutil.copytree(tmp_path / "out", tmp_path / "backup")
    published = made.run("out", day())
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "backup").rename(tmp_path / "out")
    before = (tmp_path / "out" / "releases.jsonl").read_bytes()
    with pytest.raises(KeyUsedError, match=r"keys create.*--take-over REASON"):
        made.run("out", day(changed_from=4))
    assert (tmp_path / "out" / "releases.jsonl").read_bytes() == before
    assert made.run("out", day(), take_over="the disk was replaced") == published, "the same counts again"
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    (taken,) = run["taken_over"]
    assert taken["reason"] == "the disk was replaced"
    assert taken["from_step"] < STEPS
    made.run("out", day())  # and from then on it is this folder's again


def test_another_folder_with_the_same_key_and_name_is_refused(tmp_path: Path) -> None:
    """Under another sigma, or a shorter day, too; with a key or a name of its own it is another noise."""
    made = Deployment(tmp_path)
    made.run("out", day())
    for changed in ({}, {"release": {"mechanism": "raw"}}):
        with pytest.raises(KeyUsedError, match="6 steps are published"):
            made.run("again", day(2), changed=changed)
    assert not list((tmp_path / "again").glob("releases*"))
    made.run("named", day(), changed={"deployment": "again"})
    NoiseKey.create(tmp_path / "again.key")
    made.run("keyed", day(), changed={"noise_key": str(tmp_path / "again.key")})
    assert {path.stat().st_mode & 0o777 for path in made.key.parent.glob("*.published")} == {0o600}


def test_a_folder_goes_on_however_it_was_stopped_and_where_there_was_no_record(tmp_path: Path) -> None:
    """One of an earlier version, or a key that was brought alone, is taken up where it is."""
    made = Deployment(tmp_path)
    whole = Deployment(tmp_path / "whole") if (tmp_path / "whole").mkdir() is None else made
    shutil.copy(made.key, whole.key)
    wanted = whole.run("out", day())
    made.run("out", day(2), keep_open=True)
    made.record.unlink()
    made.run("out", day(4), keep_open=True)
    assert made.run("out", day()) == wanted
    assert read_record(made.record)["releases"][0] == STEPS


@pytest.mark.parametrize("changed", [False, True])
def test_a_step_that_was_begun_is_published_as_it_was_to_be(tmp_path: Path, changed: bool) -> None:
    """Killed, or without power, between the record and the log: the line may have been read by somebody."""
    made = Deployment(tmp_path)
    made.run("out", day(4), keep_open=True)
    published = made.run("out", day())
    log = tmp_path / "out" / "releases.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))
    (tmp_path / "out" / "progress.json").unlink()  # all of it was lost since the last commit
    if changed:
        with pytest.raises(KeyUsedError, match="line 6 of releases"):
            made.run("out", day(changed_from=STEPS - 1))
        assert log.read_bytes() == b"".join(lines[:-1])
    assert made.run("out", day()) == published


def test_a_record_is_whole_after_a_kill_in_the_middle_of_a_write(tmp_path: Path) -> None:
    """Two places are written in turn: one that is torn is not believed, the one before stands."""
    record = KeyRecord(tmp_path / "k.published")
    record.compare(tmp_path)
    for number in range(5):
        record.note("releases", [b"%d\n" % number])
        record.save()
        data = record.path.read_bytes()
        begin = 4096 * ((number + 1) % 2)
        for cut in (1, 50, 200):
            torn = data[:begin] + data[begin : begin + cut] + b"\0" * (4096 - cut) + data[begin + 4096 :]
            (tmp_path / "torn").write_bytes(torn)
            assert read_record(tmp_path / "torn").get("releases", [0])[0] == number
        assert read_record(record.path)["releases"][0] == number + 1
    record.close()
    (tmp_path / "torn").write_bytes(b"x" * 8192)
    with pytest.raises(OutputError, match="as it was written"):
        read_record(tmp_path / "torn")


def test_of_lines_noted_together_those_that_are_missing_may_only_come_as_noted(tmp_path: Path) -> None:
    """However many of them a kill let through, and however the next run cuts them into groups."""
    first, group = [b"0\n", b"1\n"], [b"%d\n" % number for number in range(2, 7)]
    record, log = KeyRecord(tmp_path / "k.published"), tmp_path / "releases.jsonl"
    record.compare(tmp_path)
    for lines in (first, group):
        record.note("releases", lines)
        record.save()
    record.close()
    noted = record.path.read_bytes()
    assert [len(each) for each in read_record(record.path)["releases"][1:]] == [64, 64, 4]
    for there in range(2, 8):
        lines = [*first, *group, b"7\n", b"8\n"]
        for together in (1, 2, 9 - there):
            record.path.write_bytes(noted)
            log.write_bytes(b"".join(lines[:there]))
            again = KeyRecord(record.path)
            assert again.compare(tmp_path) is None
            again.save()
            for begin in range(there, 9, together):
                again.note("releases", lines[begin : min(begin + together, 9)])
                again.save()
            again.close()
            assert read_record(record.path)["releases"][0] == 9
        for other in range(there, 7):
            record.path.write_bytes(noted)
            log.write_bytes(b"".join(lines[:there]))
            again = KeyRecord(record.path)
            again.compare(tmp_path)
            with pytest.raises(KeyUsedError, match=f"line {other + 1} of releases"):
                again.note("releases", [*lines[there:other], b"other\n", *lines[other + 1 :]])
            again.close()
            assert record.path.read_bytes() == noted
    for wrong in ([], first[:1], [*first, b"x\n"], [b"x\n", *first[1:], *group]):
        record.path.write_bytes(noted)
        log.write_bytes(b"".join(wrong))
        again = KeyRecord(record.path)
        with pytest.raises(KeyUsedError, match="7 steps are published"):
            again.compare(tmp_path)
        again.close()


def test_the_longest_note_fits_in_its_place(tmp_path: Path) -> None:
    """Of most lines together, in a folder with the longest name, of two bytes a letter."""
    folder = tmp_path / ("ä" * 120) / ("ä" * 120)
    folder.mkdir(parents=True)
    record = KeyRecord(tmp_path / "k.published")
    record.compare(folder)
    record.check_noise({"deployment": "ä" * 500}, is_accepted=False)
    for log in ("releases", "revised"):
        for _ in range(2):
            record.note(log, [b"a line\n"] * MOST_TOGETHER)
            record.save()
            assert record.path.stat().st_size <= 2 * 4096
    for log in ("releases", "revised"):  # late values of a whole day in one commit
        record.note(log, [b"a line\n"] * 100 * MOST_TOGETHER)
    record.save()
    record.close()
    assert read_record(record.path)["revised"][0] == 102 * MOST_TOGETHER
    assert record.path.stat().st_size <= 2 * 4096


def test_two_runs_never_have_one_key(tmp_path: Path) -> None:
    made = Deployment(tmp_path)
    made.run("out", day(2), keep_open=True)
    held = KeyRecord(made.record)
    held.compare(tmp_path / "out")
    with pytest.raises(OutputLockedError, match="one run of a deployment"):
        made.run("out", day())
    held.close()
    assert len(made.run("out", day())) == STEPS


def test_the_key_of_the_next_epoch_knows_what_the_one_before_published(tmp_path: Path) -> None:
    made = Deployment(tmp_path)
    made.run("out", day(2), keep_open=True)
    shutil.copytree(tmp_path / "out", tmp_path / "backup")
    made.run("out", day(4), keep_open=True)
    advance_noise_key(settings(**made.changed), tmp_path / "out")
    with pytest.raises(KeyUsedError):
        made.run("backup", day(), accept_changes=True)
    with pytest.raises(KeyUsedError):
        made.run("new", day())
    assert len(made.run("out", day())) == STEPS


def test_a_log_on_kafka_and_a_folder_never_share_a_key(tmp_path: Path) -> None:
    """Nor do two logs, of two prefixes or one that was deleted and made again, nor an older copy of one."""
    made = Deployment(tmp_path)
    key = NoiseKey.load(made.key)
    path = record_file(settings(**made.changed), None, key)
    for partition, step in ((0, 5), (1, 3), (0, 9)):
        claim_for_kafka(path, "topic-1", partition, step)
    claim_for_kafka(path, "topic-1", 1, 3)
    for topic, partition, step in (("topic-2", 0, 9), ("topic-1", 0, 8), ("topic-1", 1, 2)):
        with pytest.raises(KeyUsedError, match="keys create"):
            claim_for_kafka(path, topic, partition, step)
    with pytest.raises(KeyUsedError, match="a log on Kafka"):
        made.run("out", day())
    made.run("out", day(), take_over="the cluster is gone")
    with pytest.raises(KeyUsedError, match="run in a folder"):
        claim_for_kafka(path, "topic-1", 0, 9)


def test_beside_a_key_that_cannot_be_written_a_log_on_kafka_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A container mounts its key; what is noted there is read all the same."""
    caplog.set_level(logging.INFO)
    (tmp_path / "file").touch()
    claim_for_kafka(tmp_path / "file" / "note", "topic-1", 0, 4)
    assert "set key_record" in caplog.text


def test_beside_a_key_that_cannot_be_written_a_run_says_where_else_its_note_may_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="set key_record to a folder of its own"):
        KeyRecord(tmp_path / "file" / "note").compare(tmp_path / "out")


def test_a_key_in_no_file_is_noted_beside_the_output_or_where_the_settings_say(tmp_path: Path) -> None:
    run_on(tmp_path / "out", [day(4)])
    assert len(list((tmp_path / "out-keys").glob("*.published"))) == 1
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(KeyUsedError):
        run_on(tmp_path / "out", [day(4)])
    chosen = settings(key_record=str(tmp_path / "kept"))
    key = NoiseKey.parse(chosen.noise_key_secret.get_secret_value())  # type: ignore[union-attr]
    assert record_file(chosen, tmp_path / "out", key).parent == tmp_path / "kept"
