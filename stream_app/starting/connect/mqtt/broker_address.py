"""Where an MQTT broker is, how it is spoken to and who we are there: settings that were checked."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from stream_app.exceptions import SettingsError
from stream_app.setup.settings import Settings

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
            try:
                tls = ssl.create_default_context(cafile=mqtt.ca_file)
                if mqtt.certificate_file is not None:
                    tls.load_cert_chain(mqtt.certificate_file)
            except OSError as error:  # ssl.SSLError is one
                raise SettingsError(
                    "connect.mqtt.ca_file and certificate_file must be readable PEM files",
                    error,
                    "check paths and contents",
                ) from error
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
