"""Tiered release: one chain of two-sided geometric noise a count, read at each tier's privacy level."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, tanh
from typing import ClassVar

from models.arguments import checked
from models.exceptions import MechanismError
from models.keys import expand_words
from models.mechanisms.base import (
    NO_DESIGNS,
    AddedNoise,
    Designs,
    NoiseFamily,
    NoiseLaw,
    computed_once,
    number,
    suggest,
)
from models.noise import (
    InformationTable,
    binary_channel_information_table,
    chain_noise,
    check_epsilon,
    check_levels,
    geometric_table,
)
from models.numerics.arrays import Integers, Words

_PREFIX = "epsilon_"
_TIER_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


@checked(MechanismError, infinite=("tiers",))
@dataclass(frozen=True, slots=True)
class Tiered(AddedNoise):
    """The same count for several tiers of recipients: ``tiers`` are pairs of name and epsilon (nats), rising.

    All verbs of accountants are those of the best-informed tier: because of the chain, all tiers together
    reveal no more than that one.
    """

    tiers: tuple[tuple[str, float], ...]
    name: ClassVar[str] = "tiered"
    is_exact: ClassVar[bool] = False
    noise_family: ClassVar[NoiseFamily] = NoiseFamily.GEOMETRIC

    def __post_init__(self) -> None:
        """:class:`MechanismError` for names or levels that cannot be; equal tiers make equal mechanisms."""
        ordered = sorted(((name, float(epsilon)) for name, epsilon in self.tiers), key=lambda tier: tier[1])
        for name, epsilon in ordered:
            check_epsilon(epsilon)
            if not _TIER_NAME.fullmatch(name):
                raise MechanismError(
                    "a tier's name must be small letters, digits and hyphens", repr(name), "rename the tier"
                )
        check_levels([epsilon for _, epsilon in ordered])
        object.__setattr__(self, "tiers", tuple(ordered))

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, object], designs: Designs = NO_DESIGNS) -> Tiered:
        """From ``{"epsilon_public": 0.3, "epsilon_partner": 1.0}``; :class:`MechanismError` otherwise."""
        for key in parameters:
            if not key.startswith(_PREFIX):
                raise MechanismError(
                    f"parameters of mechanism {cls.name!r} must be {_PREFIX}<tier>",
                    repr(key),
                    suggest(key, [f"{_PREFIX}public"]),
                )
        return cls(
            tuple((key.removeprefix(_PREFIX), number(cls.name, parameters, key)) for key in parameters)
        )

    @property
    def parameters(self) -> Mapping[str, float]:
        """``{"epsilon_<tier>": epsilon}`` of every tier, rising."""
        return {f"{_PREFIX}{name}": epsilon for name, epsilon in self.tiers}

    @property
    def epsilon(self) -> float:
        """The best-informed tier's level, nats: what any coalition learns about one count, at most."""
        return self.tiers[-1][1]

    def publish(self, counts: Integers, words: Words) -> Integers:
        """The best-informed tier's values (n,) of counts (n,) for uniform bits ``words`` (n, 2)."""
        return self.publish_tiers(counts, words)[:, -1].copy()

    def publish_tiers(self, counts: Integers, words: Words) -> Integers:
        """Every tier's values (n, tiers) of counts (n,), in the order of ``tiers``; one chain a count."""
        levels = [epsilon for _, epsilon in self.tiers]
        return counts[:, None] + chain_noise(levels, expand_words(words, len(levels)))

    def noise_law(self) -> NoiseLaw:
        """The best-informed tier's table; the other tiers' noise is this plus independent noise."""
        return NoiseLaw.of_table(geometric_table(self.epsilon))

    def reveal_probability(self) -> float:
        """The probability of zero, ``tanh(epsilon / 2)``: the noise is unimodal."""
        return geometric_table(self.epsilon).reveal_probability()

    def divergence(self) -> float:
        """``epsilon tanh(epsilon / 2)`` nats at shift one, of the ideal law: its log-ratio is +-epsilon."""
        return self.epsilon * tanh(self.epsilon / 2.0)

    @computed_once(64)
    def information_table(self) -> InformationTable:
        """Information that all tiers' values give together."""
        crossover = exp(-self.epsilon) / (1.0 + exp(-self.epsilon))
        return binary_channel_information_table(crossover, geometric_table(self.epsilon).truncated_mass)

    def expected_absolute_error(self) -> float:
        """Expected size of the best-informed tier's noise, in people."""
        return tier_error(self.epsilon)

    def tier_errors(self) -> Mapping[str, float]:
        """Expected size of each tier's own noise, in people."""
        return {name: tier_error(epsilon) for name, epsilon in self.tiers}

    def variance(self) -> float:
        """Variance of the best-informed tier's noise, ``2 q / (1 - q)^2``."""
        q = exp(-self.epsilon)
        return 2.0 * q / (1.0 - q) ** 2

    def zcdp_rho(self) -> float:
        """``epsilon tanh(epsilon / 2)``, which is attained.

        The noise reveals what randomised response of the same epsilon does, whose Renyi divergence over its
        order ``a`` is ``(g(u^2) - g(1/4)) / (u^2 - 1/4)`` with ``u = a - 1/2`` and the concave
        ``g(t) = ln cosh(epsilon sqrt(t))``: largest at ``a = 1``, where it is the divergence. Sharper than
        ``epsilon^2 / 2`` (Bun, Steinke, "Concentrated Differential Privacy", 2016, proposition 1.4).
        """
        return self.divergence()

    def pure_epsilon(self) -> float:
        """The best-informed tier's level."""
        return self.epsilon


def tier_error(epsilon: float) -> float:
    """Expected absolute noise of a tier, in people: ``2 q / (1 - q^2)``, ``q = exp(-epsilon)``."""
    q = exp(-epsilon)
    return 2.0 * q / (1.0 - q * q)
