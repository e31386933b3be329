"""No attack is shown above its ceiling, and one that proves a ceiling wrong is an error."""

from __future__ import annotations

import numpy as np
import pytest

import tallyguard as tg
from accounting.attacks import AttackResult
from accounting.bounds.certified import Tried, smallest
from accounting.bounds.protocol import Effort
from accounting.continuous.shadow import AttackedPart, mean_attack
from accounting.exceptions import AttackAboveCeilingError
from models.mechanisms import promises
from tests.models.mechanisms.test_promises import Own, raw

ADA = tg.Prior.from_dense("ada", [[0.9, 0.1], [0.4, 0.6]])
STEPS = [[1], [], [1]]


@pytest.mark.parametrize("sigma", [1.0, 2.0, 3.0, 10.0, 100.0])
def test_no_seed_and_no_noise_shows_an_attack_above_the_ceiling(sigma: float) -> None:
    """Of 20 seeds half were above, and whole intervals with much noise: luck of the draws."""
    schedule = tg.Schedule.gaussian(STEPS, sigma)
    ceiling = tg.certify(ADA, schedule, mistakes=0)[0].certified
    for seed in range(20):
        tried = tg.attack(ADA, schedule, mistakes=0, draws=2_000, seed=seed)["ada"]
        audit = tg.audit(ADA, schedule, mistakes=0, draws=2_000, seed=seed)[0]
        assert tried == {name: each for name, each in (audit.attacks or {}).items() if each is not None}
        for found in tried.values():
            assert found.low <= found.success <= found.high <= ceiling


def test_with_much_noise_the_draws_only_say_that_nothing_is_added() -> None:
    """The guess without releases is right in 0.648 exactly; the share of 10 000 draws was 0.658."""
    found = tg.attack(ADA, tg.Schedule.gaussian(STEPS, 100.0), mistakes=0)["ada"]["map"]
    assert found.success == pytest.approx(0.648, abs=1e-9)
    assert found.high - found.low < 0.002


def test_an_audit_has_a_seed() -> None:
    schedule = tg.Schedule.gaussian(STEPS, 1.0)
    drawn = tg.Effort(draws=500)

    def both(seed: int | None) -> tuple[object, ...]:
        audit = tg.audit(ADA, schedule, mistakes=1, draws=500, effort=drawn, seed=seed)[0]
        return audit.attacks, tg.certify(ADA, schedule, 1, effort=drawn, seed=seed)[0].certified

    assert both(5) == both(5)
    assert both(5)[0] != both(6)[0]
    assert both(None) == both(0)
    with pytest.raises(tg.TallyguardError, match="seed"):
        tg.certify(ADA, schedule, seed=-1)


def test_the_interval_beside_the_blind_guess_misses_as_rarely_as_it_says() -> None:
    """Draws of a known law, from attacks that are nearly blind to such that see everything."""
    rng = np.random.default_rng(1)
    for both, gained, lost in [(0.6, 0.01, 0.005), (0.6, 0.0, 0.0), (0.1, 0.5, 0.05), (0.3, 0.2, 0.2)]:
        counts = rng.multinomial(500, [both, gained, lost, 1.0 - both - gained - lost], size=2_000)
        missed = closer = 0
        for row in counts:
            won = np.array([row[0] + row[1], *row[1:3]])
            found = AttackResult.relative_to_blind(both + lost, won, 500, 0.95)
            missed += not found.low <= both + gained <= found.high
            closer += abs(found.success - both - gained) <= abs((row[0] + row[1]) / 500 - both - gained)
            assert found.proved <= both + gained
            assert found.proved <= found.low <= found.success <= found.high
        assert missed <= 0.05 * 2_000
        assert closer >= 0.7 * 2_000


def test_an_audit_whose_attack_is_surely_above_the_ceiling_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mechanism that says it reveals nothing and publishes the count, let in without a check."""
    monkeypatch.setattr(promises, "check_mechanism", lambda mechanism: None)
    silent = {
        "publish": raw,
        "reveal_probability": lambda: 0.0,
        "divergence": lambda: 0.0,
        "information": lambda p: np.zeros(np.shape(p)),
        "noise_law": lambda: tg.Raw().noise_law(),
    }
    schedule = tg.Schedule.of(STEPS, Own(silent))
    with pytest.raises(AttackAboveCeilingError, match="no attack may be right more often than the ceiling"):
        tg.audit(ADA, schedule, mistakes=0)
    with pytest.raises(AttackAboveCeilingError):
        tg.attack(ADA, schedule, mistakes=0)


def test_a_drawn_ceiling_that_is_refuted_gives_way_to_a_certain_one() -> None:
    """It misses once in twenty times, as its confidence says; a certain one never may."""
    bounds, attack = {"exact": 0.8, "sampled": 0.5}, Tried("map", 0.6)
    assert smallest(bounds, 0.3, Effort()).by == "sampled"
    found = smallest(bounds, 0.3, Effort(), attack)
    assert (found.value, found.by, found.confidence) == (0.8, "exact", 1.0)
    assert smallest(bounds, 0.3, Effort(), Tried("map", 0.5)).value == 0.5
    with pytest.raises(AttackAboveCeilingError, match="exact"):
        smallest(bounds, 0.3, Effort(), Tried("map", 0.81))
    with pytest.raises(AttackAboveCeilingError, match="the best guess without the releases"):
        smallest({"exact": 0.8}, 0.81, Effort())
    assert smallest({"exact": 0.8}, 0.8 + 1e-12, Effort()).value == 0.8 + 1e-12


def drawn(added: int, of: int) -> list[AttackedPart]:
    """Draws of which so many added all there is."""
    return [AttackedPart(10, of, (128,) * added)]


GUESS = 0.5


def test_a_mean_attack_above_the_ceiling_by_luck_is_shown_at_the_ceiling() -> None:
    """With 30 of 400 draws gaining a half, 0.5375; a ceiling of 0.53 is no contradiction."""
    free = mean_attack(drawn(30, 400), GUESS, 0.95)
    found = mean_attack(drawn(30, 400), GUESS, 0.95, 0.53)
    assert free is not None and found is not None
    assert free.success == pytest.approx(0.5375) and free.high > 0.53
    assert (found.success, found.high, found.low) == (0.53, 0.53, free.low)


def test_a_mean_attack_surely_above_the_ceiling_is_an_error() -> None:
    with pytest.raises(AttackAboveCeilingError):
        mean_attack(drawn(300, 400), GUESS, 0.95, 0.55)


def test_a_true_ceiling_raises_no_alarm_however_long_the_run() -> None:
    """A ceiling that is the truth itself, tried after 2000 steps: one in forty is above it at 95 %."""
    rng = np.random.default_rng(2)
    above = 0
    for step in range(2_000):
        gained = int(rng.binomial(200, 0.1))
        found = mean_attack(drawn(gained, 200), GUESS, 0.95)
        shown = mean_attack(drawn(gained, 200), GUESS, 0.95, 0.55, step)
        assert found is not None and shown is not None
        above += found.low > 0.55
        assert shown.high <= 0.55
    assert above > 0  # what would have stopped a run without counting its steps


def test_the_error_says_which_bound_and_what_to_do() -> None:
    error = AttackAboveCeilingError("map", 0.9, "exact", 0.5)
    assert "'exact', 0.5" in str(error) and "check_mechanism" in str(error)
