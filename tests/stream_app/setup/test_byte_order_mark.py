"""Files as Excel and Notepad save them, with a byte order mark in front, are read as without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.prior_files import load_population, save_population
from models.releases import SensorRegistry
from stream_app.setup.given_priors import location_names
from stream_app.setup.sensor_files import load_registry
from stream_app.setup.settings_sources import load_settings
from stream_app.wire import load_activations
from tests.stream_app.engine_support import NAMES, population

FILES = {
    "tallyguard.toml": 'horizon = 7\nlocations = "locations.txt"\nholidays_file = "days"\n'
    'origin = 2026-01-01T00:00:00Z\ntimezone = "Europe/Vienna"\n',
    "locations.txt": "\n".join(NAMES),
    "sensors.csv": "name,locations\ns,A\n",
    "sensors.json": '{"sensors": [{"name": "s", "locations": ["A"]}]}',
    "activations.csv": "step,sensor\n0,s\n",
    "days": "2026-06-04\n",
}


def read(folder: Path) -> list[object]:
    """What all of the files say."""
    settings = load_settings(folder / "tallyguard.toml")
    registry: SensorRegistry = load_registry(folder / "sensors.csv", NAMES)
    return [
        (settings.horizon, settings.holidays),
        location_names(settings, "", ""),
        registry.sensors,
        load_registry(folder / "sensors.json", NAMES).sensors,
        load_activations(folder / "activations.csv", registry),
        load_population(folder / "priors.json").fingerprint,
    ]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_byte_order_mark_is_no_part_of_what_is_read(tmp_path: Path, line_end: str) -> None:
    folders = tmp_path / "plain", tmp_path / "marked"
    for folder in folders:
        folder.mkdir()
        save_population(population(), folder / "priors.json")
        for name, text in FILES.items():
            (folder / name).write_bytes(text.replace("\n", line_end).encode())
    for path in folders[1].iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    plain, marked = map(read, folders)
    assert marked == plain
