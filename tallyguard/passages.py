"""``tg.certify_windows`` and ``tg.ledger_of_windows``: counts of passages, and of presence over a window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from accounting.bounds import Effort
from accounting.bounds.windows import WindowRisk, window_risk
from accounting.exposure import Exposure
from accounting.ledgers import Neighbours, ZcdpSpend, window_cost
from models.arguments import checked
from models.exceptions import ArgumentError
from models.releases import MoveSensor, Schedule, StepSchedule, WindowRelease
from stream_app.watching.prior_notes import basis_note
from tallyguard.results import (
    People,
    Table,
    ceiling_in_100,
    in_100,
    nats,
    noted,
    plot_ceilings,
    population_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class WindowRisks(Table):
    """One :class:`WindowRisk` a person, by id: ``risks["ada"].certified``."""

    def __init__(self, risks: Mapping[str, WindowRisk], mistakes: int, note: str | None = None) -> None:
        self.risks = dict(risks)
        self.mistakes = mistakes
        self.note = note

    def __len__(self) -> int:
        """Number of people."""
        return len(self.risks)

    def __iter__(self) -> Iterator[str]:
        """Their ids."""
        return iter(self.risks)

    def __getitem__(self, person: str) -> WindowRisk:
        """One person's risk; ``KeyError`` for an unknown id."""
        return self.risks[person]

    def caption(self) -> str:
        """What the ceilings bound, and under which condition."""
        if not self.risks:
            return "Nobody was certified."
        found = next(iter(self.risks.values()))
        steps = found.last - found.first + 1
        return (
            f"Chance in 100 of telling where a person was in at least {steps - self.mistakes} of the fine "
            f"steps {found.first} to {found.last}, if habits are as the prior says and nobody is counted "
            f"more often in a window than its most_counts{noted(self.note)}"
        )

    def shown(self) -> Mapping[str, Sequence[str]]:
        """Guess without the releases, ceiling, and the bound that gave it."""
        found = self.risks.values()
        return {
            "person": list(self.risks),
            "guess": [in_100(each.baseline) for each in found],
            "ceiling": [ceiling_in_100(each.certified) for each in found],
            "nats": [nats(each.information_nats) for each in found],
            "by": [each.by for each in found],
        }

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row a person; chances in 0..1, information in nats."""
        found = self.risks.values()
        return {
            "person": list(self.risks),
            "guess": [each.baseline for each in found],
            "ceiling": [each.certified for each in found],
            "information": [each.information_nats for each in found],
            "certified_by": [each.by for each in found],
            "confidence": [each.confidence for each in found],
        }

    def plot(self, axes: Axes | None = None) -> Axes:
        """Guess and ceiling of each person, sorted by what the releases add; needs matplotlib."""
        rows = self.columns()
        return plot_ceilings(axes, rows["person"], rows["guess"], rows["ceiling"])


@checked(ArgumentError, leave=("people",))
def certify_windows(
    people: People,
    releases: Sequence[WindowRelease],
    horizon: tuple[int, int],
    mistakes: int = 1,
    *,
    first_slot: int = 0,
    effort: Effort | None = None,
) -> WindowRisks:
    """Ceilings on the fine steps ``horizon`` (first and last) for each person, given all releases.

    Step 0 is in the priors' ``first_slot``; the log lasts until the horizon and all windows have ended.
    :class:`TallyguardError` says what must hold where it does not.
    """
    steps = 1 + max([*horizon, *(each.last for each in releases)])
    silent = Schedule(tuple(StepSchedule(step) for step in range(steps)), first_slot)
    counted: set[int] = set()
    for each in releases:
        if isinstance(each.sensor, MoveSensor):
            counted |= {place for start, end, _ in each.sensor.times_counted for place in (start, end)}
        else:
            counted |= set(each.sensor.locations)
    population = population_of(people, counted)
    found = {}
    for position, person in enumerate(population.people):
        chain, start = population.chain(position), population.initial(position)
        exposure = Exposure.of(chain, silent, population.location_count, start)
        found[person] = window_risk(exposure, releases, horizon, mistakes, in_hindsight=True, effort=effort)
    return WindowRisks(found, mistakes, basis_note(len(population), population.assumed))


@checked(ArgumentError)
def ledger_of_windows(
    releases: Sequence[WindowRelease],
    most_sensors: int,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> ZcdpSpend:
    """The differential privacy guarantee: ``.rho_value()``, and ``.epsilon(delta)``.

    ``most_sensors`` is how many sensors can count one person in a window; epsilon is in nats.
    :class:`~accounting.exceptions.LedgerError` for fewer than one.
    """
    return window_cost(releases, most_sensors, neighbours)
