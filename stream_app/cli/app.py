"""All commands, grouped and in the order of the help."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from stream_app.cli.on_kafka.persons_command import persons
from stream_app.cli.on_kafka.produce_command import produce
from stream_app.cli.on_kafka.rejected_command import rejected
from stream_app.cli.on_kafka.replay_command import replay
from stream_app.cli.on_kafka.tail_command import tail
from stream_app.cli.on_kafka.topics_command import topics
from stream_app.cli.on_kafka.worker_command import worker
from stream_app.cli.start.check_command import check
from stream_app.cli.start.config_command import config
from stream_app.cli.start.connect_command import connect
from stream_app.cli.start.demo_command import demo
from stream_app.cli.start.init_command import init
from stream_app.cli.start.keys_command import keys
from stream_app.cli.start.run_command import backfill, run
from stream_app.cli.study.audit_command import audit
from stream_app.cli.study.explain_command import explain
from stream_app.cli.study.export_command import export
from stream_app.cli.study.ledger_command import ledger
from stream_app.cli.study.noise_command import noise
from stream_app.cli.study.on_priors.priors_command import priors
from stream_app.cli.study.plan_command import plan
from stream_app.cli.study.report_command import report
from stream_app.cli.study.verify_command import verify

# Help in groups: what to begin with first, what only some need last.


class GroupedCommands(TyperGroup):
    """Lists commands under the headings they were registered with (``rich_help_panel``), in that order."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """One section a heading."""
        shown = [command for command in self.commands.values() if not command.hidden]
        names = max(len(command.name or "") for command in shown)
        for heading in dict.fromkeys(command.rich_help_panel for command in shown):  # type: ignore[attr-defined]
            rows = [
                (f"{command.name:{names}}", command.get_short_help_str(formatter.width - names - 6))
                for command in shown
                if command.rich_help_panel == heading  # type: ignore[attr-defined]
            ]
            with formatter.section(heading):
                formatter.write_dl(rows)


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
        from stream_app.setup.this_process import own_version

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
app.add_typer(connect, rich_help_panel=START)
app.command(rich_help_panel=START)(check)
app.add_typer(config, rich_help_panel=START)
app.add_typer(priors, rich_help_panel=DECIDE)
app.command(rich_help_panel=DECIDE)(plan)
app.command(rich_help_panel=RUN)(run)
app.command(rich_help_panel=RUN)(backfill)
app.command(rich_help_panel=RUN)(report)
app.command(rich_help_panel=RUN)(ledger)
app.command(rich_help_panel=RUN)(export)
app.command(rich_help_panel=RUN)(verify)
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

program = get_command(app)
"""What a process runs; built here, once, for those that are copies of another.

A command that was used remembers its help option: whoever looks at several builds its own from ``app``.
"""
