"""Mistakes have one default everywhere, and where habits alone decide, every command says so."""

from __future__ import annotations

import inspect
import json
import logging
from pathlib import Path

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.settings import HORIZON, MISTAKES, HorizonSettings
from models.prior_files import save_population
from models.priors import MovementPrior, Population
from stream_app.analysis.planning import plan_releases
from stream_app.analysis.preflight import check_files
from stream_app.city import CityOptions, build_city
from stream_app.cli.audit_command import audit
from stream_app.embedded import RunOptions, run
from stream_app.setup.settings import Settings
from stream_app.setup.settings_sources import load_settings
from stream_app.starting.demo import prepare
from stream_app.watching.people import PeopleView
from stream_app.watching.wording import habits_warning, in_a_hundred
from tests import ROOT
from tests.stream_app.engine_support import (
    NAMES,
    lines_of,
    messages_of_a_day,
    people_of,
    population,
    settings,
)


def settled(people: int = 3) -> Population:
    """People who are nearly always in the first place, and one who roams."""
    at_home = np.tile([0.985, 0.005, 0.005, 0.005], (len(NAMES), 1))
    priors = [MovementPrior.from_dense(f"person {i}", at_home) for i in range(people)]
    roams = MovementPrior.from_dense("roams", np.full((len(NAMES), len(NAMES)), 1 / len(NAMES)))
    return Population.pack([*priors, roams], NAMES)


def test_mistakes_have_one_default_everywhere(tmp_path: Path) -> None:
    """Settings, accountant, audit and demo; the deployment asks for every hour, and says so and why."""
    found = [Settings(), HorizonSettings()]
    assert {(each.horizon, each.mistakes) for each in found} == {(HORIZON, MISTAKES)} == {(10, 1)}
    demo = prepare(tmp_path / "demo", build_city(CityOptions(people=5))).settings
    assert load_settings(demo).mistakes == MISTAKES
    assert "# asks for at least 9 of the last 10 hours" in demo.read_text()
    deployed = ROOT / "deploy/settings/tallyguard.toml"
    assert load_settings(deployed).mistakes == 0
    assert "# asks for each of the last hours" in deployed.read_text()
    assert inspect.signature(audit).parameters["mistakes"].default == MISTAKES


def test_a_warning_says_that_habits_alone_decide(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In run, plan, check and what the demo sums up; with cause and remedy, and the same figure."""
    people = settled()
    save_population(people, tmp_path / "priors.json")
    (tmp_path / "schedule.json").write_text(json.dumps({"steps": [{"sensors": [0], "mechanism": "raw"}]}))
    (tmp_path / "t.toml").write_text("horizon = 4\nmistakes = 1\n")
    accountant = ContinuousAccountant(people, HorizonSettings(4, 1))
    warning = habits_warning(accountant)
    assert warning is not None
    assert "lower mistakes or lengthen horizon" in warning
    assert in_a_hundred(accountant.median_guess()) in warning
    with caplog.at_level(logging.WARNING):
        run(settings(), RunOptions(tmp_path / "out"), people, chunks=[lines_of(messages_of_a_day(2, 1))])
    assert warning in caplog.text
    assert plan_releases(settings(), tmp_path / "schedule.json", people).warning == warning
    findings = check_files(config=tmp_path / "t.toml", priors=tmp_path / "priors.json")
    assert [f"{each.sentence}; {each.remedy}" for each in findings if each.subject == "mistakes"] == [warning]
    view = PeopleView([people_of(accountant)])
    assert view.warning == warning


def test_where_habits_leave_a_doubt_nothing_is_said() -> None:
    accountant = ContinuousAccountant(population(), HorizonSettings(4, 1))
    assert 0 < accountant.median_guess() < 0.8
    assert habits_warning(accountant) is None
