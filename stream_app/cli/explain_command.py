"""``tallyguard explain``: a word of the glossary, in the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from stream_app.cli import shared as cli


def explain(
    words: Annotated[list[str] | None, typer.Argument(help="The word; left out, all words.")] = None,
    json: cli.JsonOption = False,
) -> None:
    """Explain a word: ceiling, guess, added, horizon and others.

    \b
    Examples:
      tallyguard explain ceiling
      tallyguard explain risk budget
      tallyguard explain
    """
    from dataclasses import asdict

    from stream_app.watching import glossary

    entries = [glossary.explain(" ".join(words))] if words else list(glossary.GLOSSARY)
    if json:
        cli.print_json([asdict(entry) for entry in entries])
        return
    for entry in entries:
        cli.say(entry.heading, style="bold")
        cli.stdout().print(f"  {entry.meaning}\n  More: docs/{entry.page}\n")
