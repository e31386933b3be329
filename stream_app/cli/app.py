"""All commands, grouped and in the order of the help."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from stream_app.cli.audit_command import audit
from stream_app.cli.check_command import check
from stream_app.cli.config_command import config
from stream_app.cli.connect_command import connect
from stream_app.cli.demo_command import demo
from stream_app.cli.explain_command import explain
from stream_app.cli.export_command import export
from stream_app.cli.init_command import init
from stream_app.cli.kafka_commands import fetch, persons, produce, rejected, tail, topics, worker
from stream_app.cli.keys_command import keys
from stream_app.cli.ledger_command import ledger
from stream_app.cli.noise_command import noise
from stream_app.cli.plan_command import plan
from stream_app.cli.priors_command import priors
from stream_app.cli.report_command import report
from stream_app.cli.run_command import backfill, run
from stream_app.cli.serve_command import serve
from stream_app.cli.verify_command import replay, verify


class GroupedCommands(TyperGroup):
    """Lists commands under the headings they were registered with (``rich_help_panel``), in that order."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; whoever reads our output may have seen enough, which click would end with 1."""
        try:
            found = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is written at the end
            raise SystemExit(0) from None
        return found

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


COMMANDS: Mapping[str, tuple[typer.Typer | Callable[..., None], ...]] = {
    "Start here": (demo, explain, init, connect, check, config),
    "Decide": (priors, plan, serve),
    "Run": (run, backfill, report, ledger, export, verify, replay, keys),
    "Kafka": (topics, persons, worker, produce, tail, fetch, rejected),
    "Research": (audit, noise),
}
"""By the heading that the help shows them under: what to begin with first, what only some need last."""

for panel, commands in COMMANDS.items():
    for command in commands:
        if isinstance(command, typer.Typer):
            app.add_typer(command, rich_help_panel=panel)
        else:
            app.command(rich_help_panel=panel)(command)

program = get_command(app)
"""What ``tallyguard`` runs; built once here, so that processes forked from a prepared one have it already.

Typer keeps a command's help option after its first use: whoever looks at several commands in one process
builds a program of its own from ``app``.
"""
