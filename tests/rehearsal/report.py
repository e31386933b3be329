"""The committed page: what was run, what was found."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.rehearsal.comparing import Comparison
from tests.rehearsal.images import BASE
from tests.rehearsal.killing import Death
from tests.rehearsal.machine import Engine
from tests.rehearsal.resources import Usage
from tests.rehearsal.scraping import Scraped

_ABOUT = """# Containers that have really run

Made by `make rehearsal` on a machine without a container engine: images built, `docker-compose.yml` brought
up unchanged, every container killed once with `kill -9`, what was published compared with the embedded
engine. Recorded on {date}, on {cores} cores shared with other work, with {engine}.

There was no registry of images at hand. In its place stand: for Python's image Debian's `bookworm` with its
Python {python}; for the broker's Kafka's own jars on Debian's Java; for Prometheus' Debian's {prometheus}.
Grafana, a service of the profile `dashboards`, was left out. Podman and podman-compose stand for Docker. No
systemd was there to run health checks: the rehearsal asked for them, and started the services in the order
of `depends_on`.
"""


@dataclass
class Findings:
    """Filled while the rehearsal goes on."""

    prometheus: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    deaths: list[Death] = field(default_factory=list)
    scraped: Scraped | None = None
    comparison: Comparison | None = None


def write(path: Path, engine: Engine, found: Findings, taken: Mapping[str, Usage]) -> None:
    """The page, from what was found."""
    about = _ABOUT.format(
        date=datetime.datetime.now(datetime.UTC).date(),
        cores=os.cpu_count(),
        engine=f"Podman {_version(engine, 'version', '--format', '{{.Client.Version}}')}",
        python=_version(engine, "run", "--rm", "--network", "none", BASE, "python", "--version"),
        prometheus=found.prometheus,
    )
    parts = [about, *_images(found), *_deaths(found), *_published(found), *_resources(taken)]
    path.write_text("\n".join(parts))


def _version(engine: Engine, *command: str) -> str:
    return engine.run(*command).split()[-1]


def _images(found: Findings) -> Iterable[str]:
    rows = [(f"image `{name}`", f"{size / 1e6:,.0f} MB") for name, size in found.sizes.items()]
    rows += [(what, f"{seconds:.1f} s") for what, seconds in found.seconds.items()]
    yield "## Images and starts\n"
    yield table(("what", "found"), rows)


def _deaths(found: Findings) -> Iterable[str]:
    yield "## Every container killed once\n"
    yield "Each with `kill -9` while the city's counts came in, one step a second. Seconds since the kill.\n"
    rows = [
        (
            f"`{death.container}`",
            "the engine" if death.by_itself else "hand, as its policy is `no`",
            f"{death.ready_seconds:.1f}",
            f"{death.steps_seconds:.1f}",
        )
        for death in found.deaths
    ]
    yield table(("container", "started again by", "ready", "three more steps closed"), rows)
    yield (
        "The producer begins again at step 0: what it sends at first is refused as late, and\n"
        "nothing is published twice.\n"
    )


def _published(found: Findings) -> Iterable[str]:
    comparison, scraped = found.comparison, found.scraped
    assert comparison
    assert scraped
    yield "## What was published, and what Prometheus saw\n"
    rows = [
        ("steps released, each once and in order", f"{comparison.released_steps:,}"),
        ("steps compared, as far as every partition had told its risks", f"{comparison.steps:,}"),
        ("releases, byte for byte those of the embedded engine", "yes"),
        (f"risks of single people ({comparison.risks:,} records), bit for bit likewise", "yes"),
        ("targets up", str(scraped.targets)),
        ("people accounted", f"{scraped.people:,}"),
        ("rules healthy", str(scraped.rules)),
        ("alerts firing", ", ".join(scraped.firing) or "none"),
        ("key metrics there", ", ".join(f"`{metric}`" for metric in scraped.metrics)),
    ]
    yield table(("what", "found"), rows)


def _resources(taken: Mapping[str, Usage]) -> Iterable[str]:
    yield "## What each container took\n"
    yield (
        "The most of any container of a service, looked at once a second in its control group, with\n"
        "two thousand people, 32 sensors and a step a second.\n"
    )
    rows = [
        (f"`{service}`", f"{each.memory_mib} MiB", f"{each.with_files_mib} MiB", f"{each.cores:.2f}")
        for service, each in taken.items()
    ]
    yield table(("service", "memory", "with files in memory", "cores, on average"), rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows), ""])
