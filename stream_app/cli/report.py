"""``tallyguard report``: one self-contained HTML file from a run or an audit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.options import ConfigOption, CovarianceOption, JsonOption, know_covariances
from stream_app.cli.output import print_json, stdout

if TYPE_CHECKING:
    from stream_app.report.lowering import Priors
    from stream_app.settings import Settings


def report(
    source: Annotated[
        Path,
        typer.Argument(help="Output folder of a run, or the JSON of `audit --json`.", show_default=False),
    ],
    output: Annotated[Path, typer.Option(help="File to write.")] = Path("report.html"),
    priors: Annotated[
        Path | None,
        typer.Option(help="The run's priors, to say what would lower the risk.", show_default=False),
    ] = None,
    config: ConfigOption = None,
    covariance: CovarianceOption = None,
    most_exposed: Annotated[int, typer.Option(min=0, help="People listed, by pseudonym.")] = 10,
    json: JsonOption = False,
) -> None:
    """Write a report that can be read, printed and filed.

    One HTML file without scripts that loads nothing: the question, the setting, figures, the most exposed
    people by pseudonym, what would lower the risk, the limits of the method, a glossary. With the run's
    priors and configuration it also names the sensors that told most about the most exposed people, and what
    noise or silence there would do.

    \b
    Examples:
      tallyguard report out --output report.html
      tallyguard report out --priors priors.parquet --config tallyguard.toml
      tallyguard audit priors.json --schedule day.json --mistakes 2 --json > audit.json
      tallyguard report audit.json --output audit.html
    """
    from stream_app.cli.settings import settings_of
    from stream_app.report.write import write_report
    from stream_app.run_settings import settings_of_run

    know_covariances(covariance)
    settings = settings_of(config)
    if source.is_dir():
        settings = settings_of_run(source, settings)
    if priors is not None and not source.is_dir():
        raise typer.BadParameter("--priors belongs to the output folder of a run")
    known = None if priors is None else _priors(source, priors, settings)
    size = write_report(source, output, most_exposed, priors=known)
    if json:
        print_json({"report": str(output), "bytes": size})
    else:
        stdout().print(f"The report is in {output}.", soft_wrap=True)


def _priors(folder: Path, priors: Path, settings: Settings) -> Priors:
    from models.prior_files import load_population
    from stream_app.report.lowering import load_priors

    return load_priors(folder, settings, load_population(priors))
