"""One month of real counts, published as statistical offices, mobility reports and tallyguard would.

``python -m experiments.official_statistics --data ../shared/data --results docs/results/tables`` writes
``official-statistics.md``.

Cell-key noise as the Australian Bureau of Statistics makes it, and for the census of 2021 the British
Office for National Statistics: Fraser and Wooton 2005, "A proposed method for confidentialising tabular
output to protect against differencing"; Marley and Leaver 2011, "A method for confidentialising user-
defined tables" (bounded noise of mean 0 and most entropy). Offices keep their parameters secret; those
here are within what they describe. Small counts and complementary suppression: Hundepool et al. 2012,
"Statistical Disclosure Control", chapter 4.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import isfinite
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from accounting.bounds import Effort, mean_added
from accounting.continuous import ContinuousAccountant
from accounting.ledgers import ReleaseLog
from accounting.ledgers.units import read_units
from accounting.settings import HORIZON, HorizonSettings
from experiments.ceilings import last_but_one
from experiments.measure import markdown
from models.calendar import Days
from models.mechanisms import BoundedNoise, Gaussian, Mechanism, Raw, Suppressed
from models.releases import Schedule, SensorRelease, StepSchedule
from stream_app.city import City, CityOptions, build_city
from stream_app.watching.wording import epsilon_in_words

SENSORS, PEOPLE, DRAWS, MISTAKES = 12, 200, 4_000, 1
FIRST, DAYS = "2014-05-01", 31
AFTERNOON, NIGHT = 24 * 7 + 23, 24 * 8 + 5  # hours of the month in which the ten hours end
FARTHEST, VARIANCE, LEAST_SHOWN = 5, 3.0, 3  # of cell-key noise: no 1 and no 2 is published
SMALL, THRESHOLD = 5, 10
DELTA = 1e-6
FILE = "melbourne_pedestrian_hourly.parquet"

Counts = NDArray[np.int64]  # [hour, sensor]; -1 where nothing is published


@cache
def perturbation(count: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Noise that a count may get, and its law: most entropy at mean 0 and the variance, 0 stays 0.

    The law is ``exp(a v + b v^2)``, normalised; its parameters solve the convex dual.
    """
    shifts = np.arange(-FARTHEST, FARTHEST + 1)
    if count == 0:
        return np.zeros(1, np.int64), np.ones(1)
    published = count + shifts
    shifts = shifts[(published == 0) | (published >= LEAST_SHOWN)]
    moments = np.stack([shifts, shifts**2]).astype(float)
    wanted = np.array([0.0, VARIANCE])

    def dual(at: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        whole = logsumexp(at @ moments)
        return float(whole - at @ wanted), moments @ np.exp(at @ moments - whole) - wanted

    at = minimize(dual, np.zeros(2), jac=True, method="BFGS", options={"gtol": 1e-10}).x
    law = np.exp(at @ moments - logsumexp(at @ moments))
    return shifts, law / law.sum()


@dataclass(frozen=True)
class CellKey(BoundedNoise):
    """The noise of a count of ``FARTHEST + LEAST_SHOWN`` or more, which does not depend on the count."""

    name: ClassVar[str] = "cell-key"

    def law(self) -> NDArray[np.float64]:
        """The table, of which the two sides differ by rounding."""
        law = perturbation(FARTHEST + LEAST_SHOWN)[1]
        return law + law[::-1]


def _drawn(count: int, keys: NDArray[np.float64]) -> NDArray[np.int64]:
    """The noise of cells with this count and these keys, uniform in [0, 1)."""
    shifts, law = perturbation(count)
    return shifts[np.minimum(np.searchsorted(np.cumsum(law), keys, side="right"), shifts.size - 1)]


def cell_key(counts: Counts, seed: int = 0) -> Counts:
    """Counts with noise by the key of the cell: the same cell, the same noise, however often it is asked."""
    keys = np.random.Generator(np.random.Philox(seed)).random(counts.shape)
    published = counts.copy()
    for count in np.unique(np.minimum(counts, FARTHEST + LEAST_SHOWN)):
        cells = np.minimum(counts, FARTHEST + LEAST_SHOWN) == count
        published[cells] += _drawn(int(count), keys[cells])
    return published


def suppressed(counts: Counts) -> Counts:
    """Counts of 1 to below ``SMALL`` are left out, and one more where a sensor's day would have just one.

    Exact totals of the days would give a single one away.
    """
    by_day = np.where((counts > 0) & (counts < SMALL), -1, counts).reshape(-1, 24, counts.shape[1])
    for day, sensor in np.argwhere((by_day < 0).sum(axis=1) == 1):
        own = by_day[day, :, sensor]
        left = np.where(own > 0, own, own.max() + 1)
        own[int(left.argmin())] = -1
    return by_day.reshape(counts.shape)


@dataclass(frozen=True)
class Method:
    """How counts are published, and by which mechanisms whoever knows all others' counts may see a person.

    ``at_least`` is what an attack may count on, ``at_most`` what a ceiling has to allow for: they differ
    where a method's law depends on the count.
    """

    name: str
    published: Counts
    at_least: NDArray[np.object_]  # a mechanism for each cell
    at_most: NDArray[np.object_]


def methods(counts: Counts, sigmas: Sequence[float] = (1.0, 3.0, 10.0), seed: int = 0) -> list[Method]:
    """Every method on the same counts, which are those of all others."""
    random = np.random.Generator(np.random.Philox((seed, 1)))
    raw, nothing, whole = Raw(), Suppressed(), counts.shape

    def everywhere(one: Mechanism) -> NDArray[np.object_]:
        return np.full(whole, one, object)

    def cells(where: NDArray[np.bool_], one: Mechanism, other: Mechanism) -> NDArray[np.object_]:
        found = everywhere(other)
        found[where] = one
        return found

    large, complementary = counts >= FARTHEST + LEAST_SHOWN, suppressed(counts)
    kept = np.where(counts >= THRESHOLD, counts, -1)
    seen = cells(counts >= THRESHOLD - 1, raw, nothing)  # one more person makes the difference at k - 1
    noise = [(sigma, Gaussian(sigma)) for sigma in sigmas]
    return [
        Method("as counted", counts, everywhere(raw), everywhere(raw)),
        Method(
            f"below {SMALL} left out, exact totals",
            complementary,
            cells(complementary >= 0, raw, nothing),
            everywhere(raw),
        ),
        Method(f"below {THRESHOLD} left out", kept, seen, seen),
        Method(
            "cell-key noise",
            cell_key(counts, seed),
            cells(large, CellKey(), nothing),
            cells(large, CellKey(), raw),
        ),
        *(
            Method(
                f"tallyguard, sigma {sigma:g}",
                counts + np.rint(random.normal(0.0, sigma, whole)).astype(np.int64),
                everywhere(own),
                everywhere(own),
            )
            for sigma, own in noise
        ),
    ]


@dataclass(frozen=True)
class Row:
    """What a method costs its readers, and what it leaves an adversary; means over cells, days and people."""

    name: str
    shown: float  # share of the hours
    error: float  # of an hour that is shown, in people
    day_error: float  # of a day's total of a sensor
    guess: tuple[float, ...]
    attack: tuple[float, ...]
    half_width: tuple[float, ...]  # of the attack, at 99 in 100
    ceiling: tuple[float, ...]
    epsilon: float  # of a person's day


def measure(method: Method, counts: Counts, city: City, ends: Sequence[int], draws: int = DRAWS) -> Row:
    """One line of the table; ``ends`` are the hours in which the windows end that are to be reconstructed."""
    is_shown = method.published >= 0 if "tallyguard" not in method.name else np.ones(counts.shape, bool)
    off = np.where(is_shown, method.published - counts, 0)
    missing = np.where(is_shown, 0, counts)
    days = (off - missing).reshape(-1, 24, counts.shape[1]).sum(axis=1)
    found = [_reconstructed(method, city, end, draws) for end in ends]
    guess, attack, half_width, ceiling = (tuple(each) for each in zip(*found, strict=True))
    log = ReleaseLog.of(schedule_of(city, method.at_most, 0).steps)
    day = read_units(log, DELTA, Days(0, 3600), 25, 2)[1].statement.epsilon
    return Row(
        method.name,
        float(is_shown.mean()),
        float(np.abs(off)[is_shown].mean()),
        0.0 if "totals" in method.name else float(np.abs(days).mean()),
        guess,
        attack,
        half_width,
        ceiling,
        day,
    )


def schedule_of(city: City, mechanisms: NDArray[np.object_], first: int) -> Schedule:
    """A mechanism for each hour and sensor, from an hour of the day on."""
    sensors = city.registry.sensors
    return Schedule(
        tuple(
            StepSchedule(step, tuple(SensorRelease(*each) for each in zip(sensors, own, strict=True)))
            for step, own in enumerate(mechanisms)
        ),
        first,
    )


def _reconstructed(method: Method, city: City, end: int, draws: int) -> tuple[float, float, float, float]:
    """Guess, attack with half of its interval, and ceiling, of the last hours of a day seen whole."""
    hours, first = slice(end - 23, end + 1), (end - 23) % 24
    seen = schedule_of(city, method.at_least[hours], first)
    effort = Effort(draws=draws, seed=1, confidence=0.99)
    added = mean_added(city.population, seen, (24 - HORIZON, 23), MISTAKES, effort)
    settings = HorizonSettings(HORIZON, MISTAKES, first_slot=first, sharpen_above=0.0)
    allowed = schedule_of(city, method.at_most[hours], first)
    accountant = ContinuousAccountant(city.population, settings)
    accountant.restore(last_but_one(city.population, settings, allowed))
    accountant.apply(allowed.steps[-1])
    guess = float(accountant.baseline().mean())
    return guess, guess + added.attack, added.attack - added.low, float(accountant.risk().mean())


def month(folder: Path) -> Counts:
    """The quietest of Melbourne's sensors that counted in every hour of the month."""
    import pyarrow.parquet as pq

    table = pq.read_table(folder / FILE)
    sensor, time, count = (table[name].to_numpy() for name in ("sensor", "time", "count"))
    hours = (
        time // 3600 - int(np.datetime64(FIRST, "h").astype(np.int64)) + 10
    )  # the city's clock in that month
    complete = []
    for number in np.unique(sensor):
        own = (sensor == number) & (hours >= 0) & (hours < 24 * DAYS)
        series = np.full(24 * DAYS, -1)
        series[hours[own]] = count[own]
        if series.min() >= 0:
            complete.append(series)
    quietest = sorted(complete, key=lambda series: float(series.mean()))[:SENSORS]
    return np.stack(quietest, axis=1).astype(np.int64)


def page(rows: Sequence[Row], counts: Counts) -> str:
    """The table, with what it says."""
    head = ["method", "hours shown", "error, hour", "error, day", "evening: guess", "attack", "ceiling"]
    head += ["morning: guess", "attack", "ceiling", "epsilon of a day"]
    lines = []
    for row in rows:
        lines.append([row.name, f"{row.shown:.1%}", f"{row.error:.2g}", f"{row.day_error:.3g}"])
        for guess, attack, half, ceiling in zip(
            row.guess, row.attack, row.half_width, row.ceiling, strict=True
        ):
            lines[-1] += [f"{guess:.3f}", f"{attack:.3f} ± {half:.3f}", f"{ceiling:.3f}"]
        lines[-1].append(epsilon_in_words(row.epsilon) if isfinite(row.epsilon) else "none")
    small = float(((counts > 0) & (counts < THRESHOLD)).mean())
    return f"""# Beside what statisticians know

By `python -m experiments.official_statistics --data ../shared/data`: hourly counts of the
{counts.shape[1]} quietest of Melbourne's pedestrian sensors that counted in every hour of {DAYS} days
from {FIRST} (City of Melbourne, CC BY). {small:.1%} of the hours have 1 to {THRESHOLD - 1} people. Each
method publishes the same counts. The people are invented: {PEOPLE} of the demo's city, whose sensors
stand for those, and all others are the real counts. The adversary knows a person's habits and all
others' counts and wants at least {HORIZON - MISTAKES} of ten hours right: those up to midnight
(evening) or up to six (morning); means over people.

{markdown(head, lines)}

- **Below {SMALL} left out**: counts of 1 to {SMALL - 1}, and one more hour of a sensor's day where
  there was only one, for exact totals of days are published. Its ceiling is that of exact counts:
  whoever knows the others reads a total as well as a count. **Below {THRESHOLD} left out**: without
  totals.
- **Cell-key noise**: at most {FARTHEST} to each side, variance {VARIANCE:g}, 0 stays 0, no 1 and no 2;
  the same cell always gets the same noise. Its law depends on counts below {FARTHEST + LEAST_SHOWN}:
  the attack makes no use of them, the ceiling takes them as exact, and the truth is between.
- **Error**: mean absolute error in people, of an hour that is shown and of a sensor's day, in which
  what was left out is missing. **Attack**: estimated, with its interval at 99 in 100. **Ceiling**:
  certain.
- **Epsilon of a day**: for all that a person did in a day, at delta {DELTA:g}; none for what is exact
  or bounded.

Leaving small counts out hides who is alone and nobody else: whoever knows the others sees one person in
a count of hundreds as well as in exact counts. Cell-key noise hides a person about as well as Gaussian
noise of its size, and is as near, but as it is bounded no epsilon holds. With Gaussian noise one
chooses the error, and has a ceiling and an epsilon that add up over releases.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--results", type=Path, default=Path("docs/results/tables"))
    chosen = parser.parse_args(arguments)
    if not (chosen.data / FILE).exists():
        raise SystemExit(f"{chosen.data / FILE} is not part of the repository: nothing was written")
    counts = month(chosen.data)
    city = build_city(CityOptions(people=PEOPLE, sensors=SENSORS, active=SENSORS))
    rows = [measure(method, counts, city, (AFTERNOON, NIGHT)) for method in methods(counts)]
    (chosen.results / "official-statistics.md").write_text(page(rows, counts), encoding="utf-8")


if __name__ == "__main__":
    main()
