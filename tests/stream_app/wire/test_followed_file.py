"""A followed file that is renamed, copied and cut, taken away, written over: nothing is lost unsaid."""

from __future__ import annotations

import errno
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_app.embedded import RunOptions, run
from stream_app.exceptions import InputError
from stream_app.watching.events import Observer, StepClosed
from stream_app.wire.clock import Clock
from stream_app.wire.followed_file import FollowedFile, Start, find_start
from stream_app.wire.inputs import LineReader, checked_chunks
from tests.stream_app.engine_support import (
    activation,
    json_lines,
    lines_of,
    outputs_of,
    population,
    reading,
    run_on,
    settings,
)


class Following:
    """A reader of a followed file that is asked for what is there, as often as one likes."""

    def __init__(self, path: Path, saved: dict[str, Any] | None = None, **accept: bool) -> None:
        start = find_start(path, saved, **accept)
        self.file = FollowedFile(path, start, wait_seconds=lambda: 0.0)
        chunks = checked_chunks(path.name, self.file, is_csv=False)
        self.reader = LineReader(path.name, chunks, saved if start.is_known else None, keep_torn=True)
        self._lines = iter(self.reader)

    def waiting(self) -> list[bytes]:
        """All lines that are there, until three looks in vain."""
        found, quiet = [], 0
        while quiet < 3:
            line = next(self._lines)
            quiet = quiet + 1 if line.data is None else 0
            found += [] if line.data is None else [line.data]
        return found

    @property
    def position(self) -> dict[str, Any]:
        return dict(vars(self.reader.reached))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "live.jsonl"
    made.write_bytes(b"one\ntwo\n")
    return made


@pytest.fixture
def following(path: Path) -> Iterator[Following]:
    made = Following(path)
    assert made.waiting() == [b"one", b"two"]
    yield made
    made.file.close()


def add(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def turn_over(path: Path, name: str = "live.jsonl.1") -> Path:
    return path.rename(path.with_name(name))


def test_a_renamed_file_is_read_to_its_end_and_then_the_new_one(path: Path, following: Following) -> None:
    """Its writer may go on with it until the new one has content, and end it without a line's end."""
    old = turn_over(path)
    add(old, b"three\n")
    assert following.waiting() == [b"three"]
    path.touch()
    add(old, b"four\nfi")
    assert following.waiting() == [b"four"]
    add(old, b"ve")
    add(path, b"six\nse")
    assert following.waiting() == [b"five", b"six"]
    add(path, b"ven\n")
    assert following.waiting() == [b"seven"]
    assert following.reader.position.line_count == 2


def test_whoever_writes_on_to_the_file_before_is_named(path: Path, following: Following) -> None:
    old = turn_over(path)
    add(path, b"three\n")
    assert following.waiting() == [b"three"]
    add(old, b"lost?\n")
    with pytest.raises(InputError, match=r"must not be written to any more.*after its 8 bytes.*append"):
        following.waiting()


def test_turns_while_nobody_looked_are_read_in_their_order(path: Path, following: Following) -> None:
    add(path, b"three\n")
    second, first = path.with_name("live.jsonl.1"), path.with_name("live.jsonl.2")
    path.rename(first)
    second.write_bytes(b"four\nfive\n")
    path.write_bytes(b"six\n")
    now = first.stat().st_mtime
    os.utime(second, (now + 1, now + 1))
    path.with_name("live.jsonl.notes").write_bytes(b"no input\n")
    assert following.waiting() == [b"three", b"four", b"five", b"six"]


def test_a_turn_that_is_packed_already_is_said(path: Path, following: Following) -> None:
    turn_over(path, "live.jsonl.2.gone")
    packed = path.with_name("live.jsonl.1.gz")
    packed.write_bytes(b"\x1f\x8b...")
    os.utime(packed, (4e9, 4e9))
    path.write_bytes(b"six\n")
    with pytest.raises(InputError, match=r"live\.jsonl\.1\.gz.*compressed; uncompress it.*delaycompress"):
        following.waiting()


@pytest.mark.parametrize("name", ["live.jsonl.1", "live.jsonl-20261126", "live-20261126.jsonl"])
def test_a_file_that_was_copied_and_cut_loses_nothing_of_the_copy(
    path: Path, following: Following, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    add(path, b"three\nfour\nfi")
    path.with_name(name).write_bytes(path.read_bytes())
    os.truncate(path, 0)
    with caplog.at_level(logging.WARNING):
        assert following.waiting() == [b"three", b"four", b"fi"]
    assert "a line written in that moment is lost to every reader" in caplog.text
    add(path, b"six\n")
    assert following.waiting() == [b"six"]
    add(path, b"seven and more than was there before the cut\n" * 9)
    assert len(following.waiting()) == 9


def test_a_writer_that_does_not_append_leaves_a_hole_and_is_heard(path: Path, following: Following) -> None:
    """It goes on where it was: before its next line are zeros, as after a loss of power."""
    path.with_name("live.jsonl.1").write_bytes(path.read_bytes())
    os.truncate(path, 0)
    with path.open("r+b") as file:
        file.seek(8)
        file.write(b"three\n")
    assert following.waiting() == [b"three"]


@pytest.mark.parametrize("content", [b"", b"ONE\n", b"ONE\nTWO\n", b"ONE\nTWO\nTHREE\n"])
def test_a_file_that_was_cut_or_written_over_is_an_error_and_no_silence(
    path: Path, following: Following, content: bytes
) -> None:
    """However long it is by the next look; a file beside it that is no copy of it is not taken for one."""
    path.with_name("live.jsonl.1").write_bytes(b"others\n" * 9)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"must only grow.*no copy; start again with --accept-changes"):
        following.waiting()


def test_a_file_that_is_cut_while_it_is_read_is_not_read_from_its_middle(
    path: Path, following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = os.read

    def late(descriptor: int, size: int) -> bytes:
        path.write_bytes(b"ONE\nTWO\nTHREE\n")  # after the look, before the read
        return read(descriptor, size)

    with monkeypatch.context() as patched, pytest.raises(InputError, match="must only grow"):
        patched.setattr(os, "read", late)
        following.waiting()
    assert following.reader.position.line_count == 2


def test_a_file_put_in_its_place_is_read_whatever_its_length(path: Path, following: Following) -> None:
    add(path, b"three\n")
    shorter = path.with_name("made")
    shorter.write_bytes(b"x\n")
    shorter.replace(path)
    assert following.waiting() == [b"three", b"x"]


def test_a_link_that_leads_elsewhere_is_followed(tmp_path: Path) -> None:
    for day, text in (("monday", b"one\n"), ("tuesday", b"two\n")):
        (tmp_path / day).mkdir()
        (tmp_path / day / "counts").write_bytes(text)
    link = tmp_path / "live.jsonl"
    link.symlink_to(tmp_path / "monday" / "counts")
    following = Following(link)
    assert following.waiting() == [b"one"]
    (tmp_path / "new").symlink_to(tmp_path / "tuesday" / "counts")
    add(tmp_path / "monday" / "counts", b"late\n")
    (tmp_path / "new").replace(link)
    assert following.waiting() == [b"late", b"two"]
    following.file.close()


def test_a_file_that_is_gone_is_waited_for_and_said(
    path: Path, following: Following, caplog: pytest.LogCaptureFixture
) -> None:
    path.unlink()
    with caplog.at_level(logging.WARNING):
        assert following.waiting() == []
    assert following.file.is_away
    assert [text for text in caplog.messages if "is gone: waiting for a file of this name" in text]
    path.write_bytes(b"three\n")
    assert following.waiting() == [b"three"]
    assert not following.file.is_away


def test_a_new_file_that_is_none_of_messages_is_refused(path: Path, following: Following) -> None:
    turn_over(path)
    path.write_bytes(b"\xef\xbb\xbfone\n")
    with pytest.raises(InputError, match="byte order mark"):
        following.waiting()


def test_a_new_file_that_may_not_be_read_is_an_error(
    path: Path, following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn_over(path)
    path.write_bytes(b"three\n")

    def refused(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched, pytest.raises(InputError, match=r"live\.jsonl must be readable"):
        patched.setattr(os, "open", refused)
        following.waiting()


def test_a_share_that_fails_is_an_error(
    path: Path, following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a network file system's does whose server was replaced."""

    def stale(*_: object) -> os.stat_result:
        raise OSError(errno.ESTALE, "Stale file handle")

    with monkeypatch.context() as patched, pytest.raises(InputError, match="readable, got Stale file handle"):
        patched.setattr(os, "fstat", stale)
        following.waiting()


def test_standard_input_cannot_be_followed(tmp_path: Path) -> None:
    """It would end with its writer, and steps would be closed."""
    with pytest.raises(InputError, match=r"file or a named pipe.*--keep-open"):
        run(settings(), RunOptions(tmp_path / "out", follow=True), population())
    assert not (tmp_path / "out").exists()


# Where an earlier run stopped


def stopped(path: Path) -> dict[str, Any]:
    """The position of a run that has read what is there."""
    following = Following(path)
    following.waiting()
    following.file.close()
    return following.position


@pytest.mark.parametrize("way", ["grown", "renamed", "renamed twice", "copied and cut", "replaced by more"])
def test_a_restart_finds_where_the_earlier_run_stopped(path: Path, way: str) -> None:
    saved = stopped(path)
    add(path, b"three\n")
    expected = [b"three", b"four"]
    if way == "renamed":
        turn_over(path)
    elif way == "renamed twice":
        old = turn_over(path, "live.jsonl.2")
        path.with_name("live.jsonl.1").write_bytes(b"between\n")
        os.utime(path.with_name("live.jsonl.1"), (old.stat().st_mtime + 1,) * 2)
        expected.insert(1, b"between")
    elif way == "copied and cut":
        path.with_name("live.jsonl.1").write_bytes(path.read_bytes())
        os.truncate(path, 0)
    elif way == "replaced by more":
        path.with_name("made").write_bytes(path.read_bytes())
        path.with_name("made").replace(path)
    add(path, b"four\n")
    following = Following(path, saved)
    assert following.waiting() == expected
    following.file.close()


def test_a_restart_without_what_was_not_read_is_refused_unless_accepted(path: Path) -> None:
    """Only the operator can know that nothing is missing; an input that was read to its end may be left."""
    saved = stopped(path)
    path.write_bytes(b"three\n")
    with pytest.raises(
        InputError, match=r"up to byte 8.*put the earlier file beside it as live\.jsonl\.1.*accept"
    ):
        Following(path, saved)
    for known, accept in (
        (saved, True),
        ({**saved, "is_whole": True}, False),
        ({**saved, "is_whole": None}, False),
    ):
        following = Following(path, known, accept_changes=accept)
        assert following.waiting() == [b"three"]
        following.file.close()


def test_a_file_that_only_begins_the_same_is_no_place_to_continue(path: Path) -> None:
    """The first line alone proves nothing."""
    saved = stopped(path)
    path.write_bytes(b"one\nTWO\nthree\n")
    with pytest.raises(InputError, match="up to byte 8"):
        Following(path, saved)
    assert find_start(path, saved, accept_changes=True) == Start([path], is_known=False)


# A run


class Rotating(Observer):
    """Does something to the input after some steps, adds the next lines, and stops the run after the last."""

    def __init__(
        self, path: Path, turns: dict[int, bytes], last: int, turn: Callable[[Path], object]
    ) -> None:
        self.path, self.turns, self.last, self.turn = path, turns, last, turn

    def closed(self, event: StepClosed) -> None:
        if event.step in self.turns:
            self.turn(self.path)
            add(self.path, self.turns[event.step])
        if event.step == self.last:
            os.kill(os.getpid(), signal.SIGTERM)


def copy_and_cut(path: Path) -> None:
    path.with_name("live.jsonl.1").write_bytes(path.read_bytes())
    os.truncate(path, 0)


def part(first: int, end: int) -> bytes:
    """Steps that close as soon as they are read."""
    return lines_of(
        message
        for step in range(first, end)
        for message in (activation(step, "A", "B"), reading(step, "A", 30 + step), reading(step, "B", 7))
    )


@pytest.mark.parametrize("turn", [turn_over, copy_and_cut, Path.unlink])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_run_on_a_file_that_is_turned_over_gives_the_same_files(
    tmp_path: Path, turn: Callable[[Path], object], restarts: bool
) -> None:
    """As on one file, also where it is turned over while no run is there."""
    run_on(tmp_path / "whole", [part(0, 12)], keep_open=True)
    path = tmp_path / "live.jsonl"
    path.write_bytes(part(0, 5))
    options = RunOptions(tmp_path / "out", path, follow=True)
    if not restarts:
        watch = Rotating(path, {4: part(5, 9), 8: part(9, 12)}, 11, turn)
        run(settings(), options, population(), observer=watch)
    elif turn is Path.unlink:
        run(settings(), options, population(), observer=Rotating(path, {}, 4, turn))
        path.write_bytes(part(5, 12))
        with pytest.raises(InputError, match="or have been rotated"):
            run(settings(), options, population())
        assert len(json_lines(tmp_path / "out" / "releases.jsonl")) == 5
        return
    else:
        run(settings(), options, population(), observer=Rotating(path, {}, 3, turn))
        turn(path)
        add(path, part(5, 9))
        watch = Rotating(path, {8: part(9, 12)}, 11, turn)
        run(settings(), options, population(), observer=watch)
    found, expected = outputs_of(tmp_path / "out"), outputs_of(tmp_path / "whole")
    assert found == expected


def test_steps_do_not_close_by_the_clock_while_the_input_is_gone(tmp_path: Path) -> None:
    """Silence is the sensors' only where they could be heard."""
    path, looks = tmp_path / "live.jsonl", [0]
    path.write_bytes(part(0, 2))

    class Late(Clock):
        """Once the input is gone it is three steps later; after some looks it comes back."""

        def now_seconds(self) -> float:
            looks[0] += not path.exists()
            if looks[0] == 12:
                path.write_bytes(part(2, 4))
            return 124.0 if not looks[0] else 124.0 + 60 * 3

        def monotonic_seconds(self) -> float:
            return super().monotonic_seconds() + 10.0 * looks[0]

    class Taking(Observer):
        def closed(self, event: StepClosed) -> None:
            if event.step == 1:
                path.unlink()
            if event.step == 3:
                os.kill(os.getpid(), signal.SIGTERM)

    run(
        settings(grace_seconds=1.0, origin=0),
        RunOptions(tmp_path / "out", path, follow=True),
        population(),
        observer=Taking(),
        clock=Late(),
    )
    released = json_lines(tmp_path / "out" / "releases.jsonl")
    assert looks[0] >= 12
    assert [len(step["releases"]) for step in released] == [2, 2, 2, 2]
