"""Reading a large JSON object piece by piece: member by member, and long arrays element by element."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TextIO

from models.text.documents import DocumentError, distinct_members, integer

_CHUNK = 1 << 16
_SPACE = " \t\r\n"


class JsonSyntaxError(ValueError):
    """Text that is not JSON; says the line and what was expected there."""


class JsonStream:
    """A cursor over JSON text that keeps only the value it is reading in memory."""

    def __init__(self, source: TextIO) -> None:
        self._source = source
        self._text = ""
        self._at = 0
        self._lines = 0
        self._ended = False
        self._decoder = json.JSONDecoder(parse_int=integer, object_pairs_hook=distinct_members)

    @property
    def line(self) -> int:
        """The line, from 1, on which the cursor stands."""
        return 1 + self._lines + self._text.count("\n", 0, self._at)

    def members(self) -> Iterator[str]:
        """The keys of the object at the cursor; read each one's value before asking for the next."""
        seen = set()
        for key in self._items("{", "}", self._key):
            if key in seen:
                raise JsonSyntaxError(f"line {self.line}: a member of an object is named twice")
            seen.add(key)
            yield key

    def elements(self) -> Iterator[Any]:
        """The elements of the array at the cursor, decoded one at a time."""
        yield from self._items("[", "]", self.value)

    def peek(self) -> str:
        """The next character that is not space; empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text) or not self._more(_CHUNK):
                return self._text[self._at : self._at + 1]

    def value(self) -> Any:
        """The whole value at the cursor."""
        self.peek()
        wanted = _CHUNK
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except RecursionError:
                raise JsonSyntaxError(f"line {self.line}: nested too deeply") from None
            except json.JSONDecodeError as error:
                if not self._more(wanted):
                    self._at = error.pos
                    raise JsonSyntaxError(f"line {self.line}: {error.msg}") from None
            except DocumentError as error:
                raise JsonSyntaxError(f"line {self.line}: {error}") from None
            else:
                # A number may go on in what has not been read yet.
                if end < len(self._text) or not self._more(wanted):
                    self._at = end
                    return value
            wanted *= 2  # so that a long value is not decoded from its start over and over

    def finish(self) -> None:
        """Refuse anything but space after the document."""
        if self.peek():
            raise JsonSyntaxError(f"line {self.line}: the end of the document was expected")

    def _items(self, opening: str, closing: str, read: Any) -> Iterator[Any]:
        """What ``read`` finds between the brackets, separated by commas."""
        self._expect(opening)
        if self.peek() == closing:
            self._at += 1
            return
        while True:
            yield read()
            if self.peek() == closing:
                self._at += 1
                return
            self._expect(",")

    def _key(self) -> str:
        """A member's key and the colon behind it."""
        if self.peek() != '"':
            raise JsonSyntaxError(f"line {self.line}: a name in double quotes was expected")
        key = str(self.value())
        self._expect(":")
        return key

    def _expect(self, character: str) -> None:
        """Step over one character that has to be there."""
        if self.peek() != character:
            raise JsonSyntaxError(f"line {self.line}: {character!r} was expected")
        self._at += 1

    def _more(self, wanted: int) -> bool:
        """Forget what is behind the cursor and read on; false at the end of the source."""
        if self._ended:
            return False
        self._lines += self._text.count("\n", 0, self._at)
        read = self._source.read(wanted)
        self._text = self._text[self._at :] + read
        self._at = 0
        self._ended = not read
        return bool(read)
