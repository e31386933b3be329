"""Totals of what a deployment on Kafka has published, from its public logs: those of ``tallyguard run``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stream_app.exceptions import SettingsError
from stream_app.kafka.broker.clients import records
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.setup.declared import days_of
from stream_app.steps import Intervals, Total, Totals, declared_totals
from stream_app.wire import StepRelease


def totals_on_kafka(consumer: Any, deployment: Deployment) -> Iterator[Total]:
    """The totals that are complete: of every step that is published, with its late values.

    A step and the late values that were published with it are one transaction, so late values that are read
    after the steps are all there.
    """
    settings, topics = deployment.settings, deployment.topics
    levels = declared_totals(settings.totals, settings.occupancy, settings.total_of)
    if not levels:
        raise SettingsError(
            "the settings must say which totals are made", "none", 'set totals = ["day by sensor"]'
        )
    totals = Totals(
        levels,
        days_of(settings),
        settings.late,
        deployment.facts.registries.ever,
        Intervals(settings.confidence, deployment.registry.designs),
    )
    last = -1
    for record in records(consumer, topics.releases):
        release = StepRelease.model_validate_json(record.value)
        totals.take(release)
        last = max(last, release.step)
    for record in records(consumer, topics.revised) if settings.late else ():
        totals.take(StepRelease.model_validate_json(record.value))
    for step in range(last + 1):
        yield from totals.closed(step)
