"""What totals are worth, and what a bound over the day is worth: noise, errors, epsilon by unit, ceilings.

``python -m experiments.totals --results docs/results/tables`` writes ``totals.md``: a month of hourly counts
of twelve sensors in three districts, with the least noise for epsilon 5 of the whole log, without and with a
bound over the day; and what a level of its own for the day would change.
"""

from __future__ import annotations

import argparse
from math import sqrt
from pathlib import Path

from accounting.continuous import ContinuousAccountant
from accounting.ledgers import ReleaseLog, epsilon_from_zcdp, read_differential_privacy
from accounting.ledgers.units import UnitStatement, read_units
from accounting.settings import HorizonSettings
from experiments.measure import markdown
from experiments.nested_levels import NestedLevels
from models.calendar import Days
from models.mechanisms import Gaussian, half_width
from models.releases import PerDay, Schedule, Sensor, SensorRelease, StepSchedule
from stream_app.city import CityOptions, build_city
from stream_app.watching.wording import epsilon_in_words

SENSORS, DISTRICT, DAYS, EPSILON, DELTA = 12, 4, 28, 5.0, 1e-6
BOUNDS: tuple[PerDay | None, ...] = (
    None,
    PerDay(counts=8),
    PerDay(counts=4),
    PerDay(counts=2),
    PerDay(counts=1),
)
CLOCK = Days(0, 3600)
PEOPLE, SHOWN = 400, 24


def log_of(sigma: float, bound: PerDay | None) -> ReleaseLog:
    """Every sensor in every hour."""
    sensors = [Sensor(f"s{number}", (number,), per_day=bound) for number in range(SENSORS)]
    releases = tuple(SensorRelease(sensor, Gaussian(sigma)) for sensor in sensors)
    return ReleaseLog.of(StepSchedule(step, releases) for step in range(24 * DAYS))


def statements(sigma: float, bound: PerDay | None) -> tuple[UnitStatement, ...]:
    """The epsilons of each unit."""
    return read_units(log_of(sigma, bound), DELTA, CLOCK, 25, 2)


def least_sigma(bound: PerDay | None) -> float:
    """The least noise, to a tenth, with which the month costs epsilon 5."""
    rho = read_differential_privacy(log_of(1.0, bound), DELTA, days=CLOCK).rho_value()
    tenths = 1
    while epsilon_from_zcdp(rho / (tenths / 10.0) ** 2, DELTA) > EPSILON:
        tenths += 1
    return tenths / 10.0


def ceilings(sigma: float) -> tuple[float, float]:
    """The highest mean ceiling and the highest mean added risk of a day in the city of the demo."""
    city = build_city(CityOptions(people=PEOPLE, sensors=SENSORS, active=SENSORS))
    accountant = ContinuousAccountant(city.population, HorizonSettings(10, 1, sharpen=False))
    releases = tuple(SensorRelease(sensor, Gaussian(sigma)) for sensor in city.registry.sensors)
    found = []
    for step in Schedule(tuple(StepSchedule(each, releases) for each in range(SHOWN))).steps:
        accountant.apply(step)
        found.append((float(accountant.risk().mean()), float(accountant.added().mean())))
    return max(risk for risk, _ in found), max(added for _, added in found)


def row(bound: PerDay | None) -> list[str]:
    """One bound over the day, and what follows from it."""
    sigma = least_sigma(bound)
    widths = [half_width([Gaussian(sigma)] * cells, 0.95) for cells in (1, 24, 24 * 7, 24 * DISTRICT)]
    ceiling, added = ceilings(sigma)
    return [
        "none" if bound is None else f"{bound.counts} a day",
        f"{sigma:g}",
        *(f"±{width:,}" for width in widths),
        *(epsilon_in_words(each.statement.epsilon) for each in statements(sigma, bound)),
        f"{ceiling:.3f}",
        f"{added:.3f}",
    ]


def own_level(most: int) -> list[str]:
    """What a value of its own for the day gains, at the same rho, for equal relative errors."""
    levels = NestedLevels((1, 24), (1,))
    weight = [[1.0], [1.0 / 24**2]]
    rho = most / (2.0 * 10.0**2)  # of hours at sigma 10
    alone = levels.variances([[0.01], [0.0]])
    best = levels.best_split([[float(most)], [float(most**2)]], weight, rho)
    both = levels.variances(best.precision)
    share = best.precision[1][0] * most**2 / (2.0 * rho)
    return [
        str(most),
        f"{100.0 * share:.1f} %" if share > 1e-6 else "nothing",
        *(f"{sqrt(found[level][0]):.1f}" for level in (0, 1) for found in (alone, both)),
    ]


def own_city_level() -> list[str]:
    """The same for the city's hour beside its sensors; a person is at one of them, so both cost alike."""
    levels = NestedLevels((1,), (1, SENSORS))
    alone = levels.variances([[0.01, 0.0]])
    best = levels.best_split([[1.0, 1.0]], [[1.0, 1.0 / SENSORS**2]], 0.005)
    both = levels.variances(best.precision)
    shown = [f"{sqrt(found[0][level]):.1f}" for level in (0, 1) for found in (alone, both)]
    return [f"{100.0 * best.precision[0][1] / 0.01:.1f} %", *shown]


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True)
    results = parser.parse_args().results
    head = ["counted at most", "sigma", "hour", "day", "week", "district's day"]
    head += [f"epsilon, {each}" for each in ("month", "day", "any 24 hours", "visit of 1 hour")]
    text = [
        "# Totals, and a bound over the day",
        "",
        f"By `python -m experiments.totals`: {DAYS} days of hourly counts of {SENSORS} sensors,",
        f"districts of {DISTRICT}, with the least noise for which the month costs epsilon {EPSILON:g} at",
        f"delta {DELTA:g}; intervals at 95 in 100. Ceilings are of {PEOPLE} people of the demo's city over",
        "its first day (9 of the last 10 hours, mean of the worst hour, by the fast bound): they follow from",
        "the noise alone and make no use of the bound over the day.",
        "",
        markdown([*head, "ceiling", "added"], [row(bound) for bound in BOUNDS]),
        "",
        "**A value of its own for the day** beside hours, at the cost of hours at sigma 10 and for equal",
        "relative errors: standard deviations of hour and day after least squares.",
        "",
        markdown(
            ["counted a day", "share of the budget", "hour alone", "hour, both", "day alone", "day, both"],
            [own_level(most) for most in (1, 2, 4, 24)],
        ),
        "",
        "Sums of hours are the best there is for the day unless a person is counted once a day. So totals",
        "are sums of what is published.",
        "",
        f"**A value of its own for the city's hour** beside {SENSORS} sensors, likewise: a person is at one",
        "of them in an hour, so it gains a little, whatever the bound over the day.",
        "",
        markdown(
            ["share of the budget", "sensor alone", "sensor, both", "city alone", "city, both"],
            [own_city_level()],
        ),
        "",
    ]
    (results / "totals.md").write_text("\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    main()
