"""Settings of the MQTT connector: the broker, its session, and which topics count."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, model_validator

from stream_app.setup.sections.payload_settings import PayloadSettings
from stream_app.setup.sections.settings_section import (
    NameList,
    Section,
    refuse_login,
    require_private_key,
    take_secret,
)

WEEK_SECONDS = 7 * 86_400


class MqttSettings(Section):
    """Where the broker is, what is read from it, and under which topics releases stand."""

    broker: str = Field(
        default="",
        description="mqtts://host:8883 with TLS, or mqtt://host:1883 without; the port may be left out",
    )
    topics: NameList = Field(default=(), description="topics that counts come on; + and # as MQTT has them")
    map: PayloadSettings = Field(default=PayloadSettings(), description="where things stand in the payloads")
    protocol: Literal["auto", "5", "3.1.1"] = Field(
        default="auto",
        description="MQTT that is spoken; auto = 5, and 3.1.1 with a broker that does not speak it",
    )
    qos: Literal[0, 1] | None = Field(
        default=None,
        description="least quality of service that is taken: 1 = at least once, 0 = at most once, with which "
        'counts and releases may be lost; none = 1, and with protocol = "3.1.1" what the broker grants',
    )
    packet_bytes: Annotated[int, Field(ge=1024, le=1 << 28)] = Field(
        default=1 << 20,
        description="longest packet that is taken or sent; a broker of MQTT 5 may say that it takes less",
    )
    client: str = Field(
        default="",
        description="client id, by which the broker knows the session again; empty = tallyguard-<deployment>",
    )
    publish_under: str = Field(
        default="",
        description="beginning of the topics of releases and of the status; empty = tallyguard/<deployment>",
    )
    session_seconds: Annotated[int, Field(ge=60, le=0xFFFFFFFE)] = Field(
        default=WEEK_SECONDS,
        description="how long the broker is to keep what arrives while nobody is connected",
    )
    keepalive_seconds: Annotated[int, Field(ge=5, le=3600)] = Field(
        default=30, description="silence after which either side takes the other as gone"
    )
    most_unacknowledged: Annotated[int, Field(ge=1, le=65_535)] = Field(
        default=1000, description="messages that the broker may send before the first is acknowledged"
    )
    ca_file: Path | None = Field(default=None, description="certificate authority of the broker (PEM)")
    certificate_file: Path | None = Field(
        default=None, description="own certificate with its key (PEM), where the broker asks clients for one"
    )
    username: str | None = Field(default=None, description="user, where the broker asks for one")
    password: SecretStr | None = Field(default=None, description="its password; not in the settings file")
    password_file: Path | None = Field(default=None, description="file with the password")

    @property
    def least_quality(self) -> int:
        """The least quality of service that is taken."""
        return self.qos if self.qos is not None else 0 if self.protocol == "3.1.1" else 1

    @model_validator(mode="after")
    def _has_whole_credentials(self) -> MqttSettings:
        refuse_login("connect.mqtt.broker", self.broker)
        require_private_key("connect.mqtt.certificate_file", self.certificate_file)
        take_secret(self, "password")
        if self.password is not None and self.username is None:
            raise ValueError("connect.mqtt needs username beside its password")
        return self

    @model_validator(mode="after")
    def _publishes_under_a_topic(self) -> MqttSettings:
        if set(self.publish_under) & set("+#") or self.publish_under.endswith("/"):
            raise ValueError("publish_under must be a topic without + and #, and not end in /")
        return self
