"""What an input is, by its first bytes: a file of another kind is refused before anything is written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from stream_app.exceptions import InputError
from stream_app.wire.csv_messages import READING_COLUMNS, reading_parser
from stream_app.wire.inputs import Chunks, NextFile, open_input, reading

_LOOKED_AT_BYTES = 4096
_AS_TEXT = "write one JSON object a line (.jsonl), or step,sensor,count as CSV (.csv)"
_UNPACK = "unpack it first, and give the file within"
_AS_UTF8 = "save it as UTF-8 without a byte order mark"
_KINDS = (
    (b"PAR1", "a Parquet file", _AS_TEXT),
    (b"ARROW1", "an Arrow file", _AS_TEXT),
    (b"SQLite format 3", "a SQLite database", _AS_TEXT),
    (b"%PDF", "a PDF", _AS_TEXT),
    (b"PK\x03\x04", "a spreadsheet or zip archive", "export it as CSV with the columns step, sensor, count"),
    (b"\x1f\x8b", "a gzip file", _UNPACK),
    (b"BZh", "a bzip2 file", _UNPACK),
    (b"\xfd7zXZ", "an xz file", _UNPACK),
    (b"\x28\xb5\x2f\xfd", "a zstd file", _UNPACK),
    (b"\xff\xfe", "text in UTF-16", _AS_UTF8),
    (b"\xfe\xff", "text in UTF-16", _AS_UTF8),
    (b"\xef\xbb\xbf", "text with a byte order mark", _AS_UTF8),
)


def check_file(path: Path, *, is_csv: bool) -> None:
    """:class:`InputError` for a file that does not begin as messages do; a pipe is left unread."""
    if path.exists() and not path.is_file():
        if path.is_dir():
            raise InputError(f"input {path} must be a file", "a folder", "name a file in it")
        return
    descriptor = open_input(path)
    try:
        with reading(path):
            start = os.read(descriptor, _LOOKED_AT_BYTES)
        check_start(path.name, start, is_csv=is_csv)
    finally:
        os.close(descriptor)


def checked_chunks(
    name: str, chunks: Chunks | Iterable[bytes | NextFile], *, is_csv: bool
) -> Iterator[bytes | NextFile]:
    """The same bytes; :class:`InputError` at the first ones of a file if they do not begin as messages do.

    A CSV that another one is turned over to may go on without a header.
    """
    is_checked, files = False, 0
    for chunk in chunks:
        if isinstance(chunk, NextFile):
            name, is_checked, files = chunk.name, False, files + 1
        elif chunk and not is_checked:
            is_checked = True
            if files > 1:
                check_kind(name, chunk)
            else:
                check_start(name, chunk, is_csv=is_csv)
        yield chunk


def check_kind(name: str, start: bytes) -> None:
    """:class:`InputError` for what is no text of ours, by its first bytes."""
    for magic, kind, remedy in _KINDS:
        if start.startswith(magic):
            raise _wrong(name, kind, remedy)


def check_start(name: str, start: bytes, *, is_csv: bool) -> None:
    """:class:`InputError` that names the kind of the input, if it is none that can be read."""
    check_kind(name, start)
    line, end, _ = start.partition(b"\n")
    line = line.strip()
    if is_csv:
        if line.startswith(b"{"):
            raise _wrong(name, "JSON read as CSV", "name it .jsonl, or give --jsonl")
        if end:
            reading_parser(line)
    elif line.startswith(b"["):
        raise _wrong(name, "a JSON list", "write its elements one a line: jq -c '.[]'")
    elif line == b"{":
        raise _wrong(name, "a JSON object over several lines", "write one a line: jq -c .")
    elif {part.strip().lower() for part in line.decode("utf-8", "replace").split(",")} >= set(
        READING_COLUMNS
    ):
        raise _wrong(name, "CSV read as JSON", "name it .csv, or give --csv")


def _wrong(name: str, kind: str, remedy: str) -> InputError:
    return InputError(f"input {name} must be messages, one a line", kind, remedy)
