"""Settings of the receiver of payloads over HTTP: where it listens, who may send, and what payloads say."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr, model_validator

from stream_app.setup.sections.payload_settings import PayloadSettings
from stream_app.setup.sections.settings_section import (
    Section,
    require_private_key,
    require_token,
    take_secret,
)


class HttpSettings(Section):
    """A receiver needs a token, or certificates of those who send."""

    listen: str = Field(default="127.0.0.1:9470", description="address of the receiver, host:port")
    map: PayloadSettings = Field(default=PayloadSettings(), description="where things stand in the payloads")
    token: SecretStr | None = Field(
        default=None,
        description="what senders say in the header Authorization: Bearer, at least 16 characters; not in "
        "the settings file",
    )
    token_file: Path | None = Field(default=None, description="file with the token")
    certificate_file: Path | None = Field(
        default=None, description="own certificate with its key (PEM): the receiver speaks TLS then"
    )
    client_ca_file: Path | None = Field(
        default=None, description="certificate authority (PEM) of senders, who must then show a certificate"
    )
    body_bytes: int = Field(
        default=262_144, ge=1024, le=16_777_216, description="longest payload that is taken"
    )
    body_seconds: float = Field(
        default=10.0, gt=0, le=300, description="time within which a payload must have come in"
    )

    @model_validator(mode="after")
    def _knows_its_senders(self) -> HttpSettings:
        take_secret(self, "token")
        require_token("token", self.token)
        require_private_key("connect.http.certificate_file", self.certificate_file)
        if self.client_ca_file is not None and self.certificate_file is None:
            raise ValueError(
                "client_ca_file needs certificate_file: senders show theirs to a receiver with TLS"
            )
        return self
