"""Long runs: workers killed a hundred times, two hours in which much happens, a hundred thousand steps.

``python -m benchmarks.soak [kills] [regions] [events] [steps] [--kills 100] [--minutes 120] [--steps 100000]
[--results FOLDER]`` writes ``kills.md``, ``kills-regions.md``, ``soak.md`` with ``soak.csv`` and
``soak.png``, and ``long-runs.md``. It ends with 1 if a step was lost, a value contradicted another, or a risk
differed from the embedded run.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.engine_run import SEED
from benchmarks.eventful import EventfulReport, draw, page, run_eventful, table, usage
from tests.kafka.broker import Broker, broker
from tests.kafka.faults.chaos import ChaosReport, run_chaos
from tests.kafka.support import OnKafka, Process, small_city

PARTS = ("kills", "regions", "events", "steps")


def kill_often(server: Broker, folder: Path, kills: int) -> ChaosReport:
    """1 000 people, four partitions, at least 2 000 steps; a worker dies every few seconds."""
    population, sensors, messages = small_city(1000)
    steps = max(2000, 20 * kills)
    pace = 5 * steps / (kills * 2.5)  # messages last as long as the kills
    with OnKafka(folder, server.address, population, sensors, risk_every=100) as deployment:
        return run_chaos(
            deployment, messages(steps), steps, kills, seed=SEED, messages_per_second=pace, seconds=900.0
        )


def kill_often_in_regions(server: Broker, folder: Path, kills: int) -> ChaosReport:
    """200 people under a risk budget, three regions; any of five processes dies every few seconds."""
    population, sensors, messages = small_city(200)
    steps = 10 * kills
    region_of = {name: f"part {number % 3}" for number, (name, _) in enumerate(sensors)}
    budget = {"mechanism": "budget", "budget.share": 0.2, "budget.added": 0.3}
    more: dict[str, Any] = {"release": budget, "kafka": {"answer_seconds": 60}, "sharpen_operations": 600_000}
    Process.copied = True  # or each would be killed before it has started
    try:
        with OnKafka(folder, server.address, population, sensors, regions=region_of, **more) as deployment:
            return run_chaos(
                deployment,
                messages(steps),
                steps,
                kills,
                seed=SEED,
                workers={"intake": 2, "coordinator": 1, "account": 2},
                messages_per_second=5 * steps / (kills * 4.0),
                between_seconds=(2.0, 6.0),
                seconds=1800.0,
            )
    finally:
        Process.copied = False  # memory of the long run is that of processes of their own


class LongRun(NamedTuple):
    """What each process used, by the steps it had released or accounted; whether both gave the same bytes."""

    steps: int
    used: dict[str, list[tuple[int, dict[str, float]]]]
    is_same: bool


def run_long(server: Broker, folder: Path, steps: int) -> LongRun:
    """100 people, four sensors a step: in a folder, as an archive is read, and on the broker."""
    population, sensors, messages = small_city(100)
    lines = messages(steps)
    used: dict[str, list[tuple[int, dict[str, float]]]] = {}

    def look(name: str, process: Process, released: int) -> None:
        if process.is_running:
            used.setdefault(name, []).append((released, usage(process)))

    with OnKafka(folder, server.address, population, sensors, risk_every=1000) as deployment:
        source, output = folder / "messages.jsonl", folder / "in-a-folder"
        source.write_bytes(b"".join(line + b"\n" for line in lines))
        priors = str(folder / "priors.json")
        own = deployment.command("run", "--priors", priors, "--input", str(source), "--output", str(output))
        releases = output / "releases.jsonl"
        while own.is_running:
            time.sleep(1.0)
            if releases.exists():
                with releases.open("rb") as written:
                    look("run in a folder", own, sum(1 for _ in written))
        assert own.ended() == 0, own.text[-2000:]
        deployment.load_people()
        workers = {kind: deployment.start(kind) for kind in ("release", "account")}
        deployment.produce(lines)

        def watch() -> None:
            done = {"release": deployment.steps_decided(), "account": deployment.steps_accounted()}
            for kind, worker in workers.items():
                look(f"{kind} worker", worker, done[kind])
            time.sleep(2.0)

        deployment.wait_for_steps(steps, 7200.0, watch)
        same = deployment.releases() == releases.read_bytes().splitlines()
    return LongRun(steps, used, same)


def long_page(run: LongRun) -> str:
    """The page of results."""
    marks = [run.steps * part // 10 for part in range(1, 11)]
    rows = []
    for name, every in run.used.items():
        seen = every[:-1]  # in the last one it may have ended halfway
        for quantity in seen[0][1]:
            at = (next((used for released, used in seen if released >= mark), seen[-1][1]) for mark in marks)
            rows.append(f"| {name} | {quantity} | {' | '.join(f'{used[quantity]:.0f}' for used in at)} |")
    body = "\n".join(rows)
    return f"""# {run.steps:,} steps in one process

Made by `make soak`: 100 people, four sensors a step, sigma 2, T = 6, s = 2; a run in a folder reads the
messages as a file, and a release worker and an account worker (four partitions) read them from Apache Kafka.
Releases of both are {"the same, byte for byte" if run.is_same else "NOT the same"}.

| process | uses, when it had done so many steps | {" | ".join(f"{mark:,}" for mark in marks)} |
|---|---|{"---:|" * len(marks)}
{body}
"""


def write_events(results: Path, report: EventfulReport) -> None:
    """The page, the figures behind the plot, the plot."""
    header, columns = table(report.watched)
    with (results / "soak.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows([f"{value:.2f}" for value in row] for row in zip(*columns, strict=True))
    draw(results / "soak.png", report.watched)
    (results / "soak.md").write_text(page(report))


def kills_page(chaos: ChaosReport, title: str, processes: str) -> str:
    """What killing workers did, in words."""
    kills = ", ".join(f"{number} of {kind}" for kind, number in chaos.kills.items())
    yes = {True: "yes", False: "NO"}
    found = {
        "kills before which more steps had been decided since the last": chaos.kills_at_work,
        "steps released": f"{chaos.steps_released:,} of {chaos.steps:,}",
        "steps lost": chaos.steps_lost,
        "sensor-steps with two different values": chaos.contradictions,
        "releases, byte for byte those of the embedded run": yes[chaos.releases_equal],
        f"risks of single people ({chaos.risks_compared:,} records), bit for bit likewise": yes[
            chaos.risks_equal
        ],
        "summaries written with two different contents": chaos.repeated_summaries,
    }
    outcome = "\n".join(f"| {what} | {value} |" for what, value in found.items())
    return f"""# {title}

Made by `make soak`: one Apache Kafka, {processes}, on two cores.

{sum(chaos.kills.values())} times `kill -9` ({kills}), within {chaos.seconds:.0f} s; {chaos.steps:,} steps for
{chaos.people:,} people in four partitions.

| what | found |
|---|---:|
{outcome}
"""


_KILLS = (
    (
        *("kills", kill_often, "kills.md"),
        *("Workers killed at random on a real broker", "a release worker and two account workers"),
    ),
    (
        *("regions", kill_often_in_regions, "kills-regions.md"),
        "Workers of three regions killed at random under a risk budget",
        "two intake workers for three regions, a coordinator and two account workers",
    ),
)


def main() -> int:
    """Run what was asked for; 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help="which; all unless named")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--results", type=Path, default=Path("docs/results/tables"))
    chosen = parser.parse_args()
    chosen.results.mkdir(parents=True, exist_ok=True)
    is_sound = True
    # Once, not each worker for itself.
    subprocess.run([sys.executable, "-m", "stream_app.kafka.warm_up"], check=True)
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder) / "broker") as server:
        for part, kill, file, title, processes in _KILLS:
            if part in chosen.parts:
                chaos = kill(server, Path(folder) / part, chosen.kills)
                print(chaos, flush=True)
                (chosen.results / file).write_text(kills_page(chaos, title, processes))
                is_sound &= chaos.is_sound
        if "events" in chosen.parts:
            report = run_eventful(server, Path(folder) / "events", chosen.minutes)
            print(report.events, report.is_sound, flush=True)
            write_events(chosen.results, report)
            is_sound &= report.is_sound
        if "steps" in chosen.parts:
            long = run_long(server, Path(folder) / "steps", chosen.steps)
            (chosen.results / "long-runs.md").write_text(long_page(long))
            is_sound &= long.is_same
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
