"""Risk of a horizon inside a longer log against the best adversary by enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from accounting.bounds import Effort, all_bounds, question
from accounting.bounds.certified import horizon_risk
from accounting.exposure.exposure import entropy_nats
from tests.accounting.chains import random_case
from tests.accounting.enumeration import optimum_success
from tests.accounting.exposure.test_history import exposure_of
from tests.accounting.exposures import RAW, exposure_to, gaussian, raw_exposure, step_of
from tests.volume import randoms


def check(rng: np.random.Generator, largest: int, longest: int) -> float:
    """One random log and window, every number of mistakes; the smallest certified risk seen."""
    case = random_case(rng, largest=largest, longest=longest)
    steps = len(case.labels)
    first = int(rng.integers(steps))
    last = int(rng.integers(first, steps))
    exposure = exposure_of(case)
    lowest = 1.0
    for in_hindsight in (False, True):
        seen = case.labels if in_hindsight else case.labels[: last + 1]
        for mistakes in range(last - first + 1):
            found = horizon_risk(
                exposure,
                first,
                last,
                mistakes,
                in_hindsight=in_hindsight,
                effort=Effort(order=2, patterns=64),
            )
            best = optimum_success(case.start, case.matrices, seen, (first, last), mistakes, case.first_slot)
            assert found.certified >= best - 1e-10
            assert found.baseline <= best + 1e-10
            lowest = min(lowest, found.certified)
    return lowest


@pytest.mark.parametrize("seed", range(2))
def test_no_adversary_beats_the_risk_at_the_moment_or_in_hindsight(seed):
    rng = np.random.default_rng(seed)
    lowest = np.array([check(rng, largest=3, longest=5) for _ in range(30)])
    assert (lowest < 0.95).sum() > 8


@pytest.mark.parametrize("in_hindsight", [False, True])
def test_a_person_whose_place_is_certain_but_for_rounding_has_a_risk(in_hindsight):
    """Shares may add up to just above one; their entropy, below a root, is none and not below none."""
    start = np.array([np.nextafter(1.0, 2.0), 0.0])
    exposure = exposure_to(start, np.eye(2), [step_of([0, 1], [gaussian(1.0)] * 2)] * 4)
    assert entropy_nats(start) == 0.0
    assert horizon_risk(exposure, 1, 2, 0, in_hindsight=in_hindsight).certified == 1.0


@pytest.mark.thorough
@pytest.mark.slow
def test_no_adversary_beats_the_risk_on_many_logs():
    lowest = np.array([check(rng, largest=4, longest=5) for rng in randoms(77, 600)])
    assert np.mean(lowest < 0.95) > 1 / 3


@pytest.mark.slow
def test_what_is_kept_for_other_noise_changes_no_bit():
    """Of the same counts, raw ones among them, and then of others: as if nothing had been asked before."""
    rng = np.random.default_rng(31)
    for _ in range(20):
        case = random_case(rng, largest=3, longest=5)
        steps, effort = len(case.labels), Effort(order=2, patterns=64)
        window = int(rng.integers(steps)), steps - 1
        where = [np.flatnonzero(row)[:1].tolist() for row in case.labels]
        before = None
        for at, sigma in product((where, where[::-1]), (0.7, None, 2.0)):
            mechanism = RAW if sigma is None else gaussian(sigma)
            schedule = [step_of(each, [mechanism] * len(each)) for each in at]
            anew = exposure_to(case.start, case.matrices, schedule, case.first_slot)
            before = anew if before is None else before.under(anew.observations)
            for in_hindsight in (False, True):
                kept = {"in_hindsight": in_hindsight, "effort": effort}
                assert horizon_risk(before, *window, 0, **kept) == horizon_risk(anew, *window, 0, **kept)
            assert all_bounds(question(before, 0, effort)) == all_bounds(question(anew, 0, effort))


@pytest.mark.parametrize("before", [True, False], ids=["count before", "count after"])
@pytest.mark.parametrize("keep", [0.5, 0.7, 0.9])
def test_what_is_nearly_forgotten_is_not_rounded_away(before, keep):
    """A count ``n`` steps away is worth ``keep^n / 2``, however little: its information is the square of it.

    Two places, nothing lost but by the move: the optimum is a half and that much more. As a difference of
    two entropies the information was 0 from 1e-8 on.
    """
    move = np.array([[1 + keep, 1 - keep], [1 - keep, 1 + keep]]) / 2
    for away in (1, 3, *range(20, 220, 4)):
        steps = [[0], *[[]] * away] if before else [*[[]] * away, [0]]
        exposure = raw_exposure(np.full(2, 0.5), move, steps)
        asked = away if before else 0
        found = horizon_risk(exposure, asked, asked, 0, in_hindsight=True)
        assert 0.0 <= found.certified - 0.5 * (1 + keep**away) <= 1e-9 + 0.3 * keep**away


def test_who_hardly_ever_moves_is_known_from_before_however_rare_a_move_is():
    """What a count says of a place is not lost where another place is all but impossible after it."""
    for away in (0.0, 1e-10, 5e-18, 1e-300):
        move = np.array([[1 - away, away], [away, 1 - away]])
        start = np.array([0.4, 0.6])
        both = [step_of([0], [RAW]), step_of([], []), step_of([0], [RAW]), step_of([], [])]
        exposure = exposure_to(start, move, both)
        for window in ((1, 3), (1, 1), (3, 3)):
            assert horizon_risk(exposure, *window, 0).certified >= 1.0 - 1e-9
        later = exposure_to(start, move, [step_of([], [])] * 3 + [step_of([0], [RAW])])
        assert horizon_risk(later, 0, 1, 0, in_hindsight=True).certified >= 1.0 - 1e-9


@pytest.mark.parametrize("seed", range(2))
def test_rows_that_are_nearly_equal_are_not_rounded_away(seed):
    """The same for any chain whose places forget nearly all at once, at rounding's own size."""
    rng = np.random.default_rng(seed)
    for _ in range(60):
        places, steps = int(rng.integers(2, 4)), int(rng.integers(2, 6))
        law, others = rng.dirichlet(np.ones(places)), rng.dirichlet(np.ones(places), size=places)
        move = law + 10.0 ** rng.integers(-15, -2) * (others - law)
        labels = (rng.random((steps, places)) < 0.4) * np.arange(1, places + 1)
        start = rng.dirichlet(np.ones(places))
        first = int(rng.integers(steps))
        last = int(rng.integers(first, steps))
        exposure = raw_exposure(start, move, [np.flatnonzero(row).tolist() for row in labels])
        for in_hindsight in (False, True):
            seen = labels if in_hindsight else labels[: last + 1]
            best = optimum_success(start, move[np.newaxis], seen, (first, last), 0)
            found = horizon_risk(exposure, first, last, 0, in_hindsight=in_hindsight)
            assert found.certified >= best - 4e-15
