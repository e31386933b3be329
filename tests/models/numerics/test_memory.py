"""A command keeps its pages and looks for garbage rarely; a run and a worker do as Python and glibc do."""

import ctypes
import subprocess
import sys

import pytest

_FAULTS = """
import resource, sys
import numpy as np
from models.numerics.memory import SELDOM, give_memory_back, keep_memory
import gc
usual = gc.get_threshold()
keep_memory()
assert gc.get_threshold() == SELDOM
if sys.argv[1] == "goes on":
    give_memory_back()
    assert gc.get_threshold() == usual and gc.get_freeze_count() > 0
for _ in range(3):
    faults = -resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(10_000_000)
    faults += resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(faults)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="glibc keeps pages when it is told to")
def test_a_command_keeps_the_pages_of_large_arrays_and_what_goes_on_gives_them_back() -> None:
    """80 MB, the third time, are 20,000 pages of 4 kB, or a few of 2 MB."""
    faults = {}
    for kind in ("ends", "goes on"):
        command = [sys.executable, "-c", _FAULTS, kind]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        faults[kind] = int(done.stdout)
    assert faults["ends"] < 20 < faults["goes on"]
