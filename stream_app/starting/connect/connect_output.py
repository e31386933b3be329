"""Counts that were understood, as files: messages for a deployment, or a table for `tallyguard init`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from models.private_files import private_file
from models.text import safe_cell
from stream_app.exceptions import OutputError
from stream_app.setup.run_folder.durable import make_folder
from stream_app.starting.counts import Counts
from stream_app.starting.counts.deployment_files import announced_steps
from stream_app.starting.counts.read import MOST_COUNTS, NOT_COUNTED
from stream_app.wire import Activation

MESSAGES, TABLES = ".jsonl", (".parquet", ".csv")


def require_new_file(path: Path) -> None:
    """:class:`OutputError` for a file that is there already, or is of no kind that can be written."""
    if path.suffix.lower() not in (MESSAGES, *TABLES):
        raise OutputError(
            "--output must end in .jsonl (messages) or .parquet or .csv (a table)",
            path.name,
            "choose one of them",
        )
    if path.exists():
        raise OutputError("--output must be a new file", path, "choose another name, or remove it")


def write_counts(path: Path, counts: Counts) -> None:
    """Write them as the name's end says, whole or not at all, readable by the owner only."""
    require_new_file(path)
    make_folder(path.parent)
    with private_file(path) as file:
        if path.suffix.lower() == MESSAGES:
            file.writelines(message_lines(counts))
        elif path.suffix.lower() == ".csv":
            names = tuple(map(safe_cell, counts.sensors))
            pa_csv.write_csv(_table(replace(counts, sensors=names)), file)
        else:
            pq.write_table(_table(counts), file)


def message_lines(counts: Counts) -> Iterator[bytes]:
    """An activation and the readings of each step, in order: the bytes that the messages' own models write.

    Every step is announced, an empty one, too: so a run takes an archive of any length.
    """
    heads = [b',"sensor":' + json.dumps(name).encode() + b',"count":' for name in counts.sensors]
    for step, names in enumerate(announced_steps(counts)):
        yield Activation(v=1, step=step, sensors=names).line()
        row = counts.table[step]
        counted = np.flatnonzero(row != NOT_COUNTED)
        start = b'{"v":1,"type":"reading","step":%d' % step
        for index, count in zip(counted.tolist(), row[counted].tolist(), strict=True):
            yield b"%b%b%d}\n" % (start, heads[index], count)


def _table(counts: Counts) -> pa.Table:
    """``time`` (start, UTC), ``sensor`` and ``count``, what was counted only; ``most_counts`` above 1."""
    step, sensor = np.nonzero(counts.table != NOT_COUNTED)
    seconds = int(counts.origin.timestamp()) + step * counts.step_seconds
    again = {} if counts.most_counts == 1 else {MOST_COUNTS: pa.array(np.full(step.size, counts.most_counts))}
    index, texts = pa.array(sensor, pa.int32()), pa.array(counts.sensors, pa.string())
    return pa.table(
        {
            "time": pa.array(seconds, pa.timestamp("s", "UTC")),
            "sensor": pa.DictionaryArray.from_arrays(index, texts).cast(pa.string()),
            "count": pa.array(counts.table[step, sensor]),
            **again,
        }
    )
