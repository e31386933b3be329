"""What a crowd hides, on the demo's city and on check-ins: both ceilings, and attacks that see counts alone.

``python -m experiments.crowd [--data FOLDER]`` (or ``make crowd``)

Every sensor raw, nothing released before, no step wrong. Targets are drawn people; the attacks are tried on
many simulated days with the same sensors in the same steps. In the city a day is ten of its hours; the
people of the check-ins are those of ``experiments.real_checkins``, and a day is the five held-out windows.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.stats import binom

from accounting.audit import audit_exposure, seen_among
from accounting.bounds import Effort, SeenInCrowd
from accounting.exposure import Exposure, horizon_information
from accounting.exposure.crowd import CrowdAdversary, HidingCrowd, revealed
from experiments.crowd_attackers import (
    CROWD_ATTACKS,
    MembershipTest,
    Scene,
    Watched,
    area_ceiling,
    area_under_curve,
    draw_days,
)
from experiments.crowd_page import Row, page
from experiments.held_out import DATA_SETS, NOWHERE_SENSOR, find_data
from experiments.measure import write_csv
from experiments.real_checkins import MissingDataError, load
from models.mechanisms import Raw
from models.releases import Schedule, Sensor, SensorRegistry, SensorRelease, StepSchedule
from stream_app.city import City, CityOptions, build_city

CITIES = ((2_000, 8), (2_000, 32), (20_000, 8), (20_000, 32))
CHECKINS_ACTIVE = (25, 100)
FIRST_HOUR, STEPS, TARGETS, DAYS = 8, 10, 60, 50
CITY = "city"
_ADVERSARY = CrowdAdversary()
_CRUDE = Effort(patterns=256, vectors=16)
_EARTH_KM = 6371.0


@dataclass(frozen=True, eq=False)
class Setting:
    """A crowd, what is released of it, and where everybody is on simulated days (days, T, N)."""

    name: str
    scene: Scene
    schedule: Schedule
    active: int
    places: NDArray[np.int32]


def schedule_of(
    sensors: Sequence[Sensor], active: int, steps: int, first_slot: int, seed: int = 0
) -> Schedule:
    """Sensors switched on by turns, raw, from the first slot on."""
    rng = np.random.default_rng(seed)
    chosen = [np.sort(rng.permutation(len(sensors))[:active]) for _ in range(steps)]
    made = (tuple(SensorRelease(sensors[k], Raw()) for k in each) for each in chosen)
    return Schedule(tuple(StepSchedule(t, releases) for t, releases in enumerate(made)), first_slot)


def windows(city: City, steps: int, days: int) -> NDArray[np.int32]:
    """Where everybody really is, (days, steps, N), in the same hours of simulated days."""
    found = np.empty((days, steps, city.options.people), np.int32)
    for step in city.steps(24 * days):
        day, hour = divmod(step.step, 24)
        if FIRST_HOUR <= hour < FIRST_HOUR + steps:
            found[day, hour - FIRST_HOUR] = step.locations
    return found


def city_setting(people: int, active: int, days: int = DAYS, steps: int = STEPS) -> Setting:
    """Hours of the demo's city."""
    city = build_city(CityOptions(people=people, active=active))
    schedule = schedule_of(city.registry.sensors, active, steps, FIRST_HOUR)
    watched = Watched.of(schedule.steps, FIRST_HOUR, city.population.location_count)
    scene = Scene(city.population, watched, city.places.position_km, 24)
    return Setting(CITY, scene, schedule, active, windows(city, steps, days))


def checkins_settings(name: str, folder: Path | None, days: int = DAYS) -> Iterator[Setting]:
    """Held-out windows of fitted people; :class:`MissingDataError` without the file."""
    fit = load(name, folder)
    people, steps, first = fit.population, fit.held_out.shape[1], fit.held_out_first_slot
    registry = SensorRegistry.one_per_location(people.location_names)
    sensors = [
        each for each in registry.sensors if people.location_names[each.locations[0]] != NOWHERE_SENSOR
    ]
    position = _positions(find_data(folder) / DATA_SETS[name], people.location_names)
    places = draw_days(people, first, steps, days)
    for active in CHECKINS_ACTIVE:
        schedule = schedule_of(sensors, active, steps, first)
        watched = Watched.of(schedule.steps, first, people.location_count)
        yield Setting(name, Scene(people, watched, position), schedule, active, places)


def _positions(file: Path, names: Sequence[str]) -> NDArray[np.float64]:
    """Mean places of check-ins in kilometres from the middle of the earth, (M, 3); NaN for elsewhere."""
    table = pq.read_table(file, columns=["loc", "lat", "lon"])
    table = table.group_by("loc").aggregate([("lat", "mean"), ("lon", "mean")])
    found = {
        str(loc): np.radians((lat, lon))
        for loc, lat, lon in zip(
            *(table[k].to_pylist() for k in ("loc", "lat_mean", "lon_mean")), strict=True
        )
    }
    lat, lon = np.array([found.get(name, (np.nan, np.nan)) for name in names]).T
    return _EARTH_KM * np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)


def successes(setting: Setting, targets: Sequence[int]) -> Mapping[str, NDArray[np.bool_]]:
    """Whether each attack is right in every step, (targets, days)."""
    counts = setting.scene.watched.counts_of(setting.places)
    walked = setting.places[:, :, targets].transpose(2, 0, 1)
    return {
        name: (attack.guesses(setting.scene, targets, counts) == walked).all(axis=2)
        for name, attack in CROWD_ATTACKS.items()
    }


def areas(setting: Setting, seen: SeenInCrowd, targets: Iterable[int]) -> NDArray[np.float64]:
    """Of each target's membership test the area under its curve, and what that is at most, (n, 2)."""
    watched, population = setting.scene.watched, setting.scene.population
    counts = watched.counts_of(setting.places)
    hidden = [
        revealed(crowd.variance(_ADVERSARY), own.mechanism)
        for step, crowds in zip(seen.steps, seen.crowds, strict=True)
        for own, crowd in zip(step.releases, crowds, strict=True)
    ]
    found = []
    for target in targets:
        chain = population.chain(target)
        test = MembershipTest(watched, chain, setting.scene.others(target))
        without = counts - watched.counts_of(setting.places[:, :, [target]])
        area = area_under_curve(test.log_ratios(counts), test.log_ratios(without))
        found.append([area, area_ceiling(watched.moments_of(chain).mean, np.array(hidden))])
    return np.array(found)


def ceilings(setting: Setting, seen: SeenInCrowd, targets: Iterable[int]) -> NDArray[np.float64]:
    """Guess, crowd and informed ceiling, crowd and informed nats of each target, (n, 5)."""
    found, population = [], setting.scene.population
    for target in targets:
        exposure = Exposure.of(population.chain(target), setting.schedule, population.location_count)
        audit = audit_exposure(exposure, 0, effort=_CRUDE, seen=seen)
        last = (0, exposure.steps - 1)
        nats = [
            horizon_information(each, *last).at_the_moment
            for each in (seen.for_information(exposure), exposure)
        ]
        found.append([audit.baseline, audit.certified, audit.certified_informed, *nats])
    return np.array(found)


def measure(setting: Setting, targets: int = TARGETS) -> Row:
    """One row of the table."""
    population = setting.scene.population
    chosen = np.random.default_rng(1).permutation(len(population))[:targets].tolist()
    seen_among(population, setting.schedule, _ADVERSARY)  # compiles
    begin = perf_counter()
    seen = seen_among(population, setting.schedule, _ADVERSARY)
    seconds = (perf_counter() - begin) / len(setting.schedule.steps)
    bounds = ceilings(setting, seen, chosen)
    right, area = successes(setting, chosen), areas(setting, seen, chosen)
    each, mean, days = np.stack(list(right.values())), bounds.mean(axis=0), len(setting.places)
    share = each.mean(axis=2)
    collective, recovery, membership = share.mean(axis=1).tolist()
    errors = 2.0 * np.sqrt((share * (1.0 - share)).mean(axis=1) / each[0].size)
    sigmas = [HidingCrowd(crowd, _ADVERSARY).sigma for step in seen.crowds for crowd in step]
    return Row(
        setting=setting.name,
        people=len(population),
        active=setting.active,
        targets=len(chosen),
        guess=float(mean[0]),
        collective=collective,
        recovery=recovery,
        membership=membership,
        attack_error=float(errors.max()),
        crowd=float(mean[1]),
        informed=float(mean[2]),
        crowd_nats=float(mean[3]),
        informed_nats=float(mean[4]),
        median_sigma=float(np.median(sigmas)),
        area=float(area[:, 0].mean()),
        area_error=2.0 * float(area[:, 0].std()) / sqrt(len(area)),
        area_ceiling=float(area[:, 1].mean()),
        least_p=float(np.min(binom.sf(each.sum(axis=2) - 1, days, np.minimum(bounds[:, 1], 1.0)))),
        seconds=seconds,
    )


def main() -> None:
    """Measure all rows and write page and figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--data", type=Path, help="folder with the check-ins")
    arguments = parser.parse_args()
    rows, missing = [], []
    for people, active in CITIES:
        rows.append(measure(city_setting(people, active)))
        print(rows[-1], flush=True)
    for name in DATA_SETS:
        try:
            for setting in checkins_settings(name, arguments.data):
                rows.append(measure(setting))
                print(rows[-1], flush=True)
        except MissingDataError as error:
            missing.append(name)
            print(error, flush=True)
    write_csv(rows, arguments.results / "crowd.csv")
    (arguments.results / "crowd.md").write_text(page(rows, missing, DAYS))


if __name__ == "__main__":
    main()
