"""All bounds of one person's horizon and the smallest of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, model_validator

from accounting.bounds.protocol import Effort, Question
from accounting.bounds.registry import BOUNDS
from accounting.exceptions import AttackAboveCeilingError

ROUNDING = 1e-9
"""What sums of floating-point numbers may lose on either side of a comparison; most lose 1e-13."""


class Bounds(BaseModel):
    """Upper bounds on the success of any adversary, a field for each certain one of the registry.

    None where one does not apply or was too expensive. ``loose`` and ``tight`` are the paper's, from its own
    information and prior guess where these exist.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, float | None]

    loose: float
    tight: float
    divergence: float

    @model_validator(mode="before")
    @classmethod
    def _with_every_bound(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        known = [bound.name for bound in BOUNDS if bound.is_certain]
        unknown = sorted(values.keys() - set(known))
        if unknown:
            raise ValueError(f"bounds must be among {known}, got {unknown}; add new ones to the registry")
        return {name: values.get(name) for name in known}


@dataclass(frozen=True, slots=True)
class Certified:
    """The smallest bound, which one it was, and with what probability it holds."""

    value: float
    by: str
    confidence: float


class Tried(NamedTuple):
    """An attack that was tried, and how often it is right at the very least."""

    attack: str
    proved: float

    def is_above(self, ceiling: float) -> bool:
        """Whether that refutes a ceiling: by more than rounding."""
        return self.proved > ceiling + ROUNDING

    def refuse_above(self, by: str, ceiling: float) -> None:
        """An :class:`AttackAboveCeilingError` if it refutes the ceiling that the bound ``by`` gives."""
        if self.is_above(ceiling):
            raise AttackAboveCeilingError(self.attack, self.proved, by, ceiling)


def all_bounds(question: Question) -> Bounds:
    """Every bound that holds with certainty."""
    return Bounds.model_validate(question.values())


def certify(question: Question, baseline: float, tried: Tried | None = None) -> Certified:
    """The minimum of all bounds; none that the baseline, or the attack that was ``tried``, refutes."""
    bounds = question.values() | question.values(certain=False)
    return smallest(bounds, baseline, question.effort, tried)


def smallest(
    bounds: Mapping[str, float], baseline: float, effort: Effort, tried: Tried | None = None
) -> Certified:
    """The least of some bounds by name, of equal ones the first, raised to the baseline.

    No rounding may undercut that: it is the exact success of the best guess without the releases. What is
    below it, or below what was ``tried``, by more than rounding is no bound. A sampled one misses now and
    then, as its confidence says, and is left out;
    :class:`~accounting.exceptions.AttackAboveCeilingError` for any other.
    """
    by = min(bounds, key=bounds.__getitem__)
    is_sampled = any(by == bound.name for bound in BOUNDS if not bound.is_certain)
    guess = Tried("the best guess without the releases", baseline)
    best = max([guess, *([] if tried is None else [tried])], key=lambda each: each.proved)
    if is_sampled and len(bounds) > 1 and best.is_above(bounds[by]):
        left = {name: value for name, value in bounds.items() if name != by}
        return smallest(left, baseline, effort, tried)
    best.refuse_above(by, bounds[by])
    return Certified(min(1.0, max(bounds[by], baseline)), by, effort.confidence if is_sampled else 1.0)


def baseline_bound(question: Question) -> float:
    """The smallest bound with nothing released: what of a certified bound is the bounds' own slack."""
    silent = replace(question, exposure=question.exposure.nothing_released)
    return min(silent.values().values())
