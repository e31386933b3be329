"""Kernels never read or write outside their arrays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from models.numerics.kernel_cache import WANTED
from models.numerics.shipped import VARIABLE
from tests import ROOT
from tests.volume import PARTS, turn

ONE_TOO_FAR = """
import sys
import numpy as np
import tests.index_checks
from accounting.hmm.eight import load, store
from models.numerics.jit import bare_jit, inline, jit, pjit

@inline
def clear(values, i):
    values[i] = 0.0

@jit
def clear_one(values, i):
    clear(values, i)

@pjit(lambda values, count: count)
def clear_first(begin, end, values, count):
    for i in range(begin, end):
        clear_one(values, i)

@bare_jit
def load_eight(values, i):
    store(load(values, i), values, 0)

@bare_jit
def store_eight(values, i):
    store(load(values, 0), values, i)

for kernel, size, fits, too_far in (
    (clear_one, 3, 2, 3),
    (clear_one, 3, -3, -4),
    (clear_first, 3, 3, 4),
    (load_eight, 10, 2, 3),
    (load_eight, 10, 0, -1),
    (store_eight, 10, 2, 3),
):
    kernel(np.zeros(size), fits)
    try:
        kernel(np.zeros(size), too_far)
    except IndexError as error:
        print(kernel.__name__, error)
"""


def checked(*arguments: str | Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """Python with every index of an array checked."""
    environment = {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_OPT": "1",  # compiling takes longer than running
        "EXAMPLE_PARTS": "16",  # which places an array has does not depend on the numbers in it
        "NUMBA_CACHE_DIR": str(cache),
        VARIABLE: "",
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_an_index_one_too_far_is_found_in_every_sort_of_kernel(tmp_path: Path) -> None:
    """What the next test rests on: also in a kernel compiled into its caller, below a loop over people."""
    script = tmp_path / "one_too_far.py"
    script.write_text(ONE_TOO_FAR)
    run = checked(script, cache=tmp_path)
    kernels = ("clear_one", "clear_one", "clear_first", "load_eight", "load_eight", "store_eight")
    found = [f"{name} index is out of bounds" for name in kernels]
    assert run.stdout.splitlines() == found, run.stderr


@pytest.mark.thorough
@pytest.mark.slow
def test_no_test_of_a_kernel_makes_it_leave_its_arrays() -> None:
    """Fast tests of models and accounting, and those marked, once more, with kernels that check every index.

    Those of a sixteenth of the files, others at each turn: compiling them takes most of the time.

    Tests of compiling itself are left out: they start processes with kernels of their own.

    Such kernels are kept apart. Not seen are loads and stores
    that are written for the compiler (``models.numerics.jit.intrinsic``) but for those of
    ``accounting.hmm.eight``, an index just below zero, which counts from the end, and one that stays inside
    an array that people share.
    """
    assert WANTED is not None
    cache = WANTED.with_name("kernels-checked")
    left_out = {ROOT / f"tests/models/numerics/test_{name}.py" for name in ("jit", "compiling")}
    files = sorted(
        each for room in ("models", "accounting") for each in (ROOT / "tests" / room).rglob("test_*.py")
    )
    parts = PARTS if PARTS == 1 else 2 * PARTS
    of_today = [str(each) for each in files[turn() % parts :: parts] if each not in left_out]
    chosen = ["-p", "tests.index_checks", "-m", "not slow or indices", *of_today]
    run = checked("-m", "pytest", "-x", "-o", "tmp_path_retention_policy=failed", *chosen, cache=cache)
    assert run.returncode == 0, run.stdout[-4000:]
