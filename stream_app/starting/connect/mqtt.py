"""An MQTT broker: counts from its topics, acknowledged once they are durable, and releases to them."""

from __future__ import annotations

import json
import logging
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from models.exceptions import TallyguardError
from stream_app.exceptions import PeerError, SettingsError
from stream_app.setup.run_folder.run_settings import RunTimes
from stream_app.setup.sections import MqttSettings
from stream_app.setup.settings import Settings
from stream_app.setup.this_process import StopRequest
from stream_app.starting.connect.intake import UNTRUSTED, Pauses, Payload, client_tls
from stream_app.starting.connect.released import PublishedLog, interval_in
from stream_app.steps import Intervals, TotalsWithReleases
from stream_app.wire import SensorValue, StepRelease

# Where an MQTT broker is, how to connect to it, and which client we are there: settings that were checked.

_PORTS = {"mqtt": 1883, "mqtts": 8883}


@dataclass(frozen=True)
class BrokerAddress:
    """Host, port and encryption of a broker; ``client`` is the id it knows us by."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    client: str
    under: str

    @classmethod
    def of(cls, settings: Settings) -> BrokerAddress:
        """The broker of the settings; :class:`SettingsError` where they name none, or no readable file."""
        mqtt = settings.connect.mqtt
        try:
            parts = urlsplit(mqtt.broker)
            port = parts.port or _PORTS[parts.scheme]
        except (ValueError, KeyError):
            parts, port = urlsplit(""), 0
        if not parts.hostname or parts.username or parts.path.strip("/") or parts.query:
            raise SettingsError(
                "connect.mqtt.broker must be mqtts://host:port, or mqtt://host:port without encryption",
                repr(mqtt.broker) if mqtt.broker and not parts.username else "none of them",
                "set it in [connect.mqtt]; user and password have keys of their own",
            )
        tls = None
        if parts.scheme == "mqtts":
            tls = client_tls("connect.mqtt", mqtt.ca_file, mqtt.certificate_file)
        name = settings.deployment
        return cls(
            parts.hostname,
            port,
            tls,
            mqtt.client or f"tallyguard-{name}",
            mqtt.publish_under or f"tallyguard/{topic_level(name)}",
        )

    def __str__(self) -> str:
        return f"{'mqtts' if self.tls else 'mqtt'}://{self.host}:{self.port}"


def topic_level(name: str) -> str:
    """A name as one level of a topic: what would divide levels or be a wildcard is written as %XX."""
    return "".join(f"%{ord(sign):02X}" if sign in "%/+#\0" else sign for sign in name)


# A persistent session with an MQTT broker: messages are acknowledged when the caller says so, not before.
#
# Everything happens in the thread that calls :meth:`BrokerSession.turn`. So no acknowledgement can cross a
# new connection, on which the broker may have given its number to another message. Each connection has a
# client of paho's of its own, for paho would keep what is unsent in memory, without a bound, and send more
# of it at once than a broker takes: what waits to be published waits with the caller, who asks for
# :attr:`BrokerSession.room`.

logger = logging.getLogger(__name__)

_AT_MOST_ONCE, _AT_LEAST_ONCE = 0, 1
_MOST_IN_FLIGHT = 1000
_HEAD_BYTES = 64  # of a packet that publishes, beside topic and payload
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0
_CONNECT_SECONDS = 20.0
_LASTING_SECONDS = 10.0  # a shorter connection does not count: the pauses keep growing
_OTHER_VERSION, _TAKEN_OVER, _NO_RETAIN, _OTHER_QUALITY = 0x84, 0x8E, 0x9A, 0x9B
_OF_A_TOPIC = frozenset({0x87, 0x90, 0x95, 0x99})  # not authorised, name, too large, format: trying is no use
_REFUSALS = {
    _OTHER_VERSION: ("speak our MQTT with", 'set protocol = "auto" in [connect.mqtt]'),
    _OTHER_QUALITY: (
        "take messages at least once (QoS 1) from",
        "set qos = 0 in [connect.mqtt] if counts and releases may be lost on the way",
    ),
}
"""What a broker that refuses us must do, and what helps, by its reason; for any other reason the next."""
_REFUSAL = ("accept", "check username, password_file and certificate_file, and which clients it accepts")
_FORBIDDEN_SECONDS = 600.0
_UNREACHABLE = (
    "check connect.mqtt.broker and network, and whether it speaks TLS (mqtts) or not (mqtt) at this port"
)
ONLINE, OFFLINE = b"online", b"offline"


class Sent(NamedTuple):
    """A message that was given to the broker on one connection: its number there."""

    number: int
    connection: int


class BrokerSession:
    """One connection after another to a broker that keeps the session, and what arrives in between.

    ``topics`` are subscribed with at least once (QoS 1). Others read on ``<under>/status``, retained, whether
    we are ``online``; the broker itself says ``offline`` when we vanish (last will). ``is_known`` where the
    broker should know the session of an earlier process.

    A broker that grants less is spoken with on its terms where the settings allow that: MQTT 3.1.1, at most
    once, nothing retained. :attr:`weaker` says what is not promised then.
    """

    def __init__(
        self,
        address: BrokerAddress,
        settings: MqttSettings,
        topics: Sequence[str] = (),
        *,
        is_known: bool = False,
    ) -> None:
        self._address, self._settings, self._topics = address, settings, tuple(topics)
        self._status = f"{address.under}/status"
        self._own = tuple(f"{address.under}/{name}/" for name in ("status", "releases", "revised"))
        self._is_known = is_known
        # The terms of the session: less than we ask for where the broker grants no more.
        self._is_old = settings.protocol == "3.1.1"
        self._quality = settings.least_quality if settings.qos is not None else _AT_LEAST_ONCE  # publishing
        self._retains = True
        self._granted = _AT_LEAST_ONCE  # the least of the topics
        self._said: set[str] = set()
        self._forbidden: dict[str, float] = {}  # until when nothing is sent to these topics
        self._passed_over: set[str] = set()
        self._connection = -1
        self._arrived: list[Payload] = []
        self._is_ready = self._was_ready = False
        self._fault: PeerError | None = None
        self._why = ""  # the broker's own words about the end of this connection
        self._code: int | None = None  # of a refused connection
        self._pauses = Pauses(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        self._retry_at, self._since = 0.0, float("inf")
        self._most = settings.most_unacknowledged
        self._begin_connection()

    def _begin_connection(self) -> None:
        """A client that knows nothing of an earlier connection."""
        self._connection += 1
        self._arrived.clear()
        self._in_flight: dict[int, str] = {}  # topic by number
        self._refused: dict[int, ReasonCode] = {}
        self._window, self._most_bytes = _MOST_IN_FLIGHT, self._settings.packet_bytes
        self._is_ready, self._code, self._why = False, None, ""
        settings, is_old = self._settings, self._is_old
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            self._address.client,
            clean_session=False if is_old else None,
            protocol=MQTTProtocolVersion.MQTTv311 if is_old else MQTTProtocolVersion.MQTTv5,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.connect_timeout = _CONNECT_SECONDS
        client.max_inflight_messages_set(0)  # we keep to the broker's own bound
        if self._address.tls is not None:
            client.tls_set_context(self._address.tls)
        if settings.username is not None:
            secret = settings.password
            client.username_pw_set(settings.username, None if secret is None else secret.get_secret_value())
        client.will_set(self._status, OFFLINE, self._quality, retain=self._retains)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_publish = self._on_publish
        client.on_message = self._on_message
        self._client = client

    def _connect(self) -> None:
        """Begin to connect; ``OSError`` where nobody is there."""
        address = self._address.host, self._address.port, self._settings.keepalive_seconds
        if self._is_old:
            self._client.connect(*address)
            return
        asked = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        asked.SessionExpiryInterval = self._settings.session_seconds
        asked.ReceiveMaximum = self._most
        asked.MaximumPacketSize = self._settings.packet_bytes
        self._client.connect(*address, clean_start=False, properties=asked)

    def open(self, stop: StopRequest | None = None) -> None:
        """Connect for the first time, unless ``stop`` is set; :class:`PeerError` says why that failed."""
        deadline = time.monotonic() + _CONNECT_SECONDS
        try:
            self._connect()
        except (OSError, ValueError) as error:
            remedy = UNTRUSTED if isinstance(error, ssl.SSLCertVerificationError) else _UNREACHABLE
            raise self._unreachable(str(error), remedy) from error
        while not self._is_ready and not (stop is not None and stop.is_set):
            if time.monotonic() > deadline:
                raise self._unreachable("no answer in time")
            code = self._client.loop(0.1)
            if code != MQTTErrorCode.MQTT_ERR_SUCCESS and not self._is_ready and self._lowered():
                self.open(stop)
                return
            self._raise_fault()
            if code != MQTTErrorCode.MQTT_ERR_SUCCESS:
                raise self._unreachable(self._why or paho.error_string(code))

    @property
    def weaker(self) -> list[str]:
        """What this broker does not promise, a sentence each."""
        found = []
        if self._is_old:
            found.append(
                "MQTT 3.1.1 is spoken: the broker keeps messages for us as long as it likes, and need not "
                "say that it refuses one of ours."
            )
        if self._topics and self._granted == _AT_MOST_ONCE:
            found.append(
                "Counts come at most once (QoS 0): those sent while nobody is connected, or just before an "
                "end, are lost."
            )
        if self._quality == _AT_MOST_ONCE:
            found.append("Releases go out at most once (QoS 0): one lost on the way is not sent again.")
        if not self._retains:
            found.append("The broker retains nothing: whoever subscribes later waits for the next release.")
        if self._passed_over:
            found.append(
                f"The broker does not take what is published on {len(self._passed_over):,} topics, such as "
                f"{min(self._passed_over)!r}: the log says why."
            )
        return found

    @property
    def room(self) -> int:
        """How many messages the broker takes now; 0 while there is no connection."""
        return max(self._window - len(self._in_flight), 0) if self._is_ready and self._is_connected() else 0

    def turn(self, wait_seconds: float) -> list[Payload]:
        """The messages that came, at most a window of them, after waiting so long for the first.

        A lost connection is made again, with pauses; :class:`PeerError` where that cannot help.
        """
        if not self._is_connected() and not self._reconnected(wait_seconds):
            return []
        wait = wait_seconds
        while True:
            before = len(self._arrived)
            code = self._client.loop(wait)
            self._raise_fault()
            if code != MQTTErrorCode.MQTT_ERR_SUCCESS or not self._is_connected():
                self._lost(self._why or paho.error_string(code))
                break
            if len(self._arrived) == before or len(self._arrived) >= self._most:
                break
            wait = 0.0
        arrived, self._arrived = self._arrived, []
        return arrived

    def acknowledge(self, arrived: Sequence[Payload]) -> None:
        """Tell the broker that they are durable; those of an earlier connection it sends again anyway."""
        for message in arrived:
            if message.connection == self._connection and message.number:
                self._client.ack(message.number, _AT_LEAST_ONCE)

    def publish(self, topic: str, payload: bytes) -> Sent | None:
        """Send a retained message, where there is :attr:`room`; None of one that the broker does not take.

        That is what is too long, and for ten minutes what is on a topic that it has refused: some brokers
        hang up at each of them.
        """
        if self._forbidden.get(topic, 0.0) > time.monotonic():
            return None
        self._passed_over.discard(topic)
        if len(topic.encode()) + len(payload) + _HEAD_BYTES > self._most_bytes:
            self._say_once(
                f"broker {self._address} takes packets of at most {self._most_bytes:,} bytes: longer ones, "
                f"as on {topic!r}, are not sent"
            )
            self._passed_over.add(topic)
            return None
        info = self._client.publish(topic, payload, self._quality, retain=self._retains)
        # At QoS 0 it may be out already.
        if info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS or not info.is_published():
            self._in_flight[info.mid] = topic
        return Sent(info.mid, self._connection)

    def is_lost(self, sent: Sent) -> bool:
        """Whether its connection ended before the broker had it, so that it must be sent again."""
        return sent.connection != self._connection or not self._is_connected()

    def is_there(self, sent: Sent) -> bool:
        """Whether the broker has it (at QoS 0: whether it was handed to the network), or refused it."""
        return not self.is_lost(sent) and sent.number not in self._in_flight

    def refusal(self, sent: Sent) -> str | None:
        """Why the broker does not take it now; None also for what it never takes, which is skipped."""
        reason = self._refused.get(sent.number) if sent.connection == self._connection else None
        return None if reason is None else str(reason)

    def close(self) -> None:
        """Publish that we are offline, and disconnect; the broker keeps the session and what arrives."""
        if self._is_connected():
            said = self.publish(self._status, OFFLINE)
            deadline = time.monotonic() + 2.0
            while said is not None and not self.is_lost(said) and not self.is_there(said):
                if time.monotonic() > deadline or self._client.loop(0.1) != MQTTErrorCode.MQTT_ERR_SUCCESS:
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
        self._begin_connection()
        try:
            self._connect()
        except (OSError, ValueError) as error:
            self._lost(str(error), is_there=False)
            return False
        return True

    def _lowered(self) -> bool:
        """Whether to ask a broker that refused us again with fewer demands, as far as the settings allow.

        Not every broker says what it refuses: some close the connection.
        """
        is_silent = self._code is None and not self._was_ready
        may_be_once = self._settings.least_quality == _AT_MOST_ONCE and self._quality == _AT_LEAST_ONCE
        may_be_old = self._settings.protocol == "auto" and not self._is_old
        if self._code == _NO_RETAIN and self._retains:
            self._retains = False
        elif may_be_old and (self._code == _OTHER_VERSION or is_silent):
            self._is_old = True
        elif may_be_once and (self._code == _OTHER_QUALITY or (self._is_old and is_silent)):
            self._quality = _AT_MOST_ONCE
        else:
            return False
        self._fault = None
        self._begin_connection()
        return True

    def _lost(self, why: str, *, is_there: bool = True) -> None:
        """Remember when to try again; not every broker that ``is_there`` says why it closed."""
        if time.monotonic() - self._since > _LASTING_SECONDS:
            self._pauses.reset()
        self._is_ready, self._since = False, float("inf")
        pause = self._pauses.take()
        is_sent_away = is_there and pause > 2 * _FIRST_PAUSE_SECONDS
        hint = "; is another connector using this client id?" if is_sent_away else ""
        logger.warning("broker %s is gone (%s); trying again in %.1f s%s", self._address, why, pause, hint)
        self._retry_at = time.monotonic() + pause

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            logger.warning("%s", sentence)

    def _raise_fault(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _unreachable(self, why: str, remedy: str = _UNREACHABLE) -> PeerError:
        return PeerError(f"the broker {self._address} must answer", why, remedy)

    def _refuse(self, must: str, said: str, remedy: str) -> None:
        """End if the broker has never let us do this; if it has, it may be starting up, so keep trying."""
        fault = PeerError(f"the broker {self._address} must {must}", said, remedy)
        if self._was_ready:
            self._why = str(fault)
            self._client.disconnect()
        else:
            self._fault = fault

    # Paho's callbacks; what one of them does not use of its arguments is an `object`.

    def _on_connect(
        self,
        client: paho.Client,
        userdata: object,
        flags: paho.ConnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if reason.is_failure:
            self._code = reason.value
            what, remedy = _REFUSALS.get(reason.value, _REFUSAL)
            said = f'"{reason}"{_elsewhere(properties)}'
            self._refuse(f"{what} client {self._address.client!r}", said, remedy)
            return
        self._keep_to(properties)
        if (self._was_ready or self._is_known) and not flags.session_present:
            logger.warning(
                "broker %s has forgotten the session: what arrived while nobody was connected is lost",
                self._address,
            )
        logger.info("connected to %s as %s", self._address, self._address.client)
        if self._topics:
            self._subscribe(client)
        else:
            self._ready()

    def _keep_to(self, properties: Properties | None) -> None:
        """Keep to what the broker grants when it accepts us (MQTT 5.0, section 3.2.2.3)."""
        asked = self._settings.session_seconds
        keeps = getattr(properties, "SessionExpiryInterval", asked)
        if keeps < asked:
            self._say_once(
                f"broker {self._address} keeps messages for us for {keeps:,} s, not for the {asked:,} s that "
                "session_seconds asks for"
            )
        self._window = min(self._window, getattr(properties, "ReceiveMaximum", self._window))
        self._most_bytes = min(self._most_bytes, getattr(properties, "MaximumPacketSize", self._most_bytes))
        if not getattr(properties, "RetainAvailable", 1):
            self._retains = False
        if getattr(properties, "MaximumQoS", _AT_LEAST_ONCE) == _AT_MOST_ONCE:
            self._take_at_most_once('"Maximum QoS 0"')

    def _subscribe(self, client: paho.Client) -> None:
        if self._is_old:
            client.subscribe([(topic, _AT_LEAST_ONCE) for topic in self._topics])
            return
        once = SubscribeOptions(_AT_LEAST_ONCE, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
        client.subscribe([(topic, once) for topic in self._topics])

    def _on_subscribe(
        self, client: object, userdata: object, number: int, reasons: list[ReasonCode], properties: object
    ) -> None:
        for topic, reason in zip(self._topics, reasons, strict=True):
            if reason.is_failure:
                self._refuse(
                    f"let client {self._address.client!r} read {topic!r}",
                    f'"{reason}"',
                    "let this client read the topic, or correct connect.mqtt.topics",
                )
                return
        self._granted = min((reason.value for reason in reasons), default=_AT_LEAST_ONCE)
        if self._granted == _AT_MOST_ONCE:
            self._take_at_most_once('"Granted QoS 0"')
        if self._fault is None and self._is_connected():
            self._ready()

    def _take_at_most_once(self, said: str) -> None:
        """Accept a broker that delivers at most once where the settings allow that; refuse it otherwise."""
        if self._settings.least_quality == _AT_MOST_ONCE:
            self._quality = _AT_MOST_ONCE
            return
        self._refuse(
            "deliver at least once (QoS 1)",
            said,
            "let it grant QoS 1 to this client, or set qos = 0 in [connect.mqtt] if counts may be lost",
        )

    def _ready(self) -> None:
        self._is_ready, self._was_ready, self._since = True, True, time.monotonic()
        for sentence in self.weaker:
            self._say_once(f"broker {self._address}: {sentence}")
        self.publish(self._status, ONLINE)

    def _on_publish(
        self, client: object, userdata: object, number: int, reason: ReasonCode, properties: object
    ) -> None:
        topic = self._in_flight.pop(number, "")
        if not reason.is_failure:
            return
        if reason.value in _OF_A_TOPIC:
            self._forbidden[topic] = time.monotonic() + _FORBIDDEN_SECONDS
            self._passed_over.add(topic)
            self._say_once(
                f'broker {self._address} does not take what we publish there ("{reason}"): let client '
                f"{self._address.client!r} write to {self._address.under}/#"
            )
        else:
            self._refused[number] = reason

    def _on_disconnect(
        self,
        client: object,
        userdata: object,
        flags: paho.DisconnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        self._is_ready = False
        if flags.is_disconnect_packet_from_server:
            self._why = f'it says "{reason}"{_elsewhere(properties)}'
        if flags.is_disconnect_packet_from_server and reason.value == _TAKEN_OVER:
            self._fault = PeerError(
                f"client id {self._address.client!r} must be of one connection at a time",
                "another one that has taken it over",
                "stop the other connector, or give each a client of its own in [connect.mqtt]",
            )

    def _on_message(self, client: paho.Client, userdata: object, message: paho.MQTTMessage) -> None:
        number = message.mid if message.qos else 0
        if f"{message.topic}/".startswith(self._own):  # `topics` may be as wide as #: we are no counter
            if number:
                client.ack(number, _AT_LEAST_ONCE)
            return
        self._arrived.append(Payload(message.topic, bytes(message.payload), number, self._connection))


def _elsewhere(properties: Properties | None) -> str:
    """Where the broker sends us, if anywhere (Server Reference, MQTT 5.0, section 4.13)."""
    other = getattr(properties, "ServerReference", None)
    return "" if other is None else f", and names {other!r} as another one for connect.mqtt.broker"


# Releases as retained messages: whoever subscribes gets the last one of each sensor at once.

_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 1.0, 60.0


class _Message(NamedTuple):
    """One to be sent; ``reached`` is the place behind its step, of the last message of one."""

    topic: str
    payload: bytes
    reached: Mapping[str, Mapping[str, int]] | None
    is_late: bool


class RetainedReleases:
    """Publishes each step of a run's releases, each sensor's value under a topic of its own, then the step.

    Late and corrected values stand under topics of their own, so that none hides a sensor's last value, and
    so do totals.
    What waits, waits in the run's log: no more is read of it than the broker takes at a time. ``place`` is
    the file that says how far the broker has acknowledged them; a restart goes on there. What was sent and
    not acknowledged is sent again, so a reader may see a step twice, and by its number.
    """

    def __init__(self, session: BrokerSession, under: str, run: Path, place: Path) -> None:
        self._session, self._under = session, under
        self._log, self._totals = PublishedLog(run, place), TotalsWithReleases(run)
        self._unsent: deque[_Message] = deque()
        self._sent: deque[tuple[_Message, Sent | None]] = deque()
        self._pauses = Pauses(_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS, at_once=True)
        self._again_at = 0.0
        self.steps = 0

    def advance(self) -> None:
        """Note what the broker has received, then send what was released since, as much as it takes."""
        self._note()
        if time.monotonic() < self._again_at:
            return
        for _ in range(self._session.room):  # and no more at once: counts are taken in between
            if not self._unsent:
                release = self._log.next()
                if release is None:
                    return
                self._unsent.extend(self._messages(release))
            message = self._unsent.popleft()
            self._sent.append((message, self._session.publish(message.topic, message.payload)))

    @property
    def is_acknowledged(self) -> bool:
        """Whether the broker has all that was sent."""
        return not self._sent and not self._unsent

    def _note(self) -> None:
        """Forget, in order, what the broker has; what a lost connection or a refusal left is sent again."""
        reached = None
        while self._sent:
            message, sent = self._sent[0]
            if sent is not None and self._session.is_lost(sent):
                self._take_back()
                break
            if sent is not None and not self._session.is_there(sent):
                break
            refusal = None if sent is None else self._session.refusal(sent)
            if refusal is not None:
                logger.warning(
                    'the broker does not take releases now ("%s"); trying again in %g s',
                    refusal,
                    self._pauses.seconds,
                )
                self._take_back()
                break
            self._sent.popleft()
            self._pauses.reset()
            if message.reached is not None:
                reached = message.reached
                self.steps += not message.is_late
        if reached is not None:
            self._log.keep(reached)

    def _take_back(self) -> None:
        """Send again what the broker is not known to have, in its order: a topic's last value must come last.

        Attempts become rarer while the oldest message keeps failing, so that a broker that hangs up at it
        still has time to deliver counts in between.
        """
        self._again_at = time.monotonic() + self._pauses.take()
        self._unsent.extendleft(message for message, _ in reversed(self._sent))
        self._sent.clear()

    def _messages(self, release: StepRelease) -> Iterator[_Message]:
        is_late = self._log.is_late
        under = f"{self._under}/{'revised' if is_late else 'releases'}"
        for entry in release.releases:
            payload = one_value(self._log.times, release.step, entry, self._log.intervals)
            yield _Message(f"{under}/{topic_level(entry.sensor)}", payload, None, is_late)
        for total in () if is_late else self._totals.with_step(release.step):
            where = f"{self._under}/totals/{topic_level(total.level)}/{topic_level(total.place)}"
            document = json.loads(total.line()) | {"confidence": self._log.intervals.level}
            yield _Message(where, json.dumps(document).encode(), None, is_late)
        yield _Message(under, release.line().rstrip(), self._log.reached, is_late)


def one_value(times: RunTimes, step: int, entry: SensorValue, intervals: Intervals) -> bytes:
    """What one sensor publishes of a step, by itself: with when it is of, and how far off it may be."""
    start, end = times.text(entry.first_step(step)), times.text(step + 1)
    document: dict[str, Any] = {"v": 1, "step": step, "start": start, "end": end}
    document |= entry.model_dump(mode="json", exclude_none=True) | interval_in(entry, intervals)
    return json.dumps(document).encode()


# Counts from a broker's topics, and releases to them: one connection, one thread, until asked to stop.

_WAIT_SECONDS = 0.2


def relay(
    session: BrokerSession,
    take: Callable[[Sequence[Payload]], object] | None,
    releases: RetainedReleases | None,
    stop: StopRequest,
) -> None:
    """Acknowledge messages once they are durable, and send releases, until ``stop`` is set.

    What ``take`` has taken is durable; where it raises, nothing is acknowledged. Releases that cannot be read
    do not stop the intake: the error is logged, and raised at the end.
    """
    session.open(stop)
    fault: TallyguardError | None = None
    try:
        while not stop.is_set:
            arrived = session.turn(_WAIT_SECONDS)
            if arrived and take is not None:
                take(arrived)
                session.acknowledge(arrived)
            if releases is not None and fault is None:
                try:
                    releases.advance()
                except TallyguardError as error:
                    if take is None:
                        raise
                    logger.error("no more releases are sent: %s", error)
                    fault = error
    finally:
        session.close()
    if fault is not None:
        raise fault
