"""Compiles the kernels a run needs, once a machine: ``python -m stream_app.warm_up``; installing does it.

The compiled kernels are kept beside the code, so that the first real run starts at once.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from models.prior_files import load_population
from stream_app.demo import DemoOptions, run_demo
from stream_app.demo.scenario import Scenario
from stream_app.planning import plan_releases
from stream_app.settings import BUDGET, BudgetSettings, ReleaseSettings, Settings

_TIGHT = BudgetSettings(added=0.01, habits="apart")


def main() -> None:
    """Run the smallest demo, plan its day under a risk budget, and throw the results away."""
    with tempfile.TemporaryDirectory() as folder:
        options = DemoOptions(
            steps=12, people=30, seconds_per_step=0.0, output=Path(folder) / "demo", listen=""
        )
        run_demo(options, announce=lambda text: None)
        scenario = Scenario(options.output)
        release = ReleaseSettings(mechanism=BUDGET, budget=_TIGHT)
        settings = Settings(release=release, sensors=scenario.sensors)
        plan_releases(settings, scenario.schedule, load_population(scenario.priors))


if __name__ == "__main__":
    main()
