"""What every mechanism promises, checked against its noise law: a mechanism of one's own is not believed.

Every ceiling rests on what a mechanism says of itself (divergence, reveal probability, information, costs).
All of it follows from :meth:`~models.mechanisms.base.Mechanism.noise_law`, and that is checked against what
``publish`` publishes. :func:`check_mechanism` is for whoever writes one; :func:`admit` asks it once of each
mechanism that enters a schedule.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from models.exceptions import MechanismError
from models.mechanisms.base import Mechanism, NoiseFamily, NoiseLaw, Tabulated
from models.noise.noise_information import table_information

_OURS = __name__.partition(".")[0], "accounting"
"""Mechanisms of these packages are not checked where they enter: the conformance suite does."""

_ROUNDING = 1e-9
"""Relative: what a float sum over a law of 10^5 values may lose."""

_TINY = 1e-11
_HEAVY = 1e-25  # probabilities below are rounded to few digits
_LEFT_OUT = 1e-30  # mass without a counterpart that a law may have beside what it says was cut
_INFINITE = 199.0  # nats: no law of numbers that a computer draws has a larger finite divergence
_ORDERS = (1.01, 1.5, 2.0, 4.0, 8.0)
_COUNTS = (0, 41, 1_000_000)
_DRAWS = 8192
_FALSE_ALARM = 1e-9
_PROBABILITIES = np.concatenate(
    (2.0 ** -np.arange(60.0, 10.0, -7.0), [0.001, 0.01, 0.1, 0.2, 0.37, 0.5, 0.77, 0.9, 0.999])
)

_admitted: dict[object, None] = {}
_MOST_ADMITTED = 4096


def admit(mechanism: Mechanism) -> None:
    """Check a mechanism that is not one of ours, once for each of its parameters.

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
    """Check that a mechanism gives away no more than it says; :class:`MechanismError` names the first lie.

    From its ``noise_law()``: that it is a law, symmetric about zero; that reveal probability, divergence at
    shift one, information, zCDP and pure epsilon are at least what follows from it (more is allowed, it is a
    looser promise); that variance, expected error and the textbook family that it claims are the law's.
    From ``publish``: that values follow the law (8192 draws of each of three counts, by the inequality of
    Dvoretzky, Kiefer and Wolfowitz at 1e-9: a difference of 0.04 between the distributions is found), depend
    on their own count and bits alone, and that nothing is published where nothing is released.

    Not checked, as no law of one value says it: what the noise of several steps has in common, and what
    several tiers reveal together beyond the law.
    """
    _has_every_verb(mechanism)
    law = mechanism.noise_law()
    if law is not None:
        _is_law(mechanism, law)
    _publishes_what_it_says(mechanism, law)
    if law is None:
        return
    noise = np.asarray(law.probabilities, dtype=np.float64)
    absent, counted = np.append(noise, 0.0), np.insert(noise, 0, 0.0)
    is_covered = _mass_alone(absent, counted) <= law.truncated_mass + _LEFT_OUT
    _reveals_no_more(mechanism, absent, counted, is_covered)
    _costs_no_more(mechanism, absent, counted, is_covered)
    _informs_no_more(mechanism, absent, counted)
    _errs_as_it_says(mechanism, law)
    _follows(mechanism, law)


def _refuse(mechanism: Mechanism, must: str, got: object, remedy: str) -> MechanismError:
    name = getattr(mechanism, "name", type(mechanism).__name__)
    return MechanismError(f"mechanism {name!r}: {must}", got, remedy)


def _at_least(mechanism: Mechanism, what: str, claimed: object, needed: float) -> None:
    """:class:`MechanismError` unless the number that is claimed is at least the law's, up to rounding."""
    value = _number(mechanism, what, claimed)
    if not value >= min(needed * (1.0 - _ROUNDING) - _TINY, _INFINITE):
        raise _refuse(
            mechanism,
            f"{what} must be at least what its noise_law() says, {needed:.6g}",
            f"{value:.6g}",
            "compute it from the law, or return something larger",
        )


def _number(mechanism: Mechanism, what: str, claimed: object) -> float:
    try:
        value = float(claimed)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise _refuse(mechanism, f"{what} must be a number", repr(claimed), "return a float") from None
    return value


def _has_every_verb(mechanism: Mechanism) -> None:
    missing = [name for name in _VERBS if not hasattr(mechanism, name)]
    if missing:
        raise _refuse(
            mechanism,
            "a mechanism must have every verb",
            f"no {', '.join(missing)}",
            "see tallyguard.Mechanism",
        )
    try:
        hash(mechanism)
    except TypeError:
        raise _refuse(
            mechanism, "a mechanism must be a frozen, hashable value", "one without hash", "freeze its class"
        ) from None


_VERBS = tuple(
    sorted(name for name in dir(Mechanism) if not name.startswith("_") and name not in {"register", "mro"})
)


def _is_law(mechanism: Mechanism, law: NoiseLaw) -> None:
    noise = np.asarray(law.probabilities, dtype=np.float64)
    is_law = (
        noise.ndim == 1
        and noise.size > 0
        and bool(np.all(noise >= 0.0))  # false for nan
        and abs(math.fsum(noise.tolist()) - 1.0) <= _ROUNDING
    )
    if not is_law:
        raise _refuse(
            mechanism,
            "the probabilities of noise_law() must be 0 or more and sum to 1",
            f"a sum of {float(np.sum(noise)):.6g}",
            "normalise them",
        )
    if law.first != -(noise.size // 2) or not np.allclose(noise, noise[::-1], rtol=_ROUNDING, atol=1e-300):
        raise _refuse(
            mechanism,
            "noise_law() must be symmetric about zero, first = -(number of values // 2)",
            f"first = {law.first} of {noise.size} values",
            "give both sides the same probabilities",
        )
    if not 0.0 <= law.truncated_mass <= 1.0:
        raise _refuse(
            mechanism,
            "truncated_mass must lie in 0..1",
            law.truncated_mass,
            "say what was cut from the tails",
        )


def _mass_alone(absent: NDArray[np.float64], counted: NDArray[np.float64]) -> float:
    """How likely a value shows that somebody is absent (or counted), as it is impossible otherwise."""
    return max(float(absent[counted == 0.0].sum()), float(counted[absent == 0.0].sum()))


def _reveals_no_more(
    mechanism: Mechanism, absent: NDArray[np.float64], counted: NDArray[np.float64], is_covered: bool
) -> None:
    variation = 0.5 * math.fsum(np.abs(absent - counted).tolist())
    _at_least(mechanism, "reveal_probability()", mechanism.reveal_probability(), variation)
    both = (absent > 0.0) & (counted > 0.0)
    finite = math.fsum((absent[both] * np.log(absent[both] / counted[both])).tolist())
    _at_least(mechanism, "divergence()", mechanism.divergence(), finite if is_covered else math.inf)


def _costs_no_more(
    mechanism: Mechanism, absent: NDArray[np.float64], counted: NDArray[np.float64], is_covered: bool
) -> None:
    both = (absent > 0.0) & (counted > 0.0)
    rho, epsilon = mechanism.zcdp_rho(), mechanism.pure_epsilon()
    if not is_covered:
        _at_least(mechanism, "zcdp_rho()", rho, math.inf)
        _at_least(mechanism, "pure_epsilon()", epsilon, math.inf)
        return
    for order in _ORDERS:
        terms = order * np.log(absent[both]) + (1.0 - order) * np.log(counted[both])
        top = terms.max()
        renyi = (top + math.log(math.fsum(np.exp(terms - top).tolist()))) / (order - 1.0)
        # High orders feel the rounding of the last values, low ones the logarithm of a sum near 1.
        _at_least(mechanism, "zcdp_rho()", rho, renyi / order * (1.0 - 1e-7) - _TINY)
    heavy = (absent > _HEAVY) & (counted > _HEAVY)
    if heavy.any():
        ratio = float(np.abs(np.log(absent[heavy] / counted[heavy])).max())
        _at_least(mechanism, "pure_epsilon()", epsilon, ratio)


def _informs_no_more(mechanism: Mechanism, absent: NDArray[np.float64], counted: NDArray[np.float64]) -> None:
    exact = np.array([_information(absent, counted, p) for p in _PROBABILITIES])
    found = np.asarray(mechanism.information(_PROBABILITIES.copy()), dtype=np.float64)
    if found.shape != _PROBABILITIES.shape:
        raise _refuse(
            mechanism,
            f"information() must have the shape of its argument, {_PROBABILITIES.shape}",
            found.shape,
            "return one number for each probability",
        )
    for p, claimed, needed in zip(_PROBABILITIES, found, exact, strict=True):
        _at_least(mechanism, f"information() at {p:.3g}", claimed, float(needed))
    small = found < _from_tenth(absent, counted, _PROBABILITIES) * (1.0 - 1e-6)
    if small.any():
        at = int(np.argmax(small))
        raise _refuse(
            mechanism,
            "information() must be concave, as that of noise_law() is",
            f"{found[at]:.3g} at {_PROBABILITIES[at]:.3g}",
            "compute it from the law",
        )
    if isinstance(mechanism, Tabulated):
        _tables_no_less(mechanism, exact)


def _from_tenth(
    absent: NDArray[np.float64], counted: NDArray[np.float64], probability: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The chord of the information from 0 to 1/1024, for smaller probabilities: it lies below. Else 0."""
    corner = 2.0**-10
    slope = _information(absent, counted, corner) / corner
    return np.where(probability < corner, probability * slope, 0.0)


def _information(absent: NDArray[np.float64], counted: NDArray[np.float64], p: float) -> float:
    """``I(B; B + Z)`` in nats, a plain sum over all outputs."""
    mixture = (1.0 - p) * absent + p * counted
    terms = [
        weight * side[side > 0.0] * np.log(side[side > 0.0] / mixture[side > 0.0])
        for weight, side in ((1.0 - p, absent), (p, counted))
    ]
    return max(0.0, math.fsum(np.concatenate(terms).tolist()))


def _tables_no_less(mechanism: Tabulated, exact: NDArray[np.float64]) -> None:
    """Kernels look the information up."""
    from models.mechanisms.gaussian import Gaussian

    table, ours = mechanism.information_table(), Gaussian(1.0).information_table()
    if not np.array_equal(table.grid, ours.grid) or table.information_nats.shape != ours.grid.shape:
        raise _refuse(
            mechanism,  # type: ignore[arg-type]
            "information_table() must have the common grid",
            f"{np.shape(table.grid)} of its own",
            "make it with models.noise.noise_information_table(probabilities)",
        )
    for p, needed in zip(_PROBABILITIES, exact, strict=True):
        claimed = table_information(table, float(p))
        _at_least(mechanism, f"information_table() at {p:.3g}", claimed, float(needed))  # type: ignore[arg-type]


def _errs_as_it_says(mechanism: Mechanism, law: NoiseLaw) -> None:
    pairs: list[tuple[str, Callable[[], float], float]] = [
        ("expected_absolute_error()", mechanism.expected_absolute_error, law.expected_size()),
        ("variance()", mechanism.variance, law.variance()),
    ]
    for what, claimed, true in pairs:
        value = _number(mechanism, what, claimed())
        if not math.isclose(value, true, rel_tol=1e-6, abs_tol=1e-9):
            raise _refuse(
                mechanism,
                f"{what} must be that of its noise_law(), {true:.6g}",
                f"{value:.6g}",
                "return noise_law().expected_size() or noise_law().variance()",
            )


def _follows(mechanism: Mechanism, law: NoiseLaw) -> None:
    """The family and the exactness that it claims: sharper theorems are used for them."""
    family, variance, size = mechanism.noise_family, mechanism.gaussian_variance(), law.probabilities.size
    if size > 1 and (mechanism.is_exact or family is NoiseFamily.NONE or variance == 0.0):
        raise _refuse(
            mechanism,
            "is_exact, family 'none' and gaussian_variance() = 0 are for a noise_law() that is the point 0",
            f"{size} values",
            "correct what it says of itself",
        )
    is_gaussian = family in (NoiseFamily.DISCRETE_GAUSSIAN, NoiseFamily.CONTINUOUS_GAUSSIAN)
    if not is_gaussian and variance:
        raise _refuse(
            mechanism,
            "gaussian_variance() must be None for noise that is not Gaussian",
            variance,
            "return None, or say which Gaussian family it is",
        )
    difference = 0.0
    if is_gaussian and variance:
        half = max(size // 2, math.ceil(12.0 * math.sqrt(variance)) + 1)
        values = np.arange(-half, half + 1, dtype=np.float64)
        is_discrete = family is NoiseFamily.DISCRETE_GAUSSIAN
        ideal = np.exp(-0.5 * values**2 / variance) if is_discrete else _normal_cells(values, variance)
        difference = _distance(ideal, law)
    elif family is NoiseFamily.GEOMETRIC:
        epsilon = mechanism.pure_epsilon()
        half = size // 2 + math.ceil(40.0 / max(epsilon, 1e-6))
        weights = np.exp(-epsilon * np.abs(np.arange(-half, half + 1.0))) if math.isfinite(epsilon) else None
        difference = 1.0 if weights is None else _distance(weights, law)
    if not difference <= 1e-6 + law.truncated_mass:
        raise _refuse(
            mechanism,
            f"noise of the family {str(family)!r} must follow it",
            f"a law that differs by {difference:.3g} in total variation",
            "say NoiseFamily.OTHER: what holds for any noise is used then",
        )


def _distance(ideal: NDArray[np.float64], law: NoiseLaw) -> float:
    """Total variation between the law and weights on as many values to both sides of 0, or more."""
    more = (ideal.size - law.probabilities.size) // 2
    return 0.5 * float(np.abs(ideal / ideal.sum() - np.pad(law.probabilities, more)).sum())


def _normal_cells(values: NDArray[np.float64], variance: float) -> NDArray[np.float64]:
    """How likely a normal value rounds to each integer."""
    from scipy.special import ndtr

    sigma = math.sqrt(variance)
    return np.asarray(ndtr((values + 0.5) / sigma) - ndtr((values - 0.5) / sigma), dtype=np.float64)


def _publishes_what_it_says(mechanism: Mechanism, law: NoiseLaw | None) -> None:
    """Values of fixed uniform bits: the same answer whenever it is asked."""
    words = np.random.Generator(np.random.Philox(3)).integers(0, 2**64, (_DRAWS, 2), dtype=np.uint64)
    for count in _COUNTS:
        counts = np.full(_DRAWS, count, dtype=np.int64)
        published = mechanism.publish(counts.copy(), words.copy())
        if not (published is not None) == (law is not None) == bool(mechanism.is_released):
            raise _refuse(
                mechanism,
                "publish() and noise_law() must give something exactly where is_released says so",
                f"is_released = {mechanism.is_released}, publish() gave "
                + ("nothing" if published is None else "values")
                + f", noise_law() {'None' if law is None else 'a law'}",
                "correct what it says of itself",
            )
        if published is None or law is None:
            continue
        if (
            not isinstance(published, np.ndarray)
            or published.shape != counts.shape
            or published.dtype != np.int64
        ):
            raise _refuse(
                mechanism,
                f"publish() must give integers (int64) of the shape {counts.shape}",
                f"{getattr(published, 'dtype', type(published).__name__)} {np.shape(published)}",
                "return one integer for each count",
            )
        _draws_from(mechanism, law, published - counts)
        few = slice(0, 16)
        again = [mechanism.publish(counts[k : k + 1], words[k : k + 1]) for k in range(16)]
        if not np.array_equal(published[few], np.concatenate([each for each in again if each is not None])):
            raise _refuse(
                mechanism,
                "publish() must give each count a value by its own bits alone",
                "another value for the same count and bits",
                "draw from the given words only, one row for each count",
            )


def _draws_from(mechanism: Mechanism, law: NoiseLaw, noise: NDArray[np.int64]) -> None:
    """The empirical distribution of the noise within what chance makes of the law's."""
    size = np.size(law.probabilities)
    if noise.min() < law.first or noise.max() >= law.first + size:
        raise _refuse(
            mechanism,
            f"publish() must add noise within noise_law(), {law.first}..{law.first + size - 1}",
            f"{noise.min()}..{noise.max()}",
            "correct the law or the sampler",
        )
    observed = np.cumsum(np.bincount(noise - law.first, minlength=size)) / noise.size
    distance = float(np.abs(observed - np.cumsum(law.probabilities)).max())
    most = math.sqrt(math.log(2.0 / _FALSE_ALARM) / (2.0 * noise.size))
    if not distance <= most:
        raise _refuse(
            mechanism,
            f"{noise.size:,} values of publish() must be within {most:.3f} of noise_law()'s distribution",
            f"{distance:.3f}",
            "correct the law or the sampler",
        )
