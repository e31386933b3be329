"""What numpy, OpenBLAS and numba are told about the CPU, to see another one's bits on this machine.

``python -m tests.bits.cpus tests/test_readme.py`` runs tests as a machine without AVX-512 would; on such a
machine there is nothing to do, as all tests have run so.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

NEWER = {"NPY_DISABLE_CPU_FEATURES": "", "OPENBLAS_CORETYPE": "", "NUMBA_CPU_NAME": ""}
OLDER = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    "OPENBLAS_CORETYPE": "Haswell",
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "",
}
"""An x86-64-v3 machine: AVX2 and no AVX-512."""


def has_avx512() -> bool:
    """Whether this machine has what :data:`OLDER` hides."""
    flags = Path("/proc/cpuinfo").read_text()
    return "avx512f" in flags.split()


if __name__ == "__main__":
    if not has_avx512():
        print("this machine has none: the tests above ran so")
        sys.exit()
    os.execve(sys.executable, [sys.executable, "-m", "pytest", *sys.argv[1:]], os.environ | OLDER)
