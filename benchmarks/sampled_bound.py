"""What a draw of the sampled bound costs, and what it says: the demo city's people, 40 hours; a run's few."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from time import process_time

import numpy as np

from accounting.bounds import Effort
from accounting.bounds.noised import sampled_success
from accounting.continuous import ContinuousAccountant
from accounting.continuous.shadow import Shadow
from accounting.exposure import Exposure, baseline, window_of
from accounting.settings import OPERATIONS, HorizonSettings
from benchmarks.harness import Contestant, measure, rate, show
from experiments.ceilings import last_but_one, schedule_of
from models.mechanisms import Gaussian
from stream_app.city import CityOptions, build_city

STEPS, HORIZON, DRAWS, PEOPLE = 40, 10, 2000, 10
WINDOW = (STEPS - HORIZON, STEPS - 1)
EFFORT = Effort(draws=DRAWS, confidence=0.999)


def exposures(sigma: float) -> list[Exposure]:
    """People of the city under noise of this size at every active sensor."""
    city = build_city(CityOptions(people=PEOPLE))
    schedule, places = schedule_of(city, Gaussian(sigma), STEPS), city.population.location_count
    return [Exposure.of(city.population.chain(person), schedule, places) for person in range(PEOPLE)]


def bounds(people: list[Exposure], mistakes: int) -> Callable[[], None]:
    """Everybody's bound, tables and all."""

    def run() -> None:
        for exposure in people:
            sampled_success(exposure, WINDOW, mistakes, EFFORT)

    return run


def added(people: list[Exposure], mistakes: int) -> float:
    """The bound above the best guess without any count, on average."""
    found = [sampled_success(exposure, WINDOW, mistakes, EFFORT) for exposure in people]
    guesses = [baseline(window_of(exposure, *WINDOW), mistakes).success for exposure in people]
    return float(np.mean([bound - guess for bound, guess in zip(found, guesses, strict=True) if bound]))


CITY, EXPOSED, IN_RUNS_OF = 80, 5, (80, 100_000)


def of_the_most_exposed() -> Iterator[list[str]]:
    """What releases add to the five most exposed of a run, for certain and by sampling."""
    population = build_city(CityOptions(people=CITY)).population
    for sigma in (1.0, 3.0):
        schedule = schedule_of(build_city(CityOptions(people=CITY)), Gaussian(sigma), STEPS)
        for mistakes in (1, 2, 3):
            for people in IN_RUNS_OF:
                work = OPERATIONS * CITY // people
                settings = HorizonSettings(HORIZON, mistakes, sharpen_above=0.0, operations=work)
                accountant = ContinuousAccountant(population, settings)
                accountant.restore(last_but_one(population, settings, schedule))
                accountant.apply(schedule.steps[-1])
                accountant.settings = replace(settings, operations=OPERATIONS)
                shadow = Shadow(accountant, (), 0.95)
                for step in schedule.steps:
                    shadow.note(step)
                certain = accountant.added()
                exposed = np.argsort(-certain)[:EXPOSED]
                begun = process_time()
                found = shadow.sampled(1.0, np.isin(np.arange(CITY), exposed))
                spent = (process_time() - begun) * 1e3 / EXPOSED
                assert found is not None
                means = (f"{values[exposed].mean():.3f}" for values in (certain, found.added))
                yield [f"sigma {sigma:g}, {mistakes} wrong, of {people:,}", *means, f"{spent:.0f}"]


def main() -> None:
    """Print the tables."""
    cases = {(sigma, s): exposures(sigma) for sigma in (1.0, 10.0) for s in (0, 1, 2)}
    names = {case: f"sigma {case[0]:g}, {case[1]} mistakes" for case in cases}
    found = measure(
        {names[case]: Contestant(bounds(people, case[1]), PEOPLE * DRAWS) for case, people in cases.items()}
    )
    rows = [[names[c], rate(found[names[c]]), f"{added(cases[c], c[1]):.4f}"] for c in cases]
    show(
        f"sampled bound, {DRAWS} draws a person, last {HORIZON} of {STEPS} steps, confidence 0.999",
        ["", "draws/s, all threads", "added, mean"],
        rows,
    )
    next(of_the_most_exposed())  # compiled
    show(
        f"the {EXPOSED} most exposed of {CITY} people, with the work that a run of so many has for them",
        ["", "added for certain", f"with 95% confidence, {DRAWS} draws", "ms a person"],
        list(of_the_most_exposed()),
    )


if __name__ == "__main__":
    main()
