"""Every parser of bytes from outside, in one table."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from accounting.continuous import ContinuousAccountant
from models.prior_files import load_population, save_population
from models.releases import StepSchedule
from stream_app.embedded.journal import Journal
from stream_app.embedded.restored_accounts import FILE, SnapshotCache
from stream_app.setup.release_settings import load_recipients
from stream_app.setup.run_folder.progress import ProgressLog
from stream_app.setup.schedule_files import load_schedule
from stream_app.setup.sensor_files import load_registry
from stream_app.setup.settings_sources import load_settings
from stream_app.steps.window import Origin
from stream_app.watching.events import RunStarted
from stream_app.watching.web.answers import Site, respond
from stream_app.watching.web.status import PeopleBoard, StatusBoard
from stream_app.wire.inputs import LineReader, load_activations, reading_parser
from stream_app.wire.messages import PRIVATE_REASONS, Outcome, Reading, Readings, Rejected
from stream_app.wire.parsing import parse
from tests.fuzzing.aggregates import AGGREGATES
from tests.fuzzing.check import COUNT, PERSON, TOKEN, Target, door
from tests.fuzzing.columns import COLUMNS
from tests.fuzzing.files import as_file, memory_folder, remove_folder
from tests.fuzzing.sockets import SOCKET
from tests.fuzzing.studies import STUDIES
from tests.fuzzing.topics import TOPICS
from tests.stream_app.any_message import parse_any
from tests.stream_app.engine_support import (
    NAMES,
    REGISTRY,
    accountant,
    committed,
    engine,
    lines_of,
    messages_of_a_day,
    population,
    run_on,
)


def clean_up() -> None:
    """Remove what targets wrote."""
    remove_folder()
    for made in (_run, _manifest):
        made.cache_clear()


def _csv(data: bytes) -> list[object]:
    """The first line as a header, the others as rows."""
    header, *lines = data.split(b"\n")
    row = reading_parser(header)
    return [row(line, "fuzz:1") for line in lines]


@cache
def _accountant() -> ContinuousAccountant:
    """An accountant that nobody moves on."""
    return accountant()


def _stream(data: bytes) -> list[Rejected]:
    """Bytes as the input of an engine; every line must become something."""
    target = engine(accounts=_accountant())
    rejected: list[Rejected] = []
    lines = readings = outcomes = 0
    for line in LineReader("fuzz", [data[:100], data[100:]]):
        if line.data is None:
            continue
        lines += 1
        message = parse(line.data, f"fuzz:{line.number}")
        if isinstance(message, Rejected):
            rejected.append(message)
            continue
        receipt = target.receive(message, Origin("fuzz", line.data))
        if isinstance(message, Readings):  # of which some may be no readings
            private = sum(each.reason in PRIVATE_REASONS for each in receipt.rejected)
            refused = len(receipt.rejected) - private - receipt.outcomes.count(Outcome.REJECTED)
            readings += len(message.counts) - refused
        readings += isinstance(message, Reading)
        outcomes += len(receipt.outcomes)
        rejected += receipt.rejected
    waiting = list(target.drain())
    assert readings == outcomes + len(waiting), "a reading was lost"
    assert lines == data.count(b"\n") + (not data.endswith(b"\n") and data != b""), "a line was lost"
    return rejected + waiting


def _any_message(data: bytes) -> object:
    """A message of the contract, as tools read it."""
    try:
        return parse_any(data)
    except ValidationError:
        return None


def _folder_with(name: str) -> Callable[[bytes], object]:
    """A restart on an output folder in which one file has other content."""

    def call(data: bytes) -> None:
        folder = memory_folder() / "run"
        if not folder.exists():
            shutil.copytree(_run(), folder)
        before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        (folder / name).write_bytes(data)
        try:
            _restart(folder)
        finally:
            for path, content in before.items():
                path.write_bytes(content)

    return call


@cache
def _run() -> Path:
    """An output folder to begin with."""
    folder = memory_folder() / "seed"
    run_on(folder, [lines_of(messages_of_a_day(6, 1, faults=True))], keep_open=True)
    log = ProgressLog(folder)
    fields, window = dict(log.commit_read), dict(log.commit_read["window"])
    window["close_through"], steps = 0, window.pop("steps")
    log.write({**fields, "window": window}, {3: {**steps[-1], "step": 3, "counts": {"A": 1, "B": COUNT}}})
    log.write(
        {**fields, "window": window}, {0: None, 4: {**steps[-1], "step": 4, "waiting": {"C": [1, "x"]}}}
    )
    log.close()
    return folder


@cache
def _manifest() -> dict[str, object]:
    return dict(json.loads((_run() / "run.json").read_bytes()))


def _restart(folder: Path) -> None:
    """Open a folder as a run does, up to the first message."""
    wanted = {key: value for key, value in _manifest().items() if key != "format"}
    journal = Journal(folder, wanted)
    try:
        list(journal.decisions(0, journal.position.next_step))
        engine(accounts=_accountant()).intake.window.load(journal.last_commit.window)
        list(LineReader("fuzz", [], journal.last_commit.position or None, is_fleeting=True))
    finally:
        journal.close()


@cache
def _snapshot() -> bytes:
    ahead = accountant()
    ahead.apply(StepSchedule(0))
    return ahead.snapshot()


def _stored_snapshot() -> bytes:
    """A snapshot as a folder keeps it."""
    folder = memory_folder() / "kept"
    folder.mkdir(exist_ok=True)
    (folder / "decisions.jsonl").write_bytes(b"one\n")
    ahead = accountant()
    ahead.apply(StepSchedule(0))
    SnapshotCache(folder, {}, 1.0).save(ahead, committed(folder))
    return (folder / FILE).read_bytes()


@cache
def _site() -> Site:
    """What a server tells, with a page for who holds the token."""
    board = StatusBoard()
    board.started(RunStarted(people=7, next_step=0))
    return Site(CollectorRegistry(), board, PeopleBoard(TOKEN), None)


def _request(data: bytes) -> None:
    """Target and authorization of a request, on a line each, as a server hands them on."""
    target, _, authorization = data.decode("utf-8", "surrogateescape").partition("\n")
    answer = respond(target, authorization, _site())
    assert answer.status < 500 or answer.status == HTTPStatus.SERVICE_UNAVAILABLE, "an error of the server"
    assert TOKEN.encode() not in answer.body, "the token is told"
    if answer.status == HTTPStatus.OK and urlsplit(target).path == "/people.json":
        assert authorization.removeprefix("Bearer ") == TOKEN, "people are told without the token"


@cache
def _restored() -> ContinuousAccountant:
    """One for all inputs: restoring takes over a whole state, or nothing."""
    return accountant()


def _cached_state(data: bytes) -> None:
    """A snapshot as a restart finds it: used or not, never an error."""
    folder = memory_folder() / "cache"
    folder.mkdir(exist_ok=True)
    (folder / "decisions.jsonl").write_bytes(b"one\n")
    (folder / FILE).write_bytes(data)
    SnapshotCache(folder, {}, 1.0).restore(_restored(), 1)


def _priors(suffix: str) -> tuple[bytes, ...]:
    path = memory_folder() / f"seed{suffix}"
    save_population(population(2), path)
    return (path.read_bytes(),)


def _json(*documents: object) -> tuple[bytes, ...]:
    return tuple(json.dumps(document).encode() for document in documents)


MESSAGES = (
    f'{{"v":1,"type":"reading","step":3,"sensor":"A","count":{COUNT}}}'.encode(),
    b'{"v":1,"type":"activation","step":3,"sensors":["A","B"]}',
    f'{{"v":1,"type":"readings","step":3,"counts":{{"A":{COUNT},"B":4}}}}'.encode(),
)
_DAY = b"\n".join([*MESSAGES, *(message.replace(b"3", b"4") for message in MESSAGES), MESSAGES[0]]) + b"\n"
_PERSON = {"person": PERSON, "transition": [[0.5, 0.5], [0.25, 0.75]]}
_LOCAL = {
    "person": PERSON,
    "places": [1, 3],
    "initial": [0.5, 0.5],
    "transitions": [[[1, 0], [0, 1]], {"row": [0, 1], "col": [1, 0], "probability": [1, 1]}],
}
_REQUESTS = (
    b"/people.json?threshold=0.5\nBearer canary-token",
    b"/why.json?person=%61bc\nBearer canary-token",
    b"/metrics\n",
    b"http://localhost/state.json\n",
    b"http://[\n",
    b"/people.json\nBearer other",
)
_SCHEDULE = {
    "first_slot": 1,
    "steps": [
        {"sensors": [0, "B"], "mechanism": "gaussian", "sigma": 1.0},
        {"sensors": []},
        {"releases": [{"sensor": 2, "mechanism": "raw"}, {"sensor": "D", "mechanism": "suppressed"}]},
        {"sensors": ["A"], "mechanism": "tiered", "public": 0.2, "partner": 1.0},
    ],
}
_SENSORS = {"sensors": [{"name": "s1", "locations": [0, "B"], "group": "g", "x": 0.4, "y": 1.9}]}
_SENSORS_ON_MAP = [{"name": "s2", "locations": ["C"], "lat": 48.1, "lon": 11.5}]
_SETTINGS = b"""
deployment = "city"
step_seconds = 60
origin = 2026-01-01T00:00:00Z
grace = 2
horizon = 8
thresholds = [0.1, 0.5]
[release]
mechanism = "gaussian"
sigma = 2.0
[release.sensors.B]
mechanism = "raw"
[release.groups.homes]
mechanism = "tiered"
tiers = { public = 0.2, partner = 1.0 }
[kafka]
servers = "localhost:9092"
prefix = "city."
partitions = 4
"""
_RECIPIENTS = b"""
owner = "city"
distance = "shortest-path"
epsilon = { reciprocal = 1.0 }
allowed = { public = 0.2, press = 0.5, partner = 1.0 }
edges = [["city", "transit"], ["transit", "press", 2.0]]
"""
_ANY = (
    *(message.line() for message in messages_of_a_day(3, 1)),
    b'{"v":1,"type":"release","step":0,"releases":[{"sensor":"A","mechanism":"raw","value":4810397}]}',
    b'{"v":1,"type":"decision","step":0,"decisions":[{"sensor":"A","mechanism":"gaussian","parameters":{"sigma":1.0}}]}',
    b'{"v":1,"type":"risk","step":0,"person":"canary-person","risk":0.1,"baseline":0.1,"added":0.0,"by":"moment"}',
)


def _in_folder(name: str) -> Callable[[str], Target]:
    """One file of an output folder that a run is started on again."""
    return lambda door: Target(door, ((_run() / name).read_bytes(),), _folder_with(name), quick_inputs=1000)


# Errors of a priors file name the person, for whoever holds the file has to find the line.
_NAMES_PEOPLE = {"secrets": (COUNT,)}

DOORS: dict[str, Callable[[str], Target]] = {
    "message": door(lambda data: parse(data, "fuzz:1"), *MESSAGES),
    "stream of messages": door(_stream, _DAY),
    "any message": door(_any_message, *MESSAGES, *_ANY),
    "CSV of readings": door(
        _csv, f"step,sensor,count\n1,A,{COUNT}\n2,B,4".encode(), b"count,step,sensor\n1,2,A"
    ),
    "CSV of activations": door(
        as_file("activations.csv", lambda path: load_activations(path, REGISTRY)),
        b"step,sensor\n0,A\n0,B\n1,A\n",
        b"sensor,step,note\nA,1,x\n",
    ),
    "schedule": door(as_file("schedule.json", lambda path: load_schedule(path, REGISTRY)), *_json(_SCHEDULE)),
    "sensors, JSON": door(
        as_file("sensors.json", lambda path: load_registry(path, NAMES)), *_json(_SENSORS, _SENSORS_ON_MAP)
    ),
    "sensors, CSV": door(
        as_file("sensors.csv", lambda path: load_registry(path, NAMES)),
        b"name,locations,group,x,y\ns1,0;B,g,0.4,1.9\ns2,2,,,\n",
        b"name,locations,lat,lon\ns,C,48.1,11.5\n",
    ),
    "recipients": door(as_file("recipients.toml", load_recipients), _RECIPIENTS),
    "settings": door(as_file("tallyguard.toml", load_settings), _SETTINGS),
    "priors, JSON": door(
        as_file("priors.json", load_population),
        *_json({"people": [_PERSON]}, {"locations": list(NAMES), "people": [_LOCAL]}),
        **_NAMES_PEOPLE,
    ),
    "priors, Parquet": lambda name: Target(
        name, _priors(".parquet"), as_file("priors.parquet", load_population), **_NAMES_PEOPLE
    ),
    **COLUMNS,
    **TOPICS,
    "HTTP request": door(_request, *_REQUESTS, secrets=(TOKEN,)),
    **SOCKET,
    "snapshot": lambda name: Target(
        name, (_snapshot(),), lambda data: _restored().restore(data), quick_inputs=500
    ),
    "snapshot in a folder": lambda name: Target(name, (_stored_snapshot(),), _cached_state, quick_inputs=500),
    "progress.json": _in_folder("progress.json"),
    "progress.jsonl": _in_folder("progress.jsonl"),
    "run.json": _in_folder("run.json"),
    "decisions.jsonl": _in_folder("decisions.jsonl"),
    "releases.jsonl": _in_folder("releases.jsonl"),
    **STUDIES,
    **AGGREGATES,
}
"""The table: how to make each target by the name of its door, since some seeds are files first."""
