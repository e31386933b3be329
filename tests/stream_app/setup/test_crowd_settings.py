"""Settings of a crowd: strangers by hours of the day, what `check` says of them, and what is recorded."""

from __future__ import annotations

from dataclasses import replace
from json import dumps
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from accounting.exposure.crowd import CrowdAdversary, Strangers
from models.prior_files import save_population
from stream_app.analysis.preflight import Finding, check_files
from stream_app.setup.release_settings import CrowdSettings
from stream_app.setup.settings import Settings
from stream_app.watching.prior_notes import crowd_note
from tests.stream_app.engine_support import NAMES, population

LINE: dict[str, Any] = {
    "sensor": NAMES[0],
    **{"from_hour": 8, "until_hour": 9, "people": 200, "least_chance": 0.1, "most_chance": 0.5},
}


def strangers(step_seconds: int, **changed: object) -> Strangers:
    given = {"step_seconds": step_seconds, "crowd": {"strangers": {"one": {**LINE, **changed}}}}
    (found,) = Settings.model_validate(given).crowd_adversary.strangers
    return found


@pytest.mark.parametrize(
    ("step_seconds", "hours", "slots"),
    [
        (3600, (8, 9), (8, 9, 24)),
        (900, (8, 9), (32, 36, 96)),
        (3600, (7.5, 9.5), (8, 9, 24)),
        (3600, (22, 6), (22, 6, 24)),
        (3600, (22, 24), (22, 24, 24)),
        (3600, (0, 24), (0, 24, 24)),
        (3600, (23.5, 1), (0, 1, 24)),
    ],
)
def test_hours_are_the_whole_steps_between_them(
    step_seconds: int, hours: tuple[float, float], slots: tuple[int, int, int]
) -> None:
    """A step that only begins before the line ends is none of it."""
    found = strangers(step_seconds, from_hour=hours[0], until_hour=hours[1])
    assert (found.first_slot, found.until_slot, found.cycle) == slots


@pytest.mark.parametrize(
    ("step_seconds", "changed", "sentence"),
    [
        (3600, {"from_hour": 8.2, "until_hour": 8.9}, "a whole step of 3600 seconds must lie between"),
        (7000, {}, "step_seconds must divide a day"),
        (3600, {"least_chance": 0.6}, "between two probabilities"),
        (3600, {"people": -1}, "greater than or equal to 0"),
        (3600, {"until_hour": 25}, "less than or equal to 24"),
    ],
)
def test_lines_that_fit_no_step_are_refused_in_a_sentence(
    step_seconds: int, changed: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ValidationError, match=sentence):
        strangers(step_seconds, **changed)


def test_a_deployment_of_before_is_recorded_as_before() -> None:
    """What is not assumed is not in the record, so nothing differs from what earlier versions wrote."""
    assert CrowdSettings(on=True, known=3).facts() == {"known": 3, "companions": 0, "alone": 1.0}
    found = CrowdSettings.model_validate({"least": 0.5, "strangers": {"one": LINE}}).facts()
    assert found["least"] == 0.5
    assert found["strangers"]["one"]["people"] == 200
    assert CrowdSettings.model_validate(found).strangers["one"].sensor == NAMES[0]


def findings(tmp_path: Path, crowd: str, weights: float | None = None) -> dict[str, Finding]:
    """By subject, those about the crowd."""
    people = population()
    if weights is not None:
        people = replace(people, weights=np.full(len(people), weights))
    save_population(people, tmp_path / "priors.json")
    (tmp_path / "tallyguard.toml").write_text(f"{crowd}\n")
    found = check_files(config=tmp_path / "tallyguard.toml", priors=tmp_path / "priors.json")
    return {each.subject: each for each in found if each.subject.startswith("crowd")}


def in_toml(name: str, **changed: object) -> str:
    values = {**LINE, **changed}
    said = "\n".join(f"{key} = {value!r}" for key, value in values.items())
    return f'[crowd.strangers."{name}"]\n{said}'


def test_check_says_what_strangers_hide_and_what_is_presumed(tmp_path: Path) -> None:
    """200 of whom each is counted with a chance of 0.1 to 0.5 hide as noise of sigma 4; passers-by nobody."""
    lines = [in_toml("at eight"), in_toml("all pass", from_hour=12, until_hour=13, most_chance=1.0)]
    found = findings(tmp_path, "\n".join(["[crowd]", "on = true", *lines]))
    fine = found["crowd.strangers.at eight"]
    assert fine.level == "ok"
    assert "200 strangers at A from 8 to 9 h (first in step 8, 1970-01-01 08:00 UTC)" in fine.sentence
    assert "Gaussian noise of sigma 4.1 would" in fine.sentence
    assert "a chance of 0.1 to 0.5 whatever is known of their other steps" in fine.sentence
    passing = found["crowd.strangers.all pass"]
    assert passing.level == "warning"
    assert "that somebody passes hides nobody" in passing.remedy
    off = findings(tmp_path, lines[0])
    assert off["crowd.strangers"].remedy == "set crowd.on = true, or take the lines out"
    wrong = findings(tmp_path, "\n".join(["[crowd]", "on = true", in_toml("x", sensor="nowhere")]))
    assert wrong["crowd.strangers"].level == "problem"
    assert "nowhere" in wrong["crowd.strangers"].sentence


def test_check_asks_for_the_least_number_behind_a_persona(tmp_path: Path) -> None:
    asked = findings(tmp_path, "[crowd]\non = true", weights=40.0)
    assert asked["crowd.least"].level == "warning"
    assert "such as 0.8" in asked["crowd.least"].remedy
    assert not findings(tmp_path, "[crowd]\non = true\nleast = 0.8", weights=40.0)
    assert not findings(tmp_path, "[crowd]\non = true")


def test_check_asks_who_is_counted_once_by_counters_of_passages(tmp_path: Path) -> None:
    """Of one such counter as of several; counts over windows are no matter of it."""
    again = {"counts": "passages", "most_counts": 2}
    for number, words in ((1, "1 sensor that may count a person again hides"), (2, "2 sensors that may")):
        sensors = [{"name": name, "locations": [name], **again} for name in NAMES[:number]]
        (tmp_path / "sensors.json").write_text(dumps({"sensors": sensors}))
        given = f'sensors = "{tmp_path / "sensors.json"}"\n[crowd]\non = true\n'
        found = findings(tmp_path, given)["crowd.counted_once"]
        assert found.level == "warning"
        assert found.sentence.startswith(f"{words} ")
        assert not findings(tmp_path, f"{given}counted_once = 0.7")
    said = crowd_note(CrowdAdversary(counted_once=0.7), 99)
    assert "is counted once with a chance of at least 0.7" in said


def test_the_condition_says_all_that_is_presumed() -> None:
    """Who moves alone, how many are behind personas, and the strangers; nothing that is not."""
    plain = crowd_note(CrowdAdversary(), 99)
    assert plain.startswith(
        "if the 99 others move independently of each other and of the person, as their priors say, no "
    )
    whole = crowd_note(CrowdAdversary(), 99, of_personas=True)
    assert "as their personas say, of each at least the people that it stands for, no adversary" in whole
    lines = tuple(Strangers(f"s{k}", 8, 9, 24, 200 + k, 0.1, 0.5) for k in range(5))
    found = crowd_note(CrowdAdversary(least=0.8, strangers=lines), 99, of_personas=True)
    assert "of each at least 80 % of the people that it stands for, and if at least so many others" in found
    assert (
        "(200 at s0 from 8 to 9 h; 201 at s1 from 8 to 9 h; 202 at s2 from 8 to 9 h; 2 lines more)" in found
    )
    alone = crowd_note(CrowdAdversary(strangers=lines[:1]), 0)
    assert alone.startswith("if at least so many others without a prior (200 at s0 from 8 to 9 h), chosen")
