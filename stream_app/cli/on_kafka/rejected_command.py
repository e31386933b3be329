"""``tallyguard rejected``: dead letters on Kafka."""

from __future__ import annotations

from typing import Annotated

import typer

from stream_app.cli.shared import ConfigOption, JsonOption, print_json, stdout, topics_and_connection

rejected = typer.Typer(name="rejected", help="Dead letters on Kafka.", no_args_is_help=True)

ReasonOption = Annotated[str | None, typer.Option(help="Only those refused for this reason.")]


@rejected.callback()
def _group() -> None:
    """Dead letters on Kafka."""


@rejected.command(name="list")
def list_letters(
    config: ConfigOption = None,
    reason: ReasonOption = None,
    json: JsonOption = False,
) -> None:
    """Show refused messages with reason and hint.

    Payloads hold counts: not for everybody's eyes.

    \b
    Examples:
      tallyguard rejected list --config tallyguard.toml
      tallyguard rejected list --config tallyguard.toml --reason late_reading --json
    """
    from collections import Counter

    from stream_app.kafka.broker.clients import consuming
    from stream_app.kafka.tools.dead_letters import dead_letters

    topics, connection = topics_and_connection(config)
    with consuming(connection) as consumer:
        found = list(dead_letters(consumer, topics, reason=reason))
    if json:
        print_json([{"offset": each.offset, **each.letter.model_dump(mode="json")} for each in found])
        return
    for each in found:
        letter = each.letter
        stdout().print(f"{each.offset:>6}  {letter.reason}  {letter.source}", markup=False)
        stdout().print(f"        {letter.payload}\n        {letter.hint}", markup=False)
    counts = Counter(each.letter.reason.value for each in found)
    summary = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    stdout().print(f"{len(found)} dead letters{': ' if found else ''}{summary}")


@rejected.command()
def resubmit(
    offsets: Annotated[list[int] | None, typer.Argument(help="Offsets as listed.")] = None,
    config: ConfigOption = None,
    reason: ReasonOption = None,
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    json: JsonOption = False,
) -> None:
    """Send refused messages again, once the cause is mended.

    They go to the topics they came from. What was entered meanwhile is recognised as a repetition; what is
    too late stays refused.

    \b
    Examples:
      tallyguard rejected resubmit 17 18 --config tallyguard.toml
      tallyguard rejected resubmit --reason unknown_sensor --config tallyguard.toml
    """
    from stream_app.kafka.broker.clients import consuming, writing
    from stream_app.kafka.tools.dead_letters import dead_letters
    from stream_app.kafka.tools.dead_letters import resubmit as send

    if not (offsets or reason or every):
        raise typer.BadParameter("say which: offsets, --reason or --all")
    topics, connection = topics_and_connection(config)
    with consuming(connection) as consumer, writing(connection) as producer:
        letters = dead_letters(consumer, topics, reason=reason, offsets=frozenset(offsets or ()))
        report = send(producer, topics, letters)
    if json:
        print_json({"sent": report.sent, "left": {str(key): why for key, why in report.left.items()}})
        return
    stdout().print(f"{report.sent} sent again, {len(report.left)} left")
    for offset, why in report.left.items():
        stdout().print(f"{offset:>6}  {why}", markup=False)
