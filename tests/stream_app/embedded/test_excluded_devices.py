"""Excluded devices: a run is that of a schedule without them, whatever is sent and however often it dies."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stream_app.analysis.planning import plan_releases
from stream_app.analysis.report.sections import setting_rows
from stream_app.analysis.run_log import read_run
from stream_app.exceptions import OutputError, RunChangedError
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.release.release_core import InputRecord, ReleaseCore
from stream_app.setup.exclusions import load_exclusions
from stream_app.setup.run_folder.record import read_entries
from stream_app.steps import StepClock
from stream_app.wire import Activation, Reading, Reason
from tests.stream_app.embedded.test_journal import Disk
from tests.stream_app.embedded.test_windows_in_runs import deployment as with_windows
from tests.stream_app.embedded.test_windows_in_runs import whole_day as day_of_windows
from tests.stream_app.engine_support import (
    LITTLE_WORK,
    NAMES,
    REGISTRY,
    activation,
    engine,
    json_lines,
    lines_of,
    messages_of_a_day,
    outputs_of,
    population,
    reading,
    run_on,
    settings,
)
from tests.stream_app.memory_log import MemoryLog, took

Messages = Sequence[Activation | Reading]
STEPS = 12
OUT = {("A", step) for step in range(3, 6)} | {("D", step) for step in range(8, STEPS)}
BUDGET = {"mechanism": "budget", "budget": {"share": 0.2, "added": 0.25}}
ACCOUNTED = ("decisions.jsonl", "releases.jsonl", "risks.jsonl")


def table(folder: Path, *lines: str) -> dict[str, Any]:
    """Settings with these exclusions; steps are minutes after midnight."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "exclusions.csv"
    lines = lines or ("A,1970-01-01T00:03Z,1970-01-01T00:06Z,calibration", "D,1970-01-01T00:08Z,,broken")
    path.write_text("\n".join(["sensor,from,to,reason", *lines, ""]))
    return {**LITTLE_WORK, "quality": {"exclusions": path}}


def day() -> list[Activation | Reading]:
    """All sensors are announced; now and then one does not report."""
    return [
        each
        for step in range(STEPS)
        for each in (
            activation(step, *NAMES),
            *(reading(step, name, 3 * step + len(NAMES)) for name in NAMES if (step, name) != (4, "B")),
        )
    ]


def without(messages: Messages, left_out: set[tuple[str, int]]) -> list[Activation | Reading]:
    """The messages as if nobody had announced these sensors, nor sent their counts."""
    return [
        activation(each.step, *(name for name in each.sensors if (name, each.step) not in left_out))
        if isinstance(each, Activation)
        else each
        for each in messages
        if isinstance(each, Activation) or (each.sensor, each.step) not in left_out
    ]


def accounted(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in ACCOUNTED]


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"release": BUDGET},
        {"release": {"mechanism": "tiered", "tiers": {"public": 0.2, "partner": 1.0}}},
        {"crowd": {"on": True}},
    ],
)
def test_accounts_and_values_are_those_of_messages_without_the_excluded_devices(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    """Decisions, releases and everybody's risks, byte for byte; also with a budget, tiers and a crowd."""
    run_on(tmp_path / "a", [lines_of(day())], settings={**table(tmp_path), **more})
    plain = {**LITTLE_WORK, **more}
    run_on(tmp_path / "b", [lines_of(without(day(), OUT))], settings=plain)
    assert accounted(tmp_path / "a") == accounted(tmp_path / "b")
    run_on(tmp_path / "c", [lines_of(day())], settings=plain)
    assert accounted(tmp_path / "a") != accounted(tmp_path / "c"), "else nothing was excluded"


def test_their_readings_are_dead_letters_with_a_reason_and_are_not_missing(tmp_path: Path) -> None:
    report = run_on(tmp_path / "out", [lines_of(day())], settings=table(tmp_path))
    assert report.rejected == {Reason.EXCLUDED: len(OUT)}
    letters = json_lines(tmp_path / "out" / "rejected.jsonl")
    assert "(calibration)" in str(letters[0]["hint"])
    assert {(json.loads(str(each["payload"]))["sensor"]) for each in letters} == {"A", "D"}
    named = [
        (entry["sensor"], line["step"])
        for line in json_lines(tmp_path / "out" / "releases.jsonl")
        for entry in line["releases"]  # type: ignore[attr-defined]
    ]
    assert not OUT & set(named), "not even as suppressed"


def test_batches_late_counts_and_repeated_announcements_know_them(tmp_path: Path) -> None:
    """Whatever the order: a reading before its activation, one of a closed step, the activation again."""
    messages = [
        reading(3, "A", 9),
        *day(),
        activation(11, *NAMES),
        activation(9, *NAMES),
        activation(11, *NAMES[1:3], "A"),
        reading(10, "D", 1),
    ]
    chosen = {**table(tmp_path), "late": 4, "max_ahead": 20}
    report = run_on(tmp_path / "out", [lines_of(messages)], settings=chosen)
    assert report.rejected == {Reason.EXCLUDED: len(OUT) + 2}, (
        "sensors announced again without D are the same"
    )


@pytest.mark.slow
@pytest.mark.parametrize("release", [settings().release.model_dump(mode="json"), BUDGET])
def test_a_schedule_and_its_plan_leave_them_out_as_the_run_does(
    tmp_path: Path, release: dict[str, Any]
) -> None:
    steps = [{"sensors": list(NAMES), "mechanism": "gaussian", "sigma": 3.0}] * STEPS
    left = [
        {**step, "sensors": [name for name in NAMES if (name, number) not in OUT]}
        for number, step in enumerate(steps)
    ]
    (tmp_path / "whole.json").write_text(json.dumps({"steps": steps}))
    (tmp_path / "less.json").write_text(json.dumps({"steps": left}))
    counts = [each for each in day() if isinstance(each, Reading)]
    chosen = {**table(tmp_path), "release": release}
    plain = {**LITTLE_WORK, "release": release}
    run_on(tmp_path / "a", [lines_of(counts)], settings=chosen, schedule=tmp_path / "whole.json")
    less = lines_of(without(counts, OUT))
    run_on(tmp_path / "b", [less], settings=plain, schedule=tmp_path / "less.json")
    assert accounted(tmp_path / "a") == accounted(tmp_path / "b")
    planned = plan_releases(settings(**chosen), tmp_path / "whole.json", population())
    expected = plan_releases(settings(**plain), tmp_path / "less.json", population())
    assert planned.as_json() == expected.as_json()
    assert len(planned.steps) == STEPS


def test_a_window_that_is_cut_is_left_out_and_accounted_like_any_other(tmp_path: Path) -> None:
    """Windows are accounted in every step before it is known what is published of them: that stays."""
    chosen = with_windows(tmp_path)
    run_on(tmp_path / "whole", [lines_of(day_of_windows())], settings=chosen)
    excluded = table(tmp_path, "hall,1970-01-01T00:05Z,1970-01-01T00:06Z,maintenance")["quality"]
    report = run_on(tmp_path / "cut", [lines_of(day_of_windows())], settings={**chosen, "quality": excluded})
    assert report.rejected == {Reason.EXCLUDED: 1}
    halls = {
        name: [
            line["step"]
            for line in json_lines(tmp_path / name / "releases.jsonl")
            if any(entry["sensor"] == "hall" for entry in line["releases"])  # type: ignore[attr-defined]
        ]
        for name in ("whole", "cut")
    }
    assert halls == {"whole": [3, 7, 11], "cut": [3, 11]}
    risks = [(tmp_path / name / "risks.jsonl").read_bytes() for name in ("whole", "cut")]
    assert risks[0] == risks[1]


@pytest.mark.slow
def test_a_crash_at_several_writes_leads_to_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, chosen, disk = lines_of(day()), table(tmp_path), Disk(monkeypatch)
    run_on(tmp_path / "whole", [text], settings=chosen)
    crashes = range(3, disk.operations, 11)
    assert len(crashes) > 3
    for folder in disk.mended(crashes, partial(run_on, chunks=[text], settings=chosen), tmp_path):
        assert outputs_of(folder) == outputs_of(tmp_path / "whole"), folder


def test_a_table_may_change_from_a_step_on_of_which_nothing_is_known(tmp_path: Path) -> None:
    """The record says who changed it and why; what was published stays."""
    half = [each for each in day() if each.step < 6]
    folder = tmp_path / "out"
    run_on(folder, [lines_of(half)], settings=LITTLE_WORK)
    before = (folder / "releases.jsonl").read_bytes()
    chosen = table(tmp_path, "D,1970-01-01T00:08Z,,broken")
    whole = lines_of(day())
    run_on(folder, [whole], settings=chosen, by="Ann", reason="lightning", keep_open=True)
    assert (folder / "releases.jsonl").read_bytes().startswith(before)
    changed = [entry for entry in read_entries(folder / "record.jsonl") if entry.kind == "changed"]
    assert [(entry.step, entry.by, entry.reason) for entry in changed] == [(6, "Ann", "lightning")]
    assert changed[0].facts["exclusions"] == [["D", 8, None, "broken"]]
    run_on(tmp_path / "from the start", [whole], settings=chosen)
    assert outputs_of(folder) == outputs_of(tmp_path / "from the start")
    with pytest.raises(RunChangedError, match=r"before step 12.*'D' was excluded in steps 8 to 11"):
        run_on(folder, [whole], settings=LITTLE_WORK, by="Ann", reason="it was nothing", accept_changes=True)
    more = table(tmp_path, "D,1970-01-01T00:08Z,,broken", "A,1970-01-01T00:20Z,,moved")
    run_on(folder, [whole], settings=more)
    less = table(tmp_path, "D,1970-01-01T00:08Z,1970-01-01T01:00Z,broken")
    with pytest.raises(RunChangedError, match=r"must have a reason \(exclusions\)"):
        run_on(folder, [whole], settings=less)
    run_on(folder, [whole], settings=less, reason="mended")


def test_steps_that_are_announced_or_have_counts_do_not_change(tmp_path: Path) -> None:
    """Nobody can look at a count that was sent ahead, and leave its step out; the folder stays as it was."""
    folder = tmp_path / "out"
    ahead = [*(each for each in day() if each.step < 4), activation(7, *NAMES), reading(9, "A", 5)]
    run_on(folder, [lines_of(ahead)], settings=LITTLE_WORK, keep_open=True)
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    for step in (7, 9):
        with pytest.raises(RunChangedError, match="before step 10"):
            run_on(folder, [b""], settings=table(tmp_path, f"B,1970-01-01T00:{step:02}Z,,broken"))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == kept
    run_on(folder, [b""], settings=table(tmp_path, "B,1970-01-01T00:10Z,,broken"), keep_open=True)


def test_nothing_of_an_unchanged_deployment_changes(tmp_path: Path) -> None:
    """Without a table no file mentions one, but for the settings that the record describes."""
    run_on(tmp_path / "out", [lines_of(day())], settings=LITTLE_WORK)
    for path in (tmp_path / "out").iterdir():
        if path.name != "record.jsonl":
            assert b"exclu" not in path.read_bytes(), path


def test_the_report_says_which_devices_are_not_counted(tmp_path: Path) -> None:
    run_on(tmp_path / "out", [lines_of(day())], settings=table(tmp_path))
    rows = {row[0]: row[1] for row in setting_rows(read_run(tmp_path / "out"))}
    said = rows["Devices that are not counted"]
    assert said == "A from step 3 until step 6 (calibration); D from step 8 on (broken)"
    run_on(tmp_path / "plain", [lines_of(day())], settings=LITTLE_WORK)
    assert "Devices" not in str(list(setting_rows(read_run(tmp_path / "plain"))))


def test_a_table_that_cannot_be_read_makes_no_folder(tmp_path: Path) -> None:
    chosen = table(tmp_path, "nobody,1970-01-01T00:08Z,,broken")
    with pytest.raises(Exception, match="line 2: a sensor must be one of the deployment's") as refused:
        run_on(tmp_path / "out", [lines_of(day())], settings=chosen)
    assert not isinstance(refused.value, OutputError)
    assert not (tmp_path / "out").exists()


def test_a_release_worker_publishes_what_a_run_does(tmp_path: Path) -> None:
    """The same records, in pieces and with a restart, give the same releases and dead letters."""
    chosen = table(tmp_path)
    exclusions = load_exclusions(settings(**chosen), REGISTRY)
    messages = messages_of_a_day(STEPS, 4, faults=True)
    run_on(tmp_path / "out", [lines_of(messages)], settings=chosen, keep_open=True)
    topics = Topics()
    core = ReleaseCore(engine(exclusions=exclusions), StepClock(0, 60, None, 100), MemoryLog())
    records = [
        InputRecord(
            *(topics.activations if isinstance(each, Activation) else topics.readings, float(number)),
            number,
            each.line().rstrip(),
        )
        for number, each in enumerate(messages)
    ]
    taken = took(core, records, 0.0)
    released = [each.value for each in taken.records if each.topic == topics.releases]
    assert released == (tmp_path / "out" / "releases.jsonl").read_bytes().splitlines()
    reasons = [letter.reason for letter in taken.rejected]
    found = [each["reason"] for each in json_lines(tmp_path / "out" / "rejected.jsonl")]
    assert sorted(reasons) == sorted(found)
    assert Reason.EXCLUDED in reasons
    assert not re.search(rb'"step":1[01],"releases":\[[^\]]*"D"', b"\n".join(filter(None, released)))
