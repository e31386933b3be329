"""All bounds of one person's horizon and the smallest of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from accounting.bounds.protocol import Effort, Question
from accounting.bounds.registry import BOUNDS


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


def all_bounds(question: Question) -> Bounds:
    """Every bound that holds with certainty."""
    return Bounds.model_validate(question.values())


def certify(question: Question, baseline: float) -> Certified:
    """The minimum of all bounds."""
    return smallest(question.values() | question.values(certain=False), baseline, question.effort)


def smallest(bounds: Mapping[str, float], baseline: float, effort: Effort) -> Certified:
    """The least of some bounds by name, of equal ones the first, raised to the baseline.

    No rounding may undercut that: it is the exact success of the best guess without the releases.
    """
    by = min(bounds, key=bounds.__getitem__)
    is_sampled = any(by == bound.name for bound in BOUNDS if not bound.is_certain)
    confidence = effort.confidence if is_sampled else 1.0
    return Certified(min(1.0, max(bounds[by], baseline)), by, confidence)


def baseline_bound(question: Question) -> float:
    """The smallest bound with nothing released: what of a certified bound is the bounds' own slack."""
    silent = replace(question, exposure=question.exposure.nothing_released)
    return min(silent.values().values())
