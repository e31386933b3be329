"""A command's settings, and what follows from them before it does anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stream_app.kafka.broker.connection import Connection
    from stream_app.kafka.broker.topics import Topics
    from stream_app.setup.settings import Settings


def settings_of(config: Path | None, flags: Mapping[str, object] | None = None) -> Settings:
    """The settings of file, environment and flags; from here on the command logs as they say."""
    from stream_app.setup.logs import start_logging
    from stream_app.setup.settings_sources import load_settings

    settings = load_settings(config, flags)
    start_logging(settings.log)
    return settings


def topics_and_connection(config: Path | None) -> tuple[Topics, Connection]:
    """The topics of the settings, and the way to the broker."""
    from stream_app.kafka.broker.connection import Connection
    from stream_app.kafka.broker.topics import Topics

    settings = settings_of(config)
    return Topics.of(settings), Connection.of(settings.kafka)
