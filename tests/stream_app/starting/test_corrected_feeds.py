"""Feeds that correct their counts, or whose counters begin again: one value each, never a count too many."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import permutations, product
from pathlib import Path
from typing import Any

import pytest

from stream_app.exceptions import InputError, SettingsError
from stream_app.setup.sections import PayloadSettings
from stream_app.setup.settings import Settings
from stream_app.starting.connect import connectors
from stream_app.starting.connect.intake import Payload, PayloadIntake
from stream_app.starting.connect.journal import MESSAGES, CountJournal, StepCount, StepFold, StepRules
from stream_app.starting.connect.payloads import PayloadMap, SensorCount
from stream_app.starting.connect.sensorthings import observation_map
from tests.stream_app.embedded.test_late import declared, revised
from tests.stream_app.engine_support import NAMES, json_lines, run_on
from tests.stream_app.starting.brokers.sensorthings_service import Datastreams, serving
from tests.stream_app.starting.brokers.test_sensorthings import hours, looked

HOUR = 3600
WORDS = {"raw": 1, "validated": 2}
MAPPING = {
    "sensor": ["s"],
    "start": ["t"],
    "interval_seconds": HOUR,
    "count": ["n"],
    "version": ["quality.state"],
}


def mapped(**more: object) -> PayloadMap:
    return PayloadMap(PayloadSettings.model_validate({**MAPPING, **more}))


def record(step: int, people: int, state: object = None, sensor: str = "A", **more: object) -> dict[str, Any]:
    return {"s": sensor, "t": step * HOUR, "n": people, "quality": {"state": state}, **more}


def test_a_version_is_a_number_or_a_word_and_what_is_provisional_is_left_out() -> None:
    def versions(mapping: PayloadMap, *states: object) -> list[int]:
        return [each.version for state in states for each in mapping.read(record(0, 3, state))]

    assert versions(mapped(), None, 1, "2", 3) == [1, 1, 2, 3]
    assert versions(mapped(versions=WORDS), "raw", "validated") == [1, 2]
    assert versions(mapped(versions={"true": 0, "false": 1}), True, False) == [1]
    for mapping, state in ((mapped(), "raw"), (mapped(), 0), (mapped(versions=WORDS), 2), (mapped(), 1.5)):
        with pytest.raises(InputError, match="must be a version: a number from 1 on, or a word"):
            mapping.read(record(0, 3, state))
    without = mapped(version=[]).read(record(0, 3, 2))
    assert without == [SensorCount("A", 0, HOUR, 3)], "what no mapping names is not read"


def test_a_corrected_sum_has_a_corrected_count_of_each_channel() -> None:
    mapping = mapped(channel="way", channels="sum", versions=WORDS)
    both = [record(0, 3, state, way=way) for state in WORDS for way in ("in", "out")]
    assert [(each.people, each.version) for each in mapping.read(both)] == [(6, 1), (6, 2)]
    with pytest.raises(InputError, match="all channels of an interval must be of one version"):
        mapping.read(both[:3])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"kind": "total"}, "totals must have no version"),
        ({"version": [], "versions": WORDS}, "versions must stand beside version"),
        ({"began": ["boot"]}, 'began must stand beside kind = "total"'),
    ],
)
def test_what_a_mapping_says_of_versions_goes_together(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        mapped(**given)


def test_corrections_must_be_declared_before_any_comes(tmp_path: Path) -> None:
    """Else they would be taken with a 200, and be dead letters of the run."""

    def begin(corrections: int, late: int, **mapping: object) -> object:
        chosen = {**declared(tmp_path, corrections), "late": late}
        (tmp_path / "locations.txt").write_text("\n".join(NAMES))
        receiver = {"token": "a-token-of-some-length", "map": {**MAPPING, **mapping}}
        more = {"locations": tmp_path / "locations.txt", "connect": {"http": receiver}}
        return connectors.http(Settings.model_validate({**chosen, **more}))

    assert begin(1, 3)
    assert begin(0, 0, versions={"provisional": 0, "final": 1})
    for corrections, late in ((0, 3), (1, 0)):
        with pytest.raises(SettingsError, match=r"`version` of \[connect.http.map\].*must be declared"):
            begin(corrections, late)


def test_a_step_is_corrected_once_all_its_parts_are_in_any_order_of_arrival() -> None:
    """Every order of two halves and their corrections: a correction before its count is refused."""
    half = HOUR // 2
    parts = [
        SensorCount("A", at, at + half, 10 * version + at // half, version)
        for at in (0, half)
        for version in (1, 2)
    ]
    for order in permutations(parts):
        fold, taken = StepFold(StepRules(0, HOUR, sums_shorter=True)), []
        for each in order:
            is_early = each.version == 2 and not any(
                other[:3] == each[:3] and other.version == 1 for other, _ in taken
            )
            if is_early:
                with pytest.raises(InputError, match="version 2 of a count must come after version 1"):
                    fold.take([each])
            else:
                taken.append((each, fold.take([each]).whole))
        whole = [step for _, steps in taken for step in steps]
        is_corrected = len(taken) == len(parts)
        assert whole == [StepCount(0, "A", 21), *([StepCount(0, "A", 41, 2)] if is_corrected else [])]


def opened(folder: Path, sensors: Sequence[str] = NAMES) -> CountJournal:
    return CountJournal(folder, StepRules(0, HOUR, sums_shorter=True), sensors, lambda: 1e9)


def payloads(steps: int) -> list[Payload]:
    """Of the first sensor a provisional 0 and then the true count, of all others the count."""
    found = []
    for step in range(steps):
        others = [record(step, 5 + step, sensor=name) for name in NAMES[1:]]
        again = record(step, 99, "validated")  # another count: the first one stands
        sent = [record(step, 0, "raw"), record(step, 10 + step, "validated"), *others, again]
        found += [Payload("", json.dumps(each).encode()) for each in sent]
    return found


def test_the_true_count_after_a_provisional_zero_is_published_as_a_correction(tmp_path: Path) -> None:
    """From payloads to `revised.jsonl`, raw to see it; and the journal is the same after a kill anywhere."""
    steps, folder = 6, tmp_path / "in"
    mapping = mapped(versions={**WORDS, "None": 1})
    with opened(folder) as journal, PayloadIntake(folder, journal, mapping) as intake:
        intake.take(payloads(steps))
        assert (intake.taken, intake.refused) == (steps * (len(NAMES) + 1), 0)
    written = (folder / MESSAGES).read_bytes()
    letters = json_lines(folder / "rejected.jsonl")
    assert {each["reason"] for each in letters} == {"contradicting_reading"}  # type: ignore[index]
    assert len(letters) == steps
    release = {"release": {"mechanism": "raw"}}
    run = run_on(tmp_path / "out", [written], settings={**declared(tmp_path, 1), **release})
    assert not run.rejected
    assert [
        (each["step"], each["sensor"], each["version"], each["value"]) for each in revised(tmp_path / "out")
    ] == [(step, NAMES[0], 2, 10 + step) for step in range(steps)]
    for left in (0, len(written) // 3, len(written) - 7):
        (folder / MESSAGES).write_bytes(written[:left])
        opened(folder).close()
        assert (folder / MESSAGES).read_bytes() == written


def test_a_corrected_observation_is_taken_after_the_first_and_nothing_but_its_version(tmp_path: Path) -> None:
    """Whatever the order, with parameters that say more than was asked for, and a later PATCH."""
    service = Datastreams()
    service.observations["7"] = [
        {"phenomenonTime": at, "result": result, "parameters": {"state": state, "operator": "x"}}
        for (at, _), (state, result) in product(hours(0, [0, 0]), [("validated", 7), ("raw", 0)])
    ]
    values = {"version": ["parameters.state"], "versions": WORDS, "page": 10}
    with serving(service) as url:
        section = {"url": url, "datastreams": {"7": "A"}, **values}
        settings = Settings.model_validate(
            {"origin": "2026-01-01T00:00:00Z", "late": 3, "connect": {"sensorthings": section}}
        )
        found = looked(settings, tmp_path / "read.json")
        service.observations["7"][1]["result"] = 8  # of hour 0, three steps back at most
        again = looked(settings, tmp_path / "read.json")
    mapping = PayloadMap(observation_map(settings.connect.sensorthings))
    counts = [count for each in found for count in mapping.read(json.loads(each.payload), each.topic)]
    assert [(each.people, each.version) for each in counts] == [(0, 1), (7, 2)] * 2
    assert all(json.loads(each.payload).keys() == {"phenomenonTime", "result", "version"} for each in found)
    assert len(again) == len(found), "looks go back as far as a correction may come"


def test_a_counter_that_says_when_it_began_hides_no_reset_by_enumeration() -> None:
    """Every course of three readings: boots before any, gains of 0 to 2, clocks that drift by a second."""
    for gains, boots, drift in product(product(range(3), repeat=2), product((False, True), repeat=2), (0, 1)):
        total, began, people = 1, 0, 0
        counts = [SensorCount("A", None, 0, total, began=began)]
        for number, (gain, boots_now) in enumerate(zip(gains, boots, strict=True), 1):
            at = number * HOUR // 2
            total, began = (gain, at - 600) if boots_now else (total + gain, began + drift)
            people += gain
            counts.append(SensorCount("A", None, at, total, began=began))
        for resets in ("not_counted", "from_zero"):
            rules = StepRules(0, HOUR, tolerance_seconds=1, resets=resets)  # type: ignore[arg-type]
            fold = StepFold(rules)
            whole = [step.people for each in counts for step in fold.take([each]).whole]
            assert whole == ([] if any(boots) and resets == "not_counted" else [people])
    # What the total alone does not show: 5 people after a boot look like 2 more than 3.
    hidden = [SensorCount("A", None, 0, 3), SensorCount("A", None, HOUR, 5)]
    said = [hidden[0]._replace(began=-9000), hidden[1]._replace(began=1200)]
    for counts, people in ((hidden, 2), (said, 5)):
        fold = StepFold(StepRules(0, HOUR, resets="from_zero"))
        assert [step.people for each in counts for step in fold.take([each]).whole] == [people]


def test_totals_of_a_clock_that_drifts_are_of_the_nearest_bound() -> None:
    """Two seconds a report: each is taken at its bound within the tolerance, and none is counted twice."""
    counts = [SensorCount("A", None, step * HOUR + 2 * step, 10 * step) for step in range(20)]
    for tolerance, steps in ((40, 19), (20, 10), (0, 0)):
        fold = StepFold(StepRules(0, HOUR, tolerance_seconds=tolerance))
        whole = [step for each in counts for step in fold.take([each]).whole]
        assert whole == [StepCount(step, "A", 10) for step in range(steps)]


def test_the_time_at_which_a_counter_began_is_read_like_any_other() -> None:
    total = {"kind": "total", "version": [], "end": ["t"], "start": [], "began": ["boot"]}
    mapping = mapped(**total)
    assert mapping.read({**record(2, 5), "boot": "1970-01-01T00:20:00Z"}) == [
        SensorCount("A", None, 2 * HOUR, 5, began=1200)
    ]
    assert mapping.read(record(2, 5))[0].began is None
    sides = [record(2, 5, way=way, boot=boot) for way, boot in (("in", 0), ("out", 60))]
    with pytest.raises(InputError, match="counters that began together"):
        mapped(**total, channel="way", channels="sum").read(sides)
