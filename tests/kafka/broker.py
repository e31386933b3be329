"""A real Kafka broker on loopback: fetched by Maven once, started, stopped, killed and restarted by tests."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.watching.services import free_port, program

VERSION = "4.1.2"
OLDER_VERSION = "3.9.2"
_START_SECONDS = 180.0
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
_QUIET = (
    "handlers=java.util.logging.ConsoleHandler\n.level=WARNING\nkafka.server.KafkaRaftServer.level=INFO\n"
)


def jars(version: str = VERSION) -> Path:
    """The folder of the broker's jars, outside the tree; skips by name where Maven cannot bring them."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "tallyguard" / f"kafka-{version}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.parent / "maven.lock"):  # Maven's own folder is not for two at a time
        if not folder.is_dir():
            _fetch(version, folder)
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def loaded_classes(version: str) -> Path:
    """Classes as Java has them once they are loaded: with them a start takes two thirds of the processor.

    A first broker that is started and stopped writes them. Where it could not, Java starts without.
    """
    archive = jars(version) / "classes.jsa"
    with _locked(archive.with_suffix(".lock")), tempfile.TemporaryDirectory() as folder:
        if not archive.exists():
            unfinished = archive.with_suffix(".unfinished")
            first = Broker(Path(folder), version, with_classes=False)
            first.format()
            first.java_options.append(f"-XX:ArchiveClassesAtExit={unfinished}")
            first.start()
            first.stop()
            if unfinished.exists():
                unfinished.replace(archive)
    return archive


def _fetch(version: str, folder: Path) -> None:
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    command = [program("mvn"), "-q", "-B", "-f", str(Path(__file__).with_name("pom.xml"))]
    command += ["dependency:copy-dependencies", f"-Dkafka.version={version}"]
    fetched = subprocess.run(
        [*command, f"-DoutputDirectory={unfinished}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    if fetched.returncode != 0:
        shutil.rmtree(unfinished, ignore_errors=True)
        reason = f"Maven could not fetch Kafka {version}: {fetched.stdout[-300:]}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    unfinished.replace(folder)


class Broker:
    """One broker that is its own controller; ``extra`` are properties besides those of a small one."""

    def __init__(
        self,
        folder: Path,
        version: str = VERSION,
        extra: Mapping[str, str] | None = None,
        *,
        with_classes: bool = True,
    ) -> None:
        self.folder = folder
        self.port = free_port()
        self.controller_port = free_port()
        self.java_options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        if with_classes:
            self.java_options.append(f"-XX:SharedArchiveFile={loaded_classes(version)}")
        self.environment: Mapping[str, str] = {}
        self._jars = jars(version)
        self._properties = {**self._basic(), **(extra or {})}
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "logging.properties").write_text(_QUIET)

    @property
    def address(self) -> str:
        """What clients are told."""
        return f"127.0.0.1:{self.port}"

    @property
    def controller_listener(self) -> str:
        """The listener of the controller, as in the property ``listeners``."""
        return f"CONTROLLER://127.0.0.1:{self.controller_port}"

    def set(self, key: str, value: str) -> None:
        """Another property, from the next start on."""
        self._properties[key] = value

    def format(self, *arguments: str) -> None:
        """Prepare the storage, once."""
        self._write_properties()
        command = ["format", "-t", _CLUSTER, "-c", str(self.folder / "server.properties")]
        if "controller.quorum.voters" not in self._properties:
            command.append("--standalone")
        subprocess.run(
            [*self._java("kafka.tools.StorageTool"), *command, *arguments],
            check=True,
            capture_output=True,
            timeout=120,
        )

    def start(self) -> None:
        """Start and wait until it serves."""
        self.launch()
        self.wait_until_started()

    def launch(self) -> None:
        """Start, with the properties it has now."""
        self._write_properties()
        environment = {**os.environ, **self.environment}
        with self._log.open("wb") as output:
            command = [*self._java("kafka.Kafka"), str(self.folder / "server.properties")]
            self._process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env=environment
            )

    def wait_until_started(self) -> None:
        """Wait until it serves."""
        deadline = time.monotonic() + _START_SECONDS
        while b"Kafka Server started" not in self._log.read_bytes():
            is_running = self._process is not None and self._process.poll() is None
            if not is_running or time.monotonic() > deadline:
                pytest.fail(f"the broker did not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.1)

    def terminate(self) -> None:
        """Begin to shut down in order."""
        if self._process is not None:
            self._process.terminate()

    def stop(self) -> None:
        """Shut down in order."""
        self.terminate()
        if self._process is not None:
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def kill(self) -> None:
        """As when the machine dies."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def _log(self) -> Path:
        return self.folder / "broker.log"

    def _write_properties(self) -> None:
        lines = (f"{key}={value}\n" for key, value in self._properties.items())
        (self.folder / "server.properties").write_text("".join(lines))

    def _java(self, main: str) -> list[str]:
        logging = f"-Djava.util.logging.config.file={self.folder / 'logging.properties'}"
        return [program("java"), *self.java_options, logging, "-cp", f"{self._jars}/*", main]

    def _basic(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
            "auto.create.topics.enable": "false",
        }


@contextmanager
def broker(folder: Path, version: str = VERSION, extra: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """A broker while the block runs."""
    made = Broker(folder, version, extra)
    made.format()
    made.start()
    try:
        yield made
    finally:
        made.stop()
