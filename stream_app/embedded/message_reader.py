"""The messages of an input: its lines, each parsed as JSON or as CSV below a header."""

from __future__ import annotations

from typing import NamedTuple

from stream_app.exceptions import InputError
from stream_app.steps import Origin
from stream_app.wire import (
    MAX_LINE_BYTES,
    InputMessage,
    Line,
    LineParser,
    LineReader,
    Reason,
    Rejected,
    parse,
    reading_parser,
    reject,
)


class Incoming(NamedTuple):
    """One message, or its dead letter, and where it came from."""

    content: InputMessage | Rejected
    origin: Origin


class MessageReader:
    """Reads messages from ``lines``; those of a CSV stand below its header line."""

    def __init__(self, lines: LineReader, *, is_csv: bool = False) -> None:
        self.lines = lines
        self._is_csv = is_csv
        self._parser: LineParser | None = None if is_csv else parse

    def read(self, line: Line, data: bytes) -> Incoming | None:
        """The message in a line; None for the header of a CSV."""
        origin = Origin(f"{self.lines.name}:{line.number}", data)
        if len(data) >= MAX_LINE_BYTES:
            hint = f"a line is shorter than {MAX_LINE_BYTES} bytes"
            return Incoming(reject(origin.source, data, Reason.TOO_LONG, hint), origin)
        if self._is_csv and line.number == 1 and self._begins_with_header(data):
            return None
        if self._parser is None:
            self._parser = reading_parser(self.lines.header or data)
        return Incoming(self._parser(data, origin.source), origin)

    def _begins_with_header(self, data: bytes) -> bool:
        """Take the columns of a CSV; the next file of one that is followed may go on without a header."""
        try:
            self._parser = reading_parser(data)
        except InputError:
            if self._parser is None:
                raise
            return False
        return True
