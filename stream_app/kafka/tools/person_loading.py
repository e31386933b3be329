"""Sending priors to ``persons``, and deleting people from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from models.keys import Pseudonymiser
from models.priors import NOT_SAID, Population
from stream_app.exceptions import InputError, RunChangedError, SettingsError
from stream_app.kafka.account.person_source import MARK
from stream_app.kafka.broker.clients import consuming, records, writing
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.topics import LARGE_BYTES, Topics
from stream_app.kafka.deployment.deployment import Deployment, check_topics_of, require_record_sizes
from stream_app.kafka.deployment.records import first_step_in, person_records, pseudonym_in
from stream_app.setup.combinations import Runner, refuse
from stream_app.setup.given_priors import as_set, facts_of, require_locations_of
from stream_app.setup.keys import load_pseudonym_key
from stream_app.setup.run_folder.durable import replace_file
from stream_app.setup.run_folder.people_record import first_step
from stream_app.setup.settings import Settings


class LoadedCount(NamedTuple):
    """How many people were sent and removed; ``known`` of those sent were on the topic before."""

    topic: str
    sent: int
    removed: int
    known: int = 0


def prepared(settings: Settings, population: Population) -> tuple[Deployment, Pseudonymiser]:
    """The deployment and the key of its pseudonyms, before the broker is asked for anything.

    Raises whatever of settings and priors :func:`load_people` refuses: `tallyguard check` asks it, too.
    """
    if settings.priors_check is not None:
        settings.priors_check.require(population)
    refuse(Runner.PERSONS, facts_of(settings, population))
    require_locations_of(settings, population)
    deployment = Deployment.of(settings, population.location_names)
    deployment.connection.ssl_context()
    require_record_sizes(deployment.registry, deployment.topics, settings)
    return deployment, load_pseudonym_key(settings)


def load_people(
    settings: Settings, population: Population, effective_from: int | None, *, remove_others: bool = False
) -> LoadedCount:
    """Send these people to ``persons``; with ``remove_others``, delete all others from it.

    New people are accounted from their own ``effective_from`` on, or from this one (None: the log's first).
    People who are on the topic keep their first step, or get an earlier one: the adversary remembers what was
    released since then, so the whole log is accounted under the new prior. Deleted people are accounted from
    the first step of the log.

    Begins the deployment if it has not begun. Sends nobody with another pseudonym key than it was begun with,
    as the same people would be there twice; nor with other priors than those the settings' check is about.
    Only here all priors are seen together. Chains that stand for people, where there is evidence, are drawn
    here, too.
    """
    population = as_set(settings, population)
    deployment, key = prepared(settings, population)
    connection, topics = deployment.connection, deployment.topics
    names = key.pseudonyms(population.people)
    check_topics_of(deployment)
    if not deployment.join():
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
    gone = sorted(known.keys() - set(names)) if remove_others else []
    gone = [name for name in gone if known[name] is not None]
    own = population.effective_from
    said = [NOT_SAID] * len(names) if own is None else own.tolist()
    first = [
        first_step(known, name, effective_from if step == NOT_SAID else step)
        for name, step in zip(names, said, strict=True)
    ]
    with writing(connection) as producer:
        for pseudonym, value in person_records(population, names, first, deployment.digest):
            _check_size(len(value), population.draws)
            producer.send(topics.persons, value, key=pseudonym.encode())
        for pseudonym in gone:
            producer.send(topics.persons, None, key=pseudonym.encode())
    there = sum(known.get(name) is not None for name in names)
    return LoadedCount(topics.persons, len(names), len(gone), there)


def _check_size(record_bytes: int, draws: int) -> None:
    """:class:`InputError` where brokers would not take a person's record."""
    if record_bytes > LARGE_BYTES:
        raise InputError(
            f"a person's record, with the {draws} chains that stand for the person, must have at most "
            f"{LARGE_BYTES} bytes",
            record_bytes,
            "lower posterior_draws, or fit priors with fewer places or slots a person",
        )


def remove_people(settings: Settings, people: Sequence[str]) -> LoadedCount:
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
    with writing(connection) as producer:
        for pseudonym in names:
            producer.send(topics.persons, None, key=pseudonym.encode())
    return LoadedCount(topics.persons, 0, len(names))


def write_locations(path: Path, names: Sequence[str]) -> None:
    """Write the locations file of the workers: one name a line."""
    unfit = next((name for name in names if not name.strip() or name != name.strip() or "\n" in name), None)
    if unfit is not None:
        raise SettingsError("a location's name must fit in a line", repr(unfit), "rename it in the priors")
    replace_file(path, "".join(f"{name}\n" for name in names).encode(), 0o644)


def _known(connection: Connection, topics: Topics) -> dict[str, int | None]:
    """The first step of each person on the topic, by pseudonym; None for a deleted person."""
    known: dict[str, int | None] = {}
    with consuming(connection) as consumer:
        for record in records(consumer, topics.persons):
            if record.key != MARK:
                known[pseudonym_in(record)] = first_step_in(record.value) if record.value else None
    return known
