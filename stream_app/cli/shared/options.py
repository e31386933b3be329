"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accounting.settings import HORIZON, MISTAKES

if TYPE_CHECKING:
    from models.mechanisms import Designs

PriorsArgument = Annotated[
    Path, typer.Argument(help="Movement priors, .json or .parquet.", show_default=False)
]
PriorsOption = Annotated[
    Path | None,
    typer.Option(
        "--priors",
        help="Movement priors, .json or .parquet; without them nobody's risk is computed.",
        show_default=False,
    ),
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
        metavar="<path>",
        help="Covariance (.npy) of the correlated noise that was used; may be repeated.",
        show_default=False,
    ),
]
ListenOption = Annotated[
    str | None,
    typer.Option(
        help='Address of metrics and page, host:port; "" for none. '
        "127.0.0.1:9464 unless the settings say otherwise.",
        show_default=False,
    ),
]
VaryOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="<name=nats|file>",
        help="Also the answer if habits are otherwise: a radius in nats, or other priors; may be repeated.",
        show_default=False,
    ),
]
ByOption = Annotated[
    str | None,
    typer.Option(
        help="Who decides this, for the record; your account's name if left out.", show_default=False
    ),
]
ReasonOption = Annotated[
    str | None,
    typer.Option(
        help="Why, for the record; needed for a change that may weaken what was promised.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
HorizonOption = Annotated[
    int | None,
    typer.Option(
        help=f"Steps the adversary tries to reconstruct (T); {HORIZON} unless the settings say otherwise.",
        show_default=False,
    ),
]
MistakesOption = Annotated[
    int | None,
    typer.Option(
        help=f"How many of them it may get wrong (s); {MISTAKES} unless the settings say otherwise.",
        show_default=False,
    ),
]


def given_designs(paths: list[Path] | None) -> Designs:
    """The designs of ``--covariance``, which a schedule or log names by number."""
    from models.mechanisms import Designs

    return Designs.load(paths or [])
