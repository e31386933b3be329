"""The interface of release mechanisms. One mechanism is one file; accountants use nothing but this interface.

All mechanisms have the verbs of :class:`Mechanism`. Some also have those of :class:`Tabulated`,
:class:`DrawnPerWindow` or :class:`PublishesTiers`, and a :class:`Composite` is made of others. No other code
tests for a mechanism's class.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar, cast, runtime_checkable

import numpy as np

from models.exceptions import MechanismError
from models.noise import FAITHFUL_LOG_RATIO, CorrelatedNoise, InformationTable, IntegerTable, binary_entropy
from models.numerics.arrays import Floats, Integers, Words

Method = TypeVar("Method", bound=Callable[..., Any])


def computed_once(most: int) -> Callable[[Method], Method]:
    """A method that is computed once for equal mechanisms, which are frozen values; ``most`` are kept."""
    return cast(Callable[[Method], Method], lru_cache(most))


# A mechanism's parameters as messages and schedules give them: numbers by name.


def suggest(word: str, known: Iterable[str]) -> str:
    """The closest of the known words, or all of them, as a remedy."""
    known = sorted(known)
    close = get_close_matches(word.lower(), known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"choose one of {', '.join(known)}" if known else "leave it out"


def refuse_unknown(mechanism: str, parameters: Mapping[str, object], known: tuple[str, ...] = ()) -> None:
    """:class:`MechanismError` for a parameter the mechanism does not have."""
    for key in parameters:
        if key not in known:
            must = f"mechanism {mechanism!r} must have no parameters"
            if known:
                must = f"parameters of mechanism {mechanism!r} must be {', '.join(known)}"
            raise MechanismError(must, repr(key), suggest(key, known))


def number(mechanism: str, parameters: Mapping[str, object], key: str) -> float:
    """The parameter ``key`` as a float; :class:`MechanismError` when it is missing or no number."""
    value = parameters.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        got = "nothing" if value is None else repr(value)
        raise MechanismError(
            f"mechanism {mechanism!r} must have a number {key!r}", got, f'write "{key}": 1.0 beside it'
        )
    return float(value)


@dataclass(frozen=True, slots=True)
class Designs:
    """The designs of correlated noise of a deployment, which messages and schedules name by number.

    A design is too large for a message. Its number is a hash of it, so adding designs never changes the
    meaning of a message.
    """

    noises: tuple[CorrelatedNoise, ...] = ()

    @classmethod
    def load(cls, paths: Iterable[Path]) -> Designs:
        """The designs with the covariances in these files; :class:`MechanismError` for a file without one."""
        return cls(tuple(map(CorrelatedNoise.load, paths)))

    def with_designs(self, more: Designs) -> Designs:
        """These designs and others."""
        return Designs(self.noises + more.noises)

    def find(self, number: int) -> CorrelatedNoise:
        """The design with this number; :class:`MechanismError` where there is none."""
        for noise in self.noises:
            if noise.design == number:
                return noise
        raise MechanismError(
            "the number of a noise design must be that of one of the deployment's",
            number,
            "name the file of its covariance in the settings (release.covariance) or with --covariance",
        )


NO_DESIGNS = Designs()


@dataclass(frozen=True)
class NoiseLaw:
    """The exact law of an additive integer noise as its sampler realises it.

    ``probabilities[k]`` belongs to the value ``first + k``; they sum to one. ``truncated_mass`` is the
    total variation between this law and the ideal one (tails cut, table rounding): charged to delta and to
    the risk bounds. Values from ``-faithful_last`` to ``faithful_last`` have a probability within a factor
    ``exp(+-faithful_log_ratio)`` of the ideal one; ``faithful_last`` is -1 where that is known of no value.
    """

    first: int
    probabilities: Floats
    truncated_mass: float
    faithful_last: int = -1
    faithful_log_ratio: float = FAITHFUL_LOG_RATIO

    @classmethod
    def of_table(cls, table: IntegerTable) -> NoiseLaw:
        """The law of a sampler's table, in floating point."""
        return cls(-table.last, table.probabilities, table.truncated_mass, table.faithful_last)

    def outside_faithful(self, shift: int) -> float:
        """Probability of the values that are not faithful, or are not after a shift by up to ``shift``.

        Rounded up; 1 where no value, or fewer than ``shift``, are known to be faithful.
        """
        if self.faithful_last < 0:
            return 1.0
        last = self.faithful_last - self.first
        below = self.probabilities[: max(0, -self.faithful_last - self.first)]
        above = self.probabilities[max(0, last + 1 - shift) :]
        return min(1.0, (float(below.sum()) + float(above.sum())) * (1.0 + 1e-9))

    def expected_size(self) -> float:
        """Expected absolute noise, in people."""
        return float(np.sum(np.abs(self._values()) * self.probabilities))

    def variance(self) -> float:
        """Variance of the noise, which is symmetric about zero."""
        return float(np.sum(self._values() ** 2 * self.probabilities))

    def _values(self) -> Floats:
        return self.first + np.arange(self.probabilities.size, dtype=np.float64)


class NoiseFamily(StrEnum):
    """The textbook law that a mechanism's noise follows, for code that knows a sharper theorem for it.

    All other code uses the mechanism's verbs, which hold for any noise.
    """

    NONE = "none"  # raw, or nothing released
    DISCRETE_GAUSSIAN = "discrete Gaussian"
    CONTINUOUS_GAUSSIAN = "continuous Gaussian"  # drawn so, and rounded
    GEOMETRIC = "two-sided geometric"
    OTHER = "other"


@dataclass(frozen=True)
class NoiseWindow:
    """Steps that share one noise vector: ``position`` of this step in a window of ``steps`` steps.

    ``parameters`` are those of the window, the same at all its steps.
    """

    position: int
    steps: int
    parameters: Mapping[str, float]


class _Ability(type(Protocol)):  # type: ignore[misc]
    """Remembers for each class whether it has a protocol's members.

    ``isinstance`` of a runtime-checkable protocol looks up every member of every object each time, which was
    slow for each release of a step.
    """

    def __instancecheck__(cls, instance: object) -> bool:
        key = cls, type(instance)
        if key not in _ABLE:
            _ABLE[key] = super().__instancecheck__(instance)
        return _ABLE[key]


_ABLE: dict[tuple[type, type], bool] = {}


@runtime_checkable
class DrawnPerWindow(Protocol, metaclass=_Ability):
    """A mechanism whose uniform bits belong to a sensor's noise window instead of to one reading.

    So they cannot depend on the count, and two values of one reading would have the same noise: their
    difference would be exact. Such a reading must be released only once.
    """

    @property
    def noise_window(self) -> NoiseWindow:
        """The window, and the position of the step in it."""

    def covariance_at(self, position: int) -> float:
        """Covariance of this step's noise with that of another step of the window, before rounding."""


@runtime_checkable
class Tabulated(Protocol, metaclass=_Ability):
    """A noised mechanism whose information about one person is tabulated, also for kernels."""

    __slots__ = ()

    def information_table(self) -> InformationTable:
        """Upper bounds of :meth:`information` on a grid of [0, 1/2], for look-up in kernels."""

    def information(self, probability: Floats) -> Floats:
        """Information (nats) between being counted, with ``probability``, and what is published; any shape.

        At most 1e-4 relative above the exact one, never above the entropy ``h(p)``.
        """
        p = np.clip(probability, 0.0, 1.0)
        smaller = np.minimum(p, 1.0 - p)
        table = self.information_table()
        above = np.interp(smaller, table.grid, table.information_nats)
        return np.minimum(above, binary_entropy(smaller))


@runtime_checkable
class PublishesTiers(Protocol, metaclass=_Ability):
    """A mechanism that publishes one count for several tiers of recipients."""

    @property
    def tiers(self) -> tuple[tuple[str, float], ...]:
        """Pairs of name and epsilon (nats), least informed first."""

    def tier_errors(self) -> Mapping[str, float]:
        """Expected |published - count| of each tier's own value, least informed first."""

    def publish_tiers(self, counts: Integers, words: Words) -> Integers:
        """Every tier's values (n, tiers) of counts (n,) for uniform bits ``words`` (n, 2)."""


@runtime_checkable
class Mechanism(Protocol):
    """How one sensor's count becomes public.

    ``name`` and ``parameters`` are what the release says of it. Mechanisms are frozen, hashable values.
    """

    @property
    def name(self) -> str:
        """The name used in messages, schedules and metrics."""

    @property
    def parameters(self) -> Mapping[str, float]:
        """Public parameters, e.g. ``{"sigma": 1.0}``."""

    @property
    def is_released(self) -> bool:
        """False when nothing is published at all."""

    @property
    def is_exact(self) -> bool:
        """True when the count is published as it is."""

    @property
    def noise_family(self) -> NoiseFamily:
        """Which law the noise follows."""

    def publish(self, counts: Integers, words: Words) -> Integers | None:
        """Published values of a batch of counts.

        ``counts`` has shape (n,), ``words`` shape (n, 2): 128 keyed uniform bits a count, high word first.
        None when the mechanism publishes nothing.
        """

    def noise_law(self) -> NoiseLaw | None:
        """Law of the added noise; None when nothing is released."""

    def reveal_probability(self) -> float:
        """Total variation between the noise and itself shifted by one: the erasure bound's delta.

        1 for raw, 0 for suppressed; includes the truncated mass, so it is never too small.
        """

    def divergence(self) -> float:
        """Kullback-Leibler divergence at shift one, nats: inf raw, 0 suppressed, 1/(2 sigma^2) Gaussian."""

    def information(self, probability: Floats) -> Floats:
        """Mutual information (nats) between "the person is counted here" and the published value.

        ``probability`` of being counted, any shape; the result has the same shape and errs upwards only.
        """

    def expected_absolute_error(self) -> float:
        """Expected |published - count|; 0 for raw, nan for suppressed."""

    def variance(self) -> float:
        """Variance of the noise; 0 for raw, inf for suppressed."""

    def zcdp_rho(self) -> float:
        """zCDP cost of one release at sensitivity one: inf for raw, 0 for suppressed."""

    def pure_epsilon(self) -> float:
        """Pure epsilon (nats) of one release at sensitivity one: inf if none holds, 0 for suppressed."""

    def gaussian_variance(self) -> float | None:
        """Variance of the Gaussian law that the noise comes from, 0 without noise; None for other noise."""


@runtime_checkable
class Composite(Protocol, metaclass=_Ability):
    """A mechanism that accountants combine from others; it has no single noise law and is never published."""

    @property
    def parts(self) -> tuple[Mechanism, ...]:
        """The mechanisms it is made of."""

    @property
    def most_counts(self) -> int:
        """How often one person is counted in a part's count at most; the part's own verbs assume once."""


class NoPromises:
    """The verbs of a mechanism that promises and publishes nothing: one that knows better overrides them.

    Its parameters are its fields of the names in ``parameter_names``, which are numbers.
    """

    __slots__ = ()
    name: ClassVar[str]
    parameter_names: ClassVar[tuple[str, ...]] = ()
    is_released: ClassVar[bool] = True
    noise_family: ClassVar[NoiseFamily] = NoiseFamily.OTHER

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, object], designs: Designs = NO_DESIGNS) -> Self:
        """From numbers by name; :class:`MechanismError` for anything else."""
        refuse_unknown(cls.name, parameters, cls.parameter_names)
        return cls(**{name: number(cls.name, parameters, name) for name in cls.parameter_names})

    @property
    def parameters(self) -> Mapping[str, float]:
        """The fields by name."""
        return {name: float(getattr(self, name)) for name in self.parameter_names}

    def publish(self, counts: Integers, words: Words) -> Integers | None:
        """None: nothing is published."""
        return None

    def noise_law(self) -> NoiseLaw | None:
        """None: there is no published value with one noise."""
        return None

    def divergence(self) -> float:
        """Infinite: it may rule somebody out."""
        return inf

    def expected_absolute_error(self) -> float:
        """Infinite: there is no value of its own."""
        return inf

    def variance(self) -> float:
        """Infinite: there is no value of its own."""
        return inf

    def zcdp_rho(self) -> float:
        """Infinite: nothing is promised."""
        return inf

    def pure_epsilon(self) -> float:
        """Infinite: nothing is promised, as by Gaussian noise, however large."""
        return inf

    def gaussian_variance(self) -> float | None:
        """None: it is no Gaussian noise with mean zero."""
        return None


class AddedNoise(NoPromises, Tabulated):
    """A mechanism that publishes the count with one noise: its errors are those of the law."""

    __slots__ = ()

    @abstractmethod
    def noise_law(self) -> NoiseLaw:
        """Law of the added noise."""

    def expected_absolute_error(self) -> float:
        """Expected size of the noise, in people."""
        return self.noise_law().expected_size()

    def variance(self) -> float:
        """Variance of the noise."""
        return self.noise_law().variance()


def truncated_mass(mechanism: Mechanism) -> float:
    """Total variation between a mechanism's sampler and its ideal noise, summed over its parts."""
    if isinstance(mechanism, Composite):
        return sum(map(truncated_mass, mechanism.parts))
    law = mechanism.noise_law()
    return 0.0 if law is None else law.truncated_mass


def errors_of_recipients(mechanism: Mechanism) -> Mapping[str, float]:
    """Expected |published - count| of what each tier reads, least informed first; empty without tiers."""
    return mechanism.tier_errors() if isinstance(mechanism, PublishesTiers) else {}


def public_error(mechanism: Mechanism) -> float:
    """Expected |published - count| of the value that the public reads: that of the least informed tier."""
    return next(iter(errors_of_recipients(mechanism).values()), mechanism.expected_absolute_error())


class MechanismType(Protocol):
    """The interface of a mechanism's class, for the registry."""

    @property
    def name(self) -> str:
        """The name in messages, schedules and metrics."""

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The names of its parameters in a release."""

    def from_parameters(self, parameters: Mapping[str, object], designs: Designs = NO_DESIGNS) -> Mechanism:
        """The mechanism with these parameters; :class:`MechanismError` when they are not its own.

        ``designs`` are the deployment's, for a mechanism whose parameters name one.
        """
