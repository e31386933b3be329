"""Schedule files: both forms are the same schedule, and each mistake is named with its step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.exceptions import ScheduleError
from models.releases import Sensor, SensorRegistry
from stream_app.setup.schedule_files import load_schedule, parse_schedule
from stream_app.wire.inputs import load_activations

NAMES = tuple(f"s{i}" for i in range(20))
REGISTRY = SensorRegistry.one_per_location(NAMES)


def read(*steps: object) -> list[list[tuple[str, str, dict[str, float]]]]:
    """The releases of each step in short."""
    schedule = parse_schedule({"steps": list(steps)}, REGISTRY)
    assert [step.step for step in schedule.steps] == list(range(len(steps)))
    return [
        [(r.sensor.name, r.mechanism.name, dict(r.mechanism.parameters)) for r in step.releases]
        for step in schedule.steps
    ]


def test_the_documented_example_is_read(tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    path.write_text(
        '{"first_slot": 3, "steps": [{"sensors": [3, 17], "mechanism": "raw"}, {"sensors": [5], "mechanism": '
        '"gaussian", "sigma": 1.0}, {"sensors": []}, {"releases": [{"sensor": 3, "mechanism": "raw"}, '
        '{"sensor": 17, "mechanism": "gaussian", "sigma": 2.0}]}]}'
    )
    schedule = load_schedule(path, REGISTRY)
    assert schedule.first_slot == 3
    assert schedule.steps[2].releases == ()
    document = json.loads(path.read_text())
    assert read(*document["steps"]) == [
        [("s3", "raw", {}), ("s17", "raw", {})],
        [("s5", "gaussian", {"sigma": 1.0})],
        [],
        [("s3", "raw", {}), ("s17", "gaussian", {"sigma": 2.0})],
    ]


def test_the_short_form_means_the_long_one() -> None:
    short = {"sensors": ["s1", 2], "mechanism": "gaussian", "sigma": 4}
    long = {"releases": [{"sensor": name, "mechanism": "gaussian", "sigma": 4} for name in ("s1", "s2")]}
    assert read(short) == read(long)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"sensors": ["s99"], "mechanism": "raw"}, "did you mean 's9'"),
        ({"sensors": [20], "mechanism": "raw"}, "location 20 of step 0"),
        ({"sensors": [True], "mechanism": "raw"}, "must be a name or a location index"),
        ({"sensors": [1.5], "mechanism": "raw"}, "must be a name or a location index"),
        ({"sensors": [1]}, "step 0 must name a mechanism"),
        ({"sensors": [1], "mechanism": "gausian", "sigma": 1}, "did you mean 'gaussian'"),
        ({"sensors": [1], "mechanism": "gaussian"}, "step 0"),
        ({"sensors": [1], "mechanism": "gaussian", "sigma": -1}, "step 0"),
        ({"sensors": [1], "mechanism": "raw", "sigma": 1}, "step 0"),
        ({"sensors": [1, "s1"], "mechanism": "raw"}, "must release each sensor once"),
        ({"sensors": 1, "mechanism": "raw"}, "must be a list"),
        ({"sensors": [], "releases": []}, "either sensors or releases"),
        ({}, "either sensors or releases"),
        ({"releases": [3]}, "must be an object"),
        ({"releases": [], "mechanism": "raw"}, "no other key"),
        ([], "step 0 must be an object"),
    ],
)
def test_a_wrong_step_is_named_with_what_to_write(step: object, message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse_schedule({"steps": [step]}, REGISTRY)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "a schedule must be an object"),
        ({"steps": 3}, "steps must be a list"),
        ({"step": []}, "did you mean 'steps'?"),
        ({"steps": [], "first_slot": -1}, "first_slot must be an integer >= 0"),
    ],
)
def test_a_document_of_another_form_is_refused(document: object, message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(document, REGISTRY)
    assert message in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match=r"none\.json must be readable"):
        load_schedule(tmp_path / "none.json", REGISTRY)
    (tmp_path / "torn.json").write_text('{"steps": [')
    with pytest.raises(ScheduleError, match=r"torn\.json must be JSON"):
        load_schedule(tmp_path / "torn.json", REGISTRY)


def test_an_index_means_the_sensor_that_counts_only_there() -> None:
    registry = SensorRegistry(("a", "b", "c"), (Sensor("one", (1,)), Sensor("all", (0, 1, 2))))
    schedule = parse_schedule({"steps": [{"sensors": [1, "all"], "mechanism": "raw"}]}, registry)
    assert [release.sensor.name for release in schedule.steps[0].releases] == ["one", "all"]
    with pytest.raises(ScheduleError, match="give the sensor's name"):
        parse_schedule({"steps": [{"sensors": [0], "mechanism": "raw"}]}, registry)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "header must name step and sensor"),
        ("step,place\n0,s1\n", "header must name step and sensor"),
        ("0,s1,4711\n", "got 3 columns, none of them"),
        ("step,sensor\n4711,s1\n4711.5,s1\n", "line 3: the step must be an integer >= 0, got another text"),
        ("step,sensor\n0,s1\n0\n", "line 3: a line must have 2 values"),
        ("step,sensor\nx,s1\n", "line 2: the step must be an integer"),
        ("step,sensor\n0,s1\n0,s1\n", "line 3: step 0 must name each sensor once"),
        ("step,sensor\n0,s99\n", "line 2"),
        ('step,sensor\n0,"s1\n1,s1\n', "must be a readable CSV"),
    ],
)
def test_a_wrong_activation_file_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "activations.csv"
    path.write_text(text)
    with pytest.raises(ScheduleError) as caught:
        load_activations(path, REGISTRY)
    assert message in str(caught.value)
    assert "4711" not in str(caught.value)
