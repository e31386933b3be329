"""Counters as cities have them against exact numbers; ``about`` in ``counters.json`` says what each is.

Of ``counters.json`` everything is used that has a counterpart here. What has none:

- ``mean_delta``, ``erasure_bound``, ``delta_from_variance``, ``levels_*``, ``window_information`` and
  ``information_bound`` of crowds, and both cases ``bits_of_one_person``, are of whole windows whose bits are
  told together. Here bits are of single steps, and what a crowd of few hides in few counts is known exactly.
- ``coin_per_release_bound``, ``one_coin_bound`` and ``product_form_bound`` of tours: own counts are followed
  exactly, which is lower than each of them.
- ``decisions`` under a budget are of a log that ends and begins with a law of its own. Here habits repeat,
  and of whoever has a law of the first step the limit counts from no guess at all, so nothing is released;
  limits are enumerated in ``decisions/test_windows_under_a_budget.py``.
- ``best_success_given_published`` is of one published value; an attack is measured over all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from accounting.attacks.noised_draws_kernel import WindowSimulation
from accounting.attacks.window_simulation import window_simulation
from accounting.bounds.windows import window_risk
from accounting.exposure import Exposure
from accounting.exposure.crowd import CrowdAdversary
from accounting.exposure.crowd.variance_kernel import COINS, VARIANCE
from accounting.hmm.forward_viterbi import Observed, new_recursion
from accounting.hmm.trace_decoding import decode_trace, posterior
from accounting.settings import HorizonSettings
from models.releases import MoveSensor, Schedule, Sensor, WindowRelease
from tests.accounting.crowd.counters import Counters, cases_of, length, mechanism_of, most_moves, noise_of
from tests.accounting.crowd.side_information import free_bits, neighbours
from tests.accounting.enumeration import Floats
from tests.accounting.own_counts_enumerated import Log

COUNTED, CROWDS = cases_of("crowd", "personas", "tour"), cases_of("crowd")
BUDGETS, FILTERS = cases_of("budget"), cases_of("filter")


def informed_optimum(case: dict[str, Any]) -> float:
    """Of whoever knows where everybody else is: of personas by raw counts, which they are."""
    if case["kind"] == "personas":
        return float(case["raw_loss_of_kept_sets"][-1])
    return float(case["informed_optimum" if case["kind"] == "crowd" else "optimum"])


@pytest.mark.parametrize("number", range(len(COUNTED)))
def test_the_reference_by_our_enumeration(number: int) -> None:
    """Crowds, 163 people of two personas, tours: the truth of other tests is that of the reference."""
    case = COUNTED[number]
    counters = Counters(case)
    assert counters.optimum(among=True) == pytest.approx(case["optimum"], abs=1e-12)
    assert counters.optimum(among=False) == pytest.approx(informed_optimum(case), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(COUNTED)))
def test_ceilings_of_counters_are_those_of_the_reference(number: int) -> None:
    """Informed, audited or running, they are the optimum; in the crowd never below it, nor above informed."""
    case = COUNTED[number]
    counters, informed, best = Counters(case), informed_optimum(case), case["optimum"]
    audit, among = counters.audit(), counters.audit(CrowdAdversary())
    accounts = counters.accounts()
    running, running_among = (each.risk()[counters.target] for each in (accounts.informed, accounts))
    assert audit.prior_guess.best == pytest.approx(case["prior_optimum"], abs=1e-9)
    assert audit.baseline == pytest.approx(case["prior_optimum"], abs=1e-9)
    for ceiling in (audit.certified, running):
        assert informed - 1e-9 <= ceiling <= informed + 1e-3
    assert best - 1e-9 <= among.certified <= audit.certified + 1e-12
    assert best - 1e-9 <= running_among <= running + 1e-12
    if case["kind"] == "personas":  # 81 to 163 people hide a person
        assert among.certified < audit.certified - 1e-3
        assert running_among < running - 1e-3


def window_release(own: dict[str, Any]) -> WindowRelease:
    """A release over steps that may begin anywhere."""
    first, last, mechanism = own["first"], own["last"], mechanism_of(own)
    if own["counts"] in ("presence", "dedup"):
        most = 1 if own["counts"] == "dedup" else length(own)
        return WindowRelease(Sensor("c", tuple(own["places"])), first, last, most, mechanism)
    times = np.array(own["times_counted"])
    sensor = MoveSensor.of("c", {(int(x), int(y)): int(times[x, y]) for x, y in np.argwhere(times)})
    return WindowRelease(
        sensor, first, last, min(own.get("most", 99), most_moves(times, length(own))), mechanism
    )


@pytest.mark.parametrize("number", range(len(COUNTED)))
def test_own_counts_and_their_information_are_those_of_the_reference(number: int) -> None:
    """Laws of own counts to 1e-8; of tours the information of each release, exact within a part in 10,000."""
    case = COUNTED[number]
    person = Counters(case).people[Counters(case).target]
    first, last = case["horizon"]
    log = Log(np.array(person["initial"]), np.array(person["transitions"]), (first, last), case["mistakes"])
    releases = [window_release(own) for own in case["releases"]]
    found = window_risk(log.exposure, releases, log.horizon, log.mistakes, in_hindsight=True)
    assert informed_optimum(case) - 1e-9 <= found.certified <= informed_optimum(case) + 0.015
    for own, most in zip(found.own_counts, case["most_counted"], strict=True):
        assert not own.law[most + 1 :].any()
    for own, law in zip(found.own_counts, case.get("own_count_law", ()), strict=False):
        both = np.zeros((2, max(own.law.size, len(law))))
        both[0, : own.law.size], both[1, : len(law)] = own.law, law
        assert both[0] == pytest.approx(both[1], abs=1e-8)
    for own, nats in zip(found.own_counts, case.get("information_by_release", ()), strict=False):
        assert nats - 1e-9 <= own.information_nats <= nats * 1.0001


def test_what_a_person_of_a_crowd_hides_in_single_steps_is_that_of_the_reference() -> None:
    """Variance and coins of the crowd whose windows are told but for one step."""
    case = CROWDS[0]
    (release,) = case["releases"]
    sums = 0.0
    for person, entry in zip(case["others"], case["tell"], strict=True):
        (free,) = {release["first"], release["last"]} - set(entry["told"])
        start, moves = np.array(person["initial"]), [np.array(each) for each in person["transitions"]]
        own = np.isin(np.arange(start.size), release["places"]).astype(np.int64)
        sums = sums + free_bits(*neighbours(start, moves, entry["told"], free), own, 1)[0]
    assert sums[VARIANCE] == pytest.approx(case["variance"][0], abs=1e-8)
    assert sums[COINS] == pytest.approx(case["coins"][0], abs=1e-8)


def as_decided(case: dict[str, Any], decisions: list[str | float]) -> Counters:
    """The windows that are published, with the noise that was decided."""
    published = [
        {**own, "sigma": None if choice == "raw" else choice}
        for own, choice in zip(case["windows"], decisions, strict=True)
        if choice != "none"
    ]
    return Counters({**case, "windows": published})


@pytest.mark.parametrize("number", range(len(BUDGETS)))
def test_running_ceilings_under_a_budget_are_those_of_the_reference(number: int) -> None:
    """In each horizon at least the optimum, and at most the ceiling by coins that kept the limit."""
    case = BUDGETS[number]
    settings = HorizonSettings(case["horizon_steps"], case["mistakes"], sharpen_above=0.0)
    compared = 0
    for step, accounts in as_decided(case, case["decisions"]).running(settings):
        if str(step) in case["optimum"]:
            (ceiling,), best = accounts.informed.risk(), case["optimum"][str(step)]
            assert best - 1e-9 <= ceiling <= min(best + 1e-3, case["ceilings"][str(step)] + 1e-9)
            assert accounts.baseline()[0] == pytest.approx(case["prior_optimum"][str(step)], abs=1e-9)
            compared += 1
    assert compared == 5


@pytest.mark.parametrize("number", range(len(BUDGETS)))
def test_running_ceilings_say_where_a_wrong_rule_breaks_the_limit(number: int) -> None:
    """A rule by which a window is charged for its elapsed steps only."""
    case = BUDGETS[number]
    wrong, over = case["wrong_rule_elapsed_steps_only"], []
    settings = HorizonSettings(case["horizon_steps"], case["mistakes"], sharpen_above=0.0)
    for step, accounts in as_decided(case, wrong["decisions"]).running(settings):
        if str(step) in wrong["optimum"]:
            (ceiling,), best = accounts.informed.risk(), wrong["optimum"][str(step)]
            assert ceiling >= best - 1e-9
            over.append(ceiling - case["prior_optimum"][str(step)] - case["added"])
    assert max(over) >= wrong["over_by"] - 1e-9


def weighed(simulation: WindowSimulation, case: dict[str, Any]) -> Floats:
    """How likely each state of each step (T, S) makes what was published with it."""
    found, tables = np.ones(simulation.place.shape), simulation.noise.tables
    for last, counted, law in zip(simulation.last, simulation.counted, simulation.law, strict=True):
        begin, end = tables.first[law], tables.first[law + 1]
        zero = begin - simulation.noise.first[law]
        chance = np.exp(simulation.noise.log_probability[zero])
        (published,) = (  # of the release that has this noise
            value
            for own, value in zip(case["releases"], case["published"], strict=True)
            if noise_of(own).max() == pytest.approx(chance, abs=1e-6)
        )
        index = zero + published - counted
        is_possible = (begin <= index) & (index < end)
        values = np.exp(simulation.noise.log_probability[np.where(is_possible, index, zero)])
        found[last] *= np.where(is_possible, values, 0.0)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(FILTERS)))
def test_an_attack_on_windows_decodes_what_was_published_as_the_reference(number: int) -> None:
    """Every step's posterior law and the likeliest path, from states of a place and the counts so far."""
    case = FILTERS[number]
    counters = Counters(case)
    population = counters.population
    exposure = Exposure.of(
        population.chain(0),
        Schedule(tuple(counters.schedule)),
        population.location_count,
        population.initial(0),
    )
    simulation = window_simulation(exposure, 1, np.zeros((2, counters.steps), np.int32))
    steps, states = simulation.place.shape
    labels = np.tile(np.arange(states, dtype=np.int32), (steps, 1))
    observed, forward = Observed(labels, weighed(simulation, case)), np.empty((steps, states))
    assert posterior(simulation.person, observed, forward)
    marginals = np.zeros((steps, simulation.places))
    for step in range(steps):
        np.add.at(marginals[step], simulation.place[step], forward[step] / forward[step].sum())
    assert marginals[counters.before :] == pytest.approx(np.array(case["posterior_marginals"]), abs=1e-6)
    path = np.empty(steps, np.int32)
    decode_trace(simulation.person, simulation.smallest, observed, new_recursion(steps, states), path)
    places = np.take_along_axis(simulation.place, path[:, None], axis=1)[counters.before :, 0]
    assert places.tolist() == case["most_likely_path"]
