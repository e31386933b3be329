"""``tallyguard config show``: every setting with its value, after file, environment and flags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stream_app.cli import shared as cli

if TYPE_CHECKING:
    from stream_app.setup.settings import Settings

config = cli.command_group("config", "Look at the settings.")


@config.command()
def show(config_file: cli.ConfigOption = None, json: cli.JsonOption = False) -> None:
    """Show every setting in force; secrets are masked.

    Settings come from a TOML file, then the environment (TALLYGUARD_HORIZON=12), then flags.

    \b
    Examples:
      tallyguard config show
      TALLYGUARD_RELEASE__SIGMA=2 tallyguard config show --config tallyguard.toml --json
    """

    settings = cli.settings_of(config_file)
    if json:
        cli.print_json(settings.masked())
    else:
        _print_table(settings)


def _print_table(settings: Settings) -> None:
    from rich.table import Table

    from stream_app.setup.settings_sources import describe

    table = Table("Setting", "Value", "Meaning", box=None, pad_edge=False)
    for row in describe():
        value: object = settings.masked()
        for part in row.name.split("."):
            value = value[part] if isinstance(value, dict) else value
        table.add_row(row.name, "" if value is None else str(value), row.description)
    console = cli.stdout()
    console.print(table)
    console.print("\nAs environment variables: TALLYGUARD_ and the name in capitals, __ for a dot.")
