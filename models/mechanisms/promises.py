"""Checks that a mechanism reveals no more than it says: third-party mechanisms are not trusted.

Every ceiling rests on what a mechanism says of itself (divergence, reveal probability, information, costs).
All of it follows from :meth:`~models.mechanisms.base.Mechanism.noise_law`, which is compared with what
``publish`` publishes. :func:`check_mechanism` is for authors of mechanisms; :func:`admit` runs it once for
each mechanism that enters a schedule.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtr

from models.exceptions import MechanismError
from models.mechanisms.base import Mechanism, NoiseFamily, NoiseLaw, Tabulated
from models.mechanisms.gaussian import Gaussian
from models.noise.noise_information import table_information
from models.numerics.arrays import Floats, Integers

_OURS = __name__.partition(".")[0], "accounting"
"""Mechanisms of these packages are not checked when they enter a schedule: the conformance suite does it."""

_ROUNDING = 1e-9
"""Relative: what a float sum over a law of 10^5 values may lose."""

_TINY = 1e-11
_HEAVY = 1e-25  # smaller probabilities have few correct digits
_LEFT_OUT = 1e-30  # mass without a counterpart that a law may have besides what it says was cut
_INFINITE = 199.0  # nats: no law of numbers that a computer draws has a larger finite divergence
_ORDERS = (1.01, 1.5, 2.0, 4.0, 8.0)
_COUNTS = (0, 41, 1_000_000)
_DRAWS = 8192
_FALSE_ALARM = 1e-9
_PROBABILITIES = np.concatenate(
    (2.0 ** -np.arange(60.0, 10.0, -7.0), [0.001, 0.01, 0.1, 0.2, 0.37, 0.5, 0.77, 0.9, 0.999])
)
_VERBS = tuple(
    sorted(name for name in dir(Mechanism) if not name.startswith("_") and name not in {"register", "mro"})
)

_admitted: dict[object, None] = {}
_MOST_ADMITTED = 4096


def admit(mechanism: Mechanism) -> None:
    """Check a third-party mechanism, once for each of its parameters.

    :class:`~models.exceptions.MechanismError` as for :func:`check_mechanism`.
    """
    if type(mechanism).__module__.partition(".")[0] in _OURS:
        return
    try:
        key = mechanism, tuple(sorted(dict(mechanism.parameters).items()))
        is_known = key in _admitted
    except (AttributeError, TypeError, ValueError):
        key, is_known = None, False
    if is_known:
        return
    check_mechanism(mechanism)
    if len(_admitted) >= _MOST_ADMITTED:
        _admitted.clear()
    _admitted[key] = None


def check_mechanism(mechanism: Mechanism) -> None:
    """Check that a mechanism reveals no more than it says; :class:`MechanismError` names the first lie.

    From its ``noise_law()``: that it is a law, symmetric about zero; that reveal probability, divergence at
    shift one, information, zCDP and pure epsilon are at least what follows from it (more is allowed, it is a
    looser promise); that variance, expected error and the textbook family that it claims are the law's.
    From ``publish``: that values follow the law (8192 draws of each of three counts, by the inequality of
    Dvoretzky, Kiefer and Wolfowitz at 1e-9: a difference of 0.04 between the distributions is found), depend
    on their own count and bits alone, and that nothing is published where nothing is released.

    Not checked, as the law of one value does not say it: what the noise of several steps has in common, and
    what several tiers reveal together beyond the law.
    """
    check = _Check(mechanism)
    check.verbs()
    law = mechanism.noise_law()
    if law is not None:
        check.is_law(law)
    check.publish(law)
    if law is None:
        return
    noise = np.asarray(law.probabilities, dtype=np.float64)
    absent, counted = np.append(noise, 0.0), np.insert(noise, 0, 0.0)
    check.divergences(absent, counted, law.truncated_mass)
    check.information(absent, counted)
    check.errors(law)
    check.family(law)


class _Check:
    """The checks of one mechanism.

    ``absent`` and ``counted`` (n,) are the laws of the published value, less the others' count, where the
    person is not counted and where they are.
    """

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism

    def require(self, holds: bool, must: str, got: object, remedy: str) -> None:
        """:class:`MechanismError` unless it holds."""
        if not holds:
            name = getattr(self.mechanism, "name", type(self.mechanism).__name__)
            raise MechanismError(f"mechanism {name!r}: {must}", got, remedy)

    def number(self, what: str, claimed: Any) -> float:
        """A claim as a float."""
        try:
            return float(claimed)
        except (TypeError, ValueError):
            self.require(False, f"{what} must be a number", repr(claimed), "return a float")
            raise

    def at_least(self, what: str, claimed: object, needed: float) -> None:
        """The claimed number must be at least the law's, up to rounding."""
        value = self.number(what, claimed)
        self.require(
            value >= min(needed * (1.0 - _ROUNDING) - _TINY, _INFINITE),  # false for nan
            f"{what} must be at least what its noise_law() says, {needed:.6g}",
            f"{value:.6g}",
            "compute it from the law, or return something larger",
        )

    def verbs(self) -> None:
        """It must be a frozen value with every verb."""
        missing = [name for name in _VERBS if not hasattr(self.mechanism, name)]
        self.require(
            not missing,
            "a mechanism must have every verb",
            f"no {', '.join(missing)}",
            "see tallyguard.Mechanism",
        )
        try:
            hash(self.mechanism)
        except TypeError:
            must = "a mechanism must be a frozen, hashable value"
            self.require(False, must, "one without hash", "freeze its class")

    def is_law(self, law: NoiseLaw) -> None:
        """Probabilities must be symmetric about zero and sum to 1."""
        noise = np.asarray(law.probabilities, dtype=np.float64)
        is_law = (
            noise.ndim == 1
            and noise.size > 0
            and bool(np.all(noise >= 0.0))  # false for nan
            and abs(math.fsum(noise.tolist()) - 1.0) <= _ROUNDING
        )
        self.require(
            is_law,
            "the probabilities of noise_law() must be 0 or more and sum to 1",
            f"a sum of {float(np.sum(noise)):.6g}",
            "normalise them",
        )
        self.require(
            law.first == -(noise.size // 2) and np.allclose(noise, noise[::-1], rtol=_ROUNDING, atol=1e-300),
            "noise_law() must be symmetric about zero, first = -(number of values // 2)",
            f"first = {law.first} of {noise.size} values",
            "give both sides the same probabilities",
        )
        self.require(
            0.0 <= law.truncated_mass <= 1.0,
            "truncated_mass must lie in 0..1",
            law.truncated_mass,
            "say what was cut from the tails",
        )

    def divergences(self, absent: Floats, counted: Floats, truncated_mass: float) -> None:
        """Reveal probability, divergence, zCDP and pure epsilon must be at least the law's."""
        mechanism = self.mechanism
        variation = 0.5 * math.fsum(np.abs(absent - counted).tolist())
        self.at_least("reveal_probability()", mechanism.reveal_probability(), variation)
        # Values that are possible only for an absent, or only for a counted person make the divergences
        # infinite, unless the truncated mass, which is charged to delta, covers them.
        alone = max(float(absent[counted == 0.0].sum()), float(counted[absent == 0.0].sum()))
        is_covered = alone <= truncated_mass + _LEFT_OUT
        both = (absent > 0.0) & (counted > 0.0)
        finite = math.fsum((absent[both] * np.log(absent[both] / counted[both])).tolist())
        self.at_least("divergence()", mechanism.divergence(), finite if is_covered else math.inf)
        rho, epsilon = mechanism.zcdp_rho(), mechanism.pure_epsilon()
        if not is_covered:
            self.at_least("zcdp_rho()", rho, math.inf)
            self.at_least("pure_epsilon()", epsilon, math.inf)
            return
        for order in _ORDERS:
            terms = order * np.log(absent[both]) + (1.0 - order) * np.log(counted[both])
            top = terms.max()
            renyi = (top + math.log(math.fsum(np.exp(terms - top).tolist()))) / (order - 1.0)
            # High orders feel the rounding of the last values, low ones the logarithm of a sum near 1.
            self.at_least("zcdp_rho()", rho, renyi / order * (1.0 - 1e-7) - _TINY)
        heavy = (absent > _HEAVY) & (counted > _HEAVY)
        if heavy.any():
            ratio = float(np.abs(np.log(absent[heavy] / counted[heavy])).max())
            self.at_least("pure_epsilon()", epsilon, ratio)

    def information(self, absent: Floats, counted: Floats) -> None:
        """The information, also by the table that kernels read, must be at least the law's, and concave."""
        exact = [_information(absent, counted, p) for p in _PROBABILITIES]
        found = np.asarray(self.mechanism.information(_PROBABILITIES.copy()), dtype=np.float64)
        self.require(
            found.shape == _PROBABILITIES.shape,
            f"information() must have the shape of its argument, {_PROBABILITIES.shape}",
            found.shape,
            "return one number for each probability",
        )
        for p, claimed, needed in zip(_PROBABILITIES, found, exact, strict=True):
            self.at_least(f"information() at {p:.3g}", claimed, needed)
        # A concave function that is 0 at 0 lies above its chord from there: by that of 1/1024 for smaller
        # probabilities, where the rounding of the exact sum would hide a claim that is too small.
        corner = 2.0**-10
        chord = _PROBABILITIES * (_information(absent, counted, corner) / corner)
        small = (corner > _PROBABILITIES) & (found < chord * (1.0 - 1e-6))
        if small.any():
            at = int(np.argmax(small))
            must = "information() must be concave, as that of noise_law() is"
            got = f"{found[at]:.3g} at {_PROBABILITIES[at]:.3g}"
            self.require(False, must, got, "compute it from the law")
        if not isinstance(self.mechanism, Tabulated):
            return
        table, ours = self.mechanism.information_table(), Gaussian(1.0).information_table()
        has_grid = np.array_equal(table.grid, ours.grid) and table.information_nats.shape == ours.grid.shape
        self.require(
            has_grid,
            "information_table() must have the common grid",
            f"{np.shape(table.grid)} of its own",
            "make it with models.noise.noise_information_table(probabilities)",
        )
        for p, needed in zip(_PROBABILITIES, exact, strict=True):
            self.at_least(f"information_table() at {p:.3g}", table_information(table, float(p)), needed)

    def errors(self, law: NoiseLaw) -> None:
        """Expected error and variance must be the law's."""
        for what, claimed, true in (
            ("expected_absolute_error()", self.mechanism.expected_absolute_error, law.expected_size()),
            ("variance()", self.mechanism.variance, law.variance()),
        ):
            value = self.number(what, claimed())
            self.require(
                math.isclose(value, true, rel_tol=1e-6, abs_tol=1e-9),
                f"{what} must be that of its noise_law(), {true:.6g}",
                f"{value:.6g}",
                "return noise_law().expected_size() or noise_law().variance()",
            )

    def family(self, law: NoiseLaw) -> None:
        """The law must be of the claimed family, for which sharper theorems hold, and exact where claimed."""
        mechanism, size = self.mechanism, law.probabilities.size
        family, variance = mechanism.noise_family, mechanism.gaussian_variance()
        self.require(
            size == 1 or not (mechanism.is_exact or family is NoiseFamily.NONE or variance == 0.0),
            "is_exact, family 'none' and gaussian_variance() = 0 are for a noise_law() that is the point 0",
            f"{size} values",
            "correct what it says of itself",
        )
        is_gaussian = family in (NoiseFamily.DISCRETE_GAUSSIAN, NoiseFamily.CONTINUOUS_GAUSSIAN)
        self.require(
            is_gaussian or not variance,
            "gaussian_variance() must be None for noise that is not Gaussian",
            variance,
            "return None, or say which Gaussian family it is",
        )
        difference = 0.0
        if is_gaussian and variance:
            half = max(size // 2, math.ceil(12.0 * math.sqrt(variance)) + 1)
            values = np.arange(-half, half + 1, dtype=np.float64)
            if family is NoiseFamily.DISCRETE_GAUSSIAN:
                ideal = np.exp(-0.5 * values**2 / variance)
            else:  # a normal number that is rounded
                sigma = math.sqrt(variance)
                ideal = ndtr((values + 0.5) / sigma) - ndtr((values - 0.5) / sigma)
            difference = _distance(ideal, law)
        elif family is NoiseFamily.GEOMETRIC:
            epsilon = mechanism.pure_epsilon()
            half = size // 2 + math.ceil(40.0 / max(epsilon, 1e-6))
            difference = 1.0
            if math.isfinite(epsilon):
                difference = _distance(np.exp(-epsilon * np.abs(np.arange(-half, half + 1.0))), law)
        self.require(
            difference <= 1e-6 + law.truncated_mass,
            f"noise of the family {str(family)!r} must follow it",
            f"a law that differs by {difference:.3g} in total variation",
            "say NoiseFamily.OTHER: what holds for any noise is used then",
        )

    def publish(self, law: NoiseLaw | None) -> None:
        """Values must follow the law, and be the same for the same count and bits whenever they are drawn."""
        mechanism = self.mechanism
        words = np.random.Generator(np.random.Philox(3)).integers(0, 2**64, (_DRAWS, 2), dtype=np.uint64)
        for count in _COUNTS:
            counts = np.full(_DRAWS, count, dtype=np.int64)
            published = mechanism.publish(counts.copy(), words.copy())
            self.require(
                (published is not None) == (law is not None) == bool(mechanism.is_released),
                "publish() and noise_law() must give something exactly where is_released says so",
                f"is_released = {mechanism.is_released}, publish() gave "
                + ("nothing" if published is None else "values")
                + f", noise_law() {'None' if law is None else 'a law'}",
                "correct what it says of itself",
            )
            if published is None or law is None:
                continue
            is_integers = isinstance(published, np.ndarray) and published.dtype == np.int64
            self.require(
                is_integers and published.shape == counts.shape,
                f"publish() must give integers (int64) of the shape {counts.shape}",
                f"{getattr(published, 'dtype', type(published).__name__)} {np.shape(published)}",
                "return one integer for each count",
            )
            self.draws(law, published - counts)
            again = [mechanism.publish(counts[k : k + 1], words[k : k + 1]) for k in range(16)]
            self.require(
                np.array_equal(published[:16], np.concatenate([each for each in again if each is not None])),
                "publish() must give each count a value by its own bits alone",
                "another value for the same count and bits",
                "draw from the given words only, one row for each count",
            )

    def draws(self, law: NoiseLaw, noise: Integers) -> None:
        """The empirical distribution of the noise must be as near to the law as chance allows."""
        size = np.size(law.probabilities)
        self.require(
            bool(noise.min() >= law.first and noise.max() < law.first + size),
            f"publish() must add noise within noise_law(), {law.first}..{law.first + size - 1}",
            f"{noise.min()}..{noise.max()}",
            "correct the law or the sampler",
        )
        observed = np.cumsum(np.bincount(noise - law.first, minlength=size)) / noise.size
        distance = float(np.abs(observed - np.cumsum(law.probabilities)).max())
        most = math.sqrt(math.log(2.0 / _FALSE_ALARM) / (2.0 * noise.size))
        self.require(
            distance <= most,
            f"{noise.size:,} values of publish() must be within {most:.3f} of noise_law()'s distribution",
            f"{distance:.3f}",
            "correct the law or the sampler",
        )


def _information(absent: Floats, counted: Floats, p: float) -> float:
    """``I(B; B + Z)`` in nats, a plain sum over all outputs."""
    mixture = (1.0 - p) * absent + p * counted
    terms = [
        weight * side[side > 0.0] * np.log(side[side > 0.0] / mixture[side > 0.0])
        for weight, side in ((1.0 - p, absent), (p, counted))
    ]
    return max(0.0, math.fsum(np.concatenate(terms).tolist()))


def _distance(ideal: Floats, law: NoiseLaw) -> float:
    """Total variation between the law and weights on as many values to both sides of 0, or more."""
    more = (ideal.size - law.probabilities.size) // 2
    return 0.5 * float(np.abs(ideal / ideal.sum() - np.pad(law.probabilities, more)).sum())
