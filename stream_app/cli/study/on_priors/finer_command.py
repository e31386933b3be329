"""``tallyguard priors finer``: priors for counts over shorter steps than theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli.shared.options import PriorsArgument
from stream_app.cli.shared.output import stderr


def finer(
    priors: PriorsArgument,
    parts: Annotated[
        int,
        typer.Option(help="Steps that one step of the priors becomes, e.g. 4 quarters.", show_default=False),
    ],
    output: Annotated[Path, typer.Option(help="Priors to write, .json or .parquet.", show_default=False)],
) -> None:
    """Cut the steps of priors for counts that come more often.

    People stay where they are within a step of the priors and move at its end, as the priors say. Divide
    step_seconds by the same number, and multiply horizon, mistakes and first_slot by it: they count steps.

    \b
    Examples:
      tallyguard priors finer by-hour.json --parts 4 --output by-quarter.json
    """
    from models.prior_files import load_population, save_population
    from models.priors import in_finer_steps

    population = in_finer_steps(load_population(priors), parts)
    save_population(population, output)
    stderr().print(f"{len(population):,} priors in steps {parts} times as short: {output}", highlight=False)
