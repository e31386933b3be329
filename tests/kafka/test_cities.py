"""Cities as their counters count: hourly passages, personas and strangers, a rule in the crowd, on Kafka."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from models.prior_files import load_population
from stream_app.kafka.broker.topic_checks import create_topics
from stream_app.kafka.deployment.deployment import administration
from tests import ROOT
from tests.kafka.broker import Broker
from tests.kafka.support import SECRETS, OnKafka
from tests.kafka.test_fetch import assert_same_figures, said
from tests.shared_files import shared

pytestmark = pytest.mark.slow

MELBOURNE = ROOT / "docs" / "tutorials" / "city"
STRANGERS = "shoppers and visitors"
LEEDS = {  # roughly where the cameras hang
    "AlbionStNorth": (53.7991, -1.5459),
    "AlbionStSouth": (53.7970, -1.5457),
    "Briggate": (53.7974, -1.5424),
    "BriggateAtMcDs": (53.7985, -1.5422),
    "CommercialStBarratts": (53.7973, -1.5441),
    "CommercialStLush": (53.7972, -1.5449),
    "DortmundSq": (53.8004, -1.5415),
    "Headrow": (53.7998, -1.5447),
}


class Deployed(OnKafka):
    """A deployment that `init` wrote, on a broker; the table ``kafka`` is added to its settings."""

    def __init__(self, folder: Path, servers: str, personas: Path) -> None:
        self.folder, self.config = folder, folder / "tallyguard.toml"
        self.population, self.regions, self._processes = load_population(personas), {}, []
        prefix = f"{folder.parent.name}."
        with self.config.open("a") as settings:
            settings.write(f'\n[kafka]\nservers = ["{servers}"]\nprefix = "{prefix}"\n')
            settings.write("session_seconds = 2\nanswer_seconds = 60\n")

    def __enter__(self) -> OnKafka:
        with administration(self.connection) as admin:
            create_topics(admin, self.topics)
        return self


def written(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    """A CSV file."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def melbourne(folder: Path) -> Path:
    """The tutorial's first day: six counters, 54 personas from a table; what `init` and it write."""
    counts = folder / "counts.parquet"
    said("connect", "files", MELBOURNE / "counts.csv", "--preset", "melbourne", "--output", counts)
    begun(folder, counts, MELBOURNE / "sensors.csv", "Australia/Melbourne", "2")
    tables(folder, MELBOURNE / "commuting.csv", MELBOURNE / "zones.csv")
    return ruled(folder, "4")


def leeds(folder: Path) -> Path:
    """Cameras over two days with a change of clocks; who lives and works where is made up."""
    counts = folder / "counts.parquet"
    given = shared("data/counters/04-leeds-date-and-hour.csv")
    said("connect", "files", given, "--preset", "leeds", "--output", counts)
    rows = [(name, name, *where) for name, where in LEEDS.items()]
    header = ("Sensor ID", "Sensor Description", "Latitude", "Longitude")
    listed = written(folder / "sensors.csv", header, rows)
    begun(folder, counts, listed, "Europe/London", "3", "--days", "2")
    zones = {"Headingley": (53.8190, -1.5760), "Holbeck": (53.7850, -1.5590), **LEEDS}
    homes = list(zones)[:4]
    flows = [
        (home, work, 300 + 170 * at + 90 * number)
        for number, home in enumerate(homes)
        for at, work in enumerate(list(LEEDS)[2:])
    ]
    written(folder / "zones.csv", ("zone", "lat", "lon"), [(name, *at) for name, at in zones.items()])
    written(folder / "commuting.csv", ("origin", "destination", "flow"), flows)
    tables(folder, folder / "commuting.csv", folder / "zones.csv")
    return ruled(folder, "Briggate")


def begun(folder: Path, counts: Path, sensors: Path, zone: str, most: str, *more: str) -> None:
    """What `init` makes of hourly passages, as a deployment that releases nothing without noise."""
    said(
        *("init", counts, "--sensors", sensors, "--timezone", zone, "--habits", "none", "--sigma", "40"),
        *("--most-counts", most, "--output", folder / "city", *(more or ("--days", "1"))),
    )


def tables(folder: Path, commuting: Path, zones: Path) -> None:
    """Personas of a home-work table."""
    sensors, personas = folder / "city" / "sensors.json", folder / "personas.parquet"
    said("priors", "personas", commuting, "--zones", zones, "--sensors", sensors, "--output", personas)


def ruled(folder: Path, busy: str) -> Path:
    """A rule kept in the crowd, of personas in doubt and strangers at a sensor; all may be counted again."""
    config = folder / "city" / "tallyguard.toml"
    text = config.read_text().replace('mechanism = "gaussian"', 'mechanism = "budget"')
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("sigma", "sharpen_op")))
    config.write_text(
        f"""adversary = "crowd"
listen = ""
sharpen_operations = 4_000_000
{text}
[release.budget]
added = 0.2
share = 0.05

[crowd]
on = true
known = 20
alone = 0.7
least = 0.8
counted_once = 0.8

[crowd.strangers."{STRANGERS}"]
sensor = "{busy}"
from_hour = 10
until_hour = 17
people = 2000
least_chance = 0.05
most_chance = 0.5
"""
    )
    return config


@pytest.mark.parametrize("city", [melbourne, leeds])
def test_a_city_that_has_counters_and_a_table_publishes_on_kafka_what_a_run_does(
    kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, city
) -> None:
    """From files to figures, by the commands alone; then every figure of the copy is the run's."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / city.__name__
    folder.mkdir()
    config, personas = city(folder), folder / "personas.parquet"
    messages, run, copy = folder / "city" / "messages.jsonl", folder / "run", folder / "copy"
    said("check", "--config", config, "--priors", personas)
    said("run", "--config", config, "--priors", personas, "--input", messages, "--output", run)
    steps = sum(1 for _ in (run / "decisions.jsonl").open())
    with Deployed(folder / "city", kafka.address, personas) as deployment:
        said("persons", "load", personas, "--config", config)
        workers = [deployment.start("account"), deployment.start("account"), deployment.start("release")]
        said("produce", "--config", config, "--input", messages)
        deployment.wait_for_steps(steps)
        said("fetch", copy, "--config", config)
        for process in workers:
            assert process.stop() == 0, process.text
    decided = [json.loads(line) for line in (run / "decisions.jsonl").open()]
    kinds = {each["mechanism"] for step in decided for each in step["decisions"]}
    assert "suppressed" in kinds and len(kinds) > 1
    assert_same_figures(copy, run)
