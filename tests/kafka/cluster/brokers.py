"""Three brokers, each a controller too, with three copies of everything, on a network of :mod:`.links`.

Each broker finds the others under names of its own (Java reads its hosts from a file), which lead through
links: so one of them can be cut off from the others and from clients, in both directions, without any rights.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kafka.broker import Broker
from tests.kafka.cluster.links import Address, Link, Network
from tests.watching.services import free_port, wait_until

NUMBERS = (1, 2, 3)
_HERE = "127.0.0.1"
_QUORUM = "__cluster_metadata-0/quorum-state"
COPIES = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
QUICK = {  # a broker that is silent counts as gone after seconds, not after tens of them
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "replica.socket.timeout.ms": "3000",
}


class Cluster:
    """Brokers 1 to 3. ``extra`` are properties of all, ``listener`` is what clients connect to."""

    def __init__(
        self, folder: Path, network: Network, extra: Mapping[str, str], listener: str = "PLAINTEXT"
    ) -> None:
        self._network = network
        self.brokers = {number: Broker(folder / f"broker-{number}") for number in NUMBERS}
        self._listener = listener
        self._among = {number: free_port() for number in NUMBERS}
        self._doors = {number: free_port() for number in NUMBERS}
        self._links: dict[int, list[Link]] = {number: [] for number in NUMBERS}
        for number, broker in self.brokers.items():
            self._shape(number, broker, extra)
        for number in NUMBERS:
            self._connect(number)

    @property
    def address(self) -> str:
        """What clients are told."""
        return ",".join(map(self.address_of, NUMBERS))

    def address_of(self, number: int) -> str:
        """What clients are told of one broker."""
        return f"{_HERE}:{self._doors[number]}"

    def format(self, *arguments: str) -> None:
        """Prepare every broker's storage, once."""
        for broker in self.brokers.values():
            broker.format(*arguments)

    def start(self, *numbers: int) -> None:
        """Start these, or all, at once: two are needed before any is ready."""
        chosen = [self.brokers[number] for number in numbers or NUMBERS]
        for broker in chosen:
            broker.launch()
        for broker in chosen:
            broker.wait_until_started()

    def stop(self) -> None:
        """Shut down in order, together."""
        for broker in self.brokers.values():
            broker.terminate()
        for broker in self.brokers.values():
            broker.stop()

    def controllers(self) -> dict[int, int]:
        """Who leads, as each controller has written it down; -1 while there is nobody."""
        states = {each: broker.folder / "data" / _QUORUM for each, broker in self.brokers.items()}
        return {each: json.loads(state.read_text())["leaderId"] for each, state in states.items()}

    def cut_off(self, number: int) -> None:
        """Nobody reaches this broker any more, and it reaches nobody."""
        self._network.cut(*self._links[number])

    def bring_back(self, number: int) -> None:
        """The network of this broker works again."""
        self._network.mend(*self._links[number])

    def _shape(self, number: int, broker: Broker, extra: Mapping[str, str]) -> None:
        name = self._listener
        listeners = {
            name: f"{_HERE}:{broker.port}",
            "AMONG": f"{_HERE}:{self._among[number]}",
        }
        advertised = {
            name: f"{_HERE}:{self._doors[number]}",
            "AMONG": f"kafka-{number}:{self._among[number]}",
            # The controller that leads tells its followers this: an address without a link could not be cut.
            "CONTROLLER": f"kafka-{number}:{broker.controller_port}",
        }
        controllers = {each: f"kafka-{each}:{other.controller_port}" for each, other in self.brokers.items()}
        for key, value in {
            "node.id": str(number),
            "listeners": ",".join([*_joined(listeners), broker.controller_listener]),
            "advertised.listeners": ",".join(_joined(advertised)),
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT,AMONG:PLAINTEXT"
            ),
            "inter.broker.listener.name": "AMONG",
            "controller.quorum.voters": ",".join(f"{each}@{where}" for each, where in controllers.items()),
            "controller.quorum.bootstrap.servers": ",".join(controllers.values()),
            **COPIES,
            **extra,
        }.items():
            broker.set(key, value)
        hosts = broker.folder / "hosts"
        others = [f"{_door(number, other)} kafka-{other}" for other in NUMBERS if other != number]
        hosts.write_text("\n".join([f"{_HERE} localhost", f"{_HERE} kafka-{number}", *others, ""]))
        broker.java_options += ["-Xmx256m", f"-Djdk.net.hosts.file={hosts}"]

    def _connect(self, number: int) -> None:
        """Links to this broker: from clients, and from each other broker."""
        broker = self.brokers[number]
        door = Address(_HERE, self._doors[number])
        self._links[number].append(self._network.add(door, Address(_HERE, broker.port)))
        for other in NUMBERS:
            if other != number:
                for port in (self._among[number], broker.controller_port):
                    link = self._network.add(Address(_door(other, number), port), Address(_HERE, port))
                    self._links[number].append(link)
                    self._links[other].append(link)


def wait_for_copies(admin: Any, topics: list[str], copies: int, seconds: float = 180.0) -> None:
    """Until every partition of these topics has so many copies that are not behind, or more."""

    def have_caught_up() -> bool:
        found = admin.describe_topics(topics)
        return all(len(part["isr_nodes"]) >= copies for topic in found for part in topic["partitions"])

    wait_until(f"{copies} copies of each partition", have_caught_up, seconds)


@contextmanager
def cluster(folder: Path, extra: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """Three brokers while the block runs, without encryption."""
    with Network() as network:
        made = Cluster(folder, network, extra or {})
        made.format()
        try:
            made.start()
            yield made
        finally:
            made.stop()


def _joined(listeners: Mapping[str, str]) -> list[str]:
    return [f"{name}://{address}" for name, address in listeners.items()]


def _door(number: int, other: int) -> str:
    """The address of this machine under which one broker finds another."""
    return f"127.1.{number}.{other}"
