"""The paper's preprocessing on the real check-ins, against the figures of the data's description."""

from __future__ import annotations

from dataclasses import replace

import pytest

from models.fitting import PAPER, FitOptions, fit_priors, read_checkins
from models.fitting.checkins import Checkins
from tests.shared_files import shared

pytestmark = pytest.mark.data

FILES = {
    "foursquare": "data/foursquare_us_tist2015_5k.parquet",
    "gowalla": "data/gowalla_global_1000users.parquet",
}


@pytest.fixture(scope="module", params=FILES)
def real(request) -> tuple[str, Checkins]:
    return request.param, read_checkins(shared(FILES[request.param]))


def shape(result) -> tuple[int, int]:
    return len(result.population), result.training.shape[1] + result.held_out.shape[1]


def test_the_papers_way_keeps_the_people_and_windows_of_the_exact_rule(real):
    name, checkins = real
    result = fit_priors(checkins, PAPER)
    assert shape(result) == {"foursquare": (423, 27), "gowalla": (129, 32)}[name]
    assert result.population.location_count == 101
    assert result.held_out.shape[1] == 5


def test_other_readings_of_the_paper_give_the_other_known_numbers(real):
    name, checkins = real
    midnight = fit_priors(checkins, replace(PAPER, origin="midnight"))
    assert len(midnight.population) == {"foursquare": 429, "gowalla": 128}[name]
    training = fit_priors(checkins, replace(PAPER, min_windows_counted="training"))
    assert len(training.population) == {"foursquare": 333, "gowalla": 74}[name]


def test_held_out_windows_are_elsewhere_or_unknown_as_often_as_described(real):
    name, checkins = real
    result = fit_priors(checkins, replace(PAPER, window_place="last"))
    assert round(result.has_unknown_place().mean(), 2) == {"foursquare": 0.29, "gowalla": 0.60}[name]
    elsewhere = result.population.location_count - 1
    assert round((result.held_out == elsewhere).mean(), 2) == {"foursquare": 0.67, "gowalla": 0.31}[name]


@pytest.mark.slow
def test_hours_of_the_day_can_be_fitted_as_a_cycle(real):
    _, checkins = real
    hourly = FitOptions(window_seconds=3600, origin="epoch", slots=24, held_out_windows=24, top_places=20)
    result = fit_priors(checkins, hourly)
    assert set(result.population.arrays.slots) == {24}
    assert result.first_slot == result.origin_seconds // 3600 % 24
