"""What is built stands alone: source distribution, wheel, and the library with its own few requirements."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests import ROOT

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


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source distribution and the wheel that is made of it, as `uv build` makes both."""
    source, out = tmp_path_factory.mktemp("clone") / "tallyguard", tmp_path_factory.mktemp("built")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    for name in filter(None, tracked.stdout.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    building = ["build", "--quiet", "--offline", "--no-build-isolation", "--out-dir", str(out), str(source)]
    subprocess.run([sys.executable, "-m", "uv", *building], check=True)
    return out


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
def test_the_library_needs_no_more_than_it_requires(built: Path, tmp_path: Path) -> None:
    """The wheel alone, without the extras: the library works, and the command says what is missing."""
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path)
    library = run_alone(
        tmp_path,
        "import tallyguard as tg\n"
        "prior = tg.Prior.from_dense('ada', [[0.9, 0.1], [0.4, 0.6]])\n"
        "print(tg.__file__.startswith(sys.path[0]), tg.Schedule.raw([[1], []]), prior)",
    )
    assert library.returncode == 0, library.stderr
    assert library.stdout.startswith("True ")
    command = run_alone(tmp_path, "from stream_app.cli import main; main()")
    assert command.returncode == 1
    assert command.stderr.startswith("tallyguard: the command needs the packages of the engine, and ")
    assert command.stderr.endswith("is missing: pip install 'tallyguard[engine]'\n")


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


def run_alone(site: Path, code: str) -> subprocess.CompletedProcess[str]:
    """In a fresh interpreter that finds the unpacked wheel in place of this repository."""
    missing = " ".join(ENGINE + NOTEBOOK)
    return subprocess.run(
        [sys.executable, "-c", ALONE + code, str(site), str(ROOT), missing],
        cwd=site,
        capture_output=True,
        text=True,
        check=False,
    )
