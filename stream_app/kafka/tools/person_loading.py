"""Sending priors to ``persons``, and deleting people from it."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.keys import Pseudonymiser
from models.priors import NOT_SAID, Population
from stream_app.exceptions import InputError, RunChangedError, SettingsError
from stream_app.kafka.account.person_source import MARK
from stream_app.kafka.broker.clients import consuming, records, writing
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.topics import LARGE_BYTES, Topics
from stream_app.kafka.deployment.deployment import (
    CHAINS,
    DRAWS,
    Deployment,
    check_topics_of,
    require_record_sizes,
)
from stream_app.kafka.deployment.log_reader import accounted_steps, last_step
from stream_app.kafka.deployment.records import (
    PersonEntry,
    RefusedRecord,
    first_step_in,
    people_of,
    person_kind,
    person_records,
    pseudonym_in,
)
from stream_app.setup.combinations import Runner, refuse
from stream_app.setup.given_priors import as_set, require_locations_of
from stream_app.setup.keys import load_pseudonym_key
from stream_app.setup.option_settings import NewPriors
from stream_app.setup.run_folder.durable import replace_file
from stream_app.setup.run_folder.people_record import (
    Joining,
    PeopleChange,
    change_of,
    first_step,
    law_when_told,
    require_said,
    with_told,
)
from stream_app.setup.run_folder.record import Author
from stream_app.setup.settings import Settings


class LoadedCount(NamedTuple):
    """How many people were sent and removed; ``known`` of those sent were on the topic before.

    ``step`` is the one from which the change counts, ``words`` say what it is; None where nothing was decided
    yet, or nothing differs.
    """

    topic: str
    sent: int
    removed: int
    known: int = 0
    step: int = 0
    words: str | None = None


class Known(NamedTuple):
    """What the topic says of a person who is there."""

    first_step: int
    is_told: bool
    prior: bytes
    chains: int


def prepared(settings: Settings, population: Population) -> tuple[Deployment, Pseudonymiser]:
    """The deployment and the key of its pseudonyms, before the broker is asked for anything.

    Raises whatever of settings and priors :func:`load_people` refuses: `tallyguard check` asks it, too.
    """
    if settings.priors_check is not None:
        settings.priors_check.require(population)
    refuse(Runner.PERSONS, settings, len(population))
    require_locations_of(settings, population)
    deployment = Deployment.of(settings, population.location_names)
    deployment.connection.ssl_context()
    require_record_sizes(deployment.registry, deployment.topics, settings)
    return deployment, load_pseudonym_key(settings)


def load_people(
    settings: Settings,
    population: Population,
    effective_from: int | None,
    *,
    remove_others: bool = False,
    new_priors: NewPriors | None = None,
    author: Author | None = None,
    priors_file: str | None = None,
) -> LoadedCount:
    """Send these people to ``persons``; with ``remove_others``, delete all others from it.

    New people are accounted from their own ``effective_from`` on, or from this one (None: the log's first).
    People who are on the topic keep their first step, or get an earlier one: the adversary remembers what was
    released since then. Where their prior is another, ``new_priors`` must say what it means for what was
    released so far, and the ``author`` why: accounted again under it, or begun anew. Deleted people are
    accounted from the first step of the log. What changes is in the record of people.

    Begins the deployment if it has not begun. Sends nobody with another pseudonym key than it was begun with,
    as the same people would be there twice; nor with other priors than those the settings' check is about.
    Only here all priors are seen together. Chains that stand for people, where there is evidence, are drawn
    here, too, and more of them than the deployment has may come before ``posterior_draws`` is raised.
    """
    author = author or Author.given()
    population = as_set(settings, population)
    deployment, key = prepared(settings, population)
    connection, topics = deployment.connection, deployment.topics
    names = key.pseudonyms(population.people)
    check_topics_of(deployment)
    if not deployment.join(is_loading=True):
        deployment.record.begin(deployment.basis)
    if population.location_names != deployment.location_names:
        raise RunChangedError(
            "people must be over the places that the deployment has",
            f"{len(population.location_names)} places in the priors, {len(deployment.location_names)} in the "
            "record, or others",
            "add places at the end of the locations file, and let the release worker take them first, with "
            "--accept-changes",
        )
    deployment.record.begin_people(key.fingerprint())
    known = _known(connection, topics)
    there = [known.get(name) for name in names]
    gone = sorted(known.keys() - set(names)) if remove_others else []
    gone = [name for name in gone if known[name] is not None]
    first = _first_steps(population, names, known, effective_from)
    told = {number for number, was in enumerate(there) if was is not None and was.is_told}
    step = next_decided(connection, topics)
    new = _renewed(population, names, there) if step else []
    is_new = np.zeros(len(names), dtype=np.bool_)
    is_new[new] = True
    begun = np.array([_first_step(*each) for each in zip(there, first.tolist(), strict=True)], dtype=np.int64)
    change = change_of(population, begun, first, is_new, len(gone), new_priors)
    words = None
    if step and change != PeopleChange():
        words = change.in_words()
        if change.renewed:
            require_said(change, Joining(effective_from, new_priors, True, author.reason))
        first[[n for n in new if n in told]] = 0  # told once, and now under one prior: the whole log
        if new and new_priors is NewPriors.TOLD:
            population = _begun_anew(deployment, population, names, new, step)
            first[new] = step
        about = {"people": change._asdict(), "priors_file": priors_file}
        deployment.record.note_people(step, author, about)
    begun_anew = told - {*new}
    if population.drawn is not None:  # their chains may be others, and start from the law on the topic
        population, begun_anew = _still_told(deployment, population, names, begun_anew), set()
    stays = known.keys() - {*names, *gone} | {names[number] for number in begun_anew}
    fewest = min([population.draws, *(was.chains for name in stays if (was := known[name]) is not None)])
    with _noting_chains(deployment, step, author, fewest), writing(connection) as producer:
        records = person_records(population, names, first.tolist(), deployment.digest)
        for number, (pseudonym, value) in enumerate(records):
            if number in begun_anew:  # the topic has their law at the step that was told
                continue
            _check_size(len(value), population.draws)
            producer.send(topics.persons, value, key=pseudonym.encode())
        for pseudonym in gone:
            producer.send(topics.persons, None, key=pseudonym.encode())
    count = sum(each is not None for each in there)
    return LoadedCount(topics.persons, len(names), len(gone), count, step, words)


@contextmanager
def _noting_chains(deployment: Deployment, step: int, author: Author, fewest: int) -> Iterator[None]:
    """Note that nobody has fewer chains than this: once all are sent, or before where some had more."""
    there, about = deployment.chains_there, {"people": PeopleChange()._asdict(), CHAINS: fewest}
    if fewest < there:
        deployment.record.note_people(step, author, about)
    yield
    if fewest > there:
        deployment.record.note_people(step, author, about)


def _first_step(was: Known | None, now: int) -> int:
    """The first step of a person on the topic, -1 for nobody there; who was told has no earlier one."""
    if was is None:
        return -1
    return now if was.is_told else was.first_step


def _first_steps(
    population: Population, names: Sequence[str], known: Mapping[str, Known | None], otherwise: int | None
) -> NDArray[np.int64]:
    """From which step on each person is accounted, (N,), if nobody has new priors; who was told stays so."""
    own = population.effective_from
    said = [NOT_SAID] * len(names) if own is None else own.tolist()
    before = {name: None if each is None else each.first_step for name, each in known.items()}
    steps = [
        was.first_step
        if (was := known.get(name)) is not None and was.is_told
        else first_step(before, name, otherwise if step == NOT_SAID else step)
        for name, step in zip(names, said, strict=True)
    ]
    return np.array(steps, dtype=np.int64)


def next_decided(connection: Connection, topics: Topics) -> int:
    """The first step that is not decided yet."""
    return asyncio.run(last_step(connection, topics.decisions)) + 1


def _renewed(population: Population, names: Sequence[str], there: Sequence[Known | None]) -> list[int]:
    """The people who are there with another prior; where the place was told, the start counts for nothing."""
    return [
        number
        for number, (_, value) in enumerate(person_records(population, names, 0, ""))
        if (was := there[number]) is not None and _prior_in(value, is_told=was.is_told) != was.prior
    ]


def _begun_anew(
    deployment: Deployment, population: Population, names: Sequence[str], new: Sequence[int], step: int
) -> Population:
    """The people with, for some, the law of where they are at a step by the prior they had so far.

    :class:`RunChangedError` while a partition has not accounted all steps before.
    """
    refuse(Runner.PERSONS, deployment.settings, len(population), NewPriors.TOLD)
    connection, topics = deployment.connection, deployment.topics
    accounted = asyncio.run(accounted_steps(connection, topics))
    if accounted < step:
        raise RunChangedError(
            "all steps that were decided must be accounted before people begin anew",
            f"not yet steps {accounted} to {step - 1}",
            "let account workers run until they have caught up (lag on their page), then load again",
        )
    before = _on_topic(deployment, {names[number] for number in new}, deployment.facts.basis.get(DRAWS, 1))
    clock = deployment.horizon()
    starts = {
        number: law_when_told(step, before, before.position(names[number]), population, number, clock)
        for number in new
    }
    return with_told(population, starts)


def _still_told(
    deployment: Deployment, population: Population, names: Sequence[str], told: set[int]
) -> Population:
    """The people with, for those begun anew earlier, the law of the place that was told then."""
    laws = _on_topic(deployment, {names[number] for number in told})
    return with_told(population, {number: laws.initial(laws.position(names[number])) for number in told})


def _on_topic(deployment: Deployment, wanted: set[str], draws: int = 1) -> Population:
    """Some people, by pseudonym, as the topic has them: each from their first step, with so many chains.

    :class:`RunChangedError` where one of them cannot be read.
    """
    kind, entries = person_kind(deployment.digest, draws), dict[str, PersonEntry]()
    if wanted:
        with consuming(deployment.connection) as consumer:
            for record in records(consumer, deployment.topics.persons):
                if pseudonym_in(record) in wanted and record.value:
                    entry = kind.read(record)
                    if not isinstance(entry, RefusedRecord):
                        entries[entry.pseudonym] = entry
    found = people_of(entries.values(), deployment.location_names)
    if lost := wanted.difference(found.population.people):
        raise RunChangedError(
            "the earlier prior of each person who begins anew must be on the topic",
            f"{len(lost)} that cannot be read",
            "load them with --new-priors redone",
        )
    return replace(found.population, effective_from=found.effective_from)


def _check_size(record_bytes: int, draws: int) -> None:
    """:class:`InputError` where brokers would not take a person's record."""
    if record_bytes > LARGE_BYTES:
        raise InputError(
            f"a person's record, with the {draws} chains that stand for the person, must have at most "
            f"{LARGE_BYTES} bytes",
            record_bytes,
            "lower posterior_draws, or fit priors with fewer places or slots a person",
        )


def remove_people(settings: Settings, people: Sequence[str], author: Author | None = None) -> LoadedCount:
    """Delete these people, by their ids in the priors; nobody if one of them is not on the topic."""
    deployment = Deployment.of(settings)
    connection, topics = deployment.connection, deployment.topics
    key = load_pseudonym_key(settings)
    check_topics_of(deployment)
    deployment.record.begin_people(key.fingerprint())
    names = dict.fromkeys(key.pseudonyms(people))
    known = _known(connection, topics)
    unknown = sum(known.get(name) is None for name in names)
    if unknown:
        raise InputError(
            f"all people named must be on {topics.persons}",
            f"{unknown} of {len(names)} are not",
            "compare the ids with the priors file; people who were removed before are gone already",
        )
    change, step = PeopleChange(removed=len(names)), next_decided(connection, topics)
    if step:
        deployment.record.note_people(step, author or Author.given(), {"people": change._asdict()})
    with writing(connection) as producer:
        for pseudonym in names:
            producer.send(topics.persons, None, key=pseudonym.encode())
    words = change.in_words() if step else None
    return LoadedCount(topics.persons, 0, len(names), step=step, words=words)


def write_locations(path: Path, names: Sequence[str]) -> None:
    """Write the locations file of the workers: one name a line."""
    unfit = next((name for name in names if not name.strip() or name != name.strip() or "\n" in name), None)
    if unfit is not None:
        raise SettingsError("a location's name must fit in a line", repr(unfit), "rename it in the priors")
    replace_file(path, "".join(f"{name}\n" for name in names).encode(), 0o644)


def _known(connection: Connection, topics: Topics) -> dict[str, Known | None]:
    """What the topic says of each person, by pseudonym; None for a deleted person."""
    known: dict[str, Known | None] = {}
    with consuming(connection) as consumer:
        for record in records(consumer, topics.persons):
            if record.key != MARK:
                known[pseudonym_in(record)] = _read(record.value) if record.value else None
    return known


def _read(value: bytes) -> Known:
    is_told = _TOLD.search(value) is not None
    chains = value.find(b',"draws":[[')
    count = 1 if chains < 0 else value.count(b"],[", chains) + 1
    return Known(first_step_in(value), is_told, _prior_in(value, is_told=is_told), count)


_TOLD = re.compile(rb'"told"\s*:\s*true')  # only a member: quotes within a string are escaped


def _prior_in(value: bytes, *, is_told: bool) -> bytes:
    """A digest of the places, moves and start in a record; without the start if that is what was told.

    It is of the text as :func:`person_records` writes it: parsing takes fifty times as long. A record that
    another program wrote is taken for another prior.
    """
    begin, end = value.find(b'"places":'), value.find(b',"draws":')
    prior = value[begin:end] if end >= 0 else value[begin:].rstrip(b"}")
    if is_told:
        prior = _START.sub(b"", prior, count=1)
    return hashlib.sha256(prior).digest()[:16]


_START = re.compile(rb'"initial":(null|\[[^]]*\])')
