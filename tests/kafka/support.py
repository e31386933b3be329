"""A small deployment on a broker: its files, its processes, what it wrote, and the embedded run beside it."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from models.prior_files import save_population
from models.priors import Population
from stream_app.city import CityOptions, build_city
from stream_app.embedded import RunOptions, run
from stream_app.kafka.broker.clients import consuming, records, writing
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.topic_checks import create_topics
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.deployment.deployment import Deployment, administration
from stream_app.kafka.tools.person_loading import load_people, write_locations
from stream_app.kafka.tools.producing import Pace, produce
from stream_app.setup.given_priors import as_set
from stream_app.setup.settings import Settings
from stream_app.setup.settings_sources import load_settings
from stream_app.wire import StepRelease
from tests import ROOT
from tests.copies import COMMAND_LINE, Copy
from tests.hex_keys import hex_key
from tests.kafka.faults import dying
from tests.toml_file import toml_of
from tests.watching.services import wait_until

SECRETS = {
    "TALLYGUARD_NOISE_KEY_SECRET": hex_key("11"),
    "TALLYGUARD_PSEUDONYM_KEY_SECRET": hex_key("22"),
    "TALLYGUARD_SNAPSHOT_KEY_SECRET": hex_key("33"),
}


class Process:
    """One worker; its output is in ``log``, ``code`` what Python runs."""

    copied = False  # tests make it a copy of one process; benchmarks start it as operators do

    def __init__(
        self, log: Path, arguments: Sequence[str], environment: Mapping[str, str], code: str = COMMAND_LINE
    ) -> None:
        self.log = log
        threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        environment = {**os.environ, **SECRETS, **threads, **environment}
        environment["PYTHONPATH"] = str(ROOT)
        self._process: subprocess.Popen[bytes] | Copy
        if self.copied and "LD_PRELOAD" not in environment:
            self._process = Copy(code, arguments, environment, log)
            return
        command = [sys.executable, "-c", code, *arguments]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=output, env=environment, cwd=log.parent
            )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def text(self) -> str:
        """Everything it has said."""
        return self.log.read_text()

    @property
    def resident_bytes(self) -> int:
        """Memory in use; 0 once it has ended."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def says(self, words: str) -> bool:
        return words in self.text

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """As when the machine dies."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """End in order; the exit code."""
        if self.is_running:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
        return self.ended()

    def ended(self, seconds: float = 300.0) -> int:
        """The exit code, once it ends by itself."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"a worker did not end: {self.text[-2000:]}")


_NUMBERS = itertools.count()


class OnKafka:
    """One deployment with a prefix of its own; a context manager that ends every process it started."""

    def __init__(
        self,
        folder: Path,
        servers: str,
        population: Population,
        sensors: Iterable[tuple[str, Sequence[int]]],
        *,
        with_topics: bool = True,
        regions: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        """``regions`` names the region of each sensor."""
        self.folder = folder
        self._with_topics = with_topics
        self.population = population
        folder.mkdir(parents=True, exist_ok=True)
        save_population(population, folder / "priors.json")
        write_locations(folder / "locations.txt", population.location_names)
        self.regions = dict(regions or {})
        listed: list[dict[str, Any]] = [{"name": name, "locations": list(where)} for name, where in sensors]
        for sensor in listed:  # versions before there were regions know no such key
            if sensor["name"] in self.regions:
                sensor["region"] = self.regions[sensor["name"]]
        (folder / "sensors.json").write_text(json.dumps({"sensors": listed}))
        self.config = folder / "tallyguard.toml"
        number_file = folder / "number"  # names of folders come again once a test has passed, topics do not
        if not number_file.exists():
            number_file.write_text(str(next(_NUMBERS)))
        prefix = f"{folder.parent.name}-{number_file.read_text()}.{folder.name}."
        self.config.write_text(_toml(servers, prefix, settings))
        self._processes: list[Process] = []

    def __enter__(self) -> OnKafka:
        if self._with_topics:
            with administration(self.connection) as admin:
                create_topics(admin, self.topics)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            if process.is_running:
                process.kill()

    @cached_property
    def settings(self) -> Settings:
        """As the workers have them."""
        flags = {key.removeprefix("TALLYGUARD_").lower(): value for key, value in SECRETS.items()}
        return load_settings(self.config, flags)

    @cached_property
    def connection(self) -> Connection:
        return Connection.of(self.settings.kafka)

    @cached_property
    def topics(self) -> Topics:
        return Topics.of(self.settings)

    @property
    def digest(self) -> str:
        """What decisions and people carry."""
        return Deployment.of(self.settings).digest

    def log_in_anew(self) -> None:
        """With the password that stands in its file by now."""
        for known in ("settings", "connection"):
            self.__dict__.pop(known, None)

    def load_people(self, population: Population | None = None, effective_from: int = 0, **more: Any) -> None:
        load_people(self.settings, population or self.population, effective_from, **more)

    def start(self, kind: str, *arguments: str, **environment: str) -> Process:
        """A worker: ``release``, ``account``, ``intake`` or ``coordinator``."""
        return self.command("worker", kind, *arguments, **environment)

    def command(self, *arguments: str, **environment: str) -> Process:
        """Any command with this deployment's settings."""
        return self.run_code(COMMAND_LINE, arguments, environment)

    def start_dying(self, kind: str, point: str, number: int) -> Process:
        """A worker that kills itself at a point of what it publishes; see :mod:`tests.kafka.faults.dying`."""
        return self.run_code(dying.CODE, (point, str(number), "worker", kind))

    def run_code(
        self, code: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Process:
        """Python with these arguments and this deployment's settings."""
        log = self.folder / f"{'-'.join(arguments[:2])}-{len(self._processes)}.log"
        process = Process(log, [*arguments, "--config", str(self.config)], environment or {}, code)
        self._processes.append(process)
        return process

    def produce(self, lines: Iterable[bytes], per_second: float | None = None) -> None:
        with writing(self.connection) as producer:
            ahead, pace = self.settings.max_ahead, Pace(per_second)
            produce(producer, self.topics, lines, pace, region_of=self.regions, max_ahead=ahead)

    def send(self, topic: str, value: bytes, key: bytes | None = None, partition: int | None = None) -> None:
        """One record, whatever it is."""
        with writing(self.connection) as producer:
            producer.send(topic, value, key=key, partition=partition)

    def values(self, topic: str) -> list[bytes]:
        """The committed records of a topic, partition by partition."""
        with consuming(self.connection) as consumer:
            return [record.value for record in records(consumer, topic)]

    def releases(self, topic: str | None = None) -> list[bytes]:
        """The public log, or another; of regions what they say of each step that is whole, put together."""
        topic = topic or self.topics.releases
        if not self.regions:
            return self.values(topic)
        parts = [StepRelease.model_validate_json(line) for line in self.values(topic)]
        decided = [json.loads(line)["decisions"] for line in self.values(self.topics.decisions)]
        whole = []
        for line in self.values(self.topics.whole):
            step = json.loads(line)["step"]
            own = [each for part in parts if part.step == step for each in part.releases]
            order = [each["sensor"] for each in decided[step]]
            own.sort(key=lambda each: order.index(each.sensor))
            whole.append(StepRelease(step=step, releases=tuple(own)).line().rstrip())
        return whole

    def steps_decided(self) -> int:
        """How many steps the log of decisions has."""
        with consuming(self.connection) as consumer:
            return max(
                (int(each.key) + 1 for each in records(consumer, self.topics.decisions, last=9)), default=0
            )

    def steps_accounted(self) -> int:
        """How many steps every partition has written the risks of."""
        written = dict.fromkeys(range(self.topics.partitions), 0)
        with consuming(self.connection) as consumer:
            for record in records(consumer, self.topics.risks, last=9):
                if b'"type":"risk_summary"' in record.value:
                    written[record.partition] = max(written[record.partition], int(record.key) + 1)
        return min(written.values())

    def person_risks(self) -> list[bytes]:
        """The distinct records of single people, sorted."""
        return sorted({line for line in self.values(self.topics.risks) if b'"type":"risk",' in line})

    def summaries(self) -> dict[tuple[int, int], set[bytes]]:
        """The summaries by step and partition: one each, if nothing went wrong."""
        found: dict[tuple[int, int], set[bytes]] = {}
        for line in self.values(self.topics.risks):
            if b'"type":"risk_summary"' in line:
                summary = json.loads(line)
                found.setdefault((summary["step"], summary["partition"]), set()).add(line)
        return found

    def wait_for_steps(
        self, steps: int, seconds: float = 900.0, watch: Callable[[], None] | None = None
    ) -> None:
        """Until every partition has written the risks of the last of so many steps."""
        written: dict[int, int] = {}

        def is_whole() -> bool:
            """Whether every region has published the last step."""
            whole = [*records(consumer, self.topics.whole, last=9)] if self.regions else []
            return not self.regions or any(int(record.key) >= steps - 1 for record in whole)

        def is_done() -> bool:
            if watch is not None:
                watch()
            for record in records(consumer, self.topics.risks, last=3):
                if b'"type":"risk_summary"' in record.value:
                    written[record.partition] = max(written.get(record.partition, -1), int(record.key))
            is_written = len(written) == self.topics.partitions and min(written.values()) >= steps - 1
            return is_written and is_whole()

        try:
            with consuming(self.connection) as consumer:
                wait_until(f"step {steps - 1} accounted in every partition", is_done, seconds)
        except pytest.fail.Exception:
            logs = "\n".join(f"{each.log.name}:\n{each.text[-1500:]}" for each in self._processes)
            pytest.fail(f"told {written}, released {len(self.releases())} of {steps}\n{logs}")

    def embedded(
        self, lines: Iterable[bytes], schedule: Path | None = None
    ) -> tuple[list[bytes], list[bytes]]:
        """Releases and records of single people of an embedded run on the same messages."""
        source, output = self.folder / "embedded.jsonl", self.folder / "embedded"
        source.write_bytes(b"".join(line + b"\n" for line in lines))
        people = as_set(self.settings, self.population)
        run(self.settings, RunOptions(output, source, schedule=schedule), people)
        risks = (output / "risks.jsonl").read_bytes().splitlines()
        return (
            (output / "releases.jsonl").read_bytes().splitlines(),
            sorted(line for line in risks if b'"type":"risk",' in line),
        )


def in_doubt(sensor: str) -> dict[str, Any]:
    """Settings of a crowd of personas whose numbers are uncertain, and of strangers beside them."""
    line = {"from_hour": 0, "until_hour": 24, "people": 40, "least_chance": 0.1, "most_chance": 0.4}
    return {
        "crowd.least": 0.9,
        "crowd.strangers.all-day.sensor": sensor,
        **{f"crowd.strangers.all-day.{name}": value for name, value in line.items()},
    }


def small_city(people: int, seed: int = 5) -> tuple[Population, list[tuple[str, Sequence[int]]], Any]:
    """Priors, sensors and messages of a simulated city; ``messages(steps)`` gives lines."""
    city = build_city(CityOptions(people=people, sensors=12, active=4, seed=seed))
    sensors: list[tuple[str, Sequence[int]]] = [
        (sensor.name, sensor.locations) for sensor in city.registry.sensors
    ]

    def messages(steps: int) -> list[bytes]:
        return [message.line().rstrip() for message in city.messages(steps)]

    return city.population, sensors, messages


def _toml(servers: str, prefix: str, settings: dict[str, Any]) -> str:
    """A settings file."""
    kafka = {"servers": servers, "prefix": prefix, "session_seconds": 2, **settings.pop("kafka", {})}
    release = settings.pop("release", {"mechanism": "gaussian", "sigma": 2.0})
    top = {
        "deployment": "test",
        "locations": "locations.txt",
        "sensors": "sensors.json",
        "horizon": 6,
        "mistakes": 2,
        "risk_every": 10,
        "sharpen_operations": 6_000_000,  # not enough for everybody
        "attack_draws": 100,
        "listen": "",
        **settings,
    }
    return toml_of({**top, "release": release, "kafka": kafka})
