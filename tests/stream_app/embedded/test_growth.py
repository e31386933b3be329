"""Sensors, places and settings change while a deployment runs, from the next step on."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.settings import HorizonSettings
from models.mechanisms import Raw
from models.priors import MovementPrior, Population
from models.releases import Sensor, SensorRegistry, SensorRelease, StepSchedule, in_single_steps
from stream_app.analysis.accounted_again import read_accounted, read_decisions
from stream_app.analysis.checked_run import check_run
from stream_app.analysis.ledger_document import ledger_document, load_log
from stream_app.analysis.report import read_run
from stream_app.analysis.report.sections import record_rows
from stream_app.embedded import RunOptions, RunReport, run
from stream_app.embedded.assembly import make_manifest
from stream_app.embedded.restored_accounts import FILE as SNAPSHOT
from stream_app.exceptions import RunChangedError, SettingsError
from stream_app.setup.run_folder.description import changes_in
from stream_app.setup.run_folder.facts import Network, differences
from stream_app.setup.run_folder.progress import load_progress
from stream_app.setup.run_folder.record import read_entries
from stream_app.setup.run_folder.run_settings import check_belongs, load_account, with_recorded_windows
from stream_app.setup.sensor_files import load_registry
from stream_app.wire.messages import Activation, Reading, Reason
from tests.accounting.enumeration import optimum_success
from tests.hex_keys import hex_key
from tests.stream_app.embedded.test_journal import Crash, Disk
from tests.stream_app.engine_support import (
    LITTLE_WORK,
    NAMES,
    TickingClock,
    activation,
    everything_in,
    json_lines,
    lines_of,
    outputs_of,
    population,
    reading,
    settings,
)

Row = dict[str, Any]
FIRST = [{"name": "s1", "locations": ["A"]}, {"name": "s2", "locations": ["B", "C"], "group": "centre"}]
NINE = {"name": "s9", "locations": ["D"], "group": "new"}
GAUSSIAN = {"mechanism": "gaussian", "sigma": 2.0}
CHANGE, STEPS = 6, 12


def sensors_file(folder: Path, rows: Sequence[Row]) -> Path:
    path = folder / "sensors.json"
    path.write_text(json.dumps({"sensors": list(rows)}))
    return path


def messages(first: int, until: int, names: Sequence[str], seed: int = 3) -> list[Activation | Reading]:
    """Each step all of these sensors, some without a count; the same messages however a log is cut."""
    found: list[Activation | Reading] = []
    for step in range(first, until):
        found.append(activation(step, *names))
        for name in names:
            random = np.random.default_rng([seed, step, *name.encode()])
            if random.random() < 0.8:
                found.append(reading(step, name, int(random.integers(0, 40))))
    return found


BEFORE = lines_of(messages(0, CHANGE, ["s1", "s2"]))


def go(
    output: Path,
    rows: Sequence[Row],
    content: bytes,
    people: Population | None = None,
    changed: dict[str, Any] | None = None,
    **options: Any,
) -> RunReport:
    """One run; ``rows`` are the sensors it has."""
    output.parent.mkdir(parents=True, exist_ok=True)
    given = settings(
        sensors=sensors_file(output.parent, rows), **{"release": GAUSSIAN, **LITTLE_WORK, **(changed or {})}
    )
    return run(
        given,
        RunOptions(output, **options),
        people or population(),
        clock=TickingClock(),
        chunks=[content],
    )


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six steps with two sensors, to be copied."""
    folder = tmp_path_factory.mktemp("first") / "out"
    go(folder, FIRST, BEFORE)
    return folder


def accepted(reason: str | None = "a new counter") -> dict[str, Any]:
    return {"accept_changes": True, "by": "ada", "reason": reason}


def words_of_changes(folder: Path) -> list[str]:
    """What the last changed entry of the record says."""
    entries = read_entries(folder / "record.jsonl")
    said = [own for each, own in zip(entries, changes_in(entries), strict=True) if each.kind == "changed"]
    return [each.words for each in said[-1]]


def grown(output: Path, **options: Any) -> bytes:
    """Six steps with two sensors, six with a third and without the second; the whole input."""
    everything = BEFORE + lines_of(messages(CHANGE, STEPS, ["s1", "s9"]))
    go(output, FIRST, BEFORE)
    go(output, [FIRST[0], NINE], everything, **accepted(), **options)
    return everything


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}


def test_a_sensor_is_added_and_one_removed_from_the_next_step_on_and_no_earlier_line_changes(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "out"
    go(folder, FIRST, BEFORE)
    earlier = outputs_of(folder)
    go(folder, [FIRST[0], NINE], BEFORE + lines_of(messages(CHANGE, STEPS, ["s1", "s9"])), **accepted())
    now = outputs_of(folder)
    assert all(now[name].startswith(content) for name, content in earlier.items())
    decided = json_lines(folder / "decisions.jsonl")
    named = [{each["sensor"] for each in step["decisions"]} for step in decided]  # type: ignore[index,union-attr]
    assert named == [{"s1", "s2"}] * CHANGE + [{"s1", "s9"}] * (STEPS - CHANGE)
    changed = [each for each in read_entries(folder / "record.jsonl") if each.kind == "changed"]
    assert [(each.step, each.by, each.reason) for each in changed] == [(CHANGE, "ada", "a new counter")]
    assert words_of_changes(folder) == ['sensor "s2" removed', 'sensor "s9" added at "D"']
    assert check_run(folder).faults == ()


def test_the_report_says_in_words_what_changed_and_a_removed_sensor_stays_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    grown(folder)
    log = read_run(folder)
    rows = list(record_rows(log))
    assert 'sensor "s9" added at "D"; ' in rows[1][-1]
    assert {each.sensor: each.releases for each in log.sensors} == {"s1": 12, "s2": 6, "s9": 6}


def test_ledger_and_hindsight_account_each_step_with_the_sensors_it_had(tmp_path: Path) -> None:
    """Ceilings of the run are those of its decisions, and each group has spent what its sensors released."""
    folder, plain = tmp_path / "out", {"sharpen": False}  # which leaves work out, by shares of the people
    go(folder, FIRST, BEFORE, changed=plain)
    whole = BEFORE + lines_of(messages(CHANGE, STEPS, ["s1", "s9"]))
    go(folder, [FIRST[0], NINE], whole, changed=plain, **accepted())
    registry = load_registry(tmp_path / "sensors.json", NAMES)
    check_belongs(folder, population(), registry)
    steps = read_decisions(folder / "decisions.jsonl", registry)
    assert [[each.sensor.name for each in step.releases] for step in (steps[0], steps[-1])] == [
        ["s1", "s2"],
        ["s1", "s9"],
    ]
    assert steps[0].releases[1].sensor.locations == (1, 2)
    given = settings(**plain).horizon_settings(0)
    accountant = ContinuousAccountant(population(), given)
    accountant.apply_all(steps)
    summaries = [each for each in json_lines(folder / "risks.jsonl") if each["type"] == "risk_summary"]
    assert summaries[-1]["risk"]["1.0"] == accountant.risk().max()  # type: ignore[index]
    document = ledger_document(load_log(folder, registry), population(), given, 1e-6)
    by_group = document["differential_privacy_by_group"]
    account = load_account(folder)
    assert isinstance(by_group, dict)
    assert account is not None
    assert set(by_group) >= {"centre", "default", "new"}
    for group in ("centre", "default", "new"):
        assert account.spends[group].rho > 0
    assert account.spends["centre"].rho == account.spends["new"].rho == account.spends["default"].rho / 2


BUDGET = {"mechanism": "budget", "budget": {"added": 0.2, "share": 0.2, "sigmas": [1, 3, 10]}}
RULES: dict[str, dict[str, Any]] = {
    "a budget": {"release": BUDGET},
    "a budget in hindsight": {"release": {**BUDGET, "budget": {**BUDGET["budget"], "hindsight": True}}},  # type: ignore[dict-item]
    "a crowd": {"crowd": {"on": True}},
    "late counts": {"late": 4},
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_sensors_change_under_every_rule_and_a_restart_from_the_log_gives_the_same_files(
    tmp_path: Path, rule: str
) -> None:
    changed = RULES[rule]
    late = lines_of([reading(CHANGE - 1, "s2", 3), reading(CHANGE - 2, "s1", 4)])
    rest = late + lines_of(messages(CHANGE, 8, ["s1", "s9"]))
    last = lines_of(messages(8, STEPS, ["s1", "s9"]))
    for name, parts in {"whole": [rest + last], "parts": [rest, rest + last]}.items():
        folder = tmp_path / name
        go(folder, FIRST, BEFORE, changed=changed)
        for part in parts:
            options = accepted() if part is parts[0] else {}
            is_open = part is not parts[-1]
            go(folder, [FIRST[0], NINE], BEFORE + part, changed=changed, keep_open=is_open, **options)
            (folder / SNAPSHOT).unlink(missing_ok=True)
    assert everything_in(tmp_path / "parts") == everything_in(tmp_path / "whole")
    assert len(json_lines(tmp_path / "whole" / "decisions.jsonl")) == STEPS


WINDOWS: list[Row] = [
    {"name": "hall", "locations": ["D"], "window": 2, "first_step": 7},
    {"name": "door", "moves": [["A", "B"]], "counts": "passages", "most_counts": 2, "window": 2}
    | {"first_step": CHANGE},
]


@pytest.mark.parametrize("rule", ["noise", "a budget"])
def test_sensors_with_windows_are_added_and_their_first_windows_begin_then(tmp_path: Path, rule: str) -> None:
    """None that began before is charged or published; a restart from the log gives the same files."""
    changed = {"sharpen": False, **RULES.get(rule, {})}
    ends = {"hall": (9, 11), "door": (9, 11)}  # a window of moves may not leave the place in an earlier step
    counted = [
        each
        for step in range(CHANGE, STEPS)
        for names in [["s1", *(name for name, own in ends.items() if step in own)]]
        for each in (activation(step, *names), *(reading(step, name, 3) for name in names))
    ]
    early = [activation(7, "hall"), activation(7, "door")]
    rest, last = ([each for each in counted if (each.step >= 9) == later] for later in (False, True))
    rows = [*FIRST, *WINDOWS]
    for name, parts in {"whole": [[*early, *rest, *last]], "parts": [[*early, *rest], last]}.items():
        folder = tmp_path / name
        go(folder, FIRST, BEFORE, changed=changed)
        for part in parts:
            is_open = part is not parts[-1]
            options = accepted() if part is parts[0] else {}
            report = go(folder, rows, lines_of(part), changed=changed, keep_open=is_open, **options)
            (folder / SNAPSHOT).unlink(missing_ok=True)
            assert report.rejected == ({Reason.NO_WINDOW_ENDS: 2} if part is parts[0] else {})
    whole = tmp_path / "whole"
    for each in ("decisions.jsonl", "releases.jsonl", "risks.jsonl"):
        assert (tmp_path / "parts" / each).read_bytes() == (whole / each).read_bytes()
    assert check_run(whole).faults == ()
    assert words_of_changes(whole) == ['sensor "hall" added at "D"', 'sensor "door" added at "A", "B"']
    registry = with_recorded_windows(whole, load_registry(tmp_path / "sensors.json", NAMES))
    steps = read_decisions(whole / "decisions.jsonl", registry)
    found = {
        name: tuple(t.step for t in steps if any(each.sensor.name == name for each in t.releases))
        for name in ends
    }
    assert found == ends
    accounted = [in_single_steps(each, registry) if each.step >= CHANGE else each for each in steps]
    shown = {t.step for t in accounted if any(each.sensor.name[:3] == "at " for each in t.releases)}
    assert shown <= {*range(7, STEPS)}
    accountant = ContinuousAccountant(population(), settings(**changed).horizon_settings(0))
    accountant.apply_all(accounted)
    summaries = [each for each in json_lines(whole / "risks.jsonl") if each["type"] == "risk_summary"]
    assert summaries[-1]["risk"]["1.0"] == accountant.risk().max()  # type: ignore[index]


@pytest.mark.parametrize("rule", ["noise", "a budget", "a budget in hindsight", "a crowd"])
def test_sensors_with_windows_are_removed_in_the_middle_of_one_and_charged_no_longer(
    tmp_path: Path, rule: str
) -> None:
    """What was published before stays accounted, in the run and in what is read from its folder."""
    changed = {"sharpen": False, **RULES.get(rule, {})}
    rows = [*FIRST, *({key: own for key, own in each.items() if key != "first_step"} for each in WINDOWS)]
    ends = {"hall": range(1, STEPS, 2), "door": range(3, CHANGE + 1, 2)}
    before, after = (
        [
            each
            for step in steps
            for names in [["s1", *(name for name, own in ends.items() if step in own)]]
            for each in (activation(step, *names), *(reading(step, name, 3) for name in names))
        ]
        for steps in (range(CHANGE + 1), range(CHANGE + 1, STEPS))
    )
    for name, parts in {"whole": [after], "parts": [after[:4], after[4:]]}.items():
        folder = tmp_path / name
        go(folder, rows, lines_of(before), changed=changed)
        for part in parts:
            is_open = part is not parts[-1]
            options = accepted(None) if part is parts[0] else {}
            go(folder, rows[:3], lines_of(part), changed=changed, keep_open=is_open, **options)
            if name == "parts":
                (folder / SNAPSHOT).unlink(missing_ok=True)
    whole = tmp_path / "whole"
    for each in ("decisions.jsonl", "releases.jsonl", "risks.jsonl"):
        assert (tmp_path / "parts" / each).read_bytes() == (whole / each).read_bytes()
    assert check_run(whole).faults == ()
    assert words_of_changes(whole) == ['sensor "door" removed']
    registry = with_recorded_windows(whole, load_registry(tmp_path / "sensors.json", NAMES))
    accounted = read_accounted(whole / "decisions.jsonl", registry)
    assert {t.step for t in accounted for each in t.counting if each.name == "door"} == {
        *range(1, CHANGE + 1)
    }
    accountant = ContinuousAccountant(population(), settings(**changed).horizon_settings(0))
    accountant.apply_all(accounted)
    summaries = [each for each in json_lines(whole / "risks.jsonl") if each["type"] == "risk_summary"]
    assert summaries[-1]["risk"]["1.0"] == accountant.risk().max()  # type: ignore[index]
    with pytest.raises(RunChangedError, match=r'removed must stay away.*"door", got added again'):
        go(whole, rows, b"", changed=changed, **accepted())


def _without_snapshot(folder: Path) -> None:
    (folder / SNAPSHOT).unlink()


@pytest.mark.parametrize("harm", [lambda folder: None, _without_snapshot], ids=["snapshot", "log"])
def test_a_restart_replays_each_step_with_the_sensors_it_had(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    """With the snapshot and from the log alone: the files of a run that was not interrupted."""
    quick = {"snapshot_seconds": 0.1}
    whole = grown(tmp_path / "whole")
    part = BEFORE + lines_of(messages(CHANGE, 9, ["s1", "s9"]))
    go(tmp_path / "out", FIRST, BEFORE, changed=quick)
    go(tmp_path / "out", [FIRST[0], NINE], part, changed=quick, keep_open=True, **accepted())
    harm(tmp_path / "out")
    go(tmp_path / "out", [FIRST[0], NINE], whole, changed=quick)
    assert everything_in(tmp_path / "out") == everything_in(tmp_path / "whole")


@pytest.mark.slow
def test_a_kill_at_any_write_of_the_change_leads_to_the_same_files(
    tmp_path: Path, first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every third operation on the disk in turn is the last one of the run that changes the sensors."""
    whole = grown(tmp_path / "whole")
    disk, expected = Disk(monkeypatch), everything_in(tmp_path / "whole")
    shutil.copytree(first, tmp_path / "count")
    disk.operations = 0
    go(tmp_path / "count", [FIRST[0], NINE], whole, **accepted())
    operations = disk.operations
    assert operations > 40
    again = partial(go, rows=[FIRST[0], NINE], content=whole, **accepted())
    for folder in disk.mended(range(1, operations, 3), again, tmp_path, first):
        assert everything_in(folder) == expected, folder
        entries = read_entries(folder / "record.jsonl")
        held = [(each.step, len(own)) for each, own in zip(entries, changes_in(entries), strict=True)]
        assert held.count((CHANGE, 2)) == 1, folder


REFUSED: dict[str, tuple[list[Row], str]] = {
    "moved": (
        [{**FIRST[0], "locations": ["D"]}, FIRST[1]],
        r'sensor "s1" must stay at "A", where it was.*got at "D".*give the device a new name',
    ),
    "other group": (
        [{**FIRST[0], "group": "other"}, FIRST[1]],
        r'group of sensor "s1" must stay "default".*got "other"',
    ),
    "corrected": (
        [{**FIRST[0], "corrections": 2}, FIRST[1]],
        r'corrections of sensor "s1" must stay 0: every value that a step may have is accounted when',
    ),
    "with a window": (
        [*FIRST, {"name": "w", "locations": ["D"], "window": 2}],
        r'must say from which step on they are accounted, here 6 or later: "w", got first_step 0; give it',
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_change_is_refused_in_words_and_nothing_is_written(
    tmp_path: Path, first: Path, what: str
) -> None:
    rows, said = REFUSED[what]
    folder = shutil.copytree(first, tmp_path / "out")
    before = files(folder)
    with pytest.raises(RunChangedError, match=said):
        go(folder, rows, BEFORE, **accepted())
    assert files(folder) == before


OCCUPIED = {**FIRST[0], "counts": "occupied"}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (FIRST[0], OCCUPIED, r'"s1" must go on to count people.*got whether anybody is there'),
        (OCCUPIED, FIRST[0], r'"s1" must go on to count whether anybody is there.*got people'),
    ],
    ids=["count to occupied", "occupied to count"],
)
def test_a_sensor_goes_on_to_count_people_or_whether_anybody_is_there(
    tmp_path: Path, before: Row, after: Row, said: str
) -> None:
    """A crowd hides people in the one and not in the other; as it was, the run goes on, also with what an
    earlier version wrote, which did not say it of sensors that count."""
    folder, crowd = tmp_path / "out", {"crowd": {"on": True}}
    until = lines_of(messages(0, 2, ["s2"]))
    go(folder, [before, FIRST[1]], until, changed=crowd)
    (kept, _) = json.loads((folder / "run.json").read_text())["network"]["sensors"]
    assert kept.get("counts") == before.get("counts"), "counts of people are said as by earlier versions"
    was = files(folder)
    with pytest.raises(RunChangedError, match=said):
        go(folder, [after, FIRST[1]], until, changed=crowd, **accepted())
    assert files(folder) == was
    go(folder, [before, FIRST[1]], until + lines_of(messages(2, 3, ["s2"])), changed=crowd)
    assert len(json_lines(folder / "decisions.jsonl")) == 3


def test_a_change_that_was_not_accepted_or_has_no_reason_says_which_sensor(
    tmp_path: Path, first: Path
) -> None:
    folder = shutil.copytree(first, tmp_path / "out")
    before = files(folder)
    with pytest.raises(
        RunChangedError, match=r'sensor "s9" added at "D"; put back .* --accept-changes$'
    ) as no:
        go(folder, [*FIRST, NINE], BEFORE)
    assert not re.search(r"[0-9a-f]{12}", str(no.value).replace(str(folder), "")), "a hash says nothing"
    with pytest.raises(RunChangedError, match=r'no reason; sensor "s9" added at "D"'):
        go(folder, [*FIRST, NINE], BEFORE, **accepted(None))
    assert files(folder) == before
    go(folder, FIRST[:1], BEFORE, **accepted(None))  # one less reveals no more, and needs no reason


def test_exclusions_of_a_removed_sensor_stay_in_the_table(tmp_path: Path) -> None:
    """Taken out of the table they would have been counted; a name that never was there is refused."""
    table = tmp_path / "exclusions.csv"
    table.write_text("sensor,from,to,reason\ns2,1970-01-01T00:02Z,1970-01-01T00:04Z,broken\n")
    chosen = {"changed": {"quality": {"exclusions": table}}}
    everything = BEFORE + lines_of(messages(CHANGE, STEPS, ["s1", "s9"]))
    folder = tmp_path / "out"
    go(folder, FIRST, BEFORE, **chosen)
    go(folder, [FIRST[0], NINE], everything, **accepted(), **chosen)
    decided = json_lines(folder / "decisions.jsonl")
    named = [{each["sensor"] for each in step["decisions"]} for step in decided]  # type: ignore[index,union-attr]
    assert named == [{"s1", "s2"}] * 2 + [{"s1"}] * 2 + [{"s1", "s2"}] * 2 + [{"s1", "s9"}] * (STEPS - CHANGE)
    table.write_text(table.read_text() + "s3,1970-01-01T00:30Z,,broken\n")
    with pytest.raises(SettingsError, match="line 3: a sensor must be one of the deployment"):
        go(folder, [FIRST[0], NINE], everything, **accepted(), **chosen)


def test_a_removed_sensor_comes_back_at_its_place_only(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    grown(folder)
    moved = {"name": "s2", "locations": ["D"], "group": "centre"}
    with pytest.raises(RunChangedError, match=r'sensor "s2" must stay at "B", "C"'):
        go(folder, [FIRST[0], NINE, moved], b"", **accepted())
    go(folder, [NINE, FIRST[1], FIRST[0]], b"", **accepted("it was repaired"))
    entry = [each for each in read_entries(folder / "record.jsonl") if each.kind == "changed"][-1]
    assert words_of_changes(folder) == ['sensor "s2" added again at "B", "C"']
    saved = entry.facts["network"]["sensors"]
    assert [each["name"] for each in saved] == ["s1", "s2", "s9"], "a sensor keeps its number"


def test_another_order_in_the_sensors_file_is_no_change(tmp_path: Path, first: Path) -> None:
    shutil.copytree(first, tmp_path / "out")
    before = (tmp_path / "out" / "record.jsonl").read_bytes()
    go(tmp_path / "out", FIRST[::-1], BEFORE)
    assert (tmp_path / "out" / "record.jsonl").read_bytes() == before


def test_counts_of_a_removed_sensor_in_open_steps_are_not_published(tmp_path: Path) -> None:
    """They were received before; the step closes without them, also after a restart."""
    folder = tmp_path / "out"
    open_step = lines_of([activation(CHANGE, "s1", "s2"), reading(CHANGE, "s2", 5)])
    go(folder, FIRST, BEFORE + open_step, keep_open=True)
    rest = lines_of([reading(CHANGE, "s1", 7), reading(CHANGE, "s2", 6)])
    go(folder, FIRST[:1], BEFORE + open_step + rest, **accepted(None))
    last = json_lines(folder / "releases.jsonl")[-1]
    assert last["step"] == CHANGE
    assert [each["sensor"] for each in last["releases"]] == ["s1"]  # type: ignore[index,union-attr]
    letter = json_lines(folder / "rejected.jsonl")[-1]
    assert letter["reason"] == "unknown_sensor"


AT_ONCE: dict[str, dict[str, Any]] = {
    "sensors": {"rows": [*FIRST, NINE]},
    "rule": {"rows": FIRST, "changed": {"release": {"mechanism": "gaussian", "sigma": 3.0}}},
    "thresholds": {"rows": FIRST, "changed": {"thresholds": [0.5, 0.7]}},
}


@pytest.mark.slow
@pytest.mark.parametrize("what", AT_ONCE)
def test_after_a_kill_at_any_write_a_change_works_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """And gives the files of a run that ended before that step by itself, and was changed then."""
    names = ["s1", "s9"] if what == "sensors" else ["s1", "s2"]
    everything = BEFORE + lines_of(messages(CHANGE, STEPS, names))
    change = partial(go, content=everything, **AT_ONCE[what], **accepted())
    disk, expected, seen = Disk(monkeypatch), {}, set()
    go(tmp_path / "counted", FIRST, BEFORE)
    for crash_at in range(1, disk.operations, 2):
        folder = tmp_path / str(crash_at) / "out"
        disk.operations, disk.crash_at = 0, crash_at
        with pytest.raises(Crash):
            go(folder, FIRST, BEFORE)
        disk.crash_at = -1
        step = int(load_progress(folder).get("next_step", 0))
        assert not step or check_run(folder).is_whole, folder
        if step not in expected:
            ended = tmp_path / f"ended-{step}" / "out"
            if step:
                go(ended, FIRST, lines_of(messages(0, step, ["s1", "s2"])))
            change(ended)
            expected[step] = everything_in(ended)
        change(folder)
        assert everything_in(folder) == expected[step], folder
        (at,) = [each.step for each in read_entries(folder / "record.jsonl") if each.kind == "changed"] or [0]
        assert at == step
        seen.add(step)
    assert len(seen) >= CHANGE


def test_what_an_earlier_version_left_uncommitted_is_gone_through_again_before_a_change(
    tmp_path: Path, first: Path
) -> None:
    """Its steps come with the sensors they had, or not at all; nothing is written then."""
    folder = tmp_path / "out"
    shutil.copytree(first, folder)
    wanted = everything_in(folder)
    (folder / "progress.json").unlink()
    before = files(folder)
    with pytest.raises(RunChangedError, match="start the run once more with the key it has and all else"):
        go(folder, [*FIRST, NINE], BEFORE, **accepted())
    assert files(folder) == before
    go(folder, FIRST, BEFORE)
    assert everything_in(folder) == wanted
    go(folder, [*FIRST, NINE], BEFORE, **accepted())


MORE = (*NAMES, "E", "F")
MORE_IN_WORDS = ['place "E" added', 'place "F" added']


@pytest.mark.parametrize("in_crowd", [False, True])
def test_places_are_appended_and_every_account_stays_bit_for_bit(tmp_path: Path, in_crowd: bool) -> None:
    """The same files as a run that had the places from the start, and as one that never had them."""
    crowd = {"changed": {"crowd": {"on": in_crowd}}}
    wider = replace(population(), location_names=MORE)
    whole = BEFORE + lines_of(messages(CHANGE, STEPS, ["s1", "s2"]))
    go(tmp_path / "short" / "out", FIRST, whole, **crowd)
    go(tmp_path / "wide" / "out", FIRST, whole, wider, **crowd)
    folder = tmp_path / "grown" / "out"
    go(folder, FIRST, BEFORE, **crowd)
    go(folder, FIRST, whole, wider, **crowd, **accepted(None))
    assert (
        outputs_of(folder) == outputs_of(tmp_path / "wide" / "out") == outputs_of(tmp_path / "short" / "out")
    )
    assert words_of_changes(folder) == MORE_IN_WORDS
    nine = {"name": "s9", "locations": ["F"]}
    later = lines_of(messages(STEPS, STEPS + 3, ["s1", "s9"]))
    go(folder, [*FIRST, nine], whole + later, wider, **crowd, **accepted())
    check_belongs(folder, wider, load_registry(folder.parent / "sensors.json", MORE))
    assert len(read_run(folder).summaries) == STEPS + 3


def test_a_folder_of_a_version_that_recorded_no_sensors_goes_on_and_then_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What such a run had is not known: it is started once with that, and no hash is shown before."""

    def as_earlier(*arguments: Any) -> dict[str, Any]:
        manifest = make_manifest(*arguments)
        del manifest["network"]
        return manifest

    folder = tmp_path / "out"
    with monkeypatch.context() as earlier:
        earlier.setattr("stream_app.embedded.assembly.make_manifest", as_earlier)
        go(folder, FIRST, BEFORE)
    assert "network" not in json.loads((folder / "run.json").read_text())
    before = files(folder)
    said = r"sensors was another one; put back .* did not record which sensors it had: start it once with"
    with pytest.raises(RunChangedError, match=said):
        go(folder, [*FIRST, NINE], BEFORE, **accepted())
    assert files(folder) == before
    go(folder, FIRST, BEFORE)
    assert outputs_of(folder) == {name: before[name] for name in outputs_of(folder)}
    go(folder, [*FIRST, NINE], BEFORE, **accepted())
    assert check_run(folder).faults == ()


PLACES: dict[str, tuple[tuple[str, ...], str]] = {
    "other order": (("B", "A", "C", "D"), r'place 0 must stay "A".*got "B".*add new ones at the end'),
    "in the middle": (("A", "E", "B", "C", "D"), r'place 1 must stay "B".*got "E"'),
    "one less": (("A", "B", "C"), r'all 4 places must stay.*got 3, without "D"'),
}


@pytest.mark.parametrize("what", PLACES)
def test_places_that_were_there_keep_their_order(tmp_path: Path, what: str) -> None:
    names, said = PLACES[what]
    folder = tmp_path / "out"
    rows = [{"name": "s1", "locations": [0]}, {"name": "s2", "locations": [1, 2]}]
    go(folder, rows, BEFORE)
    with pytest.raises(RunChangedError, match=said):
        go(folder, rows, BEFORE, replace(population(), location_names=names), **accepted())


def test_a_place_is_renamed_where_no_other_had_that_name(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    rows = [{"name": "s1", "locations": [0]}, {"name": "s2", "locations": [1, 2]}]
    go(folder, rows, BEFORE)
    renamed = replace(population(), location_names=("A", "B", "C", "harbour"))
    with pytest.raises(RunChangedError, match='no reason; place "D" renamed "harbour"'):
        go(folder, rows, BEFORE, renamed, **accepted(None))
    others = replace(population(3), location_names=renamed.location_names)
    for options in ({}, accepted(None)):
        with pytest.raises(RunChangedError, match='removed; place "D" renamed "harbour"'):
            go(folder, rows, BEFORE, others, **options)
    go(folder, rows, BEFORE, renamed, **accepted())
    assert words_of_changes(folder) == ['place "D" renamed "harbour"']


def test_priors_without_names_of_places_rename_none(tmp_path: Path) -> None:
    """A file that names none says nothing of names: nothing has changed, unless it has other places."""
    folder = tmp_path / "out"
    rows = [{"name": "s1", "locations": [0]}, {"name": "s2", "locations": [1, 2]}]
    go(folder, rows, BEFORE)
    before = (folder / "run.json").read_bytes()
    go(folder, rows, BEFORE, replace(population(), location_names=("0", "1", "2", "3")))
    assert (folder / "run.json").read_bytes() == before
    with pytest.raises(RunChangedError, match=r'no reason; .*place "A" renamed "0"'):
        more = replace(population(), location_names=("0", "1", "2", "3", "4"))
        go(folder, rows, BEFORE, more, **accepted(None))


def test_other_people_are_not_taken_for_more_places(tmp_path: Path) -> None:
    """They are refused in words, or said in the record beside the places."""
    folder = tmp_path / "out"
    go(folder, FIRST, BEFORE)
    others = replace(population(5), location_names=MORE)
    with pytest.raises(RunChangedError, match="got 1 person removed"):
        go(folder, FIRST, BEFORE, others)
    go(folder, FIRST, BEFORE, others, **accepted())
    assert words_of_changes(folder) == ["1 person removed from step 6 on", *MORE_IN_WORDS]


def test_noise_of_a_sensor_thresholds_and_sharpening_change_and_the_record_says_it(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    noisy = {**GAUSSIAN, "sensors": {"s1": {"sigma": 2.0}}}
    go(folder, FIRST, BEFORE, changed={"release": noisy})
    earlier = outputs_of(folder)
    noisier = {**GAUSSIAN, "sensors": {"s1": {"sigma": 3.0}}}
    changed = {"release": noisier, "thresholds": [0.2, 0.4], "sharpen": False}
    whole = BEFORE + lines_of(messages(CHANGE, STEPS, ["s1", "s2"]))
    go(folder, FIRST, whole, changed=changed, **accepted())
    now = outputs_of(folder)
    assert all(now[name].startswith(content) for name, content in earlier.items())
    words = {*words_of_changes(folder)}
    assert {'sigma of "s1" 2.0 -> 3.0', "sharpen true -> false"} <= words
    assert "thresholds [0.01, 0.05, 0.1, 0.25, 0.5] -> [0.2, 0.4]" in words


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"horizon": 5}, r"horizon was 4, is 5; put back.*answer different questions"),
        ({"mistakes": 2}, r"mistakes was 1, is 2; put back.*answer different questions"),
        ({"step_seconds": 30}, r"step_seconds was 60, is 30; put back.*habits are fitted to their length"),
        ({"first_slot": 3}, r"first_slot was 0, is 3; put back.*other hours"),
        (
            {"pseudonym_key_secret": hex_key("33")},
            r"pseudonym_key was another one; put back.*other pseudonyms",
        ),
    ],
)
def test_a_setting_that_cannot_change_says_why(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    folder = tmp_path / "out"
    go(folder, FIRST, BEFORE)
    with pytest.raises(RunChangedError, match=said):
        go(folder, FIRST, BEFORE, changed=changed, **accepted())


def test_a_name_stands_for_one_device(tmp_path: Path) -> None:
    """Whatever the sensors file says next: the same network is read back as was written."""
    registry = load_registry(
        sensors_file(
            tmp_path,
            [
                {"name": "d", "locations": [1], "counts": "passages", "most_counts": 3, "corrections": 1},
                {"name": "m", "moves": [["A", "B", 2]], "most_counts": 4, "window": 2},
                {"name": "p", "locations": [0, 3], "group": "centre"},
                {"name": "r", "locations": [2], "counts": "occupied"},
            ],
        ),
        NAMES,
    )
    network = Network.of(registry)
    assert Network.load(json.loads(json.dumps(network.save()))) == network
    assert network.grown_to(registry) == network
    assert list(network.changes_to(network)) == []


@pytest.mark.parametrize("seed", range(12))
def test_ceilings_over_a_change_of_sensors_hold_against_every_trajectory(seed: int) -> None:
    """Enumerated: a sensor is removed and one added in mid log, with zeros and places nobody leaves."""
    random = np.random.default_rng([39, seed])
    matrix = random.dirichlet(np.ones(3), size=3)
    matrix[random.integers(3), random.integers(3)] = 0.0
    if seed % 3 == 0:
        matrix[2] = [0.0, 0.0, 1.0]
    matrix /= matrix.sum(axis=1, keepdims=True)
    start = random.dirichlet(np.ones(3))
    people = Population.pack([MovementPrior.from_dense("p", matrix, initial=start)], NAMES[:3])
    steps, change, horizon, mistakes = 6, int(random.integers(1, 6)), 3, seed % 2
    first = Network(NAMES[:3], (Sensor("s1", (0,)),))
    added = Sensor("s2", (1,) if seed % 2 else (1, 2))
    kept = first.sensors if seed % 4 < 2 else ()
    later = first.grown_to(SensorRegistry(NAMES[:3], (added, *kept)))
    assert [each.name for each in later.sensors] == ["s1", "s2"]
    shown = [first.present if step < change else later.present for step in range(steps)]
    labels = np.array([[_seen(now, place) for place in range(3)] for now in shown], dtype=np.int32)
    accountant = ContinuousAccountant(people, HorizonSettings(horizon, mistakes))
    for step, now in enumerate(shown):
        accountant.apply(StepSchedule(step, tuple(SensorRelease(each, Raw()) for each in now)))
        begin = step - horizon + 1
        if begin < 0:
            continue  # a ceiling is of a whole horizon
        exact = optimum_success(start, matrix[np.newaxis], labels[: step + 1], (begin, step), mistakes)
        assert accountant.risk()[0] >= exact - 1e-12


def _seen(sensors: Sequence[Sensor], place: int) -> int:
    """Which of the sensors count somebody there, as a number."""
    return sum(1 << number for number, each in enumerate(sensors) if place in each.locations)


def test_of_a_long_setting_the_part_that_differs_is_shown() -> None:
    """It was cut off before the change, and both sides read the same."""
    levels = [number / 100 for number in range(30)]
    said = differences(["thresholds"], {"thresholds": levels}, {"thresholds": [*levels[:-1], 0.5]})
    assert said == "thresholds was ...0.26, 0.27, 0.28, 0.29], is ...0.26, 0.27, 0.28, 0.5]"
