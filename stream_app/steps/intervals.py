"""How far off a published value is: an interval that holds the count with a declared probability.

It follows from the mechanism's exact law and from the value, so it releases nothing. What was suppressed has
no upper end: it is no 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from models.exceptions import MechanismError
from models.mechanisms import NO_DESIGNS, Designs, Mechanism, Tiered, half_width, parse
from stream_app.setup.run_folder.description import description_in
from stream_app.setup.run_folder.run_settings import designs_of_run, load_run
from stream_app.setup.settings import Settings
from stream_app.wire import SensorValue

LEVEL: float = Settings.model_fields["confidence"].default


class Interval(NamedTuple):
    """The count is from ``low`` to ``high``; None where no end is known."""

    low: int | None
    high: int | None


@dataclass(frozen=True)
class Intervals:
    """The intervals of a run's values: at ``level``, with the noise designs that its log may name."""

    level: float = LEVEL
    designs: Designs = NO_DESIGNS

    @classmethod
    def of_run(cls, folder: Path, level: float | None = None) -> Intervals:
        """Those of a run; without a level that of its setting ``confidence``."""
        load_run(folder)
        description = description_in(folder)
        declared = LEVEL if description is None else description.settings.get("confidence", LEVEL)
        return cls(float(declared) if level is None else level, designs_of_run(folder))

    def of(self, entry: SensorValue) -> Interval:
        """The interval of one value."""
        noise = noise_of(entry, self.designs)
        if entry.value is None or noise is None:
            return Interval(0, None)
        return around(entry.value, half_width([noise], self.level))


def around(value: int, width: int) -> Interval:
    """So much to both sides of a value; no count is below 0."""
    return Interval(max(0, value - width), max(0, value + width))


def noise_of(entry: SensorValue, designs: Designs = NO_DESIGNS) -> Mechanism | None:
    """The noise in a value; None where there is no value, or its noise is not known here."""
    if entry.value is None:
        return None
    if entry.epsilon is not None:  # the least informed tier's value, or that of a tier's own file
        return Tiered((("tier", entry.epsilon),))
    own = {"sigma": entry.sigma, "design": entry.design, "position": entry.position}
    parameters = {name: value for name, value in own.items() if value is not None}
    try:
        return parse(entry.mechanism, {**parameters, **entry.__pydantic_extra__}, designs)
    except MechanismError:
        return None
