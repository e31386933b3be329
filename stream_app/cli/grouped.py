"""Help in groups: what to begin with first, what only some need last."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


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
