"""Strangers whom an operator vouches for hide people, by enumeration; that somebody passes hides nobody."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import pytest

from accounting.audit import audit_population
from accounting.bounds.certified import SeenInCrowd
from accounting.exceptions import SettingsError
from accounting.exposure.crowd import CrowdAdversary, Others, SensorCrowd, Strangers, with_strangers
from accounting.settings import HorizonSettings
from models.calendar import Calendar, slots_by_the_clock
from models.priors import MovementPrior, Population
from models.releases import Schedule, Sensor, SensorRelease, StepSchedule
from tests.accounting.crowd.both import BothAccounts
from tests.accounting.crowd.collective import Chain, Floats
from tests.accounting.crowd.instances import Instance, population_of, random_chain, random_schedule
from tests.accounting.crowd.side_information import law_at
from tests.accounting.crowd.test_crowd_soundness import ROUNDING, ceilings
from tests.accounting.exposures import RAW
from tests.volume import some

NIGHT = Strangers("s0", 22, 6, 24, 200, 0.1, 0.5)


@dataclass(frozen=True)
class Vouched:
    """A target, strangers who all move by one chain, and what may be said of them at sensor ``s0``."""

    instance: Instance
    adversary: CrowdAdversary

    def seen(self) -> SeenInCrowd:
        others, steps = Others(self.instance.population), self.instance.schedule.steps
        crowds = [with_strangers(step, others.apply(step), self.adversary, step.step) for step in steps]
        return SeenInCrowd(steps, crowds, self.adversary)


def chances(chain: Chain, step: int, steps: int, cover: Floats, counted: Floats) -> tuple[float, float]:
    """The least and the largest chance of being counted by one sensor rather than nowhere in a step.

    Over all that can be known of the places before and after, whatever is known of these or nothing.
    """
    start, matrices = chain
    moves = [matrices[t % len(matrices)] for t in range(steps)]
    before = [law_at(start, moves, step)] if step == 0 else list(moves[step - 1])
    if step > 0:
        reached = law_at(start, moves, step - 1) > 0.0
        before = [row for row, is_reached in zip(before, reached, strict=True) if is_reached]
    after = [np.ones(start.size)] if step == steps - 1 else [*moves[step].T, np.ones(start.size)]
    found = []
    for row in before:
        for column in after:
            here, nowhere = (row * column)[cover].sum(), (row * column)[~counted].sum()
            if here + nowhere > 0.0:
                found.append(here / (here + nowhere))
    return (min(found), max(found)) if found else (0.0, 1.0)


def random_vouched(rng: np.random.Generator) -> Vouched:
    """Strangers of any kind at every step, at every other one, or at some, and what is true of them."""
    places, steps = int(rng.integers(2, 4)), int(rng.integers(1, 5))
    schedule = random_schedule(rng, places, steps)
    target, stranger = random_chain(rng, places, 1), random_chain(rng, places, 1)
    if rng.random() < 0.6:
        stranger = stranger[0], rng.dirichlet(np.full(places, 3.0), size=places)[None]
    people = int(rng.integers(1, 16))
    lines = []
    for step in schedule.steps:
        for release in step.releases:
            if release.sensor.name != "s0" or rng.random() < 0.3:
                continue
            covers = [np.isin(np.arange(places), each.sensor.locations) for each in step.releases]
            counted = np.any(covers, axis=0)
            least, most = chances(stranger, step.step, steps, covers[0], counted)
            lines.append(Strangers("s0", step.step, step.step + 1, 24, people, least, most))
    instance = Instance(target, [stranger] * people, schedule, population_of([target], True), True)
    return Vouched(instance, CrowdAdversary(strangers=tuple(lines)))


def check_many(seeds: range) -> int:
    """How many ceilings are below the informed ones; none is below the best adversary."""
    lowered = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        vouched = random_vouched(rng)
        instance = vouched.instance
        mistakes = int(rng.integers(min(instance.steps, 3)))
        found, informed = ceilings(instance.exposure(), vouched.seen(), mistakes)
        assert instance.optimum((0, instance.steps - 1), mistakes) <= found + ROUNDING
        assert found <= informed + ROUNDING
        lowered += found < informed - 1e-6
    return lowered


@pytest.mark.slow
def test_no_adversary_beats_a_ceiling_among_strangers() -> None:
    """Who linger, stay for ever, or come anew; declared in every step, in some, at overlapping sensors."""
    assert check_many(range(60)) > 3


@pytest.mark.thorough
@pytest.mark.slow
def test_no_adversary_beats_a_ceiling_among_strangers_in_many_crowds() -> None:
    """The same, longer."""
    assert check_many([1_000 + each for each in some(6_000)]) > 50


def test_strangers_hide_at_their_hours_and_half_of_them_where_they_may_linger() -> None:
    """Across midnight; alone in its hour a line is taken whole."""
    step = StepSchedule(0, (SensorRelease(Sensor("s0", (0,)), RAW),))
    adversary = CrowdAdversary(strangers=(NIGHT,))

    def variance(slot: int) -> float:
        (crowd,) = with_strangers(step, (SensorCrowd(),), adversary, slot)
        return crowd.units[0] / 2**32

    assert [variance(slot) > 0.0 for slot in range(24)] == [slot >= 22 or slot < 6 for slot in range(24)]
    assert variance(24 * 7 + 23) == pytest.approx(100 * 0.09)
    alone = CrowdAdversary(strangers=(replace(NIGHT, first_slot=8, until_slot=9),))
    (crowd,) = with_strangers(step, (SensorCrowd(),), alone, 8)
    assert crowd.units[0] / 2**32 == pytest.approx(200 * 0.09)
    beside = CrowdAdversary(strangers=(*alone.strangers, replace(NIGHT, sensor="x", first_slot=9)))
    (crowd,) = with_strangers(step, (SensorCrowd(),), beside, 8)
    assert crowd.units[0] / 2**32 == pytest.approx(100 * 0.09)


def test_who_surely_passes_hides_nobody_nor_who_is_at_two_sensors() -> None:
    """That 200 people pass is no crowd, even if nobody knows who they are."""
    step = StepSchedule(0, (SensorRelease(Sensor("s0", (0,)), RAW),))
    for chance in ((1.0, 1.0), (0.0, 0.0), (0.2, 1.0), (0.0, 0.5)):
        line = Strangers("s0", 0, 24, 24, 200, *chance)
        found = with_strangers(step, (SensorCrowd(),), CrowdAdversary(strangers=(line,)), 3)
        assert not any(found[0].units)
    both = StepSchedule(0, (*step.releases, SensorRelease(Sensor("s1", (0, 1)), RAW)))
    crowds = (SensorCrowd(), SensorCrowd())
    adversary = CrowdAdversary(strangers=(replace(NIGHT, first_slot=0, until_slot=24),))
    assert with_strangers(both, crowds, adversary, 3) == crowds
    apart = StepSchedule(0, (*step.releases, SensorRelease(Sensor("s1", (1,)), RAW)))
    found = with_strangers(apart, crowds, adversary, 3)
    assert found[0].units[0] > 0 == found[1].units[0]


def test_strangers_lower_the_ceilings_of_one_person_in_audits_and_accounts() -> None:
    """With one prior and no other person there is a crowd all the same."""
    person = MovementPrior.from_dense("p", np.full((2, 2), 0.5))
    people = Population.pack([person], ["station", "elsewhere"])
    steps = tuple(StepSchedule(t, (SensorRelease(Sensor("s0", (0,)), RAW),)) for t in range(4))
    none = CrowdAdversary()
    some = CrowdAdversary(strangers=(Strangers("s0", 0, 24, 24, 4_000, 0.2, 0.6),))
    ceilings_of = {}
    for name, adversary in (("none", none), ("some", some)):
        (audit,) = audit_population(people, Schedule(steps), 1, adversary=adversary)
        ceilings_of[name] = audit.certified
    assert ceilings_of["none"] == 1.0
    assert ceilings_of["some"] < 0.5
    account, alone = (BothAccounts(people, each, HorizonSettings(4, 1)) for each in (some, none))
    account.apply_all(steps)
    alone.apply_all(steps)
    assert account.risk()[0] < 0.55 < alone.risk()[0] == 1.0


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"people": -1}, "strangers must be 0 to"),
        ({"least_chance": 0.6}, "between two probabilities"),
        ({"most_chance": 1.5}, "between two probabilities"),
        ({"first_slot": 24}, "slots of strangers must lie in their cycle of 24"),
        ({"until_slot": 0}, "slots of strangers must lie in their cycle of 24"),
    ],
)
def test_what_cannot_be_vouched_for_is_refused(wrong: dict[str, float], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        replace(NIGHT, **wrong)


@pytest.mark.parametrize(
    ("night", "hour", "shown"), [("2026-03-29", 1, [1, 3]), ("2026-10-25", 2, [1, 2, 2, 3])]
)
def test_strangers_come_at_hours_of_the_clock_and_may_linger_where_it_is_changed(
    night: str, hour: int, shown: list[int]
) -> None:
    """The hour after a skipped one is the next step, and an hour that comes twice is two of them."""
    origin = int(datetime.fromisoformat(f"{night}T00:00+01:00").timestamp()) - 3600 * (night[5:7] == "10")
    vienna = Calendar("Europe/Vienna", origin, 3600)
    slots = [slots_by_the_clock(0, step, vienna) for step in range(1, 1 + len(shown))]
    assert [slot for slot, _ in slots] == shown
    lines = (Strangers("s0", hour, hour + 1, 24, 200, 0.1, 0.5), Strangers("s0", 3, 4, 24, 200, 0.1, 0.5))
    alone = CrowdAdversary(strangers=lines[:1] if night[5:7] == "10" else lines)
    step = StepSchedule(0, (SensorRelease(Sensor("s0", (0,)), RAW),))
    at = shown.index(hour)
    (crowd,) = with_strangers(step, (SensorCrowd(),), alone, *slots[at])
    assert crowd.units[0] <= 100 * 0.09 * 2**32
    (single,) = with_strangers(step, (SensorCrowd(),), CrowdAdversary(strangers=lines[:1]), hour)
    assert single.units[0] > 1.9 * crowd.units[0]
