"""``tallyguard tail``: the last messages of a topic, and those that come."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from stream_app.cli.shared import ConfigOption


class Tailed(StrEnum):
    """What may be looked at."""

    RELEASES = "releases"
    RISKS = "risks"
    REJECTED = "rejected"
    DECISIONS = "decisions"


def tail(
    what: Annotated[Tailed, typer.Argument(help="Which messages.")],
    config: ConfigOption = None,
    last: Annotated[int, typer.Option(help="How many of each partition to begin with.", min=0)] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
) -> None:
    """Print messages, one JSON a line; committed ones only.

    \b
    Examples:
      tallyguard tail releases --config tallyguard.toml --last 3
      tallyguard tail risks --config tallyguard.toml --follow | grep risk_summary
      tallyguard tail rejected --config tallyguard.toml
    """
    import sys

    from stream_app.cli.shared import topics_and_connection
    from stream_app.kafka.broker.clients import consuming, recent

    topics, connection = topics_and_connection(config)
    topic: str = getattr(topics, what.value)
    with consuming(connection) as consumer:
        for record in recent(consumer, topic, last, follow=follow):
            sys.stdout.write((record.value or b"").decode("utf-8", "replace") + "\n")
            sys.stdout.flush()
