"""Cells of CSV as codes of the different ones, in one pass over the bytes.

Cells of an archive repeat: all sensors have the same time, and sensors come in the same order hour after
hour. So the cell that followed the last one of its column when that one stood there before is compared with
the bytes first. Where it is the same, which is nearly always, no byte of it is looked at twice.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Generator, Sequence
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from models.numerics.jit import bare_jit, inline

READ, FULL, FAULT = range(3)
_QUOTE, _RETURN, _NEWLINE = b'"\r\n'
_BEGIN, _END, _PLACE, _NUMBER, _AFTER = range(5)  # columns of `cells`
_HASH, _PRIME = np.uint32(2166136261), np.uint32(16777619)  # FNV-1a
_NULLS: Any = pa.array(pa_csv.ConvertOptions().null_values or [])
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BLOCK_BYTES, _PIECE_BYTES = 4 << 20, 1 << 18
Bytes = NDArray[np.uint8]


@inline
def _byte(block: Bytes, at: int) -> Any:
    """One byte; an unsigned index is not looked at for counting from the end."""
    return block[np.uint64(at)]


@inline
def _is_end(byte: int, separator: int) -> bool:
    return (byte == separator) | (byte == _NEWLINE) | (byte == _RETURN)


@bare_jit
def _end_of_cell(block: Bytes, at: int, separator: int) -> int:
    """Where a cell that begins here ends; the block's size where it goes on beyond.

    What stands between a closing quote and the separator belongs to the cell, as a quote inside one does.
    """
    size = block.size
    if at < size and _byte(block, at) == _QUOTE:
        at += 1
        while at < size:
            if _byte(block, at) != _QUOTE:
                at += 1
            elif at + 1 < size and _byte(block, at + 1) == _QUOTE:
                at += 2
            else:
                at += 1
                break
    while at < size and not _is_end(_byte(block, at), separator):
        at += 1
    return at


@bare_jit
def _is_equal(block: Bytes, one: int, other: int, length: int) -> bool:
    k = 0
    while k < length and _byte(block, one + k) == _byte(block, other + k):
        k += 1
    return k == length


@bare_jit
def _hash(block: Bytes, begin: int, end: int, place: int) -> np.uint32:
    found = np.uint32(_HASH + np.uint32(place))
    for k in range(begin, end):
        found = np.uint32((found ^ np.uint32(_byte(block, k))) * _PRIME)
    return np.uint32(found ^ (found >> np.uint32(15)))


@bare_jit
def _is_there(block: Bytes, at: int, separator: int, cell: NDArray[np.int32]) -> bool:
    """Whether a cell that is known stands here once more."""
    length = cell[_END] - cell[_BEGIN]
    return (
        at + length < block.size
        and _is_end(_byte(block, at + length), separator)
        and _is_equal(block, at, cell[_BEGIN], length)
    )


@bare_jit
def _slot(
    block: Bytes,
    begin: int,
    end: int,
    place: int,
    mixed: np.uint32,
    cells: NDArray[np.int32],
    hashes: NDArray[np.uint32],
    slots: NDArray[np.int32],
) -> int:
    """The slot of a cell, or the empty one where it belongs."""
    slot = np.int64(mixed) & (slots.size - 1)
    code = slots[slot]
    while code >= 0 and not (
        hashes[code] == mixed
        and cells[code, _PLACE] == place
        and cells[code, _END] - cells[code, _BEGIN] == end - begin
        and _is_equal(block, begin, cells[code, _BEGIN], end - begin)
    ):
        slot = (slot + 1) & (slots.size - 1)
        code = slots[slot]
    return int(slot)


@bare_jit
def _take_rows(  # noqa: PLR0912 - one loop over cells
    block: Bytes,
    separator: int,
    wanted: NDArray[np.int64],
    codes: NDArray[np.int32],
    cells: NDArray[np.int32],
    hashes: NDArray[np.uint32],
    slots: NDArray[np.int32],
    last: NDArray[np.int64],
    found: NDArray[np.int64],
    state: NDArray[np.int64],
) -> int:
    """Take rows from ``state``: how many bytes and rows were taken, and different cells known.

    ``wanted`` (columns,) is the place of each column among those to be coded, or -1. ``codes`` (places, rows)
    are which different cell of its place each is; ``cells`` say of each where it stands, its place, its
    number there, and which cell came after it; ``slots`` find them by their ``hashes``. ``last`` and
    ``found`` (places,) are the last cell and how many different ones. FULL where these have no room left.
    """
    at, rows, known = state
    while True:
        while at < block.size and (_byte(block, at) == _NEWLINE or _byte(block, at) == _RETURN):
            at += 1  # of a line's two ends, or of an empty line
        state[0], state[1], state[2] = at, rows, known
        if at >= block.size:
            return READ
        if rows == codes.shape[1] or known + last.size > hashes.size:
            return FULL
        column = 0
        while True:
            place = wanted[column]
            before = last[place] if place >= 0 else -1
            code = cells[before, _AFTER] if before >= 0 else -1
            if code >= 0 and _is_there(block, at, separator, cells[code]):
                at += cells[code, _END] - cells[code, _BEGIN]
            else:
                begin, at = at, _end_of_cell(block, at, separator)
                if at >= block.size:
                    return READ
                if place >= 0:
                    mixed = _hash(block, begin, at, place)
                    slot = _slot(block, begin, at, place, mixed, cells, hashes, slots)
                    if slots[slot] < 0:
                        slots[slot], hashes[known] = known, mixed
                        cells[known, _BEGIN], cells[known, _END], cells[known, _PLACE] = begin, at, place
                        cells[known, _NUMBER], cells[known, _AFTER] = found[place], known
                        found[place] += 1
                        known += 1
                    code = slots[slot]
                    if before >= 0:
                        cells[before, _AFTER] = code
            if place >= 0:
                last[place] = code
                codes[place, rows] = cells[code, _NUMBER]
            column += 1
            if _byte(block, at) != separator:
                break
            if column == wanted.size:
                return FAULT
            at += 1
        if column < wanted.size:
            return FAULT
        rows += 1


@bare_jit
def _fill(slots: NDArray[np.int32], hashes: NDArray[np.uint32], known: int) -> None:
    """Slots for the cells that are known."""
    mask = slots.size - 1
    for code in range(known):
        slot = np.int64(hashes[code]) & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = code


@bare_jit
def _put_plain(block: Bytes, cells: NDArray[np.int32], out: Bytes, starts: NDArray[np.int32]) -> None:
    """The cells without their quotes, one behind the other; ``starts`` (cells + 1,)."""
    at = 0
    for code in range(len(cells)):
        k, end = cells[code, _BEGIN], cells[code, _END]
        is_quoted = k < end and _byte(block, k) == _QUOTE
        k += is_quoted
        while k < end:
            if is_quoted and _byte(block, k) == _QUOTE:
                k += 1
                is_quoted = k < end and _byte(block, k) == _QUOTE  # two of them are one
                if not is_quoted:
                    continue
            out[at] = _byte(block, k)
            at += 1
            k += 1
        starts[code + 1] = at


@bare_jit
def _quotes(block: Bytes) -> int:
    """How many there are."""
    found = 0
    for byte in block:
        found += byte == _QUOTE
    return found


class RowError(ValueError):
    """A row has another number of cells than there are columns, or a quote stays open."""


def coded_batches(
    content: BinaryIO,
    encoding: str,
    begin_line: int,
    separator: str,
    names: Sequence[str],
    wanted: Sequence[str],
) -> Generator[pa.RecordBatch, None, bool]:
    """The columns that are wanted of a CSV, from a line on (0 for the first); whether its quotes are odd.

    As Arrow reads it, but for a quote that stays open. Each column has every different cell of a batch once,
    in order, and null for what is written as such. ``ArrowInvalid`` for cells that are not UTF-8,
    :class:`RowError`; of odd quotes one may be a mistake.
    """
    decoder = None if encoding.startswith("utf-8") else codecs.getincrementaldecoder(encoding)()
    places = np.array([wanted.index(name) if name in wanted else -1 for name in names])
    block, filled, odd = np.empty(_BLOCK_BYTES + _PIECE_BYTES, dtype=np.uint8), 0, 0
    begin = -1
    while True:
        read = content.read(_PIECE_BYTES)
        text = read if decoder is None else decoder.decode(read, not read).encode()
        piece = np.frombuffer(
            text if read else text + b"\n", dtype=np.uint8
        )  # the last line may lack its end
        while filled + piece.size > block.size:
            block = np.append(block, np.empty_like(block))  # for one row, or an open quote
        block[filled : filled + piece.size] = piece
        filled, odd = filled + piece.size, (odd + _quotes(piece)) % 2
        if read and filled + _PIECE_BYTES <= block.size:
            continue
        if begin < 0:
            lines = islice(_LINE_END.finditer(block[:filled].data), begin_line)
            begin = max((line.end() for line in lines), default=0)
        batch, end = _coded_rows(block[:filled], begin, ord(separator), places, wanted)
        if batch.num_rows:
            yield batch
        block[: filled - end] = block[end:filled]
        filled, begin = filled - end, 0
        if not read:
            break
    if filled:
        raise RowError
    return bool(odd)


def _coded_rows(
    block: Bytes, begin: int, separator: int, places: NDArray[np.int64], wanted: Sequence[str]
) -> tuple[pa.RecordBatch, int]:
    """The whole rows of a block from ``begin`` on, and where they end."""
    room, rows = 1 << 12, 1024 + block.size // 32
    codes = np.empty((len(wanted), rows), dtype=np.int32)
    cells, hashes = np.empty((room, 5), dtype=np.int32), np.empty(room, dtype=np.uint32)
    last, found = np.full(len(wanted), -1), np.zeros(len(wanted), dtype=np.int64)
    state = np.array([begin, 0, 0])
    while True:
        slots = np.full(4 * len(cells), -1, dtype=np.int32)
        _fill(slots, hashes, state[2])
        taken = _take_rows(block, separator, places, codes, cells, hashes, slots, last, found, state)
        if taken != FULL:
            break
        if state[1] == codes.shape[1]:
            codes = np.append(codes, np.empty_like(codes), axis=1)
        else:
            cells = np.append(cells, np.empty_like(cells), axis=0)
            hashes = np.append(hashes, np.empty_like(hashes))
    if taken == FAULT:
        raise RowError
    end, rows, known = state.tolist()
    columns = [
        _column(block, cells[:known][cells[:known, _PLACE] == place], codes[place, :rows])
        for place in range(len(wanted))
    ]
    return pa.RecordBatch.from_arrays(columns, list(wanted)), end


def _column(block: Bytes, cells: NDArray[np.int32], codes: NDArray[np.int32]) -> Any:
    out = np.empty(int((cells[:, _END] - cells[:, _BEGIN]).sum()), dtype=np.uint8)
    starts = np.zeros(len(cells) + 1, dtype=np.int32)
    _put_plain(block, cells, out, starts)
    buffers = [None, pa.py_buffer(starts.data), pa.py_buffer(out.data)]
    values: Any = pa.Array.from_buffers(pa.string(), len(cells), buffers)
    values.validate(full=True)
    once: Any = pc.if_else(pc.is_in(values, value_set=_NULLS), None, values).dictionary_encode()
    index: Any = pa.array(codes)
    if len(once.dictionary) < len(values):  # a null, or one that is written with quotes and without
        index = once.indices.take(index)
    return pa.DictionaryArray.from_arrays(index, once.dictionary, safe=False)
