"""Commands of a deployment on Kafka: topics, people, workers, and what passes through the topics."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

from models.numerics.memory import give_memory_back
from models.text import number_of
from stream_app.cli import shared as cli

# ``tallyguard topics``: the deployment's topics on the broker, made and checked.

topics = cli.command_group("topics", "The topics on Kafka.")


@topics.command()
def create(config: cli.ConfigOption = None, json: cli.JsonOption = False) -> None:
    """Make the topics that are missing.

    Existing ones are left as they are.

    \b
    Examples:
      tallyguard topics create --config tallyguard.toml
      TALLYGUARD_KAFKA__SERVERS=broker:9092 tallyguard topics create --json
    """
    from stream_app.kafka.broker.topic_checks import create_topics
    from stream_app.kafka.deployment.deployment import administration

    wanted, connection = cli.topics_and_connection(config)
    with administration(connection) as admin:
        made = create_topics(admin, wanted)
    plans = wanted.plans()
    state = {plan.name: "created" if plan.name in made else "exists" for plan in plans}
    document = {"created": list(made), "existing": [p.name for p in plans if p.name not in made]}
    lines = (f"{state[p.name]:8} {p.name}, {number_of(p.partitions, 'partition')}: {p.holds}" for p in plans)
    cli.tell(json, document, *lines)


@topics.command()
def check(config: cli.ConfigOption = None, json: cli.JsonOption = False) -> None:
    """Compare the broker's topics with what is needed.

    Exit 1 if anything differs.

    \b
    Examples:
      tallyguard topics check --config tallyguard.toml
      tallyguard topics check --json
    """
    from stream_app.kafka.broker.topic_checks import check_topics
    from stream_app.kafka.deployment.deployment import administration

    wanted, connection = cli.topics_and_connection(config)
    with administration(connection) as admin:
        differences = check_topics(admin, wanted)
    said = [each.sentence() for each in differences]
    all_well = f"All {len(wanted.plans())} topics are as they must be."
    cli.tell(json, [vars(each) for each in differences], *(said or [all_well]))
    if differences:
        raise SystemExit(1)


@topics.command()
def access(config: cli.ConfigOption = None) -> None:
    """Print the access rules as commands of Kafka's own tool.

    Users are named like their roles.

    \b
    Examples:
      tallyguard topics access --config tallyguard.toml > access.sh
    """
    from stream_app.kafka.broker.topic_checks import commands

    wanted, connection = cli.topics_and_connection(config)
    for command in commands(wanted, connection.servers[0]):
        typer.echo(command)


# ``tallyguard persons``: who is accounted for on Kafka.

persons = cli.command_group("persons", "The people accounted for on Kafka.")


@persons.command()
def load(
    priors: Annotated[Path | None, typer.Argument(help="Movement priors, .json or .parquet.")] = None,
    config: cli.ConfigOption = None,
    city_people: Annotated[
        int | None, typer.Option(help="Load this many people of the simulated city instead.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulated city.")] = 20260,
    effective_from: Annotated[
        int | None,
        typer.Option(
            help="First step whose releases are accounted for people who are new. [default: the log's first]",
            min=0,
        ),
    ] = None,
    locations_file: Annotated[
        Path | None, typer.Option(help="Also write the location names there, for the workers.")
    ] = None,
    remove_others: Annotated[
        bool, typer.Option("--remove-others", help="Delete people who are not in the file.")
    ] = False,
    new_priors: cli.NewPriorsOption = None,
    by: cli.ByOption = None,
    reason: cli.ReasonOption = None,
    json: cli.JsonOption = False,
) -> None:
    """Send the priors of all people to the account workers.

    By pseudonym: ids stay in this process. For people who are there already with another prior, --new-priors
    and --reason must be given: they keep their first step, and all that was released since is accounted again
    under the new prior, or they begin anew. --effective-from is for people who were not here before; leave it
    out for people who were removed and come back. What changes once a step was decided is in the record of
    the deployment (tallyguard verify). Needs the pseudonym key; workers do not have it.

    \b
    Examples:
      tallyguard persons load priors.parquet --config tallyguard.toml --locations-file locations.txt
      tallyguard persons load priors.json --config tallyguard.toml --remove-others
      tallyguard persons load who-moved-here.json --config tallyguard.toml --effective-from 8760
      tallyguard persons load survey.parquet --config tallyguard.toml --new-priors redone --reason "survey"
      tallyguard persons load --config tallyguard.toml --city-people 2000
    """
    from models.prior_files import load_population
    from stream_app.city import CityOptions, build_city
    from stream_app.kafka.tools.person_loading import load_people, write_locations
    from stream_app.setup.given_priors import clock_warning
    from stream_app.setup.run_folder.record import Author
    from stream_app.watching.prior_notes import basis_note

    if (priors is None) == (city_people is None):
        raise typer.BadParameter("give a priors file or --city-people")
    settings = cli.settings_of(config)
    if priors is not None:
        population = load_population(priors)
    else:
        population = build_city(CityOptions(people=city_people or 0, seed=seed)).population
    if locations_file is not None:
        write_locations(locations_file, population.location_names)
    report = load_people(
        settings,
        population,
        effective_from,
        remove_others=remove_others,
        new_priors=new_priors,
        author=Author.given(by, reason),
        priors_file=None if priors is None else priors.name,
    )
    note = basis_note(len(population), population.assumed, settings.priors_check, settings.draws)
    if (warning := clock_warning(population, settings, settings.first_slot)) is not None:
        cli.remark(f"warning: {warning}")
    cli.tell(
        json,
        report._asdict(),
        f"{number_of(report.sent, 'person')} sent to {report.topic}, {report.removed:,} "
        f"removed. {report.known:,} were there before and keep their first step; the others count from "
        f"step {effective_from or 0} on.",
        *([] if report.words is None else [f"Recorded: {report.words}, from step {report.step:,} on."]),
        *([] if note is None else [f"Note: {note}."]),
    )


@persons.command()
def remove(
    people: Annotated[list[str] | None, typer.Argument(help="Ids, as in the priors file.")] = None,
    config: cli.ConfigOption = None,
    people_file: Annotated[
        Path | None, typer.Option(help="Ids, one a line: a command line can be seen by others.")
    ] = None,
    by: cli.ByOption = None,
    reason: cli.ReasonOption = None,
    json: cli.JsonOption = False,
) -> None:
    """Delete people: their priors at once, their accounts soon.

    Accounts go with the next snapshots. Nobody is removed if one of them is not there. Needs the pseudonym
    key. docs/how-to/run-a-cluster.md says when a person has left the brokers' disks.

    \b
    Examples:
      tallyguard persons remove p17 --config tallyguard.toml
      tallyguard persons remove --people-file who-objected.txt --config tallyguard.toml
    """
    from stream_app.kafka.tools.person_loading import remove_people
    from stream_app.kafka.tools.producing import file_lines
    from stream_app.setup.run_folder.record import Author

    if (not people) == (people_file is None):
        raise typer.BadParameter("give ids or --people-file")
    if people_file is not None:
        people = [line.decode("utf-8", "replace") for line in file_lines(people_file)]
    report = remove_people(cli.settings_of(config), people or (), Author.given(by, reason))
    removed = f"{number_of(report.removed, 'person')} removed from {report.topic}."
    cli.tell(json, report._asdict(), removed)


# ``tallyguard worker``: the processes of a deployment on Kafka.

worker = cli.command_group("worker", "Processes of a deployment on Kafka.")


ScheduleOption = Annotated[
    Path | None, typer.Option("--schedule", help="Schedule (JSON) whose mechanisms go before the settings'.")
]
AcceptChangesOption = Annotated[
    bool,
    typer.Option(
        "--accept-changes",
        help="Continue although sensors, places at the end, release policy or noise key changed, or input "
        "records are lost.",
    ),
]


@worker.command()
def release(
    config: cli.ConfigOption = None,
    schedule: ScheduleOption = None,
    listen: cli.ListenOption = None,
    accept_changes: AcceptChangesOption = False,
    by: cli.ByOption = None,
    reason: cli.ReasonOption = None,
) -> None:
    """Close steps, draw values, write the release log.

    Exactly one runs; a second one refuses to start. Sensors of several regions need a coordinator and intake
    workers in its place.

    \b
    Examples:
      tallyguard worker release --config tallyguard.toml
      TALLYGUARD_KAFKA__SERVERS=broker:9092 tallyguard worker release --config city.toml --listen 0.0.0.0:9464
    """
    _run_deciding("RELEASE", config, schedule, listen, accept_changes, by, reason)


@worker.command()
def intake(
    config: cli.ConfigOption = None,
    listen: cli.ListenOption = None,
    accept_changes: AcceptChangesOption = False,
) -> None:
    """Take in the counts of some regions, draw values, publish them.

    For sensors of several regions. Start as many as there are regions at most; they share out the regions by
    themselves. A coordinator decides for all of them.

    \b
    Examples:
      tallyguard worker intake --config tallyguard.toml
      tallyguard worker intake --config tallyguard.toml --listen 127.0.0.1:9466
    """
    from stream_app.kafka.workers import run_intake_worker

    settings = cli.settings_of(config, {"listen": listen})
    raise SystemExit(run_intake_worker(settings, accept_changes=accept_changes, announce=cli.remark))


@worker.command()
def coordinator(
    config: cli.ConfigOption = None,
    schedule: ScheduleOption = None,
    listen: cli.ListenOption = None,
    accept_changes: AcceptChangesOption = False,
    by: cli.ByOption = None,
    reason: cli.ReasonOption = None,
) -> None:
    """Decide for sensors of several regions, without seeing a count.

    Exactly one runs; a second one refuses to start. It needs no noise key.

    \b
    Examples:
      tallyguard worker coordinator --config tallyguard.toml
    """
    _run_deciding("COORDINATOR", config, schedule, listen, accept_changes, by, reason)


def _run_deciding(
    runner: str,
    config: Path | None,
    schedule: Path | None,
    listen: str | None,
    accept_changes: bool,
    by: str | None,
    reason: str | None,
) -> NoReturn:
    from stream_app.kafka.workers import run_deciding_worker
    from stream_app.setup.combinations import Runner
    from stream_app.setup.run_folder.record import Author

    raise SystemExit(
        run_deciding_worker(
            Runner[runner],
            cli.settings_of(config, {"listen": listen}),
            schedule,
            accept_changes=accept_changes,
            announce=cli.remark,
            author=Author.given(by, reason),
        )
    )


@worker.command()
def account(config: cli.ConfigOption = None, listen: cli.ListenOption = None) -> None:
    """Account every released step for its share of the people.

    The people are split into partitions. Start as many workers as there are partitions at most; they share
    out the people by themselves.

    \b
    Examples:
      tallyguard worker account --config tallyguard.toml
      tallyguard worker account --config tallyguard.toml --listen 127.0.0.1:9465
    """
    from stream_app.kafka.workers import run_account_worker

    raise SystemExit(run_account_worker(cli.settings_of(config, {"listen": listen}), announce=cli.remark))


# ``tallyguard produce``: messages onto the topics, at a rate.


def produce(
    config: cli.ConfigOption = None,
    input_file: Annotated[Path | None, typer.Option("--input", help="Messages, .jsonl.")] = None,
    checkins: Annotated[
        Path | None, typer.Option(help="Check-ins, .parquet or .csv, counted by sensor and step.")
    ] = None,
    city_people: Annotated[int | None, typer.Option(help="People of a simulated city to count.")] = None,
    steps: Annotated[int, typer.Option(help="Steps of the simulated city.", min=1)] = 48,
    seed: Annotated[int, typer.Option(help="Seed of the simulated city.")] = 20260,
    rate: Annotated[
        float | None, typer.Option(help="Messages a second; as fast as it goes if left out.", min=0.001)
    ] = None,
    steps_rate: Annotated[
        float | None, typer.Option("--steps-per-second", help="Steps a second instead.", min=0.001)
    ] = None,
    batch: Annotated[bool, typer.Option("--batch", help="Readings of a step in one message.")] = False,
    json: cli.JsonOption = False,
) -> None:
    """Write activations and readings to their topics.

    They come from a file, from check-ins or from a simulated city.

    \b
    Examples:
      tallyguard produce --config tallyguard.toml --input day.jsonl
      tallyguard produce --config tallyguard.toml --checkins checkins.parquet --steps-per-second 10
      tallyguard produce --config tallyguard.toml --city-people 2000 --steps 48 --rate 500 --batch
    """
    from stream_app.kafka.broker.clients import writing
    from stream_app.kafka.broker.connection import Connection
    from stream_app.kafka.broker.topics import Topics
    from stream_app.kafka.deployment.deployment import Deployment
    from stream_app.kafka.tools.producing import Pace, checkin_lines, city_lines, file_lines
    from stream_app.kafka.tools.producing import produce as write
    from stream_app.setup.sensor_files import regions_by_sensor
    from stream_app.wire import batched

    if sum(source is not None for source in (input_file, checkins, city_people)) != 1:
        raise typer.BadParameter("give exactly one of --input, --checkins and --city-people")
    if rate is not None and steps_rate is not None:
        raise typer.BadParameter("give --rate or --steps-per-second, not both")
    settings = cli.settings_of(config)
    lines: Iterable[bytes]
    if input_file is not None:
        lines = file_lines(input_file)
    elif checkins is not None:
        registry = Deployment.of(settings).registry
        when = (settings.step_seconds, settings.origin_seconds, settings.timezone)
        lines = checkin_lines(checkins, registry, *when)
    else:
        lines = city_lines(city_people or 0, steps, seed)
    with writing(Connection.of(settings.kafka)) as producer:
        report = write(
            producer,
            Topics.of(settings),
            batched(lines) if batch else lines,
            Pace(rate or steps_rate),
            paced="messages" if steps_rate is None else "steps",
            region_of=regions_by_sensor(settings.sensors),
            max_ahead=settings.max_ahead,
        )
    written = f"{number_of(report.activations, 'activation')} and {number_of(report.readings, 'reading')}"
    cli.tell(json, vars(report), f"{written} in {report.seconds:.1f} s")


# ``tallyguard tail``: the last messages of a topic, and those that come.


def tail(
    what: Annotated[
        Literal["releases", "risks", "rejected", "decisions", "totals"],
        typer.Argument(help="Which messages."),
    ],
    config: cli.ConfigOption = None,
    last: Annotated[int, typer.Option(help="How many of each partition to begin with.", min=0)] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing what comes.")] = False,
) -> None:
    """Print messages, one JSON a line; committed ones only.

    Totals are all that are complete, made of the published values as the setting totals says: those of
    `tallyguard run`.

    \b
    Examples:
      tallyguard tail releases --config tallyguard.toml --last 3
      tallyguard tail risks --config tallyguard.toml --follow | grep risk_summary
      tallyguard tail rejected --config tallyguard.toml
      tallyguard tail totals --config tallyguard.toml
    """
    from stream_app.kafka.broker.clients import consuming, recent

    if follow:
        give_memory_back()
    if what == "totals":
        _print_totals(config, follow=follow)
        return
    topics, connection = cli.topics_and_connection(config)
    topic: str = getattr(topics, what)
    with consuming(connection) as consumer:
        for record in recent(consumer, topic, last, follow=follow):
            sys.stdout.write((record.value or b"").decode("utf-8", "replace") + "\n")
            sys.stdout.flush()


def _print_totals(config: Path | None, *, follow: bool) -> None:
    """Those that are complete now; following them, each once, with the steps that complete them."""
    from stream_app.kafka.broker.clients import consuming
    from stream_app.kafka.deployment.deployment import Deployment
    from stream_app.kafka.tools.totals import totals_on_kafka

    deployment = Deployment.recorded(cli.settings_of(config))
    printed = 0
    with consuming(deployment.connection) as consumer:
        while True:
            found = [each.line() for each in totals_on_kafka(consumer, deployment)]
            sys.stdout.write(b"".join(found[printed:]).decode())
            sys.stdout.flush()
            printed = len(found)
            if not follow:
                return
            time.sleep(_TOTALS_SECONDS)


_TOTALS_SECONDS = 30.0  # all of the log is read again


# ``tallyguard fetch``: what a deployment on Kafka has published, as the folder of a run.


def fetch(
    output: Annotated[Path, typer.Argument(help="Folder of the copy; made, or added to.")],
    config: cli.ConfigOption = None,
    json: cli.JsonOption = False,
) -> None:
    """Copy a deployment's log from Kafka into a folder, to report on.

    Takes decisions, releases, late values, dead letters, people by pseudonym and the record of what held
    when, and accounts every step. Then report, ledger, export, verify, replay and serve read the folder as
    that of `tallyguard run`. Call it again, daily or before a report: it adds what is new, and completes a
    call that was interrupted. No run continues the folder. Needs the settings of the deployment, the rights
    of the role archive, and no key.

    Where people changed, steps before the change that were not fetched by then are taken as the account
    workers wrote them, which the broker keeps for 90 days; their quantiles are upper ends.

    \b
    Examples:
      tallyguard fetch city-copy --config tallyguard.toml
      tallyguard report city-copy --output report.html
      tallyguard ledger city-copy
    """
    from stream_app.kafka.deployment.deployment import Deployment
    from stream_app.kafka.tools.fetching import fetch as copy

    found = copy(Deployment.recorded(cli.settings_of(config)), output)
    late = f", {number_of(found.revised, 'late value')}" if found.revised else ""
    refused = f", {number_of(found.rejected, 'dead letter')}" if found.rejected else ""
    cli.tell(
        json,
        {**found._asdict(), "output": str(output)},
        f"{number_of(found.steps, 'step')} added{late}{refused}; {output} now has "
        f"{number_of(found.next_step, 'step')} and {number_of(found.people, 'person')}.",
        *(f"Not in it: {sentence}." for sentence in found.left_out),
    )


# ``tallyguard rejected``: dead letters on Kafka.

rejected = cli.command_group("rejected", "Dead letters on Kafka.")
RefusedForOption = Annotated[str | None, typer.Option(help="Only those refused for this reason.")]


@rejected.command(name="list")
def list_letters(
    config: cli.ConfigOption = None,
    reason: RefusedForOption = None,
    json: cli.JsonOption = False,
) -> None:
    """Show refused messages with reason and hint.

    Payloads hold counts: do not show them to everybody.

    \b
    Examples:
      tallyguard rejected list --config tallyguard.toml
      tallyguard rejected list --config tallyguard.toml --reason late_reading --json
    """
    from stream_app.kafka.broker.clients import consuming
    from stream_app.kafka.tools.dead_letters import dead_letters

    topics, connection = cli.topics_and_connection(config)
    with consuming(connection) as consumer:
        found = list(dead_letters(consumer, topics, reason=reason))
    document = [{"offset": each.offset, **each.letter.model_dump(mode="json")} for each in found]
    lines = [
        f"{each.offset:>6}  {each.letter.reason}  {each.letter.source}\n"
        f"        {each.letter.payload}\n        {each.letter.hint}"
        for each in found
    ]
    counts = Counter(each.letter.reason.value for each in found)
    summary = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    cli.tell(json, document, *lines, f"{len(found)} dead letters{': ' if found else ''}{summary}")


@rejected.command()
def resubmit(
    offsets: Annotated[list[int] | None, typer.Argument(help="Offsets as listed.")] = None,
    config: cli.ConfigOption = None,
    reason: RefusedForOption = None,
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    json: cli.JsonOption = False,
) -> None:
    """Send refused messages again, once the cause is fixed.

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
    topics, connection = cli.topics_and_connection(config)
    with consuming(connection) as consumer, writing(connection) as producer:
        letters = dead_letters(consumer, topics, reason=reason, offsets=frozenset(offsets or ()))
        report = send(producer, topics, letters)
    document = {"sent": report.sent, "left": {str(key): why for key, why in report.left.items()}}
    left = (f"{offset:>6}  {why}" for offset, why in report.left.items())
    cli.tell(json, document, f"{report.sent} sent again, {len(report.left)} left", *left)
