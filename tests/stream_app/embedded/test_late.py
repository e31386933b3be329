"""Late and corrected counts: published once with noise of their own, accounted when their steps closed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.settings import HorizonSettings
from models.mechanisms import Gaussian, Raw, Tiered, all_versions
from models.releases import Sensor, SensorRelease, StepSchedule
from stream_app.analysis.run_lines import released_days
from stream_app.analysis.run_log import read_run
from stream_app.embedded.journal import REVISED_FILE, Journal
from stream_app.exceptions import OutputError, RunChangedError
from stream_app.wire import PRIVATE_REASONS, Activation, Reading, Readings, Reason, SensorValue, StepRelease
from tests.stream_app.embedded.test_journal import Disk
from tests.stream_app.engine_support import (
    LITTLE_WORK,
    NAMES,
    activation,
    json_lines,
    lines_of,
    outputs_of,
    population,
    reading,
    run_on,
)

Messages = Sequence[Activation | Reading]
STEPS = 8


def corrected(step: int, sensor: str, number: int, version: int = 2) -> Reading:
    return Reading(v=1, step=step, sensor=sensor, count=number, version=version)


def whole_day() -> list[Activation | Reading]:
    """Every sensor counts in every step."""
    return [
        message
        for step in range(STEPS)
        for message in (activation(step, *NAMES), *(reading(step, name, 10 * step) for name in NAMES))
    ]


def with_late(day: Messages, step: int, sensor: str, after: int) -> list[Activation | Reading]:
    """The same, but one reading comes behind the first reading of a later step."""
    own = next(
        each for each in day if isinstance(each, Reading) and (each.step, each.sensor) == (step, sensor)
    )
    rest = [each for each in day if each is not own]
    place = next(i for i, each in enumerate(rest) if isinstance(each, Reading) and each.step == after)
    return [*rest[: place + 1], own, *rest[place + 1 :]]


def declared(folder: Path, corrections: int) -> dict[str, object]:
    """Settings with a sensors file that declares corrections."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "sensors.json"
    rows = [{"name": name, "locations": [index]} for index, name in enumerate(NAMES)]
    path.write_text(json.dumps({"corrections": corrections, "sensors": rows}))
    return {**LITTLE_WORK, "sensors": path, "late": 3, "grace": 0}


def revised(folder: Path) -> list[dict[str, object]]:
    """The values of ``revised.jsonl``, each with its step."""
    if not (folder / REVISED_FILE).exists():
        return []
    lines = json_lines(folder / REVISED_FILE)
    return [{"step": line["step"], **entry} for line in lines for entry in line["releases"]]  # type: ignore[attr-defined]


def test_a_late_value_is_what_it_would_have_been_in_time_and_costs_no_more(tmp_path: Path) -> None:
    """The account of a missing count is that of a released one, so risks are the same to the byte."""
    day, chosen = whole_day(), declared(tmp_path, 0)
    run_on(tmp_path / "in time", [lines_of(day)], settings=chosen)
    report = run_on(tmp_path / "late", [lines_of(with_late(day, 2, "A", 4))], settings=chosen)
    assert not report.rejected
    expected = json_lines(tmp_path / "in time" / "releases.jsonl")[2]["releases"]
    (late,) = revised(tmp_path / "late")
    assert late == {"step": 2, **next(each for each in expected if each["sensor"] == "A")}  # type: ignore[attr-defined]
    (missing,) = [
        each
        for each in json_lines(tmp_path / "late" / "releases.jsonl")[2]["releases"]  # type: ignore[attr-defined]
        if each["sensor"] == "A"
    ]
    assert "value" not in missing
    risks = [(tmp_path / name / "risks.jsonl").read_bytes() for name in ("in time", "late")]
    assert risks[0] == risks[1]
    assert not (tmp_path / "in time" / REVISED_FILE).exists()


def test_without_the_setting_a_late_value_is_a_dead_letter(tmp_path: Path) -> None:
    chosen = {**declared(tmp_path, 1), "late": 0}
    messages = with_late(whole_day(), 2, "A", 4)
    report = run_on(tmp_path / "out", [lines_of([*messages, corrected(6, "B", 1)])], settings=chosen)
    assert report.rejected == {Reason.LATE_READING: 2}
    assert not revised(tmp_path / "out")


def test_a_corrected_value_has_noise_of_its_own_also_where_nothing_changed(tmp_path: Path) -> None:
    """Else an equal value would show that the count is the same, and a difference would be exact."""
    day, chosen = whole_day(), declared(tmp_path, 2)
    place = day.index(activation(7, *NAMES))
    again = [corrected(step, "A", 10 * step) for step in (4, 5, 6)]
    again += [corrected(5, "A", 55, 3), corrected(5, "A", 55, 3), corrected(6, "B", 61)]
    report = run_on(tmp_path / "out", [lines_of([*day[:place], *again, *day[place:]])], settings=chosen)
    assert not report.rejected, "the same version with the same count changes nothing"
    found = revised(tmp_path / "out")
    assert [(each["step"], each["sensor"], each["version"]) for each in found] == [
        (4, "A", 2),
        (5, "A", 2),
        (5, "A", 3),
        (6, "A", 2),
        (6, "B", 2),
    ]
    first = {
        step: next(
            each["value"]
            for each in json_lines(tmp_path / "out" / "releases.jsonl")[step]["releases"]  # type: ignore[attr-defined]
            if each["sensor"] == "A"
        )
        for step in (4, 5, 6)
    }
    same = [each["value"] == first[each["step"]] for each in found if each["sensor"] == "A"]  # type: ignore[index]
    assert not all(same)
    assert found[-1]["value"] == 61, "B is released raw"


@pytest.mark.slow
def test_the_account_is_that_of_a_log_which_held_all_values_from_the_start() -> None:
    """Bit for bit, at every step: before a correction comes, and after."""
    places = [Sensor(name, (index,), corrections=1) for index, name in enumerate(NAMES)]
    plain = [Sensor(name, (index,)) for index, name in enumerate(NAMES)]
    horizon = HorizonSettings(4, 1, sharpen_above=0.0)
    declaring, holding = (ContinuousAccountant(population(), horizon) for _ in range(2))
    for step in range(6):
        noise = Raw() if step == 3 else Gaussian(2.0 + step)
        both = Raw() if step == 3 else all_versions([noise, noise])
        declaring.apply(StepSchedule(step, tuple(SensorRelease(each, noise) for each in places)))
        holding.apply(StepSchedule(step, tuple(SensorRelease(each, both) for each in plain)))
        assert declaring.risk().tobytes() == holding.risk().tobytes()


def test_a_correction_of_an_open_step_waits_until_it_has_closed(tmp_path: Path) -> None:
    """A provisional 0 and then the true count, both within the hour: the files of one that came after it."""
    chosen = declared(tmp_path, 1)
    first = [
        Reading(v=1, step=5, sensor="A", count=0) if each == reading(5, "A", 50) else each
        for each in whole_day()
    ]
    for name, place in (
        ("open", first.index(reading(5, NAMES[1], 50))),
        ("closed", first.index(activation(6, *NAMES))),
    ):
        messages = [*first[:place], corrected(5, "A", 50), corrected(5, "A", 50), *first[place:]]
        assert not run_on(tmp_path / name, [lines_of(messages)], settings=chosen).rejected
        (value,) = revised(tmp_path / name)
        assert (value["step"], value["sensor"], value["version"]) == (5, "A", 2)
    assert outputs_of(tmp_path / "open") == outputs_of(tmp_path / "closed")


def test_corrections_and_late_counts_come_in_batches_too(tmp_path: Path) -> None:
    """A batch has one version; what is published of it is what its readings alone would be."""
    chosen = {**declared(tmp_path, 1), "late": 4}
    day = [each for each in whole_day() if not (isinstance(each, Reading) and each.sensor == "B")]
    late = [reading(4, "B", 9), corrected(5, "A", 51), corrected(5, "C", 52)]
    together = [
        Readings(v=1, step=4, counts={"B": 9}),
        Readings(v=1, step=5, counts={"A": 51, "C": 52}, version=2),
    ]
    run_on(tmp_path / "single", [lines_of([*day, *late])], settings=chosen)
    batches = lines_of(day) + b"".join(each.line() for each in together)
    assert not run_on(tmp_path / "batches", [batches], settings=chosen).rejected
    assert len(revised(tmp_path / "batches")) == 3
    assert revised(tmp_path / "single") == revised(tmp_path / "batches")
    assert outputs_of(tmp_path / "single") == outputs_of(tmp_path / "batches")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (corrected(6, "A", 1, 3), Reason.UNEXPECTED_VERSION),  # the second is missing
        (corrected(6, "A", 60, 4), Reason.UNEXPECTED_VERSION),  # more than are declared
        (corrected(8, "A", 1), Reason.UNEXPECTED_VERSION),  # of a step that is not announced
        (corrected(4, "A", 1), Reason.LATE_READING),
        (reading(6, "A", 3), Reason.CONTRADICTING_READING),
        (corrected(6, "nobody", 3), Reason.UNKNOWN_SENSOR),
    ],
)
def test_what_is_not_declared_goes_to_the_dead_letters(
    tmp_path: Path, message: Reading, reason: Reason
) -> None:
    run = run_on(tmp_path / "out", [lines_of([*whole_day(), message])], settings=declared(tmp_path, 2))
    assert run.rejected == ({} if reason in PRIVATE_REASONS else {reason: 1})
    assert [letter["reason"] for letter in json_lines(tmp_path / "out" / "rejected.jsonl")] == [reason]
    assert not revised(tmp_path / "out")


def test_a_decision_not_to_release_holds_for_later_values_too(tmp_path: Path) -> None:
    release = {"mechanism": "gaussian", "sigma": 2.0, "sensors": {"A": {"mechanism": "suppressed"}}}
    chosen = {**declared(tmp_path, 1), "release": release}
    messages = [*with_late(whole_day(), 2, "A", 4), corrected(7, "A", 3)]
    report = run_on(tmp_path / "out", [lines_of(messages)], settings=chosen)
    assert not report.rejected
    assert not revised(tmp_path / "out")


@pytest.mark.slow
def test_a_crash_at_any_write_leads_to_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late and corrected values among them; each stands once, whatever was written of it before."""
    day = with_late(whole_day()[: 5 * 6], 2, "A", 4)
    text = lines_of([*day[:-4], corrected(3, "B", 9), corrected(3, "C", 9), *day[-4:], corrected(5, "D", 1)])
    chosen = declared(tmp_path, 1)
    whole, disk = tmp_path / "whole", Disk(monkeypatch)
    run_on(whole, [text], settings=chosen)
    assert len(revised(whole)) == 4
    crashes = range(1, disk.operations + 1, 4)
    for folder in disk.mended(crashes, partial(run_on, chunks=[text], settings=chosen), tmp_path):
        assert outputs_of(folder) == outputs_of(whole), folder
        assert (folder / REVISED_FILE).read_bytes() == (whole / REVISED_FILE).read_bytes(), folder


def release_of(step: int, *entries: tuple[str, int, int | None]) -> StepRelease:
    values = (SensorValue(sensor=s, mechanism="raw", value=v, version=n) for s, v, n in entries)
    return StepRelease(step=step, releases=tuple(values))


def test_what_was_published_after_the_last_commit_is_not_drawn_again(tmp_path: Path) -> None:
    """A restart with another key would publish a second noise of the same value: it is refused.

    What gives the same again stands once, as an earlier version left it where it was killed.
    """
    journal = Journal(tmp_path, {})
    journal.keep("revised", release_of(1, ("A", 5, None)))
    journal.commit({})
    journal.close()
    with (tmp_path / REVISED_FILE).open("ab") as file:
        file.write(release_of(1, ("A", 6, 2)).line() + b'{"v":1,"type":"rel')
    again = Journal(tmp_path, {})
    with pytest.raises(RunChangedError, match=r"revised\.jsonl must go on as it was published"):
        again.keep("revised", release_of(1, ("A", 99, 2)))
    again.close()
    again = Journal(tmp_path, {})
    again.keep("revised", release_of(1, ("A", 6, 2)))
    again.keep("revised", release_of(1, ("B", 3, 2)))
    again.commit({}, whole=True)
    again.close()
    assert [(each["sensor"], each["value"]) for each in revised(tmp_path)] == [("A", 5), ("A", 6), ("B", 3)]
    (tmp_path / REVISED_FILE).write_bytes((tmp_path / REVISED_FILE).read_bytes()[:-40])
    with pytest.raises(OutputError, match=r"restore revised\.jsonl"):
        Journal(tmp_path, {})


@pytest.mark.slow
def test_each_tier_has_the_late_value_that_it_would_have_had_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a file of its own that nobody else may read, and the same after a crash at any of several writes."""
    tiers = {"mechanism": "tiered", "tiers": {"public": 0.2, "partner": 1.0}}
    day, chosen = whole_day(), {**declared(tmp_path, 0), "release": tiers}
    late = lines_of(with_late(day, 2, "A", 4))
    run_on(tmp_path / "in time", [lines_of(day)], settings=chosen)
    disk = Disk(monkeypatch)
    run_on(tmp_path / "late", [late], settings=chosen)
    for tier in tiers["tiers"]:
        expected = json_lines(tmp_path / "in time" / f"releases-{tier}.jsonl")[2]["releases"]
        path = tmp_path / "late" / f"revised-{tier}.jsonl"
        (line,) = json_lines(path)
        assert line["step"] == 2
        assert line["releases"] == [each for each in expected if each["sensor"] == "A"]  # type: ignore[attr-defined]
        assert path.stat().st_mode & 0o777 == 0o600
    (public,) = [
        row
        for _, rows in released_days(tmp_path / "late")
        for row in rows
        if (row.step, row.sensor) == (2, "A")
    ]
    (line,) = json_lines(tmp_path / "late" / "revised-public.jsonl")
    assert public.value == line["releases"][0]["value"]  # type: ignore[index]
    crashes, last = range(5, disk.operations, 13), {}
    for folder in disk.mended(crashes, partial(run_on, chunks=[late], settings=chosen), tmp_path):
        last = {path.name: path.read_bytes() for path in folder.glob("revised*.jsonl")}
        assert last == {path.name: path.read_bytes() for path in (tmp_path / "late").glob("revised*.jsonl")}
    assert len(last) == 3
    (folder / "revised-partner.jsonl").unlink()
    run_on(folder, [late], settings=chosen)
    assert (folder / "revised-partner.jsonl").read_bytes() == last["revised-partner.jsonl"]


def test_corrections_of_counts_whose_noise_steps_share_have_a_noise_vector_of_their_own(
    tmp_path: Path,
) -> None:
    """Its steps still differ as the vector's entries do, and a replay has the same bytes."""
    np.save(tmp_path / "covariance.npy", np.array([[400.0, 399.0], [399.0, 400.0]]))
    shared = {"mechanism": "correlated", "covariance": tmp_path / "covariance.npy"}
    day = whole_day()
    place = day.index(activation(7, *NAMES))
    again = [corrected(step, "A", 10 * step) for step in (4, 5)]  # one window: the same counts again
    chosen = {**declared(tmp_path, 1), "release": shared}
    lines = lines_of([*day[:place], *again, *day[place:]])
    for name in ("out", "again"):
        assert not run_on(tmp_path / name, [lines], settings=chosen).rejected
    assert outputs_of(tmp_path / "out") == outputs_of(tmp_path / "again")
    first = [json_lines(tmp_path / "out" / "releases.jsonl")[step]["releases"][0] for step in (4, 5)]  # type: ignore[index]
    second = revised(tmp_path / "out")
    assert [each["mechanism"] for each in second] == ["correlated"] * 2
    (a, b), (c, d) = ([each["value"] for each in values] for values in (first, second))  # type: ignore[index]
    assert (a, b) != (c, d)
    assert abs((a - b) - (c - d)) < 12, "two entries of one vector differ little"
    assert abs(a - c) > 12


def test_tiers_receive_corrections_each_with_a_chain_of_its_own(tmp_path: Path) -> None:
    """Accounted as two values of the best-informed tier, whoever else receives the count."""
    day, tiers = whole_day(), {"public": 0.2, "partner": 1.0}
    place = day.index(activation(7, *NAMES))
    again = [corrected(step, "A", 10 * step) for step in (4, 5, 6)]
    for name, own in (("both", tiers), ("one", {"partner": 1.0})):
        release = {"mechanism": "tiered", "tiers": own}
        chosen = {**declared(tmp_path / name, 1), "release": release}
        lines = lines_of([*day[:place], *again, *day[place:]])
        report = run_on(tmp_path / name / "out", [lines], settings=chosen)
        assert not report.rejected
    first, *_ = json_lines(tmp_path / "both" / "out" / "releases.jsonl")[4]["releases"]  # type: ignore[misc]
    values = [each["tiers"] for each in revised(tmp_path / "both" / "out")]
    assert len(values) == 3 and all(set(each) == set(tiers) for each in values)  # type: ignore[call-overload]
    assert values[0] != first["tiers"], "the same count again, and another chain"  # type: ignore[index]
    for tier in tiers:
        own_file = json_lines(tmp_path / "both" / "out" / f"revised-{tier}.jsonl")
        assert [line["step"] for line in own_file] == [4, 5, 6]
        assert {each["version"] for line in own_file for each in line["releases"]} == {2}  # type: ignore[attr-defined]
    risks = [(tmp_path / name / "out" / "risks.jsonl").read_bytes() for name in ("both", "one")]
    assert risks[0] == risks[1]
    holding = all_versions([Tiered((("partner", 1.0),))] * 2)
    assert holding.reveal_probability() > Tiered((("partner", 1.0),)).reveal_probability()


@pytest.mark.slow
def test_a_run_that_was_stopped_publishes_what_waited(tmp_path: Path) -> None:
    """What came after the last step was closed waits in the commit for the next one."""
    day, chosen = whole_day(), declared(tmp_path, 0)
    text = lines_of(with_late(day, 2, "A", 4))
    run_on(tmp_path / "whole", [text], settings=chosen)
    lines = text.splitlines(keepends=True)
    for cut in range(1, len(lines), 4):
        folder = tmp_path / str(cut)
        run_on(folder, [b"".join(lines[:cut])], settings=chosen, keep_open=True)
        run_on(folder, [text], settings=chosen)
        assert outputs_of(folder) == outputs_of(tmp_path / "whole")
        assert (folder / REVISED_FILE).read_bytes() == (tmp_path / "whole" / REVISED_FILE).read_bytes()


def test_open_data_hold_late_and_corrected_values(tmp_path: Path) -> None:
    """What was missing stands where it belongs, a correction in a row of its own."""
    day = [*with_late(whole_day(), 2, "A", 4), corrected(7, "B", 71)]
    run_on(tmp_path / "out", [lines_of(day)], settings=declared(tmp_path, 1))
    rows = [row for _, of_day in released_days(tmp_path / "out") for row in of_day]
    assert len(rows) == STEPS * len(NAMES) + 1
    assert all(row.value is not None for row in rows)
    assert [(row.step, row.sensor, row.value) for row in rows if row.version > 1] == [(7, "B", 71)]


def test_the_report_of_a_run_charges_what_its_sensors_declare(tmp_path: Path) -> None:
    """A sensor's epsilon is that of all values of a count, and of all counts of one person."""
    path = tmp_path / "sensors.json"
    rows = [{"name": name, "locations": [index]} for index, name in enumerate(NAMES)]
    epsilon = {}
    for name, more in (
        ("once", {}),
        ("corrected", {"corrections": 1}),
        ("again", {"counts": "passages", "most_counts": 4}),
    ):
        path.write_text(json.dumps({**more, "sensors": rows}))
        chosen = {**LITTLE_WORK, "sensors": path, "release": {"mechanism": "gaussian", "sigma": 4.0}}
        run_on(tmp_path / name, [lines_of(whole_day())], settings=chosen)
        epsilon[name] = read_run(tmp_path / name).sensors[0].epsilon
    assert epsilon["once"] < epsilon["corrected"] < epsilon["again"]
