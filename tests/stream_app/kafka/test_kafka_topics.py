"""How the topics must be shaped: nothing acknowledged is lost, and what is erased is gone in time."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from stream_app.kafka.broker import topic_checks
from stream_app.kafka.broker.clients import TopicError
from stream_app.kafka.broker.topic_checks import check_topics, require_topics
from stream_app.kafka.broker.topics import DAY_MILLISECONDS, FOREVER, Topics


@pytest.mark.parametrize(("copies", "acknowledged"), [(1, "1"), (2, "1"), (3, "2"), (5, "2")])
def test_what_is_acknowledged_survives_the_loss_of_one_of_three_brokers(
    copies: int, acknowledged: str
) -> None:
    for plan in Topics(replication=copies, tiers=("city",)).plans():
        assert plan.configuration["min.insync.replicas"] == acknowledged, plan.name
        assert plan.configuration["unclean.leader.election.enable"] == "false", plan.name


def test_a_deleted_person_is_removed_however_little_is_written() -> None:
    topics = Topics()
    for name in (topics.persons, topics.progress):
        configuration = topics.plan(name).configuration
        assert configuration["cleanup.policy"] == "compact"
        for key in ("max.compaction.lag.ms", "delete.retention.ms", "segment.ms"):
            assert int(configuration[key]) <= DAY_MILLISECONDS, (name, key)


def test_nobody_stays_in_snapshots_for_long_whether_workers_run_or_not() -> None:
    """A newer snapshot deletes the older one; where nobody writes one, the retention does."""
    configuration = Topics().plan("accounts").configuration
    assert configuration["cleanup.policy"] == "compact,delete"
    assert int(configuration["retention.ms"]) == 7 * DAY_MILLISECONDS
    for key in ("max.compaction.lag.ms", "delete.retention.ms", "segment.ms"):
        assert int(configuration[key]) <= DAY_MILLISECONDS, key


def test_no_record_outlives_its_retention_by_more_than_a_quarter_of_it() -> None:
    """A record goes with its segment, and a segment is as old as its youngest record."""
    for plan in Topics(tiers=("city",)).plans():
        kept = plan.configuration.get("retention.ms", FOREVER)
        if kept != FOREVER:
            assert int(plan.configuration["segment.ms"]) <= int(kept) // 4, plan.name


class Admin:
    """A broker's topics as planned, but for some settings and ``more`` partitions."""

    def __init__(self, topics: Topics, changed: Mapping[str, Mapping[str, str]], more: int = 0) -> None:
        self._topics = topics
        self._changed = changed
        self._more = more

    def list_topics(self) -> list[str]:
        return [plan.name for plan in self._topics.plans()]

    def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        plan = self._topics.plan(names[0])
        copies = {"replica_nodes": list(range(plan.replication))}
        return [{"partitions": [copies] * (plan.partitions + self._more)}]

    def describe_configs(self, resources: list[SimpleNamespace], **_: object) -> dict[str, Any]:
        name = resources[0].name
        values = {**self._topics.plan(name).configuration, **self._changed.get(name, {})}
        return {"topic": {name: {key: {"value": value} for key, value in values.items()}}}


def test_each_setting_that_differs_is_named_with_the_command_that_mends_it() -> None:
    topics = Topics("x.", replication=3)
    changed = {
        topics.persons: {"max.compaction.lag.ms": "9223372036854775807"},
        topics.releases: {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
    }
    sentences = [found.sentence() for found in check_topics(Admin(topics, changed), topics)]
    assert sentences == [
        "x.releases must have min.insync.replicas=2, got 1; "
        "kafka-configs.sh --alter --topic x.releases --add-config min.insync.replicas=2",
        "x.releases must have unclean.leader.election.enable=false, got true; "
        "kafka-configs.sh --alter --topic x.releases --add-config unclean.leader.election.enable=false",
        "x.persons must have max.compaction.lag.ms=86400000, got 9223372036854775807; "
        "kafka-configs.sh --alter --topic x.persons --add-config max.compaction.lag.ms=86400000",
    ]


def test_another_number_of_partitions_is_mended_where_it_is_set() -> None:
    """Only the topics of people have as many as kafka.partitions; a broker may have made the others."""
    topics = Topics("x.", partitions=7)
    found = {each.topic: each.sentence() for each in check_topics(Admin(topics, {}, more=2), topics)}
    assert set(found) == {plan.name for plan in topics.plans()}
    assert {name for name, said in found.items() if "set kafka.partitions to that number" in said} == {
        plan.name for plan in topics.plans() if plan.partitions == 7
    }
    assert found["x.readings"].startswith("x.readings must have 1 partition, got 3; delete it and run")


@pytest.mark.parametrize(("taken", "is_enough"), [("1048588", True), ("1048576", True), ("100000", False)])
def test_brokers_that_take_less_than_a_record_are_named_by_the_topics_they_shape(
    taken: str, is_enough: bool
) -> None:
    """Where no size is planned for a topic, what the broker shows of it is its own ``message.max.bytes``."""
    topics = Topics("x.")
    unplanned = [plan.name for plan in topics.plans() if "max.message.bytes" not in plan.configuration]
    changed = {name: {"max.message.bytes": taken} for name in unplanned}
    found = check_topics(Admin(topics, changed), topics)
    assert [each.topic for each in found] == ([] if is_enough else unplanned)
    assert topics.risks in unplanned
    if found:
        assert found[0].sentence() == (
            f"{found[0].topic} must have at least max.message.bytes=1048576, got 100000; kafka-configs.sh "
            f"--alter --topic {found[0].topic} --add-config max.message.bytes=1048576"
        )


def test_topics_that_a_broker_has_not_heard_of_yet_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start right after `topics create` is no mistake; a topic that is still not seen after seconds is."""
    topics, heard_late = Topics("x."), 3
    admin, looks, now = Admin(topics, {}), [0], [0.0]
    everything = admin.list_topics()

    def list_topics() -> list[str]:
        looks[0] += 1
        return [] if looks[0] <= heard_late else everything

    monkeypatch.setattr(admin, "list_topics", list_topics)
    monkeypatch.setattr(topic_checks.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(topic_checks.time, "sleep", lambda seconds: now.append(now.pop() + seconds))
    require_topics(admin, topics)
    assert looks[0] == heard_late + 1
    heard_late = 10**6
    with pytest.raises(TopicError, match=r"x\.activations must exist, got no such topic that this user"):
        require_topics(admin, topics)
    assert 4.0 < now[0] < 7.0
