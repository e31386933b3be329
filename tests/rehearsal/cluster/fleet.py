"""The workers and who looks after them: whatever ends by itself is started again, and written down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from tests.rehearsal.cluster.site import Site
from tests.rehearsal.saying import RehearsalError, say

_LOOK_SECONDS, _PAUSE_SECONDS = 0.5, 2.0
_STOP_SECONDS = 60.0
_REFUSED = "must accept this client"


@dataclass(frozen=True)
class Ended:
    """A worker that ended by itself: its name, exit status and last words."""

    worker: str
    code: int
    said: str


class Worker:
    """One worker; ``root`` is the folder of the version it runs."""

    def __init__(self, name: str, kind: str, root: Path) -> None:
        self.name = name
        self.kind = kind
        self.root = root
        self.arguments: tuple[str, ...] = ()
        self.process: subprocess.Popen[bytes] | None = None
        self.began = 0


class Fleet:
    """One release worker and two account workers; a context manager that ends them."""

    def __init__(self, site: Site, root: Path) -> None:
        self._site = site
        kinds = {"release": "release", "account-1": "account", "account-2": "account"}
        self.workers = {name: Worker(name, kind, root) for name, kind in kinds.items()}
        self.ended: list[Ended] = []
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look, name="fleet", daemon=True)

    def __enter__(self) -> Fleet:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        for worker in self.workers.values():
            if worker.process is not None and worker.process.poll() is None:
                worker.process.kill()
                worker.process.wait()

    def start(self, name: str, *arguments: str) -> None:
        """Start a worker, with these arguments until it is stopped."""
        worker = self.workers[name]
        with self._lock:
            worker.arguments = arguments
            self._start(worker)

    def stop(self, name: str) -> None:
        """End a worker in order, and see that it ends well.

        One that brokers refuse, as its password was replaced, was ending by itself: it is written down.
        """
        worker = self.workers[name]
        with self._lock:
            process, worker.process = worker.process, None
        if process is None or process.poll() is not None:  # it has ended by itself, as was written down
            return
        process.terminate()
        try:
            code = process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise RehearsalError(f"{name} did not end within {_STOP_SECONDS:.0f} s") from None
        if code == 1 and _REFUSED in self.words_of_this(name):
            self._note(worker, code)
        elif code not in (0, -signal.SIGTERM):  # the latter of one that has just been started
            raise RehearsalError(f"{name} must end with 0 after SIGTERM, got {code}: {self.words(name)}")

    def restart(self, name: str, *arguments: str, root: Path | None = None) -> None:
        """Another process in the place of one, perhaps of another version."""
        self.stop(name)
        worker = self.workers[name]
        worker.root = worker.root if root is None else root
        self.start(name, *arguments)

    def words(self, name: str, last: int = 1500) -> str:
        """The end of what a worker has said."""
        return self._log(name).read_text()[-last:]

    def words_of_this(self, name: str) -> str:
        """What the process that runs has said, and none before it."""
        return self._log(name).read_text()[self.workers[name].began :]

    def said(self, name: str) -> int:
        """How much a worker has said up to now."""
        return len(self._log(name).read_text())

    def _log(self, name: str) -> Path:
        return self._site.folder / f"{name}.log"

    def _start(self, worker: Worker) -> None:
        environment = {**os.environ, **self._site.environment(worker.kind, worker.root)}
        command = [sys.executable, "-c", "from stream_app.cli import main; main()", "worker", worker.kind]
        command += [*worker.arguments, "--config", str(self._site.config)]
        self._log(worker.name).touch()
        worker.began = self.said(worker.name)
        with self._log(worker.name).open("ab") as output:
            worker.process = subprocess.Popen(
                command, stdout=output, stderr=output, env=environment, cwd=self._site.folder
            )

    def _look(self) -> None:
        """Start again what has ended, after a while, as the supervisors of clusters do."""
        while not self._ends.wait(_LOOK_SECONDS):
            for worker in self.workers.values():
                process = worker.process
                code = None if process is None else process.poll()
                if process is None or code is None:
                    continue
                self._note(worker, code)
                self._ends.wait(_PAUSE_SECONDS)
                with self._lock:
                    if worker.process is process:
                        self._start(worker)

    def _note(self, worker: Worker, code: int) -> None:
        lines = self.words(worker.name).strip().splitlines()
        said = next((line for line in reversed(lines) if line.startswith("tallyguard: ")), "")
        self.ended.append(Ended(worker.name, code, said))
        say(f"{worker.name} ended with {code}: {said[:300]}")
