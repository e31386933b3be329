"""Counts scaled before they came: one person moves them by more than one, and is taken for so many."""

from __future__ import annotations

import json
from fractions import Fraction
from math import ceil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting.ledgers import epsilon_from_zcdp
from models.exceptions import TallyguardError
from models.releases import Counts as Kind
from models.releases import Sensor, SensorRegistry
from stream_app.analysis.preflight import check_files
from stream_app.exceptions import InputError, SettingsError
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.setup.declared import require_most_counts
from stream_app.setup.sections import FilesMap, PayloadSettings, SensorThingsSettings
from stream_app.setup.settings_sources import load_settings
from stream_app.starting.connect import read_archive, resolved_map
from stream_app.starting.connect.guess import read_counts
from stream_app.starting.connect.journal import announced_sensors
from stream_app.starting.connect.payloads import PayloadMap
from stream_app.starting.connect.sensorthings import observation_map
from tests.stream_app.command_line import called

# As Telraam gives them: 11.2 people of 0.625 of an hour are 7 who were seen, 24 of half an hour are 12.
TELRAAM = "date,segment_id,pedestrian,uptime\n" + "".join(
    f"2026-03-02T{hour:02d}:00:00Z,9000001,{count},{uptime}\n"
    for hour, count, uptime in (
        (6, "11.2", "0.625"),
        (7, "24.0", "0.5"),
        (8, "33.33", "0.75"),
        (9, "30", "1"),
    )
)
SENSORS = {"sensors": [{"name": "9000001", "locations": ["9000001"]}]}
TWICE = {"counts": "passages", "most_counts": 2, **SENSORS}


def command(*arguments: object, code: int = 0) -> str:
    result = called(*arguments)
    said = result.output if result.exception is None else f"{result.output} {result.exception}"
    assert result.exit_code == code or (code and isinstance(result.exception, TallyguardError)), said
    return " ".join(said.split())


@pytest.fixture
def city(tmp_path: Path) -> Path:
    """A deployment whose sensor declares nothing, and a file of scaled counts."""
    (tmp_path / "telraam.csv").write_text(TELRAAM)
    (tmp_path / "sensors.json").write_text(json.dumps(SENSORS))
    (tmp_path / "locations.txt").write_text("9000001\nelsewhere\n")
    (tmp_path / "tallyguard.toml").write_text(
        'step_seconds = 3600\norigin = 2026-03-02T06:00:00Z\nsensors = "sensors.json"\n'
        'locations = "locations.txt"\n[release]\nmechanism = "gaussian"\nsigma = 3.0\n'
        "[connect.files]\nlargest_factor = 2.0\n"
    )
    return tmp_path


@given(
    factor=st.fractions(0, 5, max_denominator=64),
    offset=st.fractions(0, 3, max_denominator=64),
    people=st.integers(0, 500),
)
def test_one_person_moves_a_rounded_count_by_the_factor_rounded_up(
    factor: Fraction, offset: Fraction, people: int
) -> None:
    """By the reader of payloads itself; halves to even numbers would move 0.5 and 1.5 by two."""
    mapping = {"sensor": "s", "start": "t", "interval_seconds": 60, "count": "n", "decimals": "round"}
    reader = PayloadMap(PayloadSettings.model_validate({**mapping, "largest_factor": 5.0}))

    def counted(number: int) -> int:
        value = float(factor * number + offset)
        return reader.read({"s": "a", "t": 60, "n": value})[0].people

    assert 0 <= counted(people + 1) - counted(people) <= ceil(factor)


@pytest.mark.slow
def test_telraams_counts_cost_what_the_largest_factor_makes_of_them(city: Path) -> None:
    """From the vendor's file to the ledger: four times the rho of counts that one person moves by one."""
    table, folder = city / "counts.parquet", city / "made"
    said = command("connect", "files", city / "telraam.csv", "--preset", "telraam", "--output", table)
    assert "One person moves a count by up to 2" in said
    command("init", table, "--sigma", "3", "--habits", "none", "--timezone", "UTC", "--output", folder)
    sensors = json.loads((folder / "sensors.json").read_text())
    assert (sensors["counts"], sensors["most_counts"]) == ("passages", 2)
    settings = ("--config", folder / "tallyguard.toml")
    command(
        "run", *settings, "--input", folder / "messages.jsonl", "--output", folder / "out", "--create-keys"
    )
    ledger = json.loads(called("ledger", str(folder / "out"), *map(str, settings), "--json").stdout)
    honest = epsilon_from_zcdp(4 * 4 / (2 * 3.0**2), 1e-6)
    assert ledger["differential_privacy"][0]["epsilon"] == pytest.approx(honest)
    assert honest > 2 * epsilon_from_zcdp(4 / (2 * 3.0**2), 1e-6)


def test_the_noise_of_a_new_deployment_covers_the_factor(city: Path) -> None:
    table = city / "counts.csv"
    command("connect", "files", city / "telraam.csv", "--preset", "telraam", "--output", table)
    sigmas = []
    for name, more in (("scaled", ()), ("more", ("--most-counts", "4"))):
        said = command("init", table, "--habits", "none", "--timezone", "UTC", "--output", city / name, *more)
        assert "epsilon" in said
        sigmas.append(load_settings(city / name / "tallyguard.toml").release.sigma or 0.0)
    assert epsilon_from_zcdp(4 * 4 / (2 * sigmas[0] ** 2), 1e-6) <= 5.0
    assert epsilon_from_zcdp(4 * 16 / (2 * sigmas[1] ** 2), 1e-6) <= 5.0
    assert epsilon_from_zcdp(4 * 4 / (2 * (sigmas[0] - 1) ** 2), 1e-6) > 5.0


@pytest.mark.parametrize(
    "refused",
    [
        lambda: read_archive([], FilesMap.model_validate({"decimals": "round"})),
        lambda: PayloadMap(PayloadSettings.model_validate({**PAYLOAD, "decimals": "round"})),
        lambda: PayloadMap(observation_map(SensorThingsSettings(decimals="round", datastreams={"7": "a"}))),
    ],
)
def test_what_is_rounded_must_say_what_it_was_scaled_by(refused: object) -> None:
    """French hours that were filled in, averages, shares: nobody's guess is taken for one."""
    with pytest.raises(SettingsError, match="by how much one person moves one"):
        refused()  # type: ignore[operator]


PAYLOAD = {"sensor": "s", "start": "t", "interval_seconds": 60, "count": "n"}


@pytest.mark.parametrize("more", [{"decimals": "round", "largest_factor": 2.0}, {"largest_factor": 1.0}])
def test_totals_are_taken_unscaled_only(more: dict[str, object]) -> None:
    """One person moves every later difference of a rounded total: there is no largest factor of those."""
    with pytest.raises(SettingsError, match="totals must be whole and unscaled"):
        PayloadMap(PayloadSettings.model_validate({**PAYLOAD, "kind": "total", **more}))


def test_a_share_of_the_hour_below_what_the_factor_covers_is_refused(city: Path) -> None:
    mapping = resolved_map(FilesMap(preset="telraam", least_uptime=0.25))
    with pytest.raises(SettingsError, match="at least 1 / least_uptime"):
        read_archive([city / "telraam.csv"], mapping)
    wider = resolved_map(FilesMap(preset="telraam", least_uptime=0.25, largest_factor=4.0))
    assert read_archive([city / "telraam.csv"], wider).most_counts == 4


def test_no_door_takes_scaled_counts_for_sensors_that_do_not_declare_them(city: Path) -> None:
    """Files, live connectors, run, check and Kafka say the same; all of them take the mended file."""
    config, kafka = city / "tallyguard.toml", city / "kafka.toml"
    live = PayloadSettings.model_validate({**PAYLOAD, "largest_factor": 2.0})

    def doors() -> list[str]:
        settings = load_settings(config)
        kafka.write_text(config.read_text() + '[kafka]\nservers = ["nowhere:9092"]\n')
        for path in city.glob("*.jsonl"):
            path.unlink()
        found = []
        arguments = ("connect", "files", city / "telraam.csv", "--preset", "telraam", "--config", config)
        result = called(*arguments, "--output", city / "messages.jsonl")
        found.append(str(result.exception or ""))
        (city / "empty.jsonl").write_text("")
        run = (
            "run",
            "--config",
            config,
            "--input",
            city / "empty.jsonl",
            "--output",
            city / "out",
            "--listen",
            "",
        )
        found.append(str(called(*run, "--create-keys").exception or ""))
        for door in (
            lambda: announced_sensors(settings, live, "connect.http.map"),
            lambda: Deployment.of(load_settings(kafka)),
        ):
            try:
                door()
                found.append("")
            except TallyguardError as error:
                found.append(str(error))
        checked = check_files(config=config)
        found.append(" ".join(each.sentence for each in checked if each.level == "problem"))
        return found

    assert [said[:60] for said in doors() if "most_counts of 2 or more" not in said] == []
    (city / "sensors.json").write_text(json.dumps(TWICE))
    assert [said[:60] for said in doors() if "most_counts" in said] == []


def test_sensors_must_be_known_where_counts_are_scaled() -> None:
    with pytest.raises(SettingsError, match="no locations"):
        require_most_counts(None, [FilesMap.model_validate({"largest_factor": 1.5})])
    require_most_counts(None, [FilesMap.model_validate({"largest_factor": 1.0}), FilesMap()])
    passages = SensorRegistry(("a",), (Sensor("a", (0,), most_counts=2, counts=Kind.PASSAGES),))
    require_most_counts(passages, [FilesMap.model_validate({"largest_factor": 1.0001})])
    with pytest.raises(SettingsError, match="3 or more"):
        require_most_counts(passages, [FilesMap.model_validate({"largest_factor": 2.0001})])


def test_a_file_with_decimals_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("t,s,n\n2026-01-01 00:00,a,12.5\n")
    mapping = {"start": "t", "sensor": "s", "count": "n", "timezone": "UTC"}
    with pytest.raises(InputError, match="largest_factor"):
        read_archive([tmp_path / "n.csv"], FilesMap.model_validate(mapping))


def test_a_declared_column_stands_below_the_header_that_is_said(tmp_path: Path) -> None:
    """The column most_counts is looked for where the mapping says that the names stand, as all others are."""
    rows = "".join(f"2026-03-02T{hour:02}:00:00Z,north,{hour * 7 % 23},2\n" for hour in range(24))
    path = tmp_path / "counts.csv"
    path.write_text(f"made,by,connect,files\ntime,sensor,count,most_counts\n{rows}")
    assert read_counts(path, header=2).most_counts == 2
