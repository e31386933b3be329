"""What ``tallyguard serve`` opens: a run that ended or goes on, a plan, an archive; as the page shows it.

A run is read from its own folder: releases, decisions, summaries and each person's recorded risks become the
events that a running engine reports, so the page shows the same. Nothing is accounted again.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from accounting.continuous import no_moments
from accounting.exposure.step_information import SensorInformation
from accounting.ledgers import PrivacyAccount
from models.exceptions import TallyguardError
from models.prior_files import load_population
from models.priors import Population
from models.releases import SensorRegistry, StepSchedule, in_single_steps
from models.text import number_of
from stream_app.analysis.accounted_again import read_accounted
from stream_app.analysis.checked_run import SUMMARY
from stream_app.analysis.run_lines import public_releases
from stream_app.analysis.run_log import RunLog, read_run
from stream_app.analysis.verdict import (
    MayPublish,
    RunVerdict,
    limit_in_words,
    verdict_in_words,
    verdict_of,
    whole_rule_in_words,
)
from stream_app.analysis.what_if import WhatIf
from stream_app.exceptions import OutputError, SettingsError
from stream_app.setup.exclusions import load_exclusions
from stream_app.setup.given_priors import as_set, location_names
from stream_app.setup.keys import load_pseudonym_key
from stream_app.setup.run_folder.durable import parsed_line
from stream_app.setup.run_folder.people_record import digest_in, load_kept
from stream_app.setup.run_folder.progress import log_lines, parsed_lines
from stream_app.setup.run_folder.record import RECORD, Author, held, last_facts, read_entries
from stream_app.setup.run_folder.run_settings import (
    check_belongs,
    load_run,
    people_of_run,
    registries_of,
    sensors_of_run,
    settings_of_run,
    with_recorded_windows,
)
from stream_app.setup.schedule_files import load_schedule
from stream_app.setup.sensor_files import load_registry
from stream_app.setup.settings import Settings
from stream_app.setup.settings_sources import load_settings
from stream_app.steps import policy as rules
from stream_app.watching.events import Observer, RunStarted, RunStopped, StepClosed
from stream_app.watching.people import PeopleView, Standing
from stream_app.watching.wording import sentence_case
from stream_app.wire import (
    PRIVATE_REASONS,
    Activation,
    Readings,
    Rejected,
    RiskSummary,
    StepDecision,
    WorstMoment,
    load_activations,
    parse,
    schedule_of,
)

CONFIG = "tallyguard.toml"
_PRIORS = ("priors.parquet", "priors.json")
_ARCHIVE = "messages.jsonl"
LATEST_RECORD = (
    "single people are shown by their latest record, which is made when they reach another level and every "
    "{every}, so their risk may be another by now; the highest added risk so far is exact for the most "
    "exposed and at least so much for all others; how people are spread is shown only at steps at which "
    "everybody was recorded; means and people at each level are those of the step"
)
MOST_RISK_BYTES = 500_000_000
"""A file of risks beyond which single people are not read: the page then shows totals only, and says so."""
TOO_MANY = (
    f"single people and their distribution are not shown, because risks.jsonl has more than "
    f"{MOST_RISK_BYTES // 10**6} MB; `tallyguard report` lists the most exposed"
)


@dataclass(frozen=True)
class Source:
    """One thing to serve. ``folder`` is that of a run; else ``steps`` are those of a plan or archive.

    ``missing`` says why there are no people, where there are none.
    """

    name: str
    kind: str
    settings: Settings
    registry: SensorRegistry
    population: Population
    folder: Path | None = None
    steps: tuple[StepSchedule, ...] = ()
    config: Path | None = None
    missing: str | None = None

    def what_if(self) -> WhatIf:
        """Questions about its last steps; :class:`SettingsError` where they cannot be answered."""
        steps: Sequence[StepSchedule] = self.steps
        if self.folder is not None:
            steps = read_accounted(self.folder / "decisions.jsonl", self.registry)
        return WhatIf(self.settings, self.population, steps, about=self.kind, config=self.config)


def sources(paths: Sequence[Path], priors: Path | None, config: Path | None) -> Iterator[Source]:
    """What there is to serve in each path: an output folder, a deployment's folder, a schedule, an archive.

    A deployment's folder holds ``tallyguard.toml``, priors, and the output folders of its runs; where it has
    no run yet, its archive of messages. :class:`OutputError` for a path that is none of these.
    """
    for path in paths:
        if (path / "run.json").is_file():
            yield _run(path, priors, config)
        elif path.is_dir() and (path / CONFIG).is_file():
            own = next((path / name for name in _PRIORS if (path / name).is_file()), None)
            runs = [each.parent for each in path.glob("*/run.json")]
            for run in sorted(runs, key=lambda each: each.stat().st_mtime, reverse=True):
                yield _run(run, None, config or path / CONFIG)
            if not runs:
                yield _planned(path / _ARCHIVE, priors or own, config or path / CONFIG)
        elif path.suffix in (".json", ".csv", ".jsonl") and path.is_file():
            yield _planned(path, priors, config)
        else:
            raise OutputError(
                f"{path} must be the output folder of a run, a deployment's folder, a schedule (.json), "
                "activations (.csv) or an archive of messages (.jsonl)",
                "none of these" if path.exists() else "nothing there",
                "name the folder of --output, or the file that `tallyguard plan` is given",
            )


def _run(folder: Path, priors: Path | None, config: Path | None) -> Source:
    given = load_settings(config)
    try:
        settings = settings_of_run(folder, given)
    except TallyguardError:
        if config is None or config.name != CONFIG:
            raise
        settings = settings_of_run(folder, load_settings(None))
    population, missing = _people(folder, settings, priors)
    return replace(_of_run(folder, settings, population, config), missing=missing)


def _of_run(folder: Path, settings: Settings, population: Population, config: Path | None) -> Source:
    registry = sensors_of_run(folder, settings, population.location_names)
    registry = with_recorded_windows(folder, registry.with_designs(rules.designs_of(settings.release)))
    kind = "the last steps of the run"
    return Source(folder.name, kind, settings, registry, population, folder, config=config)


def _people(folder: Path, settings: Settings, priors: Path | None) -> tuple[Population, str | None]:
    """The run's people by pseudonym, from its own copy of the priors, or from a file where it has none.

    :class:`RunChangedError` for a file of others.
    """
    given = None if priors is None else as_set(settings, load_population(priors))
    if given is not None:
        check_belongs(folder, given, sensors_of_run(folder, settings, given.location_names))
    try:
        facts = last_facts(read_entries(folder / RECORD)) or {}
        if not facts.get("people"):
            return people_of_run(folder, settings, None), None
        kept = load_kept(folder, digest_in(facts))
        return as_set(settings, kept) if facts.get("drawn") else kept, None  # a check was of these
    except TallyguardError as error:
        if given is not None:
            hidden = load_pseudonym_key(settings, folder).pseudonyms(given.people)
            return given.renamed(hidden), None
        return people_of_run(folder, settings, None), str(error)


def _planned(path: Path, priors: Path | None, config: Path | None) -> Source:
    settings = load_settings(config)
    if priors is None:
        population = Population.pack([], location_names(settings, "or --priors be given", "give --priors"))
    else:
        population = as_set(settings, load_population(priors))
    registry = load_registry(settings.sensors, population.location_names)
    registry = registry.with_designs(rules.designs_of(settings.release))
    exclusions = load_exclusions(settings, registry)
    exclusions.require_known()
    if path.suffix == ".jsonl":
        kind, announced = "the last steps of the archive", _announced(path, registry)
    elif path.suffix == ".csv":
        kind, announced = "the activations", dict(load_activations(path, registry))
    else:
        schedule = exclusions.without(load_schedule(path, registry))
        slot = schedule.first_slot or settings.first_slot
        settings = settings.model_copy(update={"first_slot": slot})
        known = {step.step: step for step in schedule.steps}
        every = (known.get(step, StepSchedule(step)) for step in range(max(known, default=-1) + 1))
        steps = tuple(in_single_steps(each, registry) for each in every)
        return Source(path.stem, "the schedule", settings, registry, population, steps=steps, config=config)
    announced = dict(exclusions.announced(announced))
    policy = rules.policy_from(settings.release, registry, announced)
    last, first = max(announced, default=-1), min(announced, default=0)
    steps = tuple(
        in_single_steps(policy.decide(step, announced.get(step, ())).schedule, registry)
        if isinstance(policy, rules.FixedPolicy)
        else rules.undecided_step(step, announced.get(step, ()), registry)
        for step in range(first, last + 1)
    )
    return Source(path.stem, kind, settings, registry, population, steps=steps, config=config)


def _announced(path: Path, registry: SensorRegistry) -> dict[int, tuple[str, ...]]:
    """Which sensors an archive has counts of in each step; no count is looked at."""
    found: dict[int, dict[str, None]] = {}
    with path.open("rb") as lines:
        for line in lines:
            message = parse(line.rstrip(b"\r\n"), path.name)
            if isinstance(message, Rejected):
                continue
            if isinstance(message, Activation):
                names: Sequence[str] = message.sensors
            elif isinstance(message, Readings):
                names = tuple(message.counts)
            else:
                names = (message.sensor,)
            own = found.setdefault(message.step, {})
            own.update(dict.fromkeys(name for name in names if name in registry))
    return {step: tuple(own) for step, own in found.items()}


# A run's folder as the events that the engine had reported.


class RecordedView(PeopleView):
    """The people of a run, with the latest figures that its own files have of each; nothing is accounted.

    A run writes a person's figures when they reach another level, and all of them every now and then.
    """

    def __init__(self, source: Source, log: RunLog) -> None:
        settings = source.settings
        latest = LATEST_RECORD.format(every=number_of(settings.risk_every, "step"))
        super().__init__((), "; ".join(filter(None, (log.note, latest))))
        self.settings = settings.horizon_settings(settings.first_slot)
        self._population = population = self.settings.asked_of(source.population)
        people = population.stands_for
        chains = None if people is None else np.repeat(people, population.draws)
        calendar = self.settings.calendar
        self._everybody = (population.everybody,)
        self._information = (SensorInformation(population.accounted, settings.first_slot, chains, calendar),)
        self._position = {name: number for number, name in enumerate(population.people)}
        size = len(population)
        each = np.ones(size, np.int64) if people is None else np.asarray(people)
        since = population.effective_from
        self._since = np.zeros(size, np.int64) if since is None else since
        zero, never = np.zeros(size), np.full(size, -1)
        self._standing = Standing(
            -1, population.people, each, zero, zero, zero, zero, no_moments(size), as_of=never
        )

    @property
    def of_personas(self) -> bool:
        """Whether some names stand for many people."""
        return self._population.weights is not None

    @property
    def assumed(self) -> str | None:
        """What assumed habits rest on; None for measured people."""
        return self._population.assumed

    def _account_of(self, person: int) -> tuple[Population, int]:
        """Everybody's own prior."""
        return self._population, person

    def standing(self) -> Standing:
        """Everybody's figures as they were last recorded, up to the last step that was read."""
        return self._standing

    def take(
        self, step: int, lines: Sequence[Mapping[str, Any]], most_exposed: Sequence[WorstMoment] = ()
    ) -> None:
        """Everybody's risks after one more step, as they were written, and who had most added so far."""
        now = self._standing
        assert now.as_of is not None
        figures = {name: getattr(now, name).copy() for name in ("risk", "baseline", "added")}
        as_of = now.as_of.copy()
        for line in lines:
            person = self._position.get(line["person"])
            if person is not None:
                as_of[person] = step
                for name, values in figures.items():
                    values[person] = line[name]
        habits = figures["baseline"]
        worst = now.worst
        worst.note(step, habits + figures["added"], habits, self._since)
        for moment in most_exposed:
            person = self._position.get(moment.person)
            if person is not None and moment.added > worst.added[person]:
                worst.step[person], worst.baseline[person] = moment.step, moment.baseline
                worst.risk[person] = moment.baseline + moment.added
        self._standing = replace(now, step=step, habits=habits, as_of=as_of, **figures)


@dataclass
class RunReader:
    """Reads a run's folder into ``observer``, first what there is, then what is appended while it goes on."""

    source: Source
    observer: Observer
    _view: RecordedView | None = field(default=None, init=False)
    _done: int = field(default=0, init=False)
    _rejected: int = field(default=0, init=False)
    _sizes: tuple[int, ...] = field(default=(), init=False)

    def start(self) -> None:
        """Everything that the run has done so far."""
        folder = self._folder
        log = read_run(folder)
        risks = folder / "risks.jsonl"
        has_people = len(self.source.population) and risks.is_file()
        if has_people and risks.stat().st_size <= MOST_RISK_BYTES:
            self._view = RecordedView(self.source, log)
        note = log.note if self._view or not has_people else "; ".join(filter(None, (log.note, TOO_MANY)))
        people = log.summaries[-1].people if log.summaries else 0
        groups = registries_of(folder, self.source.registry).groups
        self.observer.carried(PrivacyAccount(groups))  # the steps charge it as they are read
        self.observer.started(RunStarted(people, 0, self._view, note))
        self.read()

    def read(self) -> None:
        """What was appended since the last look."""
        folder = self._folder
        sizes = tuple((folder / name).stat().st_size for name in _FILES if (folder / name).is_file())
        if sizes != self._sizes:
            self._sizes = sizes
            for each in islice(parsed_lines(Rejected, folder / "rejected.jsonl"), self._rejected, None):
                self._rejected += 1
                if each.reason not in PRIVATE_REASONS:
                    self.observer.rejected(each.reason)
            for event in self._events():
                self.observer.closed(event)
                self._done = event.step + 1
        entries = read_entries(folder / RECORD)
        if entries and entries[-1].kind == "ended" and entries[-1].step == self._done:
            self.observer.stopped(RunStopped(self._done, entries[-1].reason or "its end"))

    @property
    def _folder(self) -> Path:
        assert self.source.folder is not None
        return self.source.folder

    def _events(self) -> Iterator[StepClosed]:
        """The steps that decision, release and risks are recorded of."""
        folder, registry = self._folder, self.source.registry
        registries = registries_of(folder, registry)
        decisions = parsed_lines(StepDecision, folder / "decisions.jsonl")
        recorded, rules = self._summaries(), held(read_entries(folder / RECORD)) or [(0, load_run(folder))]
        for decision, release in zip(decisions, public_releases(folder), strict=False):
            people = next(
                (facts.get("people") for first, facts in reversed(rules) if first <= decision.step), None
            )
            found = (None, []) if people == 0 else next(recorded, None)
            if found is None:
                return  # its risks are not recorded yet
            if decision.step < self._done:
                continue
            summary, lines = found
            schedule = schedule_of(decision, registries.at(decision.step))
            if self._view is not None and summary is not None:
                self._view.take(summary.step, lines, summary.worst)
            published = release.published
            missing = tuple(
                each.sensor.name
                for each in schedule.releases
                if each.mechanism.is_released and each.sensor.name not in published
            )
            yield StepClosed(
                step=decision.step,
                schedule=schedule,
                published=published,
                missing=missing,
                people=0 if summary is None else summary.people,
                summary=None if summary is None else summary.model_copy(update={"worst": ()}),
                latency_seconds=0.0,
                lag_steps=0,
                is_replayed=True,
                why=decision.why,
                accounted=in_single_steps(schedule, registry),
            )

    def _summaries(self) -> Iterator[tuple[RiskSummary | None, list[Mapping[str, Any]]]]:
        """The summary of each step in which there were people, with their lines before it."""
        path = self._folder / "risks.jsonl"
        if not path.is_file():
            while True:
                yield None, []
        found: list[tuple[RiskSummary, list[Mapping[str, Any]]]] = []
        for line in log_lines(path):
            if line.startswith(SUMMARY):
                yield from found
                found = [(parsed_line(RiskSummary, path, line), [])]
            elif self._view is not None:
                found[-1][1].append(json.loads(line))
        yield from found


_FILES = tuple(
    f"{name}.jsonl" for name in ("decisions", "releases", "revised", "risks", "record", "rejected")
)


class Follower(threading.Thread):
    """Looks every second whether a run has gone on, until it is closed."""

    def __init__(self, readers: Sequence[RunReader]) -> None:
        super().__init__(name="serve-follower", daemon=True)
        self._readers, self._closing = tuple(readers), threading.Event()

    def run(self) -> None:
        """Read what is appended."""
        while not self._closing.wait(1.0):
            for reader in self._readers:
                reader.read()

    def close(self) -> None:
        """Stop looking."""
        self._closing.set()
        self.join()


# The answer of a run, as it stands on top of the page.


def answer_of_run(folder: Path) -> dict[str, Any]:
    """The rule, the verdict in one of its states and in words, and what would change it.

    As an export has it: what the report says of people beside the priors' is not for a page.
    """
    log = replace(read_run(folder), beyond=None)
    verdict = verdict_of(log)
    return {
        "state": verdict.answer.value,
        "sentence": verdict_in_words(verdict, log, says_who=False),
        "rule": whole_rule_in_words(log.limit, in_crowd=log.adversary is not None),
        "change": _would_change(verdict)
        if log.summaries
        else "Run with priors: a rule is about the ceilings of people, and nobody's is computed.",
        "covers": f"{sentence_case(log.checked.in_words())}.",
        "record": log.checked.head,
        "steps": log.checked.released,
    }


def _would_change(verdict: RunVerdict) -> str:
    """What would make it another answer, from the record's own figures."""
    parts = [part for _, part in verdict.parts if part.at is not None and part.limit is not None]
    if verdict.answer is MayPublish.NO_RULE or not parts:
        return "Choose a limit and a share, below or in [release.budget]: then there is a yes or a no."
    if verdict.doubts:
        return "Restore what is missing or was changed in the run's folder; until then there is no yes."
    part = next((each for each in parts if each.answer is verdict.answer), parts[-1])
    at = part.at
    assert at is not None and part.limit is not None
    if verdict.answer is MayPublish.YES:
        return (
            f"It would be no if, after any step, more than {number_of(at.allowed, 'person')} had "
            f"{limit_in_words(part.limit)}; so far it was at most {at.most:,}."
        )
    if verdict.answer is MayPublish.NO and part.by_habits == part.steps:
        return "Publishing less cannot change it: limit the added risk instead of the ceiling."
    if verdict.answer is MayPublish.NO:
        return (
            f"A plan with at most {number_of(at.allowed, 'person')} over the limit at every step: more "
            f"noise, fewer sensors, or a rule that leaves out {number_of(at.least, 'person')} or more. Try"
            " it in what-if, or with tallyguard plan."
        )
    if verdict.asks_for_records:
        return "Run with this rule in [release.budget]: then each step's record counts who is over the limit."
    return "A rule on the ceiling itself (risk) can be answered."


class Plans:
    """Answers the page's what-if questions of one source; its steps are read with the first question."""

    def __init__(self, make: Callable[[], WhatIf]) -> None:
        self._make = make
        self._made: WhatIf | None = None
        self._making = threading.Lock()

    def answer(self, query: Mapping[str, str]) -> dict[str, Any]:
        """What a plan would do."""
        what_if = self._what_if()
        return what_if.as_json() if query.get("about") == "1" else what_if.answer(query)

    def take(self, query: Mapping[str, str], by: str, reason: str) -> dict[str, Any]:
        """Write a plan's settings and its record; who takes it must say so, and why."""
        if not by.strip():
            raise SettingsError("a plan that is taken must have a name", "none", "say who takes it")
        return self._what_if().take(query, Author.given(by, reason))

    def verdict(self) -> dict[str, Any]:
        """The answer of what was planned, by the refined bound."""
        found = self._what_if().answer({"refined": "1"})
        said = {name: found[name] for name in ("state", "sentence", "rule", "change")}
        return {**said, "covers": "This is a plan: nothing of it was published.", "record": None}

    def _what_if(self) -> WhatIf:
        with self._making:
            self._made = self._made or self._make()
            return self._made


def plans_of_run(folder: Path, settings: Settings, population: Population, config: Path | None) -> Plans:
    """Questions about the last steps of a run that goes on in this process."""

    return Plans(lambda: _of_run(folder, settings, population, config).what_if())
