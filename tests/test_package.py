"""What is built stands alone: source distribution, wheel, and the library with its own few requirements."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from packaging.requirements import Requirement

from models.numerics.shipped import VARIABLE, file_name, write_compiled
from tests import ROOT
from tests.test_tutorials import FROM_WHEEL, blocks, check_shown

PACKAGES = ("models", "accounting", "stream_app", "tallyguard")
ENGINE = ("typer", "rich", "aiohttp", "jinja2", "structlog", "faust", "kafka", "aiokafka", "paho")
REQUIRED = {"numpy", "scipy", "numba", "pydantic", "pydantic-settings", "prometheus-client", "pyarrow"}
NOTEBOOK = ("pandas", "polars", "matplotlib", "ipykernel")

# Nothing of the extras can be imported: as where only the wheel and what it requires were installed.
ALONE = """
import sys
site, root, missing = sys.argv[1:]
sys.path[:] = [site, *(each for each in sys.path if each and each != root)]
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing.split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
sys.argv = ["tallyguard", "plan"]
"""

ONE_KERNEL = """
import numpy as np
from models.numerics.eigenvalues import _below
assert _below(np.ones(2), np.ones(1), 0.5) == 1
print(sum(_below.stats.cache_hits.values()), "loaded")
"""
NOTEBOOK_PAGE = ROOT / "docs/tutorials/figure.ipynb"
PICTURE = "image/png"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source distribution and a wheel with a compiled kernel, as `make wheel` makes both."""
    source, out = tmp_path_factory.mktemp("clone") / "tallyguard", tmp_path_factory.mktemp("built")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    for name in filter(None, tracked.stdout.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    cache = tmp_path_factory.mktemp("another machine")
    assert run_alone(ROOT, ONE_KERNEL, NUMBA_CACHE_DIR=str(cache), **{VARIABLE: ""}).stdout == "0 loaded\n"
    assert write_compiled(cache / "tallyguard", source / "models/numerics/compiled" / file_name()) == 1
    building = ["build", "--quiet", "--offline", "--no-build-isolation", "--out-dir", str(out), str(source)]
    for kind in ("--sdist", "--wheel"):
        subprocess.run([sys.executable, "-m", "uv", *building, kind], check=True)
    return out


@pytest.fixture(scope="module")
def site(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the wheel was unpacked."""
    [wheel] = built.glob("*.whl")
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder)
    return folder


@pytest.mark.slow
def test_the_source_distribution_has_what_builds_tests_and_explains(built: Path) -> None:
    """Every file of the repository but what only its host reads."""
    [archive] = built.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    for name in (
        "Makefile",
        "CITATION.cff",
        "docs/README.md",
        "tests/test_package.py",
        "requirements-dev.lock",
    ):
        assert name in names


@pytest.mark.slow
def test_the_wheel_says_what_it_is_and_is_typed(built: Path) -> None:
    """Authors, keywords and classifiers; presets, templates and types of every package."""
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        [metadata] = (packed.read(name).decode() for name in names if name.endswith("METADATA"))
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    assert any(name.startswith("stream_app/starting/connect/presets/") for name in names)
    assert "The tallyguard developers" in metadata
    assert "Classifier: Typing :: Typed" in metadata
    assert not any(name.startswith("tests/") for name in names)
    needed = map(Requirement, re.findall("^Requires-Dist: (.*)$", metadata, re.MULTILINE))
    assert {each.name for each in needed if "extra" not in str(each.marker)} == REQUIRED


@pytest.mark.slow
def test_the_library_needs_no_more_than_it_requires(site: Path) -> None:
    """The wheel alone, without the extras: the library works, and the command says what is missing."""
    library = run_alone(
        site,
        "import tallyguard as tg\n"
        "prior = tg.Prior.from_dense('ada', [[0.9, 0.1], [0.4, 0.6]])\n"
        "print(tg.__file__.startswith(sys.path[0]), tg.Schedule.raw([[1], []]), prior)",
    )
    assert library.returncode == 0, library.stderr
    assert library.stdout.startswith("True ")
    command = run_alone(site, "from stream_app.cli import main; main()")
    assert command.returncode == 1
    assert command.stderr.startswith("tallyguard: the command needs the packages of the engine, and ")
    assert command.stderr.endswith("is missing: pip install 'tallyguard[engine]'\n")


@pytest.mark.slow
def test_the_wheel_brings_its_compiled_kernels(built: Path, site: Path, tmp_path: Path) -> None:
    """Where nothing was compiled before, they are loaded; the source distribution has none."""
    [archive] = built.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        assert not [name for name in packed.getnames() if "compiled/" in name]
    done = run_alone(site, ONE_KERNEL, NUMBA_CACHE_DIR=str(tmp_path))
    assert (done.stdout, done.stderr) == ("1 loaded\n", "")


@pytest.mark.slow
def test_the_python_tutorial_runs_from_the_wheel(site: Path) -> None:
    """Every block prints what the page shows, without the engine."""
    page = blocks(FROM_WHEEL)
    assert {block.kind for block in page} == {"python", "text"}
    done = run_alone(site, "".join(block.text for block in page if block.kind == "python"), missing=ENGINE)
    assert done.returncode == 0, done.stderr
    check_shown("".join(block.text for block in page if block.kind == "text"), done.stdout)


@pytest.mark.slow
def test_the_notebook_runs_from_the_wheel_and_comes_out_as_it_stands(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every cell runs; texts are the same to the digit, and there is a picture where there was one."""
    monkeypatch.setenv("PYTHONPATH", str(site))
    shown = nbformat.read(NOTEBOOK_PAGE, as_version=4)
    again = nbformat.read(NOTEBOOK_PAGE, as_version=4)
    again.cells.append(nbformat.v4.new_code_cell("print(tg.__file__)"))
    NotebookClient(again, timeout=900, resources={"metadata": {"path": str(site)}}).execute()
    *said_again, place = said(again)
    assert place.startswith(str(site))
    assert said_again == said(shown)
    assert said(shown).count(PICTURE) == 1


def said(notebook: nbformat.NotebookNode) -> list[str]:
    """What the cells print and show; not what is told of compiling."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if PICTURE in data:
                found.append(PICTURE)
            elif data or output.get("name") == "stdout":
                found.append(data.get("text/plain") or output.text)
    return found


def test_a_module_of_the_users_own_with_one_of_our_names_is_named(tmp_path: Path) -> None:
    """`models.py` beside a script hides our package of that name."""
    (tmp_path / "models.py").write_text("class Mine: ...\n")
    code = "import sys; sys.path.insert(0, ''); import tallyguard"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr.strip().splitlines()[-1] == (
        f"ImportError: {tmp_path / 'models.py'} hides tallyguard's own package `models`: rename the file, "
        "or start Python from another folder"
    )


def run_alone(
    site: Path, code: str, missing: Sequence[str] = ENGINE + NOTEBOOK, **variables: str
) -> subprocess.CompletedProcess[str]:
    """In a fresh interpreter that finds a folder's packages and kernels in place of this repository's."""
    others = {name: value for name, value in os.environ.items() if name != VARIABLE}
    return subprocess.run(
        [sys.executable, "-c", ALONE + code, str(site), str(ROOT), " ".join(missing)],
        cwd=site,
        env=others | {"MPLBACKEND": "agg"} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
