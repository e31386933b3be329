"""The packages depend on each other in one direction only."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import ROOT
from tests.rooms import arrows, folder_of, imports, layers, modules

pytestmark = pytest.mark.xdist_group("imports")  # all read who imports whom, once in one process

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


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_from_stream_app_to_accounting_to_models(package: str) -> None:
    """No module imports from a package above its own, nor from tests or benchmarks."""
    ours = [path for path in modules().values() if path.is_relative_to(ROOT / package)]
    assert ours, f"{package} has no modules"
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in ours
        for name in imports(path.read_text(), ())
        if name.split(".")[0] in OURS - MAY_IMPORT[package]
    }
    assert not wrong


def test_an_arrow_the_other_way_would_be_noticed() -> None:
    """The walk sees imports inside functions as well as at the top."""
    source = "import numpy\ndef late():\n    from stream_app.steps import engine\n"
    assert list(imports(source, {"stream_app.steps.engine"})) == ["numpy", "stream_app.steps.engine"]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_rooms_do_not_import_each_other_in_a_circle(package: str) -> None:
    """Inside a package arrows between its rooms point one way; a face only hands on what its folder holds."""
    faces = {name for name, path in modules().items() if path.name == "__init__.py"}
    room = {name: ".".join(name.split(".")[:2]) for name in modules() if name.startswith(f"{package}.")}
    assert layers((room[a], room[b]) for a, b in arrows() if a in room and b in room and a not in faces)


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    """Not even inside functions: whoever reads one file needs no other that needs it."""
    faces = {name for name, path in modules().items() if path.name == "__init__.py"}
    assert layers((a, b) for a, b in arrows() if a not in faces and b not in faces)


def holds_kernels(module: str) -> bool:
    """Whether a module is compiled: kernels import each other directly, so a change compiles only them."""
    return (
        module.startswith("models.numerics.") or "models.numerics.jit import" in modules()[module].read_text()
    )


def test_what_a_face_offers_is_taken_from_it() -> None:
    """Nobody outside a folder imports past its face what the face hands on, but for kernels.

    A module that no face hands on is a room of its own, which others import by its name.
    """
    offered = {(a, b) for a, b in arrows() if folder_of(a) == a}
    wrong = [
        f"{importer} imports past the face of {folder_of(imported)}: {imported}"
        for importer, imported in arrows()
        if (folder_of(imported), imported) in offered
        and not f"{folder_of(importer)}.".startswith(f"{folder_of(imported)}.")
        and "singly" not in modules()[folder_of(imported)].read_text()
        and not imported.endswith(".exceptions")
        and not holds_kernels(imported)
        and not holds_kernels(importer)
    ]
    assert not wrong


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


@pytest.mark.slow
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
