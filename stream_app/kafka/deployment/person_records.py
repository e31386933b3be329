"""Priors as records of the topic ``persons``: by pseudonym, in force from a step on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.exceptions import PriorError, PriorFileError
from models.prior_files import add_record, chain_to_record
from models.priors import Population, PopulationBuilder
from stream_app.kafka.broker.kafka_exceptions import RecordError
from stream_app.wire import Person

_FIRST_STEP = re.compile(rb'"effective_from"\s*:\s*(\d+)')  # quotes within a string are escaped


class PersonEntry(NamedTuple):
    """One person's record as numbers, a tenth of what it takes as objects; not yet checked as a prior."""

    pseudonym: str
    effective_from: int
    unchecked: PopulationBuilder  # of this person alone
    offset: int = -1
    assumed: str | None = None
    digest: bytes = b""
    """Of the record, by which an unchanged one is recognised."""


class NoPersonError(RecordError):
    """A record of ``persons`` is not one of this deployment's."""


class RefusedPerson(NamedTuple):
    """A record that is no prior, and what to do about it without a word of what it says."""

    pseudonym: str
    reason: str
    offset: int


@dataclass(frozen=True)
class People:
    """Priors of some people; ``effective_from`` (N,) is the first step that counts for each."""

    population: Population
    effective_from: NDArray[np.int64]
    refused: tuple[RefusedPerson, ...] = ()


def person_records(
    population: Population, pseudonyms: Sequence[str], effective_from: int | Sequence[int], deployment: str
) -> Iterator[tuple[str, bytes]]:
    """Key and value of everybody's record; reading them gives the same numbers bit for bit.

    In force from the step ``effective_from`` on, the same or one for each. ``deployment`` is the digest of
    what their risks are accounted with. Each says where habits are assumed.
    """
    label = {} if population.assumed is None else {"assumed": population.assumed}
    first = np.broadcast_to(effective_from, len(pseudonyms)).tolist()
    for number, pseudonym in enumerate(pseudonyms):
        record = chain_to_record(pseudonym, population.chain(number), population.initial(number))
        head = {"v": 1, "type": "person", "deployment": deployment, "effective_from": first[number]}
        weight = {} if population.weights is None else {"weight": float(population.weights[number])}
        fields = {**head, **label, **weight, **record}
        yield pseudonym, json.dumps(fields, separators=(",", ":")).encode()


def first_step_in(value: bytes) -> int:
    """From which step on a record is in force, without reading the prior in it; 0 where it does not say."""
    found = _FIRST_STEP.search(value)
    return 0 if found is None else int(found[1])


def parse_person(key: bytes, value: bytes, deployment: str, in_crowd: bool = False) -> PersonEntry:
    """The entry in a record of this deployment; :class:`NoPersonError` says what is wrong with it.

    Nobody stands for others ``in_crowd``.
    """
    person = Person.model_validate_json(value)
    if person.deployment not in (None, deployment):  # None: loaded before people carried it
        raise NoPersonError(
            "a person must belong to this deployment; load it with this deployment's settings"
        )
    if in_crowd and person.weight is not None:
        raise NoPersonError("a crowd must be made of people with priors of their own, not of personas")
    if key.decode("utf-8", "replace") != person.person:
        raise NoPersonError("the record's key must be the person's pseudonym")
    builder = PopulationBuilder()
    try:
        add_record(builder, f"person {person.person}", person.record(), _no_names)
    except (PriorError, PriorFileError) as error:
        raise NoPersonError(_reason(error)) from error
    return PersonEntry(person.person, person.effective_from, builder, assumed=person.assumed)


def people_of(entries: Iterable[PersonEntry], location_names: Sequence[str]) -> People:
    """The priors in some entries, in the order of their pseudonyms; wrong ones are refused by name."""
    listed = sorted(entries, key=lambda entry: entry.pseudonym)
    try:
        return _build(listed, location_names)
    except MemoryError:
        raise
    except Exception:  # of a record, whatever it is
        refused = _find_faults(listed, location_names)
        names = {each.pseudonym for each in refused}
        sound = [entry for entry in listed if entry.pseudonym not in names]
        return replace(_build(sound, location_names), refused=refused)


def _build(entries: Sequence[PersonEntry], location_names: Sequence[str]) -> People:
    everybody = PopulationBuilder()
    for entry in entries:
        everybody.add_all(entry.unchecked)
    since = np.array([entry.effective_from for entry in entries], dtype=np.int64)
    return People(everybody.build(location_names), since)


def _find_faults(entries: Sequence[PersonEntry], location_names: Sequence[str]) -> tuple[RefusedPerson, ...]:
    """Those among some entries that are no priors, by halving; nothing of them is quoted."""
    try:
        _build(entries, location_names)
    except MemoryError:
        raise
    except Exception as error:
        if len(entries) == 1:
            return (RefusedPerson(entries[0].pseudonym, _reason(error), entries[0].offset),)
        half = len(entries) // 2
        return _find_faults(entries[:half], location_names) + _find_faults(entries[half:], location_names)
    return ()


def _reason(error: Exception) -> str:
    remedy = error.remedy if isinstance(error, PriorError | PriorFileError) else type(error).__name__
    return f"the prior is not valid: {remedy}; `tallyguard persons load` says where"


def _no_names(name: str) -> int | None:
    """Records name places by index only."""
    return None
