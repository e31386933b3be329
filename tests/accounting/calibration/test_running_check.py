"""Evidence that may be looked at after every guess: it seldom accuses the innocent, and finds the rest."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from accounting.audit.calibration import RunningCheck
from accounting.exceptions import SettingsError


def alarms(random: np.random.Generator, excess: float, runs: int, guesses: int = 300) -> list[int]:
    """When each run was refuted, whose people are hit more often than predicted by so much; -1 for never."""
    found = []
    for _ in range(runs):
        check = RunningCheck(level=0.05)
        predicted = random.uniform(0.05, 0.8, size=guesses)
        hits = random.random(guesses) < np.minimum(1.0, predicted + excess)
        when = -1
        for number, (hit, ceiling) in enumerate(zip(hits.tolist(), predicted.tolist(), strict=True)):
            if check.record(hit, ceiling) and when < 0:
                when = number
        assert check.is_refuted == (when >= 0)
        found.append(when)
    return found


def test_right_priors_are_refuted_at_most_at_the_level_however_often_one_looks() -> None:
    """Of 1 000 runs of 300 guesses at most about 50, and it is no test that never alarms."""
    count = sum(when >= 0 for when in alarms(np.random.default_rng(3), 0.0, 1_000))
    assert count >= 5
    assert binom.sf(count - 1, 1_000, 0.05) > 1e-3


def test_people_who_are_easier_to_guess_are_found_soon() -> None:
    """Hit 15 points more often than predicted: nearly all found, half of them within 120 guesses."""
    found = alarms(np.random.default_rng(9), 0.15, 200)
    assert sum(when < 0 for when in found) <= 10
    assert np.median([when for when in found if when >= 0]) < 120


def test_ceilings_that_are_never_reached_are_not_refuted() -> None:
    """Fewer hits than the ceilings allow are no evidence."""
    assert set(alarms(np.random.default_rng(2), -0.2, 100)) == {-1}


def test_the_evidence_is_the_product_and_goes_on_where_it_was() -> None:
    """``prod(1 + stake (a - b))``; a miss under a ceiling of 1 with the whole stake leaves nothing."""
    check = RunningCheck(level=0.1, stake=0.4)
    for hit, ceiling in ((True, 0.2), (False, 0.5), (True, 0.0)):
        check.record(hit, ceiling)
    product = (1 + 0.4 * 0.8) * (1 - 0.4 * 0.5) * (1 + 0.4)
    assert check.log_evidence == pytest.approx(np.log(product))
    later = RunningCheck(level=0.1, stake=0.4, log_evidence=check.log_evidence)
    assert later.record(True, 0.3) == check.record(True, 0.3)
    assert later.log_evidence == check.log_evidence
    assert RunningCheck(level=0.1, log_evidence=2.4).is_refuted
    lost = RunningCheck(stake=1.0)
    assert not lost.record(False, 1.0)
    assert lost.log_evidence == float("-inf")


def test_a_refutation_is_not_taken_back() -> None:
    """Later misses lower the evidence; the alarm stays."""
    check = RunningCheck(level=0.5)
    while not check.record(True, 0.1):
        pass
    for _ in range(50):
        assert check.record(False, 0.9)
    assert check.log_evidence < 0


@pytest.mark.parametrize("wrong", [{"level": 0.0}, {"level": 1.0}, {"stake": 0.0}, {"stake": 1.1}])
def test_settings_out_of_range_are_errors(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError):
        RunningCheck(**wrong)
    with pytest.raises(SettingsError, match="between 0 and 1, got"):
        RunningCheck().record(True, 1.2)
