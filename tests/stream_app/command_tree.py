"""Every command of the program, by the words it is called with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The program itself, then each group and command below."""
    yield words
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*words, name))


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Commands that do something, with their words."""
    below = getattr(command, "commands", {})
    if not below:
        yield words, command
    for name, each in below.items():
        yield from leaves(each, (*words, name))
