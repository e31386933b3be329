"""The embedded runner: its inputs and outputs, and what happens at the end of each."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from models.keys import Pseudonymiser
from stream_app.embedded import RunOptions, run
from stream_app.exceptions import AccountingFailedError, InputError, SettingsError
from stream_app.setup.option_settings import RiskFormat
from stream_app.steps.accounts import PeopleAccounts
from stream_app.steps.policy import Decided
from stream_app.steps.ticks import StepClock
from stream_app.watching.events import Observer, RunStarted, RunStopped, StepClosed
from stream_app.wire.inputs import MAX_LINE_BYTES
from stream_app.wire.messages import PRIVATE_REASONS, Activation, Outcome, Reading, Reason, RiskSummary
from tests.stream_app.any_message import parse_any
from tests.stream_app.engine_support import (
    LITTLE_WORK,
    NAMES,
    PSEUDONYM_SECRET,
    TickingClock,
    accountant,
    activation,
    engine,
    feed,
    json_lines,
    lines_of,
    messages_of_a_day,
    outputs_of,
    population,
    reading,
    releases,
    run_on,
    settings,
)

DAY = messages_of_a_day(12, 5, faults=True)


@pytest.mark.slow
@pytest.mark.usefixtures("all_the_work")
def test_the_runner_writes_what_the_engine_gives(tmp_path: Path) -> None:
    """Releases in order without a gap, a summary a step, rejections with the line they came from."""
    report = run_on(tmp_path, [lines_of(DAY)])
    closed, rejected = feed(engine(), DAY)
    written = [parse_any(line) for line in (tmp_path / "releases.jsonl").read_bytes().splitlines()]
    assert written == releases(closed)
    risks = [parse_any(line) for line in (tmp_path / "risks.jsonl").read_bytes().splitlines()]
    summaries = [risk for risk in risks if isinstance(risk, RiskSummary)]
    assert [summary.step for summary in summaries] == list(range(len(closed)))
    assert summaries[-1].mean_risk == closed[-1].summary.mean_risk
    assert report.steps == report.next_step == len(closed)
    assert len(rejected) == len(json_lines(tmp_path / "rejected.jsonl"))
    assert sum(report.rejected.values()) == sum(each.reason not in PRIVATE_REASONS for each in rejected)
    for letter in json_lines(tmp_path / "rejected.jsonl"):
        line = int(str(letter["source"]).removeprefix("stdin:"))
        assert letter["payload"] == DAY[line - 1].line().decode().rstrip()


def test_people_appear_by_pseudonym_only(tmp_path: Path) -> None:
    run_on(tmp_path, [lines_of(DAY)])
    pseudonyms = Pseudonymiser.parse(PSEUDONYM_SECRET).pseudonyms(population().people)
    seen = {line["person"] for line in json_lines(tmp_path / "risks.jsonl") if line["type"] == "risk"}
    assert seen == set(pseudonyms)
    for name, content in outputs_of(tmp_path).items():
        assert b"person 1" not in content, name


@pytest.mark.slow
@pytest.mark.usefixtures("all_the_work")
def test_risk_records_are_the_accountants_numbers_exactly(tmp_path: Path) -> None:
    """Every float reads back as the same bits."""
    run_on(tmp_path, [lines_of(DAY)], settings={"risk_every": 1})
    watched = accountant()
    closed, _ = feed(engine(accounts=watched), DAY)
    last = [line for line in json_lines(tmp_path / "risks.jsonl") if line["step"] == len(closed) - 1]
    records = [line for line in last if line["type"] == "risk"]
    for key, expected in [
        ("risk", watched.risk()),
        ("baseline", watched.baseline()),
        ("added", watched.added()),
    ]:
        assert [record[key] for record in records] == expected.tolist()


@pytest.mark.slow
def test_csv_and_jsonl_of_the_same_readings_give_the_same_releases(tmp_path: Path) -> None:
    """Activations as a CSV known beforehand, readings as a CSV with its columns in another order."""
    day = messages_of_a_day(12, 6)
    announced = [m for m in day if isinstance(m, Activation)]
    counted = [m for m in day if isinstance(m, Reading)]
    (tmp_path / "activations.csv").write_text(
        "step,sensor,note\n" + "".join(f"{m.step},{name},x\n" for m in announced for name in m.sensors)
    )
    rows = "".join(f"{m.sensor},{m.count},{m.step}\r\n" for m in counted)
    (tmp_path / "readings.csv").write_bytes(f"sensor,count,step\r\n{rows}".encode())
    run_on(tmp_path / "jsonl", [lines_of(day)])
    from stream_app.wire.inputs import FileChunks, open_input

    chunks = FileChunks(open_input(tmp_path / "readings.csv"))
    options = {"input": tmp_path / "readings.csv", "schedule": tmp_path / "activations.csv"}
    run_on(tmp_path / "csv", chunks, **options)  # type: ignore[arg-type]
    jsonl, csv = outputs_of(tmp_path / "jsonl"), outputs_of(tmp_path / "csv")
    last = json_lines(tmp_path / "csv" / "releases.jsonl")[-1]["step"]
    assert isinstance(last, int)
    assert csv["releases.jsonl"].splitlines() == jsonl["releases.jsonl"].splitlines()[: last + 1]
    assert csv["rejected.jsonl"] == b""


def test_wrong_csv_lines_are_dead_letters_and_a_wrong_header_stops_the_run(tmp_path: Path) -> None:
    text = b'step,sensor,count\n0,A,1.5\n0,A\n0,A,-3\nx,A,1\n0,"A\n\xff,A,1\n\n'
    report = run_on(tmp_path / "out", [text], is_csv=True)
    assert report.rejected == {
        Reason.COUNT_NOT_INTEGER: 1,
        Reason.NOT_CSV: 4,
        Reason.NEGATIVE_COUNT: 1,
        Reason.INVALID_FIELD: 1,
    }
    with pytest.raises(InputError, match="columns step, sensor and count"):
        run_on(tmp_path / "other", [b"step,place,count\n0,A,1\n"], is_csv=True)


def test_a_csv_without_a_header_is_refused_without_showing_its_first_count(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="got 3 columns, none of them; add a header line") as caught:
        run_on(tmp_path / "out", [b"0,A,4711\n0,B,7\n"], is_csv=True)
    assert "4711" not in str(caught.value)


def test_a_schedule_file_gives_sensors_and_mechanisms(tmp_path: Path) -> None:
    """No activation needed, and the file's mechanism wins over the settings'."""
    schedule = tmp_path / "schedule.json"
    schedule.write_text(
        json.dumps(
            {
                "steps": [
                    {"sensors": ["A", 2], "mechanism": "raw"},
                    {"sensors": []},
                    {"releases": [{"sensor": "A", "mechanism": "suppressed"}]},
                ]
            }
        )
    )
    counted = [reading(0, "A", 4), reading(0, "C", 9), reading(2, "A", 5), reading(0, "B", 1)]
    report = run_on(tmp_path / "out", [lines_of(counted)], schedule=schedule)
    assert [line["releases"] for line in json_lines(tmp_path / "out" / "releases.jsonl")] == [
        [
            {"sensor": "A", "mechanism": "raw", "value": 4},
            {"sensor": "C", "mechanism": "raw", "value": 9},
        ],
        [],
        [{"sensor": "A", "mechanism": "suppressed"}],
    ]
    assert report.rejected == {Reason.LATE_READING: 1}


def test_the_slot_of_the_first_step_is_said_once(tmp_path: Path) -> None:
    """By the settings or by the schedule; two different answers are refused."""
    schedule = tmp_path / "schedule.json"
    schedule.write_text('{"first_slot": 3, "steps": []}')
    run_on(tmp_path / "one", [b""], schedule=schedule)
    assert json.loads((tmp_path / "one" / "run.json").read_text())["first_slot"] == 3
    with pytest.raises(SettingsError, match="3"):
        run_on(tmp_path / "two", [b""], schedule=schedule, settings={"first_slot": 4})


def malformed(random: np.random.Generator) -> bytes:
    """A line that is no valid message: a good one with something broken, or noise."""
    good = {"v": 1, "type": "reading", "step": 0, "sensor": "A", "count": 3}
    broken: list[object] = [
        {**good, "count": -int(random.integers(1, 99))},
        {**good, "count": float(random.integers(1, 99)) + 0.5},
        {**good, "count": str(random.integers(99))},
        {**good, "v": int(random.integers(2, 9))},
        {**good, "type": random.choice(["release", "risk", "", "Reading"])},
        {**good, "sensor": "Z" * int(random.integers(1, 400))},
        {**good, "step": -1},
        {**good, "step": int(random.integers(10**6, 10**15))},
        {**good, f"x{random.integers(9)}": 1},
        {key: value for key, value in good.items() if key != random.choice(list(good))},
        {"v": 1, "type": "activation", "step": 0, "sensors": random.choice(["A", "B"])},
        [good],
        None,
    ]
    text = json.dumps(broken[random.integers(len(broken))]).encode()
    kind = random.integers(4)
    if kind == 0:
        return json.dumps(good).encode()[: random.integers(0, 20)]
    if kind == 1:
        return random.bytes(int(random.integers(0, 50))).replace(b"\n", b" ").replace(b"\r", b" ")
    return text


@pytest.mark.slow
def test_of_a_thousand_malformed_lines_none_is_lost_and_none_does_harm(tmp_path: Path) -> None:
    """Each is in the dead letters with a reason; the good messages between them are released as without."""
    random = np.random.default_rng(2026)
    day = messages_of_a_day(40, 8)
    bad = [malformed(random) for _ in range(1000)]
    lines = [message.line() for message in day]
    for line in bad:
        lines.insert(int(random.integers(len(lines) + 1)), line + b"\n")
    report = run_on(tmp_path / "mixed", [b"".join(lines)])
    run_on(tmp_path / "clean", [lines_of(day)])
    assert (
        outputs_of(tmp_path / "mixed")["releases.jsonl"] == outputs_of(tmp_path / "clean")["releases.jsonl"]
    )
    letters = json_lines(tmp_path / "mixed" / "rejected.jsonl")
    assert len(letters) == 1000
    private = sum(letter["reason"] in PRIVATE_REASONS for letter in letters)
    assert sum(report.rejected.values()) == 1000 - private
    assert len({letter["source"] for letter in letters}) == 1000
    assert all(letter["reason"] in set(Reason) and letter["hint"] for letter in letters)
    assert len({letter["reason"] for letter in letters}) >= 9


def test_an_endless_line_is_a_dead_letter(tmp_path: Path) -> None:
    report = run_on(tmp_path, [b"x" * MAX_LINE_BYTES, b"xx\n"])
    assert report.rejected == {Reason.TOO_LONG: 1, Reason.NOT_JSON: 1}


def test_a_second_run_on_the_same_input_changes_nothing(tmp_path: Path) -> None:
    run_on(tmp_path, [lines_of(DAY)])
    before = outputs_of(tmp_path)
    report = run_on(tmp_path, [lines_of(DAY)])
    assert (report.steps, report.lines) == (0, 0)
    assert outputs_of(tmp_path) == before


@pytest.mark.slow
def test_kept_open_steps_go_on_with_the_next_input(tmp_path: Path) -> None:
    """Two halves, cut anywhere between lines, are the same as the whole."""
    lines = [message.line() for message in DAY]
    run_on(tmp_path / "whole", [b"".join(lines)])
    for cut in range(1, len(lines), 3):
        folder = tmp_path / str(cut)
        run_on(folder, [b"".join(lines[:cut])], keep_open=True)
        run_on(folder, [b"".join(lines[cut:])])
        found, expected = outputs_of(folder), outputs_of(tmp_path / "whole")
        for name in ("releases.jsonl", "risks.jsonl", "decisions.jsonl"):
            assert found[name] == expected[name], (cut, name)


@pytest.mark.slow
def test_a_parquet_run_has_the_same_records_and_continues_too(tmp_path: Path) -> None:
    lines = [message.line() for message in DAY]
    run_on(tmp_path / "jsonl", [b"".join(lines)])
    folder = tmp_path / "parquet"
    run_on(folder, [b"".join(lines[:20])], keep_open=True, risk_format=RiskFormat.PARQUET)
    (folder / "risks" / "step-000000009999.parquet").write_bytes(b"of an interrupted run")
    run_on(folder, [b"".join(lines[20:])], risk_format=RiskFormat.PARQUET)
    rows = [
        {"v": 1, "type": "risk", **row}
        for file in sorted((folder / "risks").iterdir())
        for row in pq.read_table(file).to_pylist()
    ]
    assert rows == [line for line in json_lines(tmp_path / "jsonl" / "risks.jsonl") if line["type"] == "risk"]
    assert all(line["type"] == "risk_summary" for line in json_lines(folder / "risks.jsonl"))


class Listener(Observer):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def started(self, event: RunStarted) -> None:
        self.heard.append(event)

    def received(self, outcome: Outcome, readings: int = 1) -> None:
        self.heard += [outcome] * readings

    def rejected(self, reason: Reason) -> None:
        self.heard.append(reason)

    def closed(self, event: StepClosed) -> None:
        self.heard.append(event)

    def stopped(self, event: RunStopped) -> None:
        self.heard.append(event)


def test_observers_hear_of_everything_and_of_no_secret(tmp_path: Path) -> None:
    listener = Listener()
    messages = [activation(0, "A", "B"), reading(0, "A", 31337), reading(0, "A", 31337), reading(5, "A", 1)]
    run_on(tmp_path, [lines_of(messages)], observer=listener)
    kinds = [item if isinstance(item, Outcome | Reason) else type(item) for item in listener.heard]
    assert kinds == [
        RunStarted,
        Outcome.ACCEPTED,
        Outcome.DUPLICATE,
        StepClosed,
        Reason.NO_ACTIVATION,
        RunStopped,
    ]
    closed = next(item for item in listener.heard if isinstance(item, StepClosed))
    assert closed.missing == ("B",)
    assert set(closed.published) == {"A"}
    assert "31337" not in repr(closed)
    assert listener.heard[-1] == RunStopped(1, "end of input")


def test_the_clock_knows_which_steps_are_over() -> None:
    clock = StepClock(origin_seconds=1000, step_seconds=60, grace_seconds=30.0, max_ahead=5)
    assert clock.due_step(1000 + 60 + 29) == -1
    assert clock.due_step(1000 + 60 + 30) == 0
    assert clock.due_step(1000 + 180 + 30) == 2
    with pytest.raises(SettingsError, match="origin"):
        clock.check(1000 + 60 * 10, 0)
    assert StepClock(1000, 60, None, 5).due_step(1e12) == -1


@pytest.mark.slow
def test_with_a_grace_in_seconds_silent_steps_close_by_the_clock(tmp_path: Path) -> None:
    """An empty chunk is a moment without input; the clock stands at ten seconds a look."""
    messages = [activation(0, "A", "B"), reading(0, "A", 3)]
    changed = {"grace_seconds": 1.0, "step_seconds": 1}
    run_on(tmp_path, [lines_of(messages), *[b""] * 200], settings=changed, keep_open=True)
    closed = json_lines(tmp_path / "releases.jsonl")
    assert len(closed) > 1
    assert [line["step"] for line in closed] == list(range(len(closed)))


def test_all_names_of_the_small_deployment_are_sensors() -> None:
    """The helper's own assumption."""
    assert tuple(population().location_names) == NAMES


def test_a_restarted_sender_on_a_pipe_that_says_its_first_announcement_again_is_heard(tmp_path: Path) -> None:
    """It announced a schedule of 40 steps at its first start; after a restart it announces as it counts."""
    counts = {step: [reading(step, "A", 9), reading(step, "B", step)] for step in range(12)}
    schedule = [activation(step, "A", "B") for step in range(40)]
    first = lines_of([*schedule, *(message for step in range(6) for message in counts[step])])
    run_on(tmp_path, [first], keep_open=True)
    then = [message for step in range(6, 12) for message in (schedule[step], *counts[step])]
    report = run_on(tmp_path, [lines_of([schedule[0], *then])], keep_open=True)
    assert (report.steps, report.next_step) == (6, 12)
    assert [len(step["releases"]) for step in json_lines(tmp_path / "releases.jsonl")] == [2] * 12
    report = run_on(tmp_path, [lines_of([schedule[0], *then])], keep_open=True)
    assert (report.steps, report.lines) == (0, 0)


def test_a_named_pipe_is_an_input_that_cannot_be_read_again(tmp_path: Path) -> None:
    """A stop is heard once all that was read of it is taken: the writer would not send it again."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    whole = lines_of(
        message
        for step in range(6)
        for message in (activation(step, "A", "B"), reading(step, "A", 9), reading(step, "B", step))
    )
    writer = os.open(path, os.O_RDWR)
    os.write(writer, whole)

    class Stopping(Observer):
        def closed(self, event: StepClosed) -> None:
            if event.step == 0:
                os.kill(os.getpid(), signal.SIGTERM)

    try:
        run(settings(), RunOptions(tmp_path / "out", path), population(), observer=Stopping())
    finally:
        os.close(writer)
    report = run_on(tmp_path / "out", [], keep_open=True)
    assert report.next_step == 6
    assert [len(step["releases"]) for step in json_lines(tmp_path / "out" / "releases.jsonl")] == [2] * 6


def test_a_step_that_cannot_be_accounted_leaves_those_before_it_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an archive, too, where they wait to be published together; a run that can goes on."""
    day = lines_of(messages_of_a_day(7, 5))
    (tmp_path / "day.jsonl").write_bytes(day)
    given = {"input": tmp_path / "day.jsonl", "clock": TickingClock(0.0), "settings": LITTLE_WORK}

    def failing(accounts: PeopleAccounts, decided: Decided) -> None:
        if decided.schedule.step == 4:
            raise SettingsError("a step must be accounted", "an error", "mend it")
        apply(accounts, decided)

    apply = PeopleAccounts.apply
    with monkeypatch.context() as patch, pytest.raises(AccountingFailedError, match="step 4 must be"):
        patch.setattr(PeopleAccounts, "apply", failing)
        run_on(tmp_path / "out", [day], **given)
    assert [each["step"] for each in json_lines(tmp_path / "out" / "releases.jsonl")] == [0, 1, 2, 3]
    run_on(tmp_path / "out", [day], **given)
    run_on(tmp_path / "whole", [day], settings=LITTLE_WORK)
    for name in ("releases.jsonl", "decisions.jsonl", "risks.jsonl"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


class Watcher(Observer):
    """Notes for each step it is told of how many are released, and the step that people's risks are of."""

    def __init__(self, folder: Path, *, may_lag: bool) -> None:
        self.folder, self.may_lag = folder, may_lag
        self.seen: list[tuple[int, int, int]] = []

    def started(self, event: RunStarted) -> None:
        self.view = event.view

    def closed(self, event: StepClosed) -> None:
        assert self.view is not None
        released = (self.folder / "releases.jsonl").read_bytes().count(b"\n")
        self.seen.append((event.step, released - 1, self.view.standing().step))


@pytest.mark.parametrize("kind", ["archive", "pipe", "page"])
def test_steps_of_an_archive_are_published_together_unless_somebody_looks_at_each(
    tmp_path: Path, kind: str
) -> None:
    """What is told is durable, and the risks on a page are those of its step; the files are the same."""
    day = lines_of(messages_of_a_day(9, 5))
    (tmp_path / "day.jsonl").write_bytes(day)
    watcher = Watcher(tmp_path / kind, may_lag=kind != "page")
    given = {} if kind == "pipe" else {"input": tmp_path / "day.jsonl"}
    run_on(tmp_path / kind, [day], observer=watcher, clock=TickingClock(0.005), settings=LITTLE_WORK, **given)
    steps = [step for step, _, _ in watcher.seen]
    assert steps == list(range(9))
    if kind == "archive":
        assert max(released - step for step, released, _ in watcher.seen) > 1
        assert all(released >= step for step, released, _ in watcher.seen)
    else:
        assert watcher.seen == [(step, step, step) for step in steps]
