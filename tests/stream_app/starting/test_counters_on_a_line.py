"""Counters that stand between two places: from a city's list of them to a run, and to calibrated personas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pytest

from accounting.exposure import Exposure
from accounting.exposure.own_counts import own_count_law
from models.calendar import DAY
from models.fitting.calibration import expected_flows
from models.mechanisms import Gaussian
from models.prior_files import load_population
from models.priors import Population
from models.releases import SensorRelease, window_release
from stream_app.exceptions import InputError
from stream_app.setup.sensor_files import load_registry, registry_of
from stream_app.starting.aggregates import PersonaQuestions, make_personas
from stream_app.starting.aggregates.make_personas import mean_moves
from stream_app.starting.connect.guess import read_counts
from stream_app.starting.counts.count_table import CountTable
from stream_app.starting.counts.deployment_files import NewDeployment, sensor_places
from stream_app.starting.counts.doubts import NOT_COUNTED
from tests.models.fitting.small_cities import random_personas
from tests.stream_app.command_line import invoked

COUNTS = "time,bridge,gate,stairs\n" + "".join(
    f"2026-03-02 {hour:02d}:00,{100 + 7 * hour % 24},{50 - hour},{5 * hour % 24}\n" for hour in range(24)
)
LISTED = (
    "counter,lat,lon,from,to,direction\nbridge,,,mill,port;hill,\ngate,48.0,2.0,,,\nstairs,,,port,gate,one\n"
)
MAPPED = "counter,lat,lon,kind\nbridge,48.0005,2.0152,line\ngate,48.0,2.0,place\nstairs,48.0,2.004,line\n"
ZONES = "zone,lat,lon\nmill,48.0,2.02\nport,48.0,2.01\nyard,48.0,2.0001\nhill,48.03,2.01\n"
WORK = "origin,destination,flow\nmill,port,500\nport,yard,300\nhill,mill,200\n"


def written(folder: Path, text: str, name: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def init(folder: Path, listed: str, *more: object) -> tuple[int, str]:
    return invoked(
        *("init", written(folder, COUNTS, "counts.csv"), "--sensors", written(folder, listed, "list.csv")),
        *("--timezone", "Europe/Vienna", "--output", folder / "city", *more),
    )


def personas_of(folder: Path, sensors: Path, *more: object) -> tuple[int, str]:
    return invoked(
        *("priors", "personas", written(folder, WORK, "work.csv")),
        *("--zones", written(folder, ZONES, "zones.csv"), "--sensors", sensors),
        *("--counts", written(folder, COUNTS, "counts.csv"), "--timezone", "Europe/Vienna"),
        *("--output", folder / "personas.json", *more),
    )


def moves_of(folder: Path) -> dict[str, object]:
    document = json.loads((folder / "city" / "sensors.json").read_text())
    return {row["name"]: row.get("moves", row.get("locations")) for row in document["sensors"]}


@pytest.mark.slow
def test_from_and_to_are_moves_of_a_deployment_that_checks_plans_and_runs(tmp_path: Path) -> None:
    """Both ways unless a direction is given, several places on a side; the first count is left out."""
    status, said = init(tmp_path, LISTED, "--habits", "assumed")
    assert status == 0, said
    both = [["mill", "port"], ["mill", "hill"], ["port", "mill"], ["hill", "mill"]]
    assert moves_of(tmp_path) == {"bridge": both, "gate": ["gate"], "stairs": [["port", "gate"]]}
    assert "2 counters on a line" in said and "Places besides those of sensors: mill, port, hill." in said
    assert "Nobody is counted by more than 1 counter on a line and one at a place" in said
    assert (tmp_path / "city" / "locations.txt").read_text().split() == [
        *("gate", "mill", "port", "hill", "elsewhere")
    ]
    config, schedule = tmp_path / "city" / "tallyguard.toml", tmp_path / "city" / "schedule.json"
    priors = ("--priors", tmp_path / "city" / "assumed-priors.json")
    for known in ((), priors):
        status, found = invoked("check", "--config", config, *known, "--schedule", schedule)
        assert status == 0 and "problem" not in found, found
        assert "2 of them moves" in found
    assert invoked("plan", schedule, "--config", config, *priors)[0] == 0
    status, found = invoked(
        *("run", "--config", config, *priors, "--listen", "", "--create-keys"),
        *("--input", tmp_path / "city" / "messages.jsonl", "--output", tmp_path / "city" / "out"),
    )
    assert status == 0 and "0 messages rejected" in found, found
    lines = (tmp_path / "city" / "out" / "releases.jsonl").read_text().splitlines()
    published = [{each["sensor"] for each in json.loads(line)["releases"]} for line in lines]
    assert published == [{"gate"}, *[{"bridge", "gate", "stairs"}] * 23]
    status, spent = invoked("ledger", tmp_path / "city" / "out", "--config", config, *priors)
    promised = said.split("(the whole log) cost epsilon ")[1].split()[0]
    assert f"every one {promised}" in spent or f" {promised} " in spent, "init and ledger count alike"


@pytest.mark.slow
@pytest.mark.parametrize("within", [("--within", "20"), ("--within", "50%", "--for", "day")])
def test_an_accuracy_leaves_the_noise_of_moves_alone(tmp_path: Path, within: Sequence[str]) -> None:
    """The run keeps it, hour by hour; the schedule that is written runs."""
    status, said = init(tmp_path, LISTED, "--habits", "assumed")
    assert status == 0, said
    city = tmp_path / "city"
    files = ("--config", city / "tallyguard.toml", "--priors", city / "assumed-priors.json")
    nearer = ("--write", tmp_path / "nearer.json")
    status, said = invoked("plan", city / "schedule.json", *files, *within, *nearer)
    assert status == 0, said
    assert "The noise of bridge, stairs is not chosen by accuracy" in said
    status, said = invoked("plan", city / "schedule.json", *files, *within, "--json")
    found = json.loads(said)
    assert found["unchanged"] == ["bridge", "stairs"]
    own = {sigma for name in found["unchanged"] for sigma in found["sigma"][name].values()}
    assert len(own) == 1 and own.isdisjoint(found["sigma"]["gate"].values())
    status, said = invoked(
        *("run", *files, "--schedule", tmp_path / "nearer.json", "--listen", "", "--create-keys"),
        *("--input", city / "messages.jsonl", "--output", tmp_path / "out"),
    )
    assert status == 0 and "0 messages rejected" in said, said


@pytest.mark.slow
def test_people_who_are_counted_again_are_declared_so_on_a_line_too(tmp_path: Path) -> None:
    status, said = init(tmp_path, LISTED, "--most-counts", 3)
    assert status == 0, said
    registry = load_registry(
        tmp_path / "city" / "sensors.json", (tmp_path / "city" / "locations.txt").read_text().split()
    )
    assert [each.most_counts for each in registry.sensors] == [3, 3, 3]
    assert [each.window and each.window.miscounts for each in registry.sensors] == [True, None, True]
    points = tmp_path / "city" / "sensors.json"
    status, said = personas_of(tmp_path, points)
    assert status == 0, said
    assert "3 sensors may count somebody several times" in said


def test_who_comes_back_is_counted_by_both_directions_of_a_line(tmp_path: Path) -> None:
    """Two counters of a direction each are two that may count a person in a step: that costs more noise."""
    apart = "counter,from,to,direction\nbridge,mill,port,one\ngate,{},one\nstairs,hill,port,\n"
    noise = {}
    for name, other in (("back", "port,mill"), ("else", "mill,hill")):
        folder = tmp_path / name
        folder.mkdir()
        status, said = init(folder, apart.format(other), "--epsilon", 0.2)
        assert status == 0, said
        registry = load_registry(
            folder / "city" / "sensors.json", (folder / "city" / "locations.txt").read_text().split()
        )
        most = {"back": 2, "else": 1}[name]
        assert {each.window and each.window.most_sensors for each in registry.sensors} == {most}
        assert f"by more than {most} counter" in said
        noise[name] = float(said.split("Noise of sigma ")[1].split()[0])
    assert noise["back"] == pytest.approx(2.0**0.5 * noise["else"], rel=0.02)


def test_a_line_without_names_stands_where_surroundings_meet(tmp_path: Path) -> None:
    """With zones, and by the sensors that stand at places without; a sensor counts the zone that it is in."""
    zones = written(tmp_path, ZONES, "zones.csv")
    status, said = init(tmp_path, MAPPED, "--zones", zones)
    assert status == 0, said
    assert moves_of(tmp_path) == {
        "bridge": [["mill", "port"], ["port", "mill"]],
        "gate": ["gate"],
        "stairs": [["port", "gate"], ["gate", "port"]],
    }
    for words in (
        "bridge stands between mill and port, whose surroundings meet 15 m from it, by the map alone (no "
        "street is known).",
        "stairs stands between port and yard",
        "yard is where gate counts.",
    ):
        assert words in said
    assert "may as well" not in said
    other = tmp_path / "other"
    other.mkdir()
    status, said = init(other, MAPPED.replace("2.0152,line", "2.0152,place"))
    assert status == 0, said
    assert moves_of(other)["stairs"] == [["bridge", "gate"], ["gate", "bridge"]]


def test_another_line_nearly_as_near_is_said(tmp_path: Path) -> None:
    """The river is as near as the square: whoever knows the place is asked."""
    listed = "counter,lat,lon,kind\nbridge,48.0,2.001,line\ngate,48.5,2.0,\nstairs,48.5,2.004,\n"
    zones = "zone,lat,lon\nbank,48.0,2.0\nsquare,48.0,2.01\nriver,48.0073,2.0\n"
    status, said = init(tmp_path, listed, "--zones", written(tmp_path, zones, "zones.csv"))
    assert status == 0, said
    assert moves_of(tmp_path)["bridge"] == [["bank", "square"], ["square", "bank"]]
    assert "meet 298 m from it" in said
    assert "may as well stand between bank and river (406 m): if so, fill its columns from and to" in said


def test_all_counters_that_lie_beyond_are_counted(tmp_path: Path) -> None:
    listed = MAPPED.replace("2.0152", "2.03").replace("2.004", "1.99")
    said = init(tmp_path, listed, "--zones", written(tmp_path, ZONES, "zones.csv"))[1]
    assert "counter 'bridge' of" in said and "(1 other counter likewise)" in said


def test_names_win_over_the_map(tmp_path: Path) -> None:
    listed = MAPPED.replace("kind", "kind,from,to").replace("2.0152,line", "2.0152,line,hill,mill")
    listed = listed.replace("place\n", "place,,\n").replace("2.004,line", "2.004,line,,")
    status, said = init(tmp_path, listed, "--zones", written(tmp_path, ZONES, "zones.csv"))
    assert status == 0, said
    assert moves_of(tmp_path)["bridge"] == [["hill", "mill"], ["mill", "hill"]]


@pytest.mark.parametrize(
    ("listed", "zones", "says"),
    [
        (LISTED.replace("port;hill", "mill"), "", "must stand between two places, got 'mill' on both sides"),
        (LISTED.replace("port;hill", ""), "", "must have both from and to, got from alone"),
        (LISTED.replace("gate,one", "gate,north"), "", "direction of counter 'stairs' of"),
        (LISTED.replace("port;hill", "prot"), ZONES, "did you mean 'port'?"),
        (MAPPED.replace("48.0,2.004", ","), ZONES, "must have coordinates, and two places to stand between"),
        (MAPPED, "", "1 place with coordinates; give --zones"),
        (MAPPED.replace("2.004", "1.99"), ZONES, "must lie between two places, got it lies at 'yard', or on"),
        (
            MAPPED.replace("48.0,2.0,place", ",,place"),
            ZONES,
            "must have coordinates, as it stands at a place",
        ),
        (MAPPED.replace("2.004,line", "2.004,lines"), ZONES, "must be line or place, got 'lines'"),
    ],
)
def test_what_cannot_be_between_is_refused(tmp_path: Path, listed: str, zones: str, says: str) -> None:
    more = ("--zones", written(tmp_path, zones, "zones.csv")) if zones else ()
    status, said = init(tmp_path, listed, *more)
    assert status == 1
    assert says in said
    assert not (tmp_path / "city").exists()


def test_columns_of_other_meaning_change_nothing(tmp_path: Path) -> None:
    """A list whose kind is that of the device, with a direction, from a date, has sensors at places."""
    listed = (
        "counter,lat,lon,kind,direction,from,to\nbridge,48,2,infrared,N,2019-03-01,\n"
        "gate,48,2,camera,S,2012-01-31 10:00,2025-12-31\nstairs,48,2,,,,01.02.2024\n"
    )
    status, said = init(tmp_path, listed)
    assert status == 0, said
    assert moves_of(tmp_path) == {"bridge": ["bridge"], "gate": ["gate"], "stairs": ["stairs"]}
    assert "on a line" not in said


@pytest.mark.slow
def test_personas_move_as_a_counter_on_a_line_counts(tmp_path: Path) -> None:
    """By a list or by the deployment made of it: as many go over the bridge as it counts an hour later."""
    zones = written(tmp_path, ZONES, "zones.csv")
    status, said = init(tmp_path, MAPPED, "--zones", zones)
    assert status == 0, said
    work, counts = written(tmp_path, WORK, "work.csv"), bridge_alone(tmp_path / "counts.csv")
    for sensors in (tmp_path / "city" / "sensors.json", tmp_path / "list.csv"):
        more = {"people": 20_000.0, "penalty": None, "most_sweeps": 3000}
        questions = PersonaQuestions(zones=zones, sensors=sensors, counts=counts, **more)
        made = make_personas(work, questions)
        names = made.population.location_names
        assert set(names) == {"gate", "mill", "port", "elsewhere"}
        assert any("1 counter on a line" in each for each in made.remarks)
        flows = expected_flows(made.population, 24)
        mill, port = names.index("mill"), names.index("port")
        crossing = flows[:, mill, port] + flows[:, port, mill]
        np.testing.assert_allclose(np.roll(crossing, 1), 100 + 7 * np.arange(24) % 24, rtol=1e-3)


def bridge_alone(path: Path) -> CountTable:
    """What the bridge counted."""
    found = read_counts(path, timezone="Europe/Vienna")
    number = found.sensors.index("bridge")
    return replace(found, sensors=("bridge",), table=found.table[:, [number]])


def test_people_where_no_persona_moves_are_refused(tmp_path: Path) -> None:
    listed = "counter,from,to\nbridge,cove,mill\ngate,mill,port\nstairs,port,yard\n"
    work = written(tmp_path, "origin,destination,flow\nmill,port,500\nhill,hill,5\nyard,mill,7\n", "w.csv")
    zones = written(tmp_path, ZONES + "cove,48.5,2.5\n", "zones.csv")
    questions = PersonaQuestions(
        zones=zones,
        sensors=written(tmp_path, listed, "l.csv"),
        counts=bridge_alone(written(tmp_path, COUNTS, "counts.csv")),
    )
    with pytest.raises(InputError, match="none ever goes from 'cove' to 'mill'"):
        make_personas(work, questions)


def test_an_unknown_place_of_a_counter_is_refused_with_the_table_too(tmp_path: Path) -> None:
    listed = written(tmp_path, LISTED.replace("port;hill", "prot"), "list.csv")
    status, said = personas_of(tmp_path, listed)
    assert status == 1
    assert "did you mean 'port'?" in said


def test_counts_over_windows_are_refused(tmp_path: Path) -> None:
    """What they say of one step is not known; other sensors with windows are no matter."""
    document = {
        "window": 2,
        "sensors": [
            {"name": "bridge", "moves": [["mill", "port"]], "counts": "passages", "most_counts": 2},
            {"name": "gate", "locations": ["gate"], "lat": 48.0, "lon": 2.0, "window": 1},
            {"name": "stairs", "locations": ["stairs"], "lat": 48.0, "lon": 2.004, "window": 1},
        ],
    }
    sensors = written(tmp_path, json.dumps(document), "sensors.json")
    status, said = personas_of(tmp_path, sensors)
    assert status == 1
    assert "must be of one step, as 'bridge' of" in said and "got a window of 2 steps" in said
    counts = "\n".join(
        ",".join(line.split(",")[::2]) for line in COUNTS.splitlines()
    )  # the times, and one sensor
    only = written(tmp_path, counts, "only.csv")
    status, said = personas_of(tmp_path, sensors, "--counts", only)
    assert status == 0, said


def test_check_ins_are_fitted_at_what_a_counter_stands_between(tmp_path: Path) -> None:
    """Nobody is at the counter. Without zones nobody is known to be beyond it either, and that is said."""
    status, said = init(tmp_path, LISTED.replace("bridge,,,", "bridge,48.0,2.015,"))
    assert status == 0, said
    places = {"home": (48.0, 2.0), "work": (48.0, 2.0145), "inn": (48.0, 2.011), "farm": (48.03, 2.01)}
    rows = [
        f"ann,{hour * 3600},{name},{places[name][0]},{places[name][1]}"
        for hour, name in enumerate(["home", "work", "inn", "farm"] * 8)
    ]
    text = "user,time,loc,lat,lon\n" + "\n".join(rows)
    fit = (
        *("priors", "fit", written(tmp_path, text, "checkins.csv"), "--output", tmp_path / "p.json"),
        *("--window-seconds", 3600, "--min-windows", 1, "--sensors", tmp_path / "city" / "sensors.json"),
    )
    assert "No check-in is at mill, port, hill" in invoked(*fit)[1]
    assert load_population(tmp_path / "p.json").location_names == ("gate", "elsewhere")
    status, said = invoked(*fit, "--zones", written(tmp_path, ZONES, "zones.csv"))
    assert status == 0 and "0 of 32 check-ins are near no sensor" in said, said
    assert "No check-in is at mill" in said, "the inn and the place of work are nearest to the port"
    assert set(load_population(tmp_path / "p.json").location_names) == {"gate", "port", "hill", "elsewhere"}
    metres = written(tmp_path, "zone,x,y\nmill,1,2\n", "metres.csv")
    assert "must have lat and lon" in invoked(*fit, "--zones", metres)[1]


# The slot of a count is that of the move which the engine accounts to its step.

BRIDGE = {
    "sensors": [
        {"name": "bridge", "moves": [["zone 0", "zone 1"], ["zone 1", "zone 0"]], "most_counts": 1},
    ]
}
LINES = {"bridge": (("zone 0", "zone 1"), ("zone 1", "zone 0"))}


def counted(counts: Sequence[float], first: datetime, slots: int) -> CountTable:
    """Counts, a thousandth of a person each, of a counter in Vienna."""
    table = np.round(np.array(counts) * 1000.0).astype(np.int64)[:, None]
    return CountTable(("bridge",), table, first, DAY // slots, "Europe/Vienna")


def by_slot(table: CountTable, personas: Population, slots: int) -> dict[int, float]:
    found = mean_moves(table, LINES, personas.location_names, slots)
    return {int(slot): people / 1000.0 for slot, people in zip(found.slot, found.people, strict=True)}


def crossing(personas: Population, slots: int) -> dict[int, float]:
    """People who cross from a slot to the next, the linear map of the calibration."""
    flows = expected_flows(personas, slots)
    return {slot: float(flows[slot, 0, 1] + flows[slot, 1, 0]) for slot in range(slots)}


def test_a_count_is_of_the_moves_that_the_engine_accounts_to_its_step() -> None:
    """The mean own count of everybody by the engine's window is what the calibration expects in each slot."""
    slots = 24
    personas = random_personas(2, slots=slots)
    (sensor,) = registry_of(BRIDGE, personas.location_names).sensors
    weights = personas.weights
    assert weights is not None
    counts = [0.0]
    for step in range(1, slots + 1):
        release = window_release(SensorRelease(sensor, Gaussian(1.0)), step)
        assert (release.first, release.last) == (step, step)
        total = 0.0
        for person, weight in enumerate(weights):
            chain = personas.chain(person)
            exposure = Exposure(chain, chain.start[0], 0, ((),) * (slots + 1))
            total += weight * float(own_count_law(exposure, release) @ np.arange(2))
        counts.append(total)
    table = counted(counts, datetime(2026, 1, 4, 23, tzinfo=UTC), slots)  # midnight in Vienna
    table.table[0] = NOT_COUNTED
    assert by_slot(table, personas, slots) == pytest.approx(crossing(personas, slots), abs=1e-3)


@pytest.mark.parametrize(
    "first", [datetime(2026, 3, 1, 23, tzinfo=UTC), datetime(2026, 10, 1, 22, tzinfo=UTC)]
)
def test_means_of_moves_follow_the_clock_over_its_changes(first: datetime) -> None:
    """People move as the engine's calendar says, a skipped hour's move included, for eight weeks."""
    slots, steps = 24, 56 * 24
    personas = random_personas(4, slots=slots)
    calendar = counted([0.0], first, slots).calendar(slots)
    walk = calendar.moves(slots, calendar.first_slot, steps)
    assert set(np.diff(walk.start)) == ({1, 2} if first.month == 3 else {0, 1})
    weights = personas.weights
    assert weights is not None
    counts = np.zeros(steps)
    for person, weight in enumerate(weights):
        moves = [each.toarray() for each in personas.prior(person).transitions]
        law = personas.chain(person).start[calendar.first_slot]
        for step in range(1, steps):
            by = walk.by[walk.start[step - 1] : walk.start[step]]
            matrix = np.linalg.multi_dot([np.eye(3), np.eye(3), *(moves[slot] for slot in by)])
            flow = law[:, None] * matrix
            counts[step] += weight * (flow[0, 1] + flow[1, 0])
            law = flow.sum(axis=0)
    table = counted(counts, first, slots)
    table.table[0] = NOT_COUNTED
    assert by_slot(table, personas, slots) == pytest.approx(crossing(personas, slots), abs=1e-3)


@pytest.mark.parametrize("month", [3, 10])
def test_means_of_moves_are_of_the_slots_that_people_move_by(month: int) -> None:
    """In a week with a holiday and over a change of clocks: each single move by the engine's calendar."""
    slots, steps = 168, 35 * 24
    first, holiday = datetime(2026, month, 1, 23, tzinfo=UTC), [date(2026, month, 11)]
    table = counted([0.0] * steps, first, 24)
    calendar = table.calendar(slots, holiday)
    walk = calendar.moves(slots, calendar.first_slot, steps)
    single = np.flatnonzero(np.diff(walk.start) == 1)
    table.table[single[single < steps - 1] + 1, 0] = walk.by[walk.start[single[single < steps - 1]]]
    table.table[0] = NOT_COUNTED
    found = mean_moves(table, LINES, ("zone 0", "zone 1"), slots, holiday)
    assert found.slot.size == slots
    np.testing.assert_array_equal(found.people, found.slot)


def test_the_file_of_sensors_is_what_the_noise_was_chosen_for(tmp_path: Path) -> None:
    """The releases that init sums up are those of the sensors that it writes."""
    counts = read_counts(written(tmp_path, COUNTS, "counts.csv"), timezone="UTC")
    places = sensor_places(written(tmp_path, LISTED, "list.csv"), counts.sensors)
    deployment = NewDeployment("city", counts, places, 2.0)
    registry = registry_of(
        deployment.document(), (*(each.name for each in deployment.locations), "elsewhere")
    )
    released = {each.sensor for each in deployment.schedule(range(2))[1].releases}
    assert released == set(registry.sensors)
    assert [len(step.releases) for step in deployment.schedule(range(2))] == [1, 3]


def test_written_personas_name_the_places_of_the_deployment(tmp_path: Path) -> None:
    status, said = init(tmp_path, MAPPED, "--zones", written(tmp_path, ZONES, "zones.csv"))
    assert status == 0, said
    status, said = personas_of(tmp_path, tmp_path / "city" / "sensors.json")
    assert status == 0, said
    names = (tmp_path / "city" / "locations.txt").read_text().split()
    assert list(load_population(tmp_path / "personas.json").location_names) == names
