"""Programs the tests of this folder need, and how they are started and stopped: on loopback, by process."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

START_SECONDS = 180.0
_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.1, 1.0


def program(*names: str) -> str:
    """The first of these programs; skips by name where none is installed, fails where CI is set."""
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    reason = (
        f"{names[0]} is not installed (on Debian: apt install {names[0].replace('promtool', 'prometheus')})"
    )
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: Sequence[str], log: Path, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process while the block runs; its output goes to ``log``."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, **options)  # type: ignore[call-overload]
        with until_over(process):
            yield process


@contextmanager
def until_over(process: Any) -> Iterator[None]:
    """A process while the block runs: then it is told to end, and made to where it does not."""
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def get(url: str, seconds: float = 5.0, **headers: str) -> tuple[int, str]:
    """Status and text of a page."""
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def heeds_sigterm(pid: int) -> bool:
    """Whether a process has a handler for it: until then the signal ends it at once, in no order."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:"))
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def wait_until(what: str, is_so: Callable[[], bool], seconds: float = START_SECONDS) -> None:
    """Ask until it is so; fails with ``what`` when it takes too long.

    Asking takes a fifth of the time at most: what is waited for needs the processor.
    """
    deadline = time.monotonic() + seconds
    while (began := time.monotonic()) < deadline:
        try:
            if is_so():
                return
        except OSError:
            pass
        time.sleep(min(max(_SHORTEST_SECONDS, 4.0 * (time.monotonic() - began)), _LONGEST_SECONDS))
    pytest.fail(f"{what} did not happen within {seconds:.0f} s")
