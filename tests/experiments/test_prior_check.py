"""The table of priors held against real traces is made of checks; the committed one is what the data say."""

from __future__ import annotations

import csv
from dataclasses import asdict, replace
from functools import cache

import numpy as np
import pytest

from accounting.exposure.step_information.contraction_kernel import dense_matrix
from experiments.held_out import DATA_SETS, find_data
from experiments.prior_check import Case, case, earlier, guess_rows, page, rows, towards_frequencies
from models.fitting import PAPER, FitOptions, fit_priors, read_checkins
from models.fitting.checkins import Checkins
from tests import ROOT
from tests.shared_files import shared

COMMITTED = ROOT / "docs" / "results" / "tables" / "prior-check.csv"


@pytest.fixture(scope="module")
def found() -> Case:
    """Thirty people who wander between three places, four of sixteen windows held out."""
    random = np.random.default_rng(5)
    visits = [
        (f"u{user:02d}", 100 * window, "abc"[int(random.integers(3)) if random.random() < 0.4 else user % 3])
        for user in range(30)
        for window in range(16)
    ]
    options = FitOptions(window_seconds=100, top_places=3, min_windows=4, held_out_windows=4)
    return case("made up", "here", fit_priors(Checkins.from_rows(visits), options), draws=20)


@cache
def checkins_of(data_set: str) -> Checkins:
    """A data set; the test is skipped without it."""
    shared(f"data/{DATA_SETS[data_set]}")
    return read_checkins(find_data(None) / DATA_SETS[data_set])


@cache
def paper_case(data_set: str) -> Case:
    """A data set fitted the paper's way."""
    return case(data_set, "as in the paper", fit_priors(checkins_of(data_set), PAPER), draws=20)


def test_every_group_of_every_attack_is_a_row(found: Case) -> None:
    """Three attacks, everybody and four groups of each; the guess predicts what the others are bounded by."""
    made = rows(found)
    assert len(made) == 3 * 5
    assert {row.people for row in made if row.group == 0} == {30}
    assert 0 < found.check.guess.everybody.predicted <= found.raw.attack.everybody.predicted
    assert found.check.guess.everybody.predicted < found.posterior_mean < found.credible
    assert 0 < found.posterior_error < 0.05
    text = page([found], 20)
    assert "| made up | here | 30 |" in text
    assert f"- made up, here: {found.check.guess.refuted.value}." in text


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("data_set", DATA_SETS)
def test_the_committed_table_is_what_the_data_say(data_set: str) -> None:
    """The paper's way, and the same people five windows earlier: the guess to every digit kept.

    Of the smaller data set the attacks, too.
    """
    checkins, paper = checkins_of(data_set), paper_case(data_set).fit
    with COMMITTED.open() as file:
        committed = [row for row in csv.DictReader(file) if row["data_set"] == data_set]
    for fitted, fit in {"as in the paper": paper, "5 windows earlier": earlier(checkins, paper)}.items():
        assert fit.population.people == paper.population.people
        found = paper_case(data_set) if fit is paper else case(data_set, fitted, fit, draws=1)
        with_attacks = data_set == "gowalla" and fit is paper
        made = rows(found) if with_attacks else guess_rows(found)
        kept = [row for row in committed if row["fitted"] == fitted]
        kept = kept if with_attacks else [row for row in kept if row["attack"] == "best guess"]
        assert len(made) == len(kept) == (15 if with_attacks else 5)
        for row, written in zip(made, kept, strict=True):
            figures = {k: v for k, v in asdict(row).items() if isinstance(v, int | float)}
            assert figures == {k: pytest.approx(float(written[k]), rel=1e-5) for k in figures}
            assert row.verdict == written["verdict"]


def test_looking_back_leaves_out_what_was_not_known_then() -> None:
    """Five windows fewer, the same people, and no later check-in."""
    random = np.random.default_rng(2)
    length = PAPER.window_seconds
    visits = [
        (f"u{user}", length * window, "ab"[int(random.integers(2))])
        for user in range(4)
        for window in range(25)
    ]
    checkins = Checkins.from_rows(visits)
    paper = fit_priors(checkins, PAPER)
    before = earlier(checkins, paper)
    np.testing.assert_array_equal(before.held_out, paper.training[:, -5:])
    np.testing.assert_array_equal(before.training, paper.training[:, :-5])


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("data_set", DATA_SETS)
def test_the_published_figures_come_out(data_set: str) -> None:
    """Predicted and realised, by quarter, surprise, radius: as they were found by another implementation.

    Its quantile is that of few draws; its recency also draws rows towards place frequencies.
    """
    checkins, found = checkins_of(data_set), paper_case(data_set)
    people, plug_in, mean, credible, realised, quarters, z, kappa = {
        "foursquare": (423, 0.288, 0.351, 0.525, 0.421, ".08/.27 .19/.46 .31/.51 .57/.44", 2.7, 0.020),
        "gowalla": (129, 0.419, 0.503, 0.728, 0.225, ".22/.15 .35/.16 .45/.22 .67/.38", 12.0, 0.0),
    }[data_set]
    guess = found.check.guess
    assert guess.everybody.people == people
    assert guess.everybody.predicted == pytest.approx(plug_in, abs=5e-4)
    assert guess.everybody.realised == pytest.approx(realised, abs=5e-4)
    assert (
        " ".join(f"{q.predicted:.2f}/{q.realised:.2f}" for q in guess.groups).replace("0.", ".") == quarters
    )
    assert found.surprise.z == pytest.approx(z, abs=0.2)
    assert guess.everybody.kappa_min == pytest.approx(kappa, abs=5e-4)
    assert found.posterior_mean == pytest.approx(mean, abs=0.012)
    assert found.credible == pytest.approx(credible, abs=0.02)
    if data_set == "foursquare":
        recent = towards_frequencies(fit_priors(checkins, replace(PAPER, recency=0.7)))
        drawn = case(data_set, "recency", recent, draws=1)
        assert drawn.check.guess.everybody.predicted == pytest.approx(0.364, abs=5e-4)
        assert drawn.check.guess.everybody.realised == pytest.approx(0.454, abs=5e-4)
        assert drawn.check.sharpness.surprise == pytest.approx(1.02, abs=5e-3)


def test_rows_towards_frequencies_are_the_formula() -> None:
    """Two moves of a person between two places, a weight of 2, no fading but by the recency."""
    visits = [("u", 100 * window, place) for window, place in enumerate("abbab")]
    options = FitOptions(window_seconds=100, min_windows=1, held_out_windows=1, recency=0.5)
    fit = towards_frequencies(fit_priors(Checkins.from_rows(visits), options), weight=2.0)
    names = fit.population.location_names
    a, b = names.index("a"), names.index("b")
    chain = fit.population.chain(0)
    order = [chain.places.tolist().index(place) for place in (a, b)]
    rows = dense_matrix(chain, 0)[np.ix_(order, order)]
    seen = np.array([0.125 + 1.0, 0.25 + 0.5]) + 0.1  # a b b a, the last counts 1
    frequency = seen / seen.sum()
    moves = np.array([[0.0, 0.25], [1.0, 0.5]])
    expected = moves + 2.0 * frequency
    np.testing.assert_allclose(rows, expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(fit.evidence.of(fit.population, 0)[order], expected.sum(axis=1), rtol=1e-12)
