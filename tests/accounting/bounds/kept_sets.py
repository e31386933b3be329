"""The erasure bound by all of its kept sets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from accounting.bounds.noised import erasure_bound


@contextmanager
def all_kept_sets() -> Iterator[None]:
    """They are looked at however little they may lower other bounds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(erasure_bound, "_LEAST_GAIN", -1.0)
        patch.setattr(erasure_bound, "_LEAST_SHARE", -10.0)
        yield
