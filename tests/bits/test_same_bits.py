"""The same bits on every x86-64-v3 machine: with AVX-512 or without, whatever the linear algebra prefers."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests import ROOT
from tests.bits.cpus import NEWER, OLDER


def digests(cpu: dict[str, str]) -> dict[str, str]:
    """The sample's digests in a process that sees this CPU."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.bits.sample"],
        env=os.environ | cpu,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    return json.loads(run.stdout)


@pytest.mark.slow
def test_everything_that_is_told_has_the_same_bits_with_and_without_avx512() -> None:
    """Workers on both take people over from each other, and must not contradict what was published."""
    newer, older = digests(NEWER), digests(OLDER)
    assert len(newer) > 5
    assert older == newer


@pytest.mark.slow
def test_the_older_cpu_is_really_another_one() -> None:
    """Otherwise the comparison would show nothing: numpy's own exponential does differ, where it can."""
    code = (
        "import numpy, hashlib; x = numpy.linspace(0.01, 9, 9999); a = x.reshape(99, 101); "
        "print(numpy._core._multiarray_umath.__cpu_features__['AVX512_SKX'], "
        "hashlib.sha256(numpy.exp(-x).tobytes() + (a @ a.T).tobytes()).hexdigest())"
    )
    seen = [
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | cpu, capture_output=True, text=True, check=True
        ).stdout.split()
        for cpu in (NEWER, OLDER)
    ]
    if seen[0][0] == "False":
        pytest.skip("this machine has no AVX-512: it is the older one itself")
    assert seen[1][0] == "False"
    assert seen[0][1] != seen[1][1]
