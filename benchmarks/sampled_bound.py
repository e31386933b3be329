"""What a draw of the sampled bound costs, and what the bound says then: the demo city's people, 40 hours."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accounting.bounds import Effort
from accounting.bounds.noised import sampled_success
from accounting.exposure import Exposure, baseline, window_of
from benchmarks.harness import Contestant, measure, rate, show
from experiments.ceilings import schedule_of
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


def main() -> None:
    """Print the table."""
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


if __name__ == "__main__":
    main()
