"""Open data of a run: what it released, noise and ceiling stated, and nothing that it did not release."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import frictionless
import pyarrow.parquet as pq
import pyshacl
import pytest
from frictionless import system

from models.exceptions import SensorError, TallyguardError
from models.mechanisms import Gaussian, half_width
from models.priors import Population
from stream_app.analysis.catalogue import Address, Rhythm
from stream_app.analysis.export import export_run
from stream_app.embedded import RunOptions, run
from stream_app.exceptions import InputError, OutputError
from stream_app.setup.option_settings import ExportFormat
from stream_app.setup.sensor_files import sensor_degrees
from stream_app.starting.connect.mqtt import one_value
from stream_app.starting.connect.released import PublishedLog
from stream_app.starting.connect.sensorthings import observation
from tests.stream_app.command_line import called
from tests.stream_app.engine_support import (
    LITTLE_WORK,
    NAMES,
    json_lines,
    lines_of,
    messages_of_a_day,
    population,
    settings,
)

STEPS = 30
PLACES = {name: (16.3 + number / 100, 48.2) for number, name in enumerate(NAMES)}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of hourly steps from an evening on, so of two days and a bit."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "day.jsonl").write_bytes(lines_of(messages_of_a_day(STEPS, 3, faults=True)))
    chosen = settings(**LITTLE_WORK, origin="2026-03-28T20:00:00Z", step_seconds=3600)
    run(chosen, RunOptions(folder / "out", folder / "day.jsonl"), population())
    return folder / "out"


def exported(out: Path, folder: Path, *kinds: ExportFormat, **about: str) -> dict[str, Any]:
    export_run(out, folder, kinds or (ExportFormat.CSV, ExportFormat.PARQUET), PLACES, about)
    found: dict[str, Any] = json.loads((folder / "datapackage.json").read_text())
    return found


def released(out: Path) -> dict[tuple[int, str], tuple[str, Any, Any]]:
    """Mechanism, sigma and value by step and sensor, straight from the log."""
    return {
        (line["step"], entry["sensor"]): (entry["mechanism"], entry.get("sigma"), entry.get("value"))  # type: ignore[index]
        for line in json_lines(out / "releases.jsonl")
        for entry in line["releases"]  # type: ignore[attr-defined]
    }


def test_tables_by_day_hold_every_release_and_nothing_else(out: Path, tmp_path: Path) -> None:
    exported(out, tmp_path)
    wanted = released(out)
    days = ["2026-03-28", "2026-03-29", "2026-03-30"]
    assert sorted(path.stem for path in tmp_path.glob("*.csv")) == [f"counts-{day}" for day in days]
    from_csv, from_parquet = {}, {}
    for day in days:
        with (tmp_path / f"counts-{day}.csv").open() as file:
            for row in csv.DictReader(file):
                assert row["start"].startswith(day)
                value = (
                    row["mechanism"],
                    float(row["sigma"]) if row["sigma"] else None,
                    int(row["value"]) if row["value"] else None,
                )
                from_csv[int(row["step"]), row["sensor"]] = value
        for row in pq.read_table(tmp_path / f"counts-{day}.parquet").to_pylist():
            assert (row["end"] - row["start"]).total_seconds() == 3600
            from_parquet[row["step"], row["sensor"]] = row["mechanism"], row["sigma"], row["value"]
    assert from_csv == from_parquet == wanted
    suppressed = [value for mechanism, _, value in from_csv.values() if mechanism == "suppressed"]
    assert suppressed
    assert set(suppressed) == {None}


def test_the_frictionless_library_finds_the_package_valid(out: Path, tmp_path: Path) -> None:
    """Descriptor and every row of the CSV: types, required cells, one row a sensor and step."""
    package = exported(out, tmp_path, ExportFormat.CSV, licence="CC-BY-4.0")
    with system.use_context(trusted=True):
        report = frictionless.validate(str(tmp_path / "datapackage.json"))
    assert report.valid, report.flatten(["title", "note"])
    assert len(report.tasks) == len(package["resources"]) == 3
    assert package["licenses"] == [{"name": "CC-BY-4.0"}]
    broken = tmp_path / package["resources"][0]["path"]
    broken.write_text(broken.read_text().replace("gaussian", "", 1))
    with system.use_context(trusted=True):
        assert not frictionless.validate(str(tmp_path / "datapackage.json")).valid


@pytest.mark.slow
@pytest.mark.parametrize("of_people", [True, False])
def test_the_catalogue_record_keeps_to_dcat_ap_3_and_states_what_was_promised(
    out: Path, tmp_path: Path, *, of_people: bool
) -> None:
    """By the shapes of DCAT-AP 3 and mobilityDCAT-AP; what has no finite figure has none, and it is said."""
    if not of_people:
        (tmp_path / "day.jsonl").write_bytes(lines_of(messages_of_a_day(4, 3)))
        chosen = settings(step_seconds=3600, release={"mechanism": "gaussian", "sigma": 2.0})
        run(chosen, RunOptions(tmp_path / "out", tmp_path / "day.jsonl"), Population.pack([], NAMES))
        out = tmp_path / "out"
    address = Address("https://data.example.org/counts/", "data@example.org", Rhythm.DAILY)
    about = {"licence": "CC-BY-4.0", "publisher": "The city"}

    def written(name: str, *also: Any) -> Path:
        kinds = (ExportFormat.CSV, ExportFormat.PARQUET, ExportFormat.GEOJSON, ExportFormat.NGSI_LD)
        export_run(out, tmp_path / name, kinds, PLACES, about, None, None, *also)
        return tmp_path / name

    folder = written("open", address)
    text = (folder / "catalogue.jsonld").read_text()
    assert not _faults(text)
    assert (written("again", address) / "catalogue.jsonld").read_text() == text
    assert not (written("without") / "catalogue.jsonld").exists()
    nodes = {node["@id"].rpartition("#")[2]: node for node in json.loads(text)["@graph"]}
    files = {path.name for path in folder.iterdir()} - {"catalogue.jsonld", "datapackage.json"}
    assert {nodes[name]["dcat:downloadURL"]["@id"] for name in files} == {
        f"https://data.example.org/counts/{name}" for name in files
    }
    package = json.loads((folder / "datapackage.json").read_text())
    done = called("ledger", str(out), "--json")
    by_unit = json.loads(done.stdout)["differential_privacy_by_unit"]
    wanted = {
        "highest ceiling": package["ceiling"]["highest"],
        "confidence of intervals": package["intervals"]["confidence"],
        **{f"epsilon of the {each['unit']}": each["epsilon"] for each in by_unit},
    }
    finite = {name: value for name, value in wanted.items() if value is not None}
    assert len(finite) == (2 if of_people else 5)
    measured = nodes["dataset"]["dqv:hasQualityMeasurement"]
    assert {
        unquote(each["dqv:isMeasurementOf"]["@id"].rpartition("#")[2]): float(each["dqv:value"]["@value"])
        for each in measured
    } == finite
    said = nodes["dataset"]["dct:provenance"]["rdfs:label"]["@value"]
    assert "gaussian, sigma 2 people" in said
    assert said.count("Not stated") == len(wanted) - len(finite)
    if of_people:
        assert package["ceiling"]["condition"] in said
        for needed in ("dct:accrualPeriodicity", "dcat:bbox"):
            assert _faults(text.replace(f'"{needed}"', '"dct:extent"')), needed


def _faults(document: str) -> str:
    """What the validator finds."""
    shapes = str(Path(__file__).with_name("dcat_ap_3.ttl"))
    is_valid, _, found = pyshacl.validate(document, data_graph_format="json-ld", shacl_graph=shapes)
    return "" if is_valid else found


def test_the_address_of_a_catalogue_record_is_on_the_web() -> None:
    with pytest.raises(InputError, match="a folder on the web"):
        Address("data/counts")


def test_units_noise_ceiling_with_condition_and_citation_are_stated(out: Path, tmp_path: Path) -> None:
    package = exported(out, tmp_path, title="Counts", publisher="The city")
    fields = {field["name"]: field for field in package["resources"][0]["schema"]["fields"]}
    assert (fields["value"]["unit"], fields["sigma"]["unit"]) == ("people", "people")
    assert package["citation"].startswith("The city: Counts.")
    assert "licenses" not in package
    summaries = [line for line in json_lines(out / "risks.jsonl") if line["type"] == "risk_summary"]
    ceiling = package["ceiling"]
    assert ceiling["highest"] == summaries[-1]["most_risk"]
    assert ceiling["people"] == 6
    for word in (f"{ceiling['horizon_steps']} consecutive steps", "where everybody else is", "as the priors"):
        assert word in ceiling["condition"]


def test_without_people_no_ceiling_is_stated_and_none_is_zero(out: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    document = json.loads((out / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**document, "people": 0}))
    (folder / "releases.jsonl").write_bytes((out / "releases.jsonl").read_bytes())
    ceiling = exported(folder, tmp_path / "open")["ceiling"]
    assert ceiling["highest"] is None
    assert "differential privacy" in ceiling["condition"]


def test_the_last_step_as_geojson_and_ngsi_ld_lacks_what_was_not_published(out: Path, tmp_path: Path) -> None:
    lines = (out / "releases.jsonl").read_bytes().splitlines(keepends=True)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_bytes((out / "run.json").read_bytes())
    missing: dict[int, set[bool]] = {}
    for (step, _), (_, _, value) in released(out).items():
        missing.setdefault(step, set()).add(value is None)
    last = max(step for step, found in missing.items() if found == {True, False})
    (folder / "releases.jsonl").write_bytes(b"".join(lines[: last + 1]))
    wanted = {s: v for (t, s), (_, _, v) in released(out).items() if t == last}
    export_run(folder, tmp_path / "open", (ExportFormat.GEOJSON, ExportFormat.NGSI_LD), PLACES, {})
    points = json.loads((tmp_path / "open" / "last-step.geojson").read_text())["features"]
    assert {point["id"]: point["properties"]["value"] for point in points} == wanted
    assert {point["id"]: tuple(point["geometry"]["coordinates"]) for point in points} == {
        name: PLACES[name] for name in wanted
    }
    entities = json.loads((tmp_path / "open" / "last-step.jsonld").read_text())
    assert {e["name"]["value"]: e.get("peopleCount", {}).get("value") for e in entities} == wanted
    assert all(e["type"] == "CrowdFlowObserved" and e["id"].startswith("urn:ngsi-ld:") for e in entities)
    assert not (tmp_path / "open" / "datapackage.json").exists()
    with pytest.raises(InputError, match="must have lat and lon"):
        export_run(folder, tmp_path / "open", (ExportFormat.GEOJSON,), {}, {})


def test_places_are_read_from_the_sensors_file(tmp_path: Path) -> None:
    path = tmp_path / "sensors.csv"
    path.write_text("name,locations,lat,lon\na,0,48.2,16.3\nb,1,,\n")
    assert sensor_degrees(path) == {"a": (16.3, 48.2)}
    path.write_text("name,locations,lat,lon\na,0,98.2,16.3\n")
    with pytest.raises(SensorError, match="degrees of latitude"):
        sensor_degrees(path)


def test_the_command_says_what_it_wrote(out: Path, tmp_path: Path) -> None:
    done = called("export", str(out), "--output", str(tmp_path / "open"), "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["days"] == 3
    assert document["values"] == sum(value is not None for _, _, value in released(out).values())
    done = called("export", str(out), "--output", str(tmp_path / "open"))
    assert "Ceiling of the period" in done.stdout


def test_the_command_says_that_no_period_of_a_total_is_over(tmp_path: Path) -> None:
    chosen = settings(**LITTLE_WORK, origin="2026-03-28T20:00:00Z", step_seconds=3600)
    messages = [message for message in messages_of_a_day(5, 1) if message.step < 5]
    run(chosen, RunOptions(tmp_path / "out"), population(), chunks=[lines_of(messages)])
    open_data = ["--output", str(tmp_path / "sums"), "--totals", "week by city"]
    done = called("export", str(tmp_path / "out"), *open_data)
    assert "; no totals, as no whole period of any is over; " in done.stdout, done.output


def test_a_folder_that_released_nothing_is_refused(out: Path, tmp_path: Path) -> None:
    with pytest.raises(TallyguardError):
        exported(tmp_path, tmp_path / "open")
    (tmp_path / "run.json").write_bytes((out / "run.json").read_bytes())
    with pytest.raises(OutputError, match="released something"):
        exported(tmp_path, tmp_path / "open")


def test_every_value_says_how_far_off_it_may_be_and_what_was_suppressed_is_no_zero(
    out: Path, tmp_path: Path
) -> None:
    """One interval in tables, NGSI-LD, SensorThings and MQTT; at the run's confidence or as asked."""
    places = {name: PLACES[name] for name in NAMES}
    package = exported(out, tmp_path)
    assert package["intervals"]["confidence"] == 0.95
    for words in ("a value is not the count", "95 %", "is no 0"):
        assert words in package["intervals"]["meaning"]
    rows = [row for path in sorted(tmp_path.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    for row in rows:
        if row["value"] is None:
            assert (row["low"], row["high"]) == (0, None)
        else:
            width = 0 if row["sigma"] is None else half_width([Gaussian(row["sigma"])], 0.95)
            assert (row["low"], row["high"]) == (max(0, row["value"] - width), max(0, row["value"] + width))
    assert {row["value"] is None for row in rows} == {True, False}
    export_run(out, tmp_path / "ngsi", [ExportFormat.NGSI_LD], places, {}, 0.8)
    entities = json.loads((tmp_path / "ngsi" / "last-step.jsonld").read_text())
    counted = [entity["peopleCount"] for entity in entities if "peopleCount" in entity]
    assert {each["confidence"]["value"] for each in counted} == {0.8}
    assert all(each["low"]["value"] <= max(0, each["value"]) <= each["high"]["value"] for each in counted)
    log = PublishedLog(out, None)
    sent = []
    while (release := log.next()) is not None:
        for entry in release.releases:
            quality = observation(log.times, release.step, entry, log.intervals)["resultQuality"]
            value = json.loads(one_value(log.times, release.step, entry, log.intervals))
            ends = (value.get("low", 0), value.get("high"))
            assert (quality.get("low", 0), quality.get("high")) == ends
            sent.append((release.step, entry.sensor, *ends))
    assert sorted(sent, key=str) == sorted(
        ((row["step"], row["sensor"], row["low"], row["high"]) for row in rows), key=str
    )
