"""``tallyguard connect mqtt`` killed over and over, by a process of its own whose children need no imports.

``CODE`` with arguments ``CONFIG FOLDER KILLS SEED`` prints a line for each kill, and then how often the
connector was killed at a random moment, and how often between making messages durable and acknowledging them.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Sequence

from stream_app.cli import main
from stream_app.starting.connect.intake import Payload
from stream_app.starting.connect.mqtt import BrokerSession

CODE = """
import sys
from tests.stream_app.starting.brokers.killed_connector import kill_many

config, folder, kills, seed = sys.argv[1:]
print(*kill_many(config, folder, int(kills), int(seed)))
"""
_LONGEST_SECONDS = 0.6


def kill_instead(self: BrokerSession, arrived: Sequence[Payload]) -> None:
    """The moment between commit and acknowledgement."""
    os.kill(os.getpid(), signal.SIGKILL)


def connector(config: str, folder: str, *, is_exact: bool) -> int:
    """Start a connector; the process id."""
    child = os.fork()
    if child:
        return child
    if is_exact:
        BrokerSession.acknowledge = kill_instead  # type: ignore[method-assign]
    sys.argv = ["tallyguard", "connect", "mqtt", "--config", config, "--output", folder]
    os._exit(int(main() or 0))


def kill_many(config: str, folder: str, kills: int, seed: int) -> tuple[int, int]:
    """Exact moments, behind which the broker sends everything again, then random and exact ones in turn.

    Those that ended by themselves must have been killed.
    """
    drawn = random.Random(seed)
    random_kills = exact_kills = 0
    for number in range(kills):
        is_exact = number < kills // 2 - 1 or number % 2 == 0
        child = connector(config, folder, is_exact=is_exact)
        deadline = time.monotonic() + (10.0 if is_exact else drawn.uniform(0.0, _LONGEST_SECONDS))
        while (done := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.002)
        if done[0] == 0:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            random_kills += 1
        else:
            status = done[1]
            exact_kills += 1
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
        print("killed", flush=True)
    return random_kills, exact_kills
