"""Kernels that kernels call: linked, without an entry and machine code of their own, or shared."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

KERNELS = """
import numpy as np
from models.numerics.jit import bare_jit, jit


@bare_jit
def share(values, i, least=1.0):
    return max(values[i], least) / 3.0


@jit
def shares(values, least=1.0):
    if values.size > 3:
        raise ValueError("at most 3 values, got", values.size)
    out = np.empty(values.size)
    for i in range(values.size):
        out[i] = share(values, i, least=least) + share(values, 0, least=1.0)
    return out


@jit
def total(values):
    return shares(values, 2.0).sum() + shares(values).sum()


@jit
def doubled(values):
    return 2.0 * total(values)
"""
USE = """
import sys
import numpy as np
from kernels import doubled, share, shares, total

linked = ["kernels of numba" for each in (share, shares) if each.overloads]
values = np.array([3.0, 0.5])
print(doubled(values), total(values), doubled(values.astype(np.float32)), linked)
try:
    total(np.ones(4))
except ValueError as error:
    print(error.args)
print(shares(values)[1], share(values, 1))
print(sum(sum(each.stats.cache_misses.values()) for each in (doubled, share, shares, total)))
"""


NUMBAS_OWN = """
import sys
import numpy as np
from models.numerics import jit
from numba.core.codegen import JITCodeLibrary

made, finalize = [], JITCodeLibrary._finalize_specific
JITCodeLibrary._finalize_specific = lambda library: made.append(library.name) or finalize(library)

@jit.jit
def sorted_copy(values, size):
    out = np.empty(size)
    out[:] = values
    out.sort()
    return out

print(sorted_copy(np.array([3.0, 1.0]), 2), made)
try:
    sorted_copy(np.ones(3), 2)
except ValueError as error:
    print(error)
"""


@pytest.mark.slow
def test_machine_code_is_made_of_what_python_calls_and_not_of_what_that_uses_of_numba(tmp_path: Path) -> None:
    """Sorting and making an array are dozens of functions; another shape is refused without texts."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    script = tmp_path / "own.py"
    script.write_text(NUMBAS_OWN)
    run = [sys.executable, script]
    done = subprocess.run(run, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "[1. 3.] ['nrt', 'sorted_copy']",
        "cannot assign an array to a slice of another shape",
    ]


@pytest.fixture
def said(tmp_path: Path) -> list[list[str]]:
    """What two processes print, of which the second finds what the first has compiled."""
    (tmp_path / "kernels.py").write_text(KERNELS)
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": path}
    run = [sys.executable, "-c", USE]
    return [
        subprocess.run(run, env=environment, check=True, capture_output=True, text=True).stdout.splitlines()
        for _ in range(2)
    ]


@pytest.mark.slow
def test_a_linked_kernel_computes_raises_and_is_kept_as_one_that_python_calls(said: list[list[str]]) -> None:
    """Also where Python calls it, too, with defaults, keywords, other types, and arguments in the error."""
    total = (1.0 + 1.0) + (2.0 / 3.0 + 1.0) + (1.0 + 1.0) + (1.0 / 3.0 + 1.0)
    for lines in said:
        doubled, once, single, linked = lines[0].split(" ", 3)
        assert float(once) == pytest.approx(total)
        assert float(doubled) == float(single) == pytest.approx(2 * total)
        assert linked == "[]"
        assert lines[1] == "('at most 3 values, got', 4)"
        assert lines[2].split() == [repr(1.0 / 3.0 + 1.0), repr(1.0 / 3.0)]
    assert said[0][-1] == "5"
    assert said[1][-1] == "0"


@pytest.mark.slow
def test_a_caller_compiled_later_links_what_was_kept(tmp_path: Path) -> None:
    """Each process compiles what is new to it; a number written in a call is compiled as any other."""
    (tmp_path / "kernels.py").write_text(KERNELS)
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": path}

    def compiled(use: str) -> list[str]:
        code = (
            "import numpy as np; from numba.core import event; import kernels\n"
            "class Listener(event.Listener):\n"
            "    def on_start(self, event):\n"
            "        function = event.data['dispatcher'].py_func\n"
            "        if function.__module__ == 'kernels': print(function.__qualname__)\n"
            "    def on_end(self, event): pass\n"
            "event.register('numba:compile', Listener())\n" + use
        )
        run = [sys.executable, "-c", code]
        done = subprocess.run(run, env=environment, check=True, capture_output=True, text=True)
        return done.stdout.splitlines()

    assert compiled("kernels.shares(np.ones(2))") == ["shares", "share.linked"]
    assert compiled("print(kernels.total(np.ones(2)))") == [
        "total",
        *["shares.linked"] * 2,
        "3.333333333333333",
    ]
    assert compiled("print(kernels.doubled(np.ones(2)))") == ["doubled", "total.linked", "6.666666666666666"]


@pytest.mark.slow
def test_a_shared_kernel_has_machine_code_that_its_callers_call(tmp_path: Path) -> None:
    """It is compiled once, kept, and loaded before its callers; who called what was compiled again since is
    compiled again, as the code has another name then."""
    shared = KERNELS.replace("import bare_jit, jit", "import bare_jit, jit, shared")
    for kernel in ("@bare_jit\ndef share(", "@jit\ndef shares("):
        assert kernel in shared
        shared = shared.replace(kernel, f"@shared\n{kernel}")
    (tmp_path / "kernels.py").write_text(shared)
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": path}
    use = USE.replace(
        "print(sum(",
        "library = total.overloads[total.signatures[0]].library\n"
        "print(any('share' in each.name for each in library.get_defined_functions()))\n"
        "print(sum(",
    )

    def said() -> list[str]:
        run = [sys.executable, "-c", use]
        return subprocess.run(
            run, env=environment, check=True, capture_output=True, text=True
        ).stdout.splitlines()

    compiled, loaded = said(), said()
    (index,) = (tmp_path / "cache").rglob("kernels.share-*.nbi")
    index.unlink()
    compiled_again, loaded_again = said(), said()
    for lines in (compiled, loaded, compiled_again, loaded_again):
        assert lines[:3] == compiled[:3]
        assert lines[1] == "('at most 3 values, got', 4)"
    assert (compiled[3], compiled_again[3]) == ("False", "False")
    assert [lines[-1] for lines in (compiled, loaded, compiled_again, loaded_again)] == ["10", "0", "10", "0"]
