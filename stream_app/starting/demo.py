"""The demo: the engine end to end on a simulated city, and what a newcomer should see of it."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import WorstMoments
from accounting.settings import HORIZON, HorizonSettings
from models.keys import Pseudonymiser
from models.mechanisms import parse
from models.prior_files import save_population
from models.priors import Population
from models.private_files import PRIVATE_FILE, open_kept, private_file
from models.releases import StepSchedule
from models.text import number_of
from stream_app import embedded
from stream_app.analysis.accounted_again import Account, account, mean_error, read_decisions, released_with
from stream_app.analysis.report import load_priors, read_run, write_report
from stream_app.city import City, CityOptions, build_city, sensors_json
from stream_app.embedded import RunReport
from stream_app.exceptions import OutputError, SettingsError
from stream_app.setup.keys import load_keys
from stream_app.setup.run_folder.durable import make_folder, replace_file
from stream_app.setup.settings import Settings
from stream_app.setup.settings_sources import load_settings
from stream_app.starting.building import write_building
from stream_app.starting.building.office import WEEK, Office, build_office
from stream_app.watching.events import Observer, RunStarted
from stream_app.watching.people import PeopleView
from stream_app.watching.view import View
from stream_app.watching.web import watching

# The files of a demo deployment, as an operator has them: priors, sensors, messages, settings, keys.

MARKER = "demo.json"
SEED = 20260
HOME_GROUPS = ("homes north", "homes south")
HOME_SIGMA = 1.0
RAW = {"mechanism": "raw"}
MISTAKES = 1
OPERATIONS = 600_000_000
DRAWS = 500
ORIGIN = "2026-03-02T00:00:00Z"
AUDITED_FROM = 8  # the hour at which the schedule for an audit begins: the working day


class Scenario:
    """Where everything of a demo lies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.priors = folder / "priors.parquet"  # everybody's movement prior
        self.sensors = folder / "sensors.json"
        self.messages = folder / "messages.jsonl"  # activations and readings as they were sent
        self.settings = folder / "tallyguard.toml"
        self.schedule = folder / "working-day.json"  # what is released over the first working day, to audit
        self.report = folder / "report.html"
        self.output = folder / "output"  # what the engine writes


def prepare(folder: Path, city: City) -> Scenario:
    """Write the deployment's files to a fresh folder.

    A folder that an earlier demo made is replaced; any other that is not empty is an :class:`OutputError`.
    """
    if folder.exists() and any(folder.iterdir()):
        if not (folder / MARKER).is_file():
            raise OutputError(
                "the demo's folder must be new or its own", folder, "choose another with --output"
            )
        shutil.rmtree(folder)
    make_folder(folder)
    replace_file(folder / MARKER, f"{json.dumps(vars(city.options))}\n".encode())
    scenario = Scenario(folder)
    if isinstance(city, Office):
        for name, text in city.files.items():
            replace_file(folder / name, text.encode())
        write_building(folder, city.building, city.population)
        replace_file(scenario.settings, (_KEYS + scenario.settings.read_text()).encode())
    else:
        save_population(city.population, scenario.priors)
        replace_file(scenario.sensors, sensors_json(city).encode())
        replace_file(scenario.settings, _settings(city).encode())
    for name in ("noise", "pseudonym"):
        _write_key(folder / f"{name}.key", f"tallyguard demo {name} {city.options.seed}")
    return scenario


def paced_messages(scenario: Scenario, city: City, steps: int, pause: Callable[[], None]) -> Iterator[bytes]:
    """The city's messages as the engine's input, one chunk a step, kept in a file as well."""
    with os.fdopen(open_kept(scenario.messages, os.O_WRONLY | os.O_TRUNC, PRIVATE_FILE), "wb") as kept:
        for step in city.steps(steps):
            chunk = b"".join(message.line() for message in step.messages())
            kept.write(chunk)
            kept.flush()
            yield chunk
            pause()


def write_audit_schedule(scenario: Scenario, city: City, steps: int) -> None:
    """A schedule file of the ten hours of the first working day, for ``tallyguard audit``."""
    first = min(AUDITED_FROM, max(steps - HORIZON, 0))
    days = [step for step in city.steps(min(first + HORIZON, steps)) if step.step >= first]
    releases = [
        {"releases": [_release(sensor.name, sensor.group) for sensor in step.active]} for step in days
    ]
    document = {"first_slot": first % int(city.population.arrays.slots[0]), "steps": releases}
    replace_file(scenario.schedule, f"{json.dumps(document, indent=1)}\n".encode())


def _release(sensor: str, group: str) -> dict[str, object]:
    noised = {"mechanism": "gaussian", "sigma": HOME_SIGMA}
    return {"sensor": sensor, **(noised if group in HOME_GROUPS else RAW)}


_KEYS = f"""attack_draws = {DRAWS}
noise_key = "noise.key"  # made from the demo's seed: never use it elsewhere
pseudonym_key = "pseudonym.key"
"""


def _settings(city: City) -> str:
    """Raw counts, as many cities publish them today, but noise where people live."""
    text = f"""# What the demo ran with; every setting: tallyguard config show --config tallyguard.toml
deployment = "demo"
step_seconds = 3600
mistakes = {MISTAKES}  # asks for at least {HORIZON - MISTAKES} of the last {HORIZON} hours
sharpen_operations = {OPERATIONS:_}  # at most about half a second of one core an hour
origin = {ORIGIN}  # a Monday; without an origin steps are shown by number
sensors = "sensors.json"
{_KEYS}
[release]
mechanism = "raw"
"""
    for sensor in city.registry.sensors:
        if sensor.group in HOME_GROUPS:
            text += f"""
[release.sensors."{sensor.name}"]
mechanism = "gaussian"
sigma = {HOME_SIGMA}
"""
    return text


def _write_key(path: Path, label: str) -> None:
    """A key that repeats with the seed, so that the demo does: known to everybody, fit for a demo only."""
    with private_file(path) as file:
        file.write(f"{hashlib.sha256(label.encode()).hexdigest()}\n".encode())


# Running the demo: city, engine with metrics and page, then the figures a newcomer should see.

CITY_STEPS = 48
_IN_THE_CITY = "raw, but\nwith noise of sigma 1 at homes"
_IN_ROOMS = "with\nnoise of sigma 2, none of rooms that fewer than 3 people use"
MOST_EXPOSED = 5
COMPARED_PEOPLE = 100  # enough for shares of 100, and quick; people are in random order
COMPARED_OPERATIONS = 160_000_000  # an hour of two days, in a week less: refines nearly all through the noise
COMPARED_DRAWS = 100  # an hour, for a mean over all hours
HIGH_RISK = 0.5
HIGH_ADDED = 0.1
RELEASED = "as it was"
# What the same schedule would cost under other noise.
ALTERNATIVES: tuple[tuple[str, str, dict[str, float]], ...] = (
    ("all raw", "raw", {}),
    ("all sigma 1", "gaussian", {"sigma": 1.0}),
    ("all sigma 3", "gaussian", {"sigma": 3.0}),
    ("all sigma 10", "gaussian", {"sigma": 10.0}),
    ("nothing: habits", "suppressed", {}),
)


@dataclass(frozen=True)
class ExposedPerson:
    """One row of the table of the most exposed: the step at which the releases added most."""

    pseudonym: str
    way_of_life: str
    step: int
    baseline: float
    risk: float
    added: float


@dataclass(frozen=True)
class WayOfLife:
    """One row of the table by way of life: means over its people, each at their own worst moment."""

    name: str
    people: int
    baseline: float
    risk: float
    added: float


@dataclass(frozen=True)
class UnderOtherNoise:
    """One row of the table of what noise would do; errors are in people, None where nothing is published."""

    name: str
    mean_baseline: float
    mean_attack: float | None
    mean_risk: float
    people_at_risk: int
    people_added: int
    mean_error: float | None


@dataclass(frozen=True)
class DemoReport:
    """Everything the demo ends with."""

    people: int
    steps: int
    origin: datetime
    releases: int
    published: str
    compared_people: int
    view: View
    horizon_steps: int
    mistakes: int
    exposed: tuple[ExposedPerson, ...]
    ways_of_life: tuple[WayOfLife, ...]
    alternatives: tuple[UnderOtherNoise, ...]
    example_person: str
    warning: str | None
    scenario: Scenario
    run: RunReport


def run_demo(
    *,
    output: Path = Path("demo-output"),
    steps: int | None = None,
    people: int = 2000,
    building: bool = False,
    seed: int = SEED,
    seconds_per_step: float = 0.1,
    listen: str = "127.0.0.1:0",
    announce: Callable[[str], None],
    observer: Observer | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> DemoReport:
    """Simulate, release, account and sum up; ``announce`` gets a sentence about each part of it."""
    steps = steps_of(steps, building=building)
    for name, value in (("steps", steps), ("people", people)):
        if value < 1:
            raise SettingsError(f"{name} must be at least 1", value, f"leave --{name} out for a good demo")
    if building:
        announce(f"an office with rooms, shifts and a timetable (seed {seed})")
        city: City = build_office(seed)
    else:
        announce(f"building a city of {number_of(people, 'person')} (seed {seed})")
        city = build_city(CityOptions(people=people, seed=seed))
    scenario = prepare(output, city)
    token = secrets.token_urlsafe(12)  # made for this run, shown to whoever started it, stored nowhere
    settings = load_settings(scenario.settings, {"listen": listen, "page_token": token})
    announce(
        "starting the engine; the first time, kernels are compiled for this machine, which takes a while"
    )
    write_audit_schedule(scenario, city, steps)
    chunks = paced_messages(scenario, city, steps, pace(seconds_per_step, sleep))
    report, view = _run_engine(city, scenario, settings, chunks, announce, observer)
    announce("writing the report")
    priors = load_priors(scenario.output, settings, city.population)
    write_report(scenario.output, scenario.report, priors=priors)
    announce("accounting the same hours for some of them, as they were and under other noise")
    return _sum_up(city, scenario, settings, report, view)


def steps_of(given: int | None, *, building: bool) -> int:
    """How many hours are simulated: of a building a week, where nothing is said."""
    return given if given is not None else WEEK if building else CITY_STEPS


def pace(
    seconds: float, sleep: Callable[[float], None], now_seconds: Callable[[], float] = time.monotonic
) -> Callable[[], None]:
    """Sleeps after each step until so many seconds after the last; a longer step is not made up for."""
    due = now_seconds()

    def pause() -> None:
        nonlocal due
        now = now_seconds()
        due = max(due + seconds, now)
        sleep(due - now)

    return pause


def _run_engine(
    city: City,
    scenario: Scenario,
    settings: Settings,
    chunks: Iterable[bytes],
    announce: Callable[[str], None],
    observer: Observer | None,
) -> tuple[RunReport, PeopleView]:
    """The embedded engine on the city's messages, watched; and the people as it leaves them."""
    kept = _KeptView()
    options = embedded.RunOptions(output=scenario.output, priors=scenario.priors.name)
    with watching(settings, city.registry.sensors, [kept, *([observer] if observer else [])]) as watch:
        if watch.address:
            announce(f"page {watch.address}   metrics {watch.address}metrics")
            token = settings.page_token.get_secret_value() if settings.page_token else "none"
            announce(f"access token for single people on the page: {token}")
            announce("both end with the demo; --seconds-per-step 2 (make demo PAUSE=2) leaves time to look")
        report = embedded.run(settings, options, city.population, observer=watch.observer, chunks=chunks)
    assert kept.view is not None, "a run that ended has begun"
    return report, kept.view


class _KeptView(Observer):
    """Keeps the view of the people, which outlives the run."""

    view: PeopleView | None = None

    def started(self, event: RunStarted) -> None:
        self.view = event.view


def _sum_up(
    city: City, scenario: Scenario, settings: Settings, report: RunReport, people: PeopleView
) -> DemoReport:
    """What the run itself says of its people, and its log once more under other noise."""
    pseudonyms = load_keys(settings, scenario.output).pseudonyms
    steps = read_decisions(scenario.output / "decisions.jsonl", city.registry)
    worst = people.standing().worst
    ranked = np.argsort(-worst.added, kind="stable")
    horizon = settings.horizon_settings(settings.first_slot)
    return DemoReport(
        people=len(city.population),
        steps=len(steps),
        origin=settings.origin,
        releases=sum(release.mechanism.name != "suppressed" for step in steps for release in step.releases),
        published=_IN_ROOMS if isinstance(city, Office) else _IN_THE_CITY,
        compared_people=min(COMPARED_PEOPLE, len(city.population)),
        view=read_run(scenario.output).view,
        horizon_steps=settings.horizon,
        mistakes=settings.mistakes,
        exposed=tuple(_exposed(city, pseudonyms, worst, ranked[:MOST_EXPOSED])),
        ways_of_life=tuple(_ways_of_life(city, worst)),
        alternatives=tuple(_alternatives(city.population, steps, horizon)),
        example_person=city.population.people[ranked[0]],
        warning=people.warning,
        scenario=scenario,
        run=report,
    )


def _exposed(
    city: City, pseudonyms: Pseudonymiser, worst: WorstMoments, chosen: NDArray[np.int64]
) -> list[ExposedPerson]:
    return [
        ExposedPerson(
            pseudonyms.pseudonym(city.population.people[person]),
            city.ways[city.habits[person]],
            int(worst.step[person]),
            float(worst.baseline[person]),
            float(worst.risk[person]),
            float(worst.added[person]),
        )
        for person in chosen
    ]


def _ways_of_life(city: City, worst: WorstMoments) -> list[WayOfLife]:
    """Most added risk first; a way of life that nobody has is left out."""
    rows = []
    for index, way in enumerate(city.ways):
        own = city.habits == index
        if own.any():
            means = (float(column[own].mean()) for column in (worst.baseline, worst.risk, worst.added))
            rows.append(WayOfLife(way, int(own.sum()), *means))
    return sorted(rows, key=lambda row: -row.added)


def _alternatives(
    population: Population, steps: list[StepSchedule], horizon: HorizonSettings
) -> list[UnderOtherNoise]:
    """The schedule as it was and under other noise, for the first people of the city."""
    some = population.subset(range(min(COMPARED_PEOPLE, len(population))))
    operations = COMPARED_OPERATIONS * CITY_STEPS // max(CITY_STEPS, len(steps))
    horizon = replace(horizon, operations=operations)
    rows = [_row(RELEASED, account(some, steps, horizon, COMPARED_DRAWS), steps)]
    for name, mechanism, parameters in ALTERNATIVES:
        other = list(released_with(steps, parse(mechanism, parameters)))
        rows.append(_row(name, account(some, other, horizon, COMPARED_DRAWS), other))
    return rows


def _row(name: str, accounted: Account, steps: list[StepSchedule]) -> UnderOtherNoise:
    return UnderOtherNoise(
        name,
        accounted.mean_baseline,
        accounted.mean_attack,
        accounted.mean_risk,
        accounted.people_at_risk(HIGH_RISK),
        accounted.people_added(HIGH_ADDED),
        mean_error(steps),
    )
