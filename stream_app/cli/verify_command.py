"""``tallyguard verify`` and ``replay``: whether what was filed is whole, and follows from the log."""

from __future__ import annotations

from collections.abc import Callable, Set
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from models.text import number_of
from stream_app.cli import shared as cli

if TYPE_CHECKING:
    from stream_app.analysis.checked_run import CheckedRun
    from stream_app.setup.run_folder.record import Entry
    from stream_app.steps import Comparison


def verify(
    run: Annotated[
        Path | None, typer.Argument(help="Output folder of a run, or `plans`; none on Kafka.")
    ] = None,
    config: cli.ConfigOption = None,
    head: Annotated[
        str | None,
        typer.Option(help="Digest that a filed report names, or 8 of its digits: must be in the record."),
    ] = None,
    json: cli.JsonOption = False,
) -> None:
    """Check that the record and the logs of a run are whole.

    The record (record.jsonl) says under which rule each step was published, since when, by whom and why, and
    what was changed. It is read without any settings.
    Exit status 0 if nothing is missing and nothing was changed; else 1, with a sentence for each thing that
    is. Anybody who can rewrite the whole folder can rewrite the record as well: keep the digest that is shown
    here, or the report that names it, in another place, and check it with --head. The folder `plans` of a
    deployment has the record of plans that were taken on the page, each held against its settings file.
    Without RUN: the record in the topic `deployment` of a deployment on Kafka, whose logs the workers check
    as they read them.

    \b
    Examples:
      tallyguard verify out
      tallyguard verify out --head 3f9a…
      tallyguard verify plans
      tallyguard verify --config tallyguard.toml
    """
    from stream_app.analysis.checked_run import check_plans, check_run, is_of_plans
    from stream_app.setup.run_folder.description import UNDESCRIBED, changes_in
    from stream_app.setup.run_folder.people_record import change_in_words
    from stream_app.setup.run_folder.record import last_description
    from stream_app.watching.wording import sentence_case

    are_plans = run is not None and is_of_plans(run)
    check = check_plans if are_plans else check_run
    checked, people = _check_deployment(config) if run is None else (check(run), ())
    faults = list(checked.faults)
    if head is not None and not checked.has_been(head):
        faults.append(
            "no entry of the record has the digest that was given (of which 8 digits are needed): it is not "
            "the record that was filed"
        )

    def shown(entry: Entry, more: Set[str] = frozenset()) -> dict[str, object]:
        return entry.model_dump(mode="json", include={"step", "at", "by", "reason", *more})

    changes = list(zip(checked.entries, changes_in(checked.entries), strict=True))
    if json:
        cli.print_json(
            {
                "is_whole": not faults,
                "faults": faults,
                "released": checked.released,
                "accounted": checked.accounted,
                "has_ended": checked.end is not None,
                "priors": list(checked.priors()),
                "head": checked.head,
                "entries": [
                    {**shown(each, {"number", "kind", "version"}), "changes": [c.model_dump() for c in own]}
                    for each, own in changes
                ],
                "people": [{**shown(each), "words": change_in_words(each)} for each in people],
            }
        )
    else:
        said = [(each, [change.words for change in own]) for each, own in changes if each.kind != "ended"]
        for each, words_of in [*said, *((each, [change_in_words(each) or ""]) for each in people)]:
            why = f": {each.reason}" if each.reason else ""
            cli.say(f"{each.kind} from step {each.step:,} on, {each.at}, by {each.by}{why}")
            cli.say(*(f"  {line}" for line in words_of))
        if run is not None and not are_plans:
            cli.say(f"{sentence_case(checked.in_words())}.")
            if checked.entries and last_description(checked.entries) is None:
                cli.say(f"It has no description: {UNDESCRIBED}.")
            cli.say(*(f"{sentence_case(span)}." for span in checked.priors()))
        if not faults:
            cli.say(f"The record is whole; its last entry is {checked.head}.")
        cli.say(*(f"Not whole: {fault}." for fault in faults))
    if faults:
        raise SystemExit(1)


def _check_deployment(config: Path | None) -> tuple[CheckedRun, tuple[Entry, ...]]:
    """The record of a deployment on Kafka, and that of its people."""
    from stream_app.analysis.checked_run import NO_RECORD, CheckedRun
    from stream_app.kafka.deployment.deployment import Deployment
    from stream_app.setup.run_folder.record import RecordDamagedError

    settings = cli.settings_of(config)
    if not settings.kafka.servers:
        raise typer.BadParameter("name the output folder of a run, or settings with kafka.servers")
    try:
        record = Deployment.of(settings).record
        entries, people = record.entries(), record.people()
    except RecordDamagedError as error:
        return CheckedRun((), (f"{error.must}, got {error.got}",), 0, 0), ()
    return CheckedRun(entries, () if entries else (NO_RECORD,), 0, 0), people


def replay(
    run: Annotated[Path | None, typer.Argument(help="Output folder of a run; none on Kafka.")] = None,
    config: cli.ConfigOption = None,
    priors: Annotated[
        Path | None, typer.Option(help="Priors of a run with evidence, whose chains are drawn by ids.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Also write the risks there, .jsonl.")] = None,
    json: cli.JsonOption = False,
) -> None:
    """Compute all risks again from the log and compare.

    Reads decisions and people, and no count, and compares every risk with the one that was written when the
    step was released. Exit status 1 if a single bit differs. Another version of the program may bound some
    risks otherwise, and both hold: that is said. The folder of a run needs no settings, unless its evidence
    lies elsewhere; each step is computed for the people and under the rule that it had. A run with evidence
    needs --priors. Without RUN the people and decisions are those of a deployment on Kafka, and settings say
    where the broker is; there, a person whose prior was replaced since differs before the change.

    \b
    Examples:
      tallyguard replay out
      tallyguard replay out --output risks.jsonl --json
      tallyguard replay --config tallyguard.toml
    """
    from contextlib import nullcontext
    from dataclasses import asdict

    from models.private_files import private_file

    with nullcontext() if output is None else private_file(output) as file:
        result = _replayed(run, config, priors, lambda line: file and file.writelines((line, b"\n")))
    said = [
        f"{number_of(result.steps, 'step')}, {number_of(result.people, 'person')}, "
        f"{number_of(result.compared, 'message')} compared: "
        f"{result.missing:,} missing, {result.different:,} different",
        *result.examples,
    ]
    if result.passed_over:
        said.append(
            f"{number_of(result.passed_over, 'step')} not compared: accounted by a version that kept no "
            "record of what it did so with, or for people who left Kafka before the steps were fetched."
        )
    if result.versions and not result.is_same:
        said.append(f"Some steps were accounted by another version: {', '.join(result.versions)}.")
    cli.tell(json, {**asdict(result), "same": result.is_same}, *said)
    if not result.is_same:
        raise SystemExit(1)


def _replayed(
    run: Path | None, config: Path | None, priors: Path | None, take: Callable[[bytes], object]
) -> Comparison:
    settings = cli.settings_of(config)
    if run is not None:
        from models.prior_files import load_population
        from stream_app.embedded.replay import replay_run

        return replay_run(run, settings, take, None if priors is None else load_population(priors))
    from stream_app.kafka.deployment.deployment import Deployment
    from stream_app.kafka.tools.replay import compare

    return compare(Deployment.recorded(settings), take)
