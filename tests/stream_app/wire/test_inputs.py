"""Reading lines: whatever the chunks, and from where an earlier run left them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.exceptions import InputError
from stream_app.setup.signals import StopRequest
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
