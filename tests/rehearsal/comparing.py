"""What the containers published, held against the embedded engine in one container on the same city."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass

from tests.rehearsal import pages
from tests.rehearsal.composition import Composition
from tests.rehearsal.machine import Engine
from tests.rehearsal.saying import RehearsalError, step, wait_until

USER = 10001
EVERYTHING = "1000000000"
CONFINED = ("--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--network", "none")
_CITY = """
import sys
from itertools import takewhile
from pathlib import Path

from models.prior_files import save_population
from stream_app.city import CityOptions, build_city

people, steps = map(int, sys.argv[1:])
city = build_city(CityOptions(people=people))
save_population(city.population, Path("/city/priors.parquet"))
lines = (message.line() for message in takewhile(lambda message: message.step < steps, city.messages(steps)))
Path("/city/messages.jsonl").write_bytes(b"".join(line.rstrip() + b"\\n" for line in lines))
"""


@dataclass(frozen=True)
class Published:
    """Records in the order of steps: releases, single people's risks (distinct, sorted)."""

    releases: list[str]
    risks: list[str]

    def until(self, steps: int) -> Published:
        """Of the first steps only."""
        return Published(_of_steps(self.releases, steps), sorted(set(_of_steps(self.risks, steps))))


@dataclass(frozen=True)
class Comparison:
    """What was compared, as far as every partition had come; there is none if a single byte differs."""

    released_steps: int
    steps: int
    risks: int


def compare(engine: Engine, composition: Composition) -> Comparison:
    """Every byte of releases and of single people's risks, as far as every partition has come."""
    steps = accounted_steps(composition)
    composed = Published(_tail(composition, "releases"), _risks(_tail(composition, "risks")))
    released = [json.loads(line)["step"] for line in composed.releases]
    if released != list(range(len(released))):
        raise RehearsalError(f"every step must have been released once and in order, got {released}")
    with step(f"embedded engine in one container on the same {steps} steps"):
        embedded = _embedded(engine, composition, steps)
    mine, other = composed.until(steps), embedded.until(steps)
    if mine != other:
        raise RehearsalError(
            f"containers must publish what the embedded engine does: {_difference(mine, other)}"
        )
    return Comparison(len(released), steps, len(mine.risks))


def wait_for_risks(engine: Engine, composition: Composition) -> None:
    """Until every partition has written the risks of three more steps, or of all: every worker goes on."""
    wanted = min(accounted_steps(composition) + 3, pages.last_step() + 1)
    try:
        wait_until(f"{wanted} steps in all partitions", lambda: accounted_steps(composition) >= wanted, 600.0)
    except RehearsalError as error:
        said = "\n".join(engine.last_words(each) for each in composition.containers("account"))
        raise RehearsalError(f"{error}; the workers said: {said}") from error


def accounted_steps(composition: Composition) -> int:
    """Of how many steps every partition has written the risks."""
    accounted: dict[int, int] = {}
    for line in _tail(composition, "risks", last="200"):
        record = json.loads(line)
        if record["type"] == "risk_summary":
            accounted[record["partition"]] = max(accounted.get(record["partition"], 0), record["step"] + 1)
    return min(accounted.values(), default=0)


def _tail(composition: Composition, what: str, last: str = EVERYTHING) -> list[str]:
    """Committed records of a topic."""
    return [line for line in composition.once("topics", ["tail", what, "--last", last]).splitlines() if line]


def _risks(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if '"type":"risk",' in line]


def _of_steps(lines: Iterable[str], steps: int) -> list[str]:
    return [line for line in lines if json.loads(line)["step"] < steps]


def _embedded(engine: Engine, composition: Composition, steps: int) -> Published:
    """The same image, people, settings and keys, without a broker."""
    folder, tree = engine.folder / "city", engine.folder / "tree"
    folder.mkdir(exist_ok=True)
    os.chown(folder, USER, USER)
    image = composition.services["release"]["image"]
    command = composition.services["producer"]["command"]
    people = command[command.index("--city-people") + 1]
    mounts = ["--volume", f"{folder}:/city", "--volume", f"{tree / 'deploy/settings'}:/etc/tallyguard:ro"]
    for variable, key in (("NOISE", "noise"), ("PSEUDONYM", "pseudonym")):
        mounts += ["--volume", f"{tree / 'deploy/secrets' / f'{key}.key'}:/run/secrets/{key}_key:ro"]
        mounts += ["--env", f"TALLYGUARD_{variable}_KEY=/run/secrets/{key}_key"]
    mounts += ["--env", "TALLYGUARD_KEY_RECORD=/city/keys"]  # what is beside the key is another user's
    scratch = ["--tmpfs", "/tmp", "--volume", "kernels-of-the-comparison:/var/cache/tallyguard"]
    started = ["run", "--rm", *CONFINED, *scratch, *mounts]
    engine.run(*started, "--entrypoint", "python", image, "-c", _CITY, people, str(steps))
    files = ["--priors", "/city/priors.parquet", "--input", "/city/messages.jsonl", "--output", "/city/run"]
    settings = ["--config", "/etc/tallyguard/tallyguard.toml", "--listen", ""]
    engine.run(*started, image, "run", *settings, *files, seconds=1800)
    read = {
        name: (folder / "run" / f"{name}.jsonl").read_text().splitlines() for name in ("releases", "risks")
    }
    return Published(read["releases"], _risks(read["risks"]))


def _difference(mine: Published, other: Published) -> str:
    """How much of it, not what: values are nobody's business here."""
    parts = (("releases", mine.releases, other.releases), ("risks", mine.risks, other.risks))
    return ", ".join(f"{len(set(a) ^ set(b))} of {len(b)} {name} differ" for name, a, b in parts)
