"""A persistent session with an MQTT broker: messages are acknowledged when the caller says so, not before.

Everything happens in the thread that calls :meth:`BrokerSession.turn`. So no acknowledgement can cross a new
connection, on which the broker may have given its number to another message.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import NamedTuple

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from stream_app.exceptions import PeerError
from stream_app.setup.sections.mqtt_settings import MqttSettings
from stream_app.starting.connect.mqtt.broker_address import BrokerAddress

logger = logging.getLogger(__name__)

_MOST_BYTES = 1 << 20  # of a packet: a longer one is not sent to us
_AT_LEAST_ONCE = 1
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_CONNECT_SECONDS = 20.0
_LASTING_SECONDS = 10.0  # a connection of less was none: the pauses go on growing
_TAKEN_OVER = 0x8E
ONLINE, OFFLINE = b"online", b"offline"


class Arrived(NamedTuple):
    """A message, the number to acknowledge it by, and which connection it came on."""

    topic: str
    payload: bytes
    number: int
    connection: int


class BrokerSession:
    """One connection after another to a broker that keeps the session, and what arrives in between.

    ``topics`` are subscribed with at least once (QoS 1). Others read on ``<under>/status``, retained, whether
    we are ``online``; the broker itself says ``offline`` when we vanish (last will).
    """

    def __init__(self, address: BrokerAddress, settings: MqttSettings, topics: Sequence[str] = ()) -> None:
        self._address, self._topics = address, tuple(topics)
        self._status = f"{address.under}/status"
        self._connection = 0
        self._arrived: list[Arrived] = []
        self._is_ready = False
        self._fault: PeerError | None = None
        self._retry_at, self._pause, self._since = 0.0, _FIRST_PAUSE, float("inf")
        self._most = settings.most_unacknowledged
        self._client = self._made_client(settings)
        self._connect = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        self._connect.SessionExpiryInterval = settings.session_seconds
        self._connect.ReceiveMaximum = self._most
        self._connect.MaximumPacketSize = _MOST_BYTES
        self._keepalive = settings.keepalive_seconds

    def _made_client(self, settings: MqttSettings) -> paho.Client:
        client = paho.Client(
            CallbackAPIVersion.VERSION2, self._address.client, protocol=paho.MQTTv5, manual_ack=True
        )
        client.connect_timeout = _CONNECT_SECONDS
        if self._address.tls is not None:
            client.tls_set_context(self._address.tls)
        if settings.username is not None:
            secret = settings.password
            client.username_pw_set(settings.username, None if secret is None else secret.get_secret_value())
        client.will_set(self._status, OFFLINE, _AT_LEAST_ONCE, retain=True)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        return client

    def open(self) -> None:
        """Connect for the first time; :class:`PeerError` says why that failed."""
        try:
            self._client.connect(
                self._address.host,
                self._address.port,
                self._keepalive,
                clean_start=False,
                properties=self._connect,
            )
        except OSError as error:
            raise self._unreachable(str(error)) from error
        deadline = time.monotonic() + _CONNECT_SECONDS
        while not self._is_ready:
            if time.monotonic() > deadline:
                raise self._unreachable("no answer in time")
            code = self._client.loop(0.1)
            self._raise_fault()
            if code != MQTTErrorCode.MQTT_ERR_SUCCESS:
                raise self._unreachable(paho.error_string(code))

    def turn(self, wait_seconds: float) -> list[Arrived]:
        """Speak with the broker, waiting so long for the first message: those that came, at most a window.

        A lost connection is made again, with pauses; :class:`PeerError` where that makes no sense.
        """
        if not self._is_connected() and not self._reconnected(wait_seconds):
            return []
        wait = wait_seconds
        while True:
            before = len(self._arrived)
            code = self._client.loop(wait)
            self._raise_fault()
            if code != MQTTErrorCode.MQTT_ERR_SUCCESS:
                self._lost(paho.error_string(code))
                break
            if len(self._arrived) == before or len(self._arrived) >= self._most:
                break
            wait = 0.0
        arrived, self._arrived = self._arrived, []
        return arrived

    def acknowledge(self, arrived: Sequence[Arrived]) -> None:
        """Let the broker forget them; those of an earlier connection it sends again anyway."""
        for message in arrived:
            if message.connection == self._connection and message.number:
                self._client.ack(message.number, _AT_LEAST_ONCE)

    def publish(self, topic: str, payload: bytes) -> paho.MQTTMessageInfo:
        """Send a retained message, at least once, over as many connections as it takes."""
        return self._client.publish(topic, payload, _AT_LEAST_ONCE, retain=True)

    def close(self) -> None:
        """Say goodbye; the broker keeps the session and what arrives until the next time."""
        if self._is_connected():
            said = self.publish(self._status, OFFLINE)
            deadline = time.monotonic() + 2.0
            while self._is_connected() and not said.is_published() and time.monotonic() < deadline:
                if self._client.loop(0.1) != MQTTErrorCode.MQTT_ERR_SUCCESS:
                    break
            self._client.disconnect()
            self._client.loop(0.1)

    def _is_connected(self) -> bool:
        return self._client.socket() is not None

    def _reconnected(self, wait_seconds: float) -> bool:
        """Whether a connection was begun again; waits where it is too early for that."""
        pause = self._retry_at - time.monotonic()
        if pause > wait_seconds:
            time.sleep(wait_seconds)
            return False
        time.sleep(max(pause, 0.0))
        self._connection += 1
        self._arrived.clear()
        try:
            self._client.reconnect()
        except OSError as error:
            self._lost(str(error))
            return False
        return True

    def _lost(self, why: str) -> None:
        """Remember when to try again; not every broker says why it closed."""
        if time.monotonic() - self._since > _LASTING_SECONDS:
            self._pause = _FIRST_PAUSE
        hint = "; is another connector using this client id?" if self._pause > 2 * _FIRST_PAUSE else ""
        self._is_ready, self._since = False, float("inf")
        logger.warning(
            "broker %s is gone (%s); trying again in %.1f s%s", self._address, why, self._pause, hint
        )
        self._retry_at = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _raise_fault(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _unreachable(self, why: str) -> PeerError:
        return PeerError(
            f"the broker {self._address} must answer",
            why,
            "check connect.mqtt.broker, network and certificate",
        )

    def _on_connect(
        self,
        client: paho.Client,
        userdata: object,
        flags: paho.ConnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if reason.is_failure:
            if self._connection == 0:  # later it may be the broker that is not itself yet: go on trying
                self._fault = PeerError(
                    f"the broker {self._address} must accept client {self._address.client!r}",
                    f'"{reason}"',
                    "check username, password_file and certificate_file, and whom the broker lets in",
                )
            return
        if self._connection and not flags.session_present:
            logger.warning(
                "broker %s has forgotten the session: what arrived while nobody was connected is lost",
                self._address,
            )
        logger.info("connected to %s as %s", self._address, self._address.client)
        if self._topics:
            once = SubscribeOptions(_AT_LEAST_ONCE, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
            client.subscribe([(topic, once) for topic in self._topics])
        else:
            self._ready()
        self.publish(self._status, ONLINE)

    def _on_subscribe(
        self,
        client: paho.Client,
        userdata: object,
        number: int,
        reasons: list[ReasonCode],
        properties: Properties | None,
    ) -> None:
        for topic, reason in zip(self._topics, reasons, strict=True):
            if reason.value != _AT_LEAST_ONCE:
                self._fault = PeerError(
                    f"the broker {self._address} must deliver {topic!r} at least once (QoS 1)",
                    f'"{reason}"',
                    "let this client read the topic, and let the broker grant QoS 1",
                )
        self._ready()

    def _ready(self) -> None:
        self._is_ready, self._since = True, time.monotonic()

    def _on_disconnect(
        self,
        client: paho.Client,
        userdata: object,
        flags: paho.DisconnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        self._is_ready = False
        if flags.is_disconnect_packet_from_server and reason.value == _TAKEN_OVER:
            self._fault = PeerError(
                f"client id {self._address.client!r} must be of one connection at a time",
                "another one that has taken it over",
                "stop the other connector, or give each a client of its own in [connect.mqtt]",
            )

    def _on_message(self, client: paho.Client, userdata: object, message: paho.MQTTMessage) -> None:
        number = message.mid if message.qos else 0
        self._arrived.append(Arrived(message.topic, bytes(message.payload), number, self._connection))
