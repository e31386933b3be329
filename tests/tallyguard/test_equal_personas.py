"""Personas with equal chains, and equal weights or not, count like everybody written out one by one."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallyguard as tg
from accounting.continuous import ContinuousAccountant, PeopleShares
from accounting.continuous.crowd import CrowdAccount
from accounting.continuous.people import AccountPositions, Holders
from accounting.continuous.shadow import drawn_parts
from accounting.decisions.what_if import AnnouncedStep, WhatIf
from accounting.exceptions import SettingsError
from accounting.settings import HorizonSettings, RiskBudget
from models.mechanisms import Gaussian, Raw, Suppressed
from models.priors import Population
from models.releases import Sensor, SensorRelease, StepSchedule
from stream_app.analysis.alternatives import Alternative, answers
from stream_app.analysis.planning import plan_schedule
from stream_app.analysis.preflight import check_files
from stream_app.embedded import RunOptions, run
from stream_app.watching.people import PeopleView, Standing
from tests.accounting.decisions import deciding
from tests.accounting.random_runs import LOCATIONS, listed, random_step, with_few_data
from tests.stream_app.engine_support import (
    NAMES,
    TickingClock,
    lines_of,
    messages_of_a_day,
    people_of,
    population,
)
from tests.stream_app.engine_support import settings as settings_of

LIMIT = RiskBudget(0.3, risk=0.6)


@st.composite
def personas(draw: st.DrawFn) -> Population:
    """Few kinds, each listed once or several times, all with a weight; chains drawn from few data too."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds = deciding.people(rng, 3, LOCATIONS, own_starts=0.3)
    draws = draw(st.sampled_from([1, 1, 3]))
    kinds = kinds if draws == 1 else with_few_data(kinds, 8.0, draws)
    which = draw(st.lists(st.integers(0, 2), min_size=1, max_size=6))
    weights = draw(
        st.lists(st.sampled_from([0.2, 1.0, 2.0, 3.4, 7.0]), min_size=len(which), max_size=len(which))
    )
    some = kinds.subset(which).renamed([f"persona {k}" for k in range(len(which))])
    return replace(some, weights=np.array(weights))


def joined_in_halves(some: Population, chosen: HorizonSettings) -> ContinuousAccountant:
    half = len(some) // 2
    parts = [np.arange(half), np.arange(half, len(some))]
    first, second = (ContinuousAccountant(some.subset(part), chosen) for part in parts if part.size)
    return first.with_people(second)


@pytest.mark.slow
@given(personas(), st.sampled_from([None, 0]), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_accounts_of_equal_personas_are_those_of_people_one_by_one(
    some: Population, operations: int | None, seed: int
) -> None:
    """Summaries, figures, worst moments and what-if; together, apart, joined, parted and restored."""
    everybody, each = listed(some), some.stands_for
    assert each is not None
    chosen = HorizonSettings(3, 1, sharpen_above=0.0, operations=operations)
    one, all_of = ContinuousAccountant(some, chosen), ContinuousAccountant(everybody, chosen)
    others = [ContinuousAccountant(some, chosen, apart=True), one.of_people(np.arange(len(some))[::-1])]
    if len(some) > 1:
        others.append(joined_in_halves(some, chosen))
    assert len(one.population) <= len(some)
    assert {one.everybody, *(other.everybody for other in others)} == {len(everybody)}
    rng, sensors = np.random.default_rng(seed), [Sensor(f"s{k}", (k,)) for k in range(LOCATIONS)]
    for step in range(5):
        candidates = [
            StepSchedule(step, tuple(SensorRelease(sensor, how) for sensor in sensors))
            for how in (Suppressed(), Gaussian(1.0), Raw())
        ]
        asked = [WhatIf(account, LIMIT).next_step(AnnouncedStep(sensors)) for account in (one, all_of)]
        over = [question.count_over(candidates) for question in asked]
        assert (over[0].people, list(over[0].over)) == (over[1].people, list(over[1].over))
        released = random_step(rng, step, LOCATIONS)
        for account in (one, all_of, *others):
            account.apply(released)
        expected = all_of.summary()
        for account in (one, *others):
            assert replace(account.summary(), chains=None) == replace(expected, chains=None)
        for figure in (ContinuousAccountant.risk, ContinuousAccountant.baseline, ContinuousAccountant.added):
            np.testing.assert_array_equal(np.repeat(figure(one), each), figure(all_of))
        np.testing.assert_array_equal(np.repeat(one.worst().highest_risk, each), all_of.worst().highest_risk)
        assert one.median_guess() == all_of.median_guess()
        standing = Standing.of(one, one.people)
        assert standing.people == len(everybody)
        assert standing.count(standing.risk >= 0.5) == int((all_of.risk() >= 0.5).sum())
    again = ContinuousAccountant(some, chosen)
    again.restore(one.snapshot())
    assert again.summary() == one.summary()
    view = PeopleView([people_of(one)])
    assert (view.people, view.others) == (len(everybody), len(everybody) - 1)
    step = StepSchedule(0, (SensorRelease(sensors[0], Raw()),))
    bits = PeopleView([people_of(all_of)]).sensor_information_bits(step)
    assert view.sensor_information_bits(step) == pytest.approx(bits)


@given(personas(), st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_people_behind_equal_personas_are_attacked_alike(some: Population, draws: int) -> None:
    """Each share's part says of how many people it is, and nobody is drawn whom it does not hold."""
    one = ContinuousAccountant(some, HorizonSettings(3, 1))
    parts = drawn_parts(one.people_shares, draws, one.holders.stands_for)
    assert sum(part.people for part in parts) == some.everybody
    assert all(part.person.max(initial=0) < len(some) for part in parts)


@given(personas())
@settings(max_examples=10, deadline=None)
def test_equal_personas_are_a_crowd_of_the_people_behind_them(some: Population) -> None:
    """Listed apart or together they hide as many, but for the odd one's coin; each part of one counts."""
    plain = replace(some, drawn=None)
    informed = ContinuousAccountant(plain, HorizonSettings(3, 1), apart=True)
    account = CrowdAccount(informed, weights=plain.weights)
    step = StepSchedule(0, (SensorRelease(Sensor("s", (0, 1)), Raw()),))
    informed.apply(step)
    (crowd,) = account.apply(step)
    assert account.summary().people == plain.everybody
    assert (account.baseline() <= account.risk()).all()
    assert (account.risk() <= informed.risk()).all()
    assert plain.weights is not None
    assert crowd.units[0] <= 0.25 * plain.weights.sum() * 2**32


def equal_personas() -> tuple[Population, Population]:
    """The small deployment's people, two of them listed twice, and everybody written out."""
    some = population(4).subset([0, 1, 0, 2, 1, 3]).renamed([f"persona {k}" for k in range(6)])
    some = replace(some, weights=np.array([2.0, 3.0, 5.0, 1.0, 3.0, 0.3]), assumed="made up")
    return some, replace(listed(some), assumed="made up")


SCHEDULE = tg.Schedule.of([[0, 1], [], [2], [1, 3], [0]], tg.Gaussian(1.0))


@pytest.mark.parametrize("budget", [False, True])
def test_plans_of_equal_personas_are_those_of_people_one_by_one(budget: bool) -> None:
    some, everybody = equal_personas()
    release = {"mechanism": "budget", "budget": {"share": 0.3, "added": 0.2}} if budget else {}
    given = settings_of(release=release or {"mechanism": "raw"}, attack_draws=0)
    one, all_of = (plan_schedule(given, SCHEDULE, each) for each in (some, everybody))
    assert one.people == all_of.people == len(everybody) == 15
    assert [step.decided.schedule for step in one.steps] == [step.decided.schedule for step in all_of.steps]
    assert [step.risks for step in one.steps] == [step.risks for step in all_of.steps]
    assert one.personas is not None
    last = all_of.steps[-1].risks
    assert dict(one.personas.shares) == {
        level: reached / 15 for level, reached in last.at_risk.items() if level in one.personas.shares
    }
    steps = [step.decided.schedule for step in one.steps]
    varied = [
        answers([Alternative.given(each, each.people, given)], steps, given, 0)[0]
        for each in (some, everybody)
    ]
    assert varied[0].mean_ceiling == pytest.approx(varied[1].mean_ceiling, abs=1e-12)
    assert (varied[0].people, varied[0].highest_ceiling) == (varied[1].people, varied[1].highest_ceiling)


def test_runs_of_equal_personas_write_what_people_one_by_one_would(tmp_path) -> None:
    """Every step's summary; and the same again after a restart from the log."""
    found, messages = [], messages_of_a_day(8, 3)
    for name, each in zip(("one", "all"), equal_personas(), strict=True):
        for part in (5, 8):
            run(
                settings_of(attack_draws=0),
                RunOptions(tmp_path / name),
                each,
                clock=TickingClock(),
                chunks=[lines_of([message for message in messages if message.step < part])],
            )
        lines = map(json.loads, (tmp_path / name / "risks.jsonl").read_text().splitlines())
        summaries = [line for line in lines if "at_risk" in line]
        found.append([{**each, "worst": None} for each in summaries])  # by name, and names differ
    assert [line["people"] for line in found[0]] == [15] * 8
    assert found[0] == found[1]


@pytest.mark.slow
def test_checks_and_audits_of_equal_personas_say_how_many_people_they_are(tmp_path) -> None:
    """A check counts people, also those who never leave; audits are each persona's, and no crowd."""
    some, everybody = equal_personas()
    tg.save_priors(some, tmp_path / "personas.json")
    found = check_files(priors=tmp_path / "personas.json")
    assert any("6 personas that stand for 15 people" in each.sentence for each in found)
    assert not [each for each in found if each.level == "problem"]
    audits, one_by_one = (tg.certify(each, SCHEDULE, 1) for each in (some, everybody))
    certified = [audits[person].certified for person in some.people]
    expected = [one_by_one[person].certified for person in everybody.people]
    assert np.repeat(certified, some.stands_for).tolist() == expected
    among = tg.certify(some, SCHEDULE, 1, adversary=tg.CrowdAdversary(least=0.8))
    assert all(among[person].certified <= audits[person].certified for person in some.people)
    assert among.condition is not None
    assert "if the 14 others" in among.condition
    assert "of each at least 80 % of the people that it stands for" in among.condition
    still = tg.Prior.from_dense("still", np.eye(4)[[0] * 4])
    stay = Population.pack([still, tg.Prior.from_dense("still too", np.eye(4)[[0] * 4])], NAMES)
    tg.save_priors(replace(stay, weights=np.array([4.0, 5.0])), tmp_path / "still.json")
    said = [each.sentence for each in check_files(priors=tmp_path / "still.json")]
    assert any(sentence.startswith("9 people are at one place") for sentence in said)


def test_people_shares_of_another_number_of_people_are_refused() -> None:
    some, _ = equal_personas()
    with pytest.raises(SettingsError, match="shares must have one value for each of 6 people"):
        ContinuousAccountant(some, HorizonSettings(3, 1, operations=9), shares=PeopleShares.single(4))
    shares, each = PeopleShares.single(6), np.array([2, 3])
    with pytest.raises(SettingsError, match="stands_for must have one value for each of 6 people"):
        Holders.of(AccountPositions(np.array([0, 1, 0, 2, 1, 3])), shares, each)
