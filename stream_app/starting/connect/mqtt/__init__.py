"""An MQTT broker: counts from its topics, acknowledged once they are durable, and releases to them."""

from stream_app.starting.connect.mqtt.broker_address import BrokerAddress, topic_level
from stream_app.starting.connect.mqtt.broker_session import OFFLINE, ONLINE, Arrived, BrokerSession
from stream_app.starting.connect.mqtt.relaying import relay
from stream_app.starting.connect.mqtt.retained_releases import RetainedReleases

__all__ = [
    "OFFLINE",
    "ONLINE",
    "Arrived",
    "BrokerAddress",
    "BrokerSession",
    "RetainedReleases",
    "relay",
    "topic_level",
]
