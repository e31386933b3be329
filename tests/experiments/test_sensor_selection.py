"""Selections of sensors at equal risk."""

from __future__ import annotations

import pytest

from experiments.decisions import simulated_city
from experiments.sensor_selection import WAYS, installed, rows_of, table


@pytest.mark.slow
def test_every_selection_keeps_the_limit_and_the_adaptive_ones_use_it() -> None:
    """Fixed, random and adaptive selections let no more people over the limit than allowed."""
    rows = list(rows_of(installed(simulated_city(60, 4, 3)), 0.05, draws=1))
    assert tuple(row.way for row in rows) == WAYS
    assert all(row.over <= row.share_allowed for row in rows)
    assert max(row.released for row in rows if row.way.startswith("adaptive")) > 0
    assert f"{rows[0].released:.1%} ({rows[0].over:.1%} over)" in table(rows)
