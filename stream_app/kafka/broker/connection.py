"""Servers, encryption and login as arguments of the three clients."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any

import faust

from stream_app.exceptions import SettingsError
from stream_app.setup.settings import KafkaSettings

REQUEST_MILLISECONDS = 10_000
"""How long a server may be silent before a worker asks another: well below the limit of a transaction."""


@dataclass(frozen=True)
class Connection:
    """How to reach the broker and log in; made from checked settings."""

    settings: KafkaSettings

    @classmethod
    def of(cls, settings: KafkaSettings) -> Connection:
        """The connection of a deployment; :class:`SettingsError` where no server is named."""
        if not settings.servers:
            raise SettingsError(
                "kafka.servers must name the broker",
                "nothing",
                "set it in the settings file or as TALLYGUARD_KAFKA__SERVERS=host:9092",
            )
        for server in settings.servers:
            host, _, port = server.rpartition(":")
            if not host or not port.isdecimal():
                raise SettingsError("kafka.servers must be host:port", repr(server), "write broker:9092")
        return cls(settings)

    @property
    def servers(self) -> list[str]:
        """Bootstrap servers."""
        return list(self.settings.servers)

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.settings.security.endswith("SSL")

    def ssl_context(self) -> ssl.SSLContext | None:
        """The context of TLS: the given authority, or the system's; host names are always checked."""
        if not self.uses_tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.settings.ca_file)
            if self.settings.certificate_file is not None:
                context.load_cert_chain(self.settings.certificate_file)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(
                "kafka.ca_file and kafka.certificate_file must be readable PEM files",
                error,
                "check paths and contents",
            ) from error
        return context

    def kafka_python(self) -> dict[str, Any]:
        """Arguments of kafka-python's clients."""
        return {"bootstrap_servers": self.servers, **self._login()}

    def aiokafka(self, servers: list[str] | None = None) -> dict[str, Any]:
        """Arguments of aiokafka's clients; ``servers`` to begin with, all of them if not given."""
        return {
            "bootstrap_servers": servers or self.servers,
            "request_timeout_ms": REQUEST_MILLISECONDS,
            **self._login(),
        }

    def faust(self, servers: list[str] | None = None) -> dict[str, Any]:
        """Settings of a Faust app."""
        credentials: Any = None
        if self.settings.security.startswith("SASL"):
            credentials = faust.SASLCredentials(
                username=self.settings.username,
                password=self._password(),
                mechanism=self.settings.mechanism,
                ssl_context=self.ssl_context(),
            )
        elif self.uses_tls:
            credentials = faust.SSLCredentials(context=self.ssl_context())
        return {
            "broker": [f"kafka://{server}" for server in servers or self.servers],
            "broker_credentials": credentials,
        }

    def _login(self) -> dict[str, Any]:
        """Protocol, encryption and login, which have the same names in kafka-python and aiokafka."""
        arguments: dict[str, Any] = {
            "security_protocol": self.settings.security,
            "ssl_context": self.ssl_context(),
        }
        if self.settings.security.startswith("SASL"):
            arguments |= {
                "sasl_mechanism": self.settings.mechanism,
                "sasl_plain_username": self.settings.username,
                "sasl_plain_password": self._password(),
            }
        return arguments

    def _password(self) -> str:
        password = self.settings.password
        return "" if password is None else password.get_secret_value()
