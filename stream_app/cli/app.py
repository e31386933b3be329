"""All commands in the order of the help."""

from __future__ import annotations

import typer

from stream_app.cli.audit import audit
from stream_app.cli.check import check
from stream_app.cli.config import config
from stream_app.cli.demo import demo
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

app = typer.Typer(
    name="tallyguard",
    help="Publishes people counts from sensors and tells, at every step, how much of each person's movements "
    "could be reconstructed from them.",
    epilog="Start with: tallyguard demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command()(run)
app.command()(audit)
app.command()(plan)
app.command()(report)
app.command()(ledger)
app.command()(check)
app.add_typer(priors)
app.add_typer(noise)
app.add_typer(config)
app.add_typer(keys)
app.add_typer(topics)
app.add_typer(worker)
app.command()(produce)
app.add_typer(persons)
app.command()(tail)
app.command()(replay)
app.add_typer(rejected)
