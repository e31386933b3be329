"""Checks before a run: each file and setting that can be wrong, each finding with what to do about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, timedelta
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from accounting.continuous import ContinuousAccountant
from accounting.decisions.what_if import DECIDING_PART, DECIDING_PART_BESIDE
from accounting.exposure.crowd import HidingCrowd, SensorCrowd, with_strangers
from accounting.settings import OPERATION_SECONDS
from models.exceptions import TallyguardError
from models.mechanisms import Raw
from models.prior_files import load_evidence, load_population
from models.priors import PLACE, Population
from models.releases import Counts, SensorRegistry, SensorRelease, StepSchedule
from models.text import number_of
from stream_app.embedded import prepared as prepared_run
from stream_app.exceptions import SettingsError
from stream_app.setup.combinations import WORKERS, Runner, refusals
from stream_app.setup.declared import bounded_days, require_most_counts, require_strangers
from stream_app.setup.exclusions import load_exclusions
from stream_app.setup.given_priors import as_set, location_names, other_clock, population_of
from stream_app.setup.keys import load_noise_key, load_pseudonym_key, require_private_panel
from stream_app.setup.option_settings import NewPriors
from stream_app.setup.release_settings import CROWD, load_recipients
from stream_app.setup.run_folder.facts import per_day_in_words
from stream_app.setup.schedule_files import load_schedule
from stream_app.setup.sensor_files import load_registry, regions_by_sensor
from stream_app.setup.settings import Settings, said_beside_settings
from stream_app.setup.settings_sources import load_settings
from stream_app.steps import (
    DeviceWatch,
    StepClock,
    declared_totals,
    first_slot_of,
    is_activations,
    make_plan,
    require_sensors,
    tier_file,
)
from stream_app.steps.policy import announced_sensors, designs_of, policy_from
from stream_app.watching.glossary import texts
from stream_app.watching.prior_notes import basis_note, places_note
from stream_app.watching.web import parse_address
from stream_app.watching.wording import DOWN, duration, habits_warning, shortened
from stream_app.wire import load_activations, require_lines

Level = Literal["ok", "warning", "problem"]
Loaded = TypeVar("Loaded")
_ASKED_PEOPLE = 1_000  # enough for a median
_LOOKED_AT = 10  # people whose places may be states: all are written by one program
_FAR_OFF = 0.01  # of all people by weight, beyond which whole people are worth a word
_NEVER_LEAVES = 0.999  # probability of one place above which a person is as good as always there


@dataclass(frozen=True)
class Finding:
    """One thing that was checked: ``subject`` is the file or setting; ``remedy`` is empty if all is well."""

    level: Level
    subject: str
    sentence: str
    remedy: str = ""


_SAID = texts("findings.toml")


class _Number(int):
    """A number that a sentence may follow by a word for one and for many: ``{steps:step|steps}``."""

    def __format__(self, spec: str) -> str:
        one, is_of_things, many = spec.partition("|")
        return number_of(self, one, many) if is_of_things else super().__format__(spec)


def _found(name: str, subject: object, /, **figures: object) -> Finding:
    """A finding of ``findings.toml`` with what its sentences have in braces."""
    level, *said = _SAID[name]
    shown = {
        name: _Number(value) if isinstance(value, int | np.integer) else value
        for name, value in figures.items()
    }
    return Finding(level, str(subject), *(each.format(**shown) for each in said))


@dataclass
class _Preflight:
    """Findings so far. A file that cannot be loaded is a finding, and checks that need it are left out."""

    findings: list[Finding] = field(default_factory=list)

    def load(self, subject: str, loader: Callable[[], Loaded]) -> Loaded | None:
        """What the loader gives; None and a problem when it is refused."""
        try:
            return loader()
        except TallyguardError as error:
            said = f"{error.must}, got {error.got}", str(error.remedy)
            self.findings.append(Finding("problem", subject, *said))
            return None


def check_files(
    *,
    config: Path | None = None,
    priors: Path | None = None,
    sensors: Path | None = None,
    schedule: Path | None = None,
    now_seconds: float | None = None,
    runners: Collection[Runner] | None = None,
    new_priors: NewPriors | None = None,
) -> list[Finding]:
    """Findings about everything given; settings are always looked at, sensors by default as they say.

    ``runners`` are asked what they would refuse; None for all that the settings name: workers where a broker
    is named, else a run; and a plan where there are a schedule and priors. ``new_priors`` is what new priors
    of people who are there would be said to mean. ``now_seconds`` is the present time, by default this
    machine's.
    """
    now_seconds = time.time() if now_seconds is None else now_seconds
    preflight = _Preflight()
    subject = str(config or "settings")
    settings = preflight.load(subject, lambda: load_settings(config))
    if settings is None:
        _about_files(preflight, None, priors, sensors, schedule, now_seconds)
        return preflight.findings
    preflight.findings += _about_settings(subject, settings)
    _about_keys(settings, preflight)
    preflight.load("panel", lambda: require_private_panel(settings))
    evidence, are_elsewhere = settings.evidence, priors is None and bool(settings.kafka.servers)
    if evidence is not None and are_elsewhere:
        preflight.load("evidence", lambda: load_evidence(evidence))
    if settings.listen:
        preflight.load("listen", lambda: parse_address(settings.listen))
    if settings.release.recipients is not None:
        preflight.findings += _about_recipients(settings.release.recipients)
    population = _about_files(preflight, settings, priors, sensors, schedule, now_seconds)
    asked = settings if sensors is None else settings.model_copy(update={"sensors": sensors})
    given = None if priors is None else population
    named = _named_runners(asked, given, schedule) if runners is None else runners
    asks = _asks(asked, population, given, schedule)
    chosen = {runner: asks[runner] for runner in named if runner in asks}
    preflight.findings += [*_about_runners(chosen, asked, population, preflight.findings, new_priors)]
    return preflight.findings


def _about_files(
    preflight: _Preflight,
    settings: Settings | None,
    priors: Path | None,
    sensors: Path | None,
    schedule: Path | None,
    now_seconds: float,
) -> Population | None:
    """Findings about people, sensors and schedule, after those there are; the people."""
    population = preflight.load(str(priors or "priors"), lambda: _people(settings, priors))
    if population is None:
        name = "no_priors" if priors is None else "unread_priors"
        files = ((kind, path) for kind, path in (("sensors", sensors), ("schedule", schedule)) if path)
        preflight.findings += [_found(name, path, kind=kind) for kind, path in files]
        return None
    if priors is not None and len(population):
        preflight.findings += _about_population(str(priors), population)
        preflight.findings += _about_clock(settings, population, priors, schedule)
    are_elsewhere = priors is None and settings is not None and bool(settings.kafka.servers)
    check = None if settings is None else settings.priors_check
    note = basis_note(len(population), population.assumed, check, population.draws)
    if not are_elsewhere and note is not None:
        preflight.findings.append(_found("note", priors or "priors", note=note))
    path = sensors or (settings.sensors if settings else None)
    registry = preflight.load(str(path or "sensors"), lambda: load_registry(path, population.location_names))
    if registry is None:
        return population
    preflight.findings += _about_sensors(str(path or "sensors"), registry, population)
    known = registry
    if settings is not None:
        preflight.load(str(path or "sensors"), lambda: require_most_counts(known, settings.connect.scaled))
        preflight.load(str(path or "sensors"), lambda: bounded_days(settings, known))
    if settings is not None and not settings.late and any(each.corrections for each in registry.sensors):
        preflight.findings.append(_found("unpublished_corrections", path or "sensors"))
    if settings is not None:
        asked = {
            each.question: preflight.load(
                f"questions.{each.question}", partial(each.horizon_settings(0).asked_of, population)
            )
            for each in (settings, *settings.beside)
        }
        if asked[settings.question] is not None:
            preflight.findings += _about_accounts(settings, population, registry)
        said = places_note(
            population, [each.locations for each in registry.sensors], range(min(len(population), _LOOKED_AT))
        )
        if said is not None and PLACE in asked:
            preflight.findings.append(_found("places_like_states", priors or "priors", said=said))
        preflight.load("crowd.strangers", lambda: require_strangers(known, settings.crowd))
        preflight.findings += _about_crowd(settings, population, registry)
        designs = preflight.load("release policy", lambda: designs_of(settings.release))
        if designs is not None:
            preflight.load("release policy", lambda: policy_from(settings.release, registry))
            known = registry.with_designs(designs)
    announced: Mapping[int, tuple[str, ...]] = {}
    if schedule is None:
        preflight.load(str(path or "sensors"), lambda: require_lines(registry))
    else:
        announced = _about_schedule(preflight, settings, schedule, known)
    preflight.findings += _about_exclusions(preflight, settings, announced, known, now_seconds)
    return population


def _people(settings: Settings | None, priors: Path | None) -> Population | None:
    """The people to check with: those of the file, or none where the settings can do without priors."""
    if priors is not None:
        population = load_population(priors)
        return population if settings is None else as_set(settings, population)
    if settings is None or settings.locations is None:
        return None
    if settings.kafka.servers:  # whose people are on a topic
        return Population.pack([], location_names(settings, "", ""))
    return population_of(settings, None)


def _named_runners(settings: Settings, given: Population | None, schedule: Path | None) -> list[Runner]:
    named = [Runner.RUN]
    if settings.kafka.servers:
        regions = _Preflight().load("", lambda: regions_by_sensor(settings.sensors))
        deciding = [Runner.COORDINATOR, Runner.INTAKE] if regions else [Runner.RELEASE]
        named = [*deciding, Runner.ACCOUNT]
        named += [] if given is None else [Runner.PERSONS]
    return named if schedule is None or given is None else [*named, Runner.PLAN]


def _asks(
    settings: Settings, population: Population | None, given: Population | None, schedule: Path | None
) -> dict[Runner, Callable[[], object]]:
    """How each runner is asked: as it begins itself. Who has no people or locations is left out.

    ``given`` are the people of a priors file, ``population`` also nobody at the locations of the settings.
    """
    asks: dict[Runner, Callable[[], object]] = {
        runner: lambda runner=runner: _begin(runner, settings, schedule)  # type: ignore[misc]
        for runner in WORKERS
    }
    if population is not None:
        asks[Runner.RUN] = lambda: prepared_run(settings, schedule, population)
    if given is not None:
        asks[Runner.PERSONS] = lambda: _load_people(settings, given)
        if schedule is not None:
            asks[Runner.PLAN] = lambda: make_plan(settings, schedule, given, Runner.PLAN)
    return asks


def _about_runners(
    asks: Mapping[Runner, Callable[[], object]],
    settings: Settings,
    population: Population | None,
    found: Sequence[Finding],
    new_priors: NewPriors | None,
) -> Iterator[Finding]:
    """What these runners would refuse at their start, unless it was found before."""
    said = {finding.sentence for finding in found}
    people = None if population is None else len(population)
    refused: dict[tuple[str, str], list[str]] = {}
    for name, ask in asks.items():
        errors = [*refusals(name, settings, people, new_priors)]
        try:
            ask()
        except TallyguardError as error:
            errors.append(error)
        for what in dict.fromkeys((f"{each.must}, got {each.got}", each.remedy) for each in errors):
            refused.setdefault(what, []).append(name)
        if not errors:
            yield _found("takes", name)
    for (sentence, remedy), names in refused.items():
        if sentence not in said:
            yield Finding("problem", ", ".join(names), sentence, remedy)
    if not asks:
        yield _found("nobody_asked", "priors")


def _begin(runner: Runner, settings: Settings, schedule: Path | None) -> None:
    from stream_app.kafka.workers import prepared

    prepared(runner, settings, schedule)


def _load_people(settings: Settings, population: Population) -> None:
    from stream_app.kafka.tools.person_loading import prepared

    prepared(settings, population)


def _about_settings(subject: str, settings: Settings) -> Iterator[Finding]:
    yield _found("settings", subject, own=settings, horizon=settings.horizon)
    first, *further = settings.asked_in_all
    if first.name != PLACE or further:
        yield _found("asked", "question", what=first.what)
    for each in further:
        yield _found("asked_beside", "also_asked", what=each.what, name=each.name)
    if settings.grace_seconds is None:
        yield _found("no_grace", "grace_seconds")
    try:
        StepClock.of(settings).check(time.time(), 0)
    except SettingsError as error:  # how far a deployment that runs has come is not known here
        yield _found("begun_now", "grace_seconds", error=error)


def _about_keys(settings: Settings, preflight: _Preflight) -> None:
    """The keys as a run loads them; one that is not there yet may still be made by the run."""
    loaders = {"noise_key": load_noise_key, "pseudonym_key": load_pseudonym_key}
    for name, load in loaders.items():
        path: Path | None = getattr(settings, name)
        if path is None and getattr(settings, f"{name}_secret") is None:
            if settings.kafka.servers:
                continue  # whether it is needed is for each process to say
            preflight.findings.append(_found("no_key", name, name=name))
            continue
        preflight.load(name, lambda load=load: load(settings))  # type: ignore[misc]


def _about_recipients(path: Path) -> Iterator[Finding]:
    assigned = load_recipients(path)
    for name, tier in assigned.tier_of.items():
        if tier is None:
            yield _found("too_far", path, name=name)
        else:
            epsilon = dict(assigned.tiers)[tier]
            yield _found("recipient", path, name=name, file=tier_file(tier), epsilon=epsilon)


def _about_population(subject: str, population: Population) -> Iterator[Finding]:
    places = np.diff(population.arrays.places_start)
    least, most = int(places.min()), int(places.max())
    each = number_of(most, "place") if least == most else f"{least:,} to {number_of(most, 'place')}"
    counted = number_of(len(population), "person")
    if population.weights is not None:
        personas = number_of(len(population), "persona that stands", "personas that stand")
        counted = f"{personas} for {number_of(population.everybody, 'person')}"
    of_all = {"own": population, "places": population.location_count}
    yield _found("population", subject, counted=counted, each=each, **of_all)
    weight = 0.0 if population.weights is None else float(population.weights.sum())
    if population.weights is not None and abs(population.everybody - weight) > _FAR_OFF * weight:
        yield _found("whole_people", subject, weight=weight, everybody=population.everybody)
    cycles = np.unique(population.arrays.slots)
    if cycles.size > 1:
        yield _found("cycles", subject, slots=", ".join(map(str, cycles)))
    stays = [population.chain(i).start.max(axis=1).min() > _NEVER_LEAVES for i in range(len(population))]
    still = int(population.people_each[stays].sum())
    if still:
        yield _found("still", subject, people=still, least=_NEVER_LEAVES)


def _about_clock(
    settings: Settings | None, population: Population, priors: Path, schedule: Path | None
) -> Iterator[Finding]:
    """Whether a step is what it was where the priors were fitted."""
    if settings is not None:
        beside = {} if schedule is None else said_beside_settings(settings, schedule)
        found = other_clock(population, settings, beside.get("first_slot", settings.first_slot))
        if found is not None:
            yield _found("other_clock", priors, how=found[0], mend=found[1])


def _about_accounts(
    settings: Settings, population: Population, registry: SensorRegistry
) -> Iterator[Finding]:
    """Whether a release could show at all, and what tighter bounds take; asked of some people, evenly."""
    some = population.subset(range(0, len(population), 1 + len(population) // _ASKED_PEOPLE))
    accountant = ContinuousAccountant(some, settings.horizon_settings(settings.first_slot))
    warning = habits_warning(accountant)
    if warning is not None:
        sentence, remedy = warning.rsplit("; ", 1)
        yield Finding("warning", "mistakes", sentence, remedy)
    if accountant.settings.refines and len(some):
        counted = [location for sensor in registry.sensors for location in sensor.locations]
        is_counted = np.isin(np.arange(population.location_count), counted)
        cost = accountant.most_operations(is_counted)
        yield from _about_work(settings, float(cost.mean()) * len(population))


def _about_crowd(settings: Settings, population: Population, registry: SensorRegistry) -> Iterator[Finding]:
    """What is presumed of the others beyond their priors, and what strangers hide."""
    if settings.has_crowd and population.weights is not None and settings.crowd.least == 1.0:
        yield _found("sure_crowd", "crowd.least")
    passing = sum(each.most_counts > 1 and each.window is None for each in registry.sensors)
    if settings.has_crowd and passing and not settings.crowd.counted_once:
        yield _found("counted_again", "crowd.counted_once", sensors=passing)
    strangers, adversary = settings.crowd.strangers, settings.crowd_adversary
    if strangers and not settings.has_crowd:
        yield _found("idle_strangers", "crowd.strangers", lines=len(strangers))
        return
    known = {sensor.name: sensor for sensor in registry.sensors}
    for name, each in strangers.items():
        line = each.in_steps(settings.step_seconds)
        if line.sensor not in known:
            continue
        alone = replace(adversary, strangers=(line,))
        step = StepSchedule(0, (SensorRelease(known[line.sensor], Raw()),))
        (crowd,) = with_strangers(step, (SensorCrowd(),), alone, line.first_slot)
        sigma = HidingCrowd(crowd, alone, known[line.sensor].most_counts).sigma
        first = next(step for step in range(line.cycle) if line.covers(settings.first_slot + step))
        begins = settings.origin.astimezone(UTC) + timedelta(seconds=first * settings.step_seconds)
        what = "strangers" if sigma > 0.0 else "strangers_hide_nobody"
        noise = shortened(sigma, 1, DOWN)
        yield _found(what, f"crowd.strangers.{name}", line=line, first=first, begins=begins, sigma=noise)


def _about_work(settings: Settings, needed: float) -> Iterator[Finding]:
    """Whether the work of a step suffices for all people, and on Kafka does not look like a stall."""
    given = settings.sharpen_operations
    work = "much_work" if needed > given else "work"
    enough = float(f"{2.0 * needed:.1g}")
    yield _found(work, "sharpen_operations", took=_time(needed), limit=_time(given), enough=enough)
    if not settings.kafka.servers:
        return
    part = OPERATION_SECONDS * min(needed, given) / settings.kafka.partitions
    if part > settings.kafka.stall_seconds / 2:
        yield _found("stall", "kafka.stall_seconds", took=duration(part))
    of_all = 1.0 / DECIDING_PART + (1.0 / DECIDING_PART_BESIDE if settings.adversary == CROWD else 0.0)
    deciding = OPERATION_SECONDS * given * of_all / settings.kafka.partitions
    if settings.release.mechanism == "budget" and deciding > settings.kafka.answer_seconds:
        yield _found("late_answers", "kafka.answer_seconds", seconds=deciding)


def _time(operations: float) -> str:
    seconds = OPERATION_SECONDS * operations
    return f"{seconds:.2g} s" if seconds < 1.0 else duration(seconds)


def _about_sensors(subject: str, registry: SensorRegistry, population: Population) -> Iterator[Finding]:
    groups = sorted({sensor.group for sensor in registry.sensors})
    yield _found("sensors", subject, sensors=len(registry.sensors), groups=len(groups))
    yield from _about_counts(subject, registry)
    visited = set(np.unique(population.arrays.places).tolist())
    idle = [sensor.name for sensor in registry.sensors if visited.isdisjoint(sensor.locations)]
    if idle and len(population):
        shown = ", ".join(idle[:3]) + (f" and {len(idle) - 3} more" if len(idle) > 3 else "")
        yield _found("unvisited", subject, sensors=len(idle), shown=shown)


def _about_counts(subject: str, registry: SensorRegistry) -> Iterator[Finding]:
    """What the sensors count: every ceiling and every ledger holds for what is declared only."""
    undeclared = sum(sensor.counts is None for sensor in registry.sensors)
    if undeclared:
        yield _found("undeclared", subject, sensors=undeclared)
    corrected = max((sensor.corrections for sensor in registry.sensors), default=0)
    if corrected:
        correcting = sum(sensor.corrections > 0 for sensor in registry.sensors)
        yield _found("corrections", subject, sensors=correcting, most=corrected)
    in_steps = [sensor for sensor in registry.sensors if sensor.window is None]
    most = max((sensor.most_counts for sensor in in_steps), default=1)
    passing = sum(sensor.counts is Counts.PASSAGES for sensor in in_steps)
    if passing:
        yield _found("passages", subject, sensors=passing, most=most)
    for bound in sorted({per_day_in_words(sensor.per_day) for sensor in registry.sensors if sensor.per_day}):
        yield _found("bound", subject, bound=bound)
    if registry.windowed:
        longest = max(sensor.window.steps for sensor in registry.windowed if sensor.window is not None)
        moving = sum(bool(sensor.window and sensor.window.moves) for sensor in registry.windowed)
        yield _found("windows", subject, sensors=len(registry.windowed), steps=longest, moving=moving)


def _about_schedule(
    preflight: _Preflight, settings: Settings | None, path: Path, registry: SensorRegistry
) -> Mapping[int, tuple[str, ...]]:
    """Findings about a schedule (JSON) or activations (CSV), read as a run reads them; what they announce."""
    subject, found = str(path), preflight.findings
    if is_activations(path):
        announced = preflight.load(subject, lambda: load_activations(path, registry))
        if announced is not None:
            sensors = sum(map(len, announced.values()))
            found.append(_found("activations", subject, steps=len(announced), sensors=sensors))
        return announced or {}
    schedule = preflight.load(subject, lambda: load_schedule(path, registry))
    if schedule is None:
        return {}
    if settings is not None:
        preflight.load(subject, lambda: first_slot_of(settings, schedule))
    released = sum(len(step.releases) for step in schedule.steps)
    raw = sum(release.mechanism.is_exact for step in schedule.steps for release in step.releases)
    what = "schedule" if schedule.steps else "no_steps"
    found.append(_found(what, subject, steps=len(schedule.steps), releases=released, raw=raw))
    return announced_sensors(schedule)


def _about_exclusions(
    preflight: _Preflight,
    settings: Settings | None,
    announced: Mapping[int, tuple[str, ...]],
    registry: SensorRegistry,
    now_seconds: float,
) -> Iterator[Finding]:
    """The table of what is not published: read as a run reads it, then held against time and schedule."""
    if settings is None:
        return
    preflight.load("quality.largest_counts", lambda: DeviceWatch.of(settings.quality, registry))
    declared = declared_totals((), settings.occupancy, settings.total_of)
    known = {each.name: each for each in registry.sensors}
    preflight.load("totals", lambda: require_sensors(declared, known))
    path = settings.quality.exclusions
    found = preflight.load(str(path), lambda: load_exclusions(settings, registry))
    if path is None or found is None:
        return
    if found.unknown:
        yield _found("excluded_unknown", path, sensor=next(iter(found.unknown)))
    sensors = {row.sensor for row in found.rows}
    yield _found("exclusions", path, rows=len(found.rows), sensors=len(sensors))
    step = int((now_seconds - settings.origin_seconds) // settings.step_seconds)
    begun = [row for row in found.rows if row.first <= step]
    if begun:
        yield _found("excluded_past", path, rows=len(begun), own=begun[0])
    idle = [  # of steps for which the schedule does not announce their sensor
        row
        for row in found.rows
        if not any(row.covers(step) and row.sensor in names for step, names in announced.items())
    ]
    if announced and idle:
        yield _found("excluded_idle", path, rows=len(idle), own=idle[0])
