"""From a home-work table or synthetic agents, as they are published, to a running engine in two commands."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.settings import HorizonSettings
from models.fitting.calibration import expected_flows
from models.mechanisms import Gaussian
from models.prior_files import load_population, save_population
from models.priors import Population
from models.releases import Sensor, SensorRelease, StepSchedule
from stream_app.exceptions import InputError
from stream_app.starting.aggregates import PersonaQuestions, make_personas
from stream_app.starting.aggregates.survey_files import assumed_days, read_days
from stream_app.starting.aggregates.zone_files import read_points
from tests.shared_files import shared
from tests.stream_app.command_line import invoked

ZONES = "name,lat,lon,out\nnorth,48.00,2.00,1\nmill,48.01,2.00,4\nport,48.02,2.01,2\n"
PLANE = "name,x,y\nnorth,0,0\nmill,0,1100\nport,800,2200\n"
AT = {"north": (0.0, 0.0), "mill": (0.0, 1100.0), "port": (800.0, 2200.0)}
DEGREES = {"north": (48.0, 2.0), "mill": (48.01, 2.0), "port": (48.02, 2.01)}
#: agent, activity, zone, start and end in hours
DAYS = [
    ("1", "home", "north", None, 8),
    ("1", "work", "mill", 8, 17),
    ("1", "shop", "port", 17, 18),
    ("1", "home", "north", 18, None),
    ("2", "home", "port", None, 9),
    ("2", "education", "mill", 9, 15),
    ("2", "home", "port", 15, None),
    ("3", "home", "mill", None, None),
]
UVA_TYPES = {"home": 1, "work": 2, "shop": 3, "education": 5}


def written(folder: Path, text: str, name: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def lodes(folder: Path) -> list[object]:
    """Blocks of a census, whose first digits are tracts; one home lies outside."""
    rows = ["w_geocode,h_geocode,S000,SA01,createdate"]
    rows += ["110010000012003,110020000011001,30,1,20230101", "110010000012004,110010000012001,12,1,20230101"]
    rows += ["110020000011001,550010000011001,4,1,20230101"]
    zones = "geoid,lat,lon\n11001000001,48.0,2.0\n11002000001,48.02,2.01\n"
    return [written(folder, "\n".join(rows), "od.csv"), "--zones", written(folder, zones, "tracts.csv")]


def od(folder: Path) -> list[object]:
    """A plain table, and people without a place of work."""
    rows = "flow,origin,destination\n40,north,mill\n25,port,mill\n8,mill,mill\n30,north,\n"
    return [written(folder, rows, "od.csv"), "--zones", written(folder, ZONES, "zones.csv")]


def mobpro(folder: Path) -> list[object]:
    """INSEE's rows, one a person with a weight; of a city its arrondissement counts."""
    rows = "COMMUNE;ARM;DCLT;IPONDI\nnorth;ZZZZZ;mill;3.5\ntown;port;mill;2.25\nnorth;ZZZZZ;north;1\n"
    return [written(folder, rows, "mobpro.csv"), "--zones", written(folder, ZONES, "zones.csv")]


def eqasim_rows() -> list[dict[str, object]]:
    return [
        {
            "person_id": person,
            "activity_index": number,
            "purpose": purpose,
            "start_time": None if begin is None else begin * 3600.0,
            "end_time": None if end is None else end * 3600.0,
            "zone": zone,
        }
        for number, (person, purpose, zone, begin, end) in enumerate(DAYS)
    ]


def wkb(zone: str) -> bytes:
    return struct.pack("<BIdd", 1, 1, *AT[zone])


def eqasim_gpkg(folder: Path) -> list[object]:
    """The GeoPackage that the pipeline writes, with a header before each point."""
    out = folder / "output"
    out.mkdir()
    written(out, "person_id;age\n1;40\n", "town_persons.csv")
    with closing(sqlite3.connect(out / "town_activities.gpkg")) as base:
        base.execute("CREATE TABLE gpkg_contents (table_name TEXT, data_type TEXT)")
        base.execute("INSERT INTO gpkg_contents VALUES ('town_activities', 'features')")
        base.execute(
            "CREATE TABLE town_activities "
            "(fid INTEGER, geom BLOB, person_id INTEGER, purpose TEXT, start_time REAL)"
        )
        for number, row in enumerate(eqasim_rows()):
            blob = b"GP\x00\x01" + struct.pack("<i", 2154) + wkb(str(row["zone"]))
            cells = (number, blob, int(str(row["person_id"])), row["purpose"], row["start_time"])
            base.execute("INSERT INTO town_activities VALUES (?, ?, ?, ?, ?)", cells)
        base.commit()
    return [out, "--zones", written(folder, PLANE, "zones.csv")]


def eqasim_parquet(folder: Path) -> list[object]:
    """GeoParquet: points without a header."""
    rows = [{**row, "geometry": wkb(str(row.pop("zone")))} for row in eqasim_rows()]
    out = folder / "output"
    out.mkdir()
    pq.write_table(pa.Table.from_pylist(rows), out / "town_activities.parquet")
    return [out, "--zones", written(folder, PLANE, "zones.csv")]


def uva_rows(*, with_places: bool) -> str:
    header = "hid,pid,activity_number,activity_type,start_time,duration,lid"
    rows = [header + (",longitude,latitude,travel_mode" if with_places else "")]
    for number, (person, purpose, zone, begin, end) in enumerate(DAYS):
        start, stop = (begin or 0) * 3600, (24 if end is None else end) * 3600
        lid = list(AT).index(zone)
        cells = [1, person, number, UVA_TYPES[purpose], start, stop - start, lid]
        rows.append(",".join(map(str, cells + ([*DEGREES[zone][::-1], 0] if with_places else []))))
    rows.append("1,1,99,0,28000,800,0" + (",2.0,48.0,1" if with_places else ""))
    return "\n".join(rows)


def uva(folder: Path) -> list[object]:
    """Assignments with coordinates; a trip among them is no activity."""
    source = written(folder, uva_rows(with_places=True), "xy_activity_location_assignment_v_0_9.csv")
    return [source, "--zones", written(folder, ZONES, "zones.csv")]


def uva_beside(folder: Path) -> list[object]:
    """Assignments whose coordinates stand in the two files of locations beside them."""
    source = written(folder, uva_rows(with_places=False), "xy_activity_location_assignment_v_0_9.csv")
    for kind, key in (("activity_locations", "alid"), ("residence_locations", "rlid")):
        rows = [f"{key},longitude,latitude"]
        rows += [f"{number},{lon},{lat}" for number, (lat, lon) in enumerate(DEGREES.values())]
        written(folder, "\n".join(rows), f"xy_{kind}_v_0_9.csv")
    return [source, "--zones", written(folder, ZONES, "zones.csv")]


def sensors_only(folder: Path) -> list[object]:
    """Nothing but where sensors stand."""
    return ["--sensors", written(folder, ZONES, "sensors.csv"), "--people", 5000]


SHAPES = [lodes, od, mobpro, eqasim_gpkg, eqasim_parquet, uva, uva_beside, sensors_only]


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_two_commands_lead_to_a_running_engine(tmp_path: Path, shape: Callable[[Path], list[object]]) -> None:
    """Personas, then a run: every output says that habits are assumed and of how many personas."""
    priors = tmp_path / "personas.json"
    status, said = invoked("priors", "personas", *shape(tmp_path), "--output", priors)
    assert status == 0, said
    population = load_population(priors)
    assert population.weights is not None
    assert population.assumed is not None
    assert f"{len(population):,} personas for " in population.assumed
    assert population.assumed in said
    sensor = population.location_names[0]
    lines = [
        line
        for step in range(3)
        for line in (
            {"v": 1, "type": "activation", "step": step, "sensors": [sensor]},
            {"v": 1, "type": "reading", "step": step, "sensor": sensor, "count": step + 3},
        )
    ]
    messages = written(tmp_path, "".join(json.dumps(line) + "\n" for line in lines), "messages.jsonl")
    out = tmp_path / "out"
    status, said = invoked(
        "run", "--priors", priors, "--input", messages, "--output", out, "--create-keys", "--listen", ""
    )
    assert status == 0, said
    assert "habits are assumed, not measured" in said
    assert (out / "releases.jsonl").read_text().count('"mechanism"') == 3


def made(folder: Path, shape: Callable[[Path], list[object]], **questions: object) -> Population:
    source, _, zones = shape(folder)
    return make_personas(Path(str(source)), PersonaQuestions(zones=Path(str(zones)), **questions)).population  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "shape", [eqasim_gpkg, eqasim_parquet, uva, uva_beside], ids=lambda shape: shape.__name__
)
def test_agents_of_every_shape_become_the_same_personas(
    tmp_path: Path, shape: Callable[[Path], list[object]]
) -> None:
    """One works, one studies, one is at home; where they are in each hour is what their days say."""
    found = made(tmp_path, shape)
    school = "studies"
    assert sorted(found.people) == ["mill, at home", "north to mill, works", f"port to mill, {school}"]
    assert found.weights.tolist() == [1.0, 1.0, 1.0]
    presence = expected_flows(found, 24).sum(axis=2)
    names = found.location_names
    assert presence[3, names.index("north")] == pytest.approx(1.0, abs=0.01)
    assert presence[11, names.index("mill")] == pytest.approx(3.0, abs=0.02)
    assert presence[17, names.index("port")] == pytest.approx(2.0, abs=0.02)


def test_blocks_become_tracts_and_homes_outside_are_told(tmp_path: Path) -> None:
    source, _, zones = lodes(tmp_path)
    result = make_personas(Path(str(source)), PersonaQuestions(zones=Path(str(zones))))
    assert result.population.people[:2] == (
        "11001000001 to 11001000001, works",
        "11002000001 to 11001000001, works",
    )
    assert result.population.weights.tolist() == [12.0, 30.0, 4.0]
    assert "4 of 46 people live or work in zones without a place on the map" in result.remarks[0]
    assert result.population.location_names == ("11001000001", "11002000001", "elsewhere")


def test_zones_go_to_the_nearest_sensor_within_reach(tmp_path: Path) -> None:
    """Two zones near one sensor are one location, the third is elsewhere; the deployment's file will do."""
    source, _, zones = od(tmp_path)
    rows = {"sensors": [{"name": "gate", "locations": ["gate"], "lat": 48.004, "lon": 2.0}]}
    sensors = written(tmp_path, json.dumps(rows), "sensors.json")
    questions = PersonaQuestions(zones=Path(str(zones)), sensors=sensors, within_km=1.0)
    found = make_personas(Path(str(source)), questions).population
    assert found.location_names == ("gate", "elsewhere")
    person = found.people.index("north to mill, works")
    assert found.prior(person).places.tolist()[0] == 0
    far = found.people.index("port to mill, works")
    assert found.prior(far).places.tolist() == [0, 1]


def test_surveyed_days_flows_and_counts_are_used(tmp_path: Path) -> None:
    """Days of a survey, flows that calibrate, and mean counts of sensors; the label names them all."""
    source, _, zones = od(tmp_path)
    survey = (
        "person,weight,0,1,2,3\n1,2,home,work,work,home\n2,1,home,shop,home,home\n3,1,home,home,home,home\n"
    )
    flows = "slot,origin,destination,people\n0,north,mill,46\n1,mill,north,6\n"
    hours = [("00:00", 70), ("06:00", 24), ("12:00", 30), ("18:00", 70)]
    counts = "time,north,weather\n" + "".join(
        f"2026-03-0{day} {hour},{count},rain\n" for day in (2, 3) for hour, count in hours
    )
    asked = (
        *("priors", "personas", source, "--zones", zones, "--slots", 4, "--json"),
        *("--activities", written(tmp_path, survey, "survey.csv")),
        *("--flows", written(tmp_path, flows, "flows.csv")),
        *("--counts", written(tmp_path, counts, "counts.csv")),
        *("--penalty", 0, "--output", tmp_path / "p.parquet"),
    )
    status, said = invoked(*asked)
    assert (status, "; say --timezone Europe/Vienna; UTC if they are of it" in said) == (1, True), said
    status, said = invoked(*asked, "--timezone", "UTC")
    assert status == 0, said
    document = json.loads(said)
    assert "Columns left out: weather; they hold no counts of people." in document["remarks"]
    assert document["assumed"] == (
        "4 personas for 103 people from a home-work table and surveyed days, hourly flows, mean counts"
    )
    found = load_population(tmp_path / "p.parquet")
    made_flows = expected_flows(found, 4)
    names = found.location_names
    assert document["calibration"]["settled"], document
    assert made_flows[0, names.index("north"), names.index("mill")] == pytest.approx(46.0, abs=1e-3)
    assert made_flows[1, names.index("north")].sum() == pytest.approx(24.0, abs=1e-3)
    assert found.assumed == document["assumed"]


def test_polygons_are_placed_by_their_middle(tmp_path: Path) -> None:
    """The centroid of the largest ring, named by the property that the table uses."""
    square = [[[0, 0], [2, 0], [2, 2], [0, 2], [0, 0]]]
    small = [[[9, 9], [9.1, 9], [9.1, 9.1], [9, 9]]]
    features = [
        {"properties": {"id": "7", "tile": "a"}, "geometry": {"type": "Polygon", "coordinates": square}},
        {
            "properties": {"id": "8", "tile": "b"},
            "geometry": {"type": "MultiPolygon", "coordinates": [small, square]},
        },
        {"properties": {"id": "9", "tile": "c"}, "geometry": {"type": "Point", "coordinates": [3, 4]}},
    ]
    points = read_points(written(tmp_path, json.dumps({"features": features}), "z.geojson"), {"a", "b"})
    assert points.names == ("a", "b", "c")
    assert points.north == pytest.approx((1.0, 1.0, 4.0))
    assert points.east == pytest.approx((1.0, 1.0, 3.0))


def test_new_york_s_counties_go_through_the_table_and_the_map(tmp_path: Path) -> None:
    """1 954 flows between 62 counties: everybody has a home and work, on a map of polygons."""
    folder = shared("data/ny_commuting")
    questions = PersonaQuestions(zones=folder / "counties_2011.geojson")
    found = make_personas(folder / "flows_2011.csv", questions)
    assert len(found.population) == 1954
    assert found.population.location_count == 63
    assert not found.remarks
    presence = expected_flows(found.population, 24).sum(axis=2)
    manhattan = found.population.location_names.index("36061")
    assert presence[11, manhattan] > 1.5 * presence[3, manhattan]


def test_weekdays_of_a_week_are_days_of_their_own(tmp_path: Path) -> None:
    """Work on four days and none on the fifth: two classes, of which each day weighs a fifth; no mean day."""
    rows = ["pid,activity_type,start_time,lat,lon"]
    for day in range(7):
        rows.append(f"1,1,{day * 86_400},48.0,2.0")
        if day < 4:
            rows += [f"1,2,{day * 86_400 + 30_000},48.01,2.0", f"1,1,{day * 86_400 + 60_000},48.0,2.0"]
    source = written(tmp_path, "\n".join(rows), "xy_activity_location_assignment_week.csv")
    found = make_personas(source, PersonaQuestions(zones=written(tmp_path, ZONES, "zones.csv"))).population
    assert found.people == ("north to mill, works", "north, at home")
    assert found.weights.tolist() == pytest.approx([0.8, 0.2])


def test_a_week_of_assumed_days_has_no_work_at_the_weekend() -> None:
    works, free = assumed_days(24, week=True)
    assert (works.slots, free.slots) == (168, 168)
    assert works.law[5 * 24 :, 1].max() < 1e-12
    assert works.law[3 * 24 + 11, 1] > 0.5


@pytest.mark.parametrize(
    ("name", "text", "more", "says"),
    [
        ("od.csv", "a,b\n1,2\n", [], "must be a home-work table"),
        ("od.csv", "origin,destination\na,b\n", [], "must have a column of people: s000, people, flow"),
        ("od.csv", "origin,destination,flow\na,b,x\n", [], "must hold numbers, got something else in row 1"),
        ("od.csv", "origin,destination,flow\na,b,-1\n", [], "must be 0 or more, got fewer in row 1"),
        ("od.csv", "origin,destination,flow\n,b,1\n", [], "must have a home, got none in row 1"),
        ("od.csv", "origin,destination,flow\na,b,0\n", [], "somebody in all, got nobody"),
        (
            "od.csv",
            "origin,destination,flow\na,b,1\n",
            ["--zones", "zones.csv"],
            "the names that the table uses",
        ),
        ("od.csv", "origin,destination,flow\na,b,1\n", ["--sensors", "zones.csv"], "zones without a place"),
        (
            "x.csv",
            "pid,activity_type,start_time,lat,lon\n1,9,0,48,2\n",
            ["--zones", "zones.csv"],
            "must be 0 to 7",
        ),
        ("x.csv", "pid,activity_type,start_time,lat,lon\n1,1,0,48,2\n", [], "zones that their points lie in"),
        (
            "x.csv",
            "pid,activity_type,start_time,lat,lon\n1,2,0,48,2\n",
            ["--zones", "zones.csv"],
            "at home at some",
        ),
        (
            "x.csv",
            "person_id,purpose,start_time,x,y\n1,home,0,1,1\n",
            ["--zones", "zones.csv"],
            "both have degrees",
        ),
        (
            "od.csv",
            "origin,destination,flow\n",
            ["--zones", "zones.csv"],
            "a row for each pair of home and work",
        ),
        ("x.csv", "pid,activity_type,start_time,lat,lon\n", ["--zones", "zones.csv"], "got no activities"),
        (
            "x.csv",
            "pid,activity_type,start_time,lat,lon\n1,1,-5,48,2\n",
            ["--zones", "zones.csv"],
            "got -5 in row 1",
        ),
        (
            "x.csv",
            "pid,activity_type,start_time,lat,lon\n1,1,600000,48,2\n",
            ["--zones", "zones.csv"],
            "must have a weekday",
        ),
        (
            "x.csv",
            "pid,activity_type,start_time,lat,lon\n1,1,0,48,2\n",
            ["--zones", "zones.csv", "--cycle", "week"],
            "must be of a home-work table with assumed days",
        ),
        ("x.gpkg", "no database", ["--zones", "zones.csv"], "must be a GeoPackage"),
        *(
            ("od.csv", "origin,destination,flow\nnorth,mill,5\n", ["--zones", "zones.csv", *more], says)
            for more, says in (
                (["--activities", "days.csv"], "give --cycle week"),
                (["--activities", "odd.csv", "--cycle", "week"], "something else in row 2"),
                (["--activities", "plain.csv", "--cycle", "week"], "say weekday or weekend"),
                (["--activities", "free.csv", "--cycle", "week"], "got weekends alone"),
            )
        ),
    ],
)
def test_what_cannot_be_read_is_told_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, more: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, ZONES, "zones.csv")
    for file, days in (("days", ("1", "6")), ("odd", ("1", "x")), ("free", ("sunday", "weekend"))):
        rows = "".join(f"{day},home,work\n" for day in days)
        written(tmp_path, f"day,0,1\n{rows}", f"{file}.csv")
    written(tmp_path, "0,1\nhome,work\n", "plain.csv")
    source = written(tmp_path, text, name)
    status, said = invoked("priors", "personas", source, *more, "--output", "p.json")
    assert status == 1
    assert says in said
    assert not (tmp_path / "p.json").exists()


def test_nothing_but_sensors_needs_a_number_of_people(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no --people"):
        make_personas(None, PersonaQuestions(sensors=written(tmp_path, ZONES, "sensors.csv")))


@pytest.mark.slow
def test_mean_counts_calibrate_the_invented_people(tmp_path: Path) -> None:
    """The people of init --habits assumed, as personas: what a sensor counts on average is met."""
    sensors = written(tmp_path, ZONES, "sensors.csv")
    rows = "".join(f"2026-03-02 {hour:02d}:00,{100 + 7 * hour % 24}\n" for hour in range(24))
    status, said = invoked(
        *("priors", "personas", "--sensors", sensors, "--people", 5000, "--penalty", 0),
        *("--counts", written(tmp_path, f"time,mill\n{rows}", "counts.csv"), "--timezone", "UTC"),
        *("--output", tmp_path / "p.json"),
    )
    assert status == 0, said
    found = load_population(tmp_path / "p.json")
    presence = expected_flows(found, 24).sum(axis=2)[:, found.location_names.index("mill")]
    np.testing.assert_allclose(presence, 100 + 7 * np.arange(24) % 24, rtol=1e-4)
    assert "invented people" in str(found.assumed)


@pytest.mark.slow
def test_counts_of_passages_are_between_a_person_each_and_one_for_several(tmp_path: Path) -> None:
    """A line that counts everybody up to four times: 100 are met by 25 to 100 people, by sensors.json."""
    rows = "".join(
        f"2026-03-02 {hour:02d}:00,{400 if hour == 12 else 0 if hour == 3 else 40}\n" for hour in range(24)
    )
    listed = [
        {"name": name, "locations": [place], "lat": 48.0, "lon": 2.0 + place / 100, **more}
        for place, (name, more) in enumerate((("mill", {"most_counts": 4}), ("gate", {})))
    ]
    sensors = written(tmp_path, json.dumps({"sensors": listed}), "sensors.json")
    status, said = invoked(
        *("priors", "personas", "--sensors", sensors, "--people", 5000, "--penalty", 0),
        *("--counts", written(tmp_path, f"time,mill\n{rows}", "counts.csv"), "--timezone", "UTC"),
        *("--output", tmp_path / "p.json"),
    )
    assert status == 0, said
    assert "1 sensor may count somebody several times in a step" in said
    found = load_population(tmp_path / "p.json")
    there = expected_flows(found, 24).sum(axis=2)[:, found.location_names.index("mill")]
    assert 100 * (1 - 1e-4) <= there[12] <= 400 * (1 + 1e-4) and there[3] < 1e-2
    others = np.delete(there, [3, 12])
    assert (others >= 10 * (1 - 1e-4)).all() and (others <= 40 * (1 + 1e-4)).all()
    assert len(np.unique(others.round(3))) > 1, "no range is met at one end alone"


def test_check_ins_are_fitted_at_the_nearest_sensor(tmp_path: Path) -> None:
    """Two cafes near one gate are the gate; what is near no sensor is left out, and told."""
    sensors = written(tmp_path, "name,lat,lon\ngate,48.0,2.0\nmill,48.1,2.0\n", "sensors.csv")
    places = {"cafe": (48.001, 2.0), "bar": (47.999, 2.001), "kiosk": (48.1, 2.001), "far": (49.0, 2.0)}
    rows = [
        f"ann,{hour * 3600},{name},{places[name][0]},{places[name][1]}"
        for hour, name in enumerate(["cafe", "bar", "kiosk", "far"] * 8)
    ]
    checkins = written(tmp_path, "user,time,loc,lat,lon\n" + "\n".join(rows), "checkins.csv")
    command = ("priors", "fit", checkins, "--output", tmp_path / "p.json", "--window-seconds", 3600)
    status, said = invoked(*command, "--sensors", sensors, "--min-windows", 1)
    assert status == 0, said
    assert "8 of 32 check-ins are near no sensor and left out" in said
    population = load_population(tmp_path / "p.json")
    assert set(population.location_names) == {"gate", "mill", "elsewhere"}
    apart = written(tmp_path, "name,lat,lon\ngate,10.0,2.0\n", "apart.csv")
    assert "must be within 1 km of a sensor" in invoked(*command, "--sensors", apart)[1]


@pytest.mark.slow
def test_a_plan_says_for_how_many_people_personas_of_high_risk_stand(tmp_path: Path) -> None:
    """Shares are by weight, in JSON and in words; people who stand for themselves have none."""
    source, _, zones = od(tmp_path)
    priors = tmp_path / "personas.json"
    assert invoked("priors", "personas", source, "--zones", zones, "--output", priors)[0] == 0
    steps = [{"sensors": ["mill"], "mechanism": "gaussian", "sigma": 4.0}] * 9
    schedule = written(tmp_path, json.dumps({"first_slot": 8, "steps": steps}), "schedule.json")
    command = ("plan", schedule, "--priors", priors, "--horizon", 9, "--mistakes", 0)
    status, said = invoked(*command, "--json")
    assert status == 0, said
    document = json.loads(said)
    population = load_population(priors)
    accountant = ContinuousAccountant(population, HorizonSettings(9, 0, first_slot=8))
    sensor = Sensor("mill", (population.location_names.index("mill"),))
    for step in range(9):
        accountant.apply(StepSchedule(step, (SensorRelease(sensor, Gaussian(4.0)),)))
    assert population.weights is not None
    expected = {
        level: population.weights[accountant.risk() >= float(level)].sum() / 103.0
        for level in document["personas"]["at_risk"]
    }
    assert document["personas"] == {"people": 103.0, "at_risk": pytest.approx(expected)}
    assert any(0.0 < share < 1.0 for share in expected.values())
    status, said = invoked(*command)
    assert "Of 103 people, by weight, so many behave like a persona whose ceiling after the last step" in said
    unweighted = tmp_path / "alone.json"
    save_population(replace(population, weights=None), unweighted)
    assert json.loads(invoked("plan", schedule, "--priors", unweighted, "--json")[1])["personas"] is None


def test_how_far_people_go_is_an_assumption_with_a_name(tmp_path: Path) -> None:
    """Who goes further knows other places; the label says so, and the plan takes both."""
    source, _, zones = od(tmp_path)
    near = make_personas(Path(str(source)), PersonaQuestions(zones=Path(str(zones)), reach=0.25))
    far = make_personas(Path(str(source)), PersonaQuestions(zones=Path(str(zones)), reach=4.0))
    assert far.population.assumed is not None
    assert "going 4 times as far as assumed" in far.population.assumed
    assert near.population.location_names == far.population.location_names
    assert near.population.fingerprint != far.population.fingerprint


def test_invented_people_have_habits_by_name(tmp_path: Path) -> None:
    sensors = written(tmp_path, ZONES, "sensors.csv")
    usual = make_personas(None, PersonaQuestions(sensors=sensors, people=5000.0))
    still = make_personas(None, PersonaQuestions(sensors=sensors, people=5000.0, habits="stays longer"))
    assert still.population.fingerprint != usual.population.fingerprint
    with pytest.raises(InputError, match="--habits must be among as assumed, stays longer"):
        make_personas(None, PersonaQuestions(sensors=sensors, people=5000.0, habits="sleeps"))


def test_a_survey_with_weekdays_and_weekends_makes_weeks(tmp_path: Path) -> None:
    """Five days as on weekdays, two as on weekends, for who works and for who does not; one home law each."""
    rows = [
        *("monday,home,work,work,home", "friday,home,work,work,out"),
        *("2,home,home,out,home", "saturday,home,out,out,home"),
        *("7,home,home,out,home", "weekend,home,work,home,home"),
    ]
    survey = written(tmp_path, "day,0,1,2,3\n" + "\n".join(rows) + "\n", "days.csv")
    works, free = read_days(survey, week=True)
    assert (works.slots, free.slots) == (28, 28)
    at_work = works.law[:, works.activities.index("work")].reshape(7, 4)
    np.testing.assert_allclose(at_work[1:5, 1], 1.0, atol=5e-3)
    np.testing.assert_allclose(at_work[6, 1], 1 / 3, atol=5e-3)  # of all weekends one in three works
    assert "work" not in free.activities
    out = free.law[:, free.activities.index("out")].reshape(7, 4)
    np.testing.assert_allclose(out[1:5, 1], 0.0, atol=5e-3)
    np.testing.assert_allclose(out[6, 1], 1 / 2, atol=5e-3)
    table = written(tmp_path, "origin,destination,flow\nnorth,mill,5\nport,,5\n", "od.csv")
    status, said = invoked(
        *("priors", "personas", table, "--zones", written(tmp_path, ZONES, "zones.csv")),
        *("--activities", survey, "--cycle", "week", "--output", tmp_path / "p.json"),
    )
    assert status == 0, said
    assert load_population(tmp_path / "p.json").arrays.slots.tolist() == [28, 28]


def test_an_error_repeats_no_cell_of_a_survey(tmp_path: Path) -> None:
    """A column may be shifted, and what people do be their names."""
    survey = written(tmp_path, "0,1\nann-the-volunteer,work\n", "days.csv")
    with pytest.raises(InputError, match="got 2 other names") as refused:
        read_days(survey)
    assert "ann" not in str(refused.value)
