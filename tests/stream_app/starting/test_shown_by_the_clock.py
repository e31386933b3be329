"""What is shown or averaged by the slot of a day follows the clock on the wall over its changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from json import dumps
from pathlib import Path

import numpy as np
import pytest

from accounting.exposure.crowd import CrowdAdversary
from accounting.settings import HorizonSettings
from models.calendar import DAY, Calendar, slots_by_the_clock
from models.mechanisms import Gaussian
from models.priors import MovementPrior, Population
from models.releases import Schedule
from stream_app.analysis import what_if
from stream_app.analysis.accuracy import sigmas_by_hour
from stream_app.analysis.crowd import plan_in_crowd
from stream_app.exceptions import InputError
from stream_app.setup.settings import Settings
from stream_app.starting.aggregates.make_personas import mean_counts
from stream_app.starting.counts.count_table import CountTable
from tests.stream_app.command_line import Tallyguard

EVENING = datetime(2026, 3, 28, 17, tzinfo=UTC)  # 18:00 in Vienna; two o'clock of the 29th is skipped
VIENNA = Settings(timezone="Europe/Vienna", origin=EVENING, first_slot=18)


def counts_at_eight(first: datetime, days: int, step_seconds: int = 3600) -> CountTable:
    """A hundred people in each step that begins at eight o'clock in Vienna, and nobody else."""
    steps = days * DAY // step_seconds
    clock = CountTable(("mill",), np.zeros((steps, 1), dtype=np.int64), first, step_seconds, "Europe/Vienna")
    hours = clock.calendar(24).slots(24, clock.calendar(24).hours(np.arange(steps)))
    return replace(clock, table=np.where(hours == 8, 100, 0)[:, None])


@pytest.mark.parametrize(
    "first", [datetime(2026, 3, 1, 23, tzinfo=UTC), datetime(2026, 10, 1, 22, tzinfo=UTC)]
)
def test_means_of_counts_stay_at_their_hour_over_a_change_of_clocks(first: datetime) -> None:
    """Eight weeks over it; half of the people were at seven, or nine, where slots only counted on."""
    found = mean_counts(counts_at_eight(first, 56), ["mill"], 24)
    assert dict(zip(found.slot, found.people, strict=True)) == {
        slot: 100.0 if slot == 8 else 0.0 for slot in range(24)
    }


def test_means_of_a_week_are_of_each_weekday_and_holidays_are_sundays() -> None:
    """Nobody on Sundays and on a holiday: without its date the holiday's nobody is a Thursday's."""
    table = counts_at_eight(datetime(2026, 4, 26, 22, tzinfo=UTC), 28)  # from Monday, 27 April on
    day = np.arange(28 * 24) // 24
    holiday = date(2026, 5, 14)
    is_free = (day % 7 == 6) | (day == (holiday - date(2026, 4, 27)).days)
    table = replace(table, table=np.where(is_free[:, None], 0, table.table))
    eight = 8 + 24 * np.arange(7)
    for holidays, thursday in ((), 75.0), ([holiday], 100.0):
        found = mean_counts(table, ["mill"], 7 * 24, holidays)
        assert found.slot.tolist() == list(range(7 * 24))
        assert found.people[eight].tolist() == [100.0, 100.0, 100.0, thursday, 100.0, 100.0, 0.0]
        assert found.people.sum() == 500.0 + thursday


@pytest.mark.parametrize("hours", [12, 48])
def test_means_of_longer_steps_are_no_means_of_hours(hours: int) -> None:
    with pytest.raises(InputError, match="counts must come at the interval of the personas' slots"):
        mean_counts(counts_at_eight(EVENING, 4, hours * 3600), ["mill"], 24)


def test_noise_by_hour_is_shown_at_the_hour_of_the_clock() -> None:
    """The step in which the clock shows three is no step of two o'clock."""
    schedule = Schedule.of([[0]] * 12, Gaussian(1.0))
    steps = [replace(each, releases=each.releases if each.step < 8 else ()) for each in schedule.steps]
    (by_hour,) = sigmas_by_hour(replace(schedule, steps=tuple(steps)), VIENNA, 18).values()
    assert list(by_hour) == [18, 19, 20, 21, 22, 23, 0, 1]
    (by_hour,) = sigmas_by_hour(schedule, VIENNA, 18).values()
    assert list(by_hour)[8:] == [3, 4, 5, 6]


def test_what_a_crowd_hides_is_shown_at_the_hour_of_the_clock() -> None:
    moves = np.full((24, 2, 2), 0.5)
    people = Population.pack([MovementPrior.from_dense(f"p{k}", moves) for k in range(20)])
    horizon = replace(VIENNA.horizon_settings(18), horizon=2, mistakes=0, sharpen=False)
    schedule = Schedule.raw([[0]] * 12)
    found = plan_in_crowd(people, schedule.steps, horizon, CrowdAdversary(), lambda: None)
    assert [each.slot for each in found.hidden] == [18, 19, 20, 21, 22, 23, 0, 1, 3, 4, 5, 6]
    without = HorizonSettings(2, 0, first_slot=18, sharpen=False)
    found = plan_in_crowd(people, schedule.steps, without, CrowdAdversary(), lambda: None)
    assert [each.slot for each in found.hidden] == [*range(18, 24), *range(6)]


def test_slots_that_count_on_know_any_cycle_and_any_first_step() -> None:
    """A cycle of a week is not cut to a day; a log that begins later has the same slots as the whole one."""
    calendar = Calendar("Europe/Vienna", int(EVENING.timestamp()), 3600, 5 * 24 + 18)
    assert slots_by_the_clock(138, 8, calendar) == (147, (145, 148))
    assert slots_by_the_clock(138 + 7, 1, calendar) == slots_by_the_clock(138, 8, calendar)
    assert calendar.slots(168, calendar.hours(8)) == 147


def test_a_rule_of_a_what_if_decides_in_the_hours_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last day of a log from before a change of clocks, decided anew: each step in the slot it was in."""
    people = Population.pack([MovementPrior.from_dense(f"p{k}", np.full((24, 2, 2), 0.5)) for k in range(4)])
    settings = VIENNA.model_copy(update={"horizon": 2, "mistakes": 0, "sharpen": False})
    log = Schedule.raw([[0]] * 60).steps
    asked = what_if.WhatIf(settings, people, log)
    decided: list[Settings] = []
    plan_schedule = what_if.plan_schedule

    def noted(own: Settings, schedule: Schedule, population: Population) -> object:
        assert schedule.first_slot == own.first_slot
        decided.append(own)
        return plan_schedule(own, schedule, population)

    monkeypatch.setattr(what_if, "plan_schedule", noted)
    asked.answer({"noise": what_if.DECIDED, "added": "0.9", "refined": "1"})
    (own,), first = decided, asked.steps[0].step
    assert first == 60 - 24
    assert own.origin == EVENING + timedelta(hours=first)
    before, after = settings.calendar(18), own.calendar(own.first_slot)
    assert before is not None
    assert after is not None
    steps = np.arange(24)
    np.testing.assert_array_equal(
        after.slots(24, after.hours(steps)), before.slots(24, before.hours(first + steps))
    )


def test_hindsight_in_a_crowd_follows_the_clock(tmp_path: Path, tallyguard: Tallyguard) -> None:
    """What is guessed without releases is the same against both adversaries, in the night of a change."""
    random = np.random.default_rng(2)
    people = [
        {"person": f"p{k}", "transitions": random.dirichlet([0.4, 0.4], (24, 2)).tolist(), "initial": None}
        for k in range(12)
    ]
    (tmp_path / "crowd.json").write_text(dumps({"people": people}))
    steps = [{"sensors": [0] if step % 2 else [], "mechanism": "raw"} for step in range(6)]
    calendar = {"timezone": "Europe/Vienna", "origin": "2026-03-29T00:00:00+01:00", "step_seconds": 3600}
    (tmp_path / "night.json").write_text(dumps({"calendar": calendar, "steps": steps}))
    command = ("audit", tmp_path / "crowd.json", "--schedule", tmp_path / "night.json", "--mistakes", "0")
    command += ("--person", "p7", "--hindsight", "2:4", "--json")
    (plain,) = tallyguard(*command).document
    (crowd,) = tallyguard(*command, "--adversary", "crowd").document
    assert crowd["hindsight"]["baseline"] == plain["hindsight"]["baseline"]
    assert crowd["hindsight"]["now_informed"] == plain["hindsight"]["now"]
