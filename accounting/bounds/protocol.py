"""The question that every bound gets and the answer it must give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TypeVar, cast

from accounting.exceptions import EffortError
from accounting.exposure import Exposure, Information, PriorGuess, prior_guess, released_information
from models.arguments import checked
from models.numerics.arrays import Floats

# How much work the refined bounds may do: time against sharpness, never against validity.


@checked(EffortError)
@dataclass(frozen=True, slots=True)
class Effort:
    """Parameters of the refined bounds.

    ``order`` is the largest number of steps the moment bound looks at jointly; ``patterns`` how many hit
    patterns, and kept sets of noised sensors, may be enumerated (4096 covers 12 steps with one sensor each).
    ``vectors`` is how hard the frontier bound searches each segment: prefixes of guesses expanded a step.
    With ``draws`` > 0 the bound by sampling is computed too: it holds with probability ``confidence`` over
    the draws of ``seed``; divide ``1 - confidence`` over the people audited if all are to hold together.
    """

    order: int = 4
    patterns: int = 4096
    vectors: int = 64
    draws: int = 0
    seed: int = 0
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """:class:`EffortError` names the parameter that is out of range."""
        if self.order < 1:
            raise EffortError("order must be at least 1", self.order, "use 1 for speed, 4 for sharpness")
        if self.patterns < 0:
            raise EffortError("effort must not be negative", self.patterns, "use 0 to enumerate nothing")
        if self.vectors < 0:
            raise EffortError("vectors must not be negative", self.vectors, "use 0 for no frontier bound")
        if self.draws < 0:
            raise EffortError("draws must not be negative", self.draws, "use 0 to sample nothing")
        if self.seed < 0:
            raise EffortError("a seed must be 0 or more", self.seed, "use any other number")
        if not 0.0 < self.confidence < 1.0:
            raise EffortError("confidence must lie in (0, 1)", self.confidence, "use 0.95")


# A bound: a question about one exposure in, an upper bound on the success of any adversary out.

T = TypeVar("T")


class Scope(Enum):
    """Which releases a bound speaks of."""

    ANY = "all"
    RAW = "raw; noised, as a bound"  # of the raw version of the schedule, which reveals more
    NOISED = "noised"


@dataclass(frozen=True, eq=False)
class Question:
    """How often can anyone be wrong in at most ``mistakes`` steps of this exposure's trajectory?

    Answered by ``bounds`` with the given ``effort``. What several of them need is computed once.
    """

    exposure: Exposure
    mistakes: int
    effort: Effort
    bounds: tuple[Bound, ...] = ()

    @cached_property
    def information(self) -> Information:
        """What is released about the trajectory."""
        return released_information(self.exposure)

    @cached_property
    def guess(self) -> PriorGuess:
        """How likely a guess from the prior alone is."""
        return prior_guess(self.exposure, self.mistakes)

    @cached_property
    def _answers(self) -> dict[Callable[[Question], object], object]:
        return {}

    def once(self, compute: Callable[[Question], T]) -> T:
        """``compute`` of this question, computed once."""
        if compute not in self._answers:
            self._answers[compute] = compute(self)
        return cast(T, self._answers[compute])

    def once_raw(self, compute: Callable[[Question], T]) -> T:
        """:meth:`once` for what depends on the raw schedule alone, and is kept for other noise, too."""
        what = compute, self.mistakes, self.effort
        return self.exposure.of_raw_version(what, lambda: compute(self))

    def values(self, *scopes: Scope, certain: bool = True, vouched: bool = True) -> dict[str, float]:
        """The bounds of these scopes (of all without one) that apply, by name.

        Only those that somebody vouches for or, without ``vouched``, only the others.
        """
        chosen = (
            bound
            for bound in self.bounds
            if bound.is_certain == certain
            and bound.is_vouched == vouched
            and (not scopes or bound.scope in scopes)
        )
        found = {bound.name: self._value(bound) for bound in chosen}
        return {name: value for name, value in found.items() if value is not None}

    def value(self, name: str) -> float | None:
        """The bound of this name; None where it does not apply, or is not asked for."""
        return next((self._value(bound) for bound in self.bounds if bound.name == name), None)

    def _value(self, bound: Bound) -> float | None:
        return (self.once_raw if bound.scope is Scope.RAW else self.once)(bound.compute)


@dataclass(frozen=True, eq=False)
class LogQuestion:
    """How often can anyone be wrong in at most ``mistakes`` of the steps ``first..last`` of a longer log?

    ``exposure`` is the whole log; the adversary sees its first ``seen`` steps. ``ends`` (E, K) is the
    likelihood of what exact counts after ``last`` would show (``patterns.raw_success_kernel.future_ends``).
    """

    exposure: Exposure
    first: int
    last: int
    seen: int
    mistakes: int
    ends: Floats
    effort: Effort


@dataclass(frozen=True, slots=True)
class Bound:
    """One upper bound, known by its ``name``; ``idea`` and ``cost`` are its row in the documentation.

    ``compute`` gives a value in [0, 1], or None where the bound does not apply or the effort does not
    suffice. One that is not ``is_certain`` holds with the effort's confidence only.

    One that can take in what was released before and after a horizon has ``within_log`` as well; the others
    bound it by what the outside says about the ends (:mod:`accounting.bounds.certified`).

    One that nobody vouches for is shown, and lowers no ceiling.
    """

    name: str
    idea: str
    scope: Scope
    cost: str
    compute: Callable[[Question], float | None]
    is_certain: bool = True
    within_log: Callable[[LogQuestion], float | None] | None = None
    is_vouched: bool = True
