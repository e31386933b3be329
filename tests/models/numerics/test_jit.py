"""Compiled kernels are kept for the sources they were compiled from, and for no others."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numba.core.errors import NumbaError

from models.exceptions import MachineError
from models.numerics.jit import bare_jit
from models.numerics.kernel_cache import MARKER, forget_unused, source_stamp
from models.numerics.own_target import check_cpu
from models.numerics.shipped import VARIABLE
from tests import ROOT

NOT_COMPILED = {
    "accounting.exceptions",
    "accounting.settings",
    "models.arguments",
    *("models.calendar", "models.priors.population", "models.priors.prior", "accounting.continuous.people"),
    *("accounting.continuous.accountant", "accounting.continuous.cascade", "accounting.continuous.payer"),
    "accounting.continuous.published",
    "accounting.continuous.account_state",
    "accounting.bounds.protocol",
    *("accounting.bounds.noised.levels_bound", "accounting.bounds.noised.sandwich_bound"),
    "accounting.bounds.noised.sampled",
    *("models.numerics.compiling", "models.numerics.threads", "models.numerics.shipped"),
    *("models.numerics.kernel_cache", "models.numerics.arrays", "models.numerics.memory"),
    "models.exceptions",
    *("accounting.exposure.exposure", "accounting.exposure.step_information.observation"),
    "accounting.exposure.step_information.rays",
}
"""Modules without kernels that modules with kernels import, for what is not compiled only."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """``accounting/walk.py`` calls ``models/sums.py`` through ``models/step.py``, not ``other.py``."""
    kernel = "from models.numerics.jit import jit\n"
    files = {
        "models/sums.py": kernel,
        "models/other.py": kernel,
        "models/words.py": "WORDS = 1\n",
        "models/step.py": kernel + "from models import (\n    sums,  # a module\n)\n",
        "accounting/walk.py": kernel + "from models.words import WORDS\nfrom models.step import step\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "compiled_again"),
    [("walk", True), ("step", True), ("sums", True), ("other", False), ("words", False)],
)
def test_a_kernel_is_compiled_again_when_it_or_one_it_calls_changed(
    tree: Path, tmp_path_factory: pytest.TempPathFactory, changed: str, compiled_again: bool
) -> None:
    copy = tmp_path_factory.mktemp("copy") / "elsewhere"
    shutil.copytree(tree, copy)
    walk = Path("accounting", "walk.py")
    assert source_stamp(copy / walk, copy) == source_stamp(tree / walk, tree)
    again = tmp_path_factory.mktemp("copy") / "changed"
    shutil.copytree(tree, again)
    (file,) = again.rglob(f"{changed}.py")
    file.write_text(file.read_text() + "# changed\n")
    assert (source_stamp(again / walk, again) != source_stamp(tree / walk, tree)) == compiled_again


@pytest.mark.slow
def test_another_copy_of_the_sources_loads_what_the_first_has_compiled(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "models", tmp_path / "elsewhere" / "models")
    code = (
        "import numpy as np; from models.numerics.eigenvalues import _below;"
        "_below(np.ones(2), np.ones(1), 0.5);"
        "print(sum(_below.stats.cache_hits.values()))"
    )
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": "",
        VARIABLE: "",
    }
    loaded = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for copy in (ROOT, tmp_path / "elsewhere", ROOT)
    ]
    assert loaded == ["0", "1", "1"]


def test_only_kernels_of_ours_that_nobody_used_for_weeks_are_removed(tmp_path: Path) -> None:
    """Whoever else keeps something there keeps it, whatever its name, and beside our own files, too."""
    names = ("0" * 16, "1" * 16, "2" * 16, "3" * 16, "thesis-chapter-1")
    old, new, unmarked, used_by_others, foreign = (tmp_path / name for name in names)
    for folder in (old, new, unmarked, used_by_others, foreign):
        folder.mkdir()
        (folder / "kernel-1.py311.1.nbc").write_bytes(b"")
    (used_by_others / "thesis.tex").write_text("")
    for folder in (old, new, used_by_others):
        (folder / MARKER).touch()
    linked = tmp_path / ("4" * 16)
    linked.symlink_to(old)
    long_ago = time.time() - 30 * 86_400
    for folder in (old, unmarked, used_by_others, foreign):
        os.utime(folder, (long_ago, long_ago))
    forget_unused(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == {*names[1:], linked.name}


def test_an_older_cpu_is_told_so_before_anything_is_compiled() -> None:
    features = dict.fromkeys(("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"), True)
    check_cpu(features)
    with pytest.raises(MachineError, match=r"must be x86-64-v3 .* got one without avx2; run on a newer"):
        check_cpu(features | {"avx2": False})


def test_kernels_take_nothing_compiled_from_modules_the_stamp_does_not_see() -> None:
    """A constant or kernel from an unstamped module could change without the cache noticing."""
    sources = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text()
        for package in ("models", "accounting")
        for path in (ROOT / package).rglob("*.py")
    }
    stamped = {name for name, text in sources.items() if "models.numerics.jit" in text}
    imported = {
        node.module
        for name in stamped
        for node in ast.walk(ast.parse(sources[name]))
        if isinstance(node, ast.ImportFrom) and node.module in sources
    }
    assert imported - stamped <= NOT_COMPILED | {"models.numerics.jit"}


def test_a_bare_kernel_cannot_make_an_array() -> None:
    """It counts no references, so nobody would give the memory back."""

    @bare_jit
    def made(size: int) -> float:
        return float(np.empty(size).sum())

    with pytest.raises(NumbaError, match=r"np\.empty"):
        made(3)
