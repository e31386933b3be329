"""The table of exclusions: which steps it covers, what is refused, and what of it may change."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.mechanisms import Raw
from models.releases import CountingWindow, Schedule, Sensor, SensorRegistry
from stream_app.exceptions import RunChangedError, SettingsError
from stream_app.setup.exclusions import (
    NO_EXCLUSIONS,
    Exclusion,
    Exclusions,
    check_change,
    excludes_no_less,
    load_exclusions,
)
from tests.stream_app.engine_support import NAMES, REGISTRY, settings

HOURLY = {"step_seconds": 3600, "origin": "2026-03-02T00:00:00Z"}
HEADER = "sensor,from,to,reason"


def table(folder: Path, *lines: str, header: str = HEADER) -> Path:
    path = folder / "exclusions.csv"
    path.write_text("\n".join([header, *lines, ""]))
    return path


def loaded(
    folder: Path, *lines: str, header: str = HEADER, registry: SensorRegistry = REGISTRY, **changed: object
) -> Exclusions:
    path = table(folder, *lines, header=header)
    return load_exclusions(settings(**{**HOURLY, "quality": {"exclusions": path}, **changed}), registry)


def test_every_step_that_an_interval_touches_is_excluded(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        "A,2026-03-02T08:00Z,2026-03-02T10:00Z,maintenance",  # whole steps
        "A,2026-03-02T12:59:59Z,2026-03-02T14:00:01Z,calibration",  # a second of each at the ends
        "B,2026-03-01T00:00Z,2026-03-02T01:00Z,before the first step too",
        "C,2026-03-03T00:00+01:00,,broken for good",
    )
    excluded = {name: [step for step in range(30) if found.of(step, name)] for name in NAMES}
    assert excluded == {"A": [8, 9, 12, 13, 14], "B": [0], "C": list(range(23, 30)), "D": []}
    assert found.of(10**9, "C") == Exclusion("C", 23, None, "broken for good")


def test_times_of_the_clock_on_the_wall_follow_its_changes(tmp_path: Path) -> None:
    """Steps are hours UTC; in Vienna the clock skips 2 o'clock on 29 March, and shows it twice in October."""
    header = f"{HEADER},timezone"
    found = loaded(
        tmp_path,
        "A,2026-03-02T09:00,2026-03-02T10:00,winter,Europe/Vienna",
        "A,2026-04-02T09:00,2026-04-02T10:00,summer,Europe/Vienna",
        "B,2026-10-25T02:00,2026-10-25T02:30,shown twice: both times,Europe/Vienna",
        "C,2026-03-02T09:00Z,2026-03-02T10:00Z,an offset counts,Europe/Vienna",
        header=header,
    )
    day = 24
    october = (31 - 2 + 30 + 31 + 30 + 31 + 31 + 30 + 25) * day  # 25 October after 2 March
    assert [(row.sensor, row.first, row.until) for row in found.rows] == [
        ("A", 8, 9),
        ("A", 31 * day + 7, 31 * day + 8),
        ("B", october, october + 2),
        ("C", 9, 10),
    ]
    with pytest.raises(SettingsError, match=r"line 2 .* that the clock in Europe/Vienna shows"):
        loaded(tmp_path, "A,2026-03-29T02:30,,skipped,Europe/Vienna", header=header)


def test_a_window_that_is_cut_is_not_released_at_all(tmp_path: Path) -> None:
    """Windows of four steps end with 3, 7, 11; an exclusion of steps 5 to 8 cuts two of them."""
    sensor = Sensor("wide", (0, 1), window=CountingWindow(steps=4), most_counts=4)
    registry = SensorRegistry(NAMES, (sensor,))
    found = loaded(tmp_path, "wide,2026-03-02T05:00Z,2026-03-02T09:00Z,moved", registry=registry)
    assert [step for step in (3, 7, 11, 15) if found.of(step, "wide")] == [7, 11]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["Z,2026-03-02T08:00Z,,broken"], "line 2: a sensor must be one of the deployment"),
        (["A,2026-03-02T08:00Z,2026-03-02T08:00Z,broken"], "line 2 .* must end after it begins"),
        (["A,2026-03-02T08:00,,broken"], "line 2 .* must have times with an offset, or a timezone"),
        (["A,yesterday,,broken"], "line 2 .* must have times like"),
        (["A,2026-02-01T08:00Z,2026-03-01T08:00Z,broken"], "line 2 .* must not end before the first step"),
        (["A,2026-03-02T08:00Z,,"], "line 2 .* must have a reason"),
        (["A,2026-03-02T08:00Z,broken"], "line 2 .* must have 4 values"),
        (
            ["A,2026-03-02T08:00Z,,broken", "B,2026-03-02T08:00Z,,broken", "A,2027-01-01T00:00Z,,again"],
            "line 4 .* must not overlap line 2, also of 'A'",
        ),
    ],
)
def test_a_wrong_line_is_refused_by_its_number(tmp_path: Path, lines: list[str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        loaded(tmp_path, *lines).require_known()


def test_a_sensor_that_was_removed_may_stay_in_the_table(tmp_path: Path) -> None:
    """Its steps were left out, so its line has to stay; no other name passes with it."""
    found = loaded(tmp_path, "Y,2026-03-02T08:00Z,,gone", "Z,2026-03-02T08:00Z,,broken")
    found.require_known(["Y", "Z"])
    assert [row.sensor for row in found.rows] == ["Y", "Z"]
    with pytest.raises(SettingsError, match="line 3: a sensor must be one of the deployment"):
        found.require_known(["Y"])


def test_other_columns_and_files_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="must be the header sensor,from,to,reason"):
        loaded(tmp_path, "A,2026-03-02T08:00Z,,broken,Ann", header=f"{HEADER},chosen_by")
    missing = settings(quality={"exclusions": tmp_path / "nowhere.csv"})
    with pytest.raises(SettingsError, match="must be a readable CSV"):
        load_exclusions(missing, REGISTRY)
    assert load_exclusions(settings(), REGISTRY) is NO_EXCLUSIONS


def test_a_schedule_without_exclusions_is_the_same_one_with_fewer_releases() -> None:
    schedule = Schedule.raw([[0, 1], [0], [1]])
    names = ("0", "1")
    found = Exclusions((Exclusion("0", 0, 2, "broken"),))
    assert found.without(schedule) == Schedule.raw([[1], [], [1]])
    assert NO_EXCLUSIONS.without(schedule) is schedule
    assert found.announced({0: names, 1: names, 2: names}) == {0: ("1",), 1: ("1",), 2: names}
    assert {each.mechanism for step in found.without(schedule).steps for each in step.releases} == {Raw()}


def test_what_is_closed_or_announced_stays_and_the_rest_may_change() -> None:
    before = [["A", 3, 6, "broken"], ["B", 8, None, "moved"]]
    for now in (
        before,
        [["B", 8, None, "for another reason"], ["A", 3, 4, "x"], ["A", 4, 6, "two lines, the same steps"]],
        [*before, ["A", 10, 12, "maintenance"]],
        [["A", 3, 6, "broken"], ["B", 8, 11, "it came back"]],
    ):
        check_change(before, now, 10)
    for now, sensor in (
        ([["A", 3, 7, "broken"], ["B", 8, None, "moved"]], "A"),
        ([["A", 3, 6, "broken"]], "B"),
        (None, "A"),
        ([*before, ["C", 0, 1, "looked at"]], "C"),
    ):
        with pytest.raises(RunChangedError, match=f"'{sensor}'.*change the table from step 10 on"):
            check_change(before, now, 10)
    check_change(None, before, 3)
    with pytest.raises(RunChangedError, match="in none of them, now in steps 3 to 3"):
        check_change(None, before, 4)


def test_only_what_is_taken_back_needs_a_reason() -> None:
    before = [["A", 3, 6, "broken"], ["A", 6, 9, "broken"], ["B", 8, None, "moved"]]
    assert excludes_no_less(before, [["A", 2, 9, "broken"], ["B", 8, None, "moved"], ["C", 1, 2, "new"]])
    assert excludes_no_less(None, before)
    assert not excludes_no_less(before, [["A", 3, 8, "broken"], ["B", 8, None, "moved"]])
    assert not excludes_no_less(before, [["A", 3, 9, "broken"], ["B", 8, 100, "moved"]])
    assert not excludes_no_less(before, None)
