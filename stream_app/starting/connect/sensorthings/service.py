"""Requests to a SensorThings service: bounded, tried again where the service or the network is not itself.

Source: OGC SensorThings API Part 1: Sensing, version 1.1 (OGC 18-088), sections 9 (requests) and 10 (create).
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from math import isfinite
from types import TracebackType
from typing import Any, Self

import aiohttp
from yarl import URL

from models.text import DocumentError, parse_json
from stream_app.exceptions import PeerError, SettingsError
from stream_app.setup.sections.sensorthings_settings import SensorThingsSettings

logger = logging.getLogger(__name__)

_MOST_BYTES = 64 << 20  # of an answer: some hundred bytes an observation
_TRIES = 6
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_MOST_WAIT_SECONDS = 300.0
_NOT_THERE = frozenset({404, 410})
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


class UnknownOutcomeError(PeerError):
    """Nobody knows whether the service did what it was asked for: the answer did not come.

    ``wait_seconds`` are those that the service asks us to wait (``Retry-After``).
    """

    wait_seconds = 0.0


class NotThereError(PeerError):
    """The service knows nothing by this address."""


class SensorThings:
    """A service, open while the block runs. :class:`PeerError` says what went wrong, and quotes no count."""

    def __init__(self, settings: SensorThingsSettings) -> None:
        self._root, self._links_here = _root(settings.url), settings.links == "here"
        self._headers = {"Accept": "application/json"}
        if settings.token is not None:
            self._headers["Authorization"] = f"Bearer {settings.token.get_secret_value()}"
        self._login = None
        if settings.username is not None and settings.password is not None:
            self._login = aiohttp.BasicAuth(settings.username, settings.password.get_secret_value())
        self._tls = _tls(settings) if self._root.scheme == "https" else None
        self._timeout = aiohttp.ClientTimeout(total=settings.answer_seconds)
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._tls) if self._tls is not None else None
        self._session = aiohttp.ClientSession(
            connector=connector, headers=self._headers, auth=self._login, timeout=self._timeout
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    def address(self, path: str, query: Mapping[str, str] | None = None) -> URL:
        """The URL of a path below the service root."""
        return URL(f"{self._root}/{path}").with_query(query)

    def next_link(self, document: Mapping[str, Any]) -> URL | None:
        """Where the answer goes on; :class:`PeerError` for a link that leads to another host.

        By ``links = "here"`` its path below the service root and its query are asked for at our own root.
        """
        link = document.get("@iot.nextLink")
        if link is None:
            return None
        url = self._root.join(URL(str(link), encoded=True))
        if url.origin() != self._root.origin() and self._links_here:
            found = re.search(r"/v1\.\d(/.*)$", url.raw_path_qs)
            if found is not None:
                return URL(f"{self._root}{found[1]}", encoded=True)
        if url.origin() != self._root.origin():  # it would be given our login
            raise PeerError(
                f"pages of {self._root} must be of the same scheme, host and port as the service root",
                f"a link to {url.origin()}",
                "set connect.sensorthings.url as the service names itself (FROST: serviceRootUrl), or "
                'links = "here" where it stands behind a proxy',
            )
        return url

    async def get(self, url: URL) -> dict[str, Any]:
        """A document."""
        text = await self._answer("GET", url, None)
        try:
            document = parse_json(text)
        except DocumentError:
            document = None
        if not isinstance(document, dict):
            raise PeerError(
                f"{url.path} must be an object in JSON", "something else", "check connect.sensorthings.url"
            )
        return document

    async def create(self, url: URL, document: Mapping[str, Any]) -> None:
        """Create an entity, with one try; :class:`UnknownOutcomeError` where no answer came."""
        await self._once("POST", url, document)

    async def _answer(self, method: str, url: URL, document: Mapping[str, Any] | None) -> bytes:
        """The answer, in as many tries as it takes; of requests that may be repeated."""
        pause = _FIRST_PAUSE
        for attempt in range(_TRIES):
            try:
                return await self._once(method, url, document)
            except UnknownOutcomeError as error:
                if attempt == _TRIES - 1:
                    raise
                wait = max(pause, error.wait_seconds)
                logger.warning("%s; trying again in %.1f s", error, wait)
                await asyncio.sleep(wait)
                pause = min(2 * pause, _LONGEST_PAUSE)
        raise AssertionError("the last try returns or raises")

    async def _once(self, method: str, url: URL, document: Mapping[str, Any] | None) -> bytes:
        try:
            async with self._session.request(
                method, url, json=document, allow_redirects=method == "GET"
            ) as answer:
                text = await _bounded(answer)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UnknownOutcomeError(
                f"{self._root} must answer",
                str(error) or "nothing in time",
                "check connect.sensorthings.url and network",
            ) from None
        if answer.status in _PASSING:
            passing = UnknownOutcomeError(
                f"{self._root} must answer", f"status {answer.status}", "look at the service's own log"
            )
            passing.wait_seconds = _asked_to_wait(answer.headers.get("Retry-After", ""))
            raise passing
        if not 200 <= answer.status < 300:
            kind = NotThereError if answer.status in _NOT_THERE else PeerError
            raise kind(
                f"{self._root} must accept {method} {url.path}",
                f"status {answer.status}",
                _remedy(answer.status),
            )
        return text


def _root(url: str) -> URL:
    """The service root, without a slash at its end."""
    try:
        root = URL(url.rstrip("/"))
    except ValueError:
        root = URL("")
    if root.scheme not in ("http", "https") or not root.host or root.user or root.query_string:
        raise SettingsError(
            "connect.sensorthings.url must be the service root, like https://host/FROST-Server/v1.1",
            "nothing" if not url else "something else",
            "set it in [connect.sensorthings]; user, password and token have keys of their own",
        )
    return root


def _tls(settings: SensorThingsSettings) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except OSError as error:  # ssl.SSLError is one
        raise SettingsError(
            "connect.sensorthings.ca_file must be a readable PEM file", error, "check path and content"
        ) from error


async def _bounded(answer: aiohttp.ClientResponse) -> bytes:
    """The body; :class:`PeerError` where it is larger than anything we asked for."""
    parts, size = [], 0
    async for part in answer.content.iter_chunked(1 << 16):
        size += len(part)
        if size > _MOST_BYTES:
            raise PeerError(
                f"an answer must have at most {_MOST_BYTES >> 20} MiB",
                "a larger one",
                "set a smaller page in [connect.sensorthings]",
            )
        parts.append(part)
    return b"".join(parts)


def _asked_to_wait(retry_after: str) -> float:
    """Seconds of a header ``Retry-After``, a number or date (RFC 9110, 10.2.3); at most five minutes."""
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(retry_after).timestamp() - time.time()
        except (ValueError, TypeError):
            return 0.0
    return min(max(seconds, 0.0), _MOST_WAIT_SECONDS) if isfinite(seconds) else 0.0


def _remedy(status: int) -> str:
    if status in (401, 403):
        return "check username and password_file, or token_file, and what that user may do"
    if status == 404:
        return "check connect.sensorthings.url and the ids of the datastreams"
    if 300 <= status < 400:
        return "set connect.sensorthings.url to the address that it leads to; a login goes nowhere else"
    return "look at the service's own log"


def entity(kind: str, identity: str) -> str:
    """An entity of a collection by its id: a number as it stands, any other text in quotes.

    A text that looks like a number is given in quotes of its own: ``'7'``.
    """
    if identity.isdecimal() or (len(identity) > 2 and identity[0] == identity[-1] == "'"):
        return f"{kind}({identity})"
    return "{}('{}')".format(kind, identity.replace("'", "''"))
