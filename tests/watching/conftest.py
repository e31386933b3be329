"""A browser that the tests of a file share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for all pages."""
    from tests.watching.browser import chromium  # needs playwright, which most tests do without

    with chromium() as running_browser:
        yield running_browser
