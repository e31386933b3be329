"""Counts noised and written by a plain loop and by bytewax, and check-ins to moves by polars.

No accounts, keys or checks.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl


def plain_loop(source: Path, output: Path) -> None:
    """Steps in a dictionary, numpy's noise, a line a step."""
    counts: dict[int, dict[str, int]] = {}
    noise = np.random.default_rng(0)
    with source.open("rb") as lines:
        for line in lines:
            message = json.loads(line)
            if "count" in message:
                counts.setdefault(message["step"], {})[message["sensor"]] = message["count"]
    with output.open("w") as file:
        for step, found in sorted(counts.items()):
            values = np.rint(np.fromiter(found.values(), float) + noise.normal(0.0, 2.0, len(found)))
            file.write(json.dumps({"step": step, "values": dict(zip(found, values.tolist(), strict=True))}))
            file.write("\n")


HAS_BYTEWAX = find_spec("bytewax") is not None
"""No requirement of ours, not even for development: ``pip install bytewax`` to have it measured."""


def bytewax_flow(source: Path, output: Path) -> None:
    """A dataflow of three operators, a value a reading."""
    import bytewax.operators as op
    from bytewax.connectors.files import FileSink, FileSource
    from bytewax.dataflow import Dataflow
    from bytewax.testing import run_main

    noise = np.random.default_rng(0)

    def noised(message: dict[str, Any]) -> tuple[str, str]:
        value = round(message["count"] + noise.normal(0.0, 2.0))
        return message["sensor"], json.dumps({**message, "count": value})

    flow = Dataflow("counts")
    lines = op.input("lines", flow, FileSource(source))
    messages = op.map("parse", lines, json.loads)
    readings = op.filter("readings", messages, lambda message: "count" in message)
    op.output("values", op.map("noise", readings, noised), FileSink(output))
    run_main(flow)


def write_checkins(path: Path, rows: int) -> None:
    """Check-ins of a hundred hours each, at places of one's own, a second apart at least."""
    rng, people = np.random.default_rng(0), rows // 100
    user = np.repeat(np.arange(people), 100)
    own = rng.integers(0, 80, size=(people, 8))
    place = own[user, np.minimum(rng.geometric(0.4, size=user.size) - 1, 7)]
    time = 1_700_000_400 + np.sort(rng.integers(0, 30 * 86_400, size=(people, 100)), axis=1).ravel()
    columns = {"user": user.astype(str), "time": time, "loc": place.astype(str)}
    pl.DataFrame(columns).write_parquet(path)


def fit_by_polars(source: Path, output: Path) -> None:
    """Moves between hours by hour of the day, smoothed by none, as a table of those that were made."""
    hour, user = pl.col("time") // 3600, pl.col("user")
    stays = (
        pl.read_parquet(source)
        .group_by(user, hour.alias("hour"), "loc")
        .agg(pl.len().alias("visits"), pl.col("time").max())
        .sort("user", "hour", "visits", "time", "loc", descending=[False, False, True, True, False])
        .unique(["user", "hour"], keep="first", maintain_order=True)
        .with_columns(pl.col("hour", "loc").shift(-1).over("user").name.prefix("next_"))
        .filter(pl.col("next_hour") == pl.col("hour") + 1)
    )
    made = stays.group_by("user", pl.col("hour") % 24, "loc", "next_loc").len()
    share = pl.col("len") / pl.col("len").sum().over("user", "hour", "loc")
    made.with_columns(share.alias("probability")).write_parquet(output)
