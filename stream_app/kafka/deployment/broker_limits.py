"""Whether the brokers take the release worker's largest request: looked at before it takes over.

A client sends what it has for all partitions that one broker leads in a single request: a step of all sensors
for every log at the same time, a question about one for each partition of people.
"""

from __future__ import annotations

import logging
from typing import Any

from stream_app.kafka.broker.kafka_exceptions import BrokerError
from stream_app.kafka.deployment.deployment import Deployment, administration
from stream_app.kafka.deployment.sizes import largest_request_bytes

logger = logging.getLogger(__name__)

SETTING = "socket.request.max.bytes"


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
            *(SETTING, most),
        )
    for broker, limit in sorted((limits or {}).items()):
        if limit < most:
            raise BrokerError(
                f"broker {broker} must take requests of {most} bytes ({SETTING}): what concerns all "
                f"{sensors} sensors goes to several logs, or {topics.partitions} partitions, at once",
                f"at most {limit}",
                "raise it in the properties of every broker, shorten the names of sensors, "
                "or let fewer of them count",
            )


def request_limits(admin: Any) -> dict[str, int] | None:
    """The longest request that each broker takes; None where we may not ask."""
    from kafka.admin import ConfigResource, ConfigResourceType
    from kafka.errors import ClusterAuthorizationFailedError

    listed = admin.describe_cluster()["brokers"]
    brokers = [
        str(broker["broker_id"]) for broker in listed if not broker.get("is_fenced")
    ]  # others are away
    wanted = [ConfigResource(ConfigResourceType.BROKER, broker, {SETTING: None}) for broker in brokers]
    try:
        described = admin.describe_configs(wanted, config_filter="all")
    except ClusterAuthorizationFailedError:
        return None
    found = {broker: values for each in described.values() for broker, values in each.items()}
    return {broker: int(values[SETTING]["value"]) for broker, values in found.items() if SETTING in values}
