"""Payloads as vendors document them become counts by a declared mapping; personal data are refused."""

from __future__ import annotations

import json
from copy import deepcopy
from datetime import datetime
from typing import Any

import pytest

from models.exceptions import TallyguardError
from stream_app.exceptions import InputError, SettingsError
from stream_app.setup.sections import PayloadSettings
from stream_app.starting.connect import preset_names, resolved_map
from stream_app.starting.connect.payloads import PayloadMap, SensorCount

MILESIGHT: dict[str, Any] = {
    "event": "Region People Counting",
    "report_type": "interval",
    "device_info": {
        "device": "Workplace Sensor",
        "device_sn": "369362028335",
        "device_mac": "00:16:28:FA:8E:68",
        "ip_address": "192.168.0.99",
    },
    "time_info": {
        "timezone": "UTC+8:00",
        "dst_status": False,
        "start_time": "2022/12/20 18:00:00",
        "end_time": "2022/12/20 19:00:00",
    },
    "current_total": 10,
    "max_counted": 12,
    "total_mapped_regions": 2,
    "numbering_regions": [1, 2],
    "occupancy": [1, 0],
}
OCCUPANCY = {
    "RoiId": 1,
    "CombineObjectTypeId": 1,
    "ObjectCount": 3,
    "Timestamp": 1672889400,
    "LocalTime": "2023-01-05 11:30:00",
    "UTCTime": "2023-01-05 03:30:00",
    "OccupancyTypeId": 1,
    "ObjectCountUnit": 1,
    "CameraSerial": "100000008c76409d",
}
PERSON = {
    "CombineObjectTypeId": 11,
    "EventEndTime": 1669351669,
    "EventStartTime": 1669351669,
    "EventStartUTCTime": "2022-11-25 04:47:49",
    "MetricId": 2,
    "PeopleId": 1,
    "PeopleTypeId": 1,
    "RoiId": 1,
    "CameraSerial": "000000007b77a260",
}
ENTITY: dict[str, Any] = {
    "id": "urn:ngsi-ld:CrowdFlowObserved:Valladolid_1",
    "type": "CrowdFlowObserved",
    "dateObservedFrom": {
        "type": "Property",
        "value": {"@type": "DateTime", "@value": "2018-08-07T11:10:00Z"},
    },
    "dateObservedTo": {"type": "Property", "value": {"@type": "DateTime", "@value": "2018-08-07T11:15:00Z"}},
    "direction": {"type": "Property", "value": "inbound"},
    "peopleCount": {"type": "Property", "value": 100},
}
PLAIN = {"sensor": ["s"], "start": ["t"], "interval_seconds": 60, "count": ["n"]}


def by_preset(name: str, **more: object) -> PayloadMap:
    given = PayloadSettings.model_validate({"preset": name, **more})
    return PayloadMap(resolved_map(given))


def plain(**more: object) -> PayloadMap:
    return PayloadMap(PayloadSettings.model_validate({**PLAIN, **more}))


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def test_every_preset_of_payloads_is_tested_here_and_says_what_it_is_for() -> None:
    assert preset_names(PayloadSettings).keys() == {
        *("milesight", "milesight-lines", "footfallcam", "ngsi-ld", "sensorthings"),
        *("vergesense", "butlr", "density"),
    }
    assert all(preset_names(PayloadSettings).values())


@pytest.mark.parametrize(("summer", "hour"), [(False, "10:00"), (True, "09:00")])
def test_milesight_reports_are_of_the_devices_own_clock(summer: bool, hour: str) -> None:
    """The clock is the offset's, and an hour ahead of it while dst_status says so."""
    report = deepcopy(MILESIGHT)
    report["time_info"]["dst_status"] = summer
    start = at(f"2022-12-20T{hour}Z")
    assert by_preset("milesight").read(report) == [SensorCount("369362028335", start, start + 3600, 10)]


def test_milesights_lines_are_periods_or_totals_since_the_device_was_reset() -> None:
    """As ChirpStack decodes them; a little after the hour, so a tolerance is declared."""
    report = {
        "devEUI": "24e124aabbccddee",
        "deviceName": "mill street door",
        "time": "2025-06-02T08:00:04Z",
        "object": {
            **{"line_1_total_in": 72, "line_1_total_out": 200},
            **{"line_1_period_in": 5, "line_1_period_out": 7},
        },
    }
    end = at("2025-06-02T08:00:04Z")
    mapped = by_preset("milesight-lines", interval_seconds=3600)
    assert mapped.read(report) == [SensorCount("mill street door", end - 3600, end, 12)]
    totals = {"count": ["object.line_1_total_in"], "count_more": ["object.line_1_total_out"]}
    since = by_preset("milesight-lines", kind="total", **totals)
    assert since.read(report) == [SensorCount("mill street door", None, end, 272)]


def test_a_counters_own_address_may_be_declared_and_an_image_never() -> None:
    with pytest.raises(InputError, match=r"images: 'snapshot'.*no image is stored"):
        by_preset("milesight").read({**MILESIGHT, "snapshot": "/9j/4AAQSkZJRg"})
    with pytest.raises(InputError, match="addresses of devices: 'device_mac'"):
        by_preset("milesight", own_addresses=()).read(MILESIGHT)
    with pytest.raises(SettingsError, match="fields of addresses"):
        by_preset("milesight", own_addresses=["snapshot"])
    report = {**MILESIGHT, "seen": [{"device_mac": "aa"}]}
    with pytest.raises(InputError, match="addresses of devices"):
        by_preset("milesight").read(report)


def test_a_trigger_without_an_interval_is_no_count_of_one() -> None:
    report = deepcopy(MILESIGHT)
    report["time_info"] = {"timezone": "UTC+8:00", "dst_status": False, "time": "2022/12/20 18:15:52"}
    with pytest.raises(InputError, match="must have an interval"):
        by_preset("milesight").read(report)


def test_footfallcams_regions_count_and_its_events_of_single_people_are_refused() -> None:
    mapped = by_preset("footfallcam", interval_seconds=900, names={"100000008c76409d/1": "hall"})
    assert mapped.read(OCCUPANCY) == [SensorCount("hall", 1672889400 - 900, 1672889400, 3)]
    with pytest.raises(InputError, match=r"events of single people: 'PeopleId'.*in memory"):
        mapped.read(PERSON)
    with pytest.raises(InputError, match="set interval_seconds"):
        by_preset("footfallcam").read(OCCUPANCY)


SPACE = {
    "building_ref_id": "HQ",
    "floor_ref_id": "02",
    "space_ref_id": "02-103",
    "space_id": 10,
    "sensor_ids": ["VS0-123"],
    "event_type": "space_report",
    "timestamp": "2024-03-04T09:15:00Z",
    "person_count": 2,
    "signs_of_life": None,
    "motion_detected": True,
    "people": {"count": 2, "coordinates": [[0.5, 1.5], [2.0, 3.5]]},
}
ROOM = {
    "id": "event_2oUBiSXgx48RtbZKXHm5ekpAzFe",
    "type": "ROOM_OCCUPANCY",
    "timestamp": 1727735820000,
    "version": "v1.0.0",
    "metadata": {
        "org_id": "org_2oUBi",
        "floor_id": "space_2oU",
        "room_id": "room_2oUDD",
        "room_name": "Cherry",
    },
    "data": 4,
}
SPACES = {
    "update_type": "refresh",
    "data": {
        "spc_12345": {
            "timestamp": "2023-12-01T03:09:00Z",
            "occupancy": 0,
            "counting_mode": "entry",
            "space_health_status": "healthy",
        },
        "spc_1678910": {
            "timestamp": "2023-12-01T03:09:00Z",
            "occupancy": 1,
            "counting_mode": "entry",
            "space_health_status": "healthy",
        },
    },
}


def test_rooms_are_counted_as_their_vendors_say_it() -> None:
    """VergeSense's report, Butlr's event and Density's refresh stand for the interval that ends with them."""
    end = at("2024-03-04T09:15Z")
    mapped = by_preset("vergesense", interval_seconds=900, names={"02-103": "board room"})
    assert mapped.read(SPACE) == [SensorCount("board room", end - 900, end, 2)]
    assert by_preset("butlr").read(ROOM) == [SensorCount("room_2oUDD", 1727735760, 1727735820, 4)]
    own = {**ROOM, "metadata": {**ROOM["metadata"], "room_custom_id": "2.01"}}  # type: ignore[dict-item]
    assert by_preset("butlr").read(own)[0].sensor == "2.01"
    end = at("2023-12-01T03:09Z")
    assert by_preset("density", interval_seconds=60).read(SPACES) == [
        SensorCount("spc_12345", end - 60, end, 0),
        SensorCount("spc_1678910", end - 60, end, 1),
    ]


def test_where_single_people_are_is_no_count_of_a_room() -> None:
    """Butlr's detections have coordinates instead of a number; presence alone is no count."""
    detections = {**ROOM, "type": "DETECTIONS", "data": {"local": [[0.5625, 0.125]], "world": [[85.7, 27.8]]}}
    with pytest.raises(InputError, match="a count must be a number"):
        by_preset("butlr").read(detections)
    presence = {"data": {"spc_1": {"timestamp": "2023-12-01T03:09:00Z", "presence": True}}}
    with pytest.raises(InputError, match="must have its count at occupancy"):
        by_preset("density", interval_seconds=60).read(presence)


def test_an_observation_counts_for_the_datastream_in_its_topic() -> None:
    """As FROST sends it on MQTT, links included; a result that is null was not counted."""
    mapped = by_preset("sensorthings", names={"7": "mill"})
    sent = {
        **{"@iot.id": 9, "@iot.selfLink": "http://x/v1.1/Observations(9)", "resultTime": None, "result": 41},
        "phenomenonTime": "2026-01-01T12:00:00Z/2026-01-01T13:00:00Z",
        "Datastream@iot.navigationLink": "http://x/v1.1/Observations(9)/Datastream",
    }
    start = at("2026-01-01T12:00Z")
    topic = "v1.1/Datastreams(7)/Observations"
    assert mapped.read(sent, topic) == [SensorCount("mill", start, start + 3600, 41)]
    assert mapped.read(sent | {"result": None}, topic) == []
    with pytest.raises(InputError, match="a topic must have the form v1"):
        mapped.read(sent, "v1.1/Observations")
    with pytest.raises(InputError, match="must have an interval"):
        mapped.read(sent | {"phenomenonTime": "2026-01-01T12:00:00Z"}, topic)


def test_ngsi_ld_notifications_count_in_every_form_an_entity_may_have() -> None:
    wanted = [SensorCount("Valladolid_1", at("2018-08-07T11:10Z"), at("2018-08-07T11:15Z"), 100)]
    simple = {
        "id": ENTITY["id"],
        "dateObservedFrom": "2018-08-07T11:10:00Z",
        "dateObservedTo": "2018-08-07T11:15:00Z",
        "peopleCount": 100,
    }
    concise = {key: value if key == "id" else {"value": value} for key, value in simple.items()}
    for entity in (ENTITY, simple, concise):
        notification = {
            "id": "urn:ngsi-ld:Notification:1",
            "type": "Notification",
            "subscriptionId": "urn:ngsi-ld:Subscription:1",
            "notifiedAt": "2018-08-07T11:15:02Z",
            "data": [entity],
        }
        assert by_preset("ngsi-ld").read(json.loads(json.dumps(notification))) == wanted


def test_a_topic_may_name_the_sensor() -> None:
    mapped = plain(sensor=[], topic="city/{sensor}/counts")
    assert mapped.read({"t": 60, "n": 1}, "city/gate/counts")[0].sensor == "gate"
    for topic in ("city/a/b/counts", "town/gate/counts", None):
        with pytest.raises(InputError, match="must have the form"):
            mapped.read({"t": 60, "n": 1}, topic)


def test_channels_are_summed_or_apart_by_declaration_and_a_sum_lacks_none() -> None:
    lines = [{"s": "a", "t": 60, "line": 1, "n": 2}, {"s": "a", "t": 60, "line": 2, "n": 3}]
    with pytest.raises(InputError, match="declared what several channels"):
        plain(channel="line").read(lines)
    assert plain(channel="line", channels="sum").read(lines) == [SensorCount("a", 60, 120, 5)]
    apart = plain(channel="line", channels="apart").read(lines)
    assert [each.sensor for each in apart] == ["a/1", "a/2"]
    lines[1]["n"] = None
    assert plain(channel="line", channels="sum").read(lines) == []
    with pytest.raises(InputError, match="counted once in an interval"):
        plain(channels="sum").read(lines)


def test_in_and_out_are_added_where_both_were_counted() -> None:
    mapped = plain(count=["in"], count_more=["out"])
    record = {"s": "a", "t": 60, "in": 2, "out": 3}
    assert mapped.read(record)[0].people == 5
    assert mapped.read({**record, "out": None}) == []
    with pytest.raises(InputError, match="count at out"):
        mapped.read({"s": "a", "t": 60, "in": 2})


@pytest.mark.parametrize("count", [True, "many", -1, [], {}, 1e300, float("nan"), float("inf"), 2.5, "-1"])
def test_what_is_no_count_is_refused_and_not_quoted(count: object) -> None:
    with pytest.raises(InputError) as raised:
        plain().read({"s": "a", "t": 60, "n": count})
    assert str(count) not in str(raised.value)


def test_null_is_not_counted_and_decimals_are_rounded_by_declaration() -> None:
    assert plain().read({"s": "a", "t": 60, "n": None}) == []
    assert plain().read({"s": "a", "t": 60, "n": 0})[0].people == 0
    assert plain(decimals="round", largest_factor=1.0).read({"s": "a", "t": 60, "n": 2.6})[0].people == 3
    assert plain().read({"s": "a", "t": 60, "n": "12"})[0].people == 12


@pytest.mark.parametrize(
    ("time", "more"),
    [
        ("2026-10-25T02:30:00", {"timezone": "Europe/Vienna"}),
        ("2026-03-29T02:30:00", {"timezone": "Europe/Vienna", "ambiguous": "earlier"}),
        ("2026-01-01T00:00:00", {}),
        (60_000_000_000_000, {}),
        (-1, {}),
        (60.5, {}),
        ("soon", {}),
        (True, {}),
        (None, {}),
        ("2026-01-01T00:00:00", {"offset": "zone"}),
    ],
)
def test_a_time_that_is_no_instant_is_refused(time: object, more: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"time|offset"):
        plain(**more).read({"s": "a", "t": time, "n": 1, "zone": "far away"})


def test_an_hour_that_comes_twice_is_decided_by_declaration() -> None:
    record = {"s": "a", "t": "2026-10-25T02:30:00", "n": 1}
    early, late = (
        plain(timezone="Europe/Vienna", ambiguous=which).read(record)[0].start
        for which in ("earlier", "later")
    )
    assert (early, late) == (at("2026-10-25T00:30Z"), at("2026-10-25T01:30Z"))
    assert plain(time_unit="milliseconds").read({"s": "a", "t": 60_000, "n": 1})[0].start == 60


def test_an_hour_in_which_the_counter_did_not_work_is_not_counted() -> None:
    """A camera that was off counts zero people, which is no count; Telraam says so by ``uptime``."""
    record = {"id": "a", "t": "2026-01-01T00:00:00Z", "n": 0, "uptime": 0}
    records = [record, {**record, "id": "b", "n": 7, "uptime": 0.75}, {**record, "id": "c", "uptime": 1}]
    mapping = {"sensor": "id", "start": "t", "count": "n", "interval_seconds": 3600}
    with pytest.raises(InputError, match="it must be declared what the uptime of a record means"):
        PayloadMap(PayloadSettings.model_validate(mapping)).read(records)
    read = PayloadMap(PayloadSettings.model_validate({**mapping, "uptime": "uptime"})).read
    assert [(each.sensor, each.people) for each in read(records)] == [("b", 7), ("c", 0)]
    with pytest.raises(InputError, match="uptime must be a share from 0 to 1, got something else"):
        read([{**record, "uptime": 17}])
    since_boot = [{**record, "uptime": 90_000}]  # seconds, as others write it
    assert PayloadMap(PayloadSettings.model_validate(mapping)).read(since_boot)[0].people == 0


def test_iso_intervals_and_totals() -> None:
    record = {"s": "a", "when": "2026-01-01T00:00:00Z/2026-01-01T01:00:00Z", "n": 4}
    start = at("2026-01-01T00:00Z")
    mapped = plain(start=[], interval="when", interval_seconds=None)
    assert mapped.read(record) == [SensorCount("a", start, start + 3600, 4)]
    total = plain(kind="total", start=[], end=["t"])
    assert total.read({"s": "a", "t": 60, "n": 4}) == [SensorCount("a", None, 60, 4)]


@pytest.mark.parametrize("payload", [None, 3, "x", [3], [[]], {"s": {}}, {}, [{}], {"s": "a", "t": 1}])
def test_any_json_is_read_or_refused_with_a_sentence(payload: object) -> None:
    with pytest.raises(TallyguardError, match="; "):
        plain().read(payload)


@pytest.mark.parametrize(
    "wrong",
    [
        {"count": []},
        {"start": []},
        {"sensor": []},
        {"sensor": ["a..b"]},
        {"sensor": ["$"]},
        {"sensor_pattern": "(a"},
        {"sensor_pattern": "a+"},
        {"sensor": [], "topic": "city/counts"},
        {"daylight": "x"},
    ],
)
def test_a_mapping_that_leaves_something_open_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        plain(**wrong)


@pytest.mark.parametrize("last", ["00:59:59.999Z", "00:59:59.999999Z", "00:59:59Z", "01:59:59.999+01:00"])
def test_an_end_may_be_the_last_millisecond_of_its_interval(last: str) -> None:
    """It is the last second, as the journal knows it; a start, or another part of a second, is none."""
    mapping = plain(interval="at", count="n")
    found = mapping.read({"s": "a", "at": f"2026-01-01T00:00:00.000Z/2026-01-01T{last}", "n": 5})
    assert found[0].end == at("2026-01-01T00:59:59Z")
    for wrong in ("00:00:00.999Z/2026-01-01T01:00:00Z", "00:00:00Z/2026-01-01T00:59:59.500Z"):
        with pytest.raises(InputError, match="whole second"):
            mapping.read({"s": "a", "at": f"2026-01-01T{wrong}", "n": 5})
    with pytest.raises(InputError, match="whole second"):
        plain(interval="at", count="n", ends="exclusive").read(
            {"s": "a", "at": "2026-01-01T00:00:00Z/2026-01-01T00:59:59.999Z", "n": 5}
        )


@pytest.mark.parametrize(
    ("time", "more"),
    [
        ("2026-01-01t00:00:00z", {}),
        ("2026-01-01T00:00:00.0000000Z", {}),
        ("2026-01-01 00:00:00 +0000", {}),
        ("2026-01-01T01:00:00+01:00[Europe/Paris]", {}),
        ("2026-01-01T00:00Z[UTC]", {}),
        ("2025-12-31T24:00:00Z", {}),
        ("2025-12-31T24:00:00.000Z", {}),
        ("2025-12-31 24:00", {"timezone": "UTC"}),
        ("1767225600", {}),
        ("1767225600000", {"time_unit": "milliseconds"}),
    ],
)
def test_a_time_may_be_written_in_many_ways(time: str, more: dict[str, object]) -> None:
    """Small letters, ten-millionths, Java's zones, the end of a day, numbers in quotes: one instant."""
    assert plain(**more).read({"s": "a", "t": time, "n": 1})[0].start == at("2026-01-01T00:00Z")


@pytest.mark.parametrize("time", ["2025-12-31T24:00:01Z", "2025-12-31T24:30:00Z", "20260101000000", "25:00"])
def test_what_is_no_time_of_day_is_refused(time: str) -> None:
    """Nothing is later than the end of a day, and fourteen digits are no seconds."""
    with pytest.raises(InputError):
        plain(timezone="UTC").read({"s": "a", "t": time, "n": 1})


def test_ngsi_lds_null_is_not_counted() -> None:
    """A context broker cannot send null: it has a word for it."""
    assert plain().read({"s": "a", "t": 60, "n": "urn:ngsi-ld:null"}) == []


def test_an_interval_may_have_a_duration() -> None:
    """One of both ends; months have no length, and nothing lasts nothing."""
    mapping = plain(interval="at", start=[], interval_seconds=None)
    first, last = at("2026-01-01T00:00Z"), at("2026-01-01T01:00Z")
    for text in ("2026-01-01T00:00:00Z/PT1H", "PT60M/2026-01-01T01:00:00Z", "2026-01-01T00:00:00Z/PT3600.0S"):
        assert mapping.read({"s": "a", "at": text, "n": 1}) == [SensorCount("a", first, last, 1)]
    for text in (
        "2026-01-01T00:00:00Z/P1M",
        "2026-01-01T00:00:00Z/PT0S",
        "2026-01-01T00:00:00Z/..",
        "PT1H/PT1H",
    ):
        with pytest.raises(InputError):
            mapping.read({"s": "a", "at": text, "n": 1})
