"""How sure a ceiling is: over drawn chains, against every chain there is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta

from accounting.audit import audit_population, posterior_ceiling
from accounting.audit.audit import summary_of
from accounting.bounds import Effort
from accounting.exceptions import EffortError, HorizonError
from accounting.exposure import Exposure, baseline
from models.fitting import PAPER, fit_priors, read_checkins
from models.priors import Evidence, Lists, MovementPrior, Population, posterior_draws
from models.releases import Schedule
from tests.accounting.enumeration import all_paths, joint_law, optimum, raw_channels
from tests.shared_files import shared

SCHEDULE = Schedule.raw([[1], [], [1]])
CHANNELS = raw_channels(np.array([[0, 1], [0, 0], [0, 1]], dtype=np.int32))
ROWS = np.array([[0.6, 0.4], [0.3, 0.7]])
ADA = Population.pack([MovementPrior.from_dense("ada", ROWS)])


def evidence(*rows: float) -> Evidence:
    return Evidence(("ada",), Lists(np.array([0, 2]), np.array(rows)))


@pytest.mark.slow
@pytest.mark.indices
def test_the_mean_ceiling_is_that_over_all_chains_the_data_could_give() -> None:
    """Two rows, so two numbers to integrate over; every trajectory of each chain is written down.

    The mean bounds the adversary who knows only the data, as the ceiling of the mean chain does not.
    """
    weight = (4.0, 6.0)
    quantiles = (np.arange(40) + 0.5) / 40
    grid = [beta.ppf(quantiles, w * row[0], w * row[1]) for w, row in zip(weight, ROWS, strict=True)]
    optima, mixture = [], 0.0
    for a in grid[0]:
        for b in grid[1]:
            start = np.array([b, 1 - a]) / (b + 1 - a)
            paths = all_paths(start, np.array([[[a, 1 - a], [b, 1 - b]]]), 3)
            optima.append(optimum(paths, CHANNELS, 0))
            mixture = mixture + joint_law(paths, CHANNELS) / 1600
    truth = np.mean(optima)
    found = posterior_ceiling(ADA, 0, SCHEDULE, 0, evidence(*weight), draws=400, effort=Effort(seed=1))
    assert found.mean_low <= truth <= found.mean_high
    assert abs(found.mean - truth) < 4 * np.std(optima) / 20
    assert abs(found.credible - np.quantile(optima, 0.9)) < 0.02
    (plug_in,) = audit_population(ADA, SCHEDULE, 0)
    only_data = mixture.max(axis=0).sum()  # type: ignore[attr-defined]
    assert plug_in.certified < only_data < truth


def test_with_all_the_evidence_in_the_world_every_figure_is_the_ceiling() -> None:
    (plug_in,) = audit_population(ADA, SCHEDULE, 1)
    found = posterior_ceiling(ADA, 0, SCHEDULE, 1, evidence(np.inf, np.inf), draws=60)
    assert found.mean == pytest.approx(plug_in.certified, abs=1e-12)
    assert found.credible == found.credible_high == plug_in.certified
    near = posterior_ceiling(ADA, 0, SCHEDULE, 1, evidence(1e9, 1e9), draws=5)
    assert near.mean == pytest.approx(plug_in.certified, abs=1e-3)


def test_less_evidence_means_less_sure() -> None:
    spread = []
    for weight in (10.0, 100.0, 1000.0):
        found = posterior_ceiling(ADA, 0, SCHEDULE, 0, evidence(weight, weight), draws=60)
        spread.append(found.credible - found.mean)
    assert spread[0] > spread[1] > spread[2] > 0.0


@pytest.mark.slow
@pytest.mark.indices
def test_quantiles_hold_for_the_draws_to_come() -> None:
    """In nine of ten worlds the next draw is not above the credible ceiling; the upper end errs in 5 %."""
    rng = np.random.default_rng(0)
    for draws in (10, 50):
        worlds = rng.random((2000, draws))
        found = [summary_of(world) for world in worlds]
        assert np.mean([each.credible for each in found]) >= 0.9 - 0.005
        assert np.mean([each.credible_high < 0.9 for each in found]) < 0.06
        assert np.mean([not each.mean_low <= 0.5 <= each.mean_high for each in found]) <= 0.06
    assert summary_of(np.linspace(0, 0.5, 10)).credible_high == 1.0


def test_seeds_and_people_are_told_apart() -> None:
    two = Population.pack([MovementPrior.from_dense(name, ROWS) for name in ("ada", "bob")])
    both = Evidence(("ada", "bob"), Lists(np.array([0, 2, 4]), np.full(4, 3.0)))
    ceilings = [
        posterior_ceiling(two, person, SCHEDULE, 0, both, draws=5, effort=Effort(seed=seed))
        for person, seed in ((0, 0), (0, 0), (0, 1), (1, 0))
    ]
    assert ceilings[0] == ceilings[1]
    assert len({each.mean for each in ceilings}) == 3


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(EffortError, match="at least 2"):
        posterior_ceiling(ADA, 0, SCHEDULE, 0, evidence(1.0, 1.0), draws=1)
    with pytest.raises(HorizonError, match="mistakes"):
        posterior_ceiling(ADA, 0, SCHEDULE, 3, evidence(1.0, 1.0))


@pytest.mark.slow
def test_half_of_what_foursquares_priors_miss_is_few_data() -> None:
    """The documented figures: the guess by the fitted priors, and averaged over what the data leave open."""
    result = fit_priors(read_checkins(shared("data/foursquare_us_tist2015_5k.parquet")), PAPER)
    nothing = Schedule.raw([[]] * 5, first_slot=result.held_out_first_slot)

    def guess(population: Population, person: int) -> float:
        exposure = Exposure.of(population.chain(person), nothing, population.location_count)
        return baseline(exposure, 1).success

    plug_in, means = [], []
    for person in range(len(result.population)):
        chains = posterior_draws(result.population, person, result.evidence, 20)
        plug_in.append(guess(result.population, person))
        means.append(np.mean([guess(chains, draw) for draw in range(20)]))
    assert np.mean(plug_in) == pytest.approx(0.288, abs=5e-4)
    assert np.mean(means) == pytest.approx(0.351, abs=0.007)
