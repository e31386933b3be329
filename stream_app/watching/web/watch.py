"""Watching a run: metrics, status and the web server of one engine, put together from its settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, ProcessCollector

from models.releases import Sensor
from stream_app.setup.settings import Settings
from stream_app.watching.events import Observer, Observers
from stream_app.watching.metrics import EngineMetrics
from stream_app.watching.web.people_board import PeopleBoard
from stream_app.watching.web.server import serve
from stream_app.watching.web.status import StatusBoard


@dataclass(frozen=True)
class Watch:
    """What to pass to a run as its observer, and where people can look; no address when nothing listens."""

    observer: Observer
    metrics: EngineMetrics
    board: StatusBoard
    registry: CollectorRegistry
    address: str | None


@contextmanager
def watching(
    settings: Settings,
    sensors: Sequence[Sensor],
    others: Sequence[Observer] = (),
    kind: type[EngineMetrics] = EngineMetrics,
) -> Iterator[Watch]:
    """Serve metrics, probes and page at ``settings.listen`` while the block runs; nowhere if it is empty."""
    registry, board = CollectorRegistry(), StatusBoard(tuple(sensors), settings.delta, settings)
    people = PeopleBoard(settings.page_token.get_secret_value()) if settings.page_token else None
    ProcessCollector(registry=registry)
    metrics = kind(registry, sensors, settings.thresholds, settings.delta, settings=settings)
    observer = Observers([metrics, board, *([people] if people else []), *others])
    if not settings.listen:
        yield Watch(observer, metrics, board, registry, None)
        return
    with serve(settings.listen, registry, board, people, settings) as server:
        yield Watch(observer, metrics, board, registry, server.address)
