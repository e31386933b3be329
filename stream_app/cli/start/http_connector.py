"""``tallyguard connect http``: payloads that counters and context brokers send."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli.shared.options import ConfigOption
from stream_app.cli.shared.output import own_command, stderr, stdout


def http(
    output: Annotated[
        Path,
        typer.Option(help="The connector's own folder; continued if it exists.", show_default=False),
    ],
    config: ConfigOption = None,
    listen: Annotated[
        str | None,
        typer.Option(
            help="Address to listen on, host:port. 127.0.0.1:9470 unless the settings say otherwise.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Receive payloads over HTTP by a declared mapping.

    Address, senders and mapping are in [connect.http] of the settings. A payload is answered with 200 once
    its counts are on disk, as a whole or not at all: killed at any moment, this loses nothing that it
    answered, and the same payload sent again changes nothing. What is about single people, images or devices
    is refused with a sentence. Stop it with Ctrl-C.

    The folder's messages.jsonl is what `tallyguard run --follow` reads.

    \b
    Examples:
      tallyguard connect http --config tallyguard.toml --output from-http
      tallyguard run --config tallyguard.toml --input from-http/messages.jsonl --follow --output out
    """
    from stream_app.cli.shared.command_settings import settings_of
    from stream_app.starting.connect import resolved_map
    from stream_app.starting.connect.http import Receiver
    from stream_app.starting.connect.intake import open_dead_letters
    from stream_app.starting.connect.journal import MESSAGES, announced_sensors, journal_of
    from stream_app.starting.connect.payloads import PayloadMap

    settings = settings_of(config)
    chosen = settings.connect.http
    if listen is not None:
        chosen = chosen.model_copy(update={"listen": listen})
    mapping = resolved_map(chosen.map)
    sensors = announced_sensors(settings, mapping, "connect.http.map")
    with journal_of(output, settings, mapping, sensors) as journal:
        receiver = Receiver(chosen, PayloadMap(mapping), journal, open_dead_letters(output))

        def say(address: str) -> None:
            stderr().print(f"receiving at {address}", soft_wrap=True)
            given = f"--config {config} " if config else ""
            stderr().print(
                f"read it with {own_command()} run {given}--input {output / MESSAGES} --follow --output out",
                soft_wrap=True,
            )

        receiver.run(say)
        ends = journal.ends
    taken = receiver.answered.pop(200, 0)
    stdout().print(
        f"{taken:,} payloads taken, {receiver.answered.total():,} refused.", soft_wrap=True, highlight=False
    )
    if ends is not None:
        stdout().print(ends, soft_wrap=True)
