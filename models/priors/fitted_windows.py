"""Which windows of real time priors were fitted to, so that nobody checks them on the same."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FittedWindows:
    """How check-ins became windows, as named by the options of fitting, and the end of the last fitted one.

    ``origin`` is the Unix time in seconds of window 0, in slot 0, or ``"epoch"`` for whole windows since
    1970. Windows from ``until_seconds`` on were not fitted.
    """

    window_seconds: int
    origin: int | str
    window_place: str
    elsewhere: str
    elsewhere_name: str
    until_seconds: int
