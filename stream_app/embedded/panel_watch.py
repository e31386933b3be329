"""The volunteers' panel in a process of its own, beside workers on Kafka, none of which has everybody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from select import select

from prometheus_client import CollectorRegistry, start_http_server

from accounting.audit.calibration import PanelCheck, RunningCheck
from models.priors import Population
from stream_app.embedded.panel import Panel
from stream_app.exceptions import SettingsError
from stream_app.setup.keys import require_private_panel
from stream_app.setup.settings import Settings
from stream_app.setup.signals import stop_on_signals
from stream_app.watching.prior_metrics import PriorMetrics
from stream_app.watching.web import parse_address


def panel_of(settings: Settings, population: Population) -> Panel:
    """The panel of the settings; :class:`SettingsError` where there is none, or others may read it."""
    if settings.panel is None:
        raise SettingsError(
            "panel must name the file of volunteers' true places",
            "no panel in the settings",
            'write panel = "panel.jsonl" into the settings file',
        )
    require_private_panel(settings)
    horizon = settings.horizon_settings(settings.first_slot)
    return Panel(
        settings.panel, population, PanelCheck(population, horizon, RunningCheck(settings.panel_level))
    )


def watch_panel(panel: Panel, settings: Settings, every: float, announce: Callable[[str], None]) -> None:
    """Look again every so many seconds, with the metrics at an address, until somebody asks to stop."""
    registry = CollectorRegistry()
    metrics = PriorMetrics(registry, settings.priors_check)
    with stop_on_signals() as request, _metrics_at(settings.listen, registry, announce):
        while not request.is_set:
            panel.read()
            metrics.panel_checked(panel.shown)
            select([request.wake], [], [], every)


@contextmanager
def _metrics_at(listen: str, registry: CollectorRegistry, announce: Callable[[str], None]) -> Iterator[None]:
    """The metrics at an address; nothing where that is empty."""
    if not listen:
        yield
        return
    host, port = parse_address(listen)
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as error:
        raise SettingsError(
            f"listen address {listen} must be free, and of this machine",
            error.strerror,
            "name another with --listen: the engine has one of its own",
        ) from error
    try:
        announce(f"metrics at http://{host}:{server.server_port}/metrics")
        yield
    finally:
        server.shutdown()
        server.server_close()
