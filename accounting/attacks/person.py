"""Every attack on one person under one schedule."""

from __future__ import annotations

from accounting.attacks.registry import ATTACKS
from accounting.attacks.targets import AttackResult, Target
from accounting.exposure import Exposure


def attack_person(
    exposure: Exposure, mistakes: int, draws: int = 10_000, seed: int = 0, *, confidence: float = 0.95
) -> dict[str, AttackResult]:
    """Success of every registered attack within ``mistakes`` of ``T`` steps, by name.

    An attack that is not computed for this exposure is left out. Where steps share noise only the guesses
    that look at no release are tried: simulating the others needs the joint law. The same seed gives the same
    results on any number of threads. :class:`~accounting.exceptions.HorizonError` unless ``0 <= s < T``,
    :class:`~accounting.exceptions.SettingsError` for fewer than one draw or a negative seed.
    """
    target = Target(exposure, mistakes, draws, seed, confidence)
    results = {
        name: attack.success(target)
        for name, attack in ATTACKS.items()
        if attack.is_blind or exposure.can_be_drawn
    }
    return {name: result for name, result in results.items() if result is not None}
