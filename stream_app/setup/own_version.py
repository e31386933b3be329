"""The version of this program."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

NOT_INSTALLED = "unknown"


@cache
def own_version() -> str:
    """The installed version; :data:`NOT_INSTALLED` in a checkout that was never installed."""
    try:
        return version("tallyguard")
    except PackageNotFoundError:
        return NOT_INSTALLED
