"""Compiling with less work in numba's front end gives the same machine code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

KERNELS = """
import numpy as np
from models.numerics.jit import bare_jit, inline, jit


@inline
def larger(values, i, j):
    return max(values[i, 0], values[j, 1])


@bare_jit
def share(values, i, least):
    return values[i, 1] // 3.0 if values[i, 0] > least and not values[i, 0] == 3.0 else least


@jit
def of_all(values, order, least=1.0):
    if values.size > 30:
        raise ValueError("at most 30 values, got", values.size)
    out = np.zeros((values.shape[0], 2))
    found = [0.5]
    for i in range(values.shape[0]):
        out[order[i]] = values[i]
        out[i, 1] += larger(values, i, order[i]) ** 2 - np.log(values[i, 1]) % 2
        out[i, 0] += larger(values, order[i], i) * share(values, i, least) + share(values, order[i], 2)
        if out[i, 0] > least:
            found.append(float(order[i] << 1))
    out[:, 0] = np.sort(values[:, 1])
    return out.sum() + len(found) + (values @ out.T).max(), (order > 1).any()
"""
USE = """
import sys
from models.numerics import front_end

if sys.argv[1] != "shortened":
    front_end._TRIED = ()
counted, shortened = [], front_end.replaced
front_end.replaced = lambda *parts: counted.extend(parts[1]) or shortened(*parts)
import numpy as np
from kernels import larger, of_all

larger(np.ones((3, 2)), 0, 1)
of_all(np.ones((3, 2)), np.arange(3))
assert ("__hash__" in counted) == (sys.argv[1] == "shortened")
for kernel in (larger, of_all):
    print("".join(kernel.inspect_asm().values()))
"""


@pytest.mark.slow
def test_the_machine_code_is_that_of_numbas_own_front_end(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS)
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    codes = []
    for front_end in ("shortened", "as it is"):
        own = {"NUMBA_CACHE_DIR": str(tmp_path / front_end), "PYTHONPATH": path, "PYTHONHASHSEED": "0"}
        run = [sys.executable, "-c", USE, front_end]
        done = subprocess.run(run, env=os.environ | own, check=True, capture_output=True, text=True)
        codes.append(re.sub("0x[0-9a-f]+", "address", done.stdout))
    assert codes[0].count("\n") > 1000
    assert codes[0] == codes[1]
