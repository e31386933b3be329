"""What all results share: a table in the terminal and in a notebook, columns for data frames, plots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from accounting.exposure import Exposure
from models.exceptions import PriorError, ScheduleError
from models.priors import MovementPrior, Population
from models.releases import Schedule
from stream_app.watching.wording import NEAREST, UP, shortened, significant

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes


Found = TypeVar("Found")

# The people of a call: one prior, several, or a population, on the locations that the sensors count.

People = MovementPrior | Population | Sequence[MovementPrior]
"""One prior, a list of priors, or all of a deployment packed."""


def population_of(people: People, counted: Iterable[int] = ()) -> Population:
    """The people, packed; ``counted`` are the locations of the sensors.

    :class:`~models.exceptions.PriorError` for anything else than priors,
    :class:`~models.exceptions.ScheduleError` where a sensor counts a location that a population lacks.
    """
    highest = max(counted, default=0)
    if isinstance(people, Population):
        if highest >= people.location_count:
            raise ScheduleError(
                f"sensors must count locations of the population, 0..{people.location_count - 1}",
                highest,
                "correct the schedule",
            )
        return people
    priors = [people] if isinstance(people, MovementPrior) else people
    is_known = isinstance(priors, Sequence) and all(isinstance(each, MovementPrior) for each in priors)
    if not (is_known and priors):
        raise PriorError(
            "people must be a Prior, a list of priors or a Population",
            "an empty list" if is_known else type(people).__name__,
            "make a prior with Prior.from_dense, or read a file with load_priors",
        )
    places = range(max(highest, *(int(each.places.max()) for each in priors)) + 1)
    return Population.pack(priors, [str(place) for place in places])


def seen_under(schedule: Schedule, people: People) -> Population:
    """The people, packed, on the locations that the schedule's sensors count."""
    if not isinstance(schedule, Schedule):
        raise ScheduleError(
            "a schedule must say how each sensor's count is released",
            type(schedule).__name__,
            "write Schedule.raw([[3], [5]]) or Schedule.gaussian([[3], [5]], sigma=1.0)",
        )
    released = (each for step in schedule.steps for each in step.releases)
    return population_of(people, (place for each in released for place in each.sensor.locations))


def positions_of(population: Population, person: str | None) -> Sequence[int]:
    """The positions of all people, or of the one ``person``."""
    return range(len(population)) if person is None else [population.position(person)]


def exposure_of(population: Population, position: int, schedule: Schedule) -> Exposure:
    """What the schedule shows about one person."""
    return Exposure.of(
        population.chain(position), schedule, population.location_count, population.initial(position)
    )


# Results as pictures; needs matplotlib.


class Marks(NamedTuple):
    """A value of each person in 0..1, drawn with a marker of matplotlib's; None draws nothing."""

    label: str
    values: Sequence[float | None]
    marker: str


def plot_ceilings(
    axes: Axes | None,
    people: Sequence[str],
    guesses: Sequence[float],
    ceilings: Sequence[float],
    *between: Marks,
    label: str = "ceiling",
) -> Axes:
    """A line for each person from guess to ceiling, the longest on top; new axes if None."""
    axes = new_axes() if axes is None else axes
    order = sorted(range(len(people)), key=lambda k: ceilings[k] - guesses[k])
    rows = range(len(order))
    axes.hlines(rows, [guesses[k] for k in order], [ceilings[k] for k in order], color="0.8")
    for marks in (Marks("guess", guesses, "o"), *between, Marks(label, ceilings, "|")):
        found = [(value, row) for row, k in enumerate(order) if (value := marks.values[k]) is not None]
        if found:
            size = 12 if marks.marker == "|" else 6
            axes.plot(*zip(*found, strict=True), marks.marker, markersize=size, label=marks.label)
    axes.set_yticks(rows, [people[k] for k in order])
    axes.set_xlabel("chance of reconstruction, if habits are as the prior says")
    axes.legend()
    return axes


def new_axes() -> Axes:
    """Axes of a figure of their own."""
    import matplotlib.pyplot as plt

    return plt.subplots()[1]


_NOTHING = 1e-8

MOST_ROWS = 20
"""Rows shown before the rest is counted."""


class Table(ABC):
    """A result as a table: a caption, columns of text, and all numbers by name.

    ``result.to_pandas()``, ``to_polars()`` and ``to_arrow()`` are all numbers as a frame.
    """

    @abstractmethod
    def caption(self) -> str:
        """What the table says, with its condition."""

    @abstractmethod
    def shown(self) -> Mapping[str, Sequence[str]]:
        """The columns people look at, as text."""

    @abstractmethod
    def columns(self) -> Mapping[str, Sequence[Any]]:
        """All columns, as numbers and names."""

    def table(self) -> pa.Table:
        """All columns as an Arrow table."""
        return pa.table(dict(self.columns()))

    def to_arrow(self) -> pa.Table:
        """All columns as an Arrow table."""
        return self.table()

    def to_pandas(self) -> Any:
        """All columns as a frame of pandas, which must be installed."""
        return self.table().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """All columns as a frame of polars, which must be installed."""
        import polars

        return polars.DataFrame(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow table, for libraries that use Arrow's PyCapsule protocol."""
        return self.table().__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]

    def __repr__(self) -> str:
        """The caption and a table for the terminal."""
        rows, left = self._rows()
        header = list(self.shown())
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines = [
            "  ".join(
                text.ljust(width) if index == 0 else text.rjust(width)
                for index, (text, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in [header, *rows]
        ]
        return "\n".join([self.caption(), "", *lines, *([left] if left else [])])

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        rows, left = self._rows()
        head = "".join(f"<th>{escape(name)}</th>" for name in self.shown())
        body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
        more = f"<p>{escape(left)}</p>" if left else ""
        return (
            f"<p>{escape(self.caption())}</p><table><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>{more}"
        )

    def _rows(self) -> tuple[list[tuple[str, ...]], str]:
        """The rows that are shown, and a line about those that are not."""
        rows = list(zip(*self.shown().values(), strict=True))
        left = len(rows) - MOST_ROWS
        return rows[:MOST_ROWS], f"... and {left:,} more" if left > 0 else ""


class ByPerson(Table, Generic[Found]):
    """What was found of each person, by id: ``found["ada"]``; ``KeyError`` for an unknown one."""

    def __init__(self, found: Mapping[str, Found], note: str | None = None) -> None:
        self.found = dict(found)
        self.note = note

    def __len__(self) -> int:
        """Number of people."""
        return len(self.found)

    def __iter__(self) -> Iterator[str]:
        """Their ids."""
        return iter(self.found)

    def __getitem__(self, person: str) -> Found:
        """What was found of one person."""
        return self.found[person]


def in_100(chance: float, to: str = NEAREST) -> str:
    """A chance, or a difference of two, in 100: one decimal, or two digits below 0.1.

    Zero up to rounding (1e-8) has no sign. Use :func:`ceiling_in_100` for ceilings.
    """
    part = 100.0 * chance
    if abs(part) >= 0.1 or (abs(chance) <= _NOTHING and to == NEAREST) or part == 0.0:
        return shortened(chance, 1, to, shift=2)
    return significant(chance, 2, to, shift=2)


def ceiling_in_100(chance: float) -> str:
    """A ceiling in 100, rounded up."""
    return in_100(chance, UP)


def nats(amount: float) -> str:
    """A bound on information, in nats: three decimals, or two digits below 0.001, rounded up."""
    return significant(amount, 2, UP) if 0.0 < amount < 0.001 else shortened(amount, 3, UP)


def noted(note: str | None) -> str:
    """A note for the end of a caption; empty where there is none."""
    return "" if note is None else f"; {note}"
