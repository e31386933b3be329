"""Text from outside: JSON and TOML that cannot harm the reader, and what a misspelt name may mean."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

# Texts in cells of CSV files, which people open in spreadsheets: a name must not become a formula.
#
# A spreadsheet works out a cell that begins with ``=``, ``+``, ``-`` or ``@`` (or a tab, or a carriage
# return before one): ``=HYPERLINK(...)`` as a sensor's name would send what the sheet holds to whoever
# named it. An apostrophe before it makes it a text.

_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def safe_cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula; unchanged where it would not."""
    return f"'{text}" if _FORMULA.match(text) else text


def cell_text(cell: str) -> str:
    """The text that :func:`safe_cell` made a cell of."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


# JSON and TOML from outside. Whatever the text is, it becomes a value or a :class:`DocumentError`.

_MOST_DIGITS = 20  # of a 64-bit integer with its sign; no document here has a use for more
_FAR = 10**_MOST_DIGITS


class DocumentError(ValueError):
    """Text that is not the JSON or TOML it should be; says what was expected where, never the text itself."""


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON document; of two members of one name readers differ in which counts."""
    try:
        return json.loads(text, parse_int=integer, object_pairs_hook=distinct_members)
    except RecursionError:
        raise DocumentError("nested too deeply") from None
    except ValueError as error:
        raise DocumentError(str(error)) from None


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML document."""
    try:
        tables = tomllib.loads(text)
        _check_integers(tables)
    except RecursionError:
        raise DocumentError("nested too deeply") from None
    except ValueError as error:
        raise DocumentError(str(error)) from None
    return tables


def distinct_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose members have names of their own."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise DocumentError("a member of an object is named twice")
    return members


def integer(digits: str) -> int:
    """An integer that fits in 64 bits, or almost: what is far beyond would overflow somewhere else."""
    if len(digits) > _MOST_DIGITS:
        raise DocumentError(f"an integer of {len(digits)} digits does not fit in 64 bits")
    return int(digits)


def _check_integers(value: object) -> None:
    """The same of a document that is already read."""
    if isinstance(value, int) and abs(value) > _FAR:
        raise DocumentError("an integer does not fit in 64 bits")
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_integers(item)


# Names that differ from a wrong one by a single slip: what to suggest, at a cost that no name can raise.
#
# An index from each name's variants to the names: its letters without regard to case and punctuation, and
# those with one letter left out. Two names share a variant when one letter was added, left out, replaced or
# swapped with its neighbour: ``statoin`` and ``station`` without their ``o`` are the same. Looking a name
# up costs one visit a letter, however many names there are.

MOST_LETTERS = 48
"""Longer names are compared as a whole only, so that an index stays small."""


class CloseNames:
    """Suggestions among some names; building it costs one entry a letter."""

    def __init__(self, names: Iterable[str], at_most: int = 3) -> None:
        self._at_most = at_most
        self._by_variant: dict[str, list[str]] = {}
        for name in names:
            for variant in _variants(name):
                found = self._by_variant.setdefault(variant, [])
                if len(found) < at_most:
                    found.append(name)

    def like(self, name: str) -> tuple[str, ...]:
        """A few names within one slip of this one, the nearest kind of slip first."""
        close: dict[str, None] = {}
        for variant in _variants(name):
            close |= dict.fromkeys(self._by_variant.get(variant, ()))
        return tuple(close)[: self._at_most]


def _variants(name: str) -> Iterator[str]:
    """The letters and digits of a name, then those with each one left out."""
    if len(name) > 4 * MOST_LETTERS:
        return
    folded = "".join(filter(str.isalnum, name)).casefold()
    yield folded
    if len(folded) <= MOST_LETTERS:
        yield from dict.fromkeys(folded[:k] + folded[k + 1 :] for k in range(len(folded)))


# Reading a large JSON object piece by piece: member by member, and long arrays element by element.

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
