"""``tallyguard serve``: the page of a finished run, a running one, a plan or an archive."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from pathlib import Path
from select import select
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli import shared as cli

if TYPE_CHECKING:
    from stream_app.analysis.served import RunReader, Source
    from stream_app.watching.web import Site


_ANSWER_SECONDS = 20.0  # that the address waits for the answer: that of a large plan comes later


def serve(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Output folder of a run, a deployment's folder, a schedule (.json), activations (.csv) "
            "or an archive of messages (.jsonl); may be repeated."
        ),
    ],
    priors: cli.PriorsOption = None,
    config: cli.ConfigOption = None,
    listen: cli.ListenOption = None,
) -> None:
    """Open the page on a run, a plan or an archive.

    The page of a running engine, also of a run that ended or goes on elsewhere: the answer by the rule, what
    each sensor revealed where and when, and the people, from the run's own files. What-if shows what
    other noise, another rule or fewer sensors would do; a plan that is taken is written as a settings file
    beside the deployment's, with a name and a reason. People and plans need a token: the setting page_token,
    or else one that is made for this session and stands in the address that is printed.

    \b
    Examples:
      tallyguard serve demo-output
      tallyguard serve out --config tallyguard.toml
      tallyguard serve out-2026 out-2027
      tallyguard serve tomorrow.json --priors priors.parquet --config tallyguard.toml
      tallyguard serve messages.jsonl --priors priors.parquet --config tallyguard.toml
    """
    from stream_app.analysis.served import Follower, sources
    from stream_app.setup.this_process import stop_on_signals
    from stream_app.watching.web import WebServer, listening_socket

    own = cli.settings_of(config, {"listen": listen})
    opened = list(sources(runs, priors, config))
    tokens = [each.page_token for each in (own, *(each.settings for each in opened)) if each.page_token]
    given = tokens[0] if tokens else None
    token = secrets.token_urlsafe(24) if given is None else given.get_secret_value()
    names = _names(opened)
    sites, readers = [], []
    for source, name in zip(opened, names, strict=True):
        site, reader = _site(source, name, token, names)
        sites.append(site)
        readers += [] if reader is None else [reader]
        if source.missing is not None:
            cli.say(f"{name}: without single people: {source.missing}")
    with ExitStack() as stack, stop_on_signals() as request:
        server = stack.enter_context(WebServer(listening_socket(own.listen or "127.0.0.1:0"), *sites))
        follower = Follower(readers)
        follower.start()
        stack.callback(follower.close)
        server.has_answers.wait(_ANSWER_SECONDS)
        if given is None:
            cli.say(f"Open {server.address}#token={token}")
            cli.say("The token in it shows people and takes plans; it ends with this command (Ctrl-C).")
        else:
            cli.say(f"Open {server.address}; people and plans need the page_token of the settings.")
        while not request.is_set:
            select([request.wake], [], [])


def _site(source: Source, name: str, token: str, names: tuple[str, ...]) -> tuple[Site, RunReader | None]:
    """What is at one name: boards that the source was read into."""
    from functools import partial

    from prometheus_client import CollectorRegistry

    from stream_app.analysis.served import Plans, RunReader, answer_of_run
    from stream_app.watching.events import Observers, RunStarted, RunStopped
    from stream_app.watching.metrics import EngineMetrics
    from stream_app.watching.web import PeopleBoard, Site, StatusBoard

    settings, sensors = source.settings, source.registry.sensors
    registry, board, people = (
        CollectorRegistry(),
        StatusBoard(sensors, settings.delta, settings),
        PeopleBoard(token),
    )
    metrics = EngineMetrics(registry, sensors, settings.thresholds, settings.delta, settings=settings)
    observer = Observers([metrics, board, people])
    plans = Plans(source.what_if) if len(source.population) else None
    others = names if len(names) > 1 else ()
    if source.folder is None:
        everybody = source.population.everybody
        observer.started(RunStarted(everybody, 0, note=source.kind))
        observer.stopped(RunStopped(0, f"{source.kind}: nothing of it was published"))
        answer = None if plans is None else plans.verdict
        return Site(registry, board, people, settings, answer, plans, name, others), None
    reader = RunReader(source, observer)
    reader.start()
    answer = partial(answer_of_run, source.folder)
    return Site(registry, board, people, settings, answer, plans, name, others), reader


def _names(opened: list[Source]) -> tuple[str, ...]:
    """A name each, in the address; the same one twice gets a number."""
    found: list[str] = []
    for source in opened:
        name, number = source.name, 1
        while name in found:
            number += 1
            name = f"{source.name} {number}"
        found.append(name)
    return tuple(found)
