"""The packages depend on each other in one direction only."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT = {
    "models": {"models"},
    "accounting": {"models", "accounting"},
    "stream_app": {"models", "accounting", "stream_app"},
    "tallyguard": {"models", "accounting", "stream_app", "tallyguard"},
}
OURS = {*MAY_IMPORT, "tests", "benchmarks", "experiments"}
HEAVY = {
    "numba",
    "numpy",
    "scipy",
    "pyarrow",
    "faust",
    "kafka",
    "matplotlib",
    "pydantic",
    "prometheus_client",
}


def imported_packages(source: str) -> Iterator[str]:
    """Top-level names of everything a module imports, lazily or not."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_from_stream_app_to_accounting_to_models(package: str) -> None:
    """No module imports from a package above its own, nor from tests or benchmarks."""
    modules = sorted((ROOT / package).rglob("*.py"))
    assert modules, f"{package} has no modules"
    wrong = {
        f"{module.relative_to(ROOT)} imports {name}"
        for module in modules
        for name in imported_packages(module.read_text())
        if name in OURS - MAY_IMPORT[package]
    }
    assert not wrong


def test_an_arrow_the_other_way_would_be_noticed() -> None:
    """The walk sees imports inside functions as well as at the top."""
    source = "import numpy\ndef late():\n    from stream_app.steps.engine import Engine\n"
    assert list(imported_packages(source)) == ["numpy", "stream_app"]


_ASK_EVERY_COMMAND = """
import sys
from typer.main import get_command
from stream_app.cli.app import app
from tests.stream_app.command_tree import commands

for words in commands(get_command(app)):
    try:
        get_command(app)([*words, "--help"], prog_name="tallyguard")
    except SystemExit as stop:
        assert not stop.code, words
    print("loaded", words, sorted(HEAVY & set(sys.modules)))
"""


def test_help_loads_nothing_heavy() -> None:
    """Every `--help` answers at once because the command line imports a library where it uses it."""
    ours = HEAVY - {"pydantic"}  # which typer reads a command's options with
    script = f"HEAVY = {ours!r}\n{_ASK_EVERY_COMMAND}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    answers = [line for line in done.stdout.splitlines() if line.startswith("loaded")]
    assert len(answers) > 20
    assert not [line for line in answers if not line.endswith(" []")]
