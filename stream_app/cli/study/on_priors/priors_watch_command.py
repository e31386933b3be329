"""``tallyguard priors watch``: volunteers' true places held against priors, beside an engine on Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.shared.options import ConfigOption, JsonOption, ListenOption, PriorsArgument
from stream_app.cli.shared.output import print_json, stderr, stdout

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from stream_app.embedded.panel import Panel
    from stream_app.setup.settings import Settings
    from stream_app.watching.events import PanelChecked


def watch(
    priors: PriorsArgument,
    config: ConfigOption = None,
    every: Annotated[
        float, typer.Option(min=1.0, help="Seconds between two looks at the volunteers' file.")
    ] = 60.0,
    listen: ListenOption = None,
    once: Annotated[
        bool, typer.Option("--once", help="Read what there is, say what it shows and end.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Hold the priors against volunteers' true places as they come in.

    Where one process accounts everybody, `run` does this by itself. On Kafka people are spread over workers:
    this is one more process, which reads the priors and the file of the setting `panel` and nothing else. Its
    metrics are at the address `listen`; the alert TallyguardPriorsRefuted watches them. Horizon,
    mistakes and first_slot must be those of the deployment.

    \b
    Examples:
      tallyguard priors watch priors.parquet --config tallyguard.toml
      tallyguard priors watch priors.parquet --config tallyguard.toml --once
    """
    from accounting.audit.calibration import PanelCheck, RunningCheck
    from models.prior_files import load_population
    from stream_app.cli.shared.command_settings import settings_of
    from stream_app.embedded.panel import Panel
    from stream_app.exceptions import SettingsError
    from stream_app.setup.keys import require_private_panel

    settings = settings_of(config, {"listen": listen})
    if settings.panel is None:
        raise SettingsError(
            "panel must name the file of volunteers' true places",
            "no panel in the settings",
            'write panel = "panel.jsonl" into the settings file',
        )
    require_private_panel(settings)
    population, horizon = load_population(priors), settings.horizon_settings(settings.first_slot)
    check = PanelCheck(population, horizon, RunningCheck(settings.panel_level))
    panel = Panel(settings.panel, population, check)
    if not once:
        _serve(panel, settings, every)
    panel.read()
    if json:
        print_json(asdict(panel.told))
    else:
        stdout().print(_in_words(panel.told), soft_wrap=True)


def _serve(panel: Panel, settings: Settings, every: float) -> None:
    """Look again and again, with the metrics at an address, until somebody asks to stop."""
    from select import select

    from prometheus_client import CollectorRegistry

    from stream_app.embedded.signals import stop_on_signals
    from stream_app.watching.prior_metrics import PriorMetrics

    registry = CollectorRegistry()
    metrics = PriorMetrics(registry, settings.priors_check)
    with stop_on_signals() as request, _metrics_at(settings.listen, registry):
        while not request.is_set:
            panel.read()
            metrics.panel_checked(panel.told)
            select([request.wake], [], [], every)


@contextmanager
def _metrics_at(listen: str, registry: CollectorRegistry) -> Iterator[None]:
    """The metrics at an address; nothing where that is empty."""
    from prometheus_client import start_http_server

    from stream_app.exceptions import SettingsError
    from stream_app.watching.web.server import parse_address

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
            "name another with --listen or the setting listen, as the engine has one of its own",
        ) from error
    try:
        stderr().print(f"metrics at http://{host}:{server.server_port}/metrics")
        yield
    finally:
        server.shutdown()
        server.server_close()


def _in_words(told: PanelChecked) -> str:
    from stream_app.watching.prior_notes import panel_note

    note = panel_note(told) or "too few places of volunteers to say anything yet"
    return f"{note[:1].upper()}{note[1:]}."
