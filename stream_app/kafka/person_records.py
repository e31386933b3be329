"""Priors as records of the topic ``persons``: by pseudonym, in force from a step on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.exceptions import PriorError, PriorFileError
from models.population import Population, PopulationBuilder
from models.prior_record import PersonRecord, chain_to_record
from stream_app.messages import MAX_STEP


class PersonEntry(NamedTuple):
    """One person's record, not yet checked as a prior."""

    pseudonym: str
    effective_from: int
    record: dict[str, Any]
    offset: int = -1


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
    population: Population, pseudonyms: Sequence[str], effective_from: int, deployment: str
) -> Iterator[tuple[str, bytes]]:
    """Key and value of everybody's record; reading them gives the same numbers bit for bit.

    ``deployment`` is the digest of what their risks are accounted with.
    """
    for number, pseudonym in enumerate(pseudonyms):
        record = chain_to_record(pseudonym, population.chain(number), population.initial(number))
        head = {"v": 1, "type": "person", "deployment": deployment, "effective_from": effective_from}
        fields = {**head, **record}
        yield pseudonym, json.dumps(fields, separators=(",", ":")).encode()


def parse_person(key: bytes | None, value: bytes, deployment: str) -> PersonEntry:
    """The entry in a record; ``ValueError`` says what is wrong with it."""
    fields = json.loads(value)
    if not isinstance(fields, dict):
        raise ValueError("a person must be a JSON object")
    if fields.pop("v", None) != 1 or fields.pop("type", None) != "person":
        raise ValueError('a person must have "v": 1 and "type": "person"')
    if fields.pop("deployment", deployment) != deployment:  # absent: loaded before people carried it
        raise ValueError("a person must belong to this deployment; load it with this deployment's settings")
    pseudonym = fields.get("person")
    if not isinstance(pseudonym, str) or (key or b"").decode("utf-8", "replace") != pseudonym:
        raise ValueError("the record's key must be the person's pseudonym")
    effective_from = fields.pop("effective_from", 0)
    if not isinstance(effective_from, int) or not 0 <= effective_from <= MAX_STEP:
        raise ValueError("effective_from must be a step")
    return PersonEntry(pseudonym, effective_from, fields)


def people_of(entries: Iterable[PersonEntry], location_names: Sequence[str]) -> People:
    """The priors in some entries, in the order of their pseudonyms; wrong ones are refused by name."""
    listed = sorted(entries, key=lambda entry: entry.pseudonym)
    try:
        return _build(listed, location_names)
    except (PriorError, PriorFileError):  # look for those who are wrong, one by one
        faults = {entry.pseudonym: _fault(entry, location_names) for entry in listed}
        sound = [entry for entry in listed if faults[entry.pseudonym] is None]
        refused = tuple(
            RefusedPerson(entry.pseudonym, reason, entry.offset)
            for entry in listed
            if (reason := faults[entry.pseudonym]) is not None
        )
        return replace(_build(sound, location_names), refused=refused)


def _build(entries: Sequence[PersonEntry], location_names: Sequence[str]) -> People:
    builder = PopulationBuilder()
    for entry in entries:
        _add(builder, entry)
    since = np.array([entry.effective_from for entry in entries], dtype=np.int64)
    return People(builder.build(location_names), since)


def _fault(entry: PersonEntry, location_names: Sequence[str]) -> str | None:
    """What is to be mended in an entry that is no prior, nothing of it being quoted; None if it is one."""
    try:
        _build([entry], location_names)
    except (PriorError, PriorFileError) as error:
        return f"the prior is not valid: {error.remedy}; `tallyguard persons load` says where"
    return None


def _add(builder: PopulationBuilder, entry: PersonEntry) -> None:
    PersonRecord(f"person {entry.pseudonym}", entry.record, _no_names).add_to(builder)


def _no_names(name: str) -> int | None:
    """Records name places by index only."""
    return None
