"""``tallyguard report``: one self-contained HTML file from a run or an audit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli.options import JsonOption
from stream_app.cli.output import print_json, stdout


def report(
    source: Annotated[
        Path,
        typer.Argument(help="Output folder of a run, or the JSON of `audit --json`.", show_default=False),
    ],
    output: Annotated[Path, typer.Option(help="File to write.")] = Path("report.html"),
    most_exposed: Annotated[int, typer.Option(min=0, help="People listed, by pseudonym.")] = 10,
    json: JsonOption = False,
) -> None:
    """Write a report that can be read, printed and filed.

    One HTML file without scripts that loads nothing: the question, the setting, figures, the most exposed
    people by pseudonym, what would lower the risk, the limits of the method, a glossary.

    \b
    Examples:
      tallyguard report out --output report.html
      tallyguard audit priors.json --schedule day.json --mistakes 2 --json > audit.json
      tallyguard report audit.json --output audit.html
    """
    from stream_app.report.write import write_report

    size = write_report(source, output, most_exposed)
    if json:
        print_json({"report": str(output), "bytes": size})
    else:
        stdout().print(f"The report is in {output}.", soft_wrap=True)
