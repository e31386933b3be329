"""What each service takes: memory and processor of its control group, looked at once a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_MIB = 2**20


@dataclass
class Usage:
    """The most that any container of a service took, and its processor time over all of them."""

    memory_bytes: int = 0
    with_files_bytes: int = 0
    processor_seconds: float = 0.0
    container_seconds: float = 0.0

    @property
    def memory_mib(self) -> int:
        """What belongs to its processes and cannot be taken back."""
        return round(self.memory_bytes / _MIB)

    @property
    def with_files_mib(self) -> int:
        """Files in memory counted too: the figure that a limit is held against, after files were let go."""
        return round(self.with_files_bytes / _MIB)

    @property
    def cores(self) -> float:
        """Processor time a second, while it ran."""
        return self.processor_seconds / max(self.container_seconds, 1.0)


class Watch:
    """Looks at the containers whose first process it is told, once a second."""

    def __init__(self) -> None:
        self.taken: dict[str, Usage] = {}
        self._watched: dict[int, str] = {}
        self._before: dict[int, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def add(self, service: str, pid: int) -> None:
        """A container of a service, by its first process."""
        with self._lock:
            self._watched[pid] = service

    @contextmanager
    def running(self) -> Iterator[None]:
        """Look while the block runs."""
        ended = threading.Event()

        def look() -> None:
            while not ended.wait(1.0):
                self.look()

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def look(self) -> None:
        """Once, at every container."""
        with self._lock:
            watched = dict(self._watched)
        for pid, service in watched.items():
            try:
                memory, with_files, processor = _group_of(pid)
            except (OSError, KeyError, StopIteration):  # it has ended since
                with self._lock:
                    self._watched.pop(pid, None)
                continue
            taken = self.taken.setdefault(service, Usage())
            taken.memory_bytes = max(taken.memory_bytes, memory)
            taken.with_files_bytes = max(taken.with_files_bytes, with_files)
            now = time.monotonic()
            if pid in self._before:
                then, before = self._before[pid]
                taken.processor_seconds += processor - before
                taken.container_seconds += now - then
            self._before[pid] = now, processor


def _group_of(pid: int) -> tuple[int, int, float]:
    """Memory of processes, memory with files, processor seconds; of control groups of either kind."""
    groups: dict[str, str] = {}
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        groups.update(dict.fromkeys(names.split(","), path))
    if groups.get("memory", groups.get("")) == "/":  # of a process that has ended
        raise StopIteration
    if "memory" in groups:
        folder = _ROOT / "memory" / groups["memory"].lstrip("/")
        used = int((folder / "memory.usage_in_bytes").read_text())
        nanoseconds = _ROOT / "cpuacct" / groups["cpuacct"].lstrip("/") / "cpuacct.usage"
        return _field(folder / "memory.stat", "total_rss"), used, int(nanoseconds.read_text()) / 1e9
    folder = _ROOT / groups[""].lstrip("/")
    used = int((folder / "memory.current").read_text())
    return _field(folder / "memory.stat", "anon"), used, _field(folder / "cpu.stat", "usage_usec") / 1e6


def _field(path: Path, name: str) -> int:
    return next(int(line.split()[1]) for line in path.read_text().splitlines() if line.split()[0] == name)
