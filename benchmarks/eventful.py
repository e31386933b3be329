"""A long run with events: load rises and falls, people and workers come and go, the broker restarts.

Memory, open files and threads of the workers that stay are watched. Afterwards the topics are held against an
embedded run on the same messages: every release byte for byte, every record of the people who stayed bit for
bit.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.engine_run import SEED, draw_population
from benchmarks.kafka_load import PLACES, step_lines
from models.priors import Population
from stream_app.kafka.broker.clients import writing
from stream_app.kafka.tools.producing import Pace, produce
from stream_app.kafka.worker_process import EXIT_STALLED
from stream_app.setup.keys import load_pseudonym_key
from tests.kafka.broker import Broker
from tests.kafka.support import OnKafka, Process

RESIDENTS, VISITORS, SENSORS = 2_000, 1_000, 20
BUSY_STEPS, QUIET_STEPS = 2.0, 0.5  # a second
SAMPLE_SECONDS = 10.0
SETTLED_MINUTES = 10.0  # caches fill before that
AWAY_SECONDS = 8.0  # how long the broker is gone
_CHUNK_SECONDS = 5.0
RESIDENT_SET, OPEN_FILES, THREADS = "memory, MB", "open files", "threads"


@dataclass
class Watched:
    """What each process that stays used over time: ``used[quantity][process]`` beside ``minutes``."""

    minutes: list[float] = field(default_factory=list)
    used: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def growth(self, quantity: str, name: str) -> float:
        """Growth an hour by a straight line through what was seen after the caches filled."""
        minutes = np.array(self.minutes)
        settled = minutes >= min(SETTLED_MINUTES, minutes[-1] / 2)
        return float(np.polyfit(minutes[settled], np.array(self.used[quantity][name])[settled], 1)[0] * 60.0)

    def look(self, minute: float, processes: dict[str, Process]) -> None:
        """Enter what every process uses now."""
        self.minutes.append(minute)
        for name, process in processes.items():
            for quantity, value in usage(process).items():
                self.used.setdefault(quantity, {}).setdefault(name, []).append(value)


@dataclass
class EventfulReport:
    """What was done to the deployment, and what came of it."""

    minutes: float
    steps: int = 0
    events: dict[str, int] = field(default_factory=dict)
    watched: Watched = field(default_factory=Watched)
    steps_lost: int = 0
    releases_equal: bool = False
    records_compared: int = 0
    records_equal: bool = False
    contradictions: int = 0
    dead_letters: int = 0

    def count(self, event: str) -> None:
        """One more of these."""
        self.events[event] = self.events.get(event, 0) + 1

    @property
    def is_sound(self) -> bool:
        """Nothing lost, nothing twice, nothing refused, every risk that of the embedded run."""
        return (
            self.releases_equal
            and self.records_equal
            and self.steps_lost == self.contradictions == self.dead_letters == 0
        )


class _Load:
    """Sends steps at a pace that changes, until it is ended; what was sent is kept for the embedded run."""

    def __init__(self, deployment: OnKafka) -> None:
        self._deployment = deployment
        self._lines: Iterator[bytes] = step_lines(10**9, SENSORS)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send, name="load")
        self.steps_per_second = BUSY_STEPS
        self.sent: list[bytes] = []
        self.steps = 0

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _send(self) -> None:
        with writing(self._deployment.connection) as producer:
            while not self._ended.is_set():
                steps = max(1, round(self.steps_per_second * _CHUNK_SECONDS))
                chunk = list(itertools.islice(self._lines, steps * (SENSORS + 1)))
                self.sent += chunk
                self.steps += steps
                topics, pace = self._deployment.topics, Pace(self.steps_per_second)
                produce(producer, topics, chunk, pace, paced="steps")


class _Events:
    """What happens, each thing at its own period."""

    def __init__(self, server: Broker, deployment: OnKafka, load: _Load, report: EventfulReport) -> None:
        self._server = server
        self._deployment = deployment
        self._load = load
        self._report = report
        self._visitors = visitors()
        self._are_here = False
        self._helper: Process | None = None
        self._periods: list[tuple[float, Callable[[], None]]] = [
            (3.0, self._change_workers),
            (4.0, self._change_load),
            (5.0, self._change_people),
            (10.0, self._restart_broker),
        ]
        self._due = [period for period, _ in self._periods]

    def happen(self, minute: float) -> None:
        """Everything that is due."""
        for index, (period, event) in enumerate(self._periods):
            if minute >= self._due[index]:
                self._due[index] += period
                event()

    def _change_load(self) -> None:
        is_busy = self._load.steps_per_second == BUSY_STEPS
        self._load.steps_per_second = QUIET_STEPS if is_busy else BUSY_STEPS
        self._report.count("load falls" if is_busy else "load rises")

    def _change_people(self) -> None:
        if self._are_here:
            self._deployment.load_people(remove_others=True)
        else:
            self._deployment.load_people(self._visitors, effective_from=self._load.steps)
        self._report.count("people leave" if self._are_here else "people join")
        self._are_here = not self._are_here

    def _change_workers(self) -> None:
        if self._helper is None:
            self._helper = self._deployment.start("account")
            self._report.count("an account worker joins")
        else:
            if not self._helper.is_running:
                self._report.count(_why_ended(self._helper))
            else:
                assert self._helper.stop() == 0, self._helper.text[-2000:]
            self._helper = None
            self._report.count("an account worker leaves")

    def _restart_broker(self) -> None:
        self._server.stop()
        time.sleep(AWAY_SECONDS)
        self._server.start()
        self._report.count("the broker restarts")


def residents() -> Population:
    """The people who stay."""
    return draw_population(np.random.default_rng(SEED), RESIDENTS, PLACES)


def visitors() -> Population:
    """The people who come and go, under ids of their own."""
    drawn = draw_population(np.random.default_rng(SEED + 1), VISITORS, PLACES)
    ids = [f"visitor {index}" for index in range(len(drawn))]
    return replace(drawn, people=tuple(ids))


def run_eventful(server: Broker, folder: Path, minutes: float) -> EventfulReport:
    """So many minutes of events, then the comparison."""
    report = EventfulReport(minutes)
    listed = [(f"s{index}", (index,)) for index in range(SENSORS)]
    settings: dict[str, Any] = {"horizon": 10, "mistakes": 1, "risk_every": 100}
    with OnKafka(folder, server.address, residents(), listed, **settings) as deployment:
        deployment.load_people()
        staying = {"release worker": deployment.start("release")}
        staying |= {f"account worker {number}": deployment.start("account") for number in (1, 2)}
        load = _Load(deployment)
        events = _Events(server, deployment, load, report)
        load.start()
        try:
            _watch(report, deployment, staying, events)
        finally:
            load.end()
        report.steps = load.steps
        deployment.wait_for_steps(load.steps, 600.0)
        _judge(report, deployment, load.sent)
    return report


def _watch(report: EventfulReport, deployment: OnKafka, staying: dict[str, Process], events: _Events) -> None:
    """Let everything happen at its time; a worker that the broker's restart ended is started again."""
    began = time.monotonic()
    while (minute := (time.monotonic() - began) / 60.0) < report.minutes:
        for name, process in staying.items():
            if not process.is_running:
                report.count(_why_ended(process))
                staying[name] = deployment.start(name.split()[0])
        report.watched.look(minute, staying)
        events.happen(minute)
        time.sleep(SAMPLE_SECONDS)


def _why_ended(process: Process) -> str:
    """What a worker may end of when the broker is restarted; it is started again."""
    if process.ended() == EXIT_STALLED:
        return "a worker that hears nothing after a restart is ended by its watchdog and started again"
    assert process.ended() == 1 and "started again" in process.text, process.text[-3000:]
    return "a worker whose transaction the restart broke ends and is started again"


def usage(process: Process) -> dict[str, float]:
    """What a process uses now."""
    status = Path(f"/proc/{process.pid}")
    threads = sum(1 for _ in (status / "task").iterdir())
    files = sum(1 for _ in (status / "fd").iterdir())
    return {RESIDENT_SET: process.resident_bytes / 2**20, OPEN_FILES: files, THREADS: threads}


def _judge(report: EventfulReport, deployment: OnKafka, lines: list[bytes]) -> None:
    """Hold what is on the topics against the embedded run of the people who stayed."""
    released = deployment.releases()
    expected, expected_risks = deployment.embedded(lines)
    report.releases_equal = released == expected
    report.steps_lost = max(report.steps - len(released), 0)
    pseudonyms = load_pseudonym_key(deployment.settings).pseudonyms(deployment.population.people)
    marks = {f'"person":"{name}"'.encode() for name in pseudonyms}
    written = [line for line in deployment.person_risks() if _person(line) in marks]
    report.records_compared = len(written)
    report.records_equal = written == expected_risks
    report.contradictions = len(written) - len({_subject(line) for line in written})
    report.dead_letters = len(deployment.values(deployment.topics.rejected))


def _person(line: bytes) -> bytes:
    """The part of a record that names the person."""
    return b'"person":' + line.split(b'"person":', 1)[1].split(b",", 1)[0]


def _subject(line: bytes) -> bytes:
    """Step and person of a record: what it may say once only."""
    return line.split(b',"risk":', 1)[0]


def page(report: EventfulReport) -> str:
    """The page of results."""
    happened = "\n".join(f"| {what} | {times} |" for what, times in report.events.items())
    names = list(report.watched.used[RESIDENT_SET])
    rows = [
        f"| {name} | {quantity} | {report.watched.used[quantity][name][-1]:.0f} "
        f"| {report.watched.growth(quantity, name):+.2f} |"
        for name in names
        for quantity in (RESIDENT_SET, OPEN_FILES, THREADS)
    ]
    yes = {True: "yes", False: "NO"}
    usage = "\n".join(rows)
    kept = f"records of people who stayed ({report.records_compared:,}), bit for bit likewise"
    return f"""# {report.minutes:.0f} minutes of events on a real broker

Made by `make soak`.

{report.steps:,} steps of {SENSORS} sensors, {QUIET_STEPS:g} to {BUSY_STEPS:g} a second.
{RESIDENTS:,} people stay, {VISITORS:,} come and go. One release worker and two account
workers, and a third that comes and goes.

| what happened | times |
|---|---:|
{happened}

| what | found |
|---|---:|
| steps lost | {report.steps_lost} |
| releases, byte for byte those of the embedded run | {yes[report.releases_equal]} |
| {kept} | {yes[report.records_equal]} |
| records written with two different contents | {report.contradictions} |
| dead letters | {report.dead_letters} |

| process | uses | at the end | growth an hour, after {SETTLED_MINUTES:.0f} minutes |
|---|---|---:|---:|
{usage}

![Memory, open files and threads of each process over time](soak.png)
"""


def draw(path: Path, watched: Watched) -> None:
    """One panel a quantity."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(len(watched.used), 1, figsize=(8, 7), sharex=True, layout="constrained")
    for panel, (quantity, processes) in zip(panels, watched.used.items(), strict=True):
        for name, values in processes.items():
            panel.plot(watched.minutes, values, label=name)
        panel.set(ylabel=quantity, ylim=(0, None))
        panel.grid(alpha=0.3)
    panels[-1].set_xlabel("minutes")
    panels[0].set_title("Load cycles, people and workers come and go, a broker restart every ten minutes")
    panels[0].legend(loc="lower right")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def table(watched: Watched) -> tuple[list[str], list[NDArray[np.float64]]]:
    """Header and columns of everything seen."""
    header, columns = ["minutes"], [np.array(watched.minutes)]
    for quantity, processes in watched.used.items():
        for name, values in processes.items():
            header.append(f"{name}: {quantity}")
            columns.append(np.array(values))
    return header, columns
