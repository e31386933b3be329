"""docker-compose.yml played on this machine: its commands, variables and files, without containers.

There is a real broker with the compose file's properties, every service of ours as a process, and a real
Prometheus with the committed configuration. What this cannot show is the image and the network around it.
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import ROOT
from tests.copies import COMMAND_LINE, Copy
from tests.deploy.files import SETTINGS, Document, compose
from tests.kafka.broker import Broker
from tests.watching.live_engine import COMPILE_SECONDS
from tests.watching.services import free_port, get, program, running, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("kafka")]
SERVICES = compose()["services"]
OF_THE_PLACE = ("listeners", "advertised.", "controller.", "log.dirs", "heap.opts", "node.id")


class Rehearsal:
    """The services of the compose file as processes, on free ports of loopback."""

    def __init__(self, folder: Path, broker: Broker, stack: ExitStack) -> None:
        self.folder, self._broker, self._stack = folder, broker, stack
        self.pages: dict[str, str] = {}
        make = [str(ROOT / "deploy/make-secrets.sh"), str(folder / "secrets")]
        subprocess.run(make, check=True, capture_output=True)

    def once(self, name: str) -> str:
        """Run a service to its end; what it said."""
        process = self._process(name, name)
        assert process.wait(COMPILE_SECONDS) == 0, process.log.read_text()
        return process.log.read_text()

    def start(self, name: str, number: int = 0) -> Copy:
        """Start a service that stays."""
        page = f"127.0.0.1:{free_port()}"
        self.pages[f"{name}-{number}"] = page
        process = self._process(name, f"{name}-{number}", TALLYGUARD_LISTEN=page)
        self._stack.callback(process.wait, COMPILE_SECONDS)
        self._stack.callback(process.terminate)
        return process

    def _process(self, name: str, log: str, **more: str) -> Copy:
        service = SERVICES[name]
        arguments = list(map(str, service["command"]))
        environment = self._environment(service) | more
        return Copy(COMMAND_LINE, arguments, environment, self.folder / f"{log}.log")

    def is_ready(self, name: str) -> bool:
        return get(f"http://{self.pages[name]}/-/ready")[0] == 200

    def metric(self, name: str, metric: str) -> float:
        lines = get(f"http://{self.pages[name]}/metrics")[1].splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{metric} "))

    def _environment(self, service: Document) -> dict[str, str]:
        """The service's variables, its paths and its broker where they are here."""
        places = {"/etc/tallyguard": str(SETTINGS), "kafka:9092": self._broker.address}
        for name in service.get("secrets", ()):
            file = Path(compose()["secrets"][name]["file"]).name
            places[f"/run/secrets/{name}"] = str(self.folder / "secrets" / file)
        own = {name: value for name, value in os.environ.items() if not name.startswith("TALLYGUARD_")}
        own |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        for name, value in service["environment"].items():
            own[name] = str(value)
            for there, here in places.items():
                own[name] = own[name].replace(there, here)
        return own


def broker_properties() -> dict[str, str]:
    """The properties that the broker's image makes of the compose file's variables, less names and ports."""
    variables = SERVICES["kafka"]["environment"].items()
    made = {name[len("KAFKA_") :].lower().replace("_", "."): str(value) for name, value in variables}
    return {name: value for name, value in made.items() if not name.startswith(OF_THE_PLACE)}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """Everything up, in the order of the compose file, and eight simulated hours gone by; no more come."""
    folder = tmp_path_factory.mktemp("rehearsal")
    broker = Broker(folder / "broker", extra=broker_properties())
    broker.format()
    broker.start()
    try:
        with ExitStack() as stack:
            rehearsal = Rehearsal(folder, broker, stack)
            assert "created  readings, 1 partition:" in rehearsal.once("topics")
            assert "2,000 people sent" in rehearsal.once("persons")
            accounts = range(SERVICES["account"]["deploy"]["replicas"])
            names = ["release-0", *(f"account-{number}" for number in accounts)]
            rehearsal.start("release")
            for number in accounts:
                rehearsal.start("account", number)
            for name in names:
                wait_until(f"{name} ready", lambda name=name: rehearsal.is_ready(name), COMPILE_SECONDS)
            producer = rehearsal.start("producer")
            for name in names:
                wait_until(
                    f"{name} at step 8",
                    lambda name=name: rehearsal.metric(name, "tallyguard_last_step") >= 8,
                    COMPILE_SECONDS,
                )
            producer.terminate()
            yield rehearsal
    finally:
        broker.stop()


def test_everybody_is_accounted_by_some_worker(deployment: Rehearsal) -> None:
    people = [
        deployment.metric(name, "tallyguard_people")
        for name in deployment.pages
        if name.startswith("account")
    ]
    assert len(people) == 2
    assert sum(people) == 2000
    assert min(people) > 0


def test_nothing_is_refused(deployment: Rehearsal) -> None:
    """People, sensors and counts are those of one city."""
    lines = get(f"http://{deployment.pages['release-0']}/metrics")[1].splitlines()
    refused = [line for line in lines if line.startswith("tallyguard_rejected_total{")]
    assert refused
    assert all(line.endswith(" 0.0") for line in refused)


def test_prometheus_sees_each_worker_s_own_business_and_no_trouble(deployment: Rehearsal) -> None:
    """Metrics that are not a worker's business are left out, so that none alarms or dilutes a mean."""
    with running_prometheus(deployment) as address:
        wait_until("three scrapes", lambda: len(ask(address, "up == 1")) == 3)
        wait_until("risks scraped", lambda: len(ask(address, "tallyguard_risk_mean > 0")) == 2)
        assert {one["metric"]["job"] for one in ask(address, "up")} == {"tallyguard"}
        releasing = {one["metric"]["instance"] for one in ask(address, "tallyguard_releases_total")}
        assert releasing == {deployment.pages["release-0"]}
        assert value(ask(address, "sum(tallyguard_people)")) == 2000
        rules = json.loads(get(f"{address}/api/v1/rules")[1])["data"]["groups"]
        assert {rule["health"] for group in rules for rule in group["rules"]} == {"ok"}


@contextmanager
def running_prometheus(deployment: Rehearsal) -> Iterator[str]:
    """A real Prometheus that scrapes the rehearsal; its address."""
    folder, listen = deployment.folder, f"127.0.0.1:{free_port()}"
    (folder / "prometheus.yml").write_text(prometheus_configuration(deployment))
    (folder / "alerts.yml").write_text((ROOT / "deploy/prometheus/alerts.yml").read_text())
    files = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
    command = [program("prometheus"), *files, f"--web.listen-address={listen}"]
    with running(command, folder / "prometheus.log"):
        address = f"http://{listen}"
        wait_until("Prometheus", lambda: get(f"{address}/-/ready")[0] == 200)
        yield address


def prometheus_configuration(deployment: Rehearsal) -> str:
    """The committed configuration, only faster, and with the addresses of the rehearsal."""
    document = yaml.safe_load((ROOT / "deploy/prometheus/compose.yml").read_text())
    document["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    for job in document["scrape_configs"]:
        job.pop("dns_sd_configs", None)
        kind = job["job_name"].removeprefix("tallyguard-")
        targets = [page for name, page in deployment.pages.items() if name.startswith(kind)]
        job["static_configs"] = [{"targets": targets}]
    return str(yaml.safe_dump(document))


def ask(address: str, query: str) -> list[dict[str, Any]]:
    """Series of an instant query."""
    answer = json.loads(get(f"{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}")[1])
    series: list[dict[str, Any]] = answer["data"]["result"]
    return series


def value(series: Sequence[dict[str, Any]]) -> float:
    """The one number of an answer."""
    (one,) = series
    return float(one["value"][1])
