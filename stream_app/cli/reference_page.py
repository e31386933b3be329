"""The help of every command as one page: ``docs/reference/commands.md``.

``python -m stream_app.cli.reference_page`` makes it; a test finds it out of date.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

_WIDTH = 100
_HEAD = """# Commands

What `--help` prints, for every command; made by `python -m stream_app.cli.reference_page`, checked by a test.
Results go to stdout, progress and logs to stderr; `--json` gives one document.
[Exit status](output.md#exit-status), [settings](settings.md).
"""


def commands_page() -> str:
    """The text of the page, commands in the order of the help."""
    from stream_app.cli.app import app

    return "\n".join([_HEAD, *_sections(get_command(app), None, "tallyguard")])


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


if __name__ == "__main__":
    print(commands_page(), end="")
