"""Counts of intervals become steps; the same again changes nothing, whenever the process is killed."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import pairwise, permutations
from pathlib import Path

import pytest

from stream_app.exceptions import InputError, OutputError, OutputLockedError, RunChangedError
from stream_app.starting.connect.journal import (
    MESSAGES,
    RECENT_STEPS,
    ContradictionError,
    CountJournal,
    NotOverError,
    StepFold,
    StepRules,
)
from stream_app.starting.connect.payloads import SensorCount
from stream_app.wire import MAX_COUNT, Activation, Reading, parse

HOUR = 3600
RULES = StepRules(0, HOUR)
SENSORS = ("a", "b")


def hour(step: int, people: int, sensor: str = "a") -> SensorCount:
    return SensorCount(sensor, step * HOUR, (step + 1) * HOUR, people)


def opened(folder: Path, rules: StepRules = RULES, sensors: Sequence[str] = SENSORS) -> CountJournal:
    return CountJournal(folder, rules, sensors, lambda: 1e9)


def messages(folder: Path) -> list[Activation | Reading]:
    found = [parse(line, "m") for line in (folder / MESSAGES).read_bytes().splitlines()]
    assert all(isinstance(each, Activation | Reading) for each in found)
    return found  # type: ignore[return-value]


def readings(folder: Path) -> dict[tuple[int, str], int]:
    found = [each for each in messages(folder) if isinstance(each, Reading)]
    assert len({(each.step, each.sensor) for each in found}) == len(found)
    return {(each.step, each.sensor): each.count for each in found}


def folded(counts: Sequence[SensorCount], **rules: object) -> dict[tuple[int, str], int]:
    fold = StepFold(StepRules(0, HOUR, **rules))  # type: ignore[arg-type]
    return {(each.step, each.sensor): each.people for count in counts for each in fold.take([count]).whole}


def test_parts_of_a_step_in_any_order_are_its_sum_once_all_are_there() -> None:
    quarters = [SensorCount("a", t, t + 900, t // 900 + 1) for t in range(0, HOUR, 900)]
    for order in permutations(quarters):
        assert folded(order[:3], sums_shorter=True) == {}
        assert folded(order, sums_shorter=True) == {(0, "a"): 10}
        assert folded([*order, *order], sums_shorter=True) == {(0, "a"): 10}


def test_totals_in_any_order_are_the_differences_of_a_counter() -> None:
    """Against the plain differences; a step is given once both of its bounds are known."""
    totals = [(0, 5), (HOUR, 9), (HOUR + 1800, 9), (2 * HOUR, 20), (4 * HOUR, 21), (5 * HOUR, 21)]
    wanted = {(0, "a"): 4, (1, "a"): 11, (4, "a"): 0}
    for order in permutations(totals):
        assert folded([SensorCount("a", None, at, total) for at, total in order]) == wanted


def test_a_counter_that_begins_again_is_seen_by_enumeration() -> None:
    """Every course of four readings of a counter within a step, with a reset before any of them or none."""
    times = (0, 1200, 2400, HOUR)
    for gains in [(a, b, c) for a in range(3) for b in range(3) for c in range(3)]:
        for reset in (None, 0, 1, 2):
            totals = [7]
            for number, gain in enumerate(gains):
                totals.append((0 if number == reset else totals[-1]) + gain)
            counts = [SensorCount("a", None, at, total) for at, total in zip(times, totals, strict=True)]
            is_seen = any(after < before for before, after in pairwise(totals))
            assert is_seen == (reset is not None)
            assert folded(counts) == ({} if is_seen else {(0, "a"): sum(gains)})
            assert folded(counts, resets="from_zero") == {(0, "a"): sum(gains)}


def test_times_near_the_bound_of_a_step_are_taken_for_it_by_declaration() -> None:
    near = SensorCount("a", HOUR - 20, 2 * HOUR + 20, 3)
    with pytest.raises(InputError, match="must be a step of 3,600 s"):
        folded([near])
    assert folded([near], tolerance_seconds=30) == {(1, "a"): 3}


@pytest.mark.parametrize(
    ("second", "error"),
    [
        (SensorCount("a", 0, 1800, 1), ContradictionError),
        (SensorCount("a", 0, 2 * HOUR, 3), InputError),
        (SensorCount("a", 1800, 1800 + HOUR, 3), InputError),
        (SensorCount("a", -HOUR, 0, 3), InputError),
    ],
)
def test_another_interval_is_refused_whole(second: SensorCount, error: type[InputError]) -> None:
    fold = StepFold(StepRules(0, HOUR, sums_shorter=True))
    fold.take([hour(0, 3)])
    with pytest.raises(error):
        fold.take([hour(1, 1), second])
    assert fold.take([hour(1, 2)]).new == [hour(1, 2)], "what came with it was not taken"


@pytest.mark.parametrize("kind", ["interval", "total"])
def test_what_is_sent_again_tells_nothing_of_what_was_sent_before(kind: str) -> None:
    """Every guess has the fate of the right one, alone and beside a new count, which is taken."""

    def count(step: int, people: int) -> SensorCount:
        return hour(step, people) if kind == "interval" else SensorCount("a", None, step * HOUR, people)

    fates = set()
    for guess in range(20):
        fold = StepFold(RULES)
        fold.take([count(0, 13)])
        alone, beside = fold.take([count(0, guess)]), fold.take([count(0, guess), count(1, 99)])
        assert [each.people for each in alone.contradicting] == ([] if guess == 13 else [guess])
        assert not beside.contradicting, "once for each interval"
        fates.add((len(alone.new), len(alone.known), len(beside.new), len(beside.known)))
        assert fold.take([count(0, 13)]).contradicting == []
    assert fates == {(0, 1, 1, 1)}


def test_a_part_is_refused_by_what_it_is_and_never_by_the_other_parts() -> None:
    """Else who adds MAX_COUNT less a guess would learn what another one has counted."""
    rules = StepRules(0, HOUR, sums_shorter=True)
    for people in (0, 1, 1000, MAX_COUNT // 2):
        fold = StepFold(rules)
        fold.take([SensorCount("a", 0, HOUR // 2, people)])
        with pytest.raises(InputError, match="at most"):
            fold.take([SensorCount("a", HOUR // 2, HOUR, MAX_COUNT // 2 + 1)])
        (whole,) = fold.take([SensorCount("a", HOUR // 2, HOUR, MAX_COUNT // 2)]).whole
        assert whole.people == people + MAX_COUNT // 2 <= MAX_COUNT


def test_a_counter_whose_resets_add_up_to_no_count_stops_nothing(tmp_path: Path) -> None:
    """With from_zero every fall adds: such a step is not counted, and the process goes on."""
    rules = StepRules(0, HOUR, resets="from_zero")
    totals = [
        (0, 0),
        (600, MAX_COUNT),
        (1200, 0),
        (1800, MAX_COUNT),
        (HOUR, MAX_COUNT),
        (2 * HOUR, MAX_COUNT),
    ]
    with opened(tmp_path, rules) as journal:
        for at, total in totals:
            assert journal.take([SensorCount("a", None, at, total)]).new == 1
        journal.commit()
    assert readings(tmp_path) == {(1, "a"): 0}


def test_an_interval_must_be_over(tmp_path: Path) -> None:
    """By the clock and what clocks may differ; the running one may be sent again when it is."""
    now = 10 * HOUR - 600.0
    with CountJournal(tmp_path, RULES, SENSORS, lambda: now, 5.0) as journal:
        journal.take([hour(8, 1)])
        for count in (hour(9, 0), SensorCount("a", None, 10 * HOUR, 4)):
            with pytest.raises(NotOverError) as refused:
                journal.take([hour(8, 1), count])
            assert refused.value.again_seconds == 595.0
        with pytest.raises(InputError, match="of the future"):
            journal.take([hour(10, 0)])
        now = 10 * HOUR - 5.0
        assert journal.take([hour(9, 7)]).new == 1


def test_counts_that_nobody_remembers_are_refused() -> None:
    fold = StepFold(RULES)
    fold.take([hour(RECENT_STEPS + 10, 1)])
    fold.take([hour(10, 1)])
    with pytest.raises(InputError, match="oldest first"):
        fold.take([hour(9, 1)])


def test_a_step_is_announced_for_all_sensors_before_its_counts_and_those_between(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        journal.take([hour(2, 5)])
        journal.take([hour(4, 6, "b")])
        journal.take([hour(1, 7)])
        journal.commit()
    found = messages(tmp_path)
    assert [each.step for each in found if isinstance(each, Activation)] == [2, 3, 4, 1]
    assert {tuple(each.sensors) for each in found if isinstance(each, Activation)} == {SENSORS}
    assert readings(tmp_path) == {(2, "a"): 5, (4, "b"): 6, (1, "a"): 7}
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in (MESSAGES, "counts.jsonl")} == {0o600}
    with opened(tmp_path / "new"):
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700, "who may list it sees how files grow"


def test_nothing_is_handed_over_before_it_is_durable(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        journal.take([hour(0, 1)])
        assert messages(tmp_path) == []
        journal.commit()
        assert readings(tmp_path) == {(0, "a"): 1}


def test_what_cannot_be_is_refused_before_it_is_written(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        journal.take([hour(1000, 1)])
        for wrong in (hour(1000, 1, "c"), hour(10**6, 1), hour(1000 + 100_002, 1), hour(10, 1, "b")):
            with pytest.raises(InputError):
                journal.take([wrong])
        journal.commit()
    assert len((tmp_path / "counts.jsonl").read_bytes().splitlines()) == 2


def test_cut_anywhere_both_files_come_back_and_what_is_sent_again_changes_nothing(tmp_path: Path) -> None:
    """A kill, or a loss of power, may leave any beginning of either file: the end is the same."""
    stream = [[hour(step, step + 1, sensor) for sensor in SENSORS] for step in range(6)]
    whole = tmp_path / "whole"
    with opened(whole) as journal:
        for each in stream:
            journal.take(each)
        journal.commit()
    wanted = {name: (whole / name).read_bytes() for name in ("counts.jsonl", MESSAGES)}
    chance = random.Random(7)
    for number in range(60):
        folder = tmp_path / str(number)
        folder.mkdir()
        cut = chance.randrange(len(wanted["counts.jsonl"]) + 1)
        counts = wanted["counts.jsonl"][:cut]
        (folder / "counts.jsonl").write_bytes(counts)
        with opened(folder):
            made = (folder / MESSAGES).read_bytes()
        left = made[: chance.randrange(len(made) + 1)]
        (folder / MESSAGES).write_bytes(left + bytes(chance.randrange(3) if len(left) < len(made) else 0))
        with opened(folder) as journal:
            for each in stream:
                journal.take(each)
            journal.commit()
        assert {name: (folder / name).read_bytes() for name in wanted} == wanted


def test_lines_that_were_damaged_or_lost_are_named(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        for step in range(3):
            journal.take([hour(step, 1)])
        journal.commit()
    counts = tmp_path / "counts.jsonl"
    kept = counts.read_bytes()
    counts.write_bytes(kept[: len(kept) // 2].rpartition(b"\n")[0] + b"\n")
    with pytest.raises(OutputError, match=r"restore counts\.jsonl"):
        opened(tmp_path)
    lines = kept.splitlines(keepends=True)
    counts.write_bytes(b"".join([lines[0], b"[[]]\n", *lines[2:]]))
    with pytest.raises(OutputError, match="line 2"):
        opened(tmp_path)


def test_rules_and_sensors_may_change_and_earlier_counts_stay_what_they_were(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        journal.take([hour(0, 1)])
        journal.commit()
    before = (tmp_path / MESSAGES).read_bytes()
    loose = StepRules(0, HOUR, tolerance_seconds=60)
    with opened(tmp_path, loose, ("a", "b", "c")) as journal:
        journal.take([SensorCount("c", HOUR + 5, 2 * HOUR, 2)])
        journal.commit()
    with opened(tmp_path, loose, ("a", "b", "c")), pytest.raises(OutputLockedError):
        opened(tmp_path)
    assert (tmp_path / MESSAGES).read_bytes().startswith(before)
    assert readings(tmp_path) == {(0, "a"): 1, (1, "c"): 2}
    with pytest.raises(RunChangedError, match="origin or step_seconds"):
        opened(tmp_path, StepRules(0, 900))
    assert json.loads((tmp_path / "counts.jsonl").read_bytes().splitlines()[0])["sensors"] == ["a", "b"]


def short(step: int, people: int, sensor: str = "a", length: int = HOUR) -> SensorCount:
    """An interval whose end is its last second."""
    return SensorCount(sensor, step * length, (step + 1) * length - 1, people)


def test_ends_that_are_inclusive_are_recognised_by_a_second_interval() -> None:
    """The first waits, whichever it is: two hours of a sensor, or one of two sensors; once more is known."""
    wanted = {(0, "a"): 3, (1, "a"): 4, (0, "b"): 5}
    counts = [short(0, 3), short(1, 4), short(0, 5, "b")]
    for order in permutations(counts):
        assert folded(order[:1], ends="recognise") == {}
        assert folded([order[0], order[0]], ends="recognise") == {}
        assert folded([*order, *order], ends="recognise") == wanted
        assert folded(order, ends="inclusive") == wanted
        assert folded(order[:1], ends="inclusive") == {
            key: wanted[key]
            for key in wanted
            if key == (order[0].start // HOUR, order[0].sensor)  # type: ignore[operator]
        }
    quarters = [short(number, number, length=900) for number in range(4)]
    for order in permutations(quarters):
        assert folded(order, ends="recognise", sums_shorter=True) == {(0, "a"): 6}


def test_the_ends_of_a_feed_are_of_one_kind() -> None:
    """What was recognised holds: an interval of the other kind is refused, and a lone one never counts."""
    with pytest.raises(InputError, match="must all be inclusive"):
        folded([short(0, 3), short(1, 4), hour(2, 5)], ends="recognise")
    with pytest.raises(InputError, match="must all be exclusive"):
        folded([hour(0, 3), short(1, 4)], ends="recognise")
    with pytest.raises(InputError, match="must all be inclusive"):
        folded([hour(0, 3)], ends="inclusive")
    assert folded([short(0, 3), hour(1, 4)], ends="recognise") == {(1, "a"): 4}
    assert folded([short(0, 3), hour(0, 9)], ends="recognise") == {(0, "a"): 9}
    for ends in ("exclusive", "recognise"):
        with pytest.raises(InputError, match="must be a step of 3,600 s"):
            folded([SensorCount("a", 0, HOUR - 2, 1)], ends=ends)
    with pytest.raises(InputError, match="must be a step of 3,600 s"):
        folded([short(0, 1)])


def test_a_refused_payload_teaches_nothing_about_ends() -> None:
    """Its intervals are undone with their counts: the next ones are recognised as if it had not come."""
    fold = StepFold(StepRules(0, HOUR, ends="recognise"))
    for payload in (
        [hour(5, 1), short(6, 1)],
        [short(5, 1), hour(-1, 1)],
    ):
        with pytest.raises(InputError):
            fold.take(payload)
        assert fold.ends is None
    assert fold.take([short(0, 3)]).whole == []
    assert [each.people for each in fold.take([short(1, 4)])[0]] == [3, 4]
    assert fold.ends == "inclusive"


def test_a_restart_knows_what_waited_and_what_was_recognised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The journal is read again: the count that waited is there, and the sentence is said."""
    caplog.set_level("INFO", "stream_app")
    rules = StepRules(0, HOUR, ends="recognise")
    with opened(tmp_path / "j", rules) as journal:
        journal.take([short(0, 3)])
        journal.commit()
    assert readings(tmp_path / "j") == {}
    with opened(tmp_path / "j", rules) as journal:
        journal.take([short(1, 4)])
        journal.commit()
        assert "inclusive" in str(journal.ends)
    assert readings(tmp_path / "j") == {(0, "a"): 3, (1, "a"): 4}
    assert "taken as inclusive" in caplog.text
    with opened(tmp_path / "j", rules) as journal, pytest.raises(InputError, match="must all be inclusive"):
        journal.take([hour(2, 5)])


def test_a_machine_whose_clock_is_in_1970_refuses_no_count_for_good(tmp_path: Path) -> None:
    """Nothing is taken and nothing acknowledged; with the clock set the same count is taken."""
    now = [0.0]
    rules = StepRules(1_767_225_600, HOUR)
    count = SensorCount("a", rules.origin_seconds, rules.origin_seconds + HOUR, 5)
    with CountJournal(tmp_path / "j", rules, SENSORS, lambda: now[0]) as journal:
        with pytest.raises(OutputError, match="clock must be right"):
            journal.take([count])
        now[0] = rules.origin_seconds + HOUR
        assert journal.take([count]).new == 1
