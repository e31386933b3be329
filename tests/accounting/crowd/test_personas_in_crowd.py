"""Personas that stand for many are a crowd: as the people behind them, and never more than these hide."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accounting.bounds.certified import SeenInCrowd
from accounting.continuous.crowd import CrowdAccount
from accounting.exceptions import SettingsError, SnapshotError
from accounting.exposure.crowd import CrowdAdversary, Others
from accounting.exposure.crowd.others import COIN
from accounting.exposure.crowd.variance_kernel import COINS, RATES, TRANSFORMS, VARIANCE, difference_masses
from accounting.settings import HorizonSettings
from models.priors import MovementPrior, Population
from tests.accounting.crowd.both import BothAccounts
from tests.accounting.crowd.collective import (
    Chain,
    Count,
    Floats,
    collective_optimum,
    joint_law,
    others_law,
    sum_of,
)
from tests.accounting.crowd.instances import Instance, TargetApart, random_instance
from tests.accounting.crowd.side_information import free_bits, neighbours
from tests.accounting.crowd.test_crowd_soundness import ROUNDING, ceilings
from tests.accounting.crowd.test_others import random_people, random_steps
from tests.accounting.enumeration import all_paths, prior_optimum
from tests.volume import some

PERSONAS = [
    case
    for case in json.loads((Path(__file__).parent / "counters.json").read_text())["cases"]
    if case["kind"] == "personas"
]


@dataclass(frozen=True)
class Behind:
    """A crowd of personas, by number of those there are for certain, and with a chance of one more each."""

    instance: Instance
    personas: list[Chain]
    weights: Floats
    least: float
    target: int  # the persona that the target is one of, or -1

    @property
    def adversary(self) -> CrowdAdversary:
        kind = TargetApart if self.target < 0 else CrowdAdversary
        return kind(least=self.least)

    def seen(self, alone: float = 1.0) -> SeenInCrowd:
        others = Others(replace(self.instance.population, weights=self.weights), least=self.least)
        crowds = [others.apply(step) for step in self.instance.schedule.steps]
        return SeenInCrowd(self.instance.schedule.steps, crowds, replace(self.adversary, alone=alone))

    def optimum(self, law: Floats, mistakes: int) -> float:
        window = (0, self.instance.steps - 1)
        counts = self.instance.counts()
        return collective_optimum(joint_law(self.instance.target, counts, law, window), mistakes)


def random_personas(rng: np.random.Generator, largest: float) -> Behind:
    """One to three personas of up to ``largest`` people, some that never move or stay where they once are."""
    among = bool(rng.random() < 0.5)
    instance = random_instance(rng, target_among=True)
    start = [instance.target, *instance.others]
    personas = [start[k] for k in range(min(len(start), int(rng.integers(1, 4))))]
    weights = rng.uniform(0.05, largest, len(personas))
    is_whole = rng.random(len(personas)) < 0.6
    weights[is_whole] = np.maximum(1.0, np.floor(weights[is_whole]))
    target = int(rng.integers(len(personas))) if among else -1
    if among:
        weights[target] = max(1.0, weights[target])
    own = personas[target] if among else instance.target
    population = instance.population.subset(np.arange(len(personas)))
    least = float(rng.choice([1.0, 0.9, 0.6]))
    return Behind(replace(instance, target=own, population=population), personas, weights, least, target)


def written_out(behind: Behind, rng: np.random.Generator) -> list[Chain]:
    """Others by number, at the lower end of each interval, at its upper end, or between."""
    low = np.ceil(behind.weights * behind.least).astype(int)
    high = np.maximum(low, np.ceil(behind.weights).astype(int))
    between = rng.random()
    number = low if between < 0.6 else high if between < 0.8 else rng.integers(low, high + 1)
    number[behind.target] -= behind.target >= 0
    return [chain for k, chain in enumerate(behind.personas) for _ in range(number[k])]


def check(behind: Behind, law: Floats, mistakes: int, alone: float = 1.0) -> bool:
    """Whether the crowd lowers a ceiling that the best adversary does not beat."""
    instance = behind.instance
    found, informed = ceilings(instance.exposure(), behind.seen(alone), mistakes)
    best = behind.optimum(law, mistakes)
    assert prior_optimum(all_paths(*instance.target, instance.steps), mistakes) <= best + ROUNDING
    assert best <= found + ROUNDING
    assert found <= informed + ROUNDING
    return found < informed - 1e-6


def check_many(seeds: range) -> int:
    lowered = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        behind = random_personas(rng, largest=12.0)
        instance, mistakes = behind.instance, int(rng.integers(min(behind.instance.steps, 3)))
        law = others_law(written_out(behind, rng), instance.counts(), instance.steps)
        lowered += check(behind, law, mistakes)
    return lowered


@pytest.mark.slow
def test_no_adversary_beats_a_ceiling_among_personas_whatever_their_numbers_are() -> None:
    """Weights at both ends of their intervals, whole or not, personas of one, absorbing places and zeros."""
    assert check_many(range(30)) > 3


@pytest.mark.thorough
@pytest.mark.slow
def test_no_adversary_beats_a_ceiling_among_personas_in_many_crowds() -> None:
    """The same, longer."""
    assert check_many([1_000 + each for each in some(4_000)]) > 20


def check_running(seeds: range) -> int:
    """Every horizon of a log with what came before it, of a target who is one of a persona's people."""
    lowered = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        behind = random_personas(rng, largest=12.0)
        if behind.target < 0:
            continue
        instance = replace(behind.instance, others=written_out(behind, rng))
        horizon = int(rng.integers(1, instance.steps + 1))
        settings = HorizonSettings(horizon, int(rng.integers(min(horizon, 2))), sharpen_above=0.0)
        people = replace(instance.population, weights=behind.weights)
        account = BothAccounts(people, behind.adversary, settings)
        for step in instance.schedule.steps:
            account.apply(step)
            risk, informed = account.risk()[behind.target], account.informed.risk()[behind.target]
            assert account.baseline()[behind.target] <= risk <= informed
            first = step.step - horizon + 1
            if first >= 0 and any(count.step <= step.step for count in instance.counts()):
                best = instance.optimum((first, step.step), settings.mistakes, step.step)
                assert best <= risk + ROUNDING
                lowered += risk < informed - 1e-6
    return lowered


def test_no_adversary_beats_the_running_ceiling_of_a_persona() -> None:
    """At every step of a run, refined or not."""
    assert check_running(range(20)) > 0


@pytest.mark.thorough
@pytest.mark.slow
def test_no_adversary_beats_the_running_ceiling_of_a_persona_in_many_crowds() -> None:
    """The same, longer."""
    assert check_running([4_000 + each for each in some(2_000)]) > 20


def drawn_law(behind: Behind, rng: np.random.Generator) -> Floats:
    """The law of whole people, and of some whose persona is drawn for each alone, or who are not there."""
    counts, steps = behind.instance.counts(), behind.instance.steps
    whole = np.floor(behind.weights * behind.least).astype(int)
    chance = behind.weights * behind.least - whole
    whole[behind.target] -= behind.target >= 0
    certain = [chain for k, chain in enumerate(behind.personas) for _ in range(whole[k])]
    law = others_law(certain, counts, steps)
    drawn = int(np.ceil(chance.sum())) + int(rng.integers(2))
    each = np.zeros((2,) * len(counts))
    silent = [replace_noise(count) for count in counts]
    for k, chain in enumerate(behind.personas):
        each += chance[k] / max(drawn, 1) * others_law([chain], silent, steps)
    each[(0,) * len(counts)] += 1.0 - each.sum()
    for _ in range(drawn):
        law = sum_of(law, each)
    return law


def replace_noise(count: Count) -> Count:
    return replace(count, noise=np.ones(1))


def check_drawn(seeds: range) -> int:
    lowered = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        behind = random_personas(rng, largest=float(rng.choice([1.0, 8.0])))
        mistakes = int(rng.integers(min(behind.instance.steps, 3)))
        lowered += check(behind, drawn_law(behind, rng), mistakes)
    return lowered


@pytest.mark.slow
def test_a_part_of_a_person_counts_as_one_whose_persona_is_drawn() -> None:
    """0.3 people of each of many personas are people who each live like one of them, nobody knows which."""
    assert check_drawn(range(20)) > 0


@pytest.mark.thorough
@pytest.mark.slow
def test_a_part_of_a_person_counts_as_one_who_is_drawn_in_many_crowds() -> None:
    """The same, longer."""
    assert check_drawn([2_000 + each for each in some(2_000)]) > 5


def in_step_law(chain: Chain, people: int, counts: list[Count], steps: int) -> Floats:
    """What people add to the counts who make every move together."""
    everything = all_paths(*chain, steps)
    added = np.zeros((people + 1,) * len(counts))
    bits = tuple(people * each.cover[everything.paths[:, each.step]].astype(int) for each in counts)
    np.add.at(added, bits, everything.probability)
    return added


def check_alone(seeds: range) -> int:
    """Each of a persona's people moves alone with a chance; the others of them all together."""
    lowered = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        behind = random_personas(rng, largest=10.0)
        behind = replace(behind, target=-1, least=1.0, personas=behind.personas[:1])
        behind = replace(behind, weights=np.floor(behind.weights[:1]) + 1.0)
        behind = replace(
            behind, instance=replace(behind.instance, population=behind.instance.population.subset([0]))
        )
        alone, people = float(rng.choice([0.3, 0.7])), int(behind.weights[0])
        counts, steps = behind.instance.counts(), behind.instance.steps
        silent = [replace_noise(count) for count in counts]
        size = (people + 1,) * len(counts)
        law = np.zeros(size)
        chance = 1.0
        for together in range(people + 1):  # binomial probabilities, one after the other
            likely = chance * alone ** (people - together) * (1.0 - alone) ** together
            apart = others_law([behind.personas[0]] * (people - together), silent, steps)
            law += likely * sum_of(in_step_law(behind.personas[0], together, counts, steps), apart)
            chance *= (people - together) / (together + 1)
        law = sum_of(law, others_law([], counts, steps))
        lowered += check(behind, law, int(rng.integers(min(steps, 2))), alone)
    return lowered


@pytest.mark.slow
def test_people_of_a_persona_who_go_together_hide_nobody() -> None:
    assert check_alone(range(30)) > 2


@pytest.mark.thorough
@pytest.mark.slow
def test_people_of_a_persona_who_go_together_hide_nobody_in_many_crowds() -> None:
    """The same, longer."""
    assert check_alone([3_000 + each for each in some(1_000)]) > 0


def named(coin: int, count: int) -> list[str]:
    """Names whose coin falls on this side."""
    found: list[str] = []
    number = 0
    while len(found) < count:
        name = f"someone {number}"
        if hashlib.sha256(f"{COIN}\0{name}".encode()).digest()[0] & 1 == coin:
            found.append(name)
        number += 1
    return found


@pytest.mark.parametrize("weight", [1, 2, 7])
def test_a_persona_hides_as_the_people_behind_it_to_the_bit(weight: int) -> None:
    """Half of them toss each coin, the odd one that of the persona's name."""
    rng = np.random.default_rng(weight)
    one = random_people(rng, 1)
    persona = replace(one.renamed(named(0, 1)), weights=np.array([float(weight)]))
    halves = [*named(0, weight - weight // 2), *named(1, weight // 2)]
    people = one.subset([0] * weight).renamed(halves)
    steps = random_steps(rng, 14)
    some, all_of_them = Others(persona), Others(people)
    for step in steps:
        assert some.apply(step) == all_of_them.apply(step)


def test_personas_of_one_are_people_to_the_bit() -> None:
    """Sums and risks; only the snapshot says that they are personas."""
    rng = np.random.default_rng(5)
    people, steps = random_people(rng, 25), random_steps(rng, 12)
    settings = HorizonSettings(3, 1, sharpen_above=0.0)
    plain = BothAccounts(people, CrowdAdversary(known=2), settings)
    weighed = BothAccounts(replace(people, weights=np.ones(25)), CrowdAdversary(known=2), settings)
    for step in steps:
        plain.apply(step)
        weighed.apply(step)
        assert plain.crowds == weighed.crowds
        assert (plain.risk() == weighed.risk()).all()
        assert plain.summary() == weighed.summary()


@pytest.mark.parametrize("least", [1.0, 0.7])
def test_sums_of_personas_are_the_same_bits_in_groups_and_after_a_snapshot(least: float) -> None:
    """However they are split over partitions, joined later, or restored."""
    rng = np.random.default_rng(11)
    people, steps = random_people(rng, 30), random_steps(rng, 12)
    people = replace(people, weights=rng.choice([0.4, 1.0, 3.0, 12.5], 30))
    adversary, settings = CrowdAdversary(least=least), HorizonSettings(3, 1, sharpen_above=0.0)
    whole = BothAccounts(people, adversary, settings)
    half, rest = np.arange(0, 30, 2), np.arange(1, 30, 2)
    parts = [BothAccounts(people.subset(each), adversary, settings) for each in (half, rest)]
    for number, step in enumerate(steps):
        together = [a + b for a, b in zip(*(part.ask(step) for part in parts), strict=True)]
        assert whole.ask(step) == tuple(together)
        whole.apply(step)
        for part in parts:
            part.apply(step, tuple(together))
        if number == 5:
            for k, part in enumerate(parts):
                fresh = BothAccounts(people.subset((half, rest)[k]), adversary, settings)
                fresh.restore(part.snapshot())
                parts[k] = fresh
    for part, which in zip(parts, (half, rest), strict=True):
        assert (part.risk() == whole.risk()[which]).all()
    informed = parts[0].informed.with_people(parts[1].informed)
    joined = CrowdAccount.with_people(parts[0], parts[1], informed)
    assert (joined.risk() == whole.risk()[np.concatenate((half, rest))]).all()
    silence = random_steps(rng, 1)[0]
    assert joined.others.ask(replace(silence, step=12)) == whole.others.ask(replace(silence, step=12))
    some = joined.of_people(np.arange(15), informed.of_people(np.arange(15)))
    assert some.others.ask(replace(silence, step=12)) == parts[0].others.ask(replace(silence, step=12))
    other = BothAccounts(replace(people, weights=people.weights + 0.25), adversary, settings)
    with pytest.raises(SnapshotError, match="other weights"):
        other.restore(whole.snapshot())


def test_summaries_in_the_crowd_count_the_people_behind_personas() -> None:
    rng = np.random.default_rng(3)
    people = replace(random_people(rng, 6), weights=np.array([1.0, 2.0, 3.0, 4.0, 5.0, 85.0]))
    account = BothAccounts(people, CrowdAdversary(), HorizonSettings(2, 0))
    account.apply_all(random_steps(rng, 3))
    assert account.summary().people == 100
    assert account.people_each.tolist() == [1, 2, 3, 4, 5, 85]
    risk = np.repeat(account.risk(), account.people_each)
    assert account.summary().mean_risk == pytest.approx(risk.mean())


def test_fewer_people_of_a_persona_hide_less() -> None:
    """The lower end of each weight counts."""
    rng = np.random.default_rng(8)
    people, steps = replace(random_people(rng, 4), weights=np.full(4, 50.0)), random_steps(rng, 8)
    variances = []
    for least in (0.0, 0.3, 0.9, 1.0):
        others = Others(people, least=least)
        adversary = CrowdAdversary(least=least)
        found = [crowd for step in steps for crowd in others.apply(step)]
        variances.append([(each.variance(adversary), each.variance_at(0.1, adversary)) for each in found])
    assert (np.diff(np.array(variances), axis=0) >= 0.0).all()
    assert np.array(variances[0]).max() == 0.0 < np.array(variances[1]).max()


def test_too_many_people_and_accounts_without_weights_are_refused() -> None:
    one = MovementPrior.from_dense("p", np.full((2, 2), 0.5))
    persona = replace(Population.pack([one]), weights=np.array([1e9]))
    with pytest.raises(SettingsError, match="at most 100,000,000 people"):
        Others(persona)
    with pytest.raises(SettingsError, match="share of a persona's people"):
        CrowdAdversary(least=1.2)
    account = BothAccounts(replace(persona, weights=np.array([9.0])))
    with pytest.raises(SettingsError, match="weights of a crowd must be those of its people"):
        CrowdAccount(account.informed)


@pytest.mark.parametrize("case", PERSONAS)
def test_sums_over_personas_are_those_of_the_reference(case: dict[str, Any]) -> None:
    """Weights count people: variance, coins, and variances at levels of everybody but the target."""
    (release,) = case["releases"]
    sums = np.zeros(TRANSFORMS + len(RATES))
    lost = np.zeros(len(RATES))
    for number, entry in enumerate(case["tell"]):
        persona = case["personas"][entry["persona"]]
        initial, moves = np.array(persona["initial"]), [np.array(each) for each in persona["transitions"]]
        steps = range(release["first"], release["last"] + 1)
        (free,) = [step for step in steps if step not in entry["told"]]
        own = np.isin(np.arange(initial.size), release["places"]).astype(np.int64)
        bits = free_bits(*neighbours(initial, moves, entry["told"], free), own, 1)[0]
        people = entry["people"] - (number == case["target_left_out_of_tell_entry"])
        sums += people * bits
        lost -= people * np.log(1.0 - bits[TRANSFORMS:])
    assert sums[VARIANCE] == pytest.approx(case["variance"][0], abs=1e-8)
    assert sums[COINS] == pytest.approx(case["coins"][0], abs=1e-8)
    assert case["variance_of_all"] - case["share_of_target"] == pytest.approx(sums[VARIANCE], abs=1e-8)
    assert difference_masses(case["variance_of_all"] - 0.25, 0)[0] >= difference_masses(sums[VARIANCE], 0)[0]
    for level, (wanted,) in zip((0.5, 0.2, 0.05, 0.01), case["levels_variance"], strict=True):
        theirs = [RATES.index(rate) for rate in (0.5, 1, 2, 4, 8, 16, 32, 64)]
        found = max((log(level) + lost[k]) / RATES[k] for k in theirs)
        assert max(0.0, found) == pytest.approx(wanted, abs=1e-8)
