"""The certified bound of everybody under one schedule, in one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.raw_success_kernel import NO_PATTERNS, RawQuestion
from accounting.bounds.population_bounds_kernel import Counted, certify_everybody
from accounting.exposure import check_mistakes
from accounting.exposure.step_information import observe
from models.priors import Population
from models.releases import Schedule

_PEOPLE_PER_CALL = 1024


@dataclass(frozen=True, slots=True, eq=False)
class PopulationBounds:
    """Each (N,), in the population's order.

    ``certified`` bounds any adversary's success, ``baseline`` is the best guess from the prior alone, exact;
    ``information_nats`` what the raw version of the schedule reveals. ``by`` are codes of
    :func:`~accounting.bounds.deciding_bound`.
    """

    certified: NDArray[np.float64]
    baseline: NDArray[np.float64]
    information_nats: NDArray[np.float64]
    by: NDArray[np.int64]

    @property
    def added(self) -> NDArray[np.float64]:
        """Upper bound on what the releases added to the baseline."""
        return self.certified - self.baseline


def certify_population(
    population: Population,
    schedule: Schedule,
    mistakes: int,
    *,
    order: int = 2,
    vectors: int = 4,
    threshold: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> PopulationBounds:
    """The least of divergence, frontier (``vectors``), moment (``order``, if any) and exact bounds.

    All are of the raw version of the schedule.

    With a ``threshold`` the refined bounds are computed only where the fast one is above it and the baseline
    is not: on which side of it ``certified`` lies is the same for everybody, and most people cost little.

    Noised schedules reveal less, so the bounds hold for them too; :func:`audit_person` has sharper ones.
    :class:`~accounting.exceptions.HorizonError` unless ``0 <= mistakes < T``.
    """
    check_mistakes(mistakes, len(schedule.steps))
    counted = np.stack([observe(step, population.location_count).labels > 0 for step in schedule.steps])
    releases = Counted(schedule.first_slot, counted)
    question = RawQuestion(mistakes, order, NO_PATTERNS, vectors, False)
    limit = -1.0 if threshold is None else threshold
    parts = []
    for first in range(0, len(population), _PEOPLE_PER_CALL):
        last = min(first + _PEOPLE_PER_CALL, len(population))
        parts.append(certify_everybody(population.arrays, (first, last), releases, question, limit))
        if progress is not None:
            progress(last)
    return PopulationBounds(*(np.concatenate(column) for column in zip(*parts, strict=True)))
