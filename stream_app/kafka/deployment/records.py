"""What a record of each topic is: how many bytes it may have, and the strict model that reads it.

Every record that a worker or tool reads goes through :meth:`RecordKind.read`: its size is checked before its
contents, and an error in it is a result, not an exception. No record can end a process.

=============================  ==================================================
topic                          kind
=============================  ==================================================
``activations``                :data:`ACTIVATION`
``readings``                   :data:`READING`
``decisions``                  :data:`DECISION`
``releases``, ``revised``      :data:`RELEASE`, also of one tier
``persons``                    :func:`person_kind`
``proposals``, ``answers``     :data:`PROPOSAL`, :data:`ANSWER`
``risks``                      :data:`RISK_STEP`, of summaries
``rejected``                   :data:`DEAD_LETTER`
``deployment``                 in :mod:`stream_app.kafka.deployment.deployment`
=============================  ==================================================

``progress`` has records of the release worker only, which stops where it cannot read them
(:func:`stream_app.kafka.release.release_log.restore`); other records of ``risks`` are shown and compared as
bytes.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from models.exceptions import PriorError, PriorFileError
from models.prior_files import elements_of, read_records
from models.priors import Population, PopulationBuilder, Unchecked, chains_like
from stream_app.kafka.broker.clients import RecordError
from stream_app.kafka.broker.topics import LARGE_BYTES, MEDIUM_BYTES
from stream_app.steps.policy.proposals import Answer, CrowdAnswer, CrowdQuestion, Proposal
from stream_app.wire import (
    Activation,
    CountMessage,
    PersonMessage,
    Reason,
    Rejected,
    Step,
    StepDecision,
    StepRelease,
    explain,
    parse_counts,
    reject,
)

_PSEUDONYM = re.compile(rb"[0-9a-f]{32}")


class RefusedRecord(NamedTuple):
    """A record that is not what its topic must hold."""

    source: str
    payload: bytes
    hint: str
    reason: Reason = Reason.INVALID_FIELD

    def letter(self) -> Rejected:
        """The dead letter."""
        return reject(self.source, self.payload, self.reason, self.hint)


def refused_person(
    source: str, key: bytes | None, hint: str, reason: Reason = Reason.INVALID_FIELD
) -> RefusedRecord:
    """A record of ``persons`` that is no prior: the pseudonym and the reason, nothing of the prior itself.

    Dead letters have other readers than ``persons``, where the record stays; ``hint`` must not quote it.
    """
    pseudonym = _PSEUDONYM.fullmatch(key or b"")
    return RefusedRecord(source, pseudonym[0] if pseudonym else b"", hint, reason)


_FIRST_STEP = re.compile(rb'"effective_from"\s*:\s*(\d+)')  # quotes within a string are escaped


DIGEST_BYTES = 16


def digest_of(record: bytes) -> bytes:
    """The digest by which a person's record is recognised."""
    return hashlib.sha256(record).digest()[:DIGEST_BYTES]


class PersonEntry(NamedTuple):
    """One person's record as numbers (a tenth of the memory of its objects); not yet checked as a prior."""

    pseudonym: str
    effective_from: int
    unchecked: Unchecked
    offset: int = -1
    assumed: str | None = None
    digest: bytes = b""
    """The digest of the record, by which an unchanged one is recognised."""
    draws: NDArray[np.float64] | None = None
    """Probabilities (D, E) of the moves in each chain that stands for the person; None for the prior."""
    told: bool = False
    """Whether the habits changed at the first step, and the place there is told."""

    def begins_by(self, known: int) -> PersonEntry:
        """The same in force no later than the person's ``known`` first step; who is told begins anew."""
        return self if self.told else self._replace(effective_from=min(known, self.effective_from))


class NoPersonError(RecordError):
    """A record of ``persons`` is not one of this deployment's."""


class _TooLongError(ValueError):
    """A record has more bytes than its kind."""


class RefusedPerson(NamedTuple):
    """A record that is no prior, and what to do about it; nothing of the record is quoted."""

    pseudonym: str
    reason: str
    offset: int


@dataclass(frozen=True)
class People:
    """Priors of some people; ``effective_from`` (N,) is the first step accounted for each."""

    population: Population
    effective_from: NDArray[np.int64]
    refused: tuple[RefusedPerson, ...] = ()


def person_records(
    population: Population, pseudonyms: Sequence[str], effective_from: int | Sequence[int], deployment: str
) -> Iterator[tuple[str, bytes]]:
    """Key and value of each person's record; reading them gives the same numbers bit for bit.

    The priors are in force from the step ``effective_from`` on, one step for all or one each. ``deployment``
    is the digest of the settings that risks are accounted with. Each record says if habits are assumed, and
    if the place at the first step is told; it has the chains that were drawn for the person, where the data
    leave the prior open.
    """
    label = {} if population.assumed is None else {"assumed": population.assumed}
    first = np.broadcast_to(effective_from, len(pseudonyms)).tolist()
    for number, record in enumerate(elements_of(population, pseudonyms)):
        head = {"v": 1, "type": "person", "deployment": deployment, "effective_from": first[number]}
        weight = {} if population.weights is None else {"weight": float(population.weights[number])}
        told = {"told": True} if population.told is not None and population.told[number] else {}
        fields = {**head, **told, **label, **weight, **record, **_draws_of(population, number)}
        yield pseudonyms[number], json.dumps(fields, separators=(",", ":")).encode()


def _draws_of(population: Population, person: int) -> dict[str, Any]:
    """The probabilities of the moves in each chain drawn for a person, in the order of the prior's moves."""
    if population.drawn is None:
        return {}
    arrays, draws = population.drawn.arrays, population.draws
    first, last = arrays.entry_start[[person * draws, (person + 1) * draws]]
    return {"draws": arrays.value[first:last].reshape(draws, -1).tolist()}


def first_step_in(value: bytes) -> int:
    """The step from which a record is in force, without parsing its prior; 0 if it does not say."""
    found = _FIRST_STEP.search(value)
    return 0 if found is None else int(found[1])


class _Opened(NamedTuple):
    """A record whose prior has not been read yet."""

    person: PersonMessage
    digest: bytes
    draws: int


def _entries(records: Sequence[_Opened]) -> list[PersonEntry | NoPersonError]:
    """The entries in some records, or why there is none."""
    # records name places by index, never by name
    named = [(f"person {record.person.person}", record.person.record()) for record in records]
    return [
        NoPersonError(_reason(prior)) if isinstance(prior, Exception) else _entry(record, prior)
        for record, prior in zip(records, read_records(named, lambda name: None), strict=True)
    ]


def _entry(record: _Opened, prior: Unchecked) -> PersonEntry:
    person, digest, draws = record
    drawn = np.array(person.draws[:draws], dtype=np.float64) if person.draws and draws > 1 else None
    said = person.assumed, digest, drawn, person.told
    return PersonEntry(person.person, person.effective_from, prior, -1, *said)


def _open_person(key: bytes, value: bytes, deployment: str, draws: int) -> _Opened:
    """A record of this deployment; :class:`NoPersonError` if it is none."""
    person = PersonMessage.model_validate_json(value)
    if person.deployment not in (None, deployment):  # None: loaded before people carried it
        raise NoPersonError(
            "a person must belong to this deployment; load it with this deployment's settings"
        )
    if key.decode("utf-8", "replace") != person.person:
        raise NoPersonError("the record's key must be the person's pseudonym")
    if draws > 1 and len(person.draws or ()) < draws:
        raise NoPersonError(
            f"there must be {draws} chains for a person, as evidence and posterior_draws say; load it again"
        )
    if person.told and person.initial is None:
        raise NoPersonError("who begins anew where habits changed must have an initial law; load it again")
    if len({len(chain) for chain in person.draws or ()}) > 1:
        raise NoPersonError("all chains of a person must have as many moves; load it again")
    return _Opened(person, digest_of(value), draws)


def people_of(entries: Iterable[PersonEntry], location_names: Sequence[str]) -> People:
    """The priors in some entries, in the order of their pseudonyms; other entries are refused."""
    listed = sorted(entries, key=lambda entry: entry.pseudonym)
    try:
        return _build(listed, location_names)
    except MemoryError:
        raise
    except Exception:  # in whatever way a record is wrong
        refused = _find_faults(listed, location_names)
        names = {each.pseudonym for each in refused}
        sound = [entry for entry in listed if entry.pseudonym not in names]
        return replace(_build(sound, location_names), refused=refused)


def _build(entries: Sequence[PersonEntry], location_names: Sequence[str]) -> People:
    everybody = PopulationBuilder([entry.unchecked for entry in entries])
    since = np.array([entry.effective_from for entry in entries], dtype=np.int64)
    population = everybody.build(location_names)
    drawn = [
        chains_like(population, number, entry.draws)
        for number, entry in enumerate(entries)
        if entry.draws is not None
    ]
    told = np.array([entry.told for entry in entries], dtype=np.bool_)
    chains = Population.concatenate(drawn) if drawn else None
    return People(replace(population, drawn=chains, told=told if told.any() else None), since)


def _find_faults(entries: Sequence[PersonEntry], location_names: Sequence[str]) -> tuple[RefusedPerson, ...]:
    """The entries that are no priors, found by halving."""
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


def pseudonym_in(record: Any) -> str:
    """The pseudonym that a record of ``persons`` is about: its key."""
    return (record.key or b"").decode("utf-8", "replace")


TOGETHER_BYTES = 1 << 19
"""Records of so many bytes are read together; read, they take some ten times as many."""


def in_pieces(records: Iterable[Any]) -> Iterator[list[Any]]:
    """Consecutive records that are read together."""
    piece: list[Any] = []
    size = 0
    for record in records:
        piece.append(record)
        size += bytes_of(record)
        if size >= TOGETHER_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def bytes_of(record: Any) -> int:
    """The bytes of key and value."""
    return len(record.key or b"") + len(record.value or b"")


logger = logging.getLogger(__name__)

Found = TypeVar("Found")


@dataclass(frozen=True)
class RecordKind(Generic[Found]):
    """The records of a topic. ``parse`` takes key and value, and may raise any exception.

    Where ``finish`` is given, ``parse`` only begins to read a record, and ``finish`` reads many on at once:
    it gives what each holds, or the error. Messages about a ``secret`` record quote nothing but its key.
    """

    holds: str
    most_bytes: int
    parse: Callable[[bytes, bytes], Any]
    secret: bool = False
    finish: Callable[[Sequence[Any]], Sequence[Found | Exception]] | None = None

    def read(self, record: Any, source: str | None = None) -> Found | RefusedRecord:
        """What a record holds, or why it is refused."""
        return self.read_all([record], source)[0]

    def read_all(self, records: Sequence[Any], source: str | None = None) -> list[Found | RefusedRecord]:
        """What each of these records holds, or why it is refused; no record says anything of another."""
        found: list[Any] = []
        for piece in in_pieces(records):
            begun = list(map(self._begin, piece))
            sound = [each for each in begun if not isinstance(each, Exception)]
            finished = iter(sound if self.finish is None else self._finish(sound))
            found += [each if isinstance(each, Exception) else next(finished) for each in begun]
        return [
            self._refused(record, source, each) if isinstance(each, Exception) else each
            for record, each in zip(records, found, strict=True)
        ]

    def _begin(self, record: Any) -> Any:
        """What ``parse`` makes of a record, or the error."""
        key, value = record.key or b"", record.value or b""
        if (size := bytes_of(record)) > self.most_bytes:
            return _TooLongError(f"{self.holds} has at most {self.most_bytes} bytes, not {size}")
        try:
            return self.parse(key, value)
        except MemoryError:
            raise
        except Exception as error:  # no record may stop the records after it
            return error

    def _finish(self, begun: Sequence[Any]) -> Sequence[Found | Exception]:
        """What ``finish`` makes of these, each alone where it stumbles over all."""
        assert self.finish is not None
        try:
            return self.finish(begun)
        except MemoryError:
            raise
        except Exception as error:
            return [error] if len(begun) == 1 else [self._finish([each])[0] for each in begun]

    def read_or_warn(self, record: Any) -> Found | None:
        """What a record holds; None, and a warning, for a reader that writes no dead letters."""
        found = self.read(record)
        if isinstance(found, RefusedRecord):
            logger.warning("%s is not %s: %s", found.source, self.holds, found.reason)
            return None
        return found

    def _refused(self, record: Any, source: str | None, error: Exception) -> RefusedRecord:
        where = source or f"{record.topic}/{record.partition}:{record.offset}"
        reason, hint = Reason.INVALID_FIELD, str(error)
        if isinstance(error, ValidationError):
            reason, hint = explain(error, self.holds, quotes=not self.secret)
        elif isinstance(error, _TooLongError):
            reason = Reason.TOO_LONG
        elif not isinstance(error, RecordError):
            hint = f"it cannot be read as {self.holds}: {type(error).__name__}"
        if self.secret:
            return refused_person(where, record.key, hint, reason)
        return RefusedRecord(where, record.value or b"", hint, reason)


def of_models(holds: str, models: Any, most_bytes: int) -> RecordKind[Any]:
    """A kind that a pydantic model reads, or one of several, chosen by the record's type."""
    adapter: TypeAdapter[Any] = TypeAdapter(models)
    return RecordKind(holds, most_bytes, lambda _, value: adapter.validate_json(value))


class RiskStep(BaseModel):
    """The step of a summary of risks of any version, and how many people it is of."""

    model_config = ConfigDict(frozen=True, strict=True)

    type: Literal["risk_summary"]
    step: Step
    people: int | None = None


ACTIVATION: RecordKind[Activation] = of_models("an activation", Activation, LARGE_BYTES)
READING: RecordKind[CountMessage] = RecordKind(
    "reading or readings", MEDIUM_BYTES, lambda _, value: parse_counts(value)
)
DECISION: RecordKind[StepDecision] = of_models("a decision", StepDecision, LARGE_BYTES)
PROPOSAL: RecordKind[Proposal | CrowdQuestion] = of_models(
    "a proposal", Annotated[Proposal | CrowdQuestion, Field(discriminator="type")], LARGE_BYTES
)
ANSWER: RecordKind[Answer | CrowdAnswer] = of_models(
    "an answer", Annotated[Answer | CrowdAnswer, Field(discriminator="type")], MEDIUM_BYTES
)
RELEASE: RecordKind[StepRelease] = of_models("a release", StepRelease, LARGE_BYTES)
IS_SUMMARY = b'"type":"risk_summary"'
RISK_STEP: RecordKind[RiskStep] = of_models("a summary of risks", RiskStep, MEDIUM_BYTES)
DEAD_LETTER: RecordKind[Rejected] = of_models("a dead letter", Rejected, MEDIUM_BYTES)


def person_kind(deployment: str, draws: int = 1) -> RecordKind[PersonEntry]:
    """The people of the deployment with this digest, each with so many chains (1: the prior itself).

    Of a record with more the first ones count, so that more are there before ``posterior_draws`` is raised.
    """
    begin = partial(_open_person, deployment=deployment, draws=draws)
    return RecordKind("a person", LARGE_BYTES, begin, secret=True, finish=_entries)
