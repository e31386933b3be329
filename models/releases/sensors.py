"""Sensors: named devices, each counting the people at one location or at a set of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from models.exceptions import SensorError
from models.mechanisms import NO_DESIGNS, Designs
from models.text import CloseNames


@dataclass(frozen=True, slots=True)
class Sensor:
    """One device. ``locations`` are indices into the deployment's locations, increasing, without repeats.

    ``position`` is where it stands on a plane, east and north in any unit, for maps only.
    """

    name: str
    locations: tuple[int, ...]
    group: str = "default"
    position: tuple[float, float] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class SensorRegistry:
    """What a deployment's messages name: every sensor by its name, and ``designs`` of noise by number.

    Without a list of sensors each location has one of its own name (:meth:`one_per_location`).
    """

    location_names: tuple[str, ...]
    sensors: tuple[Sensor, ...]
    designs: Designs = field(default=NO_DESIGNS, repr=False, compare=False)
    _by_name: Mapping[str, Sensor] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check names and locations; build the look-up."""
        by_name: dict[str, Sensor] = {}
        count = len(self.location_names)
        for sensor in self.sensors:
            if sensor.name in by_name:
                raise SensorError("sensor names must be unique", repr(sensor.name), "rename one of the two")
            if not sensor.locations:
                raise SensorError(
                    f"sensor {sensor.name!r} must cover at least one location", "none", "name its locations"
                )
            if list(sensor.locations) != sorted(set(sensor.locations)):
                raise SensorError(
                    f"locations of sensor {sensor.name!r} must be increasing and without repeats",
                    list(sensor.locations),
                    "sort them and drop repeats",
                )
            if sensor.locations[0] < 0 or sensor.locations[-1] >= count:
                raise SensorError(
                    f"locations of sensor {sensor.name!r} must lie in 0..{count - 1}",
                    list(sensor.locations),
                    "use the location indices of the priors file",
                )
            by_name[sensor.name] = sensor
        object.__setattr__(self, "_by_name", by_name)

    @classmethod
    def one_per_location(cls, location_names: Sequence[str]) -> SensorRegistry:
        """A registry in which each location has a sensor of its own name."""
        names = tuple(location_names)
        return cls(names, tuple(Sensor(name, (index,)) for index, name in enumerate(names)))

    def with_designs(self, more: Designs) -> SensorRegistry:
        """The same sensors, and more noise designs."""
        return replace(self, designs=self.designs.with_designs(more))

    def __contains__(self, name: str) -> bool:
        """Whether a sensor of this name exists."""
        return name in self._by_name

    @cached_property
    def _close_names(self) -> CloseNames:
        return CloseNames(self._by_name)

    def get(self, name: str) -> Sensor:
        """The sensor of this name; :class:`SensorError` with the closest names when there is none."""
        try:
            return self._by_name[name]
        except KeyError:
            close = self._close_names.like(name)
            hint = f"did you mean {', '.join(map(repr, close))}?" if close else "see the sensors file"
            raise SensorError("a sensor must be one of the deployment's", repr(name), hint) from None
