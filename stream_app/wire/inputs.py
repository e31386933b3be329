"""Where messages come from: a file, a pipe or a program, line by line, with a position to continue from.

A position is compared with the content, not the file name: a restart with the same input (also through a
pipe) skips what was taken; one with a continuation starts at its beginning. Only lines proved equal to what
was taken are skipped. The lines of a pipe cannot be looked at in advance, so digests of its first lines are
kept: of each one at first, then further and further apart. Example: a restarted sender on a pipe sends its
first announcement again, then new readings. The first line has the digest of the earlier first line and is
skipped. The second line has another digest, so from there on this is another input, and every line is taken.
"""

from __future__ import annotations

import csv
import os
import re
import select
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from models.exceptions import ScheduleError, SensorError
from models.releases import SensorRegistry
from stream_app.exceptions import InputError, SettingsError
from stream_app.wire.messages import MAX_STEP, Activation, Reason, Rejected
from stream_app.wire.parsing import InputMessage, parse_fields, reject

MAX_LINE_BYTES = 1 << 20
"""Longer lines come in pieces of this size, each of them a malformed message."""
CHUNK_BYTES = 1 << 18
_EVERY_LINE = 256  # this many first lines have a mark each
_SPARSE = 64  # after them, a mark follows once the number of lines has grown by this part of itself
_MARK_BYTES = 7  # an integer of JSON
_MOST_UNPROVED = 1 << 16
_QUIET_CHUNKS = 3  # empty chunks in a row, after which no more lines are expected that could prove those held


class Line(NamedTuple):
    """One line without its end; ``data`` is None if nothing is waiting."""

    number: int
    data: bytes | None


class NextFile(NamedTuple):
    """Among the chunks of an input: the bytes after it are another file, from its beginning."""

    name: str


Chunks = Iterable[bytes | NextFile]
"""Bytes as they arrive; an empty chunk means that nothing is waiting. Ends with the input."""


@dataclass
class InputPosition:
    """How much of an input was taken: whole lines only, with a running CRC-32 of their bytes.

    ``head`` is the CRC-32 of the first lines, by which an input is recognised. ``is_whole`` says whether the
    input was read to its end; earlier versions did not record it.
    """

    line_count: int = 0
    byte_count: int = 0
    crc32: int = 0
    head: int = 0
    is_whole: bool | None = field(default=None, compare=False)

    def take(self, line: bytes, head_lines: int) -> None:
        """Add a line, with its end."""
        self.line_count += 1
        self.byte_count += len(line)
        self.crc32 = zlib.crc32(line, self.crc32)
        if self.line_count <= head_lines:
            self.head = self.crc32
        self.is_whole = False


class _Marks:
    """Digests of all lines up to certain ones, by which repeated lines are recognised."""

    def __init__(self) -> None:
        self.digests: list[int] = []
        self._hash = blake2b(digest_size=_MARK_BYTES)
        self._lines, self._next = 0, 1

    def take(self, line: bytes) -> bool:
        """Add a line; whether it has a mark."""
        self._hash.update(line)
        self._lines += 1
        if self._lines < self._next:
            return False
        self.digests.append(int.from_bytes(self._hash.digest()))
        self._next = self._lines + max(1, self._lines // _SPARSE if self._lines >= _EVERY_LINE else 1)
        return True

    def copy(self) -> _Marks:
        """A copy."""
        copied = _Marks()
        copied.digests, copied._hash = list(self.digests), self._hash.copy()
        copied._lines, copied._next = self._lines, self._next
        return copied


class LineReader:
    """Lines of a stream of bytes, from where an earlier run left it.

    ``head_lines`` first lines tell one input from another (2 for CSV, whose first line is the header). With
    ``keep_torn`` a last line without an end is left for later. If the bytes cannot be read a second time
    (``is_fleeting``: a pipe), a caller may stop only when all whole lines that were read are taken
    (:attr:`may_stop`), and ``marks`` of the earlier run show which lines come again. ``is_away`` says whether
    there is no input at the moment, so that silence says nothing about the sensors.
    """

    def __init__(
        self,
        name: str,
        chunks: Chunks,
        saved: Mapping[str, Any] | None = None,
        *,
        head_lines: int = 1,
        keep_torn: bool = False,
        is_fleeting: bool = False,
        marks: Sequence[int] = (),
        is_away: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name = name
        self.position = InputPosition()
        self.header: bytes | None = None
        self.is_away = is_away
        self._chunks = chunks
        self._saved = InputPosition(**saved) if saved else InputPosition()
        self._saved_marks = list(marks)
        self._head_lines = head_lines
        self._keep_torn = keep_torn
        self._is_fleeting = is_fleeting
        self._has_more = False
        self._marks = _Marks()
        self._proved_marks = self._marks.copy()
        self._seen = InputPosition()  # including lines held until they are proved
        self._held: list[bytes] = []
        self._quiet = 0
        self._is_first_file = True

    def __iter__(self) -> Iterator[Line]:
        """Every line not yet taken, and lines without data while nothing is waiting."""
        for line in self._whole_lines():
            if isinstance(line, NextFile):
                self._begin(line)
            elif line is None:
                yield from self._wait()
            elif self.is_behind:
                yield from self._skip_or_hold(line)
            else:
                yield self._taken(line)
        yield from self._end()

    @property
    def reached(self) -> InputPosition:
        """Where the next run continues; where the earlier run stopped, until its lines are skipped."""
        return self._saved if self.is_behind else self.position

    @property
    def marks(self) -> Sequence[int]:
        """The marks of the position that was reached."""
        return self._saved_marks if self.is_behind else self._marks.digests

    @property
    def may_stop(self) -> bool:
        """Whether nothing is lost if no further line is asked for."""
        return not (self._is_fleeting and (self._has_more or self._held))

    @property
    def is_behind(self) -> bool:
        """Whether lines that an earlier run has taken are still to be skipped."""
        return self.position.line_count < self._saved.line_count

    @property
    def _recognisable_lines(self) -> int:
        """Lines needed before it is known whether this is the input of the earlier run."""
        return min(self._head_lines, self._saved.line_count)

    def _skip_or_hold(self, line: bytes) -> Iterator[Line]:
        """Skip a line that was taken before; from the first one that was not, this is another input."""
        self._quiet = 0
        self._seen.take(line, self._head_lines)
        has_mark = self._is_fleeting and self._marks.take(line)
        is_early = self._seen.line_count <= self._recognisable_lines
        if self._is_fleeting or is_early:
            self._held.append(line)
        elif self._seen.line_count == 1:
            self._keep_header(line)
        is_equal = self._is_equal(has_mark=has_mark)
        if is_equal:
            self._skip_held()
        elif is_equal is False and not (self._is_fleeting or is_early):
            raise self._changed("its content changed before the point that was reached")
        elif is_equal is False or len(self._held) > _MOST_UNPROVED:
            yield from self._give_held()

    def _is_equal(self, *, has_mark: bool) -> bool | None:
        """Whether everything seen is what was taken; None if this line does not show it."""
        seen, saved = self._seen, self._saved
        if seen.line_count == saved.line_count:
            return seen == saved
        number = len(self._marks.digests)
        if has_mark and number <= len(self._saved_marks):
            return self._marks.digests[-1] == self._saved_marks[number - 1]
        return seen.head == saved.head if seen.line_count == self._recognisable_lines else None

    def _skip_held(self) -> None:
        if self.position.line_count == 0 and self._held:
            self._keep_header(self._held[0])
        self.position, self._held = replace(self._seen), []
        if self._is_fleeting:
            self._proved_marks = self._marks.copy()

    def _give_held(self) -> Iterator[Line]:
        """Take the held lines, which were not proved the same; a line taken twice changes nothing."""
        self._saved, self._saved_marks, self._marks = InputPosition(), [], self._proved_marks
        held, self._held = self._held, []
        for number, line in enumerate(held):
            self._held = held[number + 1 :] if number + 1 < len(held) else []
            yield self._taken(line)

    def _taken(self, line: bytes) -> Line:
        """Take one line, to be handed out without the zero bytes that a power failure may put before it."""
        if self.position.line_count == 0:
            self._keep_header(line)
        self.position.take(line, self._head_lines)
        if self._is_fleeting:
            self._marks.take(line)
        return Line(self.position.line_count, line.rstrip(b"\r\n").lstrip(b"\0"))

    def _keep_header(self, line: bytes) -> None:
        self.header = line.rstrip(b"\r\n")

    def _wait(self) -> Iterator[Line]:
        """Nothing is waiting; lines held for a proof that does not come are taken."""
        self._quiet += 1
        if self._held and self._is_fleeting and self._quiet >= _QUIET_CHUNKS:
            yield from self._give_held()
        yield Line(self.position.line_count, None)

    def _begin(self, file: NextFile) -> None:
        """Another file begins; the first one may be that of the earlier run."""
        if self.is_behind and not self._is_first_file:
            raise self._changed("it ends before the point that was reached")
        self.name = file.name
        if not self._is_first_file:
            self.position, self._saved = InputPosition(is_whole=False), InputPosition()
        self._is_first_file = False

    def _end(self) -> Iterator[Line]:
        """The input has ended."""
        if self.is_behind and self._seen.line_count:
            if not self._held:
                raise self._changed("it ends before the point that was reached")
            yield from self._give_held()
        self.reached.is_whole = True

    def _changed(self, how: str) -> InputError:
        """The error for an input that only begins like the earlier one."""
        return InputError(
            f"input {self.name} must be the one this output was made from, or a new one",
            how,
            "give the unchanged input, or only what follows",
        )

    def _whole_lines(self) -> Iterator[bytes | NextFile | None]:
        """Lines with their ends; None for an empty chunk."""
        rest = b""
        for chunk in self._chunks:
            if isinstance(chunk, NextFile):
                if rest:
                    yield rest  # its writer is done with that file
                rest = b""
                yield chunk
                continue
            if not chunk:
                yield None
                continue
            *lines, rest = (rest + chunk).split(b"\n")
            *whole, rest = _pieces(rest) or [b""]
            whole = [piece for line in lines for piece in _pieces(line + b"\n")] + whole
            for number, line in enumerate(whole, start=1):
                self._has_more = number < len(whole)
                yield line
        if rest and not self._keep_torn:
            yield rest


def _pieces(line: bytes) -> list[bytes]:
    """A line in pieces no longer than the limit, so that an endless line cannot fill the memory."""
    return [line[start : start + MAX_LINE_BYTES] for start in range(0, len(line), MAX_LINE_BYTES)]


class FileChunks:
    """Bytes of a file or pipe. ``wake`` is a descriptor that ends the wait for a pipe, e.g. on a signal.

    ``wait_seconds`` says how long the next wait may be. ``name`` is used in errors.
    """

    def __init__(
        self,
        descriptor: int,
        wake: int | None = None,
        wait_seconds: Callable[[], float] = lambda: 1.0,
        name: str = "input",
    ) -> None:
        self._descriptor = descriptor
        self._wake = wake
        self._wait_seconds = wait_seconds
        self._name = name
        self.is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)

    def __iter__(self) -> Iterator[bytes]:
        """Read until the end; an empty chunk if nothing is waiting, and after each wait without input."""
        timeout_seconds = 0.0
        while True:
            if not (self.is_regular or self._has_input(timeout_seconds)):
                yield b""
                timeout_seconds = self._wait_seconds()
                continue
            timeout_seconds = 0.0
            with reading(self._name):
                chunk = os.read(self._descriptor, CHUNK_BYTES)
            if not chunk:
                return
            yield chunk

    def _has_input(self, timeout_seconds: float) -> bool:
        """Wait for input, a signal or the time-out."""
        watched = [self._descriptor] + ([] if self._wake is None else [self._wake])
        ready, _, _ = select.select(watched, [], [], timeout_seconds)
        return self._descriptor in ready


def require_lines(registry: SensorRegistry) -> None:
    """:class:`SettingsError` where an activation of all sensors would be too long for a line."""
    names = tuple(sensor.name for sensor in registry.sensors)
    size = len(Activation(v=1, step=MAX_STEP, sensors=names).line())
    if size >= MAX_LINE_BYTES:
        raise SettingsError(
            f"an activation of all {len(names)} sensors must fit in a line of {MAX_LINE_BYTES} bytes",
            f"up to {size} bytes",
            "shorten the names of sensors, let fewer of them count, or announce steps with --schedule",
        )


def open_input(path: Path, *, follow: bool = False) -> int:
    """A descriptor to read a file from; :class:`InputError` when it cannot be opened.

    A pipe is opened without waiting for its writer, so that a signal does not wait either; a followed pipe
    does not end when a writer leaves.
    """
    with reading(path):
        is_pipe = stat.S_ISFIFO(path.stat().st_mode)
        way = (os.O_RDWR if follow else os.O_RDONLY) | os.O_NONBLOCK if is_pipe else os.O_RDONLY
        return os.open(path, way | os.O_CLOEXEC)


@contextmanager
def reading(name: object) -> Iterator[None]:
    """Turn an error of the system into an :class:`InputError`."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"input {name} must be readable", error.strerror, "check path, permissions and disk"
        ) from error


# Readings and activations as CSV: ``step,sensor,count`` and ``step,sensor``, with a header line.

LineParser = Callable[[bytes, str], "InputMessage | Rejected"]

READING_COLUMNS = ("step", "sensor", "count")
ACTIVATION_COLUMNS = ("step", "sensor")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


def reading_parser(header: bytes) -> LineParser:
    """A parser of the lines below a header; the columns may be in any order."""
    columns = _split(header)
    if columns is None or sorted(columns) != sorted(READING_COLUMNS):
        raise InputError(
            "a CSV of readings must have the columns step, sensor and count",
            _columns_found(columns, READING_COLUMNS),
            "add a header line, or correct it",
        )

    def parse(line: bytes, source: str) -> InputMessage | Rejected:
        values = _split(line)
        if values is None or len(values) != len(columns):
            return reject(source, line, Reason.NOT_CSV, f"write {len(columns)} values: {','.join(columns)}")
        fields: dict[str, object] = dict(zip(columns, values, strict=True))
        for name in ("step", "count"):
            fields[name] = _number(str(fields[name]))
        return parse_fields({"v": 1, "type": "reading", **fields}, line, source)

    return parse


def load_activations(path: Path, registry: SensorRegistry) -> dict[int, tuple[str, ...]]:
    """The sensors of each step of a CSV of activations; :class:`ScheduleError` names the wrong line.

    Other columns are ignored: mechanisms come from the settings.
    """
    announced: dict[int, list[str]] = {}
    for number, step, sensor in _data_lines(path):
        if not _INTEGER.fullmatch(step) or int(step) < 0:
            raise _wrong(path, number, "the step must be an integer >= 0", "another text")
        if sensor in announced.setdefault(int(step), []):
            raise _wrong(path, number, f"step {step} must name each sensor once", sensor)
        try:
            registry.get(sensor)
        except SensorError as error:
            raise ScheduleError(f"{path} line {number}: {error.must}", error.got, error.remedy) from error
        announced[int(step)].append(sensor)
    return {step: tuple(names) for step, names in announced.items()}


def _data_lines(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line number, step and sensor of each row."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as content:
            rows = list(csv.reader(content, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ScheduleError(f"activations {path} must be a readable CSV", error, "check the file") from error
    header = [name.strip() for name in rows[0]] if rows else []
    if any(name not in header for name in ACTIVATION_COLUMNS):
        found = _columns_found(header, ACTIVATION_COLUMNS)
        raise _wrong(path, 1, "the header must name step and sensor", found)
    step, sensor = (header.index(name) for name in ACTIVATION_COLUMNS)
    short = next((i for i, row in enumerate(rows) if len(row) != len(header)), None)
    if short is not None:
        raise _wrong(path, short + 1, f"a line must have {len(header)} values", len(rows[short]))
    for number, row in enumerate(rows[1:], start=2):
        yield number, row[step].strip(), row[sensor].strip()


def _split(line: bytes) -> Sequence[str] | None:
    """The values of one line, or None when it is not CSV in UTF-8."""
    try:
        rows = list(csv.reader([line.decode("utf-8")], strict=True))
    except (UnicodeDecodeError, csv.Error):
        return None
    return [value.strip() for value in rows[0]] if len(rows) == 1 else None


def _columns_found(columns: Sequence[str] | None, wanted: Sequence[str]) -> str:
    """The columns in words; the line is not quoted, because without a header it holds a count."""
    if columns is None:
        return "a line that is no CSV"
    found = [name for name in wanted if name in columns]
    return f"{len(columns)} columns" + (f", among them {', '.join(found)}" if found else ", none of them")


def _number(text: str) -> object:
    """The integer in a text, or the text itself, which the message will refuse."""
    return int(text) if _INTEGER.fullmatch(text) else text


def _wrong(path: Path, line: int, must: str, got: object) -> ScheduleError:
    """The error for a wrong line of an activation file."""
    return ScheduleError(f"{path} line {line}: {must}", got, "correct the line")


# A file of another kind is recognised by its first bytes, and refused before anything is written.

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


def checked_chunks(name: str, chunks: Chunks, *, is_csv: bool) -> Iterator[bytes | NextFile]:
    """The same bytes; :class:`InputError` if a file does not begin as messages do.

    A CSV that follows another one, as after a rotation, may have no header.
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
            raise _wrong_format(name, kind, remedy)


def check_start(name: str, start: bytes, *, is_csv: bool) -> None:
    """:class:`InputError` that names the kind of the input, if it is none that can be read."""
    check_kind(name, start)
    line, end, _ = start.partition(b"\n")
    line = line.strip()
    if is_csv:
        if line.startswith(b"{"):
            raise _wrong_format(name, "JSON read as CSV", "name it .jsonl, or give --jsonl")
        if end:
            reading_parser(line)
    elif line.startswith(b"["):
        raise _wrong_format(name, "a JSON list", "write its elements one a line: jq -c '.[]'")
    elif line == b"{":
        raise _wrong_format(name, "a JSON object over several lines", "write one a line: jq -c .")
    elif {part.strip().lower() for part in line.decode("utf-8", "replace").split(",")} >= set(
        READING_COLUMNS
    ):
        raise _wrong_format(name, "CSV read as JSON", "name it .csv, or give --csv")


def _wrong_format(name: str, kind: str, remedy: str) -> InputError:
    return InputError(f"input {name} must be messages, one a line", kind, remedy)
