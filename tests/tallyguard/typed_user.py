"""What a user writes who checks types: `make style` runs `mypy --strict` on it, and a test runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

import tallyguard as tg


@dataclass(frozen=True)
class Triangle(tg.BoundedNoise):
    """Noise that is likelier near 0."""

    width: float
    name: ClassVar[str] = "typed_triangle"

    def law(self) -> NDArray[np.float64]:
        far = np.abs(np.arange(-int(self.width), int(self.width) + 1))
        return np.asarray(self.width + 1.0 - far, np.float64)


def pinsker(question: tg.BoundQuestion) -> float | None:
    """The guess, and the root of half the information."""
    return min(1.0, question.guess.best + sqrt(question.information.best / 2.0))


def stays(seen: tg.Seen) -> NDArray[np.int64]:
    """The likeliest first place, all the time."""
    return np.full(len(seen.likelihood), int((seen.start * seen.likelihood[0]).argmax()))


def ceilings() -> Mapping[str, float]:
    """By person, of two kinds of release."""
    ada = tg.Prior.from_dense("ada", [[0.9, 0.1], [0.4, 0.6]])
    bob = tg.second_order("bob", np.full((2, 2, 2), 0.5))
    people: tg.Population = tg.Population.pack([ada, bob], ["home", "work"])
    schedule: tg.Schedule = tg.Schedule.of([[1], [], [1]], Triangle(3.0))
    audits: tg.Audits = tg.certify(people, schedule, mistakes=0, effort=tg.Effort(vectors=8))
    frame = audits.to_pandas()
    assert list(frame["person"]) == ["ada", "bob"]
    check: tg.BoundCheck = tg.check_bound(pinsker, cases=2)
    assert check.is_sound, str(check)
    shares: float = tg.advantage(audits["ada"].certified, audits["ada"].baseline)
    assert 0.0 <= shares <= 1.0
    return {each.person: each.certified for each in audits}
