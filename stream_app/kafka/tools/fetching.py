"""Copies what a deployment has published and recorded into a folder, which every reader of a run can read.

Nothing is decided or drawn. Releases, late values, dead letters and findings are copied; risks are accounted
from people and decisions, as a run does (the topic ``risks`` has them by partition, and for 90 days). The
folder is written by the writers of a run: each entry of the deployment's record, of its rules or its people,
is what a run would have been started with at that step, by whom and why. So a kill leaves a folder that the
next call completes, and a call that is repeated adds what is new.

The topic ``persons`` has the people of now. Where they changed, steps before the change are of people who
are in the folder's own copy, or nowhere: then the workers' own summaries are taken from ``risks``.

Worked example: people changed at step 40, and the folder has steps 0 to 29. Steps 30 to 39 are accounted for
the copy of the people that the folder keeps, those from 40 on for the people on the topic. A folder that is
begun now takes steps 0 to 39 from ``risks``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from accounting.settings import OPERATIONS
from models.priors import Population
from models.releases import SensorRegistry
from stream_app.embedded.journal import Journal
from stream_app.embedded.replay import settings_then
from stream_app.embedded.restored_accounts import SnapshotCache, people_accounts, restore_accounts
from stream_app.exceptions import OutputLockedError, RunChangedError
from stream_app.kafka.broker.clients import (
    LogError,
    broker_errors,
    consuming,
)
from stream_app.kafka.deployment.deployment import DRAWS, Deployment
from stream_app.kafka.deployment.log_reader import last_summary
from stream_app.kafka.deployment.records import (
    DEAD_LETTER,
    RiskStep,
    people_of,
)
from stream_app.kafka.tools.fetched_logs import Logs, WrittenRisks
from stream_app.kafka.tools.replay import read_people
from stream_app.setup.declared import bounded_days
from stream_app.setup.given_priors import drawn_from
from stream_app.setup.release_settings import CROWD
from stream_app.setup.run_folder.description import Description, keep_named
from stream_app.setup.run_folder.durable import load_document
from stream_app.setup.run_folder.facts import NETWORK, Network
from stream_app.setup.run_folder.manifest import (
    ACCOUNTED_WITH,
    EXCLUSIONS,
    FETCHED,
    NOT_IN_SNAPSHOTS,
    PARTITIONS,
    SUMMED,
    require_copy,
)
from stream_app.setup.run_folder.people_record import (
    KEPT,
    PRIORS,
    PeopleChange,
    PeopleOfRun,
    digest_of,
    load_kept,
)
from stream_app.setup.run_folder.progress import DECISIONS, QUALITY, RELEASES, REVISED, RISKS, load_progress
from stream_app.setup.run_folder.record import DESCRIPTION, Author, Entry, check_head, head_of
from stream_app.setup.run_folder.run_settings import (
    counted_again,
    counted_in_a_step,
    load_run,
    sensors_fingerprint,
)
from stream_app.setup.settings import Settings
from stream_app.steps import TotalsFile
from stream_app.steps.policy import Decided
from stream_app.watching.events import Observer, RunStarted
from stream_app.wire import StepDecision, fingerprint_of

_TOGETHER = 128  # steps in one commit
_OF_PEOPLE = frozenset({PRIORS, KEPT, "people", "drawn", "assumed_habits"})
_NOT_STATED = frozenset({"format", "earlier_noise_keys", "taken_over"})  # which a manifest adds by itself


class Fetched(NamedTuple):
    """What one call has added to the folder, and where it ends.

    ``left_out`` are sentences about what is not in it, or comes with a later call.
    """

    steps: int
    next_step: int
    people: int
    revised: int
    rejected: int
    left_out: tuple[str, ...]


def fetch(deployment: Deployment, folder: Path) -> Fetched:
    """Add to a folder, which may be new, all that the deployment has published and accounted since.

    :class:`~stream_app.exceptions.RunChangedError` for a folder that is no copy of this deployment;
    :class:`LogError` where a log lacks what it must hold. Refuses settings that the deployment does not have.
    """
    if not deployment.join():
        raise _nothing_decided(deployment)
    with broker_errors(deployment.connection), ExitStack() as opened:
        # the record last: an entry is written before the steps, and before the people, that it is about
        logs, now = Logs(deployment, opened), _people_on(deployment, deployment.settings.draws)
        rules, people = deployment.record.entries(), deployment.record.people()
        if not rules:
            raise _nothing_decided(deployment)
        require_copy(folder, rules[0].sha256)
        return _Copy(deployment, folder, logs, now, rules, people).go_on()


def _nothing_decided(deployment: Deployment) -> LogError:
    return LogError(
        "a deployment must have begun to decide steps before it is fetched",
        f"no entry in {deployment.record.record_name}",
        "start its workers first; if it runs, check kafka.prefix and kafka.servers",
    )


def _people_on(deployment: Deployment, draws: int) -> Population:
    """The people on the topic, with so many chains for each."""
    with consuming(deployment.connection) as reader:
        changes = read_people(reader, deployment, draws)
    entries = [each for own in changes.values() for each in own.values() if each is not None]
    found = people_of(entries, deployment.location_names)
    assumed = min((each.assumed for each in entries if each.assumed is not None), default=None)
    since = found.effective_from if found.effective_from.any() else None
    return replace(found.population, assumed=assumed, effective_from=since)


class _Change(NamedTuple):
    """An entry of the deployment's record, from whose step on something else holds."""

    entry: Entry
    is_of_people: bool


@dataclass
class _PeopleThen:
    """The people of some steps, and what a record says of them; None where they are nowhere any more."""

    population: Population | None
    facts: Mapping[str, Any]

    @classmethod
    def of(cls, population: Population) -> _PeopleThen:
        """People whose priors are at hand."""
        own = PeopleOfRun(population, population.people, population.fingerprint)
        said = {"drawn": drawn_from(population), "assumed_habits": population.assumed, **own.facts()}
        return cls(population, {"people": population.everybody, **said})

    @property
    def own(self) -> Population | None:
        """They as the record names them; None where the folder has its copy already, or nobody has."""
        people = self.population
        return people if people is not None and digest_of(people) == self.facts.get(KEPT) else None

    @classmethod
    def lost(cls, count: int) -> _PeopleThen:
        """So many people, of whom there is no more than what the workers wrote."""
        return cls(None, {"people": count, "drawn": None, "assumed_habits": None})


class _Copy:
    """One call's work on a folder."""

    def __init__(
        self,
        deployment: Deployment,
        folder: Path,
        logs: Logs,
        now: Population,
        rules: Sequence[Entry],
        people: Sequence[Entry],
    ) -> None:
        self._deployment, self._folder, self._logs = deployment, folder, logs
        self._rules, self._people = rules, people
        commit = load_progress(folder)
        at: Mapping[str, Any] = commit.get("position") or {}
        check_head(rules, at.get("rules") or {}, deployment.record.record_name)
        check_head(people, at.get("people") or {}, deployment.record.record_name)
        self._begun = self._next_step = int(commit.get("next_step", 0))
        self._of_rules = int((at.get("rules") or {}).get("entries", 0))
        self._of_people = self._fetched_people = int((at.get("people") or {}).get("entries", 0))
        self._taken = {
            topic: {int(number): int(offset) for number, offset in offsets.items()}
            for topic, offsets in (at.get("taken") or {}).items()
        }
        self._decided = commit.get("decided")
        self._left_out: list[str] = []
        run = load_run(folder) if (folder / "run.json").is_file() else {}
        self._summed_until = int(run.get(SUMMED, 0))  # the last of the steps with risks as workers wrote them
        self._written: WrittenRisks | None = None
        self._pseudonym_key = deployment.record.pseudonym_key()
        self._by_draws, self._count = {deployment.settings.draws: now}, now.everybody
        self._revised = self._rejected = 0

    def go_on(self) -> Fetched:
        """Take over every entry and step that is new, in their order."""
        self._logs.begin(self._taken)
        self._check_last()
        until = self._until()
        changes = [
            *(_Change(each, False) for each in self._rules[self._of_rules :]),
            *(_Change(each, True) for each in self._people[self._of_people :]),
        ]
        changes = [each for each in changes if each.entry.step < until]
        changes.sort(key=lambda each: (each.entry.step, each.is_of_people))  # each record in its own order
        starts: list[_Change | None] = [*([None] if self._of_rules else []), *changes]
        ends = [*(each.entry.step for each in changes), until]
        if len(ends) > len(starts):
            ends = ends[1:]
        for number, (change, end) in enumerate(zip(starts, ends, strict=True)):
            if not self._take_until(change, end, is_last=number + 1 == len(starts)):
                break
        return Fetched(
            self._next_step - self._begun,
            *(self._next_step, self._count, self._revised, self._rejected),
            tuple(self._left_out),
        )

    def _check_last(self) -> None:
        """:class:`RunChangedError` where the last step in the folder is not the one in the log."""
        if not self._next_step:
            return
        found = self._logs.decisions.take(self._next_step - 1)
        if found is None or fingerprint_of(self._deployment.schedule_of(found[0])) != self._decided:
            raise RunChangedError(
                f"{self._logs.decisions.topic} must hold the last step that {self._folder} has, as it was "
                "decided",
                f"another step {self._next_step - 1:,}, or none",
                "the topic was made again or restored to another state: fetch into a new folder",
            )

    def _until(self) -> int:
        """The first step that is not taken: of people who are known, as their workers have them."""
        since = max((each.step for each in self._people if _changes_people(each)), default=0)
        topics, until = self._deployment.topics, self._logs.until
        if since >= until:
            return until

        async def summaries() -> list[RiskStep | None]:
            connection = self._deployment.connection
            return [await last_summary(connection, topics.risks, each) for each in range(topics.partitions)]

        found = asyncio.run(summaries())
        known = [each for each in found if each is not None]
        if any(each.step < since for each in known):
            self._left_out.append(
                f"steps from {since:,} on: people changed there, and not every account worker has come so far"
            )
            return since
        said = [each.people for each in known if each.people is not None]
        if len(said) == topics.partitions and sum(said) != self._count:
            raise LogError(
                f"{topics.persons} must hold the people that the account workers have accounted",
                f"{self._count:,}, where the last risks are of {sum(said):,}",
                "a load of people goes on, was interrupted, or was not noticed by all workers yet: complete "
                "it, wait for the next step, and fetch again",
            )
        return until

    def _people_now(self, draws: int) -> Population:
        """The people on the topic, with so many chains for each."""
        if draws not in self._by_draws:
            self._by_draws[draws] = _people_on(self._deployment, draws)
        return self._by_draws[draws]

    def _people_then(self, draws: int, until: int) -> _PeopleThen:
        """The people of the steps from the next one on."""
        if not any(map(_changes_people, self._people[self._of_people :])):
            return _PeopleThen.of(self._people_now(draws))
        run = load_run(self._folder) if (self._folder / "run.json").is_file() else {}
        has_changed = any(map(_changes_people, self._people[self._fetched_people : self._of_people]))
        if KEPT in run and draws == 1 and not has_changed:
            names, assumed = self._deployment.location_names, run.get("assumed_habits")
            kept = replace(load_kept(self._folder, run[KEPT]), location_names=names, assumed=assumed)
            return _PeopleThen(kept, {name: run[name] for name in _OF_PEOPLE if name in run})
        if self._next_step >= until:
            return _PeopleThen.lost(int(run.get("people", 0)))
        return _PeopleThen.lost(self._risks.people(self._next_step))

    @property
    def _risks(self) -> WrittenRisks:
        if self._written is None:
            self._written = WrittenRisks(self._logs.reader(), self._deployment)
        return self._written

    def _take_until(self, change: _Change | None, until: int, *, is_last: bool) -> bool:
        """The steps from an entry on (None: from where the last call ended) to the next; whether all came."""
        if change is not None and change.is_of_people:
            self._of_people += 1
        elif change is not None:
            self._of_rules += 1
        rule = self._rules[self._of_rules - 1]
        people = self._people_then(int(rule.facts.get(DRAWS, 1)), until)
        if people.population is None and until > self._next_step:
            self._summed_until = until
            self._left_out.append(
                f"exact risks of steps {self._next_step:,} to {until - 1:,}: people changed before these "
                "were fetched, so they are put together from what the account workers wrote, with quantiles "
                "as upper ends"
            )
        facts = self._facts(rule.facts, people, goes_on=change is None)
        description = self._description()
        settings = settings_then(self._deployment.settings, facts, description)
        network = Network.load(facts[NETWORK])
        registry = SensorRegistry(network.places, network.present)
        about: dict[str, Any] = {DESCRIPTION: description.document()}
        if change is not None:
            about |= {name: value for name, value in change.entry.about.items() if name != DESCRIPTION}
            about["recorded"] = {"entry": change.entry.number, "sha256": change.entry.sha256}
            about["counted_in_a_step"] = counted_in_a_step(registry)
        tiers = [each for each in settings.release.tiers if each in self._logs.tiers]
        author = Author.given() if change is None else Author(change.entry.by, change.entry.reason)
        journal = Journal(
            self._folder,
            facts,
            tiers=tuple(tiers),
            author=author,
            about=about,
            keep=partial(keep_named, self._folder, people.own, self._with_covariance(facts)),
            now_seconds=time.time if change is None else partial(_seconds, change.entry),
            watches_devices=self._deployment.settings.quality.watches,
        )
        with closing(journal):
            if journal.last_commit.next_step != self._next_step:
                raise OutputLockedError(
                    f"{self._folder} must be fetched by one process at a time",
                    "another one, which has added to it meanwhile",
                    "fetch again",
                )
            has_all = self._take_steps(journal, people, settings, facts, tiers, until)
            if is_last or not has_all:
                self._take_rest(journal)
            last = journal.last_commit
            journal.commit(self._reached(last.account, last.decided), whole=True)
        if settings.totals or settings.occupancy or settings.total_of:
            TotalsFile(self._folder).started(RunStarted(0, self._next_step))
        return has_all

    def _take_steps(
        self,
        journal: Journal,
        people: _PeopleThen,
        settings: Settings,
        facts: Mapping[str, Any],
        tiers: Collection[str],
        until: int,
    ) -> bool:
        """Account and write the steps before ``until``; False where a log ends before."""
        if self._next_step >= until:
            return True
        deployment, folder, known = self._deployment, self._folder, self._deployment.facts

        def read(decision: StepDecision) -> Decided:
            deployment.check_made_with(decision)
            registry = known.registries.at(decision.step)
            return Decided.logged(decision, registry, has_crowd=settings.has_crowd)

        nobody = Population.pack((), deployment.location_names)
        population = nobody if people.population is None else people.population
        basis = {name: value for name, value in facts.items() if name not in NOT_IN_SNAPSHOTS}
        snapshots = SnapshotCache(folder, basis, 0.0)
        accounted = people_accounts(
            *(settings, settings.first_slot, population, population.people, snapshots, self._next_step),
            has_windows=any(each.window for each in known.registries.ever.values()),
        )
        spent = restore_accounts(
            *(accounted, lambda _: None, folder, journal, read, known.registries.groups, Observer()),
            bounded_days(settings, deployment.registry),
        )
        has_all = True
        for step in range(self._next_step, until):
            found = self._logs.step(step, tiers)
            if found is None:
                self._left_out.append(f"steps from {step:,} on: not all of them is published yet")
                has_all = False
                break
            decision, release = found
            decided = read(decision)
            accounted.apply(decided)
            spent.charge(decided.schedule)
            journal.keep(DECISIONS, _as_in_a_run(decision))
            journal.keep(RELEASES, release)
            if people.population is None:  # as the workers wrote it
                journal.keep(RISKS, self._risks.of(step))
            elif len(people.population):
                for block in accounted.written():
                    journal.keep(RISKS, block)
            self._next_step = step + 1
            if self._next_step % _TOGETHER == 0:
                journal.commit(self._reached(spent.account.save(), spent.decided), may_wait=True)
        journal.commit(self._reached(spent.account.save(), spent.decided), may_wait=True)
        if len(population):
            snapshots.save(accounted.accounts, journal.last_commit)
        return has_all

    def _take_rest(self, journal: Journal) -> None:
        """Late values, dead letters and findings."""
        for release in self._logs.late(self._next_step):
            journal.keep(REVISED, release)
            self._revised += 1
        for name, log in self._logs.passing.items():
            for record in log.records(self._taken.setdefault(log.topic, {})):
                if name == QUALITY:
                    journal.keep(name, (record.value or b"") + b"\n")
                elif (letter := DEAD_LETTER.read_or_warn(record)) is not None:
                    journal.keep(name, letter)
                    self._rejected += 1
            if log.lost:
                self._left_out.append(
                    f"some records of {log.topic}: they are kept for 30 days, and were not fetched before"
                )

    def _reached(self, account: Mapping[str, Any], decided: str | None) -> dict[str, Any]:
        """Where all that was taken so far ends, and the privacy spent by it."""
        taken = {**self._taken, **{log.topic: log.taken for log in self._logs.kept}}
        position = {
            "rules": head_of(self._rules[: self._of_rules]),
            "people": head_of(self._people[: self._of_people]),
            "taken": {
                topic: {str(number): offset for number, offset in offsets.items()}
                for topic, offsets in taken.items()
            },
        }
        return {"next_step": self._next_step, "position": position, "account": account, "decided": decided}

    def _description(self) -> Description:
        """What describes the steps under the last entry that was taken."""
        for entry in reversed(self._rules[: self._of_rules]):
            if DESCRIPTION in entry.about:
                return Description.read(entry.about[DESCRIPTION])
        return self._deployment.description

    def _facts(self, recorded: Mapping[str, Any], people: _PeopleThen, *, goes_on: bool) -> dict[str, Any]:
        """What an entry of the deployment's record says, as a run records it."""
        if goes_on:
            stored = load_document(self._folder / "run.json")
            apart = _NOT_STATED if people.population is None else _NOT_STATED | _OF_PEOPLE
            kept = {name: value for name, value in stored.items() if name not in apart}
            summed = {SUMMED: self._summed_until} if self._summed_until else {}
            return {**kept, **summed, **({} if people.population is None else people.facts)}
        settings = self._deployment.settings
        saved = recorded.get(NETWORK) or Network.of(self._deployment.registry).save()
        network = Network.load(saved)
        again = counted_again(network.sensors)
        said = {name: recorded[name] for name in ACCOUNTED_WITH if name in recorded}
        optional = {name: recorded[name] for name in ("windows", EXCLUSIONS) if recorded.get(name)}
        return {
            "sharpen_operations": OPERATIONS,
            "delta": settings.delta,
            **({} if settings.offset is None else {"offset": settings.offset}),
            **said,
            **optional,
            PARTITIONS: recorded["partitions"],
            "release": {**recorded["release"], "covariance": self._covariance(recorded["release"])},
            "priors_check": self._check(recorded),
            "crowd": _crowd(recorded, people.population),
            **people.facts,
            "sensors": sensors_fingerprint(SensorRegistry(network.places, network.present)),
            NETWORK: saved,
            **({"counted_again": again} if again else {}),
            "schedule": recorded.get("schedule"),
            "risk_format": "jsonl",
            "noise_key": recorded.get("noise_key"),
            "pseudonym_key": self._pseudonym_key,
            FETCHED: self._rules[0].sha256,
            **({SUMMED: self._summed_until} if self._summed_until else {}),
        }

    def _check(self, recorded: Mapping[str, Any]) -> dict[str, Any] | None:
        """The check of the priors: of one that raises ceilings the record has by how much, and of whom."""
        check, raised = self._deployment.settings.priors_check, recorded.get("priors_check.kappa_min")
        if check is None and raised is not None:
            raise LogError(
                "the check of the priors that raised ceilings must be at hand to account these steps again",
                "none, as the settings no longer name it",
                "set priors_check to the file that it was, and fetch again",
            )
        if check is None or (raised is None and check.is_too_low):
            return None
        if raised is not None:
            update = {"kappa_min": raised, "priors": recorded["priors_check.priors"]}
            check = check.model_copy(update=update)
        document: dict[str, Any] = check.model_dump(mode="json")
        return document

    def _covariance(self, release: Mapping[str, Any]) -> str | None:
        """Where the covariance of the noise lies on this machine."""
        recorded, own = release.get("covariance"), self._deployment.settings.release.covariance
        if recorded is None or own is None or Path(recorded).is_file():
            return recorded
        return str(own)

    def _with_covariance(self, facts: Mapping[str, Any]) -> Settings:
        settings, path = self._deployment.settings, facts["release"].get("covariance")
        covariance = None if path is None else Path(path)
        release = settings.release.model_copy(update={"covariance": covariance})
        return settings.model_copy(update={"release": release})


def _changes_people(entry: Entry) -> bool:
    """Whether there are others, or with other priors, from an entry of the record of people on."""
    return PeopleChange(**entry.about["people"])._replace(rule=None) != PeopleChange()


def _as_in_a_run(decision: StepDecision) -> StepDecision:
    """The decision as a run writes it, whose folder is of one deployment."""
    return decision.model_copy(update={"deployment": None})


def _crowd(recorded: Mapping[str, Any], population: Population | None) -> dict[str, Any] | None:
    """The crowd's adversary, as a run records it."""
    if "adversary" not in recorded:
        return None
    crowd = {name.removeprefix("crowd."): recorded[name] for name in recorded if name.startswith("crowd.")}
    crowd["decides"] = recorded["adversary"] == CROWD
    if population is not None and population.weights is not None:
        crowd["personas"] = True
    return crowd


def _seconds(entry: Entry) -> float:
    """When an entry was written."""
    return datetime.fromisoformat(entry.at).timestamp()
