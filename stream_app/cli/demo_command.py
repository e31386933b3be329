"""``tallyguard demo``: a simulated city end to end, and a summary that needs no manual."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from models.text import number_of
from stream_app.cli import shared as cli

if TYPE_CHECKING:
    from rich.console import Console

    from stream_app.starting.demo import DemoReport, ExposedPerson, WayOfLife


def demo(
    steps: Annotated[
        int | None, typer.Option(help="Hours to simulate: 48, of a building a week (168).")
    ] = None,
    people: Annotated[int, typer.Option(help="People in the city.")] = 2000,
    seed: Annotated[int, typer.Option(help="Seed of the city; the same seed gives the same demo.")] = 20260,
    seconds_per_step: Annotated[
        float, typer.Option(help="Least time a simulated hour takes, so that one can look at the page.")
    ] = 0.1,
    output: Annotated[Path, typer.Option(help="Folder for everything the demo writes.")] = Path(
        "demo-output"
    ),
    listen: Annotated[
        str, typer.Option(help='Address of page and metrics; port 0 is any, "" none.')
    ] = "127.0.0.1:0",
    building: Annotated[
        bool, typer.Option("--building", help="An office of 120 people and 40 rooms instead of the city.")
    ] = False,
    json: cli.JsonOption = False,
) -> None:
    """Show the whole engine on a simulated city, or an office.

    Needs no data, no broker and no network. Ends by itself, with who is most exposed and what noise would do.

    \b
    Examples:
      tallyguard demo
      tallyguard demo --building
      tallyguard demo --people 20000 --steps 72 --seconds-per-step 0
    """
    from stream_app.starting.demo import run_demo, steps_of
    from stream_app.watching.events import Observer, StepClosed

    with cli.progress() as bar:
        task = bar.add_task("simulated hours", total=steps_of(steps, building=building))

        class Advance(Observer):
            def closed(self, event: StepClosed) -> None:
                bar.update(task, completed=event.step + 1)

        report = run_demo(
            output=output,
            steps=steps,
            people=people,
            building=building,
            seed=seed,
            seconds_per_step=seconds_per_step,
            listen=listen,
            announce=bar.console.print,
            observer=Advance(),
        )
    if json:
        cli.print_json(report_json(report))
    else:
        print_report(cli.stdout(), report)


def report_json(report: DemoReport) -> dict[str, Any]:
    """The report as one JSON object; paths as text."""
    from dataclasses import asdict, replace

    document = asdict(replace(report, view=None))  # type: ignore[arg-type]
    document["origin"] = report.origin.isoformat()
    document["view"] = report.view.as_json()
    document["scenario"] = {"folder": str(report.scenario.folder)}
    return document


def print_report(console: Console, report: DemoReport) -> None:
    """The summary for people, in 80 columns."""
    _print_question(console, report)
    if report.warning:
        console.print(f"\nWarning: {report.warning}.", style="bold")
    _print_exposed(console, report)
    _print_alternatives(console, report)
    _print_next(console, report)


def _print_question(console: Console, report: DemoReport) -> None:
    from rich.text import Text

    from stream_app.watching.wording import DISTANCE

    how_many = f"at least {report.horizon_steps - report.mistakes}" if report.mistakes else "each"
    were, hours = "was" if report.releases == 1 else "were", number_of(report.steps, "hour")
    counts = f"{number_of(report.releases, 'count')} of {number_of(report.people, 'person')} {were} published"
    everywhen = "the one hour" if report.steps == 1 else f"all {hours}"
    headline, means = report.view.group("headline"), report.view.group("mean")
    at = headline[0].over
    console.print(
        f"""
[bold]{counts} in {hours}[/], {report.published}. Could somebody who sees every count, knows a
person's habits and where everybody else is, tell where that person was in
{how_many} of the last {report.horizon_steps} hours?
""",
        soft_wrap=True,
        markup=True,
    )
    rows = (
        (
            Text(each.label, "bold"),
            each.shown,
            _HEADLINE_WORDS[each.kind.name].format(condition=each.condition),
        )
        for each in headline
    )
    cli.print_table(rows, ("", "", ""), console=console, show_header=False)
    over_all = ", ".join(f"{each.kind.word} {each.shown}" for each in means)
    console.print(
        f"Means over {number_of(at.people, 'person')} at {report.view.about.times.when(at.last)},\n"
        f"where releases added most. Over {everywhen} the means are:\n{over_all}.\n\n{DISTANCE}"
    )


_HEADLINE_WORDS = {
    "guess": "of the best guess without any count",
    "attack": "of one method that sees the counts, tried",
    "ceiling": "no method does better, {condition}",
    "added": "due to the counts",
}


def _print_exposed(console: Console, report: DemoReport) -> None:
    from datetime import timedelta

    rows = []
    for person in report.exposed:
        begin = report.origin + timedelta(hours=person.step)
        when = f"{begin.day} {begin:%b, %H:%M}"
        rows.append((person.pseudonym[:8], person.way_of_life, when, *_chances(person)))
    title = "Who is most exposed, and when (chances in 100)"
    _print_table(console, title, rows, ("Pseudonym", "Way of life", "Last hour"))
    lives = [(row.name, f"{row.people:,}", *_chances(row)) for row in report.ways_of_life]
    title = "By way of life, each person at the worst moment (chances in 100)"
    _print_table(console, title, lives, ("Way of life", "People"))


def _chances(row: ExposedPerson | WayOfLife) -> tuple[str, str, str]:
    from stream_app.watching.wording import UP

    return _chance(row.baseline), _chance(row.risk, UP), _chance(row.added, UP)


def _chance(mean: float | None, to: str | None = None) -> str:
    """In 100, as the heading says; to the nearest where nothing else is said."""
    from stream_app.watching.wording import NEAREST, in_a_hundred

    return "-" if mean is None else in_a_hundred(mean, to or NEAREST).removesuffix(" in 100")


def _print_alternatives(console: Console, report: DemoReport) -> None:
    from stream_app.watching.wording import UP, significant

    names = ("Guess", "Attack", "Ceiling", "Ceiling 50+", "Added 10+", "Error")
    title = (
        f"What noise would do to {report.compared_people:,} of them (means over all hours, in 100; people\n"
        "in 100 who ever get there; by how many people a count is off on average)"
    )
    rows = []
    for row in report.alternatives:
        error = "-" if row.mean_error is None else significant(row.mean_error, 2)
        at_risk, added = (
            _chance(number / report.compared_people, UP) for number in (row.people_at_risk, row.people_added)
        )
        means = _chance(row.mean_baseline), _chance(row.mean_attack), _chance(row.mean_risk, UP)
        rows.append((row.name, *means, at_risk, added, error))
    _print_table(console, title, rows, ("Published",), names)


def _print_table(
    console: Console,
    title: str,
    rows: Sequence[tuple[str, ...]],
    words: tuple[str, ...],
    numbers: tuple[str, ...] = ("Guess", "Ceiling", "Added"),
) -> None:
    cli.print_table(rows, words, numbers, console=console, title=f"\n{title}", title_style="bold")


def _print_next(console: Console, report: DemoReport) -> None:
    files, command = report.scenario, cli.own_command()
    settings, priors = cli.typed(files.settings), cli.typed(files.priors)
    console.print("Where to look next\n", style="bold")
    console.print(
        f"""The report to read or file: {files.report}
What the public sees: {files.output}/releases.jsonl
Risks by pseudonym, whenever somebody crosses a threshold: {files.output}/risks.jsonl
Change {files.settings} (more noise?) and run the same messages again, under another name:
these people are simulated. Of real counts that is a second look, which no
account adds to the first.

  TALLYGUARD_DEPLOYMENT=again {command} run --config {settings} --priors {priors} \\
    --input {cli.typed(files.messages)} --output {cli.typed(files.folder / "again")}

Every bound and attack for one person over one working day:

  {command} audit {priors} --sensors {cli.typed(files.sensors)} \\
    --schedule {cli.typed(files.schedule)} --mistakes {report.mistakes} --person {report.example_person}""",
        soft_wrap=True,
    )
