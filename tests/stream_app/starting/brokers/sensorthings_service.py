"""SensorThings services on loopback: one that answers as recorded, one that keeps what it is given.

``recorded/frost.json`` is a conversation of the connector's own requests with a real FROST server (built from
its repository: its war was not to be had from Maven Central), host and port replaced by ``{root}``.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.watching.services import free_port

ROOT = "/FROST-Server/v1.1"
RECORDED = Path(__file__).parent / "recorded" / "frost.json"


@contextmanager
def serving(handle: Any) -> Iterator[str]:
    """A server in a thread of its own while the block runs; the address of its root."""
    port, loop, ready = free_port(), asyncio.new_event_loop(), threading.Event()

    async def start() -> web.AppRunner:
        app = web.Application()
        served = handle if asyncio.iscoroutinefunction(handle) else handle.__call__  # a bare object is none
        app.router.add_route("*", ROOT + "/{rest:.*}", served)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        return runner

    def run() -> None:
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(start())
        ready.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(20)
    try:
        yield f"http://127.0.0.1:{port}{ROOT}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)


class Recorded:
    """Answers the requests of a part of the recorded conversation, in its order, and no others."""

    def __init__(self, part: str) -> None:
        self._left = json.loads(RECORDED.read_text())["parts"][part]
        self.unexpected: list[str] = []

    async def __call__(self, request: web.Request) -> web.Response:
        """The recorded answer."""
        path = request.raw_path.removeprefix(ROOT)
        body = json.loads(await request.text() or "null")
        expected = self._left[0] if self._left else {"method": None, "path": None, "body": None}
        if (request.method, path, body) != (expected["method"], expected["path"], expected["body"]):
            self.unexpected.append(f"{request.method} {path} {body}")
            return web.Response(status=400)
        self._left.pop(0)
        root = f"http://{request.host}{ROOT}"
        text = json.dumps(expected["answer"]).replace("{root}", root) if expected["answer"] else ""
        return web.Response(status=expected["status"], text=text, content_type="application/json")

    @property
    def is_over(self) -> bool:
        """Whether all was asked that was recorded."""
        return not self._left and not self.unexpected


class Datastreams:
    """A service with Observations in memory: filter on the start, order, pages with links, creation.

    ``failures`` are statuses (or ``"lost"``: done, and the answer never comes) given to the next requests,
    with ``failure_headers``. ``gives_links``, ``keeps_order``, ``zips`` and ``created`` (the status of a
    creation) are what services differ in; ``asked`` are the requests that came.
    """

    def __init__(self) -> None:
        self.failure_headers: dict[str, str] = {}
        self.gives_links = self.keeps_order = True
        self.zips = False
        self.created = 201
        self.asked: list[str] = []
        self.observations: dict[str, list[dict[str, Any]]] = {}
        self.failures: list[int | str] = []
        self.headers: list[str | None] = []
        self.link_to: str | None = None

    async def __call__(self, request: web.Request) -> web.Response:
        """The answer to one request."""
        self.headers.append(request.headers.get("Authorization"))
        self.asked.append(f"{request.method} {request.path_qs}")
        failure = self.failures.pop(0) if self.failures else None
        if isinstance(failure, int):
            return web.Response(status=failure, headers=self.failure_headers)
        identity = re.fullmatch(ROOT + r"/Datastreams\((.+)\)/Observations", request.path)
        if identity is None or identity[1] not in self.observations:
            return web.Response(status=404)
        kept = self.observations[identity[1]]
        if request.method == "POST":
            kept.append(json.loads(await request.text()))
            if failure == "lost":
                assert request.transport is not None
                request.transport.abort()
            return web.Response(status=self.created, headers={"Location": "Observations(7)"})
        answer = web.json_response(self._page(request, kept))
        if self.zips:
            answer.enable_compression(web.ContentCoding.gzip)
        return answer

    def _page(self, request: web.Request, kept: list[dict[str, Any]]) -> dict[str, Any]:
        query = request.query
        found = sorted(kept, key=lambda each: each["phenomenonTime"], reverse=" desc" in query["$orderby"])
        if not self.keeps_order:
            found = kept
        if "$filter" in query:
            since = query["$filter"].removeprefix("phenomenonTime ge ").replace(".000Z", "Z")
            found = [each for each in found if each["phenomenonTime"] >= since]
        skip, top = int(query.get("$skip", "0")), int(query["$top"])
        fields = query["$select"].split(",")
        page = [{name: each.get(name) for name in fields} for each in found[skip : skip + top]]
        document: dict[str, Any] = {"value": page}
        if skip + top < len(found) and self.gives_links:
            link = request.url.update_query({"$skip": str(skip + top)})
            document["@iot.nextLink"] = self.link_to or str(link)
        return document
