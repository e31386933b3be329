"""Payloads that counters and context brokers send over HTTP."""

from __future__ import annotations

import asyncio
import base64
import fnmatch
import hmac
import logging
import math
import re
import ssl
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, NamedTuple

from aiohttp import web

from models.exceptions import TallyguardError
from models.numerics.memory import give_memory_back
from models.text import parse_json
from stream_app.exceptions import InputError, OutputError, SettingsError
from stream_app.setup.run_folder.durable import AppendFile
from stream_app.setup.sections import HttpSettings
from stream_app.setup.this_process import stop_signals
from stream_app.starting.connect.journal import ContradictionError, CountJournal, NotOverError, TakenCounts
from stream_app.starting.connect.payloads import PayloadMap, SensorCount
from stream_app.watching.web import HEADERS, Connections, listening_socket

# Payloads that come while the disk is busy are made durable together: one wait for many of them.

logger = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    counts: Sequence[SensorCount]
    answer: asyncio.Future[TakenCounts]


class CommitQueue:
    """Gives payloads to a journal, which one thread at a time uses.

    ``letters`` are the dead letters of contradictions. They are written after all senders were answered, so
    that neither an answer nor its time depends on what was counted before.
    """

    def __init__(self, journal: CountJournal, letters: AppendFile) -> None:
        self._journal = journal
        self._letters = letters
        self._waiting: list[_Waiting] = []
        self._has_some = asyncio.Event()

    async def take(self, counts: Sequence[SensorCount]) -> TakenCounts:
        """What became of a payload, once that is on disk; :class:`TallyguardError` where it was not taken."""
        answer: asyncio.Future[TakenCounts] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(counts, answer))
        self._has_some.set()
        return await answer

    async def run(self) -> None:
        """Go on until cancelled; what was begun is finished."""
        while True:
            await self._has_some.wait()
            self._has_some.clear()
            batch, self._waiting = self._waiting, []
            work = asyncio.ensure_future(asyncio.to_thread(self._commit, [each.counts for each in batch]))
            try:
                results = await asyncio.shield(work)
                _give(batch, results)
            except asyncio.CancelledError:
                results = await work
                _give(batch, results)
                self._write_letters(results)
                raise
            await asyncio.to_thread(self._write_letters, results)

    def _commit(self, batch: Sequence[Sequence[SensorCount]]) -> list[TakenCounts | TallyguardError]:
        results: list[TakenCounts | TallyguardError] = []
        for counts in batch:
            try:
                results.append(self._journal.take(counts))
            except TallyguardError as error:
                results.append(error)
        try:
            self._journal.commit()
        except TallyguardError as error:
            return [each if isinstance(each, TallyguardError) else error for each in results]
        return results

    def _write_letters(self, results: Sequence[TakenCounts | TallyguardError]) -> None:
        for result in results:
            for letter in () if isinstance(result, TallyguardError) else result.letters:
                self._letters.append(letter.line())
        try:
            self._letters.sync()
        except OutputError as error:  # they stay for the next time
            logger.error("%s", error)


def _give(batch: Sequence[_Waiting], results: Sequence[TakenCounts | TallyguardError]) -> None:
    """Answer the senders that are still waiting."""
    for each, result in zip(batch, results, strict=True):
        if each.answer.done():
            continue
        if isinstance(result, TallyguardError):
            each.answer.set_exception(result)
        else:
            each.answer.set_result(result)


# Who may send, and for which sensors: tokens that are compared in constant time, certificates, or both.


@dataclass(frozen=True)
class Sender:
    """A sender, by its token or certificate; ``sensors`` match the names it may send for, None all names."""

    token: bytes | None = None
    certificate: str | None = None
    sensors: tuple[re.Pattern[str], ...] | None = None

    def is_known_by(self, token: bytes, names: frozenset[str]) -> bool:
        """Whether it is the sender with this token, compared in constant time, or with these names."""
        if self.token is not None:
            return hmac.compare_digest(token, self.token)
        return self.certificate is None or self.certificate in names

    def may_count(self, sensors: Iterable[str]) -> bool:
        """Whether it may send for all of these, whether or not there are such sensors."""
        if self.sensors is None:
            return True
        return all(any(pattern.match(name) for pattern in self.sensors) for name in sensors)


class Senders:
    """Everybody who may send; :class:`SettingsError` for settings by which anybody could."""

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
        """The sender with this token (Bearer, or Basic with any user name), or with this certificate.

        ``certificate`` is in the form of :mod:`ssl`, which checked it before any header was read. All senders
        are compared, so that the time taken does not tell which token was nearly right.
        """
        said, names = _said(authorization), _names_of(certificate)
        found = [each for each in self._senders if each.is_known_by(said, names)]
        return found[0] if found else None


def _pattern(name: str) -> re.Pattern[str]:
    """What a name with stars matches; fnmatch does not backtrack, so the time grows with the text alone."""
    return re.compile(fnmatch.translate(re.sub(r"[\[?]", r"[\g<0>]", name)))


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
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return given.strip().encode("utf-8", "surrogateescape")
    if scheme.lower() == "basic":
        with suppress(ValueError):
            return base64.b64decode(given, validate=True).partition(b":")[2]
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


# The receiver of payloads over HTTP: read, mapped, made durable, and only then answered with 200.

_CLOSING_SECONDS = 2.0
_MOST_SENTENCES = 100  # of refusals that are logged, each once


class _RefusedError(Exception):
    """What is answered instead of 200."""

    def __init__(self, status: HTTPStatus, sentence: str, headers: Mapping[str, str] = HEADERS) -> None:
        super().__init__(sentence)
        self.status, self.headers = status, headers


class Receiver:
    """One process that takes payloads for one journal until it is asked to stop.

    What it answers depends on who sends, what is sent and when, and on which intervals are known; on no
    count that was sent before.
    """

    def __init__(
        self, settings: HttpSettings, mapping: PayloadMap, journal: CountJournal, letters: AppendFile
    ) -> None:
        self._settings, self._mapping, self._journal = settings, mapping, journal
        self._letters = letters
        self._senders = Senders(settings)
        self.answered: Counter[int] = Counter()  # by status
        self._said: set[str] = set()

    def run(self, is_listening: Callable[[str], object] = lambda address: None) -> None:
        """Receive until a signal asks to stop; ``is_listening`` is called with the address once it is open.

        What has come in by then is made durable and answered.
        """
        listening = listening_socket(self._settings.listen)
        host, port = listening.getsockname()[:2]
        scheme = "http" if self._senders.tls is None else "https"
        if scheme == "http" and not host.startswith("127.") and host != "::1":
            logger.warning("payloads and the token cross the network in the clear; set certificate_file")
        address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"

        async def serve() -> None:
            loop, closing = asyncio.get_running_loop(), asyncio.Event()
            for number in stop_signals():
                loop.add_signal_handler(number, closing.set)
            self._queue = CommitQueue(self._journal, self._letters)
            self._connections = Connections(self._visit)
            is_listening(address)
            await self._connections.serve(
                closing, _CLOSING_SECONDS, self._queue.run(), sock=listening, ssl=self._senders.tls
            )

        give_memory_back()
        asyncio.run(serve())

    async def _visit(self, request: web.BaseRequest) -> web.StreamResponse:
        with self._connections.serving(request.protocol):
            try:
                taken = await self._receive(request)
                response = web.json_response({"taken": taken.new, "known": taken.known}, headers=HEADERS)
            except _RefusedError as error:
                self._say(str(error))
                response = web.json_response(
                    {"error": str(error)}, status=error.status, headers=error.headers
                )
                if request.content.at_eof() is False:
                    response.force_close()
            self.answered[response.status] += 1
            return response

    async def _receive(self, request: web.BaseRequest) -> TakenCounts:
        if request.method != "POST":
            only = {**HEADERS, "Allow": "POST"}
            raise _RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "payloads must be sent by POST", only)
        shown = None if request.transport is None else request.transport.get_extra_info("peercert")
        sender = self._senders.find(request.headers.get("Authorization", ""), shown)
        if sender is None:
            raise _RefusedError(
                HTTPStatus.UNAUTHORIZED,
                "the token must be one of the receiver's; send Authorization: Bearer TOKEN",
                {**HEADERS, "WWW-Authenticate": "Bearer"},
            )
        if request.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
            raise _RefusedError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a payload must be plain JSON; switch compression off"
            )
        body = await self._body(request)
        try:
            payload = parse_json(body)
        except ValueError:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "a payload must be JSON") from None
        try:
            counts = self._mapping.read(payload, request.path)
            if not sender.may_count(each.sensor for each in counts):
                raise _RefusedError(
                    HTTPStatus.FORBIDDEN,
                    "each sensor of a payload must be one that its sender may send for; see `sensors` of the "
                    "sender in [connect.http.senders]",
                )
            return await self._queue.take(counts)
        except NotOverError as error:
            again = {**HEADERS, "Retry-After": str(math.ceil(error.again_seconds))}
            raise _RefusedError(HTTPStatus.TOO_MANY_REQUESTS, str(error), again) from None
        except ContradictionError as error:
            raise _RefusedError(HTTPStatus.CONFLICT, str(error)) from None
        except InputError as error:
            raise _RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None
        except OutputError as error:
            logger.error("%s", error)
            raise _RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE, "the receiver cannot write; send it again later"
            ) from None

    async def _body(self, request: web.BaseRequest) -> bytes:
        most = self._settings.body_bytes
        too_long = _RefusedError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"a payload must have at most {most:,} bytes; send fewer counts in each, or raise body_bytes",
        )
        if (request.content_length or 0) > most:
            raise too_long
        if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")  # some senders wait for it
        pieces, length = [], 0
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                async for piece in request.content.iter_any():
                    length += len(piece)
                    if length > most:
                        raise too_long
                    pieces.append(piece)
        except TimeoutError:
            raise _RefusedError(
                HTTPStatus.REQUEST_TIMEOUT,
                f"a payload must come within {self._settings.body_seconds:g} s; send it again",
            ) from None
        return b"".join(pieces)

    def _say(self, sentence: str) -> None:
        """Log each reason for a refusal once, not for each payload."""
        if sentence not in self._said and len(self._said) < _MOST_SENTENCES:
            self._said.add(sentence)
            logger.warning("a payload was refused: %s", sentence)
