"""A mechanism of one's own gives away no more than it says, or it enters no schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tallyguard as tg
from models.mechanisms import Gaussian, NoiseFamily, NoiseLaw
from models.mechanisms.promises import admit
from models.noise import binary_entropy

UNIFORM = NoiseLaw(-1, np.full(3, 1 / 3), 0.0)
"""Adds -1, 0 or 1: with 1/3 the published value shows that somebody is absent, or counted."""


@dataclass(frozen=True, eq=False)
class Own:
    """Uniform noise on {-1, 0, 1}, which says the truth but for what ``lies`` replaces."""

    lies: dict[str, Any] = field(default_factory=dict)
    name = "own"

    def __getattribute__(self, what: str) -> Any:
        lies = object.__getattribute__(self, "lies")
        return lies[what] if what in lies else object.__getattribute__(self, what)

    parameters: Any = field(default_factory=dict)
    is_released = True
    is_exact = False
    noise_family = NoiseFamily.OTHER

    def publish(self, counts: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return counts + (words[:, 0] % np.uint64(3)).astype(np.int64) - 1

    def noise_law(self) -> NoiseLaw:
        return UNIFORM

    def reveal_probability(self) -> float:
        return 1 / 3

    def divergence(self) -> float:
        return math.inf

    def information(self, probability: NDArray[np.float64]) -> NDArray[np.float64]:
        """An output shows the bit with 1/3, and nothing otherwise."""
        return binary_entropy(probability) / 3 * (1 + 1e-12)

    def expected_absolute_error(self) -> float:
        return 2 / 3

    def variance(self) -> float:
        return 2 / 3

    def zcdp_rho(self) -> float:
        return math.inf

    def pure_epsilon(self) -> float:
        return math.inf

    def gaussian_variance(self) -> None:
        return None


def raw(counts: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.int64]:
    return counts.copy()


def by_own_dice(counts: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.int64]:
    return counts + np.random.default_rng().integers(-1, 2, counts.size)


def noiseless_above_forty(counts: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.int64]:
    return counts + np.where(counts > 40, 0, (words[:, 0] % np.uint64(3)).astype(np.int64) - 1)


def constant(value: object) -> Any:
    return lambda *_: value


LIES: dict[str, dict[str, Any]] = {
    "reveal_probability": {"reveal_probability": constant(0.33)},
    "divergence": {"divergence": constant(5.0)},
    "zcdp_rho": {"zcdp_rho": constant(1.0)},
    "pure_epsilon": {"pure_epsilon": constant(1.0)},
    "information() at": {"information": lambda p: 0.3 * binary_entropy(p)},
    "concave": {"information": lambda p: np.where(p < 1e-14, 0.0, binary_entropy(p) / 3 * 1.001)},
    "shape of its argument": {"information": lambda p: np.array([1.0])},
    "expected_absolute_error": {"expected_absolute_error": constant(0.1)},
    "variance() must be that": {"variance": constant(100.0)},
    "gaussian_variance": {"gaussian_variance": constant(100.0)},
    "'none'": {"is_exact": True},
    "must follow it": {"noise_family": NoiseFamily.GEOMETRIC},
    "a number": {"divergence": constant("large")},
    "must be at least": {"divergence": constant(math.nan)},
    "distribution": {"publish": raw},
    "noise_law()'s": {"publish": noiseless_above_forty},
    "bits alone": {"publish": by_own_dice},
    "exactly where": {"publish": constant(None)},
    "within noise_law()": {"publish": lambda counts, words: counts + 2},
    "integers": {"publish": lambda counts, words: counts + 0.5},
    "symmetric": {"noise_law": constant(NoiseLaw(0, np.array([0.5, 0.5]), 0.0)), "publish": raw},
    "sum to 1": {"noise_law": constant(NoiseLaw(-1, np.full(3, 0.4), 0.0))},
    "truncated_mass": {"noise_law": constant(NoiseLaw(-1, np.full(3, 1 / 3), -1.0))},
}


@pytest.mark.parametrize("sentence", LIES)
def test_a_lie_about_the_noise_is_refused_where_the_mechanism_enters(sentence: str) -> None:
    mechanism = Own(LIES[sentence])
    with pytest.raises(tg.TallyguardError) as refused:
        tg.Schedule.of([[1], [], [1]], mechanism)
    assert sentence in str(refused.value)
    with pytest.raises(tg.TallyguardError):
        tg.WindowRelease(tg.Sensor("s", (1,)), 0, 0, 1, mechanism)
    with pytest.raises(tg.TallyguardError):
        tg.check_mechanism(mechanism)


def test_the_truth_is_admitted_and_its_ceiling_is_above_what_its_attack_achieves() -> None:
    """Uniform noise shows the bit in a third of the cases: an erasure channel, whose best attack is exact."""
    two_places = tg.Prior.from_dense("ada", [[0.9, 0.1], [0.4, 0.6]], initial=[0.8, 0.2])
    mechanism = Own()
    tg.check_mechanism(mechanism)
    audit = tg.audit(two_places, tg.Schedule.of([[1]], mechanism), mistakes=0, draws=40_000)[0]
    optimum = 0.8 * 2 / 3 + 1 / 3
    attack = (audit.attacks or {})["map"]
    assert attack is not None
    assert attack.low <= optimum <= attack.high
    assert optimum - 1e-9 <= audit.certified


def test_an_heir_of_our_mechanism_is_asked_again() -> None:
    """That its ancestors are ours says nothing about what it changes."""

    class Braver(Gaussian):
        def divergence(self) -> float:
            return 0.0

    with pytest.raises(tg.TallyguardError, match="divergence"):
        tg.Schedule.of([[1]], Braver(1.0))


def test_a_mechanism_is_asked_once() -> None:
    asked = []

    class Counted(Own):
        def divergence(self) -> float:
            asked.append(1)
            return math.inf

    mechanism = Counted()
    for _ in range(5):
        admit(mechanism)
    assert len(asked) == 1


def test_what_has_not_every_verb_is_told_which() -> None:
    class Half:
        name, parameters = "half", {}

    with pytest.raises(tg.TallyguardError, match="noise_law"):
        tg.check_mechanism(Half())  # type: ignore[arg-type]


def test_noise_that_leaves_numbers_out_promises_what_it_reveals() -> None:
    """Noise of -1 or 1 shows by the parity of the published count whether a person is counted."""

    @dataclass(frozen=True)
    class Coin(tg.BoundedNoise):
        name = "coin"

        def law(self) -> list[float]:
            return [1.0, 0.0, 1.0]

    tg.check_mechanism(Coin())
    shares = np.array([1e-6, 0.1, 0.5])
    assert Coin().information(shares) == pytest.approx(binary_entropy(shares), rel=1e-4)
