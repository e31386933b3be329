"""The record of a run: append-only, chained by digests, durable before what is published under it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stream_app.analysis.checked_run import check_run
from stream_app.exceptions import OutputError, RunChangedError
from stream_app.setup.run_folder import record as record_module
from stream_app.setup.run_folder.durable import digests_of, extended, whole_lines
from stream_app.setup.run_folder.manifest import weakened
from stream_app.setup.run_folder.record import (
    Author,
    Record,
    RecordDamagedError,
    check_head,
    head_of,
    periods,
    read_entries,
)
from tests.stream_app.command_line import invoked
from tests.stream_app.engine_support import json_lines, lines_of, messages_of_a_day, run_on

OFFICER = Author("officer", "the trial is over")
STRICT = {"mechanism": "budget", "budget": {"added": 0.1, "share": 0.2, "sigmas": [1, 3, 10]}}
LOOSE = {"mechanism": "budget", "budget": {"added": 0.9, "share": 0.2, "sigmas": [1, 3, 10]}}
DAY = messages_of_a_day(12, 8)


def first_half(steps: int) -> bytes:
    return lines_of(message for message in DAY if message.step < steps)


def relaxed(folder: Path) -> Path:
    """Six steps under one rule, six under another."""
    run_on(folder, [first_half(6)], settings={"release": STRICT}, by="ada")
    run_on(
        folder,
        [lines_of(DAY)],
        settings={"release": LOOSE},
        accept_changes=True,
        by="bob",
        reason="the\ntrial  is over",
    )
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of :func:`relaxed`, to be read or copied."""
    return relaxed(tmp_path_factory.mktemp("record") / "out")


def test_a_rule_relaxed_in_mid_run_leaves_a_trace_with_step_name_and_reason(whole: Path) -> None:
    begun, ended, changed, last = read_entries(whole / "record.jsonl")
    assert [each.kind for each in (begun, ended, changed, last)] == ["begun", "ended", "changed", "ended"]
    assert (begun.step, ended.step, changed.step, last.step) == (0, 6, 6, 12)
    assert (begun.by, changed.by, changed.reason) == ("ada", "bob", "the trial is over")
    rules = [each.facts["release"]["budget"]["added"] for each in (begun, changed)]
    assert rules == [0.1, 0.9]
    assert begun.facts["people"] == 6
    assert begun.facts["priors"] == changed.facts["priors"]
    checked = check_run(whole)
    assert [(p.first, p.until) for p in periods(checked.entries, checked.released)] == [(0, 6), (6, 12)]
    assert checked.faults == ()


@pytest.mark.slow
def test_a_weaker_promise_without_a_reason_is_refused_and_nothing_is_published(tmp_path: Path) -> None:
    """The difference is said in words, not cut off before what changed."""
    folder = tmp_path / "out"
    run_on(folder, [first_half(6)], settings={"release": STRICT})
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}
    refusal = r"must have a reason.*release\.budget\.added was 0\.1, is 0\.9.*--reason"
    with pytest.raises(RunChangedError, match=refusal):
        run_on(folder, [lines_of(DAY)], settings={"release": LOOSE}, accept_changes=True)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}
    stricter = {**STRICT, "budget": {**STRICT["budget"], "added": 0.05}}  # type: ignore[dict-item]
    run_on(folder, [lines_of(DAY)], settings={"release": stricter}, accept_changes=True)
    assert check_run(folder).faults == ()


def test_what_is_started_again_as_it_was_adds_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    for _ in range(3):
        run_on(folder, [lines_of(DAY)])
    assert [each["kind"] for each in json_lines(folder / "record.jsonl")] == ["begun", "ended"]


def _drop(index: int) -> Callable[[list[str]], list[str]]:
    return lambda lines: lines[:index] + lines[index + 1 :]


def _edit(index: int, old: str, new: str) -> Callable[[list[str]], list[str]]:
    def edit(lines: list[str]) -> list[str]:
        assert old in lines[index]
        return [*lines[:index], lines[index].replace(old, new), *lines[index + 1 :]]

    return edit


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("record.jsonl", _edit(2, "trial is over", "trial goes on"), "entry 2 of record.jsonl"),
        ("record.jsonl", _edit(2, '"at":"', '"at":"at noon '), r"entry 2 of record.jsonl.*isoformat"),
        ("record.jsonl", _drop(2), "entry 2 of record.jsonl must be there"),
        ("record.jsonl", _drop(3), "record.jsonl must hold the 4 entries"),
        ("record.jsonl", lambda lines: [], "record.jsonl is missing"),
        (
            "run.json",
            lambda lines: [line.replace("0.9", "0.1") for line in lines],
            r"run.json was changed.*release",
        ),
        ("releases.jsonl", _drop(4), "step 4 is missing in releases.jsonl"),
        ("releases.jsonl", _drop(-1), r"releases.jsonl (does not hold|holds 11 steps, and 12 were released)"),
        ("releases.jsonl", lambda lines: lines[:8], "releases.jsonl"),
        ("decisions.jsonl", _drop(3), "step 3 is missing in decisions.jsonl"),
        ("decisions.jsonl", lambda lines: lines[::-1], "step 11 stands|steps 0 to 10 are missing"),
        ("risks.jsonl", lambda lines: lines[:-6], "risks.jsonl"),
        ("risks.jsonl", _edit(0, '"people":6', '"people":7'), "a line of risks.jsonl was changed"),
        ("progress.json", lambda lines: ["{}"], "progress.json must be as it was written"),
    ],
)
def test_what_is_changed_or_taken_out_is_named(
    tmp_path: Path, whole: Path, name: str, change: Callable[[list[str]], list[str]], said: str
) -> None:
    """By `tallyguard verify`, in a sentence; a whole folder has none."""
    folder = shutil.copytree(whole, tmp_path / "out")
    (folder / "rejected.jsonl").touch()
    assert check_run(folder).faults == ()
    path = folder / name
    changed = change(path.read_text().splitlines())
    if name == "record.jsonl" and not changed:
        path.unlink()
    else:
        path.write_text("".join(f"{line}\n" for line in changed))
    faults = "; ".join(check_run(folder).faults)
    assert re.search(said, faults), faults


def test_a_run_that_lost_its_description_is_not_taken_for_plans(whole: Path, tmp_path: Path) -> None:
    """Both have a record; `verify` tells them apart by the logs."""
    folder = tmp_path / "out"
    shutil.copytree(whole, folder)
    (folder / "run.json").unlink()
    status, said = invoked("verify", folder)
    assert status == 1
    assert "no run.json in it" in said


def test_a_run_refuses_to_go_on_over_what_was_changed(tmp_path: Path) -> None:
    """A rule edited in run.json, a record without its last entries, a release that was altered."""
    folder = relaxed(tmp_path / "out")
    saved = {path.name: path.read_bytes() for path in folder.iterdir()}
    lines = saved["releases.jsonl"].splitlines(keepends=True)
    for name, content, said in (
        ("run.json", saved["run.json"].replace(b"0.9", b"0.5"), "as the record of the run says"),
        (
            "record.jsonl",
            b"".join(saved["record.jsonl"].splitlines(keepends=True)[:2]),
            "must hold the 4 entries",
        ),
        ("record.jsonl", b"", "must hold the 4 entries"),
        (
            "releases.jsonl",
            b"".join([lines[1].replace(b'"step":1', b'"step":0'), *lines[1:]]),
            "must hold everything that was published with its noise key",
        ),
    ):
        (folder / name).write_bytes(content)
        with pytest.raises(OutputError, match=said):
            run_on(folder, [lines_of(DAY)], settings={"release": LOOSE})
        (folder / name).write_bytes(saved[name])
    run_on(folder, [lines_of(DAY)], settings={"release": LOOSE})


def test_an_entry_is_durable_before_the_rule_is_used_and_a_kill_between_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the record and run.json, the same start goes on; steps keep the rule of their time."""
    folder = tmp_path / "out"
    run_on(folder, [first_half(6)], settings={"release": STRICT})
    from stream_app.setup.run_folder import manifest

    class Killed(BaseException):
        """The process is gone."""

    def killed(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(manifest, "replace_file", killed)
    again: dict[str, Any] = {"settings": {"release": LOOSE}, "accept_changes": True, "reason": "trial"}
    with pytest.raises(Killed):
        run_on(folder, [lines_of(DAY)], **again)
    assert len(read_entries(folder / "record.jsonl")) == 3
    assert json.loads((folder / "run.json").read_text())["release"]["budget"]["added"] == 0.1
    assert len(json_lines(folder / "releases.jsonl")) == 6
    monkeypatch.undo()
    with (folder / "record.jsonl").open("ab") as torn:
        torn.write(b'{"v":1,"type":"rec')
    run_on(folder, [lines_of(DAY)], **again)
    checked = check_run(folder)
    assert checked.faults == ()
    assert [each.kind for each in checked.entries] == ["begun", "ended", "changed", "ended"]


def test_a_folder_of_a_version_without_a_record_is_taken_over_from_its_next_step(tmp_path: Path) -> None:
    """What held before is said to be unknown; a lost record is noticed, as the last commit names it."""
    folder = tmp_path / "out"
    run_on(folder, [first_half(6)])
    from stream_app.setup.run_folder.durable import load_sealed, seal

    commit = load_sealed(folder / "progress.json")
    (folder / "record.jsonl").unlink()
    with pytest.raises(OutputError, match=r"record\.jsonl must hold"):
        run_on(folder, [lines_of(DAY)])
    old = {key: value for key, value in commit.items() if key not in {"record", "digests"}}
    (folder / "progress.json").write_bytes(seal(old))
    run_on(folder, [lines_of(DAY)])
    found = check_run(folder)
    assert found.faults == ()
    assert [(p.first, p.until, p.entry is None) for p in periods(found.entries, found.released)] == [
        (0, 6, True),
        (6, 12, False),
    ]


def test_periods_are_without_gaps_and_follow_each_other(tmp_path: Path) -> None:
    record = Record(tmp_path, OFFICER, now_seconds=lambda: 0.0)
    for step, rule in ((0, 1), (0, 2), (4, 2), (4, 3), (9, 4)):
        record.hold(step, {"rule": rule})
    found = periods(record.entries, 7)
    assert [(each.first, each.until, each.entry and each.entry.facts["rule"]) for each in found] == [
        (0, 4, 2),
        (4, 7, 3),
    ]
    assert read_entries(tmp_path / "record.jsonl") == tuple(record.entries)
    assert record.entries[0].at == "1970-01-01T00:00:00Z"
    with pytest.raises(RecordDamagedError, match="must hold the 4 entries"):
        check_head(record.entries[:3], head_of(record.entries), "record.jsonl")


def test_a_digest_of_lines_does_not_depend_on_how_they_were_written(tmp_path: Path) -> None:
    lines = [b'{"a":1}\n', b'{"b":2}\n', b'{"c":3}\n']
    (tmp_path / "log").write_bytes(b"".join(lines))
    assert extended("", b"".join(lines)) == extended(extended("", lines[0]), b"".join(lines[1:]))
    whole, two = extended("", b"".join(lines)), extended("", b"".join(lines[:2]))
    found = digests_of(whole_lines(tmp_path / "log"), (0, 16, 17, 24, 32))
    assert found == {0: "", 16: two, 17: None, 24: whole, 32: None}
    assert digests_of(whole_lines(tmp_path / "none"), (0, 8)) == {0: "", 8: None}


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ({"added": 0.1}, {"added": 0.2}, ["release"]),
        ({"added": 0.1}, {"added": 0.05}, []),
        ({"added": 0.1}, {"risk": 0.1}, ["release"]),
        ({"added": 0.1}, {"added": 0.1, "risk": 0.1}, []),
        ({"added": 0.1, "share": 0.1}, {"added": 0.1, "share": 0.2}, ["release"]),
        ({"risk": 0.1}, {"risk": 0.1, "habits": "apart"}, ["release"]),
        ({"added": 0.1, "hindsight": True}, {"added": 0.1}, ["release"]),
        ({"added": 0.1}, {}, ["release"]),
        ({}, {"added": 0.5}, []),
        ({"added": 0.1}, {"added": 0.1, "sigmas": [1.0]}, []),
    ],
)
def test_what_weakens_a_promise_needs_a_reason(
    before: dict[str, Any], after: dict[str, Any], names: list[str]
) -> None:
    was, now = ({"release": {"mechanism": "budget", "budget": each}} for each in (before, after))
    assert weakened(was, now) == names


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        (
            {"release": {"mechanism": "gaussian", "sigma": 2.0}},
            {"release": {"mechanism": "gaussian", "sigma": 3.0}},
            [],
        ),
        (
            {"release": {"mechanism": "gaussian", "sigma": 2.0}},
            {"release": {"mechanism": "gaussian", "sigma": 1.0}},
            ["release"],
        ),
        ({"release": {"mechanism": "gaussian"}}, {"release": {"mechanism": "raw"}}, ["release"]),
        ({"schedule": "a"}, {"schedule": "b"}, ["schedule"]),
        ({"noise_key": "a"}, {"noise_key": "b"}, []),
        ({"delta": 1e-6}, {"delta": 1e-3}, ["delta"]),
        ({"delta": 1e-6}, {"delta": 1e-9}, []),
        ({"counted_again": {"A": {"most_counts": 4, "corrections": 0}}}, {}, ["counted_again"]),
        ({}, {"counted_again": {"A": {"most_counts": 4, "corrections": 0}}}, []),
        ({"crowd": None}, {"crowd": {"known": 0, "decides": True}}, ["crowd"]),
    ],
)
def test_less_noise_another_schedule_or_a_larger_delta_weaken_it_too(
    before: dict[str, Any], after: dict[str, Any], names: list[str]
) -> None:
    assert weakened(before, after) == names


def test_a_name_is_found_where_there_is_no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError

    monkeypatch.setattr(record_module.getpass, "getuser", nobody)
    assert Author.given().by.startswith("user ")
    assert Author.given("  Ada\nL. ", "").by == "Ada L."
    assert Author.given("x", "  ").reason is None
