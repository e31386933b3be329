"""``tallyguard priors watch``: volunteers' true places held against priors, beside an engine on Kafka."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from stream_app.cli.shared.options import ConfigOption, JsonOption, ListenOption, PriorsArgument
from stream_app.cli.shared.output import print_json, stderr, stdout


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
    metrics are at the address `listen`; the alert TallyguardPriorsRefuted watches them. Horizon, mistakes and
    first_slot must be those of the deployment.

    \b
    Examples:
      tallyguard priors watch priors.parquet --config tallyguard.toml
      tallyguard priors watch priors.parquet --config tallyguard.toml --once
    """
    from models.prior_files import load_population
    from stream_app.cli.shared.command_settings import settings_of
    from stream_app.embedded import panel_of, watch_panel
    from stream_app.watching.prior_notes import panel_note

    settings = settings_of(config, {"listen": listen})
    panel = panel_of(settings, load_population(priors))
    if not once:
        watch_panel(panel, settings, every, lambda text: stderr().print(text, soft_wrap=True))
    panel.read()
    if json:
        print_json(asdict(panel.shown))
        return
    note = panel_note(panel.shown) or "too few places of volunteers to say anything yet"
    stdout().print(f"{note[:1].upper()}{note[1:]}.", soft_wrap=True)
