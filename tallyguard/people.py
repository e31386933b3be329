"""Who is asked about: one prior, several, or a population, on locations that the sensors know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from accounting.exposure import Exposure
from models.exceptions import PriorError, ScheduleError
from models.priors import MovementPrior, Population
from models.releases import Schedule

People = MovementPrior | Population | Sequence[MovementPrior]
"""One prior, a list of priors, or all of a deployment packed."""


def population_of(people: People, counted: Iterable[int] = ()) -> Population:
    """Everybody packed; ``counted`` are the locations of the sensors.

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
    """Everybody packed, on locations that the schedule's sensors know."""
    if not isinstance(schedule, Schedule):
        raise ScheduleError(
            "a schedule must say how each sensor's count is released",
            type(schedule).__name__,
            "write Schedule.raw([[3], [5]]) or Schedule.gaussian([[3], [5]], sigma=1.0)",
        )
    released = (each for step in schedule.steps for each in step.releases)
    return population_of(people, (place for each in released for place in each.sensor.locations))


def positions_of(population: Population, person: str | None) -> Sequence[int]:
    """Where everybody stands, or the one ``person``."""
    return range(len(population)) if person is None else [population.position(person)]


def exposure_of(population: Population, position: int, schedule: Schedule) -> Exposure:
    """What the schedule shows of one person."""
    return Exposure.of(
        population.chain(position), schedule, population.location_count, population.initial(position)
    )
