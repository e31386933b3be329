"""How many random cases the four longest property tests try.

Continuous integration has an hour on a slow machine with two cores: it tries a quarter of them, always the
same ones. ``make thorough`` tries all.
"""

from __future__ import annotations

import os


def cases(number: int) -> int:
    """Of ``number`` cases, how many to try."""
    return number if os.environ.get("THOROUGH") else number // 4
