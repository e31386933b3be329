"""What `check` says of declared and undeclared counts, and what is charged for them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.mechanisms import Designs, Gaussian
from models.prior_files import save_population
from models.priors import MovementPrior, Population
from models.releases import Counts, Sensor, SensorRegistry, SensorRelease, parts_of
from stream_app.analysis.preflight import Finding, check_files
from stream_app.setup.release_settings import ReleaseSettings
from stream_app.setup.schedule_files import load_schedule
from stream_app.setup.sensor_files import load_registry
from stream_app.steps.policy import designs_of, policy_from

PASSING = SensorRegistry(("a",), (Sensor("a", (0,), most_counts=4, counts=Counts.PASSAGES),))


def findings(folder: Path, sensors: dict[str, object]) -> list[Finding]:
    priors, path = folder / "priors.json", folder / "sensors.json"
    people = Population.pack([MovementPrior.from_dense("ada", [[0.5, 0.5], [0.5, 0.5]])], ["north", "south"])
    save_population(people, priors)
    path.write_text(json.dumps(sensors))
    return check_files(priors=priors, sensors=path)


def test_until_it_is_declared_check_says_that_ceilings_hold_for_presence_only(tmp_path: Path) -> None:
    rows = [{"name": "a", "locations": [0]}, {"name": "b", "locations": [1], "counts": "presence"}]
    (found,) = [each for each in findings(tmp_path, {"sensors": rows}) if "once in a step" in each.sentence]
    assert found.level == "warning"
    assert "what 1 sensor counts" in found.sentence
    assert "passages.md" in found.remedy


def test_declared_presence_is_said_no_more(tmp_path: Path) -> None:
    rows = [{"name": "a", "locations": [0]}]
    found = findings(tmp_path, {"counts": "presence", "sensors": rows})
    assert not [each for each in found if "presence" in each.sentence]


def test_declared_passages_come_with_their_condition(tmp_path: Path) -> None:
    rows = [{"name": "a", "locations": [0]}]
    found = findings(tmp_path, {"counts": "passages", "most_counts": 4, "sensors": rows})
    (passing,) = [each for each in found if "passages" in each.sentence]
    assert (passing.level, "up to 4 times" in passing.sentence) == ("ok", True)
    assert "two places" in passing.sentence


def test_noise_that_steps_share_is_charged_for_all_of_a_persons_passages(tmp_path: Path) -> None:
    """By settings and by a schedule: four passages reveal more than one, and both ways come to the same."""
    covariance = tmp_path / "noise.npy"
    np.save(covariance, np.array([[2.0, 0.5], [0.5, 2.0]]))
    settings = ReleaseSettings(mechanism="correlated", covariance=covariance)
    designs: Designs = designs_of(settings)
    noise = {"mechanism": "correlated", "design": designs.noises[0].design, "position": 0}
    schedule = tmp_path / "schedule.json"
    schedule.write_text(json.dumps({"steps": [{"sensors": ["a"], **noise}]}))
    policy_from(settings, PASSING)
    (step,) = load_schedule(schedule, PASSING.with_designs(designs)).steps
    (release,) = step.releases
    once = release.mechanism.reveal_probability()
    assert once < release.accounted.reveal_probability() < 1.0


def test_corrections_that_are_never_published_are_noticed(tmp_path: Path) -> None:
    """Accounts charge for them: with late = 0 nobody has anything of it."""
    rows = [{"name": "a", "locations": [0], "corrections": 2}]
    found = findings(tmp_path, {"counts": "presence", "sensors": rows})
    assert [each.level for each in found if "late = 0" in each.sentence] == ["warning"]
    (said,) = [each for each in found if "corrections of a step" in each.sentence]
    assert "does not depend on the counts" in said.sentence


def test_windows_and_moves_come_with_their_condition(tmp_path: Path) -> None:
    rows = [
        {"name": "a", "locations": [0], "window": 4},
        {"name": "b", "moves": [[0, 1]], "counts": "passages", "most_counts": 1},
    ]
    (found,) = [each for each in findings(tmp_path, {"sensors": rows}) if "windows" in each.sentence]
    assert found.level == "ok"
    assert "2 sensors count over windows of up to 4 steps, 1 of them moves" in found.sentence
    assert "more often than most_counts" in found.sentence


@pytest.mark.parametrize("more", [{"window": 2}, {"moves": [[0, 1, 1]]}])
def test_windows_and_moves_are_charged_for_their_corrections(tmp_path: Path, more: dict[str, object]) -> None:
    row = {"name": "a", "counts": "passages", "most_counts": 2, "corrections": 1, **more}
    path = tmp_path / "sensors.json"
    path.write_text(json.dumps([row if "moves" in more else {**row, "locations": [0]}]))
    (twice,) = load_registry(path, ("here", "there")).sensors
    once = replace(twice, corrections=0)
    shown = [parts_of(SensorRelease(each, Gaussian(2.0))) for each in (once, twice)]
    for one, both in zip(*shown, strict=True):
        assert one.mechanism.reveal_probability() < both.mechanism.reveal_probability() < 1.0
