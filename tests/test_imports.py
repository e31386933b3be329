"""The packages depend on each other in one direction only."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import ROOT
from tests.rooms import arrows, folder_of, imports, layers, modules

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
def test_folders_do_not_import_each_other_in_a_circle(package: str) -> None:
    """Inside a package arrows between folders point one way; a face only hands on what its folder holds."""
    faces = {name for name, path in modules().items() if path.name == "__init__.py"}
    inside = [name for name in modules() if name.startswith(f"{package}.")]
    room = {name: folder_of(name) if folder_of(name) != package else name for name in inside}
    assert layers((room[a], room[b]) for a, b in arrows() if a in room and b in room and a not in faces)


def holds_kernels(module: str) -> bool:
    """Whether a module is compiled: kernels import each other directly, so a change compiles only them."""
    return (
        module.startswith("models.numerics.") or "models.numerics.jit import" in modules()[module].read_text()
    )


FACES_OF_THE_APP = {
    "stream_app.analysis.export",
    "stream_app.analysis.report",
    "stream_app.city",
    "stream_app.embedded",
    "stream_app.starting.connect",
    "stream_app.starting.connect.http",
    "stream_app.starting.connect.intake",
    "stream_app.starting.connect.journal",
    "stream_app.starting.connect.mqtt",
    "stream_app.starting.connect.payloads",
    "stream_app.starting.connect.released",
    "stream_app.starting.connect.sensorthings",
    "stream_app.steps",
    "stream_app.watching.web",
    "stream_app.wire",
    "stream_app.wire.messages",
}


def test_the_faces_of_the_app_are_used() -> None:
    """Nobody outside a folder imports past its face; the other folders say why they have none."""
    wrong = [
        f"{importer} imports past the face of {folder_of(imported)}: {imported}"
        for importer, imported in arrows()
        if folder_of(imported) in FACES_OF_THE_APP
        and imported != folder_of(imported)
        and folder_of(importer) != folder_of(imported)
        and not importer.startswith("tests")
    ]
    assert not wrong
    for folder in {folder_of(name) for name in modules() if name.startswith("stream_app.")}:
        face = modules()[folder].read_text()
        assert "__all__" in face or folder == "stream_app" or "singly" in face or "when it runs" in face, (
            folder
        )


def test_models_and_accounting_are_used_by_their_faces() -> None:
    """What a folder offers stands in its ``__init__``; nobody outside imports past it, but for kernels."""
    wrong = [
        f"{importer} imports past the face of {folder_of(imported)}: {imported}"
        for importer, imported in arrows()
        if imported.split(".")[0] in ("models", "accounting")
        and imported
        not in (
            folder_of(imported),
            *(f"{p}.exceptions" for p in MAY_IMPORT),
            "accounting.settings",
            "models.arguments",
        )
        and folder_of(importer) != folder_of(imported)
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
