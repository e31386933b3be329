"""The pages about Kafka say what the code does."""

from __future__ import annotations

import re

from stream_app.kafka.broker.topic_checks import commands, roles
from stream_app.kafka.broker.topics import DAY_MILLISECONDS, HOUR_MILLISECONDS, Topics
from tests import ROOT
from tests.deploy.kafka_page import PAGE, access_table, refreshed, tables, topics_table

TEXT = (ROOT / PAGE).read_text()
HOW_TO = ROOT / "docs" / "how-to"
RUN_ON_KAFKA = (HOW_TO / "run-on-kafka.md").read_text()


def test_regeneration_changes_nothing() -> None:
    """``python -m tests.deploy.kafka_page`` writes what is committed."""
    assert refreshed(TEXT, tables()) == TEXT
    assert all(table in TEXT for table in tables().values())


def test_a_topic_or_role_that_changes_changes_the_page() -> None:
    assert refreshed(TEXT, {"topics": topics_table(Topics(partitions=8))}) != TEXT
    assert refreshed(TEXT, {"access": access_table(Topics(prefix="x."))}) != TEXT


def test_users_made_by_the_page_are_the_roles() -> None:
    made = re.search(r"for user in ([a-z ]+); do", RUN_ON_KAFKA)
    assert made
    assert tuple(made[1].split()) == tuple(role.name for role in roles(Topics()))


def test_the_rule_shown_is_one_that_is_printed() -> None:
    assert "User:release --operation Write --transactional-id release" in RUN_ON_KAFKA
    assert any(command in RUN_ON_KAFKA for command in commands(Topics(), "broker:9093"))


def test_whoever_lets_a_key_go_is_told_where_counts_stay_and_for_how_long() -> None:
    page = (HOW_TO / "rotate-keys.md").read_text()
    kept = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", page, re.MULTILINE))
    secret = {plan.name: plan.configuration for plan in Topics().plans() if "counts" in plan.holds}
    assert set(kept) == set(secret) == {"readings", "progress", "rejected"}
    for name, configuration in secret.items():
        if configuration["cleanup.policy"] == "delete":
            assert f"{int(configuration['retention.ms']) // DAY_MILLISECONDS} days" in kept[name]
            assert int(configuration["segment.ms"]) == DAY_MILLISECONDS
            assert "up to a day more" in kept[name]
        else:
            mark, record = configuration["delete.retention.ms"], configuration["max.compaction.lag.ms"]
            assert int(mark) + int(record) == 2 * HOUR_MILLISECONDS
            assert "two hours" in kept[name]
