"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accounting.horizon_settings import HORIZON, MISTAKES

PriorsArgument = Annotated[
    Path, typer.Argument(help="Movement priors, .json or .parquet.", show_default=False)
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Settings file (TOML); environment and flags override it.", show_default=False
    ),
]
CovarianceOption = Annotated[
    list[Path] | None,
    typer.Option(
        help="Covariance (.npy) of correlated releases that are named; may be repeated.", show_default=False
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
HorizonOption = Annotated[
    int | None, typer.Option(help="Steps the adversary tries to reconstruct (T).", show_default=str(HORIZON))
]
MistakesOption = Annotated[
    int | None, typer.Option(help="How many of them it may get wrong (s).", show_default=str(MISTAKES))
]


def know_covariances(paths: list[Path] | None) -> None:
    """Make the designs of ``--covariance`` known before a schedule or log names them."""
    if not paths:
        return
    from models.correlated_noise import CorrelatedNoise
    from models.mechanisms.correlated import know_design

    for path in paths:
        know_design(CorrelatedNoise.load(path))
