"""Whoever waits for kernels to be compiled is told so; who finds them compiled is not."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from models.numerics.shipped import VARIABLE
from tests import ROOT

CODE = """
import sys
import models.numerics.compiling
models.numerics.compiling._PATIENCE = 0.0
{before}
import numpy as np
from models.numerics.eigenvalues import _below
_below(np.ones(2), np.ones(1), 0.5)
"""
ANNOUNCED = "compiling for this machine, once"
A_LOG = "import logging; logging.basicConfig(format='log: %(message)s', level='INFO')"
A_QUIET_LOG = A_LOG.replace("INFO", "WARNING")
OURS_QUIET = f"{A_QUIET_LOG}; logging.getLogger('models').setLevel('WARNING')"
A_TERMINAL = "sys.stderr.isatty = lambda: True"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("", f"{ANNOUNCED} (up to some minutes)\n"),
        (A_LOG, f"log: {ANNOUNCED} (up to some minutes)\n"),
        (A_QUIET_LOG, f"{ANNOUNCED} (up to some minutes)\n"),
        (OURS_QUIET, ""),
    ],
    ids=["no log", "log", "log of warnings", "our own level"],
)
def test_a_line_says_that_kernels_are_compiled_and_none_when_they_are_there(
    tmp_path: Path, before: str, said: str
) -> None:
    """A notebook's log of warnings does not silence it; a deployment that wants only warnings of us does."""
    assert stderr_of(before, tmp_path) == said
    assert stderr_of(before, tmp_path) == ""


@pytest.mark.slow
def test_a_terminal_shows_a_bar(tmp_path: Path) -> None:
    shown = stderr_of(A_TERMINAL, tmp_path, FORCE_COLOR="1", COLUMNS="100")
    assert ANNOUNCED in shown
    assert "0 kernels" in shown
    assert ANNOUNCED not in stderr_of(A_TERMINAL, tmp_path, FORCE_COLOR="1")


def stderr_of(before: str, cache: Path, **more: str) -> str:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), VARIABLE: ""} | more
    command = [sys.executable, "-c", CODE.format(before=before)]
    run = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    return run.stderr


@pytest.mark.slow
def test_what_another_process_compiles_is_waited_for_and_loaded(tmp_path: Path) -> None:
    """The file of the lock is open in this process, as if it compiled: what is kept is not there yet."""
    stderr_of("", tmp_path)
    (lock,) = tmp_path.glob("tallyguard/*/_below.lock")
    (index,) = lock.parent.glob("*_below*.nbi")
    index.rename(index.with_suffix(".away"))
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), VARIABLE: ""}
        command = [sys.executable, "-c", CODE.format(before="")]
        waiting = subprocess.Popen(command, env=environment, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        assert waiting.stderr is not None
        assert "another process compiles what this one needs" in waiting.stderr.readline()
        assert waiting.poll() is None
        index.with_suffix(".away").rename(index)
    assert waiting.communicate(timeout=60) == (None, "")
    assert waiting.returncode == 0


@pytest.mark.slow
def test_who_was_stopped_while_it_loaded_holds_up_nobody(tmp_path: Path) -> None:
    """What is kept is loaded, whoever holds the lock."""
    stderr_of("", tmp_path)
    (lock,) = tmp_path.glob("tallyguard/*/_below.lock")
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert stderr_of("", tmp_path) == ""
