"""Each container killed once (kill -9), and what it takes until everything goes on."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass

from tests.rehearsal import pages
from tests.rehearsal.composition import Composition
from tests.rehearsal.machine import Engine
from tests.rehearsal.resources import Watch
from tests.rehearsal.saying import RehearsalError, say, wait_until

_ASK_READY = "import urllib.request as web; web.urlopen('http://127.0.0.1:9464/-/ready', timeout=4)"
_RESTART_SECONDS, _READY_SECONDS = 30.0, 600.0


@dataclass(frozen=True)
class Death:
    """One container killed: whether the engine restarted it by itself, seconds until it was ready again."""

    container: str
    by_itself: bool
    ready_seconds: float
    steps_seconds: float


class Killing:
    """Kills by process number, which it asks the engine for: nothing but containers started here."""

    def __init__(self, engine: Engine, composition: Composition, watch: Watch) -> None:
        self._engine, self._composition, self._watch = engine, composition, watch

    def pid(self, container: str) -> int:
        """Its first process; 0 while it does not run."""
        return int(self._engine.inspect(container, "State.Pid"))

    def is_healthy(self, service: str, container: str) -> bool:
        """By the service's or the image's health check, and ready where it is one of our workers."""
        if service == "prometheus":
            return pages.page(f"{pages.PROMETHEUS}/-/ready") is not None
        if self._composition.ends_by_itself(service):
            return self.pid(container) != 0
        if self._engine.tried("healthcheck", "run", container).returncode != 0:
            return False
        command = ["exec", container, "python", "-c", _ASK_READY]
        return service == "kafka" or self._engine.tried(*command).returncode == 0

    def wait_until_healthy(self, service: str, container: str) -> float:
        """How long it took; the container is watched from then on."""
        try:
            took = wait_until(
                f"{container} healthy", lambda: self.is_healthy(service, container), _READY_SECONDS
            )
        except RehearsalError as error:
            raise RehearsalError(f"{error}; it said: {self._engine.last_words(container)}") from error
        self.watch(service, container)
        return took

    def watch(self, service: str, container: str) -> None:
        """Look at what it takes from now on, if it runs."""
        if pid := self.pid(container):
            self._watch.add(service, pid)

    def kill(self, service: str, container: str) -> Death:
        """Kill, wait for the restart that the service's policy promises, and for three more steps."""
        before, step, began = self.pid(container), pages.last_step(), time.monotonic()
        os.kill(before, signal.SIGKILL)
        by_itself = not self._composition.ends_by_itself(service) and self._is_restarted(container, before)
        if not by_itself:  # the engine starts nothing that it takes to be running
            wait_until(f"the end of {container}", lambda: self.pid(container) != before, _READY_SECONDS)
            self._engine.run("start", container)
        self.wait_until_healthy(service, container)
        ready = time.monotonic() - began
        wait_until(
            f"steps after {container} was killed", lambda: pages.last_step() >= step + 3, _READY_SECONDS
        )
        death = Death(container, by_itself, ready, time.monotonic() - began)
        how = "restarted" if by_itself else "started again"
        after = f"ready after {ready:.1f} s, going on after {death.steps_seconds:.1f} s"
        say(f"kill -9 of {container}: {how}, {after}")
        return death

    def _is_restarted(self, container: str, before: int) -> bool:
        """Whether the engine starts it again by itself."""
        try:
            wait_until("a restart", lambda: self.pid(container) not in (0, before), _RESTART_SECONDS)
        except RehearsalError:
            return False
        return True
