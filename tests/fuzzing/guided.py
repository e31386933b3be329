"""One target, many inputs: ``python -m tests.fuzzing.guided NAME INPUTS SECONDS FOLDER ROUND``.

The outcome is written to the folder, which keeps the inputs that reached something new for the next round.

With atheris, libFuzzer changes inputs and keeps those that reach new code; its own changes take turns with
those of :mod:`tests.fuzzing.mutation`, which know the formats. Without it the latter are all there is.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

from tests import ROOT

SEED = 20_260_101
OUTCOME = "outcome.json"
MOST_MEMORY_BYTES = 8 << 30  # an input that fills the memory is a finding, not the end of the machine
OURS = ("models", "accounting", "stream_app")


def atheris_if_any() -> ModuleType | None:
    """The guide, where its wheel installs."""
    try:
        return importlib.import_module("atheris")
    except ImportError:
        return None


def compiled_modules() -> list[str]:
    """Modules with kernels: they are compiled for the machine and cannot be watched."""
    root = ROOT
    kernels = (
        path
        for folder in OURS
        for path in (root / folder).rglob("*.py")
        if "models.numerics.jit" in path.read_text()
    )
    modules = (path.relative_to(root).with_suffix("") for path in kernels)
    return [".".join(module.parts) for module in modules]


class Trial:
    """Takes inputs until there were enough, then writes the outcome and ends the process."""

    def __init__(self, name: str, inputs: int, seconds: int, folder: Path, is_guided: bool) -> None:
        from tests.fuzzing.check import finding, warm_up
        from tests.fuzzing.report import Outcome
        from tests.fuzzing.targets import DOORS

        logging.disable(logging.CRITICAL)
        self.target = DOORS[name](name)
        warm_up(self.target)
        self._finding: Callable[..., str | None] = finding
        self._outcome = Outcome(name, is_guided=is_guided)
        self._inputs, self._path = inputs, folder / OUTCOME
        self._ends = time.monotonic() + seconds if seconds else None
        self._began, self._cpu = time.monotonic(), time.process_time()

    def take(self, data: bytes) -> None:
        """One input."""
        wrong = self._finding(self.target, data)
        outcome = self._outcome
        outcome.inputs += 1
        if wrong is not None and wrong not in outcome.findings and len(outcome.findings) < 50:
            outcome.findings[wrong] = data[:300].decode("latin-1")
        is_over = outcome.inputs % 256 == 0 and self._ends is not None and time.monotonic() > self._ends
        if outcome.inputs >= self._inputs or is_over:
            self._end()

    def _end(self) -> None:
        from tests.fuzzing.sockets import close_server
        from tests.fuzzing.targets import clean_up

        self._outcome.seconds = time.monotonic() - self._began
        self._outcome.cpu_seconds = time.process_time() - self._cpu
        self._path.write_text(json.dumps(asdict(self._outcome)))
        clean_up()
        close_server()
        sys.stdout.flush()
        os._exit(0)  # libFuzzer knows no other end


def guided(atheris: Any, trial: Trial, corpus: Path, seed: int) -> None:
    """Let libFuzzer make the inputs; never returns."""
    from tests.fuzzing.mutation import MOST_BYTES, mutated

    random, seeds = Random(seed), trial.target.seeds

    def change(data: bytes, most: int, seed: int) -> bytes:
        if seed % 2:
            return bytes(mutated((data, *seeds), random))[:most]
        return bytes(atheris.Mutate(data, most))

    corpus.mkdir(exist_ok=True)
    for number, each in enumerate(seeds):
        (corpus / str(number)).write_bytes(each)
    flags = [
        f"-max_len={MOST_BYTES}",
        f"-seed={seed}",
        "-rss_limit_mb=0",
        "-timeout=600",
        "-report_slow_units=600",  # by the clock; ours is the time of the processor
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *flags, str(corpus)], trial.take, custom_mutator=change)
    atheris.Fuzz()


def unguided(trial: Trial, seed: int) -> None:
    """Seeds changed by a seeded generator; never returns."""
    from tests.fuzzing.mutation import mutated

    random = Random(seed)
    while True:
        trial.take(mutated(trial.target.seeds, random))


def main(name: str, inputs: str, seconds: str, folder: str, number: str) -> None:
    """Never returns."""
    atheris, seed = atheris_if_any(), SEED + int(number)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    if atheris is None:
        unguided(Trial(name, int(inputs), int(seconds), Path(folder), is_guided=False), seed)
        return
    watched = {"include": [*OURS, "tomllib", "json", "csv"], "exclude": compiled_modules()}
    with atheris.instrument_imports(**watched):
        trial = Trial(name, int(inputs), int(seconds), Path(folder), is_guided=True)
    guided(atheris, trial, Path(folder) / "corpus", seed)


if __name__ == "__main__":
    main(*sys.argv[1:])
