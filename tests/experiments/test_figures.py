"""The paper's figures: what they are drawn from obeys the theory, and what is written can be looked at."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from experiments.drawing import LINES
from experiments.measure import ATTACKS, BOUNDS, Point
from experiments.papers import composition, diffusion
from experiments.papers.__main__ import main
from experiments.papers.koga import (
    RealSweep,
    Sweep,
    draw_figure_3,
    draw_figure_5,
    draw_figure_8,
    figure_6,
    figure_7,
    koga_prior,
    random_sensors,
    rank_correlation,
)
from experiments.real_checkins import lucky_constant, measure, report
from models.fitting import FitOptions, FitResult, fit_priors
from models.fitting.checkins import Checkins

TINY = Sweep(
    locations=(6, 9),
    places=8,
    steps=4,
    horizons=(2, 4),
    sigmas=(1.0, 3.0),
    noised_mistakes=(2,),
    schedules=2,
    draws=200,
)
MOST_BYTES = 150_000


@pytest.fixture(scope="module")
def fit() -> FitResult:
    """Eight people who wander between three places, four of sixteen windows held out."""
    random = np.random.default_rng(11)
    rows = [
        (
            f"u{user}",
            100 * window + user,
            "abc"[int(random.integers(3)) if random.random() < 0.5 else user % 3],
        )
        for user in range(8)
        for window in range(16)
    ]
    options = FitOptions(window_seconds=100, top_places=3, min_windows=4, held_out_windows=4)
    return fit_priors(Checkins.from_rows(rows), options)


def at(points: list[Point], panel: str, x: float) -> dict[str, float]:
    """All curves of a panel at one x."""
    return {point.series: point.mean for point in points if (point.panel, point.x) == (panel, x)}


def assert_ordered(values: dict[str, float]) -> None:
    """No exact attack above the certified bound, which is no larger than any other bound."""
    assert values["certified"] <= min(values[name] for name in BOUNDS) + 1e-12
    assert max(values[name] for name in ATTACKS if name in values) <= values["certified"] + 1e-12
    assert values["tight"] <= 1.0


@pytest.mark.slow
def test_figure_5_is_drawn_from_ordered_bounds_and_attacks(tmp_path: Path) -> None:
    """Every point of every panel, as read back from the CSV; and the picture is small and is one."""
    draw_figure_5(TINY, tmp_path)
    rows = list(csv.DictReader((tmp_path / "koga-5.csv").open()))
    points = [
        Point(
            row["panel"],
            float(row["x"]),
            row["series"],
            *(float(row[key]) for key in ("mean", "lowest", "highest")),
        )
        for row in rows
    ]
    places = sorted({(point.panel, point.x) for point in points})
    assert len(places) == 2 + 4 + 2 + 2
    for panel, x in places:
        values = at(points, panel, x)
        assert set(values) == {*BOUNDS, *ATTACKS}
        assert_ordered(values)
    assert all(
        point.lowest <= point.mean * (1 + 1e-5) and point.mean <= point.highest * (1 + 1e-5)
        for point in points
    )
    assert at(points, "right", 1.0)["certified"] > at(points, "right", 4.0)["certified"]
    picture = (tmp_path / "koga-5.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert 5_000 < len(picture) < MOST_BYTES


@pytest.mark.slow
def test_figure_7_compares_noise_with_the_same_sensors_raw() -> None:
    """What noise hides cannot be guessed better: no noised bound is above the raw one."""
    points = figure_7(TINY)
    raw = at(points, "raw, s=2", 0.0)
    for sigma in TINY.sigmas:
        noised = at(points, "sigma, s=2", sigma)
        assert noised["certified"] <= raw["certified"] + 1e-12
        assert noised["prior"] == raw["prior"]  # it sees no count
    assert at(points, "sigma, s=2", 3.0)["tight"] < at(points, "sigma, s=2", 1.0)["tight"]


def test_real_figures_show_the_same_bounds_beside_both_kinds_of_attack(fit: FitResult) -> None:
    points = figure_6("made up", fit, RealSweep(schedules=1))
    for right in (1.0, 2.0, 3.0, 4.0):
        modelled, real = at(points, "made up, prior", right), at(points, "made up, real", right)
        assert_ordered(modelled)
        assert {name: real[name] for name in BOUNDS} == {name: modelled[name] for name in BOUNDS}
        assert all(0.0 <= real[name] <= 1.0 for name in (*ATTACKS, "lucky constant"))
        assert real["prior"] <= 1.0
    assert at(points, "made up, prior", 4.0)["certified"] < at(points, "made up, prior", 1.0)["certified"]


@pytest.mark.slow
def test_real_figures_name_nobody(fit: FitResult, tmp_path: Path) -> None:
    """One line a person and no id among them; noised counts are drawn against raw ones."""
    draw_figure_3({"made up": fit}, tmp_path)
    rows = list(csv.DictReader((tmp_path / "koga-3.csv").open()))
    assert len(rows) == len(fit.population) == 8
    written = (tmp_path / "koga-3.csv").read_text()
    assert not any(person in written for person in fit.population.people)
    for row in rows:
        assert float(row["baseline"]) <= float(row["certified"]) <= float(row["tight"])
    draw_figure_8({"made up": fit}, RealSweep(sigmas=(1.0,), schedules=1, draws=20, noise_draws=2), tmp_path)
    panels = {row["panel"] for row in csv.DictReader((tmp_path / "koga-8.csv").open())}
    assert panels == {"made up, prior", "made up, real", "made up raw, prior", "made up raw, real"}
    assert all(5_000 < (tmp_path / f"koga-{n}.png").stat().st_size < MOST_BYTES for n in (3, 8))


def test_the_lucky_constant_is_one_place_for_everybody(fit: FitResult) -> None:
    """Counted by hand, with and without a place left out."""
    shares = [np.mean([(trace == place).sum() >= 3 for trace in fit.held_out]) for place in range(4)]
    assert lucky_constant(fit, 1, None) == max(shares)
    assert lucky_constant(fit, 1, int(np.argmax(shares))) == sorted(shares)[-2]


def test_the_page_on_real_check_ins_has_every_figure_of_every_data_set(fit: FitResult) -> None:
    """Bounds with the share of people they say nothing about; attacks under the prior and on real traces."""
    rows = measure("made up", fit, schedules=2)
    page = report(rows, {"made up": fit})
    assert "{" not in page
    assert "Made up 8 people" in page
    found = {(row.figure, row.schedule): row for row in rows}
    for schedule in (0, 1):
        assert found["certified", schedule].mean <= found["tight", schedule].mean
        assert found["certified", schedule].says_nothing <= found["tight", schedule].says_nothing
        best = found["under the prior: best", schedule].mean
        assert found["under the prior: baseline", schedule].mean <= best + 1e-12
        assert best <= found["certified", schedule].mean + 1e-12
        for figure in ("tight", "on real traces: map", "on real traces: excluded"):
            assert f"| {figure} | " in page


def test_without_data_the_figures_say_what_is_missing_and_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing is written."""
    assert (
        main(["koga", "--only", "3", "8", "--data", str(tmp_path), "--results", str(tmp_path / "out")]) == 1
    )
    said = capsys.readouterr().err
    assert said.count("was not drawn") == 2
    assert str(tmp_path) in said
    assert "TALLYGUARD_SHARED" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("paper", ["koga", "composition", "cip", "diffusion"])
def test_a_papers_parts_are_drawn_and_set_beside_its_numbers(
    paper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pictures with their CSV; where a paper is wrong the table says so, with the number that shows it."""
    monkeypatch.setattr(composition, "CASES", 2)
    monkeypatch.setattr(diffusion, "DRAWS", 20)
    parts = {
        "koga": ["examples"],
        "composition": ["theorems", "counterexamples"],
        "cip": ["l-max"],
        "diffusion": ["4", "7"],
    }
    assert main([paper, "--only", *parts[paper], "--results", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    expected = {
        "koga": [
            "New York 0.50 to 0.99, Paris 0.50 to 0.50 | yes",
            "0.19 to 0.38, moves anywhere 0.04 to 0.08",
        ],
        "composition": ["3.203, of 1.565 and 1.476 | no", "2.773 = 2 ln 4 | no", "0 of 2 above it | yes"],
        "cip": ["53.2 at l = 6, 56.1 at l = 2"],
        "diffusion": ["2.08, as their variance", "epsilon at least 2.01"],
    }
    for words in expected[paper]:
        assert words in shown
    pictures = list((tmp_path / "figures").glob("*.png"))
    assert len(pictures) == {"koga": 0, "composition": 1, "cip": 1, "diffusion": 2}[paper]
    assert all(picture.with_suffix(".csv").exists() for picture in pictures)
    assert not (tmp_path / "tables").exists()  # only of all parts


def test_a_part_that_a_paper_does_not_have_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["koga", "--only", "9"])
    assert "it has examples, 3, 4, 5, 6, 7, 8" in capsys.readouterr().err


def test_a_longer_schedule_begins_with_the_shorter_one() -> None:
    """Along a curve only its parameter changes; positions scale with the number of places."""
    assert random_sensors(100, 10, 3)[:4] == random_sensors(100, 4, 3)
    assert [sensor // 10 for sensor in random_sensors(1000, 5, 3)] == random_sensors(100, 5, 3)
    assert len({tuple(random_sensors(100, 10, seed)) for seed in range(20)}) == 20


def test_the_papers_chain_has_its_transition_probabilities() -> None:
    """``P[x, y]`` proportional to ``exp(-|x - y| / (tau M))``, by hand for three places."""
    matrix = koga_prior(3, tau=1.0).transitions[0].toarray()
    near, far = np.exp(-1 / 3), np.exp(-2 / 3)
    np.testing.assert_allclose(matrix[0], np.array([1, near, far]) / (1 + near + far))
    np.testing.assert_allclose(matrix[1], np.array([near, 1, near]) / (1 + 2 * near))


def test_curves_differ_in_colour_or_line_and_always_in_marker() -> None:
    """Whoever does not see the colours can still tell the curves apart."""
    assert len({(style.colour, style.line) for style in LINES.values()}) == len(LINES)
    assert len({style.marker for style in LINES.values()}) == len(LINES)


def test_rank_correlation_of_what_does_not_vary_is_zero() -> None:
    assert rank_correlation([1.0, 2.0, 3.0], [1.0, 1.0, 1.0]) == 0.0
    assert rank_correlation([1.0, 2.0, 3.0], [1.0, 4.0, 9.0]) == pytest.approx(1.0)
