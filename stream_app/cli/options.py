"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PriorsArgument = Annotated[
    Path, typer.Argument(help="Movement priors, .json or .parquet.", show_default=False)
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Settings file (TOML); environment and flags override it.", show_default=False
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
HorizonOption = Annotated[
    int | None, typer.Option(help="Steps the adversary tries to reconstruct (T).", show_default="10")
]
MistakesOption = Annotated[
    int | None, typer.Option(help="How many of them it may get wrong (s).", show_default="5")
]
