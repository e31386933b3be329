"""Measuring rates side by side: warm-up, then repeats of all contestants in turn, medians, one table."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Contestant:
    """Something that does ``work`` units when called; ``seconds`` it returns replaces the clock outside."""

    run: Callable[[], float | None]
    work: float


def measure(contestants: Mapping[str, Contestant], repeats: int = 5) -> dict[str, float]:
    """Median units per second of each contestant."""
    seconds = taken({name: each.run for name, each in contestants.items()}, repeats, time.perf_counter)
    return {name: contestants[name].work / each for name, each in seconds.items()}


def taken(
    runs: Mapping[str, Callable[[], object]], turns: int = 5, clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """Median seconds of each after a run that compiles and fills caches, or of those that it returns.

    They take turns, so that all meet the same weather.
    """
    found: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(turns + 1):
        for name, run in runs.items():
            began = clock()
            own = run()
            if turn:
                found[name].append(own if isinstance(own, float) else clock() - began)
    return {name: statistics.median(each) for name, each in found.items()}


class Apart:
    """Something made and run in a process of its own, which meets no library and no memory of another's.

    ``found`` is what its first run returned.
    """

    def __init__(self, make: Callable[[], Callable[[], object]]) -> None:
        context = multiprocessing.get_context("fork")
        self._end, other = context.Pipe()
        self._process = context.Process(target=_run_when_asked, args=(make, other), daemon=True)
        self._process.start()
        self.found: Any = self._end.recv()

    def __call__(self) -> float:
        """Run; the seconds of the processor that it took."""
        self._end.send(True)
        seconds: float = self._end.recv()
        return seconds

    def stop(self) -> None:
        """End the process."""
        self._end.send(False)
        self._process.join()


def _run_when_asked(make: Callable[[], Callable[[], object]], end: Any) -> None:
    run = make()
    end.send(run())
    while end.recv():
        began = time.process_time()
        run()
        end.send(time.process_time() - began)


@contextmanager
def each_apart(makers: Mapping[str, Callable[[], Callable[[], object]]]) -> Iterator[dict[str, Apart]]:
    """Each in a process of its own while the block runs."""
    made: dict[str, Apart] = {}
    try:
        for name, make in makers.items():
            made[name] = Apart(make)
        yield made
    finally:
        for each in made.values():
            each.stop()


def show(title: str, columns: list[str], rows: list[list[str]], note: str = "") -> None:
    """Print one table; the load of the machine goes under it, for it explains odd figures."""
    table = Table(title=title, title_justify="left", caption_justify="left", caption=_caption(note))
    for position, column in enumerate(columns):
        table.add_column(column, justify="left" if position == 0 else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=None if os.isatty(1) else 150).print(table)


def rate(value: float) -> str:
    """A rate with three digits: 12.3 M, 456 k, 78.9."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def times(ours: float, theirs: float) -> str:
    """A ratio as it is said: 312 x."""
    return f"{ours / theirs:.3g} x"


def _caption(note: str) -> str:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{note}\n{os.cpu_count()} cores; load of the last 1, 5, 15 minutes {load}".strip()
