"""Compiles the kernels a run needs, once a machine; installing does it.

``python -m stream_app.starting.warm_up [PART ...]`` compiles everything, or some parts. Two processes share
the work: what one has compiled the other loads.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from accounting.audit import audit_exposure
from accounting.continuous import ContinuousAccountant
from accounting.decisions.what_if import AnnouncedStep, WhatIf
from accounting.exposure import Exposure
from accounting.exposure.step_information import observe
from accounting.settings import HorizonSettings, RiskBudget
from models.prior_files import load_population
from models.priors import ChainView, Population
from models.releases import Schedule
from stream_app.analysis.planning import plan_releases
from stream_app.setup.release_settings import BUDGET, BudgetSettings, ReleaseSettings
from stream_app.setup.settings import Settings
from stream_app.starting.connect import MESSAGES, write_counts
from stream_app.starting.connect.guess import read_counts
from stream_app.starting.demo import Scenario, run_demo

_TIGHT = BudgetSettings(added=0.01, habits="apart")


def main() -> None:
    """Run the smallest demo, plan its day under a risk budget, and throw the results away."""
    other = subprocess.Popen([sys.executable, "-m", "stream_app.starting.warm_up", *PARTS])
    with other, tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "demo"
        run_demo(
            output=output, steps=12, people=30, seconds_per_step=0.0, listen="", announce=lambda text: None
        )
        scenario = Scenario(output)
        release = ReleaseSettings(mechanism=BUDGET, budget=_TIGHT)
        settings = Settings(release=release, sensors=scenario.sensors)
        plan_releases(settings, scenario.schedule, load_population(scenario.priors))


def compile_audit() -> None:
    """One person's bounds: what a report explains its most exposed people with."""
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
    for schedule in (Schedule.raw([[1]] * 3), Schedule.gaussian([[1]] * 3, 2.0)):
        observations = tuple(observe(step, 2) for step in schedule.steps)
        audit_exposure(Exposure(chain, chain.start[0], 0, observations), 1)


def compile_decisions() -> None:
    """Accounts of nobody, and decisions under a risk budget."""
    accountant = ContinuousAccountant(Population.pack([], ["here", "there"]), HorizonSettings(4, 1))
    what_if = WhatIf(accountant, RiskBudget(risk=0.5))
    schedule = Schedule.raw([[1], [0]])
    for step in schedule.steps:
        what_if.next_step(AnnouncedStep([step.releases[0].sensor])).count_over([step])
        what_if.note(step)
        accountant.apply(step)


def compile_archives() -> None:
    """An archive of two hours, as messages."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts.csv"
        path.write_text("time,bridge\n2026-01-01 00:00,1\n2026-01-01 01:00,2\n")
        write_counts(path.with_suffix(MESSAGES), read_counts(path, timezone="UTC"))


PARTS: Mapping[str, Callable[[], None]] = {
    "audit": compile_audit,
    "decisions": compile_decisions,
    "archives": compile_archives,
}
"""What the one process comes to late; the other begins with it."""


if __name__ == "__main__":
    for part in sys.argv[1:]:
        PARTS[part]()
    if not sys.argv[1:]:
        main()
