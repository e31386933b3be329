"""Where tests find the reference numbers and real check-ins that are not part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_DEFAULT = Path(__file__).resolve().parents[2] / "shared"


def shared(path: str) -> Path:
    """The file ``path`` of the shared material; skips the test, with the reason, where it is missing.

    ``TALLYGUARD_SHARED`` names another folder than the one beside the checkout.
    """
    found = Path(os.environ.get("TALLYGUARD_SHARED", _DEFAULT)) / path
    if not found.exists():
        pytest.skip(f"{path} is not part of the repository and was not found beside it (TALLYGUARD_SHARED)")
    return found
