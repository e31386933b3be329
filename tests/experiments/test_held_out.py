"""The experiment on held-out check-ins: its input is the real traces, its figures are bounds and attacks."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from experiments.held_out import DATA_SETS, Row, find_data, messages, report, run_engine, summarise
from models.fitting import PAPER, FitOptions, FitResult, fit_priors, read_checkins
from models.fitting.checkins import Checkins
from models.mechanisms import parse
from models.releases import Schedule, SensorRegistry, SensorRelease, StepSchedule
from tests.shared_files import shared


@pytest.fixture(scope="module")
def fit() -> FitResult:
    """Twelve people who wander between three places, four of sixteen windows held out."""
    random = np.random.default_rng(5)
    rows = [
        (
            f"u{user:02d}",
            100 * window + user,
            "abc"[int(random.integers(3)) if random.random() < 0.4 else user % 3],
        )
        for user in range(12)
        for window in range(16)
    ]
    options = FitOptions(window_seconds=100, top_places=3, min_windows=4, held_out_windows=4)
    return fit_priors(Checkins.from_rows(rows), options)


def test_readings_are_the_real_held_out_counts(fit: FitResult) -> None:
    """Every step announces its sensor and counts the people who really were there."""
    registry = SensorRegistry.one_per_location(fit.population.location_names)
    sensors = [registry.sensors[step % 3] for step in range(4)]
    schedule = Schedule(
        tuple(
            StepSchedule(step, (SensorRelease(sensor, parse("raw", {})),))
            for step, sensor in enumerate(sensors)
        )
    )
    lines = [json.loads(line) for line in messages(fit, schedule)]
    assert [line["type"] for line in lines] == ["activation", "reading"] * 4
    for step, (reading, sensor) in enumerate(zip(lines[1::2], sensors, strict=True)):
        assert reading["sensor"] == sensor.name
        assert reading["count"] == Counter(fit.held_out[:, step].tolist())[sensor.locations[0]]
    assert run_engine(fit, schedule).step == 3


@pytest.mark.slow
def test_a_summary_has_ordered_bounds_and_every_attack(fit: FitResult) -> None:
    """Guess <= certified <= tight on average; noise never makes the certified bound larger here."""
    raw, noised = summarise("made up", fit, schedules=2)
    for row in (raw, noised):
        assert row.people == len(fit.population) >= 10
        assert 0 < row.baseline <= row.certified <= min(row.tight, row.running_risk) + 1e-9 <= 1 + 1e-9
        assert set(row.attacks) == {"map", "prior", "constant", "marginal"}
        assert all(0 <= value <= 1 for value in row.attacks.values())
        assert row.certified_says_nothing <= row.tight_says_nothing
    assert noised.certified <= raw.certified + 1e-12
    assert noised.attacks["prior"] == raw.attacks["prior"]


def test_the_page_names_every_figure_and_what_looked_ahead() -> None:
    """A table with a row a way of releasing, and the notes of the fit."""
    row = Row("d", "raw", 3, 4, 1, 0.1, 0.9, 0.8, 0.4, 0.05, 0.5, 0.41, {"map": 0.2}, 0.0)
    page = report([row], PAPER.looks_ahead, 2)
    assert "| d | raw | 3 | 0.100 | 0.900 | 0.800 | 50% | 0.400 | 5% | 0.410 | 0.200 | 0% |" in page
    assert "held-out windows included" in page
    assert "{" not in page
    assert "understates" not in page
    easier = replace(row, attacks={"map": 0.45})
    assert "right on 0.450 of the real traces" in report([easier], (), 2)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize(
    ("data_set", "people", "most_certified"), [("foursquare", 423, 0.5), ("gowalla", 129, 0.7)]
)
def test_on_real_check_ins_the_certified_bound_says_something_for_nearly_everybody(
    data_set: str, people: int, most_certified: float
) -> None:
    """Where the paper's tight bound is empty for every third (Foursquare) or for five of six (Gowalla)."""
    shared(f"data/{DATA_SETS[data_set]}")
    real = fit_priors(read_checkins(find_data(None) / DATA_SETS[data_set]), PAPER)
    raw, noised = summarise(data_set, real, schedules=1)
    assert raw.people == people
    assert raw.certified <= most_certified < raw.tight
    assert raw.certified_says_nothing < 0.08
    assert noised.certified <= raw.certified
