"""Every tutorial does what it says: its commands run in a fresh folder and print what it shows.

A block of ``console`` is run. A block after "Save this as `FILE`:" is written there. A block of ``text`` is
what the commands before it print or, after "In `FILE`:", what that file holds. `…` stands for anything. Other
blocks of ``python`` are typed one after the other.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from html import unescape
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import ROOT
from tests.copies import COMMAND_LINE, Copy

TUTORIALS = [*sorted((ROOT / "docs" / "tutorials").glob("*.md")), ROOT / "docs/how-to/decode-traces.md"]
FROM_WHEEL = ROOT / "docs/tutorials/python.md"  # its blocks run in tests/test_package.py
INSTALLING = {"make install", "make install-dev", ". .venv/bin/activate"}  # done where tests run
FEW_COMPARED = "from stream_app.starting import demo; demo.COMPARED_PEOPLE = 10; "
_BLOCK = re.compile(r"(?:(Save this as|In) `([^`\n]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block of code, with what the line before it says of a file."""

    about: str
    file: str
    kind: str
    text: str


def blocks(page: Path) -> list[Block]:
    """In their order."""
    return [Block(*found) for found in _BLOCK.findall(page.read_text())]


def plain(text: str) -> str:
    """Without tags, with one space between words."""
    text = re.sub(r"<(style|svg)\b.*?</\1>|<[^>]+>", " ", text, flags=re.DOTALL) if "<html" in text else text
    return " ".join(unescape(text).split())


def check_shown(shown: str, printed: str) -> None:
    """Each line of a block comes in the text, one after the other."""
    rest = plain(printed)
    for line in filter(None, map(str.strip, shown.splitlines())):
        pattern = r".*?".join(map(re.escape, plain(line).split("…")))
        found = re.search(pattern, rest)
        assert found, f"{line!r} is not in what is left: {rest[:2000]}"
        rest = rest[found.end() :]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """As after the installation, with `tallyguard` and `python` on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = f'exec "{sys.executable}" -c "{COMMAND_LINE}" "$@"'
    for name, line in (("tallyguard", program), ("python", f'exec "{sys.executable}" "$@"')):
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    ours = {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    return {**os.environ, **ours, "TALLYGUARD_LISTEN": "127.0.0.1:0"}


def run(commands: str, folder: Path, environment: dict[str, str]) -> str:
    """What the commands of a block print; the installation is done already.

    `tallyguard` on a line of its own, perhaps after variables, is a copy of one process: two dozen starts
    would take most of the time.
    """
    wanted = [line for line in commands.splitlines() if line not in INSTALLING]
    return "".join(
        run_copy(line, folder, environment)
        if re.match(r"(\w+=\S* )*tallyguard ", line) and not set(line) & set("|<>&;$")
        else run_shell(line, folder, environment)
        for line in wanted
    )


def run_copy(line: str, folder: Path, environment: dict[str, str]) -> str:
    """What it prints, errors too; a demo compares a few people under other noise, which no page shows."""
    log = folder / "printed.log"
    log.unlink(missing_ok=True)
    words = shlex.split(line)
    command = words.index("tallyguard")
    given = dict(word.split("=", 1) for word in words[:command])
    few = FEW_COMPARED if words[command + 1] == "demo" else ""
    code = Copy(few + COMMAND_LINE, words[command + 1 :], environment | given, log).wait()
    assert code == 0, log.read_text()
    return log.read_text()


def run_shell(line: str, folder: Path, environment: dict[str, str]) -> str:
    """What it prints, without errors."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def typed(lines: str, names: dict[str, object]) -> str:
    """What Python prints."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(lines, names)
    return printed.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in TUTORIALS if page != FROM_WHEEL], ids=lambda page: page.stem
)
def test_a_tutorial_can_be_followed(
    page: Path, tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first block to the last, in a folder with nothing but the documentation."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, object] = {}
    folder, printed = tmp_path / "here", ""
    folder.mkdir()
    (folder / "docs").symlink_to(ROOT / "docs")  # as in a clone
    for block in blocks(page):
        if block.kind == "console":
            printed = run(block.text, folder, environment)
        elif block.about == "Save this as":
            (folder / block.file).write_text(block.text)
        elif block.kind == "python":
            printed = typed(block.text, names)
        else:
            assert block.kind == "text", block
            check_shown(block.text, (folder / block.file).read_text() if block.file else printed)


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_says_what_one_should_see(page: Path) -> None:
    """Something to type, and at least once what it prints."""
    kinds = [block.kind for block in blocks(page)]
    assert kinds.count("console") + kinds.count("python") >= 2
    assert "text" in kinds


def test_what_is_not_printed_is_noticed() -> None:
    """A line that is missing, another figure, and another order fail."""
    printed = "<html><p>63 in 100</p>\n<p>of  500 people</p>"
    check_shown("63 in 100\nof 500 people", printed)
    check_shown("63 … people", printed)
    for wrong in ("64 in 100", "of 500 people\n63 in 100", "63 … dogs"):
        with pytest.raises(AssertionError, match="is not in what is left"):
            check_shown(wrong, printed)


def test_the_figures_of_the_tutorial_are_those_of_the_published_figure() -> None:
    """To the digits shown."""
    series = ("tight", "certified", "marginal", "prior")
    table = (ROOT / "docs/results/figures/koga-5.csv").read_text()
    page = (ROOT / "docs/tutorials/reproduce-a-figure.md").read_text()
    rows = re.findall(r"^ +(\d+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$", page, re.MULTILINE)
    assert len(rows) == 4
    for places, *values in rows:
        for name, value in zip(series, values, strict=True):
            [published] = re.findall(rf"^locations,{places},{name},([\d.e-]+),", table, re.MULTILINE)
            assert float(value) == pytest.approx(float(published), abs=5.1e-6)
