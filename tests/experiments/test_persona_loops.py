"""The closed loops of personas: what the survey's reader makes of it, and that both loops hang together."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import persona_city, persona_survey
from stream_app.city import CityOptions, build_city
from tests.shared_files import shared


@pytest.fixture(scope="module")
def agents() -> persona_city.Agents:
    return persona_city.agents_of(build_city(CityOptions(people=60)), 1)


@pytest.mark.slow
def test_agents_are_at_home_and_at_work_where_they_are_said_to(agents: persona_city.Agents) -> None:
    """Activities follow from places: home is the own home's, work the own office's, of nobody else."""
    at_home = agents.activity == agents.activities.index("home")
    at_work = agents.activity == agents.activities.index("work")
    assert (agents.place[at_home] == np.broadcast_to(agents.home[:, None], agents.place.shape)[at_home]).all()
    assert (agents.place[at_work] == np.broadcast_to(agents.work[:, None], agents.place.shape)[at_work]).all()
    assert 0.5 < at_home.mean() < 0.9
    assert (agents.work >= 0).mean() > 0.5


@pytest.mark.slow
def test_every_agent_has_a_persona_of_its_home_and_work(agents: persona_city.Agents) -> None:
    """No way leaves an agent without a persona; calibration keeps classes, and flows alone are one."""
    ways = persona_city.ways(agents)
    assert len(ways[0].population) == 1
    for way in ways[1:]:
        assert (way.persona_of >= 0).all()
        names = [way.population.people[number] for number in way.persona_of]
        places = agents.city.places.names
        assert all(name.startswith(places[home]) for name, home in zip(names, agents.home, strict=True))


def test_the_least_radius_lifts_the_ceiling_to_the_success() -> None:
    """d(success || ceiling), and nothing where the ceiling is high enough."""
    assert persona_city.least_radius(0.4, 0.5) == 0.0
    expected = 0.5 * np.log(0.5 / 0.4) + 0.5 * np.log(0.5 / 0.6)
    assert persona_city.least_radius(0.5, 0.4) == pytest.approx(expected)


def test_the_survey_s_days_begin_and_end_at_home() -> None:
    """3 796 people made a trip; their trips' zones are where they are in the hours after."""
    survey = persona_survey.read_survey(shared("data/sf_survey"))
    assert len(survey.home) == 3796
    assert survey.zones == 190
    assert (survey.zone[:, 3] == survey.home).all()
    assert (survey.zone[:, 23] == survey.home).mean() > 0.98
    at_work = survey.activity == 1
    assert (survey.zone[at_work] == np.broadcast_to(survey.work[:, None], survey.zone.shape)[at_work]).all()
