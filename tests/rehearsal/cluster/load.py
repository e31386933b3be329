"""The city's counts, step by step, for as long as the rehearsal lasts."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from models.exceptions import TallyguardError
from stream_app.kafka.broker.clients import writing
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.tools.producing import Pace, produce


class Load:
    """Sends so many steps a second; one that brokers did not take is sent again, as a sender would."""

    def __init__(self, steps: Sequence[Sequence[bytes]], per_second: float) -> None:
        self._steps = steps
        self._per_second = per_second
        self._stops = threading.Event()
        self._thread = threading.Thread()
        self.sent = 0
        self.repeated = 0

    @property
    def sent_steps(self) -> Sequence[Sequence[bytes]]:
        """The messages of every step that was sent."""
        return self._steps[: self.sent]

    def begin(self, connection: Connection, topics: Topics) -> None:
        """Go on where it stopped, by this connection."""
        self._stops.clear()
        self._thread = threading.Thread(target=self._run, args=(connection, topics), name="load", daemon=True)
        self._thread.start()

    def pause(self) -> None:
        """Send no more; return once the step at hand is with the brokers."""
        self._stops.set()
        self._thread.join()

    def _run(self, connection: Connection, topics: Topics) -> None:
        while not self._stops.is_set():
            try:
                self._send(connection, topics)
            except TallyguardError:
                self.repeated += 1

    def _send(self, connection: Connection, topics: Topics) -> None:
        with writing(connection) as producer:
            while not self._stops.is_set():
                due = time.monotonic() + 1.0 / self._per_second
                produce(producer, topics, self._steps[self.sent], Pace(None))
                self.sent += 1
                self._stops.wait(max(0.0, due - time.monotonic()))
