"""Processes for tests that start and kill them by the hundred.

Each is a copy of one process that has imported everything and loaded the kernels, :mod:`tests.prepared`. It
runs what a new interpreter would run, in the same environment, and lives and dies by itself.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

from numba.np.ufunc import parallel

COMMAND_LINE = "from stream_app.cli import main; main()"
"""What `tallyguard` runs."""

_SECONDS_TO_WRITE = 1.0
_WHERE = signal.SIGUSR2

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.prepared"])


class Copy:
    """``python -c CODE ARGUMENTS`` in the folder of its log; has what tests use of ``subprocess.Popen``.

    Where it is ``piped``, it reads what is written to ``stdin``; else nothing.
    """

    def __init__(
        self,
        code: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        *,
        piped: bool = False,
    ) -> None:
        self.args = (code, *arguments)
        self.log = log
        read, write = _CONTEXT.Pipe(duplex=False)
        with read, write:
            self.stdin: IO[bytes] | None = os.fdopen(os.dup(write.fileno()), "wb") if piped else None
            call = (code, arguments, dict(environment), log, read)
            self._process = _CONTEXT.Process(target=_run, args=call, daemon=True)
            self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it ends."""
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def where(self) -> str:
        """The end of its log, with where each of its threads is: for a process that does not get on.

        Asked for only then: a trace is written while other threads run on, which can end a process.
        """
        self.send_signal(_WHERE)
        self._process.join(_SECONDS_TO_WRITE)
        return self.log.read_text()[-4000:]

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _run(
    code: str, arguments: Sequence[str], environment: dict[str, str], log: Path, given: Connection
) -> None:
    os.dup2(given.fileno(), 0)
    given.close()
    sys.stdin = os.fdopen(0, closefd=False)
    with log.open("ab") as output:
        for standard in (1, 2):
            os.dup2(output.fileno(), standard)
    faulthandler.register(_WHERE)
    # numba starts threads under a lock that processes forked from one share: a copy that is killed there
    # would keep it, and all later copies would wait for ever. None of them forks.
    setattr(parallel, "_backend_init_process_lock", nullcontext())  # noqa: B010
    os.chdir(log.parent)
    threads = {name: os.environ[name] for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")}
    os.environ.clear()
    # numba, which has read these already, refuses to compile where they say something else by then.
    os.environ.update(environment | threads)
    sys.argv = ["-c", *arguments]
    exec(code, {"__name__": "__main__"})
