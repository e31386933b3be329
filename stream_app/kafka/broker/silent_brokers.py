"""kafka-python's connections, which get on where a broker is silent.

A broker that hangs, or is cut off, still has its connections accepted, by its kernel or by a proxy.
kafka-python (3.0.12) waits for such a TLS handshake without an end, whatever its own limits say: whoever
begins one would neither start nor ask another. It also counts a connection that was accepted as a success,
and asks only brokers that the last answer named: where that was the silent one alone, nobody else would ever
be asked.
"""

from __future__ import annotations

import random
import time
from typing import Any

from kafka.errors import KafkaTimeoutError
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

_SECONDS = 10.0


class _Connections(KafkaConnectionManager):  # type: ignore[misc]
    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        """A connection, with its handshake done; ``KafkaTimeoutError`` where that takes too long."""
        made = self._net.call_soon_with_future(super()._build_transport, node, timeout_at)
        seconds = _SECONDS if timeout_at is None else max(0.0, timeout_at - time.monotonic())
        try:
            return await self.wait_for(made, 1000.0 * seconds)
        except KafkaTimeoutError:
            made.add_callback(lambda late: late.close())
            raise

    async def _connect(
        self,
        node: Any,
        conn: Any,
        reset_backoff_on_connect: bool = True,
        timeout_at: float | None = None,
    ) -> None:
        """Connect; who accepted the connection and then said nothing has failed, too."""
        before = self._failures(node.node_id)
        await super()._connect(node, conn, reset_backoff_on_connect=False, timeout_at=timeout_at)
        if not conn.connected and self._failures(node.node_id) == before:
            self.update_backoff(node.node_id)
        elif conn.connected and reset_backoff_on_connect:
            self.reset_backoff(node.node_id)

    def least_loaded_node(self) -> Any:
        """A broker that answers; else one that has failed least, the servers of the settings among them."""
        found = super().least_loaded_node()
        if found in self._conns and self._conns[found].connected:
            return found
        known, first = self.cluster.brokers(), self.cluster.bootstrap_brokers()
        candidates = [
            each.node_id for brokers in (known, first) for each in random.sample(brokers, len(brokers))
        ]
        ready = [each for each in candidates if self.connection_delay(each) == 0]
        return min(ready, key=self._failures, default=found) if known else found

    def _failures(self, node_id: Any) -> int:
        """How often a broker could not be connected to since it last was."""
        return int(self._backoff.get(node_id, (0,))[0])


def undeterred_client(**settings: Any) -> KafkaNetClient:
    """The value of ``kafka_client`` for a producer, a consumer or an admin client."""
    net = NetworkSelector(**settings)
    return KafkaNetClient(net, _Connections(net, **settings), **settings)
