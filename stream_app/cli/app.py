"""All commands, grouped and in the order of the help."""

from __future__ import annotations

from typing import Annotated

import typer

from stream_app.cli.audit import audit
from stream_app.cli.check import check
from stream_app.cli.config import config
from stream_app.cli.demo import demo
from stream_app.cli.explain import explain
from stream_app.cli.grouped import GroupedCommands
from stream_app.cli.init import init
from stream_app.cli.keys import keys
from stream_app.cli.ledger import ledger
from stream_app.cli.noise import noise
from stream_app.cli.persons import persons
from stream_app.cli.plan import plan
from stream_app.cli.priors import priors
from stream_app.cli.produce import produce
from stream_app.cli.rejected import rejected
from stream_app.cli.replay import replay
from stream_app.cli.report import report
from stream_app.cli.run import run
from stream_app.cli.tail import tail
from stream_app.cli.topics import topics
from stream_app.cli.worker import worker

START, DECIDE, RUN, KAFKA, RESEARCH = ("Start here", "Decide", "Run", "Kafka", "Research")

app = typer.Typer(
    name="tallyguard",
    cls=GroupedCommands,
    help="Publishes people counts from sensors and tells, at every step, how much of each person's movements "
    "could be reconstructed from them.",
    epilog="""Exit status: 0 all is well; 1 a problem was found and named; 2 the command was not understood;
    3 the input was read and no step could be closed.""",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from stream_app.own_version import own_version

        typer.echo(f"tallyguard {own_version()}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Options of the program itself."""


app.command(rich_help_panel=START)(demo)
app.command(rich_help_panel=START)(explain)
app.command(rich_help_panel=START)(init)
app.command(rich_help_panel=START)(check)
app.add_typer(config, rich_help_panel=START)
app.add_typer(priors, rich_help_panel=DECIDE)
app.command(rich_help_panel=DECIDE)(plan)
app.command(rich_help_panel=RUN)(run)
app.command(rich_help_panel=RUN)(report)
app.command(rich_help_panel=RUN)(ledger)
app.add_typer(keys, rich_help_panel=RUN)
app.add_typer(topics, rich_help_panel=KAFKA)
app.add_typer(persons, rich_help_panel=KAFKA)
app.add_typer(worker, rich_help_panel=KAFKA)
app.command(rich_help_panel=KAFKA)(produce)
app.command(rich_help_panel=KAFKA)(tail)
app.command(rich_help_panel=KAFKA)(replay)
app.add_typer(rejected, rich_help_panel=KAFKA)
app.command(rich_help_panel=RESEARCH)(audit)
app.add_typer(noise, rich_help_panel=RESEARCH)
