"""The receiver of payloads over HTTP: read, mapped, made durable, and only then answered with 200."""

from __future__ import annotations

import asyncio
import logging
import math
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from http import HTTPStatus

from aiohttp import web

from models.text import parse_json
from stream_app.exceptions import InputError, OutputError
from stream_app.setup.run_folder.durable import AppendFile
from stream_app.setup.sections.http_settings import HttpSettings
from stream_app.starting.connect.http.commit_queue import CommitQueue
from stream_app.starting.connect.http.senders import Senders
from stream_app.starting.connect.journal import ContradictionError, CountJournal, NotOverError, Taken
from stream_app.starting.connect.payloads import PayloadMap
from stream_app.watching.web import HEADERS, Connections, listening_socket

logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
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
        """Receive until SIGINT or SIGTERM; ``is_listening`` is called with the address once it is open.

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
            for number in _SIGNALS:
                loop.add_signal_handler(number, closing.set)
            self._queue, self._connections = (
                CommitQueue(self._journal, self._letters),
                Connections(self._visit),
            )
            server = await loop.create_server(self._connections, sock=listening, ssl=self._senders.tls)
            tasks = [asyncio.create_task(work) for work in (self._queue.run(), self._connections.watch())]
            is_listening(address)
            await closing.wait()
            server.close()
            await self._connections.shutdown(_CLOSING_SECONDS)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

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

    async def _receive(self, request: web.BaseRequest) -> Taken:
        if request.method != "POST":
            raise _RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "payloads must be sent by POST")
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
