"""Compiled kernels are kept for the sources they were compiled from, and for no others."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from pathlib import Path

import numba
import pytest

from models.exceptions import MachineError
from models.jit import CPU, check_cpu, forget_unused, source_stamp

ROOT = Path(__file__).resolve().parents[2]
NOT_COMPILED = {"models.exceptions", "accounting.exposure", "accounting.observation"}
"""Modules without kernels that modules with kernels import, for what is not compiled only."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for package in ("models", "accounting"):
        (tmp_path / package).mkdir()
    (tmp_path / "models" / "kernel.py").write_text("from models.jit import jit\n")
    (tmp_path / "accounting" / "words.py").write_text("WORDS = 1\n")
    return tmp_path


def test_a_changed_kernel_gets_a_new_cache_and_a_changed_text_does_not(tree: Path) -> None:
    before = source_stamp(tree)
    (tree / "accounting" / "words.py").write_text("WORDS = 2\n")
    assert source_stamp(tree) == before
    (tree / "models" / "kernel.py").write_text("from models.jit import jit  # changed\n")
    assert source_stamp(tree) != before


def test_only_caches_that_nobody_used_for_weeks_are_removed(tmp_path: Path) -> None:
    old, new, foreign = (tmp_path / name for name in ("0" * 16, "1" * 16, "somebody else's"))
    for folder in (old, new, foreign):
        folder.mkdir()
    long_ago = time.time() - 30 * 86_400
    os.utime(old, (long_ago, long_ago))
    os.utime(foreign, (long_ago, long_ago))
    forget_unused(tmp_path)
    assert not old.exists()
    assert new.exists()
    assert foreign.exists()


def test_every_process_compiles_for_the_same_cpu_whatever_the_environment_says() -> None:
    asked = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx512f"}
    code = "from models.jit import numba; print(numba.config.CPU_NAME, repr(numba.config.CPU_FEATURES))"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | asked,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == [CPU, "''"]
    assert (numba.config.CPU_NAME, numba.config.CPU_FEATURES) == (CPU, "")


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
    stamped = {name for name, text in sources.items() if "models.jit" in text}
    imported = {
        node.module
        for name in stamped
        for node in ast.walk(ast.parse(sources[name]))
        if isinstance(node, ast.ImportFrom) and node.module in sources
    }
    assert imported - stamped <= NOT_COMPILED | {"models.jit"}
