"""``tallyguard report``: one self-contained HTML file, or a PDF, from a run or an audit."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stream_app.cli import shared as cli

if TYPE_CHECKING:
    from accounting.exposure.crowd import CrowdAdversary
    from models.mechanisms import Designs
    from stream_app.analysis.alternatives import VariedRisks
    from stream_app.analysis.crowd import PlannedCrowd
    from stream_app.analysis.report import Priors
    from stream_app.setup.settings import Settings


def report(
    source: Annotated[Path, typer.Argument(help="Output folder of a run, or the JSON of `audit --json`.")],
    output: Annotated[Path, typer.Option(help="File to write: HTML, or a PDF where it ends in .pdf.")] = Path(
        "report.html"
    ),
    pdf: Annotated[Path | None, typer.Option(help="Write the same as a PDF, too.")] = None,
    priors: Annotated[
        Path | None, typer.Option(help="The run's priors, where its folder has no copy that will do.")
    ] = None,
    config: cli.ConfigOption = None,
    covariance: cli.CovarianceOption = None,
    vary: cli.VaryOption = None,
    adversary: cli.AdversaryOption = None,
    known: cli.KnownOption = None,
    companions: cli.CompanionsOption = None,
    alone: cli.AloneOption = None,
    least: cli.LeastOption = None,
    counted_once: cli.CountedOnceOption = None,
    most_exposed: Annotated[int, typer.Option(min=0, help="People listed, by pseudonym.")] = 10,
    kind: Annotated[
        Literal["decision", "dpia"],
        typer.Option(
            "--for", help="dpia: the annex of a data protection impact assessment.", show_default=False
        ),
    ] = "decision",
    public: Annotated[
        bool, typer.Option("--public", help="Of a run: without persons, names, reasons and errors of counts.")
    ] = False,
    purpose: Annotated[str | None, typer.Option(help="With --for dpia: what the counts are for.")] = None,
    decides: Annotated[str | None, typer.Option(help="With --for dpia: who decides, by office.")] = None,
    review: Annotated[str | None, typer.Option(help="With --for dpia: when it is looked at again.")] = None,
    json: cli.JsonOption = False,
) -> None:
    """Write a report that can be read, printed and filed.

    One HTML file without scripts that loads nothing. First: may this be published, by the rule in
    [release.budget] (a limit on risk or added risk, a share of people)? Then the question, the setting,
    figures, the most exposed people by pseudonym, what would lower the risk, the limits of the method, a
    glossary. By the run's own copy of its priors it also names the sensors that revealed most about the most
    exposed people, and what noise or silence there would do. A PDF needs WeasyPrint
    (pip install 'tallyguard[pdf]') and Pango.

    With --for dpia it is the annex of a data protection impact assessment: purpose and data flow, whether a
    person can be singled out, linked or inferred about, what risk remains, who decides, and the review date.

    With --public either has the same figures and nobody in it: no persons, who changed what and why, how far
    counts are off, no folder. What would lower the risk is about single people, and left out.

    \b
    Examples:
      tallyguard report out --output report.html
      tallyguard report out --pdf report.pdf
      tallyguard report out --public --pdf public.pdf
      tallyguard report out --for dpia --purpose "opening hours" --decides "Mobility" --review 2027-03-01
      tallyguard report out --vary radius=0.1
      tallyguard report out --priors priors.parquet --vary radius=0.1 --vary "2019=priors-2019.json"
      tallyguard report out --adversary crowd --known 10
      tallyguard audit priors.json --schedule day.json --mistakes 2 --json > audit.json
      tallyguard report audit.json --output audit.html
    """
    from stream_app.analysis.report import (
        Asked,
        is_pdf,
        make_annex,
        make_report,
        save_report,
        weasyprint,
    )
    from stream_app.setup.run_folder.run_settings import settings_of_run

    if (kind == "dpia" or public) and not source.is_dir():
        raise typer.BadParameter(f"{'--public' if public else '--for dpia'} needs the output folder of a run")
    if kind == "decision" and (purpose or decides or review):
        raise typer.BadParameter("--purpose, --decides and --review belong to --for dpia")
    settings = cli.settings_of(config)
    in_crowd = cli.CrowdOptions(adversary, known, companions, alone, least, counted_once)
    outputs = [output] if pdf is None or pdf == output else [output, pdf]
    if pdf is not None and not is_pdf(pdf):
        raise typer.BadParameter("--pdf names a file that ends in .pdf")
    if any(map(is_pdf, outputs)):
        weasyprint()
    designs = cli.given_designs(covariance)
    if source.is_dir():
        settings = settings_of_run(source, settings)
    crowd = in_crowd.of(settings)
    if priors is not None and not source.is_dir():
        raise typer.BadParameter("--priors belongs to the output folder of a run")
    run_priors, missing, is_beside = None, None, bool(vary) or crowd is not None
    if priors is not None or (source.is_dir() and (is_beside or not (kind == "dpia" or public))):
        run_priors, missing = _priors_of(source, settings, priors, designs)
    if is_beside and run_priors is None:
        why = f": {missing}" if missing else ""
        raise typer.BadParameter(f"--vary and --adversary crowd need the run's --priors{why}")
    varied, beside = (
        ((), None) if run_priors is None else _beside(source, run_priors, settings, vary or [], crowd)
    )
    if kind == "dpia":
        made = make_annex(source, Asked(purpose, decides, review), is_public=public, designs=designs)
    else:
        made = make_report(
            source,
            most_exposed,
            priors=run_priors,
            designs=designs,
            varied=varied,
            crowd=beside,
            missing=missing,
            is_public=public,
        )
    sizes = [save_report(made, path) for path in outputs]
    written = dict(zip(map(str, outputs), sizes, strict=True))
    document = {"report": str(output), "bytes": sizes[0], "files": written}
    cli.tell(json, document, f"The report is in {' and '.join(written)}.")


def _priors_of(
    folder: Path, settings: Settings, priors: Path | None, designs: Designs
) -> tuple[Priors | None, str | None]:
    """The run's priors, of a file or of its own copy, or why that copy will not do."""
    from models.exceptions import TallyguardError
    from stream_app.analysis.report import load_priors
    from stream_app.setup.run_folder.run_settings import load_run, people_of_run

    if priors is not None:
        return load_priors(folder, settings, people_of_run(folder, settings, priors), designs), None
    if not load_run(folder).get("people"):
        return None, None
    try:
        return load_priors(folder, settings, designs=designs), None
    except TallyguardError as error:
        return None, str(error)


def _beside(
    folder: Path, known: Priors, settings: Settings, specs: list[str], adversary: CrowdAdversary | None
) -> tuple[tuple[VariedRisks, ...], PlannedCrowd | None]:
    """The run's steps accounted again, as far as was asked: under other habits, and in the crowd."""
    from stream_app.analysis.accounted_again import read_accounted
    from stream_app.analysis.alternatives import Alternative, answers, vary
    from stream_app.analysis.crowd import plan_in_crowd

    chosen = vary(Alternative.given(known.population, known.pseudonyms, settings), specs)
    if not chosen and adversary is None:
        return (), None
    steps = read_accounted(folder / "decisions.jsonl", known.registry)
    first = settings.first_slot
    with cli.progress() as bar:
        task = bar.add_task("accounting", total=(len(chosen) + (adversary is not None)) * len(steps))
        done = partial(bar.advance, task)
        varied = answers(chosen, steps, settings, first, done)
        if adversary is None:
            return varied, None
        horizon = settings.horizon_settings(first)
        return varied, plan_in_crowd(known.population, steps, horizon, adversary, done)
