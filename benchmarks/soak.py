"""Long runs on a real broker: workers killed a hundred times, and two hours in which much happens.

``python -m benchmarks.soak [kills] [regions] [events] [--kills 100] [--minutes 120] [--results FOLDER]``
writes ``kills.md``, ``kills-regions.md``, and ``soak.md`` with ``soak.csv`` and ``soak.png``. It ends with 1
if a step was lost, a value contradicted another, or a risk differed from the embedded run.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.engine_run import SEED
from benchmarks.eventful import EventfulReport, draw, page, run_eventful, table
from tests.kafka.broker import Broker, broker
from tests.kafka.faults.chaos import ChaosReport, run_chaos
from tests.kafka.support import OnKafka, Process, small_city

PARTS = ("kills", "regions", "events")


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
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
