"""Priors are of steps of a length, in slots at some times: where a deployment's are others, that is said."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from models.prior_files import save_population
from models.priors import MovementPrior, Population
from models.priors.population import FittedWindows
from stream_app.analysis.preflight import check_files
from stream_app.setup.given_priors import clock_warning, other_clock
from stream_app.setup.settings import Settings
from tests.stream_app.command_line import Tallyguard

HOURLY = FittedWindows(3600, "epoch", "most_frequent", "location", "elsewhere", 1_772_000_000)
LATER = replace(HOURLY, origin=1_772_431_200)  # two hours before the deployment
VIENNA = replace(HOURLY, origin=1_699_999_200, timezone="Europe/Vienna")
MONDAY = datetime.fromisoformat("2026-03-02T08:00+00:00")
SUMMER = "step 2,184, 2026-06-01 08:00 UTC, is in slot 9"


def people(fitted: FittedWindows | None, slots: int = 24) -> Population:
    """One person with a daily cycle, or another."""
    matrices = np.full((slots, 2, 2), 0.5)
    return replace(Population.pack([MovementPrior.from_dense("ada", matrices)]), fitted=fitted)


@pytest.mark.parametrize(
    ("fitted", "slots", "settings", "first_slot", "how", "mend"),
    [
        (HOURLY, 24, {}, 8, "", ""),
        (HOURLY, 24, {}, 0, "08:00 UTC, is in slot 0, and in slot 8 of 24", "set first_slot = 8"),
        (HOURLY, 168, {}, 104, "", ""),  # the epoch was a Thursday
        (LATER, 24, {}, 2, "", ""),
        (HOURLY, 1, {}, 5, "", ""),
        (HOURLY, 24, {"timezone": "Europe/Vienna"}, 8, SUMMER, "leave timezone out"),
        (HOURLY, 24, {"timezone": "Africa/Abidjan"}, 8, "", ""),  # whose clock is that of UTC
        (VIENNA, 24, {"timezone": "Europe/Vienna"}, 9, "", ""),
        (VIENNA, 24, {"timezone": "Europe/Berlin"}, 9, "", ""),
        (VIENNA, 168, {"timezone": "Europe/Vienna"}, 9, "", ""),
        (VIENNA, 24, {"timezone": "Europe/Vienna"}, 8, "and in slot 9 of 24", "set first_slot = 9"),
        (VIENNA, 24, {}, 9, f"{SUMMER}, and in slot 10", 'set timezone = "Europe/Vienna"'),
        (HOURLY, 24, {"step_seconds": 900}, 32, "lasts 900 s, .* windows of 3,600 s", "finer --parts 4"),
        (HOURLY, 24, {"step_seconds": 7200}, 4, "lasts 7,200 s", "^fit them with --window-seconds 7200"),
        (None, 24, {"step_seconds": 900}, 0, "", ""),
        (replace(HOURLY, origin=1_772_431_200 + 1800), 24, {}, 1, "begin 1,800 s after", "1,800 s earlier"),
        (replace(HOURLY, origin=1_772_431_200 - 60), 24, {}, 2, "", ""),
        (replace(HOURLY, origin=1_772_431_200 + 1800), 1, {}, 1, "", ""),
        (replace(VIENNA, origin=1_699_999_200 - 900), 24, {"timezone": "Europe/Vienna"}, 9, "900 s", ""),
    ],
)  # fmt: skip
def test_steps_that_the_priors_were_not_fitted_to_are_said(
    fitted: FittedWindows | None,
    slots: int,
    settings: dict[str, object],
    first_slot: int,
    how: str,
    mend: str,
) -> None:
    given = Settings.model_validate({"origin": MONDAY, **settings})
    found = other_clock(people(fitted, slots), given, first_slot)
    assert (found is None) == (not how)
    if found is not None:
        assert re.search(how, found[0]) and re.search(mend, found[1])


def test_settings_that_say_nothing_of_time_are_not_asked() -> None:
    assert other_clock(people(replace(HOURLY, window_seconds=1_728_000)), Settings(), 0) is None
    assert other_clock(people(HOURLY), Settings(step_seconds=3600), 5) is None


def test_check_and_audit_say_it_by_the_first_slot_of_the_schedule(
    tmp_path: Path, tallyguard: Tallyguard
) -> None:
    priors, schedule, config = (tmp_path / name for name in ("priors.json", "schedule.json", "t.toml"))
    save_population(people(HOURLY), priors)
    config.write_text("origin = 2026-03-02T08:00:00Z\n")
    for slot, levels in ((8, []), (7, ["warning"])):
        schedule.write_text(f'{{"first_slot": {slot}, "steps": [{{"sensors": []}}, {{"sensors": []}}]}}')
        found = check_files(config=config, priors=priors, schedule=schedule)
        assert [each.level for each in found if "as the priors were fitted" in each.sentence] == levels
        audited = tallyguard("audit", str(priors), "--schedule", str(schedule), "--config", str(config))
        assert audited.code == 0
        assert ("as the priors were fitted" in audited.err) == bool(levels)
    said = clock_warning(people(HOURLY), Settings(origin=MONDAY), 7)
    assert said is not None
    assert said.endswith("ceilings hold for people who live by these steps; set first_slot = 8")
