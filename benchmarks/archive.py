"""Claim: ten million rows of archive come in, checked and by step, within a minute on two cores.

Melbourne's shape: texts of wall-clock times, a row a sensor and hour, two clock changes a year. Beside it two
readers that check nothing: polars, the fastest one, and pandas.
``python -m benchmarks.archive``
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd
import polars as pl

from benchmarks.harness import Contestant, measure, rate, show, times
from stream_app.setup.sections import FilesMap
from stream_app.starting.connect import read_archive, resolved_map, write_counts

SENSORS, DAYS = 60, 730
MANY_SENSORS = 571  # ten million rows
ZONE = ZoneInfo("Australia/Melbourne")


def write_archive(path: Path, sensors: int, days: int = DAYS) -> int:
    """An invented archive; returns its rows."""
    begin = datetime(2023, 1, 1, tzinfo=ZONE).timestamp()
    rows = 0
    with path.open("w") as file:
        file.write("ID,Date_Time,Sensor_ID,Sensor_Name,Hourly_Counts\n")
        for hour in range(days * 24):
            shown = datetime.fromtimestamp(begin + 3600 * hour, ZONE)
            for sensor in range(sensors):
                rows += 1
                file.write(f'{rows},"{shown:%B %d, %Y %I:%M:%S %p}",{sensor},Street {sensor},{rows % 997}\n')
    return rows


def read_by_polars(path: Path) -> pl.DataFrame:
    """Cells and times, nothing checked."""
    moment = pl.col("Date_Time").str.to_datetime("%B %d, %Y %I:%M:%S %p")
    return pl.read_csv(path).with_columns(moment)


def write_by_polars(path: Path, messages: Path) -> None:
    """The same as lines of JSON."""
    found = read_by_polars(path).select(sensor="Sensor_Name", time="Date_Time", count="Hourly_Counts")
    found.write_ndjson(messages)


def write_ours(path: Path, messages: Path) -> None:
    """The archive, checked, as messages."""
    messages.unlink(missing_ok=True)
    write_counts(messages, read_archive([path], resolved_map(FilesMap(preset="melbourne"))))


def main() -> None:
    """Read it ours and theirs, in turn."""
    mapping = resolved_map(FilesMap(preset="melbourne"))
    with tempfile.TemporaryDirectory() as folder:
        path, messages = Path(folder) / "archive.csv", Path(folder) / "messages.jsonl"
        rows = write_archive(path, SENSORS)

        def read_by_pandas() -> None:
            frame = pd.read_csv(path)
            pd.to_datetime(frame["Date_Time"], format="%B %d, %Y %I:%M:%S %p")

        rates = measure(
            {
                "counts by step, checked": Contestant(lambda: void(read_archive([path], mapping)), rows),
                "and written as messages": Contestant(partial(write_ours, path, messages), rows),
                "polars, and times read": Contestant(lambda: void(read_by_polars(path)), rows),
                "pandas, cells only": Contestant(lambda: void(pd.read_csv(path)), rows),
                "pandas, and times read": Contestant(read_by_pandas, rows),
            },
            repeats=3,
        )
        print_beside_polars(rows, rates)
        rows = write_archive(path, MANY_SENSORS)
        both = {
            "counts by step, checked": Contestant(lambda: void(read_archive([path], mapping)), rows),
            "polars, and times read": Contestant(lambda: void(read_by_polars(path)), rows),
        }
        print_beside_polars(rows, measure(both, repeats=1))


def print_beside_polars(rows: int, rates: Mapping[str, float]) -> None:
    """A table of an archive of so many rows."""
    peer = rates["polars, and times read"]
    shown = [
        [name, rate(value), f"{rows / value:.1f} s", times(value, peer)] for name, value in rates.items()
    ]
    show(f"An archive of {rows:,} rows", ["what", "rows/s", "all of it", "beside polars with times"], shown)


def void(_: object) -> None:
    """Let a result go."""


if __name__ == "__main__":
    main()
