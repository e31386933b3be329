"""Counts of a file of messages, noised and written, by a plain loop and by bytewax: no accounts or keys."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np


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
