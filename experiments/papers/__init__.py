"""Every figure, table and example of the papers behind this engine: ``python -m experiments.papers NAME``."""

from __future__ import annotations

from typing import NamedTuple


class Claim(NamedTuple):
    """One number or sentence of a paper beside ours, and in words whether they agree."""

    part: str
    what: str
    paper: str
    here: str
    agrees: str
