"""Compiles the kernels a run needs, once a machine; installing does it.

``python -m stream_app.starting.warm_up [PART ...]`` compiles everything, or some parts. Some processes share
the work: what one has compiled the others load, and while two wait for what a third compiles others go on.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from accounting.audit import audit_exposure
from accounting.bounds import Effort, Question
from accounting.bounds.noised import SANDWICH
from accounting.continuous import ContinuousAccountant
from accounting.decisions.what_if import AnnouncedStep, WhatIf
from accounting.exposure import Exposure
from accounting.exposure.step_information import observe
from accounting.settings import HorizonSettings, RiskBudget
from models.priors import ChainView, Population
from models.releases import Schedule
from stream_app.analysis.planning import plan_releases
from stream_app.city import CityOptions, build_city
from stream_app.setup.release_settings import BUDGET, BudgetSettings, ReleaseSettings
from stream_app.setup.settings import Settings
from stream_app.starting.connect import MESSAGES, write_counts
from stream_app.starting.connect.guess import read_counts
from stream_app.starting.demo import prepare, run_demo, write_audit_schedule

_TIGHT = BudgetSettings(added=0.01, habits="apart")


def main() -> None:
    """Run the smallest demo, and throw the results away."""
    with ExitStack() as until_done:
        for part in PARTS:
            other = [sys.executable, "-m", "stream_app.starting.warm_up", part]
            until_done.enter_context(subprocess.Popen(other))
        output = Path(until_done.enter_context(tempfile.TemporaryDirectory())) / "demo"
        run_demo(
            output=output, steps=12, people=30, seconds_per_step=0.0, listen="", announce=lambda text: None
        )


def compile_raw_audit() -> None:
    """One person's bounds where counts are published as they are."""
    audit_exposure(_exposure(Schedule.raw([[1]] * 3)), 1)


def compile_noised_audit() -> None:
    """One person's bounds through noise; first one that takes long and waits for nothing of the others."""
    exposure = _exposure(Schedule.gaussian([[1]] * 3, 2.0))
    SANDWICH.compute(Question(exposure, 1, Effort()))
    audit_exposure(exposure, 1)


def _exposure(schedule: Schedule) -> Exposure:
    places = np.arange(2, dtype=np.int32)
    columns = np.array([[0, 2, 4]], dtype=np.int32)
    chain = ChainView(
        places,
        np.full((1, 2), 0.5),
        columns,
        np.array([0, 1, 0, 1], dtype=np.int32),
        np.full(4, 0.5),
        np.empty((0, 3), dtype=np.int32),
    )
    return Exposure(chain, chain.start[0], 0, tuple(observe(step, 2) for step in schedule.steps))


def compile_decisions() -> None:
    """Accounts of nobody, and decisions under a risk budget."""
    accountant = ContinuousAccountant(Population.pack([], ["here", "there"]), HorizonSettings(4, 1))
    what_if = WhatIf(accountant, RiskBudget(risk=0.5))
    schedule = Schedule.raw([[1], [0]])
    for step in schedule.steps:
        what_if.next_step(AnnouncedStep([step.releases[0].sensor])).count_over([step])
        what_if.note(step)
        accountant.apply(step)


def compile_plan() -> None:
    """A plan of a demo's day under a risk budget."""
    with tempfile.TemporaryDirectory() as folder:
        city = build_city(CityOptions(people=30))
        scenario = prepare(Path(folder) / "demo", city)
        write_audit_schedule(scenario, city, 12)
        release = ReleaseSettings(mechanism=BUDGET, budget=_TIGHT)
        settings = Settings(release=release, sensors=scenario.sensors)
        plan_releases(settings, scenario.schedule, city.population)


def compile_archives() -> None:
    """An archive of two hours, as messages."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts.csv"
        path.write_text("time,bridge\n2026-01-01 00:00,1\n2026-01-01 01:00,2\n")
        write_counts(path.with_suffix(MESSAGES), read_counts(path, timezone="UTC"))


PARTS: Mapping[str, Callable[[], None]] = {
    "raw_audit": compile_raw_audit,
    "noised_audit": compile_noised_audit,
    "plan": compile_plan,
    "decisions": compile_decisions,
    "archives": compile_archives,
}
"""What the first process comes to late; others begin with it."""


if __name__ == "__main__":
    for part in sys.argv[1:]:
        if part not in PARTS:
            sys.exit(f"a part must be one of {', '.join(PARTS)}, got {part!r}; leave it out for all")
        PARTS[part]()
    if not sys.argv[1:]:
        main()
