"""Sending priors to ``persons``, and deleting people from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from models.priors import Population
from stream_app.exceptions import InputError, SettingsError
from stream_app.kafka.broker.clients import consuming, records, writing
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.deployment.deployment import Deployment, check_topics_of
from stream_app.kafka.deployment.person_records import person_records
from stream_app.setup.keys import load_pseudonym_key
from stream_app.setup.run_folder.durable import replace_file
from stream_app.setup.settings import Settings


class LoadedCount(NamedTuple):
    """How many people were sent and removed."""

    topic: str
    sent: int
    removed: int


def load_people(
    settings: Settings, population: Population, effective_from: int, *, remove_others: bool = False
) -> LoadedCount:
    """Send everybody; with ``remove_others`` delete who is on the topic and not among them.

    Begins the deployment where nobody has. With another pseudonym key than it was begun with nobody is sent:
    the same people would be there twice; nor with other priors than those that the settings' check is of,
    which only here are seen all together.
    """
    if settings.priors_check is not None:
        settings.priors_check.require(population)
    if settings.has_crowd and population.weights is not None:
        raise SettingsError(
            "a crowd must be made of people with priors of their own",
            "personas that stand for many",
            "leave out adversary and [crowd]",
        )
    deployment = Deployment.of(settings, population.location_names)
    connection, topics = deployment.connection, deployment.topics
    key = load_pseudonym_key(settings)
    names = key.pseudonyms(population.people)
    check_topics_of(deployment)
    deployment.record.begin(deployment.basis)
    deployment.record.begin_people(key.fingerprint())
    gone = sorted(_known(connection, topics) - set(names)) if remove_others else []
    with writing(connection) as producer:
        for pseudonym, value in person_records(population, names, effective_from, deployment.digest):
            producer.send(topics.persons, value, key=pseudonym.encode())
        for pseudonym in gone:
            producer.send(topics.persons, None, key=pseudonym.encode())
    return LoadedCount(topics.persons, len(names), len(gone))


def remove_people(settings: Settings, people: Sequence[str]) -> LoadedCount:
    """Delete these people, by the ids that the priors had; nobody, if one of them is not there."""
    deployment = Deployment.of(settings)
    connection, topics = deployment.connection, deployment.topics
    key = load_pseudonym_key(settings)
    check_topics_of(deployment)
    deployment.record.begin_people(key.fingerprint())
    names = dict.fromkeys(key.pseudonyms(people))
    unknown = len(names.keys() - _known(connection, topics))
    if unknown:
        raise InputError(
            f"everybody named must be on {topics.persons}",
            f"{unknown} of {len(names)} are not",
            "check how the ids were written in the priors file; whoever was removed before is gone already",
        )
    with writing(connection) as producer:
        for pseudonym in names:
            producer.send(topics.persons, None, key=pseudonym.encode())
    return LoadedCount(topics.persons, 0, len(names))


def write_locations(path: Path, names: Sequence[str]) -> None:
    """The locations file of the workers: one name a line."""
    unfit = next((name for name in names if not name.strip() or name != name.strip() or "\n" in name), None)
    if unfit is not None:
        raise SettingsError("a location's name must fit in a line", repr(unfit), "rename it in the priors")
    replace_file(path, "".join(f"{name}\n" for name in names).encode(), 0o644)


def _known(connection: Connection, topics: Topics) -> set[str]:
    """Pseudonyms on the topic that were not deleted."""
    known: set[str] = set()
    with consuming(connection) as consumer:
        for record in records(consumer, topics.persons):
            name = (record.key or b"").decode("utf-8", "replace")
            if record.value:
                known.add(name)
            else:
                known.discard(name)
    return known
