"""Text from outside: cells of spreadsheets, JSON and TOML of any content, and names that may be misspelt."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

# Texts in cells of CSV files, which people open in spreadsheets: a name must not become a formula.
#
# A spreadsheet evaluates a cell that begins with ``=``, ``+``, ``-`` or ``@`` (or with a tab or a carriage
# return before one): ``=HYPERLINK(...)`` as a sensor's name would send the sheet's contents to whoever chose
# the name. An apostrophe at the beginning makes the cell a text.

_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def safe_cell(text: str) -> str:
    """The text as a cell that no spreadsheet evaluates; unchanged where none would."""
    return f"'{text}" if _FORMULA.match(text) else text


def cell_text(cell: str) -> str:
    """The inverse of :func:`safe_cell`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def number_of(number: int, one: str, many: str | None = None) -> str:
    """A number of things in words: ``1 step``, ``2 people``; ``many`` where that is not ``one`` with an s."""
    return f"{number:,} {one if number == 1 else many or ('people' if one == 'person' else f'{one}s')}"


# JSON and TOML from outside. Any text at all becomes a value or a :class:`DocumentError`.

_MOST_DIGITS = 20  # of a 64-bit integer with its sign; no document here needs more


class DocumentError(ValueError):
    """Text that is not JSON or TOML: what was expected, and in which line. Never shows the text itself."""


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON document; repeated members are refused, as readers differ in which they take."""
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
    """The object of these members; :class:`DocumentError` where two have the same name."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise DocumentError("a member of an object is named twice")
    return members


def integer(digits: str) -> int:
    """An integer of at most 20 digits: a larger one would overflow later, with a worse error."""
    if len(digits) > _MOST_DIGITS:
        raise DocumentError(f"an integer of {len(digits)} digits does not fit in 64 bits")
    return int(digits)


def _check_integers(value: object) -> None:
    """:func:`integer` for a document that is already parsed: ``tomllib`` has no hook for integers."""
    if isinstance(value, int) and abs(value) > 10**_MOST_DIGITS:
        raise DocumentError("an integer does not fit in 64 bits")
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_integers(item)


_MOST_LETTERS = 48  # longer names are compared as a whole only, so that the index stays small


class CloseNames:
    """Names that differ from a misspelt one by one letter: what an error suggests.

    An index from each name's variants to the names: its letters and digits in one case, and these with one of
    them left out. Two names share a variant when one letter was added, left out, replaced or swapped with its
    neighbour: ``statoin`` and ``station`` without their ``o`` are the same. A look-up costs one visit a
    letter, however many names there are, so a message full of wrong names cannot slow a worker down.
    """

    def __init__(self, names: Iterable[str], at_most: int = 3) -> None:
        self._at_most = at_most
        self._by_variant: dict[str, list[str]] = {}
        for name in names:
            for variant in _variants(name):
                found = self._by_variant.setdefault(variant, [])
                if len(found) < at_most:
                    found.append(name)

    def like(self, name: str) -> tuple[str, ...]:
        """At most a few names that differ from this one by one letter, equal ones but for case first."""
        close: dict[str, None] = {}
        for variant in _variants(name):
            close |= dict.fromkeys(self._by_variant.get(variant, ()))
        return tuple(close)[: self._at_most]


def _variants(name: str) -> Iterator[str]:
    """The letters and digits of a name, then those with each one left out."""
    if len(name) > 4 * _MOST_LETTERS:
        return
    folded = "".join(filter(str.isalnum, name)).casefold()
    yield folded
    if len(folded) <= _MOST_LETTERS:
        yield from dict.fromkeys(folded[:k] + folded[k + 1 :] for k in range(len(folded)))


# Reading a large JSON object piece by piece: member by member, and long arrays element by element.

_CHUNK = 1 << 16
_SPACE = " \t\r\n"


class JsonStream:
    """A cursor over JSON text that holds only the value it is reading in memory.

    Priors files are larger than memory allows to parse at once, and errors name the line.
    """

    def __init__(self, source: TextIO) -> None:
        self._source = source
        self._text = ""
        self._at = 0
        self._lines = 0
        self._ended = False
        self._decoder = json.JSONDecoder(parse_int=integer, object_pairs_hook=distinct_members)

    @property
    def line(self) -> int:
        """The line of the cursor, from 1."""
        return 1 + self._lines + self._text.count("\n", 0, self._at)

    def members(self) -> Iterator[str]:
        """The keys of the object at the cursor; read each one's value before asking for the next."""
        seen = set()
        for key in self._items("{", "}", self._key):
            if key in seen:
                raise DocumentError(f"line {self.line}: a member of an object is named twice")
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
                raise DocumentError(f"line {self.line}: nested too deeply") from None
            except json.JSONDecodeError as error:
                if not self._more(wanted):
                    self._at = error.pos
                    raise DocumentError(f"line {self.line}: {error.msg}") from None
            except DocumentError as error:
                raise DocumentError(f"line {self.line}: {error}") from None
            else:
                # A number may continue in the part that has not been read yet.
                if end < len(self._text) or not self._more(wanted):
                    self._at = end
                    return value
            wanted *= 2  # doubling bounds how often a long value is decoded again from its start

    def finish(self) -> None:
        """:class:`DocumentError` for anything but white space after the document."""
        if self.peek():
            raise DocumentError(f"line {self.line}: the end of the document was expected")

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
            raise DocumentError(f"line {self.line}: a name in double quotes was expected")
        key = str(self.value())
        self._expect(":")
        return key

    def _expect(self, character: str) -> None:
        """Step over one character that has to be there."""
        if self.peek() != character:
            raise DocumentError(f"line {self.line}: {character!r} was expected")
        self._at += 1

    def _more(self, wanted: int) -> bool:
        """Drop the text before the cursor and read more; false at the end of the source."""
        if self._ended:
            return False
        self._lines += self._text.count("\n", 0, self._at)
        read = self._source.read(wanted)
        self._text = self._text[self._at :] + read
        self._at = 0
        self._ended = not read
        return bool(read)
