"""What all processes of one deployment on Kafka share, and the checks before any of them starts.

First the size of the largest records and requests, then the record of what the deployment was begun with,
then :class:`Deployment`, which has the settings, sensors, topics and connection.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from accounting.decisions import OPTIONS_A_ROUND
from accounting.settings import OPERATIONS, HorizonSettings
from models.mechanisms import MECHANISMS
from models.releases import SensorRegistry, StepSchedule, most_counting
from stream_app.exceptions import RunChangedError, SettingsError, keeping
from stream_app.kafka.broker.clients import (
    BrokerError,
    LogError,
    broker_errors,
    connected,
    consuming,
    is_patched,
    records,
    writing,
)
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.topic_checks import require_topics
from stream_app.kafka.broker.topics import LARGE_BYTES, MEDIUM_BYTES, Topics
from stream_app.kafka.deployment.records import RecordKind, RefusedRecord, of_models
from stream_app.setup.declared import bounded_days, require_most_counts, require_strangers
from stream_app.setup.exclusions import Exclusions, check_change, load_exclusions
from stream_app.setup.given_priors import location_names as read_names
from stream_app.setup.release_settings import BUDGET, CROWD, CrowdSettings, ReleaseSettings
from stream_app.setup.run_folder.description import Description, check_sensors, description_of
from stream_app.setup.run_folder.facts import (
    HOLIDAYS,
    NETWORK,
    WINDOWS,
    Network,
    Registries,
    check_holidays,
    check_new_windows,
    differences,
    keeps_windows,
)
from stream_app.setup.run_folder.key_record import check_between_windows
from stream_app.setup.run_folder.manifest import CHECK, DECIDED, EXCLUSIONS, FIXED, SHARPENED, weakened
from stream_app.setup.run_folder.record import (
    DESCRIPTION,
    Author,
    Entry,
    chained,
    following,
    head_of,
    held,
    last_facts,
    next_entry,
)
from stream_app.setup.run_folder.run_settings import FORMS, facts_if_set, mechanisms_of_windows
from stream_app.setup.sections import QualitySettings
from stream_app.setup.sensor_files import load_registry
from stream_app.setup.settings import Settings
from stream_app.steps import Intake, StepWindow, with_windows
from stream_app.steps.policy import MOST_SUMS_AHEAD, BudgetPolicy, Decided, designs_of, policy_from
from stream_app.steps.policy.proposals import CrowdAnswer, Option, SensorOptions
from stream_app.wire import (
    CROWD_SUMS,
    MAX_COUNT,
    MAX_STEP,
    MAX_VERSION,
    Activation,
    Exact,
    SensorDecision,
    SensorValue,
    StepDecision,
    StepRelease,
    Version,
    WindowDecision,
    schedule_of,
)

# The largest records name every sensor of the deployment in one step. They are made from the messages
# themselves, with the longest numbers there can be, so that no arithmetic has to follow the formats.

ENVELOPE_BYTES = 4096
"""The most that key, headers and the reason of a decision take."""

_LONGEST = -2.2250738585072014e-308
_LOWEST = -(2**63)
_SUMS = (_LOWEST,) * CROWD_SUMS
_SOURCE = "r" * 249 + ":" + str(2**63)
_LONGEST_NAME = max(MECHANISMS, key=len)
_FIELDS = ("sigma", "epsilon", "design", "position")
_PARAMETERS = max(
    _FIELDS, *(kind.parameter_names for kind in MECHANISMS.values()), key=lambda names: len(repr(names))
)


def largest_bytes(registry: SensorRegistry, topics: Topics, settings: Settings) -> Mapping[str, int]:
    """The largest record of each topic that names sensors, with every sensor active in one step."""
    names = tuple(sensor.name for sensor in registry.sensors)
    from_step = {"from_step": MAX_STEP} if registry.windowed else {}
    sizes = {
        topics.activations: len(Activation(v=1, step=MAX_STEP, sensors=names).line()),
        topics.releases: len(_release(names, from_step).line()),
        topics.decisions: len(_decision(names, topics.tiers, in_crowd=settings.has_crowd).line())
        + _windows_bytes(registry, settings)
        + (largest_crowd_answer_bytes(registry, settings) if registry.windowed else 0),
        topics.progress: max(len(_announced(registry)), len(_waiting(names))),
    }
    if topics.regions:
        sizes[topics.sealed] = 2 * sizes[topics.activations]  # announced, and missing
    if topics.has_revised:
        sizes[topics.revised] = len(_release(names, {"version": MAX_VERSION, **from_step}).line())
    return {topic: size + ENVELOPE_BYTES for topic, size in sizes.items()}


def largest_crowd_answer_bytes(registry: SensorRegistry, settings: Settings) -> int:
    """The largest answer of a partition about the crowd at all sensors; 0 if no crowd is configured.

    Under a risk budget on windows it is about steps to come, too.
    """
    if not settings.has_crowd:
        return 0
    rows = (_SUMS,) * (most_counting(registry) * (1 + _steps_ahead(registry, settings)))
    answer = CrowdAnswer(question="q" * 32, step=MAX_STEP, partition=MAX_STEP, sums=rows)
    return len(answer.line()) + ENVELOPE_BYTES


def _steps_ahead(registry: SensorRegistry, settings: Settings) -> int:
    """How many steps to come are asked about with a step at most."""
    decides = settings.adversary == CROWD and settings.release.mechanism == BUDGET
    return MOST_SUMS_AHEAD // most_counting(registry) if decides and registry.windowed else 0


def largest_proposal_bytes(registry: SensorRegistry, settings: Settings) -> int:
    """The largest question about a step of all sensors under a risk budget; 0 without a budget.

    Each sensor may have one more option, as a schedule file may name one for it.
    """
    policy = policy_from(settings.release, registry)
    if not isinstance(policy, BudgetPolicy):
        return 0
    choices = policy.choices_of_all()
    known = {option for choice in choices for option in choice.options}
    longest = dict.fromkeys((*_PARAMETERS, *settings.release.tiers), _LONGEST)
    own = Option(mechanism=_LONGEST_NAME, parameters=longest)
    options = (
        *(Option(mechanism=each.name, parameters=dict(each.parameters)) for each in known),
        *[own] * len(choices),
    )
    places = [tuple([len(options)] * (len(choice.options) + 1)) for choice in choices]
    sensors = tuple(
        SensorOptions(sensor=choice.sensor.name, options=place)
        for choice, place in zip(choices, places, strict=True)
    )
    named = len(Activation(v=1, step=0, sensors=tuple(choice.sensor.name for choice in choices)).line())
    candidates = OPTIONS_A_ROUND * (len(str(max(map(len, places), default=0))) + 1)
    listed = sum(len(each.model_dump_json()) + 1 for each in (*options, *sensors))
    if settings.adversary == CROWD:
        listed += 2 * largest_crowd_answer_bytes(registry, settings)
        listed += (1 + _steps_ahead(registry, settings)) * named
    listed += _windows_bytes(registry, settings)
    return listed + candidates + settings.release.budget.look_ahead * named + ENVELOPE_BYTES


def _windows_bytes(registry: SensorRegistry, settings: Settings) -> int:
    """The largest list of windows that a risk budget decided: at the end of one of moves, two of a sensor."""
    if settings.release.mechanism != BUDGET:
        return 0
    parameters = dict.fromkeys(_PARAMETERS, _LONGEST)
    longest = (
        WindowDecision(sensor=each.name, last=MAX_STEP, mechanism=_LONGEST_NAME, parameters=parameters)
        for each in registry.windowed
    )
    return sum(2 * (len(each.model_dump_json()) + 1) for each in longest)


def largest_request_bytes(registry: SensorRegistry, topics: Topics, settings: Settings) -> int:
    """The largest request of the release worker, if one broker leads every partition and gets all records.

    Either a transaction with a step of all sensors, or a question about one to each partition of people.
    """
    sizes = largest_bytes(registry, topics, settings)
    written = (topics.releases, *[topics.releases] * len(topics.tiers), topics.decisions, topics.progress)
    written += (topics.revised, *[topics.revised] * len(topics.tiers)) if topics.has_revised else ()
    transaction = sum(sizes[topic] for topic in written)
    question = topics.partitions * largest_proposal_bytes(registry, settings)
    return max(transaction + MEDIUM_BYTES, question)  # and a dead letter


def require_record_sizes(registry: SensorRegistry, topics: Topics, settings: Settings) -> None:
    """:class:`SettingsError` where a step of all sensors would not fit in a record."""
    question_bytes = largest_proposal_bytes(registry, settings)
    if question_bytes > LARGE_BYTES:
        raise SettingsError(
            f"a risk budget's question about a step of all {len(registry.sensors)} sensors must fit in a "
            f"record of {topics.proposals}, which has at most {LARGE_BYTES} bytes (max.message.bytes)",
            f"up to {question_bytes} bytes",
            "lower release.budget.look_ahead, shorten the names of sensors or the list of sigmas, "
            "or let fewer sensors count",
        )
    answer = largest_crowd_answer_bytes(registry, settings)
    if answer > MEDIUM_BYTES:
        raise SettingsError(
            f"a partition's answer about the crowd at all {len(registry.sensors)} sensors must fit in a "
            f"record of {topics.answers}, which has at most {MEDIUM_BYTES} bytes",
            f"up to {answer} bytes",
            "turn crowd.on off, or let fewer sensors count",
        )
    for topic, size in largest_bytes(registry, topics, settings).items():
        if size > LARGE_BYTES:
            raise SettingsError(
                f"a step of all {len(registry.sensors)} sensors must fit in a record of {topic}, "
                f"which has at most {LARGE_BYTES} bytes (max.message.bytes)",
                f"up to {size} bytes",
                "shorten the names of sensors, or let fewer of them count",
            )


def _release(names: tuple[str, ...], more: Mapping[str, int] | None = None) -> StepRelease:
    parameters = dict.fromkeys(_PARAMETERS, _LONGEST)
    parameters |= {name: MAX_STEP for name in ("design", "position") if name in parameters}
    fields: dict[str, Any] = {"mechanism": _LONGEST_NAME, "value": _LOWEST, **parameters, **(more or {})}
    values = tuple(SensorValue.model_construct(sensor=name, **fields) for name in names)
    return StepRelease.model_construct(step=MAX_STEP, releases=values)  # whose noise is of no mechanism


def _decision(names: tuple[str, ...], tiers: tuple[str, ...], *, in_crowd: bool) -> StepDecision:
    parameters = dict.fromkeys((*_PARAMETERS, *tiers), _LONGEST)
    crowd = _SUMS if in_crowd else None
    decisions = (
        SensorDecision(sensor=name, mechanism="suppressed", parameters=parameters, crowd=crowd)
        for name in names
    )
    return StepDecision(step=MAX_STEP, decisions=tuple(decisions), deployment="d" * 64)


def _announced(registry: SensorRegistry) -> bytes:
    names = [sensor.name for sensor in registry.sensors]
    counts = dict.fromkeys(names, MAX_COUNT)
    corrected = {each.name: [MAX_COUNT] * each.corrections for each in registry.sensors if each.corrections}
    step = {"step": MAX_STEP, "sensors": names, "counts": counts, "waiting": {}, "corrected": corrected}
    return json.dumps(step).encode()


def _waiting(names: tuple[str, ...]) -> bytes:
    waiting = dict.fromkeys(names, (MAX_COUNT, _SOURCE))
    return json.dumps({"step": MAX_STEP, "sensors": None, "counts": {}, "waiting": waiting}).encode()


# The record of what a deployment was begun with is written once to the topic ``deployment``, and every
# process compares itself with it. A certified risk is a function of people, decisions and the settings in it:
# a process with other settings would account something else than was decided, unnoticed. Decisions and people
# carry its digest.
#
# What may change while a deployment runs (release policy, schedule, noise key) is written to the same topic,
# as in the record of a run: one entry for each change, each under its own key, so that compaction keeps all
# of them.

logger = logging.getLogger(__name__)

_VALUES = (
    *("deployment", "step_seconds", "origin", "first_slot"),
    *("horizon", "mistakes", "thresholds", "sharpen_above"),
)
_NO_VALUES = {
    *("release", "priors_check", "crowd", "kafka", "sensors", "locations"),
    *("noise_key", "pseudonym_key"),
}
"""Settings that facts have in another form, or as a fingerprint."""
_CROWD, DRAWS = "crowd.", "draws"
_ACCOUNTS, _PSEUDONYMS = b"accounts", b"pseudonyms"
_RECORD, _PEOPLE = b"record-", b"people-"
CHAINS = "chains"
"""What an entry of the record of people says: the fewest chains in a record of anybody."""
INPUTS, RECORD_HEAD = "inputs", "record"
"""What the basis of a progress record has beside settings: ids of the input topics; head of the record of
rules, by which lost entries are noticed."""
_WAIT_SECONDS = 1.0
_DIGEST_DIGITS = 16


class DeploymentRecord(Exact):
    """Values and fingerprints of what must be the same in every process; no secret, no person."""

    v: Version = 1
    type: Literal["deployment"] = "deployment"
    digest: str
    basis: Mapping[str, Any]

    @classmethod
    def of(cls, basis: Mapping[str, Any]) -> DeploymentRecord:
        """The record of a basis."""
        return cls(digest=digest_of(basis), basis=json.loads(json.dumps(basis)))


_KIND: RecordKind[DeploymentRecord] = of_models("a deployment record", DeploymentRecord, MEDIUM_BYTES)


def accounts_basis(settings: Settings, registry: SensorRegistry) -> dict[str, Any]:
    """What a certified risk depends on besides people and decisions, as values and fingerprints."""
    basis = {
        **settings.model_dump(mode="json", include=set(_VALUES)),
        "sharpen": settings.sharpen,
        "partitions": settings.kafka.partitions,
        **registry_basis(registry),
    }
    # What follows is left out at its default: deployments of earlier versions were begun without these
    # settings.
    looks_closer = settings.sharpen or settings.sampled_above is not None
    if looks_closer and settings.sharpen_operations != OPERATIONS:
        basis["sharpen_operations"] = settings.sharpen_operations
    if settings.draws > 1:
        basis[DRAWS] = settings.draws
    if registry.in_windows:  # accounted in every step, also before their windows end
        basis["windows"] = mechanisms_of_windows(registry)
    basis |= facts_if_set(settings)
    check = settings.priors_check
    if check is not None and check.is_too_low:  # ceilings hold for a radius around the priors
        basis |= {"priors_check.kappa_min": check.kappa_min, "priors_check.priors": check.priors}
    if settings.has_crowd:
        crowd = settings.crowd.facts()
        basis |= {"adversary": settings.adversary, **{f"crowd.{name}": crowd[name] for name in crowd}}
    return basis


def digest_of(basis: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits by which decisions and people name the deployment they belong to."""
    return _fingerprint(basis)[:_DIGEST_DIGITS]


class DeploymentTopic:
    """The topic ``deployment``: compared with by every process, and written by the first."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection = connection
        self._topic = topic

    def begin(self, basis: Mapping[str, Any]) -> None:
        """Begin the deployment with this basis; :class:`RunChangedError` if it was begun with another."""
        self._begin(_ACCOUNTS, basis)

    def begin_people(self, pseudonym_key: str) -> None:
        """As :meth:`begin`, for the fingerprint of the key that pseudonyms are made with."""
        self._begin(_PSEUDONYMS, {"pseudonym_key": pseudonym_key})

    def pseudonym_key(self) -> str | None:
        """The fingerprint of the key that pseudonyms are made with; None while nobody was loaded."""
        found = [read_record(each).basis for each in self._read(_PSEUDONYMS)]
        return str(found[0]["pseudonym_key"]) if found else None

    def begun(self) -> Mapping[str, Any] | None:
        """The basis that the deployment was begun with; None before that."""
        found = [read_record(each).basis for each in self._read(_ACCOUNTS)]
        for basis in found:  # one, except after a race
            check_same(found[0], basis)
        return found[0] if found else None

    def entries(self) -> tuple[Entry, ...]:
        """The record of rules: what held from which step on, its author and reason; its chain is checked."""
        return self._chain(_RECORD)

    def people(self) -> tuple[Entry, ...]:
        """The record of people: who came, left or has new priors, from which step on; a chain of its own.

        Loads of people write it, and the release worker the other one, so that each has one writer.
        """
        return self._chain(_PEOPLE)

    def _chain(self, prefix: bytes) -> tuple[Entry, ...]:
        found = {
            int(each.key.removeprefix(prefix)): each.value
            for each in self._read(prefix)
            if each.value is not None
        }
        return chained((found[number] for number in sorted(found)), self.record_name)

    @property
    def record_name(self) -> str:
        """The name of the record in messages."""
        return f"the record in topic {self._topic}"

    def hold(
        self, step: int, facts: Mapping[str, Any], author: Author, described: Description | None = None
    ) -> Mapping[str, Any]:
        """Write durably that ``facts`` hold from ``step`` on, unless they held before; the record's head.

        ``described`` goes with them, unless it is too large for a record. Called by the one process that
        decides, before it decides the step.
        """
        entries, now_seconds = self.entries(), time.time()
        about = {} if described is None else {DESCRIPTION: described.document()}
        entry = following(entries, step, facts, author, now_seconds, about)
        if entry is not None and len(entry.line()) > MEDIUM_BYTES - ENVELOPE_BYTES:
            logger.warning(
                "sensors and locations take more than a record of %s may have: they are not in it, and "
                "`tallyguard replay` needs the files that settings name",
                self._topic,
            )
            entry = following(entries, step, facts, author, now_seconds)
        if entry is None:
            return head_of(entries)
        return head_of(self._append(_RECORD, entries, entry))

    def note_people(self, step: int, author: Author, about: Mapping[str, Any]) -> None:
        """Write durably how the people from ``step`` on differ from those before (:meth:`people`)."""
        entries = self.people()
        self._append(_PEOPLE, entries, next_entry(entries, "changed", step, author, time.time(), about=about))

    def _append(self, prefix: bytes, entries: Sequence[Entry], entry: Entry) -> tuple[Entry, ...]:
        """Append to a chain; returns all of it as it is then."""
        with writing(self._connection) as producer:
            key = prefix + str(entry.number).encode()
            producer.send(self._topic, entry.line(), key=key, partition=0)
        if (now := self._chain(prefix))[: entry.number + 1] != (*entries, entry):
            raise LogError(
                f"{self.record_name} must be written by one process",
                "an entry of another",
                "stop the other one",
            )
        return now

    def _begin(self, key: bytes, basis: Mapping[str, Any]) -> None:
        """Write and compare again: of two processes that begin at once with different settings, one stops."""
        if self._check(key, basis):
            return
        with writing(self._connection) as producer:
            value = DeploymentRecord.of(basis).model_dump_json().encode()
            producer.send(self._topic, value, key=key, partition=0)
        self._check(key, basis)

    def _check(self, key: bytes, basis: Mapping[str, Any]) -> bool:
        found = [read_record(each).basis for each in self._read(key)]
        for begun in found:
            check_same(begun, DeploymentRecord.of(basis).basis)
        return bool(found)

    def _read(self, key: bytes) -> list[Any]:
        """The records whose key is this, or begins with it."""
        with consuming(self._connection) as consumer:
            return [each for each in records(consumer, self._topic) if (each.key or b"").startswith(key)]


def read_record(record: Any) -> DeploymentRecord:
    """Read a record of the topic; :class:`LogError` if another version or program has written it."""
    found = _KIND.read(record)
    if isinstance(found, RefusedRecord):
        raise LogError(
            f"{record.topic} must hold deployment records of this version",
            f"at {found.source}: {found.hint}",
            "run the version that wrote it",
        )
    return found


def check_same(
    begun: Mapping[str, Any], basis: Mapping[str, Any], grown: frozenset[str] = frozenset()
) -> None:
    """:class:`RunChangedError` naming everything that differs from what the deployment was begun with.

    What is ``grown`` since then is in the record.
    """
    changed = sorted(key for key in begun.keys() | basis.keys() if begun.get(key) != basis.get(key))
    changed = [key for key in changed if key not in grown]
    if changed:
        is_in_record = RECORDED.issuperset(changed)
        raise RunChangedError(
            f"every process must have the settings that {_IN_RECORD if is_in_record else _AT_START}",
            differences(changed, begun, basis),
            "set those in the record and start it again, or change them there with --accept-changes"
            if is_in_record
            else "restore the settings, files or keys named here; only a deployment that has published "
            "nothing may be begun again, with another kafka.prefix",
        )


_AT_START = "the deployment started with"
_IN_RECORD = "its record has by now: whoever decides on steps changes them there first"


def _fingerprint(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


# Sensors and places may be added, and sensors removed, while a deployment runs (`facts.py` says which changes
# are possible), and what is looked at more closely, a check of the priors, the crowd, the holidays to come
# and the list of windows may change.
# The worker that decides writes it to the record before it decides the first step with it. All other
# processes take sensors and places from there, and end with a sentence where their own settings are others: a
# decision carries the digest of what it was made with, so one with a digest that is not known makes its
# reader read the record again, and none is accounted with anything else.

GROWN = frozenset({"locations", "sensors"})
_ASKED = SHARPENED | {f"{CHECK}.kappa_min", f"{CHECK}.priors", "adversary"}
_ASKED |= {f"{_CROWD}{name}" for name in CrowdSettings.model_fields if name != "on"} | {DRAWS}
"""With what everything is accounted again: sharpening, a radius around the priors, the crowd, chains."""
LOOKED_AT = _ASKED | {HOLIDAYS}
RECORDED = LOOKED_AT | {WINDOWS}


class KnownFacts:
    """The sensors, places and settings of each step, as far as this process has read the record."""

    def __init__(self, basis: Mapping[str, Any], registry: SensorRegistry) -> None:
        """Before anything was read: what the settings of this process say."""
        self._own = registry
        self.take(basis, ())

    def take(self, begun: Mapping[str, Any], entries: Sequence[Entry]) -> None:
        """What the deployment was begun with, and what the record says since then."""
        known = held(entries)
        named = [(step, facts) for step, facts in known if NETWORK in facts]
        self.network = Network.load(named[-1][1][NETWORK]) if named else None
        self.registries = Registries(self._own, named)
        self.digest = digest_of(begun)
        self.held: Mapping[str, Any] = known[-1][1] if known else {}
        self.basis = _as_in(self.held, begun)
        """What it was begun with, looked at as now; without the sensors that came or went."""
        self._starts = [step for step, _ in known]
        self._digests = [digest_of(_as_in(facts, begun) | _network_basis(facts)) for _, facts in known]

    def digest_at(self, step: int) -> str:
        """By which a decision on this step says what it was made with."""
        number = bisect_right(self._starts, step) - 1
        return self._digests[number] if number >= 0 else self.digest

    def in_words(self, digest: str) -> str:
        """Since which step the record has the settings and sensors that a decision names."""
        if digest in self._digests:
            return f"those that the record has from step {self._starts[self._digests.index(digest)]:,} on"
        if digest == self.digest:
            return "those that the deployment was begun with"
        return "settings or sensors that its record does not have at any step"


def _as_in(facts: Mapping[str, Any], begun: Mapping[str, Any]) -> dict[str, Any]:
    """What a deployment was begun with, looked at as an entry of its record says."""
    looked_at = facts if "thresholds" in facts else begun
    return {key: value for key, value in begun.items() if key not in RECORDED} | {
        key: looked_at[key] for key in RECORDED & looked_at.keys()
    }


def _network_basis(facts: Mapping[str, Any]) -> dict[str, str]:
    """The part of a basis that grows, where these facts have it."""
    if NETWORK not in facts:
        return {}
    network = Network.load(facts[NETWORK])
    return registry_basis(SensorRegistry(network.places, network.present))


def registry_basis(registry: SensorRegistry) -> dict[str, str]:
    """Fingerprints of places and sensors."""
    return {
        "locations": _fingerprint(registry.location_names),
        "sensors": _fingerprint([registry.location_names, registry.accounted_facts()]),
    }


_WHERE = "on Kafka, where no worker reads the priors file"
_REMEDY = "write the location names one a line (`tallyguard persons load --locations-file` does it)"


@dataclass(frozen=True)
class Deployment:
    """One deployment as its workers see it; without priors and keys."""

    settings: Settings
    registry: SensorRegistry
    topics: Topics
    connection: Connection

    @classmethod
    def of(cls, settings: Settings, location_names: tuple[str, ...] | None = None) -> Deployment:
        """Read sensors and locations; :class:`SettingsError` if a file or a server is not named.

        A caller that has read the priors passes their locations.
        """
        connection = Connection.of(settings.kafka)
        names = location_names or read_names(settings, _WHERE, _REMEDY)
        registry = load_registry(settings.sensors, names)
        if registry.windowed:
            registry = with_windows(registry, policy_from(settings.release, registry))
        require_most_counts(registry, settings.connect.scaled)
        bounded_days(settings, registry)
        require_strangers(registry, settings.crowd)
        return cls(settings, registry, Topics.of(settings), connection)

    @classmethod
    def recorded(cls, settings: Settings) -> Deployment:
        """As the record describes it, for a reader whose settings name the broker and no locations.

        What the settings name themselves counts more: a reader that compares bases refuses what differs.
        :class:`SettingsError` as :meth:`of` says where neither the settings nor the record name locations.
        """
        if settings.locations is not None:
            return cls.of(settings)
        connection = Connection.of(settings.kafka)
        entries = DeploymentTopic(connection, Topics(settings.kafka.prefix).deployment).entries()
        description, facts = description_of(entries), last_facts(entries)
        if description is None or facts is None:
            return cls.of(settings)
        settings = _with_recorded(settings, {**description.plain_settings(), **facts})
        registry = description.registry()
        if settings.sensors is not None:
            check_sensors(description, load_registry(settings.sensors, description.locations))
        topics = replace(Topics.of(settings), regions=registry.regions)
        return cls(settings, registry, topics, connection)

    @cached_property
    def description(self) -> Description:
        """What the record says of sensors, locations and settings."""
        network = self.facts.network
        return Description.of(
            self.settings, self.vocabulary if network is None else network.arranged(self.vocabulary)
        )

    @cached_property
    def facts(self) -> KnownFacts:
        """The sensors and places of each step."""
        return KnownFacts(self.basis, self.vocabulary)

    @property
    def location_names(self) -> tuple[str, ...]:
        """The ``M`` locations: those in the record, if it names them."""
        network = self.facts.network
        return self.registry.location_names if network is None else network.places

    @property
    def removed(self) -> frozenset[str]:
        """The sensors that the deployment no longer has."""
        network = self.facts.network
        return frozenset() if network is None else network.removed

    def horizon(self) -> HorizonSettings:
        """The horizon that risks are computed for."""
        return self.settings.horizon_settings(self.settings.first_slot)

    @cached_property
    def vocabulary(self) -> SensorRegistry:
        """Everything that decisions and schedules may name: sensors, and the deployment's noise design."""
        return self.registry.with_designs(designs_of(self.settings.release))

    @cached_property
    def exclusions(self) -> Exclusions:
        """Which sensors are not active in which steps."""
        return load_exclusions(self.settings, self.registry)

    @cached_property
    def basis(self) -> dict[str, Any]:
        """The settings that every process accounts with, as values and fingerprints; no secret."""
        return accounts_basis(self.settings, self.registry)

    @property
    def digest(self) -> str:
        """The digest of what the deployment was begun with, which people carry."""
        return self.facts.digest

    @property
    def looks_otherwise(self) -> bool:
        """Whether what everything is accounted again with, or the holidays, are not those of the record."""
        return any(self.basis.get(key) != self.facts.basis.get(key) for key in LOOKED_AT)

    def has_renewed_in_crowd(self) -> bool:
        """Whether people got new priors where ceilings in a crowd are computed."""
        return self.settings.has_crowd and any(
            each.about["people"]["renewed"] for each in self.record.people()
        )

    @property
    def chains_there(self) -> int:
        """How many chains for each person are on the topic, by the last load of people that said so."""
        said = [each.about[CHAINS] for each in self.record.people() if CHAINS in each.about]
        return int(said[-1] if said else self.facts.basis.get(DRAWS, 1))

    def require_chains(self) -> None:
        """:class:`RunChangedError` for more chains than people's records have: nobody could be accounted."""
        if (there := self.chains_there) < self.settings.draws:
            raise RunChangedError(
                "the records of all people must have as many chains as evidence and posterior_draws say",
                f"{there} of {self.settings.draws}",
                "load everybody with these settings first (`tallyguard persons load`)",
            )

    def join(self, *, is_deciding: bool = False, is_loading: bool = False) -> bool:
        """Take what the deployment was begun with, and has grown to; whether it has begun.

        :class:`RunChangedError` if it was begun with other settings, or is at other places. Whoever decides
        on steps may have changed what is looked at, and writes it next; whoever loads people brings the
        chains for that.
        """
        begun = self.read_record()
        if begun is None:
            return False
        network = self.facts.network
        apart = frozenset[str]() if network is None else GROWN
        own = {**self.basis, NETWORK: Network.of(self.registry).save()}
        if network is not None and keeps_windows(own, self.facts.held):
            apart |= {WINDOWS}
        if is_deciding:
            apart |= RECORDED
        if is_loading and self.settings.draws >= self.facts.basis.get(DRAWS, 1):
            apart |= {DRAWS}
        check_same(self.facts.basis, self.basis, apart)
        if network is not None:  # the files here may be older, or newer, but not of another deployment
            unknown = [each for each in network.present if each.window and each.name not in self.registry]
            if unknown and not is_deciding:  # who decides may remove one
                raise RunChangedError(
                    "a process must know from its start which sensors count over windows or moves",
                    f"{unknown[0].name!r} in the record only",
                    "start it again with the sensors file of the worker that decides",
                )
            names = self.registry.location_names
            is_older = names == network.places[: len(names)]
            network.grown_to(
                replace(self.registry, location_names=network.places) if is_older else self.registry
            )
        return True

    def read_record(self) -> Mapping[str, Any] | None:
        """The same without looking at the settings; the basis it was begun with, None if it was not."""
        begun = self.record.begun()
        if begun is not None:
            self.facts.take(begun, self.record.entries())
        return begun

    async def wait(self) -> None:
        """Return once the deployment was begun with these settings; for processes that may not begin one."""
        if await asyncio.to_thread(self.join):
            return
        logger.info("waiting for the deployment to begin: `persons load` or the release worker does it")
        while not await asyncio.to_thread(self.join):
            await asyncio.sleep(_WAIT_SECONDS)

    def is_made_with(self, digest: str, step: int) -> bool:
        """Whether what carries a digest was made with the sensors that the step has; reads the record again.

        :class:`RunChangedError` where places were added since this process began, whose accounts name them.
        """
        if digest == self.facts.digest_at(step):
            return True
        places = self.location_names
        self.join()
        if self.location_names != places:
            raise RunChangedError(
                "a process must know all places of the deployment from its start",
                f"{len(self.location_names)} places in the record from step {step} on, not {len(places)}",
                "start it again: it takes them from the record",
            )
        return digest == self.facts.digest_at(step)

    def grown(self, *, accept_changes: bool) -> Network:
        """Sensors and places from the next step on; :class:`RunChangedError` for a change not accepted."""
        known = self.facts.network
        self.exclusions.require_known(() if known is None else (each.name for each in known.sensors))
        if known is None:
            return Network.of(self.registry)
        regions = SensorRegistry(known.places, known.sensors).regions
        if self.topics.regions != regions:
            raise RunChangedError(
                "the regions of a deployment must stay: each has the partition of its place among them",
                ", ".join(self.topics.regions) or "none",
                f"leave at least one sensor in each of {', '.join(regions)}, and put new ones into these",
            )
        network = known.grown_to(self.registry)
        words = [each.words for each in known.changes_to(network)]
        if words and not accept_changes:
            raise RunChangedError(
                "the release log must be continued with the sensors and places it has",
                "; ".join(words),
                keeping([NETWORK], {NETWORK}),
            )
        return network

    def require_recorded(self) -> None:
        """:class:`RunChangedError` for a sensor that whoever decides on steps does not know of yet."""
        known = self.facts.network
        names = {each.name for each in (self.registry if known is None else known).sensors}
        self.exclusions.require_known(names)
        new = [each.name for each in self.registry.sensors if each.name not in names]
        if new:
            raise RunChangedError(
                "the coordinator must know of a sensor before its counts are taken in",
                f"{len(new)} that are not in the record, such as {new[0]!r}",
                "start the coordinator with this sensors file and --accept-changes, then this worker",
            )

    def facts_of(self, network: Network) -> dict[str, Any]:
        """The network among the facts of the record; nothing where it would not fit, and is the first.

        :class:`SettingsError` where a network that is in the record has grown beyond that.
        """
        saved = network.save()
        size = len(json.dumps(saved))
        if size <= MEDIUM_BYTES // 2:
            return {NETWORK: saved}
        if self.facts.network is None:
            logger.info("sensors and places are too many for the record (%d bytes), so they stay", size)
            return {}
        raise SettingsError(
            f"sensors and places must fit in {MEDIUM_BYTES // 2} bytes of a record of "
            f"{self.topics.deployment}",
            size,
            "shorten the names of sensors and places, or add fewer",
        )

    @property
    def record(self) -> DeploymentTopic:
        """The topic that says what the deployment was begun with."""
        return DeploymentTopic(self.connection, self.topics.deployment)

    def intake(self, window: StepWindow, registry: SensorRegistry | None = None) -> Intake:
        """What takes messages in, for these sensors (None: all) without those that were removed."""
        window.drop(self.removed)
        return Intake(registry or self.registry, window, self.settings.max_ahead, self.exclusions)

    def schedule_of(self, decision: StepDecision) -> StepSchedule:
        """The schedule of a logged decision; :class:`LogError` if it was made for another deployment."""
        self.check_made_with(decision)
        return schedule_of(decision, self.facts.registries.at(decision.step))

    def check_made_with(self, decision: StepDecision) -> None:
        """:class:`LogError` for a decision of another deployment, or made with what is in no record."""
        step, digest = decision.step, decision.deployment
        if digest is not None and not self.is_made_with(digest, step):  # None: before decisions carried it
            held = self.facts.in_words(self.facts.digest_at(step))
            raise LogError(
                f"step {step} of {self.topics.decisions} must belong to deployment "
                f"{self.settings.deployment!r}, decided with {held}",
                self.facts.in_words(digest),
                "two deployments write to one log, or it was restored together with another one's: "
                "stop the other, restore what belongs together",
            )

    def decided(self, decision: StepDecision) -> Decided:
        """The step of a logged decision; as :meth:`schedule_of`."""
        self.check_made_with(decision)
        registry = self.facts.registries.at(decision.step)
        return Decided.logged(decision, registry, has_crowd=self.settings.has_crowd)

    def release_basis(self, noise_key: str | None, schedule: str | None) -> dict[str, Any]:
        """The basis of the release log: also policy, and fingerprints of noise key and schedule file."""
        release = self.settings.release.model_dump(mode="json")
        excluded = {EXCLUSIONS: self.exclusions.facts()} if self.exclusions.rows else {}
        return {**self.basis, "release": release, "noise_key": noise_key, "schedule": schedule, **excluded}

    def check_continued(
        self,
        stored: Mapping[str, Any],
        wanted: Mapping[str, Any],
        next_step: int,
        first_free: int,
        *,
        accept_changes: bool,
    ) -> dict[str, Any]:
        """Refuse to continue a log with another basis; returns the stored one without ids and head.

        ``first_free`` is the first step that nothing is known of, from which on exclusions may change.
        """
        apart = {INPUTS, RECORD_HEAD, *(GROWN if self.facts.network is not None else ())}
        kept = {key: value for key, value in stored.items() if key not in apart}
        kept = _as_in(self.facts.held, kept)  # the record is written before the position
        known = {} if self.facts.network is None else {NETWORK: self.facts.network.save()}
        given = {NETWORK: Network.of(self.registry).save()}
        is_kept = keeps_windows({**kept, **known}, {**wanted, **given})
        windows = wanted if is_kept else {WINDOWS: None, **kept}
        if kept:
            kept = {key: value for key, value in kept.items() if key != WINDOWS}
            kept |= {key: windows[key] for key in {WINDOWS} & windows.keys()}
        check_basis(kept, wanted, accept_changes=accept_changes)
        if kept:
            check_holidays(kept, wanted, max(next_step, first_free))
            check_new_windows(known, given, max(next_step, first_free))
            check_change(kept.get(EXCLUSIONS), wanted.get(EXCLUSIONS), max(next_step, first_free))
        if kept.get("noise_key", wanted["noise_key"]) != wanted["noise_key"]:
            check_between_windows(self.settings.release.covariance, next_step)
        return kept


def _with_recorded(settings: Settings, facts: Mapping[str, Any]) -> Settings:
    """The settings with what the record says, wherever nobody said anything else."""
    known = Settings.model_fields.keys() - _NO_VALUES
    found: dict[str, Any] = {name: facts[name] for name in facts if name in known}
    found = {name: FORMS[name](value) if name in FORMS else value for name, value in found.items()}
    crowd = {name.removeprefix(_CROWD): value for name, value in facts.items() if name.startswith(_CROWD)}
    if crowd:
        found["crowd"] = CrowdSettings.model_validate({**crowd, "on": True})
    if "quality" in found:  # whose table of exclusions need not be here
        found["quality"] = QualitySettings.model_validate({**found["quality"], "exclusions": None})
    if "release" in facts:  # tiers are recorded as they are
        covariance = facts["release"].get("covariance")
        is_there = covariance is not None and Path(covariance).is_file()
        own = {"recipients": None, "covariance": covariance if is_there else None}
        found["release"] = ReleaseSettings.model_validate({**facts["release"], **own})
    if "partitions" in facts and "partitions" not in settings.kafka.model_fields_set:
        found["kafka"] = settings.kafka.model_copy(update={"partitions": facts["partitions"]})
    said = settings.model_fields_set - {"kafka"}
    return settings.model_copy(update={name: value for name, value in found.items() if name not in said})


def check_basis(stored: Mapping[str, Any], wanted: Mapping[str, Any], *, accept_changes: bool) -> None:
    """Refuse to continue a log with other settings than it was begun with, as far as they were stored."""
    acceptable = DECIDED | _ASKED
    replaceable = (acceptable if accept_changes else frozenset[str]()) | {EXCLUSIONS, HOLIDAYS}
    keys = stored.keys() | (wanted.keys() & _ASKED if stored else set())  # a default is left out
    changed = [key for key in sorted(keys - replaceable) if stored.get(key) != wanted.get(key)]
    if not any(key.startswith(CHECK) for key in weakened(stored, wanted)):  # ceilings only rise
        changed = [key for key in changed if not key.startswith(CHECK)]
    if changed:
        raise RunChangedError(
            "the release log must be continued with the settings it was started with",
            differences(changed, stored, wanted),
            keeping(changed, acceptable, FIXED),
        )


@contextmanager
def administration(connection: Connection) -> Iterator[Any]:
    """kafka-python's admin client while the block runs; :class:`BrokerError` if the broker refuses."""
    from kafka import KafkaAdminClient

    class Admin(KafkaAdminClient):  # type: ignore[misc]
        """kafka-python 3.0.12 leaves its thread running if no broker answers the constructor."""

        def __init__(self, **arguments: Any) -> None:
            try:
                super().__init__(**arguments)
            except Exception:
                if is_patched() and hasattr(self, "_net"):
                    self._closed = False
                    self.close()
                raise

    with broker_errors(connection):
        admin = connected(Admin, connection)
        try:
            yield admin
        finally:
            admin.close()


def check_topics_of(deployment: Deployment) -> None:
    """:class:`TopicError` with everything that is wrong with the broker's topics."""
    with administration(deployment.connection) as admin:
        require_topics(admin, deployment.topics)


# A client sends everything for the partitions that one broker leads in one request: a step of all sensors for
# every log at the same time, or a question about a step for each partition of people.

REQUEST_LIMIT = "socket.request.max.bytes"


def require_requests(deployment: Deployment) -> None:
    """:class:`BrokerError` where a broker hangs up on the largest request, instead of taking it.

    Who may not see a broker's settings is warned, and goes on.
    """
    topics, sensors = deployment.topics, len(deployment.registry.sensors)
    most = largest_request_bytes(deployment.registry, topics, deployment.settings)
    with administration(deployment.connection) as admin:
        limits = request_limits(admin)
    if limits is None:
        logger.warning(
            "%s of the brokers cannot be read; a step may need %d: allow DescribeConfigs on the cluster "
            "(`tallyguard topics access`)",
            *(REQUEST_LIMIT, most),
        )
    for broker, limit in sorted((limits or {}).items()):
        if limit < most:
            raise BrokerError(
                f"broker {broker} must accept requests of {most} bytes ({REQUEST_LIMIT}): records about all "
                f"{sensors} sensors go to several logs, or {topics.partitions} partitions, at once",
                f"at most {limit}",
                "raise it in the properties of every broker, shorten the names of sensors, "
                "or let fewer of them count",
            )


def request_limits(admin: Any) -> dict[str, int] | None:
    """The longest request that each broker accepts; None if we may not ask."""
    from kafka.admin import ConfigResource, ConfigResourceType
    from kafka.errors import ClusterAuthorizationFailedError

    listed = admin.describe_cluster()["brokers"]
    brokers = [
        str(broker["broker_id"]) for broker in listed if not broker.get("is_fenced")
    ]  # others are away
    wanted = [ConfigResource(ConfigResourceType.BROKER, broker, {REQUEST_LIMIT: None}) for broker in brokers]
    try:
        described = admin.describe_configs(wanted, config_filter="all")
    except ClusterAuthorizationFailedError:
        return None
    found = {broker: values for each in described.values() for broker, values in each.items()}
    return {
        broker: int(values[REQUEST_LIMIT]["value"])
        for broker, values in found.items()
        if REQUEST_LIMIT in values
    }
