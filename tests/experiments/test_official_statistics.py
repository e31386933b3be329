"""The methods beside tallyguard: what each keeps, and that all are measured on the same counts."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from experiments.official_statistics import (
    FARTHEST,
    LEAST_SHOWN,
    SMALL,
    VARIANCE,
    CellKey,
    cell_key,
    main,
    measure,
    methods,
    page,
    perturbation,
    suppressed,
)
from models.mechanisms import check_mechanism
from stream_app.city import CityOptions, build_city

COUNTS = np.random.default_rng(3).poisson(6.0, (48, 4)).astype(np.int64) + np.arange(4) * 40


def test_cell_key_noise_is_bounded_right_on_average_and_shows_no_small_counts() -> None:
    for count in range(1, 12):
        shifts, law = perturbation(count)
        assert float(shifts @ law) == pytest.approx(0.0, abs=1e-6)
        assert float(shifts**2 @ law) == pytest.approx(VARIANCE, abs=1e-6)
        assert set(count + shifts) <= {0, *range(LEAST_SHOWN, count + FARTHEST + 1)}
    assert perturbation(0)[0].tolist() == [0]
    check_mechanism(CellKey())
    assert CellKey().pure_epsilon() == inf
    many = np.full((20_000, 1), 3)
    published = cell_key(many)
    assert (cell_key(many) == published).all()
    assert abs(float(published.mean()) - 3.0) < 4.0 * (VARIANCE / 20_000) ** 0.5


def test_no_day_of_a_sensor_has_just_one_hour_left_out() -> None:
    """Its exact total would give it away."""
    left_out = (suppressed(COUNTS) < 0).reshape(-1, 24, 4)
    small = ((COUNTS > 0) & (COUNTS < SMALL)).reshape(-1, 24, 4)
    assert (left_out | ~small).all()
    one_hour = np.full((24, 1), 9)
    one_hour[5] = 2
    assert set(np.argwhere(suppressed(one_hour) < 0)[:, 0]) == {0, 5}
    assert not (left_out.sum(axis=1) == 1).any()


@pytest.mark.slow
def test_every_method_is_measured_on_the_same_counts() -> None:
    city = build_city(CityOptions(people=20, sensors=4, active=4))
    rows = {each.name: measure(each, COUNTS, city, (23,), draws=200) for each in methods(COUNTS, (3.0,))}
    exact, noised = rows["as counted"], rows["tallyguard, sigma 3"]
    assert exact.error == exact.day_error == 0.0
    for row in rows.values():
        assert row.guess == exact.guess
        assert row.guess[0] <= row.ceiling[0] <= exact.ceiling[0] + 1e-9
        assert row.attack[0] - row.half_width[0] <= row.ceiling[0]
        assert (row.epsilon < inf) == (row is noised)
    assert noised.ceiling[0] < rows["cell-key noise"].ceiling[0]
    assert rows["below 10 left out"].shown < 1.0 == noised.shown
    text = page(list(rows.values()), COUNTS)
    assert text.count("\n|") == 2 + len(rows)
    with pytest.raises(SystemExit, match="not part of the repository"):
        main(["--data", "nowhere"])
