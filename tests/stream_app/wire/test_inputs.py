"""Reading lines: whatever the chunks, and from where an earlier run left them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.exceptions import InputError
from stream_app.setup.this_process import StopRequest
from stream_app.wire import inputs
from stream_app.wire.inputs import FileChunks, LineReader, open_input

TEXT = b"first\nsecond\r\n\nfourth\n"


def read(
    chunks: Sequence[bytes], saved: dict[str, int] | None = None, head_lines: int = 1
) -> tuple[list[tuple[int, bytes | None]], dict[str, int]]:
    """All lines and the position after them."""
    reader = LineReader("test", chunks, saved, head_lines=head_lines)
    lines = [(line.number, line.data) for line in reader]
    return lines, dict(vars(reader.position))


def position_after(text: bytes, lines: int, head_lines: int = 1) -> dict[str, int]:
    """Where a run stands that took so many lines."""
    reader = LineReader("test", [text], head_lines=head_lines)
    for line in reader:
        if line.number == lines:
            break
    return dict(vars(reader.position))


@given(st.lists(st.binary(max_size=6)), st.data())
def test_lines_do_not_depend_on_how_the_bytes_come(pieces: list[bytes], data: st.DataObject) -> None:
    text = b"\n".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    chunks = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole, where = read([text] if text else [])
    parts, also = read(chunks)
    assert [line for line in parts if line[1] is not None] == whole
    assert also == where
    assert where["byte_count"] == len(text)


@given(st.integers(0, 4))
def test_the_same_input_again_goes_on_after_the_lines_that_were_taken(taken: int) -> None:
    whole, end = read([TEXT])
    rest, also = read([TEXT], position_after(TEXT, taken) if taken else None)
    assert rest == whole[taken:]
    assert also == end


def test_an_input_that_has_grown_goes_on_with_what_is_new() -> None:
    _, end = read([TEXT])
    lines, _ = read([TEXT, b"fifth\n"], end)
    assert lines == [(5, b"fifth")]


def test_another_input_is_read_from_its_beginning() -> None:
    """What a pipe brings after a restart need not begin with what was taken."""
    lines, where = read([b"fifth\nsixth\n"], position_after(TEXT, 3))
    assert lines == [(1, b"fifth"), (2, b"sixth")]
    assert where["line_count"] == 2


def test_csv_inputs_are_told_apart_by_the_line_below_the_header() -> None:
    first, second = b"step,sensor,count\n0,A,1\n", b"step,sensor,count\n9,A,1\n"
    lines, _ = read([second], position_after(first, 2, head_lines=2), head_lines=2)
    assert [number for number, _ in lines] == [1, 2]
    lines, _ = read([first], position_after(first, 2, head_lines=2), head_lines=2)
    assert lines == []


@pytest.mark.parametrize(
    ("text", "how"), [(b"first\nCHANGED\n\nfourth\n", "changed"), (b"first\nsecond\r\n", "ends before")]
)
def test_an_input_that_only_begins_the_same_is_refused(text: bytes, how: str) -> None:
    with pytest.raises(InputError, match=how):
        read([text], position_after(TEXT, 3))


def test_a_line_without_end_is_taken_in_pieces_and_does_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inputs, "MAX_LINE_BYTES", 8)
    assert read([b"x" * 20, b"y\nz\n"])[0] == read([b"x" * 20 + b"y\nz\n"])[0]
    assert [data for _, data in read([b"x" * 20, b"y\nz\n"])[0]] == [b"x" * 8, b"x" * 8, b"xxxxy", b"z"]


def test_a_torn_last_line_can_be_left_for_later() -> None:
    reader = LineReader("test", [b"one\ntw"], keep_torn=True)
    assert [line.data for line in reader] == [b"one"]
    assert reader.position.byte_count == 4


def test_a_pipe_may_be_left_only_between_what_was_read(tmp_path: Path) -> None:
    """The lines of a chunk cannot be read again from a pipe; a file can be left anywhere."""
    for is_fleeting, expected in [(True, [False, False, True, True]), (False, [True] * 4)]:
        reader = LineReader("test", [b"one\ntwo\nthree\nfo", b"ur\n"], is_fleeting=is_fleeting)
        assert [reader.may_stop for _ in reader] == expected


def piped(text: Sequence[bytes], saved: LineReader | None = None) -> tuple[LineReader, list[bytes]]:
    """A reader of a pipe that continues where another one stopped, and the lines it gave."""
    before = {} if saved is None else {"saved": dict(vars(saved.reached)), "marks": list(saved.marks)}
    reader = LineReader("pipe", text, is_fleeting=True, **before)  # type: ignore[arg-type]
    return reader, [line.data for line in reader if line.data is not None]


lines_of_pipes = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n"]), max_size=30)


@given(lines_of_pipes, lines_of_pipes, st.integers(0, 30), st.booleans())
def test_of_a_pipe_only_what_was_taken_is_skipped(
    first: list[bytes], then: list[bytes], same: int, is_dense: bool
) -> None:
    """Whatever a restarted sender repeats: nothing new is swallowed, and nothing that begins anew is lost."""
    then = first[:same] + then
    with pytest.MonkeyPatch.context() as patched:
        if not is_dense:
            patched.setattr(inputs, "_EVERY_LINE", 3)
            patched.setattr(inputs, "_SPARSE", 2)
        before, given = piped(first)
        assert given == [line.rstrip() for line in first]
        common = next(
            (n for n, pair in enumerate(zip(first, then, strict=False)) if pair[0] != pair[1]), None
        )
        common = min(len(first), len(then)) if common is None else common
        if common == len(then) < len(first) and then:
            if is_dense:
                with pytest.raises(InputError, match="ends before"):
                    piped(then, before)
            return
        again, given = piped(then, before)
        skipped = len(then) - len(given)
        assert skipped <= common
        assert given == [line.rstrip() for line in then[skipped:]]
        if is_dense or common == len(first):
            assert skipped == common
        if then:
            fresh, _ = piped(then)
            assert again.position == fresh.position
            assert list(again.marks) == list(fresh.marks)


def test_a_sender_on_a_pipe_may_say_its_first_announcement_again() -> None:
    """And again after the next restart."""
    hello, old, new = b"hello\n", [b"%d\n" % n for n in range(1000)], [b"new %d\n" % n for n in range(5)]
    reader, _ = piped([hello, *old])
    for _ in range(3):
        reader, given = piped([hello, b"", *new], reader)
        assert given == [line.rstrip() for line in new]
        new = [b"newer " + line for line in new]


def test_the_same_lines_from_a_slow_pipe_are_skipped_whatever_its_pauses() -> None:
    old = [b"%d\n" % n for n in range(2000)]
    before, _ = piped(old)
    slow = [piece for line in old for piece in (line, b"", b"")]
    assert piped([*slow, b"new\n"], before)[1] == [b"new"]


def test_what_cannot_be_proved_equal_is_taken_once_no_more_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not kept from the engine until as many lines have come as before, nor lost at a stop."""
    monkeypatch.setattr(inputs, "_EVERY_LINE", 1)
    monkeypatch.setattr(inputs, "_SPARSE", 1)
    before, _ = piped([b"%d\n" % n for n in range(100)])
    saved, marks = dict(vars(before.reached)), before.marks
    reader = LineReader("pipe", [b"0\n1\nx\n", b"", b"", b"", b"y\n"], saved, is_fleeting=True, marks=marks)
    shown = [(line.data, reader.may_stop) for line in reader]
    assert shown[:2] == [(None, False)] * 2
    assert shown[2:] == [(b"x", True), (None, True), (b"y", True)]


def test_a_position_of_an_earlier_version_swallows_nothing() -> None:
    """It has no marks: what comes is taken, or skipped once all of it is known to be the same."""
    before, _ = piped([b"one\n", b"two\n", b"three\n"])
    for text, expected in (
        ([b"one\ntwo\nthree\nfour\n"], [b"four"]),
        ([b"one\nnew\n", b"", b"", b"", b"newer\n"], [b"new", b"newer"]),
        ([b"other\n"], [b"other"]),
    ):
        reader = LineReader("pipe", text, dict(vars(before.reached)), is_fleeting=True)
        assert [line.data for line in reader if line.data is not None] == expected


@pytest.mark.parametrize("is_fleeting", [False, True])
def test_an_input_to_which_nothing_came_forgets_no_position(is_fleeting: bool) -> None:
    """Else all that was taken before would be taken again by the next run."""
    before = position_after(TEXT, 3)
    reader = LineReader("test", [b""], before, is_fleeting=is_fleeting)
    assert [line.data for line in reader] == [None]
    assert dict(vars(reader.reached)) == {**before, "is_whole": True}


def test_zeros_of_a_loss_of_power_do_not_take_the_next_line_with_them() -> None:
    assert read([b"one\n\0\0\0\0two\n"])[0] == [(1, b"one"), (2, b"two")]


def test_a_silent_pipe_is_no_reason_to_wait_for_ever() -> None:
    """Nothing for a while gives an empty chunk; a request to stop ends the wait at once."""
    receiving, sending = os.pipe()
    request = StopRequest()
    chunks = iter(FileChunks(receiving, request.wake, wait_seconds=lambda: 0.01))
    assert next(chunks) == b""
    os.write(sending, b"hello\n")
    assert next(chunks) == b"hello\n"
    patient = iter(FileChunks(receiving, request.wake, wait_seconds=lambda: 60.0))
    request.set()
    assert next(patient) == next(patient) == b""
    os.close(sending)
    os.close(receiving)
    request.close()


def test_a_missing_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.jsonl must be readable"):
        open_input(tmp_path / "nowhere.jsonl")


def test_a_named_pipe_without_a_writer_can_be_left(tmp_path: Path) -> None:
    """Opening it does not wait for the writer, so a signal ends the wait; then what comes is read."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    descriptor = open_input(path)
    chunks = iter(FileChunks(descriptor, wait_seconds=lambda: 0.01))
    assert [next(chunks) for _ in range(3)] == [b""] * 3
    with path.open("wb", buffering=0) as writer:
        writer.write(b"one\n")
        assert next(chunks) == b"one\n"
    assert list(chunks) == []
    os.close(descriptor)


def test_a_named_pipe_that_is_followed_outlives_its_writers(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    descriptor = open_input(path, follow=True)
    chunks = iter(FileChunks(descriptor, wait_seconds=lambda: 0.01))
    for text in (b"one\n", b"two\n"):
        with path.open("wb", buffering=0) as writer:
            writer.write(text)
        assert next(chunks) == text
        assert next(chunks) == b""
        assert next(chunks) == b""
    os.close(descriptor)


def test_an_input_that_breaks_while_it_is_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk or a network share that fails is no bug of ours, and no end of the input."""
    path = tmp_path / "day.jsonl"
    path.write_bytes(b"one\n")
    descriptor = open_input(path)

    def broken(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "read", broken)
        with pytest.raises(InputError, match=r"day\.jsonl must be readable, got Input/output error"):
            next(iter(FileChunks(descriptor, name="day.jsonl")))
    os.close(descriptor)
