"""Certified Monte Carlo: exact parts against enumeration, draws against exact means, repeatable."""

from __future__ import annotations

from itertools import product

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from accounting.audit import audit_exposure
from accounting.bounds import Effort
from accounting.bounds.certified import horizon_risk
from accounting.bounds.noised.posterior_kernel import (
    LogHorizon,
    PosteriorWork,
    fill_prior_guess,
    judge_draws,
    new_posterior_work,
    own_log,
    success_given,
)
from accounting.bounds.noised.sampled import sampled_success
from accounting.exposure import Exposure
from accounting.exposure.drawing import released_steps, value_tables
from models.priors.chain import LocalChain
from tests.accounting.chains import Case, random_case
from tests.accounting.enumeration import all_paths, within
from tests.accounting.exposures import exposure_to, gaussian, koga_chain, noised_case, step_of
from tests.volume import randoms

Window = tuple[int, int]


class Exact:
    """A window of a log by enumeration of every output: the optimum, and the two parts of the bound."""

    def __init__(
        self,
        case: Case,
        channels: list[NDArray[np.float64]],
        window: Window,
        mistakes: int,
        effort: tuple[int, int] = (16, 0),
    ) -> None:
        first, last = window
        vectors, order = effort
        person = case.person
        nobody = np.empty(last - first + 1, np.int64)
        self.horizon = LogHorizon(first, last, mistakes, nobody, vectors, order, False)
        work = new_posterior_work(self.horizon, case.view)
        self.prior = fill_prior_guess(person, self.horizon, work)
        self.optimum = self.bound = self.unmoved = 0.0
        self.everything = all_paths(case.start, case.matrices, len(channels), case.first_slot)
        self.inside = self.everything.paths[:, first : last + 1]
        guesses = np.array(list(product(range(len(case.start)), repeat=last - first + 1)))
        self.close = within(guesses, self.inside, mistakes)
        self.kept = within(self.horizon.guess[None], self.inside, mistakes)[0]
        for outputs in product(*(range(channel.shape[1]) for channel in channels)):
            seen = [channel[:, y] for channel, y in zip(channels, outputs, strict=True)]
            self._add(person, np.array(seen), work)

    def _add(self, person: LocalChain, likelihood: NDArray[np.float64], work: PosteriorWork) -> None:
        paths = self.everything.paths
        mass = self.everything.probability * likelihood[np.arange(paths.shape[1]), paths].prod(axis=1)
        if mass.sum() == 0.0:
            return
        scale = likelihood.max(axis=1, keepdims=True)  # known up to a factor a step
        found = success_given(person, likelihood / scale, self.horizon, work)
        best = float((self.close @ mass).max())
        kept = float(self.kept @ mass)
        total = float(mass.sum())
        assert best <= total * found.bound * (1 + 1e-10) + 1e-15
        assert total * found.attained <= best * (1 + 1e-10) + 1e-15
        assert found.unmoved == pytest.approx(kept / total, rel=1e-9, abs=1e-12)
        assert found.bound >= found.unmoved - 1e-12
        self.optimum += best
        self.bound += total * found.bound
        self.unmoved += total * found.unmoved


def random_window(rng: np.random.Generator, steps: int) -> tuple[Window, int, int]:
    """First and last step, mistakes, and how many steps of the log are seen (more in hindsight)."""
    first = int(rng.integers(steps))
    last = int(rng.integers(first, steps))
    seen = steps if rng.random() < 0.4 else last + 1
    return (first, last), int(rng.integers(last - first + 1)), seen


def shown_start(
    case: Case, channels: list[NDArray[np.float64]], first: int, exact: Exact
) -> tuple[float, float]:
    """Mean bound and unmoved success by enumeration of a log from ``first`` on that shows the place there.

    What was released before is not looked at: given that place, it tells nothing about later ones.
    """
    horizon = exact.horizon
    inside = horizon._replace(first=horizon.first - first, last=horizon.last - first)
    work, chain, slot = new_posterior_work(inside, case.view), case.person.chain, case.first_slot + first
    everything, bound, unmoved = exact.everything, 0.0, 0.0
    for place in range(len(case.start)):
        known = np.eye(len(case.start))[place]
        person = LocalChain(chain, known, slot % chain.start.shape[0])
        is_there = everything.paths[:, first] == place
        paths, probability = everything.paths[is_there, first:], everything.probability[is_there]
        for outputs in product(*(range(channel.shape[1]) for channel in channels[first:])):
            seen = [channel[:, y] for channel, y in zip(channels[first:], outputs, strict=True)]
            likelihood = np.array(seen)
            mass = probability @ likelihood[np.arange(len(seen)), paths].prod(axis=1)
            if mass > 0.0:
                scale = likelihood.max(axis=1, keepdims=True)
                found = success_given(person, likelihood / scale, inside, work)
                bound, unmoved = bound + mass * found.bound, unmoved + mass * found.unmoved
    return bound, unmoved


def check(rng: np.random.Generator) -> float:
    """One random log with outputs of any law, zeros included; how far above the optimum the bound is."""
    case = random_case(rng, largest=3, longest=4)
    window, mistakes, seen = random_window(rng, len(case.labels))
    channels = []
    for _ in range(seen):
        channel = rng.dirichlet(np.full(int(rng.integers(1, 4)), 0.5), size=len(case.start))
        channel = np.where(channel < 0.05, 0.0, channel)
        channels.append(channel / channel.sum(axis=1, keepdims=True))
    order = min(int(rng.choice([0, 3])), window[1] - window[0] + 1 - mistakes)
    exact = Exact(case, channels, window, mistakes, (int(rng.choice([1, 4, 16])), order))
    assert exact.unmoved == pytest.approx(exact.prior, rel=1e-9)
    assert exact.optimum <= exact.prior + (exact.bound - exact.unmoved) + 1e-12
    bound, unmoved = shown_start(case, channels, int(rng.integers(window[0] + 1)), exact)
    assert unmoved == pytest.approx(exact.prior, rel=1e-9)
    assert exact.optimum <= exact.prior + (bound - unmoved) + 1e-12
    return exact.bound / exact.optimum


@pytest.mark.parametrize("seed", range(2))
def test_the_guess_without_outputs_and_what_they_add_bound_the_optimum(seed: int) -> None:
    """Any outputs, history and hindsight; the fixed guess's mean posterior success is its prior success."""
    rng = np.random.default_rng(seed)
    assert np.mean([check(rng) for _ in range(100)]) < 1.01


@pytest.mark.thorough
@pytest.mark.slow
def test_the_parts_hold_on_four_thousand_logs() -> None:
    assert np.mean([check(rng) for rng in randoms(2026, 4000)]) < 1.01


def noised(rng: np.random.Generator) -> tuple[Case, Exposure, list[NDArray[np.float64]]]:
    """A small log with one sensor a step, raw or under discrete Gaussian noise."""
    case = random_case(rng, largest=3, longest=4)
    sigmas = [None if rng.random() < 0.2 else float(rng.choice([0.3, 0.5, 0.8])) for _ in case.labels]
    exposure, channels = noised_case(case, sigmas)
    return case, exposure, channels


@pytest.mark.slow
@pytest.mark.indices
def test_draws_have_the_means_that_enumeration_says() -> None:
    """Trajectories, outputs and their likelihoods: both parts of the bound within five standard errors."""
    rng = np.random.default_rng(5)
    for seed in range(25):
        case, exposure, channels = noised(rng)
        window, mistakes, seen = random_window(rng, len(channels))
        exact = Exact(case, channels[:seen], window, mistakes)
        steps = released_steps(exposure.observations[:seen])
        log = own_log(exposure.person, exposure.labels[:seen], steps, value_tables(steps.noise))
        found = np.empty((20_000, 3))
        judge_draws(found, log, exact.horizon, seed)
        error = found.std(axis=0) / np.sqrt(len(found))
        for drawn, mean in ((0, exact.bound), (2, exact.unmoved)):
            assert abs(found[:, drawn].mean() - mean) <= 5 * error[drawn] + 1e-6
        assert (found[:, 0] >= found[:, 2] - 1e-12).all()
        judge_draws(found, log, exact.horizon._replace(shows_start=True), seed)
        bound, _ = shown_start(case, channels[:seen], 0, exact)
        assert abs(found[:, 0].mean() - bound) <= 5 * found[:, 0].std() / np.sqrt(len(found)) + 1e-6


@pytest.mark.slow
def test_it_is_not_below_the_optimum_oftener_than_stated() -> None:
    """Few draws and little confidence, so that it fails at times; and hardly ever with much confidence."""
    rng = np.random.default_rng(6)
    failures, tries = 0, 0
    for seed in range(120):
        case, exposure, channels = noised(rng)
        window, mistakes, seen = random_window(rng, len(channels))
        best = Exact(case, channels[:seen], window, mistakes).optimum
        log = exposure.under(exposure.observations[:seen])
        for each in range(3):
            found = sampled_success(
                log, window, mistakes, Effort(draws=40, seed=1000 * each + seed, confidence=0.7)
            )
            assert found is not None
            failures += found < best - 1e-9
            tries += 1
        sure = sampled_success(log, window, mistakes, Effort(draws=200, seed=seed, confidence=0.9999))
        assert sure is not None
        assert sure >= best - 1e-9
    assert failures <= 0.3 * tries


@pytest.mark.slow
@pytest.mark.indices
def test_a_window_of_a_log_takes_the_sampled_bound_where_it_is_least() -> None:
    """At the moment and in hindsight; with its confidence, and only with draws."""
    start, matrix = koga_chain(6, 0.1)
    exposure = exposure_to(
        start, matrix, [step_of([t % 6, (t + 3) % 6], [gaussian(2.0)] * 2) for t in range(14)]
    )
    for in_hindsight in (False, True):
        certain = horizon_risk(exposure, 6, 11, 1, in_hindsight=in_hindsight)
        drawn = horizon_risk(
            exposure, 6, 11, 1, in_hindsight=in_hindsight, effort=Effort(draws=2000, confidence=0.999)
        )
        assert certain.confidence == 1.0
        assert (drawn.by, drawn.confidence) == ("sampled", 0.999)
        assert drawn.baseline < drawn.certified < certain.certified


def test_same_seed_same_bits_on_any_number_of_threads() -> None:
    start, matrix = koga_chain(6, 0.1)
    exposure = exposure_to(start, matrix, [step_of([t % 6], [gaussian(1.0)]) for t in range(8)])
    threads = numba.get_num_threads()
    found = []
    for number in {1, threads}:
        numba.set_num_threads(number)
        found.append(sampled_success(exposure, (0, 7), 1, Effort(draws=1500, seed=5)))
    numba.set_num_threads(threads)
    assert len(set(found)) == 1
    assert sampled_success(exposure, (0, 7), 1, Effort(draws=1500, seed=6)) != found[0]


def test_the_audit_states_the_confidence_of_a_certified_value_that_was_drawn() -> None:
    start, matrix = koga_chain(10, 0.1)
    exposure = exposure_to(start, matrix, [step_of([(7 * t) % 10], [gaussian(3.0)]) for t in range(10)])
    effort = Effort(order=3, patterns=64, draws=1500, seed=5, confidence=0.95)
    audit = audit_exposure(exposure, 2, effort=effort)
    assert audit.certified_by == "sampled"
    assert audit.confidence == 0.95
    bounds = [value for value in audit.bounds.model_dump().values() if value is not None]
    assert audit.baseline < audit.certified < min(bounds)
    assert audit_exposure(exposure, 2, effort=Effort(order=3, patterns=64)).confidence == 1.0


def test_sensors_that_tell_none_of_ones_places_apart_change_nothing() -> None:
    """A sensor elsewhere and one over all own places show the same noise wherever the person is."""
    start, matrix = np.array([0.5, 0.5, 0.0]), np.array([[0.7, 0.3, 0.0], [0.4, 0.6, 0.0], [0.0, 0.0, 1.0]])
    one = [step_of([0], [gaussian(1.0)]) for _ in range(4)]
    own = exposure_to(start[:2], matrix[:2, :2], one)
    steps = released_steps(own.observations)
    log = own_log(own.person, own.labels, steps, value_tables(steps.noise))
    assert log.releases.law.size == 4
    everywhere = own_log(own.person, np.ones_like(own.labels), steps, value_tables(steps.noise))
    assert everywhere.releases.law.size == 0
