"""What a newcomer sees first: commands in groups, defaults as they are typed, the version, completion."""

from __future__ import annotations

import re

import pytest
from typer.main import get_command

from stream_app.cli.app import app
from stream_app.setup.this_process import own_version
from tests import ROOT
from tests.stream_app.command_line import Tallyguard
from tests.stream_app.command_tree import leaves

OUTPUT = ROOT / "docs" / "reference" / "output.md"
LEAVES = dict(leaves(get_command(app)))


def test_the_version_is_told(tallyguard: Tallyguard) -> None:
    """One line, for a report of a fault."""
    result = tallyguard("--version")
    assert (result.code, result.out) == (0, f"tallyguard {own_version()}\n")


def test_commands_stand_in_groups_from_the_first_to_the_rarest(tallyguard: Tallyguard) -> None:
    """Each command stands under one heading, and the demo comes first."""
    text = tallyguard("--help").out
    headings = re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE)
    assert headings == ["Options", "Start here", "Decide", "Run", "Kafka", "Research"]
    listed = re.findall(r"^  (\w[\w-]*) {2,}\S", text, re.MULTILINE)
    assert listed[0] == "demo"
    assert sorted(listed) == sorted(get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_command_has_examples_and_shows_defaults_as_they_are_typed(
    tallyguard: Tallyguard, words: tuple[str, ...]
) -> None:
    """What stands behind "default" can be typed behind the option; a first sentence fits its line."""
    text = " ".join(tallyguard(*words, "--help").out.split())
    assert "\\b" not in text
    assert re.search(rf"Examples:.* tallyguard {' '.join(words)}", text)
    assert "[default: (" not in text
    flags = [one for one in LEAVES[words].params if getattr(one, "secondary_opts", None)]
    assert not [flag.name for flag in flags if flag.show_default]
    assert not LEAVES[words].get_short_help_str(66).endswith("...")


def test_completion_can_be_installed(tallyguard: Tallyguard) -> None:
    """For bash, zsh, fish and PowerShell, as the shell at hand."""
    assert "--install-completion" in tallyguard("--help").out


def test_the_exit_status_is_told_by_help_and_documentation(tallyguard: Tallyguard) -> None:
    """Scripts rely on it."""
    text = " ".join(tallyguard("--help").out.split())
    listed = re.findall(r"(\d) ([a-z][^;.]+)", text[text.index("Exit status:") :])
    assert [status for status, _ in listed] == ["0", "1", "2", "3"]
    page = " ".join(OUTPUT.read_text().split())
    for status, meaning in listed:
        assert f"| {status} | {meaning} |" in page
