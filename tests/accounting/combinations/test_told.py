"""People whose habits change at a step, which an adversary is told the place of, beside all other features.

The truth is one log: everybody moves by the old habits up to the step and by the new ones from it on, and the
adversary sees everything from the log's first step, windows that straddle the change among it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.settings import HorizonSettings
from models.mechanisms import Gaussian, Raw
from models.priors import MovementPrior, Population, draw_name
from models.releases import Sensor, SensorRelease, StepSchedule
from tests.accounting.chains import KIND_SHARES, KINDS, random_matrix
from tests.accounting.combinations.deployments import (
    ADVERSARIES,
    Cell,
    Deployment,
    Renewed,
    Shown,
    compare,
    draw,
    noise_of,
    optimum_of,
)
from tests.volume import randoms, some


def renewed(rng: np.random.Generator) -> Deployment | None:
    """A deployment in which some people have other habits from its second or third step on.

    Short horizons, so that many begin after the change; None of a limit in hindsight, which is refused.
    """
    is_correlated = rng.random() < 0.15
    drawn = draw(rng, Cell("correlated", str(rng.choice(ADVERSARIES)), "fixed") if is_correlated else None)
    if "hindsight" in drawn.features:
        return None
    chains = list(drawn.chains)
    changed = Renewed.drawn(rng, chains, drawn.steps, int(rng.integers(1, 3)))
    horizon = int(rng.integers(1, 3))
    settings = replace(drawn.settings, horizon=horizon, mistakes=int(rng.integers(horizon)))
    return replace(drawn, chains=chains, others=chains[1:], renewed=changed, settings=settings)


def check(seed: int, number: int) -> Counter[str]:
    """No ceiling or limit is below the best adversary; how many after the change are below 1, by feature."""
    found: Counter[str] = Counter()
    for rng in randoms(seed, number):
        drawn = renewed(rng)
        if drawn is None:
            continue
        drawn.run()
        compared = compare(drawn)
        assert not compared.wrong, (sorted(drawn.features), compared.wrong)
        assert drawn.renewed is not None
        first = drawn.renewed.step + drawn.settings.horizon - 1
        whose = "own" if drawn.renewed.is_renewed[0] else "of others"
        for figures in (drawn.informed, drawn.crowd):
            below = sum(each < 1.0 - 1e-9 for each in figures[first:])
            found.update(dict.fromkeys({whose, *drawn.features}, below))
    return found


@pytest.mark.slow
def test_no_adversary_beats_a_ceiling_whoever_is_renewed_among_whomever() -> None:
    """Windows and moves, raw and noised, tiered and correlated, with and without a budget, in the crowd."""
    found = check(60, 2000)
    wanted = {"sum", "limited", "moves", "correlated", "crowd", "informed", "budget", "budget in the crowd"}
    assert all(found[each] for each in wanted | {"own", "of others"})


@pytest.mark.slow
def test_of_several_chains_each_starts_where_any_of_the_earlier_ones_may_have_been() -> None:
    """On average no adversary does better, not even one who knows the chain before and the one after."""
    compared, steps, chains = 0, 5, 3
    for rng in randoms(61, 300):
        size, step, horizon = int(rng.integers(2, 4)), int(rng.integers(1, 3)), int(rng.integers(1, 3))
        kinds = rng.choice(KINDS, (2, chains), p=KIND_SHARES)
        old, new = ([random_matrix(rng, size, kind) for kind in own] for own in kinds)
        start, places = rng.dirichlet(np.full(size, 0.5)), [str(place) for place in range(size)]
        law = np.mean([start @ np.linalg.matrix_power(each, step) for each in old], axis=0)
        own = [MovementPrior.from_dense(draw_name("p", k), new[k], initial=law) for k in range(chains)]
        one = Population.pack([MovementPrior.from_dense("p", new[0], initial=law)], places)
        people = replace(one, drawn=Population.pack(own, places))
        settings = HorizonSettings(horizon, int(rng.integers(horizon)), sharpen_above=0.0)
        told = ContinuousAccountant(people, settings, np.array([step]), told=np.array([True]))
        shown: list[Shown] = []
        for number in range(steps):
            mechanism = Raw() if rng.random() < 0.5 else Gaussian(0.7)
            sensor = Sensor("s", (int(rng.integers(size)),))
            released = (SensorRelease(sensor, mechanism),) if rng.random() < 0.5 else ()
            shown += [Shown(sensor, number, 1, noise_of(mechanism))] if released else []
            told.apply(StepSchedule(number, released))
            horizon_now = (number - horizon + 1, number)
            if horizon_now[0] < step or not shown:
                continue
            pairs = [
                np.stack([before if t < step else after for t in range(steps)])
                for before, after in product(old, new)
            ]
            best = [
                optimum_of([(start, each)], shown, steps, horizon_now, settings.mistakes) for each in pairs
            ]
            known = [each for each in best if each is not None]
            if len(known) == len(best):
                assert told.risk()[0] >= np.mean(known) - 1e-9
                compared += told.risk()[0] < 1.0 - 1e-9
    assert compared > len(some(300)) / 4


@pytest.mark.slow
@pytest.mark.parametrize("account", ["_checked_told", "told_accounts"])
def test_who_is_accounted_from_the_change_and_not_told_has_ceilings_below_the_truth(
    account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So these small logs do tell: what was released before says where the person was.

    Also where the account in the crowd alone, beside the informed one, leaves out that it was told.
    """
    untold: Any = lambda _, people: np.zeros(people, np.bool_)  # noqa: E731
    if account == "told_accounts":
        untold = property(lambda each: np.zeros(len(each.population), np.bool_))
    monkeypatch.setattr(ContinuousAccountant, account, untold)
    with pytest.raises(AssertionError, match="optimum"):
        check(60, 2000)
