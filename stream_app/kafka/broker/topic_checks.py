"""Who may use which topic; creating topics that are missing; comparing topics with what they must be."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from models.text import number_of
from stream_app.kafka.broker.clients import TopicError
from stream_app.kafka.broker.topics import MEDIUM_BYTES, TopicPlan, Topics


class Role(NamedTuple):
    """One kind of client: the topics it reads and writes, its consumer group, its transactional ids."""

    name: str
    purpose: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    group: str | None = None
    transactional_ids: tuple[str, ...] = ()


class AccessRule(NamedTuple):
    """One permission. ``resource`` is ``topic``, ``group``, ``transactional-id`` or the one ``cluster``."""

    role: str
    resource: str
    name: str
    operation: str


def roles(topics: Topics) -> tuple[Role, ...]:
    """Every role of a deployment; a client without a role may do nothing."""
    prefix = topics.prefix
    public = (
        topics.releases,
        *((topics.revised,) if topics.has_revised else ()),
        *((topics.whole,) if topics.regions else ()),
    )
    inputs = (topics.activations, topics.readings)
    people = (topics.deployment, topics.persons)
    return (
        *(_region_roles if topics.regions else _release_role)(topics, public),
        Role(
            "account",
            "the account workers",
            (
                *(topics.deployment, topics.persons, topics.decisions, topics.proposals),
                *(topics.accounts, topics.risks),  # the latter to see how far they were written
            ),
            (
                *(topics.risks, topics.rejected, topics.answers, topics.accounts),
                topics.persons,  # marks, by which the deleted leave the disk also where nothing is written
            ),
            f"{prefix}tallyguard-account",
        ),
        Role("producer", "whatever sends activations and readings", (), inputs),
        Role(
            "loader",
            "`tallyguard persons load`",
            (*people, topics.decisions, topics.risks),  # the latter two to see how far steps came
            people,
        ),
        Role(
            "officer",
            "privacy officer and dashboards: tail, replay",
            (*public, topics.decisions, topics.risks, *people),
        ),
        Role(
            "archive",
            "`tallyguard fetch`: a copy for reports, with what each tier receives and dead letters",
            (
                *(*public, *topics.of_tiers, topics.decisions, topics.risks, *people),
                *(topics.rejected, *_suspicions(topics)),
            ),
        ),
        Role(
            "operator", "dead letters and suspected devices", (topics.rejected, *_suspicions(topics)), inputs
        ),
        Role("public", "everybody who uses the counts", public),
    )


def _suspicions(topics: Topics) -> tuple[str, ...]:
    """Where devices are named that seem broken, if any are watched."""
    return (topics.quality,) if topics.watches_devices else ()


def _release_role(topics: Topics, public: tuple[str, ...]) -> Iterator[Role]:
    """The one worker that takes in counts, decides and publishes."""
    yield Role(
        "release",
        "the release worker",
        (
            *(topics.activations, topics.readings, topics.deployment),
            *(topics.progress, topics.decisions, topics.answers),
        ),
        (
            *(*public, *topics.of_tiers, *_suspicions(topics), topics.decisions),
            *(topics.deployment, topics.progress, topics.rejected, topics.proposals),
        ),
        f"{topics.prefix}tallyguard-release",
        (f"{topics.prefix}release",),
    )


def _region_roles(topics: Topics, public: tuple[str, ...]) -> Iterator[Role]:
    """The workers that take in and publish the counts of regions, and the one that decides without counts."""
    published = tuple(topic for topic in public if topic != topics.whole)
    yield Role(
        "intake",
        "the intake workers",
        (
            *(topics.activations, topics.readings, topics.deployment),
            *(topics.progress, topics.decisions, topics.releases),  # the latter to see how far it goes
        ),
        (*published, *topics.of_tiers, *_suspicions(topics), topics.sealed, topics.progress, topics.rejected),
        f"{topics.prefix}tallyguard-intake",
        tuple(f"{topics.prefix}intake-{region}" for region in topics.regions),
    )
    yield Role(
        "coordinator",
        "the coordinator of regions",
        (
            *(topics.sealed, topics.deployment, topics.coordination, topics.decisions),
            topics.answers,
        ),
        (
            *(topics.decisions, topics.whole, topics.coordination, topics.deployment),
            topics.proposals,
        ),
        f"{topics.prefix}tallyguard-coordinator",
        (f"{topics.prefix}coordinator",),
    )


def access_rules(topics: Topics) -> Iterator[AccessRule]:
    """Every permission, role by role. All but the public may read the configuration of topics."""
    for role in roles(topics):
        yield from (AccessRule(role.name, "topic", name, "Read") for name in role.reads)
        yield from (AccessRule(role.name, "topic", name, "Write") for name in role.writes)
        if role.name != "public":
            for plan in topics.plans():
                yield AccessRule(role.name, "topic", plan.name, "Describe")
                yield AccessRule(role.name, "topic", plan.name, "DescribeConfigs")
        if role.group is not None:
            yield AccessRule(role.name, "group", role.group, "Read")
            yield AccessRule(role.name, "group", role.group, "Describe")
        for name in role.transactional_ids:
            yield AccessRule(role.name, "transactional-id", name, "Write")
            yield AccessRule(role.name, "transactional-id", name, "Describe")
        if role.transactional_ids:
            yield AccessRule(role.name, "cluster", "", "DescribeConfigs")  # how long a request may be


def commands(topics: Topics, server: str) -> Iterator[str]:
    """The rules as calls of Kafka's own tool; each user has the name of its role."""
    for rule in access_rules(topics):
        yield (
            f"kafka-acls.sh --bootstrap-server {server} --command-config admin.properties --add "
            f"--allow-principal User:{rule.role} --operation {rule.operation} --{rule.resource} {rule.name}"
        ).rstrip()


# Brokers list to a user only what its rights cover: a missing right looks like a missing topic.
_NOT_SEEN = "no such topic that this user may see"
_MAKE_OR_GRANT = "run `tallyguard topics create`, or give the user its rights (`tallyguard topics access`)"
_SECONDS_TO_APPEAR = 5.0


@dataclass(frozen=True)
class Difference:
    """One thing that is not as it must be, and the remedy."""

    topic: str
    must: str
    got: str
    remedy: str

    def sentence(self) -> str:
        """The difference in words."""
        return f"{self.topic} must {self.must}, got {self.got}; {self.remedy}"


def create_topics(admin: Any, topics: Topics) -> tuple[str, ...]:
    """Create the topics that are missing; the names of those created. Existing topics stay as they are."""
    existing = set(admin.list_topics())
    missing = [plan for plan in topics.plans() if plan.name not in existing]
    if missing:
        admin.create_topics(
            {
                plan.name: {
                    "num_partitions": plan.partitions,
                    "replication_factor": plan.replication,
                    "configs": dict(plan.configuration),
                }
                for plan in missing
            }
        )
    return tuple(plan.name for plan in missing)


def check_topics(admin: Any, topics: Topics) -> list[Difference]:
    """All differences between the broker's topics and what the deployment needs."""
    existing = set(admin.list_topics())
    differences = []
    for plan in topics.plans():
        if plan.name in existing:
            differences += _compare(admin, plan, is_of_people=plan.name in topics.of_people)
        else:
            differences.append(Difference(plan.name, "exist", _NOT_SEEN, _MAKE_OR_GRANT))
    return differences


def require_topics(admin: Any, topics: Topics) -> None:
    """:class:`TopicError` with every difference that keeps workers from running soundly.

    New topics and rights reach brokers a moment after the controller has written them: what is not seen is
    looked for during a few seconds before it counts as missing.
    """
    deadline = time.monotonic() + _SECONDS_TO_APPEAR
    while differences := check_topics(admin, topics):
        is_seen = all(difference.got != _NOT_SEEN for difference in differences)
        if is_seen or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    if differences:
        raise TopicError(
            "the broker's topics must be those of the settings",
            "; ".join(difference.sentence() for difference in differences),
            "see `tallyguard topics check`",
        )


def _compare(admin: Any, plan: TopicPlan, *, is_of_people: bool) -> list[Difference]:
    """Partitions, copies and configuration of one topic that exists."""
    found = admin.describe_topics([plan.name])[0]["partitions"]
    differences = []
    if len(found) != plan.partitions:
        remedy = "set kafka.partitions to that number"
        if not is_of_people:
            remedy = "delete it and run `tallyguard topics create`, or set another kafka.prefix"
        differences.append(
            Difference(
                plan.name,
                f"have {number_of(plan.partitions, 'partition')}",
                str(len(found)),
                f"{remedy}: a topic that is created again loses its records",
            )
        )
    copies = min(len(partition["replica_nodes"]) for partition in found)
    if copies < plan.replication:
        differences.append(
            Difference(
                plan.name,
                f"have {plan.replication} copies of each partition",
                str(copies),
                "reassign its partitions, or lower kafka.replication",
            )
        )
    return differences + _compare_configuration(admin, plan)


def _compare_configuration(admin: Any, plan: TopicPlan) -> list[Difference]:
    """Settings of a topic that have another value than planned."""
    found = configuration_of(admin, plan.name)
    alter = f"kafka-configs.sh --alter --topic {plan.name} --add-config"
    differences = []
    # Without a planned record size the brokers' own applies (message.max.bytes), which must be large enough.
    size = "max.message.bytes"
    if size not in plan.configuration and int(found.get(size) or MEDIUM_BYTES) < MEDIUM_BYTES:
        least = f"{size}={MEDIUM_BYTES}"
        differences.append(Difference(plan.name, f"have at least {least}", found[size], f"{alter} {least}"))
    for key, wanted in plan.configuration.items():
        if found.get(key) != wanted:
            must, got = f"have {key}={wanted}", found.get(key, "nothing")
            differences.append(Difference(plan.name, must, got, f"{alter} {key}={wanted}"))
    return differences


def configuration_of(admin: Any, topic: str) -> dict[str, str]:
    """The values that hold for a topic, wherever they were set."""
    from kafka.admin import ConfigResource, ConfigResourceType

    described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
    found: dict[str, str] = {}
    for resources in described.values():
        for key, entry in resources.get(topic, {}).items():
            found[key] = str(entry["value"] if isinstance(entry, Mapping) else entry)
    return found
