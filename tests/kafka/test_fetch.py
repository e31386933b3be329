"""What is fetched from a deployment on Kafka is what an embedded run would have left, figure by figure."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from stream_app.analysis.checked_run import check_run
from stream_app.analysis.run_log import read_run
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.tools.fetching import Fetched, fetch
from tests.kafka.broker import Broker
from tests.kafka.support import OnKafka, small_city
from tests.stream_app.command_line import called

pytestmark = pytest.mark.slow

STEPS = 24


def fetched(deployment: OnKafka, folder: Path) -> Fetched:
    """One call, as the command makes it."""
    return fetch(Deployment.recorded(deployment.settings), folder)


def said(*arguments: object) -> str:
    """What a command prints that must succeed."""
    result = called(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def assert_same_logs(copy: Path, run: Path, *, first: int = 0, until: int = 10**9) -> None:
    """Of the steps before ``until``; risks from the step ``first`` on, whatever the order of people."""
    for name in ("decisions.jsonl", "releases.jsonl"):
        assert lines(copy / name)[:until] == lines(run / name)[:until], name
    ours, theirs = (
        sorted(
            (json.loads(each) for each in lines(some / "risks.jsonl")),
            key=lambda each: (each["step"], each.get("person", "")),
        )
        for some in (copy, run)
    )
    for each in (*ours, *theirs):
        each.pop("chains", None)  # the digest of chains by the names and the order of people
    found, expected = ([each for each in some if first <= each["step"] < until] for some in (ours, theirs))
    for line, wanted in zip(found, expected, strict=True):
        assert line == wanted
    assert check_run(copy).faults == ()


def assert_as_written(copy: Path, deployment: OnKafka) -> None:
    """Decisions and risks of single people are those on the topics."""
    decisions = [json.loads(each) for each in deployment.values(deployment.topics.decisions)]
    for each in decisions:
        each.pop("deployment")
    assert [json.loads(each) for each in lines(copy / "decisions.jsonl")] == decisions
    risks = lines(copy / "risks.jsonl")
    assert sorted(line for line in risks if b'"type":"risk",' in line) == deployment.person_risks()
    assert check_run(copy).faults == ()


def assert_same_figures(copy: Path, run: Path) -> None:
    """Of the logs, and of every command that reads a run."""
    assert_same_logs(copy, run)
    assert said("verify", copy)
    assert figures(copy) == figures(run)
    documents = [json.loads(said("ledger", some, "--json")) for some in (copy, run)]
    assert documents[0] == documents[1]
    for some in (copy, run):
        said("export", some, "--output", some / "open", "--totals", "day by city")
    tables = sorted(path.name for path in (run / "open").glob("*.csv"))
    assert tables
    for name in tables:
        assert (copy / "open" / name).read_bytes() == (run / "open" / name).read_bytes()
    texts = [report_text(some) for some in (copy, run)]
    assert texts[0] == texts[1]
    assert '"same": true' in said("replay", copy, "--json")


def figures(folder: Path) -> Any:
    """Everything that a report shows of a run as numbers."""
    log = read_run(folder)
    return log.summaries, log.exposed, log.sensors, log.releases, log.rejected, log.reasons, log.beyond


def report_text(folder: Path) -> list[str]:
    """The words of the report, without folder, digests, times and whether the run has ended."""
    said("report", folder, "--output", folder / "report.html")
    text = re.sub(r"<(style|svg).*?</\1>", " ", (folder / "report.html").read_text(), flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", "\n", text)
    apart = r"Made .*|Steps 0 to \d+ are.*|.*priors [0-9a-f]{12} of.*|.*last entry is.*"
    apart = rf"{apart}|\d{{4}}-\d\d-\d\d \d\d:\d\d [A-Z]{{3,4}}"
    goes_on = r"(?<=^Yes) so far(?=,)| But steps 0 to \d+ are .*steps only\."
    text = re.sub(rf"^({apart})$|{goes_on}", "", text, flags=re.MULTILINE)
    return [line.strip() for line in text.splitlines() if line.strip()]


def is_private(path: Path) -> bool:
    return not stat.S_IMODE(path.stat().st_mode) & 0o077


def test_a_copy_has_the_figures_of_an_embedded_run_and_grows(kafka: Broker, tmp_path: Path) -> None:
    """Fetched half way and at the end; a third call adds nothing."""
    population, sensors, messages = small_city(40)
    sent = messages(STEPS)
    half = next(number for number, line in enumerate(sent) if json.loads(line)["step"] == STEPS // 2)
    copy = tmp_path / "copy"
    with OnKafka(tmp_path / "fetched", kafka.address, population, sensors) as deployment:
        deployment.load_people()
        workers = [deployment.start("release"), deployment.start("account")]
        deployment.produce([*sent[:half], b"no message"])
        deployment.wait_for_steps(STEPS // 2 - 2)
        first = fetched(deployment, copy)
        assert first.steps >= STEPS // 2 - 2
        before = {path.name: path.read_bytes() for path in copy.glob("*.jsonl")}
        deployment.produce(sent[half:])
        deployment.wait_for_steps(STEPS)
        text = said("fetch", copy, "--config", deployment.config)
        assert text.startswith(f"{STEPS - first.steps} steps added")
        assert "now has 24 steps and 40 people" in " ".join(text.split())
        again = fetched(deployment, copy)
        assert (again.steps, again.next_step, again.rejected, again.left_out) == (0, STEPS, 0, ())
        for process in workers:
            assert process.stop() == 0, process.text
        deployment.embedded([*sent[:half], b"no message", *sent[half:]])
    for name in ("decisions.jsonl", "releases.jsonl", "risks.jsonl", "rejected.jsonl"):
        assert (copy / name).read_bytes().startswith(before[name])
    assert_same_figures(copy, tmp_path / "fetched" / "embedded")
    for path in copy.iterdir():
        is_open = path.name in ("releases.jsonl", "run.json", "report.html", "open")
        assert is_private(path) or is_open, path.name
