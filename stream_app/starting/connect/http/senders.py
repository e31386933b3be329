"""Who may send: a token that is compared in constant time, certificates, or both."""

from __future__ import annotations

import base64
import hmac
import ssl
from contextlib import suppress

from stream_app.exceptions import SettingsError
from stream_app.setup.sections.http_settings import HttpSettings

_BEARER, _BASIC = "bearer ", "basic "


class Senders:
    """:class:`SettingsError` where anybody could send."""

    def __init__(self, settings: HttpSettings) -> None:
        if settings.token is None and settings.client_ca_file is None:
            raise SettingsError(
                "a receiver must know who sends",
                "neither token_file nor client_ca_file in [connect.http]",
                "write a long random token to a file that only you may read, and name it with token_file",
            )
        self._token = None if settings.token is None else settings.token.get_secret_value().encode()
        self.tls = _tls(settings)

    def may_send(self, authorization: str) -> bool:
        """Whether a header has the token: as Bearer, or as the password of anybody (Basic).

        Without a token the certificate was checked before any header was read.
        """
        if self._token is None:
            return True
        return hmac.compare_digest(_said(authorization), self._token)


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
