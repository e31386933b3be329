"""Counts by step as lines of a deployment's messages: texts that are known, and numbers between them."""
# mypy: allow-untyped-calls

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numpy.typing import NDArray

from models.numerics.jit import bare_jit, intrinsic
from models.releases import CountingWindow
from stream_app.starting.counts.count_table import CountTable
from stream_app.wire import Activation

_PIECE_BYTES = 1 << 18
_AT_ONCE = 16  # bytes copied; arrays are longer by as many
_FEW = 1000  # numbers whose digits are copied
_DIGITS = np.frombuffer(
    b"".join(b"%-4d" % number for number in range(_FEW)) + bytes(_AT_ONCE), dtype=np.uint8
)
_MOST_DIGITS = 20
_BEGIN, _END, _SENSORS = range(3)  # texts: how readings begin and end, what stands between of each sensor
_READING = b'{"v":1,"type":"reading","step":', b"}\n"
Bytes = NDArray[np.uint8]
NO_WINDOWS: Mapping[str, CountingWindow] = {}


@intrinsic
def _copy_some(typing_context: Any, out: Any, at: Any, source: Any, begin: Any) -> Any:
    """As many bytes as are copied at once: a loop over bytes would first find out whether arrays overlap."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        places = []
        for kind, array, first in ((out, *args[:2]), (source, *args[2:])):
            made = context.make_array(kind)(context, builder, array)
            if context.enable_boundscheck:
                last = builder.add(first, ir.Constant(first.type, _AT_ONCE - 1))
                cgutils.do_boundscheck(context, builder, last, made.nitems)
            bytes_there = ir.VectorType(ir.IntType(8), _AT_ONCE).as_pointer()
            places.append(builder.bitcast(builder.gep(made.data, [first]), bytes_there))
        builder.store(builder.load(places[1], align=1), places[0], align=1)
        return context.get_dummy_value()

    return types.void(out, types.intp, source, types.intp), code


@bare_jit
def _copy(out: Bytes, at: int, source: Bytes, begin: int, end: int) -> int:
    """These bytes, and where they end; what stands behind them is overwritten."""
    for k in range(0, end - begin, _AT_ONCE):
        _copy_some(out, at + k, source, begin + k)
    return int(at + end - begin)


@bare_jit
def _put(out: Bytes, at: int, texts: Bytes, starts: NDArray[np.int64], text: int) -> int:
    """A text, and where it ends."""
    return int(_copy(out, at, texts, starts[text], starts[text + 1]))


@bare_jit
def _put_number(out: Bytes, at: int, number: int) -> int:
    """Its digits, and where they end."""
    if number < _FEW:
        _copy_some(out, at, _DIGITS, 4 * number)
        return int(at + 1 + (number > 9) + (number > 99))
    end, left = at + 1, number
    while left >= 10:
        end, left = end + 1, left // 10
    for k in range(end - 1, at - 1, -1):
        out[np.uint64(k)] = 48 + number % 10
        number //= 10
    return end


@bare_jit
def _put_steps(
    out: Bytes,
    begin: int,
    longest: int,
    table: NDArray[np.int64],
    announced: NDArray[np.int64],
    texts: Bytes,
    starts: NDArray[np.int64],
    between: Bytes,
) -> tuple[int, int]:
    """Steps from ``begin`` on while the ``longest`` would fit: up to which, and how many bytes they take.

    Text ``i`` goes from ``starts[i]`` to the next; what stands before and behind an announcement's step are
    ``announced[step]`` and the next. What stands ``between`` the readings of a step is the same.
    """
    step, at = begin, 0
    while step < len(table) and at + longest <= out.size:
        at = _put(out, at, texts, starts, announced[step])
        at = _put_number(out, at, step)
        at = _put(out, at, texts, starts, announced[step] + 1)
        first = _put(between, 0, texts, starts, _END)
        size = _put_number(between, _put(between, first, texts, starts, _BEGIN), step)
        for sensor in range(table.shape[1]):
            if table[step, sensor] >= 0:
                at = _copy(out, at, between, first, size)
                at = _put(out, at, texts, starts, _SENSORS + sensor)
                at = _put_number(out, at, table[step, sensor])
                first = 0
        if first == 0:
            at = _put(out, at, texts, starts, _END)
        step += 1
    return step, at


def message_lines(
    counts: CountTable, windows: Mapping[str, CountingWindow] = NO_WINDOWS
) -> Iterator[memoryview]:
    """The activation and then the readings of each step, in order: as the messages' own models write them.

    Every step is announced, an empty one, too: so a run takes an archive of any length. Sensors with
    ``windows`` are announced with the last steps of these. A piece is to be written before the next is made.
    """
    texts = [*_READING, *(b',"sensor":%b,"count":' % json.dumps(name).encode() for name in counts.sensors)]
    longest = sum(map(len, texts)) + len(counts.sensors) * (sum(map(len, _READING)) + 2 * _MOST_DIGITS)
    announced = np.empty(len(counts.table), dtype=np.int64)
    known: dict[tuple[str, ...], int] = {}
    last: tuple[str, ...] | None = None
    for step, at_work in enumerate(counts.announced()):
        names = at_work
        if windows:
            names = tuple(name for name in names if name not in windows or windows[name].ends_with(step))
        if names is not last:  # mostly it is: the same for years
            last, text = names, known.setdefault(names, len(texts) + 2 * len(known))
        announced[step] = text
    for names in known:
        before, behind = Activation(v=1, step=0, sensors=names).line().split(b'"step":0', 1)
        texts += [before + b'"step":', behind]
    longest += 2 * max(map(len, texts)) + _MOST_DIGITS + _AT_ONCE
    out = np.empty(max(_PIECE_BYTES, longest), dtype=np.uint8)
    joined = np.frombuffer(b"".join([*texts, bytes(_AT_ONCE)]), dtype=np.uint8)
    starts = np.cumsum([0, *map(len, texts)])
    between = np.empty(sum(map(len, _READING)) + _MOST_DIGITS + _AT_ONCE, dtype=np.uint8)
    step = 0
    while step < len(announced):
        step, size = _put_steps(out, step, longest, counts.table, announced, joined, starts, between)
        yield out[:size].data
