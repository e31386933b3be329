"""Importing tallyguard, and using it, changes nothing that the rest of the process or the machine sees."""

# ruff: noqa: E501 - what another process runs, or says, is one line
from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import ROOT

SEEN = """
import decimal, faulthandler, gc, json, locale, logging, multiprocessing, os, random, re, signal, sys, threading, warnings
import numba, numpy as np, polars, pyarrow
import scipy.sparse, scipy.special  # which add filters of warnings of their own
import llvmlite.binding as llvm
from numba.core import errors, event, ir, typeinfer
from numba.core.compiler import Compiler
from numba.core.cpu import CPUContext
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.core.targetconfig import TargetConfig
from numba.core.types.functions import BaseFunction
from numba.misc import mergesort
from numba.np import arrayobj
from numba.np.ufunc import parallel

PATCHABLE = (BaseFunction, CPUContext, Compiler, Dispatcher, TargetConfig, arrayobj, errors, ir.Inst, ir.Loc, mergesort)

def names(owner):
    return {name: id(each) for name, each in vars(owner).items() if name not in ("_sorts", "__warningregistry__")}

def seen():
    logs = {name: each for name, each in logging.Logger.manager.loggerDict.items() if isinstance(each, logging.Logger)}
    return {
        "environment": dict(os.environ),
        "numba's settings": {n: repr(v) for n, v in vars(numba.config).items() if n.isupper()},
        "numba's parts": [names(each) for each in PATCHABLE],
        "numba's listeners": {kind: len(each) for kind, each in event._registered.items() if each},
        "numba's threads": parallel._is_initialized,
        "LLVM's listeners": len(llvm.ffi.lib._lock._cblist),
        "warnings": list(map(str, warnings.filters)),
        "showwarning": id(warnings.showwarning),
        "logging": [logging.root.level, len(logging.root.handlers), logging.root.disabled, logging.raiseExceptions]
        + [(n, each.level, len(each.handlers)) for n, each in sorted(logs.items()) if each.level or each.handlers],
        "signals": {str(each): str(signal.getsignal(each)) for each in signal.valid_signals()},
        "threads": sorted(each.name for each in threading.enumerate() if not each.name.startswith("people")),
        "matplotlib": repr(sys.modules["matplotlib"].rcParams["backend"]) if "matplotlib" in sys.modules else None,
        "numpy": [repr(np.geterr()), repr(np.get_printoptions()), repr(np.geterrcall())],
        "numbers drawn": [repr(np.random.get_state()[1][:4]), repr(random.getstate()[1][:4])],
        "locale": locale.setlocale(locale.LC_ALL),
        "path": list(sys.path),
        "hooks": [id(sys.excepthook), id(sys.displayhook), id(threading.excepthook), len(sys.meta_path)],
        "multiprocessing": multiprocessing.get_start_method(allow_none=True),
        "polars": polars.Config.state(),
        "pyarrow": [pyarrow.cpu_count(), pyarrow.io_thread_count(), pyarrow.default_memory_pool().backend_name],
        "garbage": [gc.isenabled(), list(gc.get_threshold()), gc.get_freeze_count()],
        "decimal": repr(decimal.getcontext()),
        "limits": [sys.getrecursionlimit(), sys.getswitchinterval(), sys.getdlopenflags()],
        "faulthandler": faulthandler.is_enabled(),
        "folder": os.getcwd(),
        "mask of files": (lambda mask: (os.umask(mask), mask)[1])(os.umask(0)),
    }

def stranger():
    @numba.njit
    def assign(x, y):
        x[:] = y
        return np.sort(x)[0] + np.argsort(x, kind="mergesort")[0]
    return assign

def told(assign):
    try:
        assign(np.zeros(3), np.zeros(4))
    except ValueError as error:
        told = [str(error)]
    try:
        assign(1, 2)
    except numba.TypingError as error:
        told.append(str(error).split("File ")[0])
    codegen = assign.targetctx.codegen()
    # numba indents each error of a function by more than the one before
    told = [' '.join(re.sub('0x[0-9a-f]+', 'address', each).split()) for each in told]
    return [*told, list(map(str, codegen.magic_tuple())), type(assign._cache).__name__, sorted(map(str, assign.signatures))]
"""
BEFORE_AND_AFTER = (
    SEEN
    + """
first, unused = stranger(), stranger()
expected = told(first)
before = seen()
import tallyguard as tg
imported = seen()
ada = tg.Prior.from_dense("ada", [[0.9, 0.1], [0.4, 0.6]])
tg.audit(ada, tg.Schedule.gaussian([[1]] * 2, 2.0), mistakes=0)
tg.plan(ada, tg.Schedule.raw([[1]] * 2), mistakes=0, horizon=2, added=0.5)
tg.ledger(tg.Schedule.gaussian([[1]] * 2, 2.0))
audited = seen()
later = [told(each) for each in (unused, stranger())]
changed = {
    when: {name: [before[name], after[name]] for name in before if before[name] != after[name]}
    for when, after in (("import", imported), ("audit", audited))
}
print(json.dumps({"changed": changed, "same words": [each == expected for each in later], "told": later}))
"""
)


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{}, {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""}], ids=["plain", "own"]
)
def test_nothing_that_others_see_is_changed_by_importing_or_auditing(settings: dict[str, str]) -> None:
    """Nor for kernels of other people, compiled before and after: their CPU, their words, no cache of ours."""
    found = json.loads(run(BEFORE_AND_AFTER, **settings))
    assert found["changed"] == {"import": {}, "audit": {}}
    assert found["same words"] == [True, True], found["told"]


@pytest.mark.slow
def test_other_peoples_kernels_are_the_same_whether_or_not_we_were_imported_first() -> None:
    """A process that imports and uses us before it knows numba compiles as one without us."""
    use = (
        "import tallyguard as tg; tg.certify(tg.Prior.from_dense('a', [[1.0]]), tg.Schedule.raw([[0]]), 0)\n"
    )
    told = "\nprint(json.dumps(told(stranger())))"
    assert run(use + SEEN + told) == run("\n" + SEEN + told)  # on the same lines, which errors name


@pytest.mark.slow
def test_our_kernels_are_the_same_whatever_others_have_set_or_compiled(tmp_path: Path) -> None:
    """They came for the CPU of whoever had compiled first: other bits than on the next machine."""
    code = """
import numba, numpy as np
before = numba.njit(lambda x: x + 1)
before(1.0)
from models.numerics.eigenvalues import _below
_below(np.ones(2), np.ones(1), 0.5)
print(_below.targetctx.codegen().magic_tuple()[1:3], before.targetctx.codegen() is _below.targetctx.codegen())
print("".join(_below.inspect_asm().values()).count("zmm"))
"""
    asked = {"NUMBA_CPU_NAME": "skylake-avx512", "NUMBA_CPU_FEATURES": "", "NUMBA_DISABLE_JIT": "0"}
    asked |= {"NUMBA_CACHE_LOCATOR_CLASSES": "InTreeCacheLocator", "NUMBA_CACHE_DIR": str(tmp_path)}
    for environment in ({}, {key: value for key, value in asked.items() if key != "NUMBA_CPU_NAME"}):
        assert run(code, **environment).splitlines() == ["('x86-64-v3', '') False", "0"]
    kept = list(tmp_path.rglob("*.nbi"))
    assert kept
    assert {each.parents[1] for each in kept} == {tmp_path / "tallyguard"}


@pytest.mark.slow
def test_importing_touches_no_folder_of_others(tmp_path: Path) -> None:
    """A variable of numba's names the folder, which is often one for temporary files."""
    theirs = [tmp_path / name for name in ("thesis-chapter-1", "0123456789abcdef")]
    for folder in theirs:
        folder.mkdir()
        (folder / "t.tex").write_text("years of work")
        os.utime(folder, (time.time() - 40 * 86_400,) * 2)
    run("import tallyguard", NUMBA_CACHE_DIR=str(tmp_path))
    assert sorted(tmp_path.iterdir()) == sorted(theirs)
    run(
        "import numpy as np; from models.numerics.eigenvalues import _below; _below(np.ones(2), np.ones(1), 0.5)",
        NUMBA_CACHE_DIR=str(tmp_path),
    )
    assert sorted(tmp_path.iterdir()) == sorted([*theirs, tmp_path / "tallyguard"])
    assert all((folder / "t.tex").read_text() == "years of work" for folder in theirs)
