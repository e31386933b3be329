"""Who may send, and for which sensors: tokens that are compared in constant time, certificates, or both."""

from __future__ import annotations

import base64
import fnmatch
import hmac
import re
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from stream_app.exceptions import SettingsError
from stream_app.setup.sections.http_settings import HttpSettings

_BEARER, _BASIC = "bearer ", "basic "


@dataclass(frozen=True)
class Sender:
    """Who has shown a token or a certificate; ``sensors`` matches the names it may send for, None all."""

    token: bytes | None = None
    certificate: str | None = None
    sensors: tuple[re.Pattern[str], ...] | None = None

    def may_count(self, sensors: Iterable[str]) -> bool:
        """Whether it may send for all of these, whether or not there are such sensors."""
        if self.sensors is None:
            return True
        return all(any(pattern.match(name) for pattern in self.sensors) for name in sensors)


class Senders:
    """:class:`SettingsError` where anybody could send."""

    def __init__(self, settings: HttpSettings) -> None:
        if settings.token is None and settings.client_ca_file is None and not settings.senders:
            raise SettingsError(
                "a receiver must know who sends",
                "neither token_file nor senders nor client_ca_file in [connect.http]",
                "write a long random token to a file that only you may read, and name it with token_file",
            )
        self._senders = tuple(
            Sender(
                None if each.token is None else each.token.get_secret_value().encode(),
                each.certificate,
                tuple(map(_pattern, each.sensors)),
            )
            for each in settings.senders.values()
        )
        if not self._senders:
            self._senders = (
                Sender(None if settings.token is None else settings.token.get_secret_value().encode()),
            )
        self.tls = _tls(settings)

    def find(self, authorization: str, certificate: Mapping[str, Any] | None) -> Sender | None:
        """Who has sent a header with its token: as Bearer, or as the password of anybody (Basic).

        ``certificate`` is what the sender has shown, as :mod:`ssl` gives it; it was checked before any header
        was read. All are looked at, so that the time does not say which token was nearly right.
        """
        said, names = _said(authorization), _names_of(certificate)
        found = [each for each in self._senders if _is_known(each, said, names)]
        return found[0] if found else None


def _pattern(name: str) -> re.Pattern[str]:
    """What a name with stars matches, in a time that grows with the text: fnmatch looks back at no star."""
    return re.compile(fnmatch.translate(re.sub(r"[\[?]", r"[\g<0>]", name)))


def _is_known(sender: Sender, said: bytes, names: frozenset[str]) -> bool:
    if sender.token is not None:
        return hmac.compare_digest(said, sender.token)
    return sender.certificate is None or sender.certificate in names


def _names_of(certificate: Mapping[str, Any] | None) -> frozenset[str]:
    """The common name and the DNS names of a certificate."""
    if not certificate:
        return frozenset()
    subject = (pair for part in certificate.get("subject", ()) for pair in part)
    also = certificate.get("subjectAltName", ())
    return frozenset(
        [value for kind, value in subject if kind == "commonName"]
        + [value for kind, value in also if kind == "DNS"]
    )


def _said(authorization: str) -> bytes:
    """The token in a header, or nothing."""
    kind = authorization.lower()
    if kind.startswith(_BEARER):
        return authorization[len(_BEARER) :].strip().encode("utf-8", "surrogateescape")
    if kind.startswith(_BASIC):
        with suppress(ValueError):
            return base64.b64decode(authorization[len(_BASIC) :], validate=True).partition(b":")[2]
    return b""


def _tls(settings: HttpSettings) -> ssl.SSLContext | None:
    if settings.certificate_file is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(settings.certificate_file)
        if settings.client_ca_file is not None:
            context.load_verify_locations(settings.client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as error:  # ssl.SSLError is one
        raise SettingsError(
            "certificate_file (with its key) and client_ca_file must be readable PEM files",
            error.strerror or error,
            "check the files that [connect.http] names",
        ) from None
    return context
