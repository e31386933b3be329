"""The README shows what the program really does."""

from __future__ import annotations

import json
import re

import pytest

from experiments.readme import BEGIN, END, demo_summary, refreshed
from stream_app.wire.parsing import parse
from tests import ROOT
from tests.stream_app.any_message import parse_any

README = (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_the_example_is_what_the_demo_prints() -> None:
    """Run `make readme` after a change that moves the figures."""
    assert refreshed(README, demo_summary()) == README


def test_the_example_stands_between_its_markers_and_says_who_is_most_exposed() -> None:
    """The block is there at all, with the tables of the demo."""
    block = README.split(BEGIN)[1].split(END)[0]
    for title in ("Who is most exposed, and when", "By way of life", "What noise would do"):
        assert title in block
    assert re.search(r"\d:00 +[\d.]+ +[\d.]+ +[\d.]+\n", block), "guess, ceiling, added of one person"


def test_refreshing_replaces_the_block_and_nothing_else() -> None:
    """Twice gives the same; text with backslashes is taken as it is."""
    readme = f"above\n{BEGIN}\nold\n{END}\nbelow"
    once = refreshed(readme, r"new \1")
    assert once == f"above\n{BEGIN}\n\n```text\nnew \\1\n```\n\n{END}\nbelow"
    assert refreshed(once, r"new \1") == once


def test_the_messages_shown_are_messages() -> None:
    """Every line of JSON in the README is accepted by the parser."""
    lines = [
        line for block in re.findall(r"```json\n(.*?)```", README, re.DOTALL) for line in block.splitlines()
    ]
    assert len(lines) == 3
    for line in lines:
        message = parse_any(line.encode())
        if message.type in {"activation", "reading"}:
            assert parse(line.encode(), "README") == message
        assert json.loads(line)["type"] == message.type


def test_every_command_shown_exists() -> None:
    """`tallyguard something` in the README is a command."""
    from typer.main import get_command

    from stream_app.cli.app import app

    known = set(get_command(app).commands)  # type: ignore[attr-defined]
    shown = set(re.findall(r"^tallyguard ([a-z]+)|`\.venv/bin/tallyguard ([a-z]+)", README, re.MULTILINE))
    assert {first or second for first, second in shown} <= known
    assert len(shown) >= 4
