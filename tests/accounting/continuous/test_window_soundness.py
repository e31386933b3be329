"""Counts over windows and of moves in the running account, against the best adversary by enumeration.

Every trajectory and every output of the noise that is really drawn is enumerated. The account of single steps
that stands for the releases must be above that adversary after every step, whatever was published before.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from accounting.bounds import horizon_risk
from accounting.continuous import ContinuousAccountant
from accounting.exposure.step_information import observe
from accounting.settings import HorizonSettings
from models.mechanisms import Gaussian, Mechanism, NoiseShare, Tiered
from models.priors import MovementPrior, Population
from models.releases import MoveSensor, StepSchedule, WindowRelease
from tests.accounting.bounds.test_window_risk import REFERENCE, logs, reference
from tests.accounting.own_counts_enumerated import Counted, Log, mechanism_of, with_mechanism
from tests.shown_steps import shown_steps


def population_of(log: Log) -> Population:
    """The one person of a log, who starts with its first step."""
    places = np.arange(log.start.size)
    prior = MovementPrior.from_dense("ada", log.cycle, initial=log.start)
    return Population.pack([prior], [str(place) for place in places])


def as_releases(
    log: Log, counted: list[Counted], mechanisms: list[Mechanism], *, is_declared_most: bool
) -> list[WindowRelease]:
    """What is declared: the most that a sum can be, or what anybody's trajectory reaches."""
    found = []
    for each, mechanism in zip(counted, mechanisms, strict=True):
        reached = max(1, int(each.own(log.everything.paths).max()))
        sums = (each.last - each.first + 1) * int(each.times.max())
        found.append(each.as_release(sums if is_declared_most else reached, mechanism))
    return found


def check_running(log: Log, counted: list[Counted], releases: list[WindowRelease], vectors: int) -> float:
    """The ceiling after each step is above the optimum of what was published by then; the least slack.

    Without vectors by the fast bound alone, whose information is no less than that of what was published.
    """
    horizon = log.horizon[1] - log.horizon[0] + 1
    horizon_settings = HorizonSettings(
        horizon, log.mistakes, sharpen=vectors > 0, sharpen_above=0.0, vectors=max(vectors, 1)
    )
    accountant = ContinuousAccountant(population_of(log), horizon_settings)
    slack = []
    for step in shown_steps(log.exposure.steps, releases):
        accountant.apply(step)
        first = step.step - horizon + 1
        if first < 0:
            continue
        published = log.noised([each for each in counted if each.last <= step.step])
        now = replace(log, horizon=(first, step.step))
        slack.append(float(accountant.risk()[0]) - now.optimum(published))
        slack.append(float(accountant.information_nats()[0]) - now.information(published))
    return min(slack)


@pytest.mark.slow
@pytest.mark.indices
@given(logs(), st.booleans(), st.sampled_from([0, 1, 16]))
@settings(max_examples=200, deadline=None)
def test_the_running_ceiling_is_above_every_adversary(
    drawn: tuple[Log, list[Counted], list[Mechanism]], is_declared_most: bool, vectors: int
) -> None:
    """Moves and places, sums and devices with a limit, raw and noised, with a history before the horizon."""
    log, counted, mechanisms = drawn
    releases = as_releases(log, counted, mechanisms, is_declared_most=is_declared_most)
    assert check_running(log, counted, releases, vectors) >= -1e-12


@given(logs(), st.booleans())
@settings(max_examples=100, deadline=None)
def test_every_bound_on_the_single_steps_is_above_every_adversary(
    drawn: tuple[Log, list[Counted], list[Mechanism]], is_declared_most: bool
) -> None:
    """In hindsight, too: with all that was published before, in and after the horizon."""
    log, counted, mechanisms = drawn
    releases = as_releases(log, counted, mechanisms, is_declared_most=is_declared_most)
    found = horizon_of(log, shown_steps(log.exposure.steps, releases))
    assert found >= log.optimum(log.noised(counted)) - 1e-12


@given(logs(), st.booleans(), st.sampled_from([0, 16]))
@settings(max_examples=80, deadline=None)
def test_all_tiers_of_a_window_together_reveal_what_is_accounted(
    drawn: tuple[Log, list[Counted], list[Mechanism]], is_declared_most: bool, vectors: int
) -> None:
    """Whoever has the best-informed tier's value has them all; its noise is no sum of shares."""
    log, counted, mechanisms = drawn
    tiers = [Tiered((("public", 0.3), ("partner", level))) for level in (1.0, 2.5)][: len(mechanisms)]
    counted = [with_mechanism(*both) for both in zip(counted, tiers, strict=True)]
    releases = as_releases(log, counted, list(tiers), is_declared_most=is_declared_most)
    assert check_running(log, counted, releases, vectors) >= -1e-12
    steps = shown_steps(log.exposure.steps, releases)
    assert horizon_of(log, steps) >= log.optimum(log.noised(counted)) - 1e-12


def horizon_of(log: Log, steps: list[StepSchedule]) -> float:
    seen = log.exposure.under(tuple(observe(step, log.start.size) for step in steps))
    return horizon_risk(seen, *log.horizon, log.mistakes, in_hindsight=True).certified


@pytest.mark.slow
@pytest.mark.parametrize("number", REFERENCE)
def test_the_reference_cases(number: int) -> None:
    """At the moment and in hindsight, held against numbers enumerated elsewhere."""
    case, log, counted = reference(number)
    mechanisms = [mechanism_of(release) for release in case["releases"]]
    drawn = [with_mechanism(*both) for both in zip(counted, mechanisms, strict=True)]
    for is_declared_most in (False, True):
        releases = as_releases(log, drawn, mechanisms, is_declared_most=is_declared_most)
        steps = shown_steps(log.exposure.steps, releases)
        assert horizon_of(log, steps) >= case["optimum"] - 1e-8
        assert min(check_running(log, drawn, releases, vectors) for vectors in (0, 16)) >= -1e-12


def test_without_what_moves_tell_the_account_would_promise_too_much() -> None:
    """The fast bound rests on it: left out, information is below the enumerated one."""
    case, log, counted = reference(0)
    mechanism = mechanism_of(case["releases"][0])
    drawn = [with_mechanism(counted[0], mechanism)]
    horizon = HorizonSettings(2, 0, sharpen=False)
    found, silent = (
        ContinuousAccountant(population_of(log), horizon),
        ContinuousAccountant(population_of(log), horizon),
    )
    moved = Counted(1, 2, np.array([[0, 1], [1, 0]]), drawn[0].noise)
    for step in shown_steps(3, [moved.as_release(2, mechanism)]):
        found.apply(step)
        silent.apply(replace(step, revealed=()))
    exact = replace(log, horizon=(1, 2)).information(log.noised([moved]))
    assert silent.information_nats()[0] < exact <= found.information_nats()[0]


@pytest.mark.slow
@pytest.mark.indices
@given(logs(), st.booleans(), st.sampled_from([0, 16]), st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_who_comes_in_the_middle_of_a_window_has_a_ceiling_above_every_adversary(
    drawn: tuple[Log, list[Counted], list[Mechanism]], is_declared_most: bool, vectors: int, came: int
) -> None:
    """Windows that began before the person's first step: its noise is for all steps, the person in some.

    The adversary enumerated sees the whole window's noise on what the person adds from then on.
    """
    log, counted, mechanisms = drawn
    counted = [replace(each, first=0) if each.is_on_places and each.first == 1 else each for each in counted]
    releases = []
    for each in as_releases(log, counted, mechanisms, is_declared_most=is_declared_most):
        first, last = each.first + came, each.last + came
        if each.earliest_place == 0:  # it began before the person came, who was not counted then
            first = max(int(isinstance(each.sensor, MoveSensor)), first - came)
        longer = last - first + 1 if is_declared_most else 1
        releases.append(replace(each, first=first, last=last, most_counts=longer * each.most_counts))
    horizon = log.horizon[1] - log.horizon[0] + 1
    horizon_settings = HorizonSettings(
        horizon,
        log.mistakes,
        first_slot=-came % len(log.cycle),  # the person's first step is in slot 0
        sharpen=vectors > 0,
        sharpen_above=0.0,
        vectors=max(vectors, 1),
    )
    accountant = ContinuousAccountant(population_of(log), horizon_settings, np.array([came]))
    for step in shown_steps(came + log.exposure.steps, releases):
        accountant.apply(step)
        first = step.step - came - horizon + 1
        if first < 0:
            continue
        published = log.noised([each for each in counted if each.last + came <= step.step])
        now = replace(log, horizon=(first, step.step - came))
        assert accountant.risk()[0] >= now.optimum(published) - 1e-12
        assert accountant.information_nats()[0] >= now.information(published) - 1e-12


def channels_of(
    log: Log, steps: list[StepSchedule], *, is_whole_noise: bool = False
) -> list[NDArray[np.float64]]:
    """What single steps show, by trajectory: noised presence, or a coin's exact count; no bound in between.

    With ``is_whole_noise`` each step has the noise of the whole window, which is too much.
    """
    paths, found = log.everything.paths, []
    for step in steps:
        for release in step.releases:
            here = np.isin(paths[:, step.step], release.sensor.locations)
            own = release.mechanism
            law = (own.whole if is_whole_noise and isinstance(own, NoiseShare) else own).noise_law()
            if law is not None:
                channel = np.zeros((len(paths), law.probabilities.size + 1))
                channel[~here, :-1] = channel[here, 1:] = law.probabilities
            else:
                shown = own.reveal_probability()
                channel = np.stack([here * shown, ~here * shown, np.full(len(here), 1.0 - shown)], axis=1)
            found.append(channel)
    return found


def is_enumerable(channels: list[NDArray[np.float64]]) -> bool:
    return (
        len(channels[0]) * float(np.prod([each.shape[1] for each in channels])) < 2e6 if channels else False
    )


@pytest.mark.slow
@pytest.mark.indices
@given(logs(), st.booleans())
@settings(max_examples=400, deadline=None)
def test_single_steps_reveal_at_least_as_much_themselves(
    drawn: tuple[Log, list[Counted], list[Mechanism]], is_declared_most: bool
) -> None:
    """The best adversary of the single steps, enumerated: no slack of any bound hides behind it."""
    log, counted, mechanisms = drawn
    releases = as_releases(log, counted, mechanisms, is_declared_most=is_declared_most)
    channels = channels_of(log, shown_steps(log.exposure.steps, releases))
    if is_enumerable(channels):
        assert log.optimum(channels) >= log.optimum(log.noised(counted)) - 1e-12


def test_with_the_whole_noise_in_every_step_the_single_steps_would_promise_too_much() -> None:
    """The window's noise is there once: each step has a share of it, and more than that hides too well."""
    rng, broken = np.random.default_rng(0), 0
    for _ in range(60):
        weights = rng.gamma(0.3, size=(2, 2, 2)) + 1e-4
        log = Log(rng.dirichlet(np.ones(2)), weights / weights.sum(axis=2, keepdims=True), (1, 2), 0)
        times = np.array([[1, 0], [1, 0]])
        mechanism = Gaussian(float(rng.choice([0.6, 1.0])))
        counted = with_mechanism(Counted(1, 2, times, np.ones(1)), mechanism)
        steps = shown_steps(log.exposure.steps, [counted.as_release(2, mechanism)])
        best = log.optimum(log.noised([counted]))
        assert log.optimum(channels_of(log, steps)) >= best - 1e-12
        broken += log.optimum(channels_of(log, steps, is_whole_noise=True)) < best - 1e-6
    assert broken > 0


@pytest.mark.parametrize("sigma", [0.3, 0.5, 1.0, 2.0, 8.0])
@pytest.mark.parametrize("shares", [1, 2, 3, 4, 7])
def test_shares_add_up_to_the_noise(sigma: float, shares: int) -> None:
    """Convolved, the laws of all shares are the discrete Gaussian's table; none reveals more than is said."""
    whole, law, first = Gaussian(sigma), np.ones(1), 0
    for position in range(shares):
        share = NoiseShare(whole, shares, position)
        own = share.noise_law()
        assert own.probabilities.max() <= share.reveal_probability() + 1e-15
        law, first = np.convolve(law, own.probabilities), first + own.first
    table = whole.noise_law()
    summed = dict(zip(range(first, first + law.size), law.tolist(), strict=True))
    values = range(table.first, table.first + table.probabilities.size)
    assert [summed.get(each, 0.0) for each in values] == pytest.approx(
        table.probabilities.tolist(), abs=2e-15
    )


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("sigma", [0.6, 1.7, 8.0])
def test_a_share_tells_no_more_than_its_table_says(sigma: float, position: int) -> None:
    """Exact information of the shifted law at every probability; divergence both ways."""
    share = NoiseShare(Gaussian(sigma), 3, position)
    law = share.noise_law().probabilities
    present, absent = np.append(0.0, law), np.append(law, 0.0)
    both = (present > 1e-300) & (absent > 1e-300)
    ratio = np.log(present[both] / absent[both])
    assert share.divergence() >= max(present[both] @ ratio, -(absent[both] @ ratio)) - 1e-9
    for probability in (1e-9, 0.01, 0.3, 0.5, 0.8, 0.999):
        mixture = probability * present + (1.0 - probability) * absent
        seen = mixture > 0.0
        exact = -(mixture[seen] @ np.log(mixture[seen])) + law[law > 0.0] @ np.log(law[law > 0.0])
        assert float(share.information(np.array(probability))) >= exact - 1e-13
