"""Volunteers' true places while an engine runs: an alarm where priors are wrong, and nothing else shown."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from models.prior_files import save_population
from models.priors import Population
from stream_app.analysis.preflight import check_files
from stream_app.embedded import RunOptions, panel_of, run
from stream_app.embedded.panel import SHOWN_EVERY
from stream_app.exceptions import SettingsError
from stream_app.kafka.workers import prepared
from stream_app.setup.combinations import Runner
from stream_app.setup.settings_sources import load_settings
from stream_app.watching.events import Observer, Observers, PanelChecked
from stream_app.watching.metrics import EngineMetrics
from stream_app.watching.web.answers import render
from stream_app.watching.web.status import StatusBoard
from stream_app.wire.messages import PlaceReport
from tests.accounting.calibration import walkers
from tests.stream_app.engine_support import (
    LITTLE_WORK,
    NAMES,
    lines_of,
    messages_of_a_day,
    outputs_of,
    population,
    settings,
)

HORIZON = 4
MAIN = "import sys; from stream_app.cli import main; sys.exit(main())"
STEPS = 60 * HORIZON


def reports(people: Population, power: float, steps: int = STEPS) -> list[bytes]:
    """Where everybody was, step by step; rows to a power, 1 for the priors themselves."""
    chains = [_rows(people, person) for person in range(len(people))]
    walked = walkers.walked(np.random.default_rng(5), walkers.sharpened(chains, power), steps)
    return [
        PlaceReport(v=1, step=step, person=name, location=NAMES[walked.places[person, step]]).line()
        for step in range(steps)
        for person, name in enumerate(people.people)
    ]


def _rows(people: Population, person: int) -> np.ndarray:
    moves = people.subset([person]).moves()
    rows = np.zeros((1, len(NAMES), len(NAMES)))
    rows[moves.slot, moves.row, moves.column] = moves.probability
    return rows


def private(path: Path, lines: list[bytes]) -> Path:
    """A file that only its owner may read."""
    path.touch(mode=0o600)
    path.write_bytes(b"".join(lines))
    return path


@dataclass
class Heard(Observer):
    """What observers are told of the panel."""

    events: list[PanelChecked] = field(default_factory=list)

    def panel_checked(self, event: PanelChecked) -> None:
        """Keep it."""
        self.events.append(event)


def watched(folder: Path, panel: Path | None) -> tuple[Heard, CollectorRegistry, StatusBoard]:
    """A run of eight steps with this panel."""
    given = settings(panel=panel, **LITTLE_WORK)
    heard, registry, status = Heard(), CollectorRegistry(), StatusBoard()
    metrics = EngineMetrics(registry, [], given.thresholds, 1e-6, settings=given)
    lines = lines_of(messages_of_a_day(8, 1))
    run(given, RunOptions(folder), population(), chunks=[lines], observer=Observers([heard, metrics, status]))
    return heard, registry, status


def test_sharpened_volunteers_raise_the_alarm_and_faithful_ones_do_not(tmp_path: Path) -> None:
    """In the metrics, and in a sentence on the pages."""
    faithful = private(tmp_path / "faithful.jsonl", reports(population(), 1.0))
    heard, registry, status = watched(tmp_path / "a", faithful)
    value = registry.get_sample_value
    assert heard.events[-1].guesses == 6 * 60
    assert value("tallyguard_priors_refuted", {"found_by": "panel"}) == 0
    assert value("tallyguard_panel_guesses") == 6 * 60
    assert value("tallyguard_panel_evidence") == heard.events[-1].evidence < 20
    assert "volunteers do not refute the priors (360 guesses" in (status.read().note or "")
    sharper = private(tmp_path / "sharper.jsonl", reports(population(), 4.0))
    heard, registry, status = watched(tmp_path / "b", sharper)
    value = registry.get_sample_value
    assert value("tallyguard_priors_refuted", {"found_by": "panel"}) == 1
    assert value("tallyguard_priors_refuted", {"found_by": "check"}) == 0
    assert value("tallyguard_panel_evidence") > 20
    assert "volunteers refute the priors" in (status.read().note or "")
    assert "volunteers refute the priors" in render(status.read())


def test_nothing_of_the_panel_is_in_what_a_run_writes_and_no_single_guess_is_told(tmp_path: Path) -> None:
    """The same files, byte for byte; events come by the twenty guesses."""
    panel = private(tmp_path / "panel.jsonl", reports(population(), 4.0))
    heard, _, _ = watched(tmp_path / "with", panel)
    watched(tmp_path / "without", None)
    assert outputs_of(tmp_path / "with") == outputs_of(tmp_path / "without")
    assert heard.events[0] == PanelChecked(0, 1.0, is_refuted=False)
    assert all(event.guesses % SHOWN_EVERY == 0 for event in heard.events)
    few = private(tmp_path / "few.jsonl", reports(population(), 4.0)[: 6 * HORIZON])
    assert watched(tmp_path / "few", few)[0].events == [PanelChecked(0, 1.0, is_refuted=False)]


def test_places_that_come_while_the_run_goes_on_are_read_and_a_restart_says_the_same(tmp_path: Path) -> None:
    """Evidence is a function of the file; a line that is not whole yet waits."""
    lines = reports(population(), 4.0)
    panel = private(tmp_path / "panel.jsonl", [])

    class Volunteers(Observer):
        """Append a part of the places at each step, cut in the middle of a line."""

        def __init__(self) -> None:
            self.rest = b"".join(lines)

        def closed(self, event: object) -> None:
            """Some more."""
            part = len(b"".join(lines)) // 8 + 7
            with panel.open("ab") as file:
                file.write(self.rest[:part])
            self.rest = self.rest[part:]

    given = settings(panel=panel, **LITTLE_WORK)
    day = messages_of_a_day(12, 1)
    heard = Heard()
    observers = Observers([heard, Volunteers()])
    run(given, RunOptions(tmp_path / "out"), population(), chunks=[lines_of(day)], observer=observers)
    assert len(heard.events) > 3
    again = Heard()
    run(given, RunOptions(tmp_path / "out"), population(), chunks=[lines_of(day)], observer=again)
    assert again.events[-1] == heard.events[-1]
    assert heard.events[-1].guesses == 6 * 60


def test_lines_that_are_no_places_are_counted_and_not_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Strangers, unknown locations, old steps and rubbish; their contents stay out of the log."""
    good = reports(population(), 1.0, HORIZON * 20)
    strange = PlaceReport(v=1, step=1, person="secret-stranger", location="A").line()
    nowhere = PlaceReport(v=1, step=1, person="person 1", location="secret-place").line()
    panel = private(tmp_path / "p.jsonl", [b"secret-rubbish\n", strange, *good, nowhere, good[0]])
    with caplog.at_level(logging.WARNING):
        heard, _, _ = watched(tmp_path / "out", panel)
    assert heard.events[-1].guesses == 6 * 20
    assert "panel: 4 lines do not say where a person of the priors was" in caplog.text
    assert "the first is line 1" in caplog.text
    assert "secret" not in caplog.text


def test_a_panel_that_others_may_read_is_refused(tmp_path: Path) -> None:
    """Before anything is made, by run and by check; a file that is not there yet is an empty one."""
    with TemporaryDirectory() as reachable:  # nobody gets through pytest's own folder
        folder = Path(reachable)
        folder.chmod(0o755)
        panel = private(folder / "panel.jsonl", [])
        panel.chmod(0o644)
        with pytest.raises(SettingsError, match=r"panel must be readable by its owner only, got .*chmod 600"):
            watched(tmp_path / "out", panel)
        (folder / "t.toml").write_text('panel = "panel.jsonl"\n')
        assert load_settings(folder / "t.toml").panel == panel
        found = check_files(config=folder / "t.toml")
    assert not (tmp_path / "out").exists()
    assert [each.subject for each in found if each.level == "problem"] == ["panel"]
    heard, registry, _ = watched(tmp_path / "later", tmp_path / "none.jsonl")
    assert heard.events == [PanelChecked(0, 1.0, is_refuted=False)]
    assert registry.get_sample_value("tallyguard_panel_evidence") == 1.0


def test_on_kafka_workers_say_who_reads_the_panel(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They go on with the settings file of the process that does, without access to the volunteers' file."""
    (tmp_path / "locations.txt").write_text("\n".join(NAMES))
    kafka, panel = {"servers": ["nowhere:9092"]}, tmp_path / "panel.jsonl"
    given = settings(panel=panel, locations=tmp_path / "locations.txt", kafka=kafka)
    with caplog.at_level(logging.WARNING):
        assert prepared(Runner.ACCOUNT, given).deployment.location_names == NAMES
    assert "no worker reads it; `tallyguard priors watch`" in caplog.text
    assert panel_of(given, population()).shown == PanelChecked(0, 1.0, is_refuted=False)


@pytest.mark.slow
def test_on_kafka_a_process_of_its_own_watches_the_panel(tmp_path: Path) -> None:
    """The figures of a run; its metrics follow what is appended, and it ends in order."""
    lines = reports(population(), 1.0, HORIZON * 40)
    half = len(lines) // 2
    panel = private(tmp_path / "panel.jsonl", lines[:half])
    heard, _, _ = watched(tmp_path / "out", panel)
    save_population(population(), tmp_path / "priors.json")
    given = f'panel = "panel.jsonl"\nhorizon = {HORIZON}\nmistakes = {settings().mistakes}\n'
    config = tmp_path / "t.toml"
    config.write_text(given)
    command = [sys.executable, "-c", MAIN, "priors", "watch", "priors.json", "--config", str(config)]
    once = subprocess.run([*command, "--once", "--json"], cwd=tmp_path, capture_output=True, check=True)
    assert json.loads(once.stdout) == asdict(heard.events[-1])
    said = subprocess.run([*command, "--once"], cwd=tmp_path, capture_output=True, check=True, text=True)
    assert "Volunteers do not refute the priors (120 guesses" in " ".join(said.stdout.split())
    going = [*command, "--listen", "127.0.0.1:0", "--every", "1"]
    with subprocess.Popen(going, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            address = process.stderr.readline().split()[-1]
            with panel.open("ab") as file:
                file.writelines(lines[half:])
            until = time.monotonic() + 60
            while "tallyguard_panel_guesses 240.0" not in (page := _page(address)):
                assert time.monotonic() < until, page
                time.sleep(0.2)
            assert 'tallyguard_priors_refuted{found_by="panel"} 0.0' in page
        finally:
            process.terminate()
        assert process.wait(timeout=60) == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        held = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = subprocess.run(
            [*command, "--listen", held], check=False, cwd=tmp_path, capture_output=True, text=True
        )
    assert "must be free" in refused.stderr
    config.write_text("horizon = 4\n")
    refused = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
    assert "panel must name the file of volunteers' true places" in " ".join(refused.stderr.split())


def _page(address: str) -> str:
    with urllib.request.urlopen(address, timeout=10) as answer:
        return str(answer.read().decode())
