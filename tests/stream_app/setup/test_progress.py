"""Where a run continues: commits write what changed, read back as they were, are refused where damaged."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.exceptions import OutputError
from stream_app.setup.run_folder import progress
from stream_app.setup.run_folder.progress import CHANGES, WHOLE, ProgressLog, load_progress
from stream_app.steps.window import StepWindow
from tests.stream_app.engine_support import activation, engine, reading, saved_window
from tests.stream_app.engine_support import feed as feed_engine

SENSORS = "ABCD"


def as_text(saved: Any) -> str:
    """A saved window, its steps in order, the counts of each in theirs."""
    return json.dumps({**saved, "steps": sorted(saved["steps"], key=lambda entry: int(entry["step"]))})


def fields_of(window: StepWindow, **more: object) -> dict[str, object]:
    return {"next_step": window.next_step, "window": window.save_position(), **more}


def in_files(folder: Path) -> int:
    """Bytes of the last commit."""
    return sum((folder / name).stat().st_size for name in (WHOLE, CHANGES))


actions = st.lists(
    st.one_of(
        st.tuples(st.just("announce"), st.integers(0, 6), st.sets(st.sampled_from(SENSORS))),
        st.tuples(st.just("count"), st.integers(-5, 6), st.sampled_from(SENSORS)),
        st.tuples(st.just("close"), st.integers(0, 2), st.none()),
        st.tuples(st.sampled_from(["commit", "end", "again"]), st.none(), st.none()),
    ),
    max_size=60,
)


@given(actions, st.integers(0, 4), st.sampled_from([40, 4096]))
def test_what_is_read_is_the_window_that_was_committed(
    actions: list[tuple[str, Any, Any]], late: int, least: int
) -> None:
    """However steps were announced, counted, corrected, closed and forgotten, however often read again."""
    before, progress._LEAST_BYTES = progress._LEAST_BYTES, least
    try:
        with TemporaryDirectory() as name:
            _walk(Path(name), actions, late)
    finally:
        progress._LEAST_BYTES = before


def _walk(folder: Path, actions: list[tuple[str, Any, Any]], late: int) -> None:
    target, log, marks = engine(), ProgressLog(folder), [7]
    window = target.intake.window
    window.late = late
    for number, (kind, step, what) in enumerate(actions):
        if kind == "announce":
            feed_engine(target, [activation(window.next_step + step, *sorted(what))], finish=False)
        elif kind == "count" and window.next_step + step >= 0:
            feed_engine(target, [reading(window.next_step + step, what, number)], finish=False)
        elif kind == "close":
            target.close_through(window.next_step + step)
            while target.close_next() is not None:
                pass
        elif kind == "again":
            log.close()
            log = ProgressLog(folder)
        else:
            marks = [*marks[: number // 2], number]
            log.write(fields_of(window, marks_too=number), window.take_changed(), marks, whole=kind == "end")
            found = load_progress(folder)
            assert as_text(found["window"]) == as_text(saved_window(window))
            window._changed.clear()  # as saving did, which is ours
            assert found["marks"] == marks
            assert found["marks_too"] == number
            size = in_files(folder)
            log.write(fields_of(window, marks_too=number), window.take_changed(), marks)
            assert in_files(folder) == size
    log.close()


def filled(folder: Path, steps: int, sensors: int) -> tuple[ProgressLog, StepWindow]:
    """A log and its window, where every count of many steps may still be corrected."""
    window = StepWindow(grace=1, late=steps)
    log = ProgressLog(folder)
    for step in range(steps):
        names = tuple(f"s{index}" for index in range(sensors))
        window.at(step).announce(names)
        window.accept(step, dict.fromkeys(names, 1234))
        window.close()
    log.write(fields_of(window), window.take_changed())
    return log, window


def test_a_commit_writes_what_changed_and_nothing_where_nothing_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One count among 100,000 that may be corrected costs less than a thousandth of them."""
    log, window = filled(tmp_path, 200, 500)
    whole = in_files(tmp_path)
    step = window.next_step
    window.at(step).announce(tuple(f"s{index}" for index in range(500)))
    log.write(fields_of(window), window.take_changed())
    announced = in_files(tmp_path)
    window.at(step)
    window.accept(step, {"s3": 41})
    log.write(fields_of(window), window.take_changed())
    assert 0 < in_files(tmp_path) - announced < 1000 < whole / 1000
    before = {path: path.stat() for path in tmp_path.iterdir()}
    log.write(fields_of(window), window.take_changed())
    log.write(fields_of(window), window.take_changed())
    assert {path: path.stat() for path in tmp_path.iterdir()} == before
    log.close()


def test_all_that_is_written_is_a_few_times_what_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = [0]
    replace_file, append = progress.replace_file, progress.AppendFile.append

    def replaced(path: Path, data: bytes, mode: int) -> None:
        written.append(len(data))
        replace_file(path, data, mode)

    def appended(file: progress.AppendFile, data: bytes) -> None:
        written.append(len(data))
        append(file, data)

    monkeypatch.setattr(progress, "replace_file", replaced)
    monkeypatch.setattr(progress.AppendFile, "append", appended)
    log, window = filled(tmp_path, 200, 50)
    one_step = written[-1] / 200
    written.clear()
    for step in range(200, 800):
        names = tuple(f"s{index}" for index in range(50))
        window.at(step).announce(names)
        window.accept(step, dict.fromkeys(names, 1234))
        window.close()
        log.write(fields_of(window), window.take_changed())
    assert sum(written) / 600 < 5 * one_step
    log.close()


def test_counts_of_forgotten_steps_do_not_stay(tmp_path: Path) -> None:
    """Those of half as many steps as are kept at most, however few bytes they take."""
    window, log = StepWindow(grace=3), ProgressLog(tmp_path)
    for step in range(40):
        window.at(step).announce(("A",))
        window.accept(step, {"A": 770_000 + step})
        window.close()
        log.write(fields_of(window), window.take_changed())
        text = (tmp_path / WHOLE).read_text() + (tmp_path / CHANGES).read_text()
        assert sum(f"{770_000 + each}" in text for each in range(step + 1)) <= 4 + 3
    log.close()


def test_a_count_that_comes_after_another_was_dropped_is_written(tmp_path: Path) -> None:
    """As where a sensor is removed from an open step: how many counts there are says nothing."""
    log, step = ProgressLog(tmp_path), {"step": 0, "sensors": ["A", "B"], "waiting": {}}
    for counts in ({"A": 1}, {"B": 2}):
        log.write({"window": {"next_step": 0}}, {0: {**step, "counts": counts}})
    log.close()
    assert load_progress(tmp_path)["window"]["steps"][0]["counts"]["B"] == 2


def written(folder: Path) -> list[dict[str, Any]]:
    """A whole and three lines; the commit after each."""
    log, found = ProgressLog(folder), []
    for number in range(4):
        log.write({"next_step": number}, {})
        found.append(load_progress(folder))
    log.close()
    return found


def test_a_torn_end_is_no_commit_and_is_cut(tmp_path: Path) -> None:
    commits = written(tmp_path)
    whole = (tmp_path / CHANGES).read_bytes()
    lines = whole.splitlines(keepends=True)
    for length in range(len(whole) + 1):
        for filler in (b"", b"\0" * 40, b"\0" * 40 + b"\n"):  # what a loss of power may leave
            (tmp_path / CHANGES).write_bytes(whole[:length] + filler)
            complete = sum(length >= len(b"".join(lines[: number + 1])) for number in range(3))
            assert load_progress(tmp_path) == commits[complete]
    (tmp_path / CHANGES).write_bytes(whole[:-3])
    ProgressLog(tmp_path).close()
    assert (tmp_path / CHANGES).read_bytes() == b"".join(lines[:2])


def test_a_line_that_was_changed_or_taken_out_is_refused(tmp_path: Path) -> None:
    written(tmp_path)
    first, second, third = (tmp_path / CHANGES).read_bytes().splitlines(keepends=True)
    for damaged in (
        first + second.replace(b'"next_step":2', b'"next_step":7') + third,
        first + third,
        second + third,
        first + b"\0\n" + third,
        first + third + second,
    ):
        (tmp_path / CHANGES).write_bytes(damaged)
        with pytest.raises(OutputError, match=r"progress\.jsonl must be as it was written.*restore"):
            load_progress(tmp_path)
        with pytest.raises(OutputError, match=r"progress\.jsonl must be as it was written"):
            ProgressLog(tmp_path)


def test_lines_of_an_older_whole_are_passed_over(tmp_path: Path) -> None:
    """A kill between writing a whole and cutting the lines leaves both."""
    written(tmp_path)
    lines = (tmp_path / CHANGES).read_bytes()
    log = ProgressLog(tmp_path)
    log.write({"next_step": 9}, {}, whole=True)
    log.close()
    assert (tmp_path / CHANGES).read_bytes() == b""
    (tmp_path / CHANGES).write_bytes(lines)
    assert load_progress(tmp_path) == {"next_step": 9}
    again = ProgressLog(tmp_path)
    again.write({"next_step": 10}, {})
    again.close()
    assert load_progress(tmp_path) == {"next_step": 10}


def test_progress_is_for_its_owner_only(tmp_path: Path) -> None:
    written(tmp_path)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in (WHOLE, CHANGES)] == [0o600, 0o600]
