"""Who may read and write what on the broker: the table that access rules and documentation are made from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stream_app.kafka.broker.topics import Topics


class Role(NamedTuple):
    """One kind of client: the topics it reads and writes, its group and its transactions."""

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
    """Every role of a deployment; whoever is not named may do nothing."""
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
                *(topics.deployment, topics.steps, topics.persons, topics.decisions, topics.proposals),
                *(topics.accounts, topics.risks),  # the latter to see how far they were written
            ),
            (
                *(topics.risks, topics.rejected, topics.answers, topics.accounts),
                topics.persons,  # marks, by which the deleted leave the disk also where nothing is written
            ),
            f"{prefix}tallyguard-account",
        ),
        Role("producer", "whatever sends activations and readings", (), inputs),
        Role("loader", "`tallyguard persons load`", people, people),
        Role(
            "officer",
            "privacy officer and dashboards: tail, replay",
            (*public, topics.decisions, topics.risks, *people),
        ),
        Role("operator", "dead letters", (topics.rejected,), inputs),
        Role("public", "everybody who uses the counts", public),
    )


def _release_role(topics: Topics, public: tuple[str, ...]) -> Iterator[Role]:
    """Who takes in counts, decides and publishes: one worker."""
    tiers = tuple(topics.tier(tier) for tier in topics.tiers)
    yield Role(
        "release",
        "the release worker",
        (
            *(topics.activations, topics.readings, topics.deployment, topics.steps),
            *(topics.progress, topics.decisions, topics.answers),
        ),
        (
            *(*public, *tiers, topics.decisions),
            *(topics.deployment, topics.progress, topics.rejected, topics.proposals),
        ),
        f"{topics.prefix}tallyguard-release",
        (f"{topics.prefix}release",),
    )


def _region_roles(topics: Topics, public: tuple[str, ...]) -> Iterator[Role]:
    """Who takes in counts and publishes them by region, and who decides, and sees no count."""
    tiers = tuple(topics.tier(tier) for tier in topics.tiers)
    published = tuple(topic for topic in public if topic != topics.whole)
    yield Role(
        "intake",
        "the intake workers",
        (
            *(topics.activations, topics.readings, topics.deployment, topics.regions_shared),
            *(topics.progress, topics.decisions, topics.releases),  # the latter to see how far it goes
        ),
        (*published, *tiers, topics.sealed, topics.progress, topics.rejected),
        f"{topics.prefix}tallyguard-intake",
        tuple(f"{topics.prefix}intake-{region}" for region in topics.regions),
    )
    yield Role(
        "coordinator",
        "the coordinator of regions",
        (
            *(topics.sealed, topics.deployment, topics.steps, topics.coordination, topics.decisions),
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
    """Every permission, role by role. Everybody but the public may see how the topics are shaped."""
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
    """The rules as calls of Kafka's own tool; users are called like the roles."""
    for rule in access_rules(topics):
        yield (
            f"kafka-acls.sh --bootstrap-server {server} --command-config admin.properties --add "
            f"--allow-principal User:{rule.role} --operation {rule.operation} --{rule.resource} {rule.name}"
        ).rstrip()
