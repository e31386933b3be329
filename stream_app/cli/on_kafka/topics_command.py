"""``tallyguard topics``: the deployment's topics on the broker, made and checked."""

from __future__ import annotations

import typer

from stream_app.cli.shared import ConfigOption, JsonOption, print_json, stdout, topics_and_connection

topics = typer.Typer(name="topics", help="The topics on Kafka.", no_args_is_help=True)


@topics.callback()
def _group() -> None:
    """The topics on Kafka."""


@topics.command()
def create(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Make the topics that are missing.

    Existing ones are left as they are.

    \b
    Examples:
      tallyguard topics create --config tallyguard.toml
      TALLYGUARD_KAFKA__SERVERS=broker:9092 tallyguard topics create --json
    """
    from stream_app.kafka.broker.topic_checks import create_topics
    from stream_app.kafka.deployment.deployment import administration

    wanted, connection = topics_and_connection(config)
    with administration(connection) as admin:
        made = create_topics(admin, wanted)
    if json:
        print_json(
            {"created": list(made), "existing": [p.name for p in wanted.plans() if p.name not in made]}
        )
        return
    for plan in wanted.plans():
        state = "created" if plan.name in made else "exists"
        stdout().print(f"{state:8} {plan.name}, {plan.partitions} partitions: {plan.holds}")


@topics.command()
def check(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Compare the broker's topics with what is needed.

    Exit 1 if anything differs.

    \b
    Examples:
      tallyguard topics check --config tallyguard.toml
      tallyguard topics check --json
    """
    from stream_app.kafka.broker.topic_checks import check_topics
    from stream_app.kafka.deployment.deployment import administration

    wanted, connection = topics_and_connection(config)
    with administration(connection) as admin:
        differences = check_topics(admin, wanted)
    if json:
        print_json([vars(difference) for difference in differences])
    else:
        for difference in differences:
            stdout().print(difference.sentence(), soft_wrap=True)
        if not differences:
            stdout().print(f"All {len(wanted.plans())} topics are as they must be.")
    if differences:
        raise SystemExit(1)


@topics.command()
def access(config: ConfigOption = None) -> None:
    """Print the access rules as commands of Kafka's own tool.

    Users are named like their roles.

    \b
    Examples:
      tallyguard topics access --config tallyguard.toml > access.sh
    """
    from stream_app.kafka.broker.topic_checks import commands

    wanted, connection = topics_and_connection(config)
    for command in commands(wanted, connection.servers[0]):
        typer.echo(command)
