"""kafka-python's connections with an end to every TLS handshake.

kafka-python (3.0.12) waits for a handshake without an end, whatever its own limits say. A broker that hangs
still has its connections accepted, by its kernel: whoever begins one would neither start nor ask another.
"""

from __future__ import annotations

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


def ending_client(**settings: Any) -> KafkaNetClient:
    """The value of ``kafka_client`` for a producer, a consumer or an admin client."""
    net = NetworkSelector(**settings)
    return KafkaNetClient(net, _Connections(net, **settings), **settings)
