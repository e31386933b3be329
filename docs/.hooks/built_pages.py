"""What the site takes from the code: a line ``<!-- built: NAME -->`` of a page becomes what is made here.

So the help of the commands and the table of settings stand in the code alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_MARK = re.compile(r"^<!-- built: (\w+) -->$", re.MULTILINE)
_WIDTH = 100


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with its marks replaced; ``KeyError`` for a mark that nothing is made for."""
    return _MARK.sub(lambda mark: BUILT[mark[1]](), markdown)


def commands_help() -> str:
    """A heading and a block for each command, in the order of the help."""
    from typer.main import get_command

    from stream_app.cli.app import app

    return "\n".join(_sections(get_command(app), None, "tallyguard"))


def _sections(command: Any, parent: Any, name: str) -> Iterator[str]:
    """The help of a command, then of each below it; of a group that is not the program, only those below."""
    context = command.make_context(
        name, [], parent=parent, resilient_parsing=True, terminal_width=_WIDTH, max_content_width=_WIDTH
    )
    below = getattr(command, "commands", {})
    if parent is None or not below:
        yield f"## {context.command_path}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"
    for word, each in below.items():
        yield from _sections(each, context, word)


def settings_table() -> str:
    """Every setting with its environment variable, default and meaning."""
    from stream_app.setup.settings_sources import describe

    rows = [
        f"| `{row.name}` | `{row.variable}` | `{row.default}` | {row.description} |" for row in describe()
    ]
    return "\n".join(["| setting | variable | default | meaning |", "|---|---|---|---|", *rows, ""])


BUILT = {"commands": commands_help, "settings": settings_table}
