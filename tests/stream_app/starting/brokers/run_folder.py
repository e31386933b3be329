"""The output folder of a run as connectors read it: its record, and a log that grows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def run_folder(folder: Path) -> Path:
    """A run of hourly steps from the first of January on, of which none is closed yet."""
    folder.mkdir()
    run = {"deployment": "city", "step_seconds": 3600, "origin": "2026-01-01T00:00:00+00:00"}
    (folder / "run.json").write_text(json.dumps(run | {"horizon": 10, "mistakes": 1, "thresholds": []}))
    return folder


def released(step: int, *entries: dict[str, Any]) -> bytes:
    """The line of one step."""
    document = {"v": 1, "type": "release", "step": step, "releases": list(entries)}
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def add_late(folder: Path, step: int, *entries: dict[str, Any]) -> None:
    """Late or corrected values of a closed step."""
    with (folder / "revised.jsonl").open("ab") as log:
        log.write(released(step, *entries))


def noised(sensor: str, value: int) -> dict[str, Any]:
    """A value with Gaussian noise."""
    return {"sensor": sensor, "mechanism": "gaussian", "sigma": 1.5, "value": value}


def add_steps(folder: Path, first: int, values: Sequence[int]) -> None:
    """Go on with these values of the mill; the port is suppressed."""
    with (folder / "releases.jsonl").open("ab") as log:
        for step, value in enumerate(values, first):
            log.write(released(step, noised("mill", value), {"sensor": "port", "mechanism": "suppressed"}))
