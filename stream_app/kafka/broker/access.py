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
    transactional_id: str | None = None


class AccessRule(NamedTuple):
    """One permission. ``resource`` is ``topic``, ``group``, ``transactional-id`` or the one ``cluster``."""

    role: str
    resource: str
    name: str
    operation: str


def roles(topics: Topics) -> tuple[Role, ...]:
    """Every role of a deployment; whoever is not named may do nothing."""
    prefix = topics.prefix
    tiers = tuple(topics.tier(tier) for tier in topics.tiers)
    public = (topics.releases, topics.revised) if topics.has_revised else (topics.releases,)
    inputs = (topics.activations, topics.readings)
    people = (topics.deployment, topics.persons)
    return (
        Role(
            "release",
            "the release worker",
            (
                *(*inputs, topics.deployment, topics.steps, topics.progress, topics.decisions),
                topics.answers,
            ),
            (
                *(*public, *tiers, topics.decisions),
                *(topics.deployment, topics.progress, topics.rejected, topics.proposals),
            ),
            f"{prefix}tallyguard-release",
            f"{prefix}release",
        ),
        Role(
            "account",
            "the account workers",
            (
                *(topics.deployment, topics.steps, topics.persons, topics.decisions, topics.proposals),
                *(topics.accounts, topics.risks),  # the latter to see how far they were told
            ),
            (topics.risks, topics.rejected, topics.answers, topics.accounts),
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
        if role.transactional_id is not None:
            yield AccessRule(role.name, "transactional-id", role.transactional_id, "Write")
            yield AccessRule(role.name, "transactional-id", role.transactional_id, "Describe")
            yield AccessRule(role.name, "cluster", "", "DescribeConfigs")  # how long a request may be


def commands(topics: Topics, server: str) -> Iterator[str]:
    """The rules as calls of Kafka's own tool; users are called like the roles."""
    for rule in access_rules(topics):
        yield (
            f"kafka-acls.sh --bootstrap-server {server} --command-config admin.properties --add "
            f"--allow-principal User:{rule.role} --operation {rule.operation} --{rule.resource} {rule.name}"
        ).rstrip()
