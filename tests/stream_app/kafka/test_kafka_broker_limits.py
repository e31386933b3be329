"""What the brokers take is looked at before the release worker takes over, and said in one sentence."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import ClusterAuthorizationFailedError, UnknownBrokerIdError

from stream_app.kafka.broker.clients import BrokerError
from stream_app.kafka.deployment import deployment as deployment_module
from stream_app.kafka.deployment.deployment import (
    REQUEST_LIMIT,
    Deployment,
    largest_request_bytes,
    require_requests,
)


class Admin:
    """Two brokers and one that is away; the limit of the second is given, None where nobody may see it."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit

    def describe_cluster(self) -> dict[str, Any]:
        brokers = [
            {"broker_id": 1},
            {"broker_id": 2, "is_fenced": False},
            {"broker_id": 3, "is_fenced": True},
        ]
        return {"brokers": brokers}

    def describe_configs(self, resources: list[SimpleNamespace], **_: object) -> dict[str, Any]:
        if self._limit is None:
            raise ClusterAuthorizationFailedError
        limits = {"1": 104_857_600, "2": self._limit}
        for each in resources:
            if each.name not in limits:
                raise UnknownBrokerIdError(each.name)
        return {
            "broker": {each.name: {REQUEST_LIMIT: {"value": str(limits[each.name])}} for each in resources}
        }


def look(deployment: Deployment, limit: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask brokers of which the second has this limit."""

    @contextmanager
    def administration(_: object) -> Iterator[Admin]:
        yield Admin(limit)

    monkeypatch.setattr(deployment_module, "administration", administration)
    require_requests(deployment)


def test_a_broker_that_takes_shorter_requests_than_a_step_needs_is_refused(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = largest_request_bytes(deployment.registry, deployment.topics, deployment.settings)
    look(deployment, most, monkeypatch)
    with pytest.raises(
        BrokerError,
        match=rf"broker 2 must accept requests of {most} bytes \(socket.request.max.bytes\): records about "
        rf"all 4 sensors go to several logs, or 4 partitions, at once, got at most {most - 1}"
        r".*raise it in the properties",
    ):
        look(deployment, most - 1, monkeypatch)


def test_a_broker_that_is_away_is_not_asked(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A release worker starts while one of three brokers is down."""
    with caplog.at_level(logging.WARNING):
        look(deployment, 104_857_600, monkeypatch)
    assert not caplog.text


def test_who_may_not_see_the_limit_is_warned_and_goes_on(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        look(deployment, None, monkeypatch)
    assert "socket.request.max.bytes of the brokers cannot be read" in caplog.text
