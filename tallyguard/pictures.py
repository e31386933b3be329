"""Results as pictures; needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    """A line a person from guess to ceiling, those to whom most is added on top; new axes if None."""
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
