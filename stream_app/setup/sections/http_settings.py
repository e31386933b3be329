"""Settings of the receiver of payloads over HTTP: where it listens, who may send, and what payloads say."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr, model_validator

from stream_app.setup.sections.payload_settings import PayloadSettings
from stream_app.setup.sections.settings_section import (
    NameList,
    Section,
    require_private_key,
    require_token,
    take_secret,
)


class SenderSettings(Section):
    """One of several senders: by what it is known, and which sensors it counts."""

    token: SecretStr | None = Field(
        default=None, description="its token, at least 16 characters; not in the settings file"
    )
    token_file: Path | None = Field(default=None, description="file with its token")
    certificate: str | None = Field(
        default=None,
        min_length=1,
        description="instead of a token: the common name or a DNS name of its certificate",
    )
    sensors: NameList = Field(
        min_length=1, description="sensors it may send for; * stands for anything, as in gate-*"
    )

    @model_validator(mode="after")
    def _is_known_by_one_thing(self) -> SenderSettings:
        take_secret(self, "token")
        require_token("token", self.token)
        if (self.token is None) == (self.certificate is None):
            raise ValueError("a sender must have token_file or certificate, and not both")
        return self


class HttpSettings(Section):
    """A receiver needs a token, or certificates of those who send."""

    listen: str = Field(default="127.0.0.1:9470", description="address of the receiver, host:port")
    map: PayloadSettings = Field(default=PayloadSettings(), description="where things stand in the payloads")
    token: SecretStr | None = Field(
        default=None,
        description="what a single sender says in the header Authorization: Bearer, at least 16 characters; "
        "it may send for every sensor. Not in the settings file",
    )
    token_file: Path | None = Field(default=None, description="file with the token")
    senders: dict[str, SenderSettings] = Field(
        default_factory=dict,
        description="instead of token, of each sender by a name of yours: `token_file` or `certificate`, and "
        "the `sensors` it may send for; answered with 403 for others. Set it where several parties send",
    )
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
        self._check_senders()
        if self.client_ca_file is not None and self.certificate_file is None:
            raise ValueError(
                "client_ca_file needs certificate_file: senders show theirs to a receiver with TLS"
            )
        return self

    def _check_senders(self) -> None:
        if self.senders and self.token is not None:
            raise ValueError(
                "token must be that of a single sender, who may send for every sensor; with senders drop it"
            )
        known = [each.token.get_secret_value() for each in self.senders.values() if each.token is not None]
        certificates = [each.certificate for each in self.senders.values() if each.certificate is not None]
        if len(set(known)) < len(known) or len(set(certificates)) < len(certificates):
            raise ValueError("each of the senders must have a token or certificate of its own")
        if certificates and self.client_ca_file is None:
            raise ValueError("senders with a certificate need client_ca_file, which says whose are believed")
