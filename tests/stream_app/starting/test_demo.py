"""The demo: ends by itself, repeats with its seed, and its tables follow from the run's own log."""

from __future__ import annotations

import json
import sys
import tempfile
import urllib.request
from pathlib import Path

import pytest

from stream_app.analysis.accounted_again import account, read_decisions
from stream_app.city import CityOptions, build_city
from stream_app.cli.demo_command import print_report, report_json
from stream_app.cli.shared import stdout
from stream_app.exceptions import OutputError
from stream_app.setup.settings_sources import load_settings
from stream_app.starting import demo as demo_of_a_city
from stream_app.starting.demo import SEED, DemoReport, pace, run_demo
from stream_app.watching.events import Observer, StepClosed
from tests.stream_app.any_message import parse_any

FEW = 30


class Visitor(Observer):
    """Looks at the page and the metrics after each step, as somebody watching would."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.address = self.token = ""
        self.people = b""
        self.metrics = ""
        self.events: list[StepClosed] = []

    def announce(self, text: str) -> None:
        """Keep what the demo says."""
        self.said.append(text)
        if text.startswith("page "):
            self.address = text.split()[1]
        if text.startswith("access token"):
            self.token = text.rsplit(maxsplit=1)[-1]

    def closed(self, event: StepClosed) -> None:
        """Visit the server while the engine runs."""
        self.events.append(event)
        with urllib.request.urlopen(f"{self.address}metrics", timeout=10) as answer:
            self.metrics = answer.read().decode()
        request = urllib.request.Request(
            f"{self.address}people.json?threshold=0", headers={"Authorization": f"Bearer {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            self.people = answer.read()


@pytest.fixture(scope="module")
def visit(tmp_path_factory: pytest.TempPathFactory) -> tuple[DemoReport, Visitor, list[float]]:
    """One short demo, watched, with fewer people under other noise: what is shown of them are means."""
    visitor, pauses = Visitor(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_of_a_city, "COMPARED_PEOPLE", FEW)
        report = run_demo(
            output=tmp_path_factory.mktemp("demo") / "out",
            steps=14,
            people=150,
            announce=visitor.announce,
            observer=visitor,
            sleep=pauses.append,
        )
    return report, visitor, pauses


Visit = tuple[DemoReport, Visitor, list[float]]


def test_an_hour_takes_the_time_asked_for_with_its_own_work_included() -> None:
    """What a slow hour took too long is not made up for."""
    moments, slept = iter([10.0, 10.25, 13.0, 13.25]), []
    pause = pace(1.0, slept.append, lambda: next(moments))
    for _ in range(3):
        pause()
    assert slept == [0.75, 0.0, 0.75]


@pytest.mark.slow
def test_the_page_and_metrics_are_up_while_it_runs_and_gone_after(visit: Visit) -> None:
    """The address is printed before the first step; afterwards nothing listens there."""
    report, visitor, pauses = visit
    assert len(visitor.events) == report.steps == 14
    assert "tallyguard_steps_closed_total 14.0" in visitor.metrics
    assert 'tallyguard_dp_rho{group="all"} +Inf' in visitor.metrics
    assert len(pauses) == 14
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(visitor.address, timeout=5)


@pytest.mark.slow
def test_its_access_token_is_told_opens_the_people_and_is_kept_nowhere(visit: Visit) -> None:
    """A newcomer can ask which release did it; the next demo has another token."""
    report, visitor, _ = visit
    assert len(visitor.token) == 16
    assert len(json.loads(visitor.people)["people"]) == 150
    kept = [path for path in report.scenario.folder.rglob("*") if path.is_file()]
    assert kept
    assert not any(visitor.token.encode() in path.read_bytes() for path in kept)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_demo(
    visit: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Releases, risks and tables repeat, noise and pseudonyms included; its report is not read."""
    report, _, _ = visit
    monkeypatch.setattr(demo_of_a_city, "COMPARED_PEOPLE", FEW)
    monkeypatch.setattr(demo_of_a_city, "write_report", lambda *_, **__: None)
    again = run_demo(
        output=tmp_path / "o",
        steps=14,
        people=150,
        seconds_per_step=0,
        listen="",
        announce=lambda text: None,
    )
    assert again.exposed == report.exposed
    assert again.alternatives == report.alternatives
    for name in ("releases.jsonl", "risks.jsonl"):
        assert (again.scenario.output / name).read_bytes() == (report.scenario.output / name).read_bytes()


def test_accounting_the_log_again_gives_the_risks_the_engine_showed(visit: Visit) -> None:
    """Means over the steps of the live summaries, and everybody's worst moment."""
    report, visitor, _ = visit
    city = build_city(CityOptions(people=150, seed=SEED))
    settings = load_settings(report.scenario.settings, {})
    steps = read_decisions(report.scenario.output / "decisions.jsonl", city.registry)
    again = account(city.population, steps, settings.horizon_settings(settings.first_slot))
    assert again.mean_risk == pytest.approx(report.view.figure("mean.ceiling").value, rel=1e-12)
    assert again.mean_baseline == pytest.approx(report.view.figure("mean.guess").value, rel=1e-12)
    assert sorted(again.worst.added)[-5:] == sorted(person.added for person in report.exposed)
    means = [event.summary.mean_risk for event in visitor.events if event.summary is not None]
    assert report.view.figure("mean.ceiling").value == pytest.approx(sum(means) / len(means), rel=1e-12)
    assert report.run.rejected == {}
    attacks = [event.summary.attack for event in visitor.events if event.summary is not None]
    attack = report.view.figure("mean.attack")
    for end, found in zip(("success", "low", "high"), (attack.value, *(attack.interval or ())), strict=True):
        mean = sum(getattr(each, end) for each in attacks) / len(attacks)
        assert found == pytest.approx(mean, rel=1e-12)


def test_the_attack_stands_between_guess_and_ceiling_and_noise_takes_it_away(visit: Visit) -> None:
    """Three columns of the table; everybody is attacked after every hour, so luck is small."""
    report, _, _ = visit
    _, raw, low, _, highest, nothing = report.alternatives
    assert raw.mean_attack is not None
    assert raw.mean_baseline + 0.02 < raw.mean_attack < raw.mean_risk + 0.01
    assert raw.mean_attack > (low.mean_attack or 0.0) > (highest.mean_attack or 0.0)
    assert highest.mean_attack == pytest.approx(highest.mean_baseline, abs=0.01)
    assert nothing.mean_attack == pytest.approx(nothing.mean_baseline, abs=1e-9)


def test_more_noise_costs_less_and_nothing_published_adds_nothing(visit: Visit) -> None:
    """The table of what noise would do is in the order a newcomer expects."""
    report, _, _ = visit
    _, raw, low, high, highest, nothing = report.alternatives
    assert raw.mean_risk > low.mean_risk > high.mean_risk > highest.mean_risk > nothing.mean_risk
    assert nothing.people_added == 0
    assert nothing.mean_error is None
    assert raw.mean_error == 0 < (low.mean_error or 0) < (high.mean_error or 0)
    assert nothing.mean_risk == pytest.approx(nothing.mean_baseline, rel=1e-9)


def test_it_leaves_a_report_that_names_the_most_exposed_by_pseudonym(visit: Visit) -> None:
    """One HTML file; no id of a person in it."""
    report, _, _ = visit
    page = report.scenario.report.read_text()
    assert page.startswith("<!doctype html>")
    assert "resident-" not in page


def test_the_most_exposed_come_first_and_only_by_pseudonym(visit: Visit) -> None:
    """Sorted by what the releases added; no id in any file of the engine's output."""
    report, _, _ = visit
    added = [person.added for person in report.exposed]
    assert added == sorted(added, reverse=True)
    assert added[0] > 0.1
    assert all(person.added == pytest.approx(person.risk - person.baseline) for person in report.exposed)
    for path in report.scenario.output.iterdir():
        assert b"resident-" not in path.read_bytes()
    risks = (report.scenario.output / "risks.jsonl").read_bytes().splitlines()
    known = {message.person for message in map(parse_any, risks) if message.type == "risk"}
    assert {person.pseudonym for person in report.exposed} <= known


def test_people_are_counted_once_in_the_table_of_ways_of_life(visit: Visit) -> None:
    """The groups add up to the city."""
    report, _, _ = visit
    assert sum(row.people for row in report.ways_of_life) == report.people == 150


def test_the_summary_fits_a_terminal_of_80_columns(visit: Visit, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables are not broken; only commands to copy may be longer."""
    report, _, _ = visit
    print_report(stdout(), report)
    lines = capsys.readouterr().out.splitlines()
    prose = [line for line in lines if str(report.scenario.folder) not in line]
    assert max(map(len, prose)) <= 80
    assert any("Who is most exposed" in line for line in lines)
    assert any(line.strip().startswith(report.exposed[0].pseudonym[:8]) for line in lines)
    assert report_json(report)["exposed"][0]["pseudonym"] == report.exposed[0].pseudonym


@pytest.mark.parametrize("is_found", [True, False])
def test_the_commands_it_ends_with_can_be_copied(
    visit: Visit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_found: bool
) -> None:
    """By name where the shell finds it, else by the path the demo was called with."""
    monkeypatch.setattr(sys, "argv", [".venv/bin/tallyguard", "demo"])
    monkeypatch.setattr("shutil.which", lambda name: "/somewhere" if is_found else None)
    print_report(stdout(), visit[0])
    lines = capsys.readouterr().out.splitlines()
    found = [line.split() for line in lines if " run --config" in line or " audit " in line]
    commands = {next(word for word in words if "=" not in word) for words in found}  # variables come first
    assert commands == {"tallyguard" if is_found else ".venv/bin/tallyguard"}


@pytest.mark.slow
def test_an_own_folder_is_replaced_and_any_other_left_alone(visit: Visit, tmp_path: Path) -> None:
    """Somebody's files are never removed."""
    (tmp_path / "thesis.txt").write_text("three years of work")

    def demo(output: Path) -> DemoReport:
        return run_demo(
            output=output, steps=2, people=20, seconds_per_step=0, listen="", announce=lambda text: None
        )

    with pytest.raises(OutputError, match="must be new or its own"):
        demo(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "three years of work"
    first, second = (demo(tmp_path / "fresh") for _ in range(2))
    assert first.steps == second.steps == 2


@pytest.mark.slow
def test_warming_up_runs_the_whole_demo_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What installing does to compile the kernels: nothing stays behind but the compiled kernels."""
    from stream_app.starting import warm_up

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    warm_up.main()
    assert list(tmp_path.iterdir()) == []
