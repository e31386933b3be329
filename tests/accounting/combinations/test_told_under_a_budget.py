"""People whose habits changed, under a risk budget: it holds for horizons after the step that was told."""

from __future__ import annotations

import numpy as np

from accounting.continuous import ContinuousAccountant
from accounting.decisions import BudgetReason, StepDecider, decide
from accounting.decisions.what_if import AnnouncedStep, WhatIf
from accounting.settings import HorizonSettings, RiskBudget
from models.mechanisms import Gaussian, Raw
from models.priors import MovementPrior, Population
from models.releases import Sensor
from tests.accounting.combinations.deployments import Shown, noise_of, optimum_of
from tests.accounting.decisions import deciding
from tests.volume import randoms

STEPS = 6


def test_no_adversary_who_was_told_a_place_beats_the_limit_afterwards() -> None:
    """By every trajectory, zeros included; the horizons before are left out, and do not silence anything."""
    compared, released_at_once, spent = 0, 0, 0
    for rng in randoms(52, 60):
        places, since = int(rng.integers(2, 4)), int(rng.integers(0, 3))
        matrix = rng.dirichlet(np.full(places, 3.0), size=places)
        matrix[rng.random(matrix.shape) < 0.1] = 0.0
        matrix += 0.02 * np.eye(places)
        matrix /= matrix.sum(axis=1, keepdims=True)
        start = rng.dirichlet(np.full(places, 1.0))
        prior = MovementPrior.from_dense("p", matrix, initial=start)
        population = Population.pack([prior], [str(place) for place in range(places)])
        horizon = int(rng.integers(1, 4))
        mistakes = int(rng.integers(horizon))
        limit = RiskBudget(0.0, risk=float(rng.uniform(0.93, 0.999)))
        settings = HorizonSettings(horizon, mistakes, sharpen_above=0.0, decided=limit)
        accountant = ContinuousAccountant(population, settings, np.array([since]), told=np.array([True]))
        what_if, shown = WhatIf(accountant, limit), []
        seen, natural = [], []
        for step in range(since + STEPS):
            sensors = [Sensor("s", (int(rng.integers(places)),))] if step >= since else []
            choices = deciding.choices_of(sensors, released=(Raw(), Gaussian(0.7)))
            asked = what_if.next_step(AnnouncedStep(sensors))
            decision = decide(StepDecider(step, choices, limit), asked.count_over)
            accountant.apply(decision.schedule)
            for each in decision.schedule.releases:
                if each.mechanism.is_released:
                    shown.append(Shown(each.sensor, step - since, 1, noise_of(each.mechanism)))
                    released_at_once += step == since
            seen.append(len(shown))
            natural.append(decision.natural)
            spent += decision.reason is BudgetReason.SPENT
        told = [Shown(Sensor("told", (place,)), 0, 1, np.ones(1)) for place in range(1, places)]
        held = int(what_if.prospects.of(since + STEPS).limits.held_from[0])
        assert held > since
        for last in range(horizon, STEPS):
            known = [*told, *shown[: seen[since + last]]]
            if seen[since + last] == 0 or natural[since + last]:
                continue
            within = (last - horizon + 1, last)
            best = optimum_of([(start, matrix[None])], known, STEPS, within, mistakes)
            assert limit.risk is not None
            if best is not None and since + within[0] >= held:
                compared += 1
                assert best <= limit.risk + 1e-9
    assert compared > 3
    assert released_at_once
    assert spent
