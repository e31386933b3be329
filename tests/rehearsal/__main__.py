"""``python -m tests.rehearsal``: from a bare machine to a report, and back to a bare machine."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from tests.rehearsal import comparing, images, machine, pages, report, scraping
from tests.rehearsal.composition import Composition, copied_tree
from tests.rehearsal.killing import Killing
from tests.rehearsal.machine import Engine
from tests.rehearsal.report import Findings
from tests.rehearsal.resources import Watch
from tests.rehearsal.saying import RehearsalError, say, step, wait_until

LARGEST_BYTES = 700_000_000
_ONE_BEFORE_THE_NEXT = ("producer", "release", "account", "kafka", "prometheus")
"""The producer first: started again it begins at step 0, and soon catches up."""


def main() -> int:
    """The exit status: 0 if everything was as it must be."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends it wants nothing left behind
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="tallyguard-rehearsal-"))
    folder.mkdir(parents=True, exist_ok=True)
    engine: Engine | None = None
    try:
        machine.prepare()
        machine.check_ports(9464, 9090)
        engine = Engine(folder.resolve())
        _rehearse(engine, options.output)
    except (RehearsalError, KeyboardInterrupt) as error:
        say(f"failed: {error}")
        return 1
    finally:
        if engine is not None and not options.keep:
            engine.remove_everything()
            say("everything removed")
    return 0


def _rehearse(engine: Engine, output: Path) -> None:
    """All steps in their order."""
    found, watch = Findings(), Watch()
    tree = copied_tree(engine.folder)
    composition = Composition(engine, tree)
    _make_images(engine, composition, found)
    killing = Killing(engine, composition, watch)
    try:
        with watch.running():
            _bring_up(engine, composition, killing, found)
            wait_until("eight steps", lambda: pages.last_step() >= 8, 300.0)
            for service in _ONE_BEFORE_THE_NEXT:
                for container in composition.containers(service):
                    found.deaths.append(killing.kill(service, container))
            (producer,) = composition.containers("producer")
            engine.run("stop", "--time", "10", producer)
            found.scraped = scraping.check(composition)
            comparing.wait_for_risks(engine, composition)
        found.comparison = comparing.compare(engine, composition)
        same = f"{found.comparison.steps} steps and {found.comparison.risks:,} risks of single people"
        say(f"{same} are those of the embedded engine, bit for bit")
        report.write(output, engine, found, watch.taken)
        say(f"report written: {output}")
    finally:
        with step("compose file taken down"):
            composition.down()


def _make_images(engine: Engine, composition: Composition, found: Findings) -> None:
    """Built, weighed, and ours shown to work without any rights."""
    named = {name: composition.services[name]["image"] for name in ("release", "kafka", "prometheus")}
    images.make_base(engine)
    images.build_ours(engine, engine.folder / "tree", named["release"])
    images.build_broker(engine, named["kafka"])
    found.prometheus = images.build_prometheus(engine, named["prometheus"])
    size = engine.size_bytes(named["release"])
    found.sizes = {named["release"]: size, "base in it: Debian and Python": engine.size_bytes(images.BASE)}
    say(f"image {named['release']}: {size / 1e6:.0f} MB")
    if size > LARGEST_BYTES:
        raise RehearsalError(f"the image must be smaller than {LARGEST_BYTES / 1e6:.0f} MB")
    confined = [
        *comparing.CONFINED,
        "--tmpfs",
        "/tmp",
        "--volume",
        "kernels-of-the-demo:/var/cache/tallyguard",
    ]
    demo = ["demo", "--people", "200", "--steps", "12", "--seconds-per-step", "0", "--output", "/tmp/demo"]
    for what, arguments in (("`--help`", ["--help"]), ("`demo`, 200 people, 12 steps", demo)):
        with step(f"{what} in a container without rights") as clock:
            engine.run("run", "--rm", *confined, named["release"], *arguments)
        found.seconds[f"{what}, read-only, without rights and network"] = clock.seconds


def _bring_up(engine: Engine, composition: Composition, killing: Killing, found: Findings) -> None:
    """Service by service: those that end by themselves must end well, the others become healthy."""
    for service in composition.in_order():
        with step(f"service {service}") as clock:
            for container in composition.up(service):
                if composition.ends_by_itself(service) and service != "producer":
                    killing.watch(service, container)
                    code = engine.run("wait", container).strip()
                    if code != "0":
                        said = engine.tried("logs", container)
                        raise RehearsalError(
                            f"{service} ended with {code}: {(said.stdout + said.stderr)[-1500:]}"
                        )
                else:
                    killing.wait_until_healthy(service, container)
        found.seconds[f"service `{service}`"] = clock.seconds


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.rehearsal", description=__doc__)
    results = images.ROOT / "docs" / "results" / "tables" / "rehearsal.md"
    parser.add_argument("--output", type=Path, default=results, help="the report")
    parser.add_argument("--folder", type=Path, help="where images are kept; a temporary one if left out")
    parser.add_argument("--keep", action="store_true", help="leave images for the next time")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
