"""The bounds' kernels never read or write outside their arrays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TESTS = (
    "test_bounds.py",
    "test_bounds_erasure.py",
    "test_bounds_feedback.py",
    "test_bounds_sampled.py",
    "test_baseline.py",
)


@pytest.mark.slow
def test_bounds_with_every_index_checked(tmp_path: Path) -> None:
    """The fast tests once more, compiled with NUMBA_BOUNDSCHECK: an index out of range is an error."""
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    files = [f"tests/accounting/{name}" for name in TESTS]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "not slow", *files],
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:]
