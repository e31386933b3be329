"""SensorThings in and out: a conversation recorded with a real FROST server, and where things fail."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from stream_app.exceptions import PeerError, SettingsError
from stream_app.setup.sections import SensorThingsSettings
from stream_app.setup.settings import Settings
from stream_app.starting.connect import sensorthings
from stream_app.starting.connect.intake import Payload
from stream_app.starting.connect.sensorthings import (
    ObservationReader,
    ObservationWriter,
    PhenomenonTime,
    SensorThings,
    entity,
)
from stream_app.steps import Total, TotalsWithReleases
from tests.stream_app.starting.brokers.mosquitto import certificates
from tests.stream_app.starting.brokers.run_folder import add_late, add_steps, noised, run_folder
from tests.stream_app.starting.brokers.sensorthings_service import (
    RECORDED,
    ROOT,
    Datastreams,
    Recorded,
    serving,
)

RECORDING = json.loads(RECORDED.read_text())
SOURCE, OWN = RECORDING["datastreams"]["in"], RECORDING["datastreams"]["out"]
FUTURE = {"phenomenonTime": "2099-01-01T00:00:00Z/2099-01-01T01:00:00Z", "result": 1}
VALUES = (14, 0, 2, 40)


def settings_for(url: str, **given: object) -> Settings:
    """A deployment of hourly steps from the first of January on."""
    values = {"url": url, "page": 3, "interval_seconds": 3600, **given}
    return Settings.model_validate({"origin": "2026-01-01T00:00:00Z", "connect": {"sensorthings": values}})


def looked(settings: Settings, place: Path) -> list[Payload]:
    """What one look of a new process takes."""
    found: list[Payload] = []

    async def look() -> None:
        async with SensorThings(settings.connect.sensorthings) as service:
            await ObservationReader(service, settings, found.extend, place).look()

    asyncio.run(look())
    return found


def written(settings: Settings, run: Path, place: Path | None = None) -> None:
    """A new process writes all that is released."""

    async def write() -> None:
        async with SensorThings(settings.connect.sensorthings) as service:
            writer = ObservationWriter(service, settings.connect.sensorthings, run, place)
            while await writer.write(2):
                pass

    asyncio.run(write())


def spoken(observed: list[Payload]) -> list[tuple[str, Any]]:
    """Interval and result of each."""
    documents = [json.loads(each.payload) for each in observed]
    return [(each["phenomenonTime"], each["result"]) for each in documents]


def hours(first: int, results: list[int]) -> list[tuple[str, Any]]:
    """Whole hours of the first of January with these results."""
    return [
        (f"2026-01-01T{hour:02d}:00:00Z/2026-01-01T{hour + 1:02d}:00:00Z", result)
        for hour, result in enumerate(results, first)
    ]


def hourly(first: int, results: list[int]) -> list[dict[str, Any]]:
    """The same as Observations."""
    return [{"phenomenonTime": at, "result": result} for at, result in hours(first, results)]


def test_a_certificate_that_nobody_vouches_for_is_told_from_a_network_that_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensorthings, "_TRIES", 1)
    _, certificate, key = certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)

        def greet() -> None:
            with suppress(OSError), context.wrap_socket(listening.accept()[0], server_side=True):
                pass

        service = threading.Thread(target=greet)
        service.start()
        url = f"https://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(PeerError, match=r"certificate verify failed.*in ca_file"):
            looked(settings_for(url, datastreams={"1": "a"}), tmp_path / "place.json")
        service.join(20)


def test_a_username_with_a_colon_is_refused_where_settings_are_read() -> None:
    """The service would take what follows for the password."""
    with pytest.raises(ValueError, match="must have no colon"):
        settings_for("https://here", username="ada:eve", password="secret")


@pytest.mark.parametrize(
    "login",
    [
        {"username": "ada", "password": "secret"},
        {"username": "ada", "password": "pässwört €"},
        {"token": "a token of some length"},
    ],
)
def test_a_login_stays_with_its_service_when_that_redirects(tmp_path: Path, login: dict[str, str]) -> None:
    """The other address is asked without it, and may answer."""
    here, there = Datastreams(), Datastreams()
    here.observations["1"] = []
    there.observations["1"] = [{"phenomenonTime": "2026-01-01T00:00:00Z/2026-01-01T01:00:00Z", "result": 3}]
    with serving(here) as url, serving(there) as other:
        here.failures = [307]
        query = "$orderby=phenomenonTime%20asc&$top=3&$select=phenomenonTime,result"
        here.failure_headers = {"Location": f"{other}/Datastreams(1)/Observations?{query}"}
        found = looked(settings_for(url, datastreams={"1": "a"}, **login), tmp_path / "place.json")
    assert spoken(found) == hours(0, [3])
    assert all(here.headers)
    assert there.headers == [None]


def test_frost_is_read_page_by_page_and_resumed(tmp_path: Path) -> None:
    """Real answers: three pages by link, an empty result is not counted, an instant gets its end as declared.

    A second process asks from three steps (grace and one) before the last interval on.
    """
    place = tmp_path / "read.json"
    first, second = Recorded("first look"), Recorded("look after a restart")
    with serving(first) as url:
        found = looked(settings_for(url, datastreams={SOURCE: "mill"}), place)
    assert first.is_over, first.unexpected
    last = ("2026-01-01T08:00:00.000Z/2026-01-01T09:00:00.000Z", 91)
    assert spoken(found) == [*hours(0, [12, 0, 3, 41, 118, 260, 77]), last]
    assert {each.topic for each in found} == {f"v1.1/Datastreams({SOURCE})/Observations"}
    with serving(second) as url:
        again = looked(settings_for(url, datastreams={SOURCE: "mill"}), place)
    assert second.is_over, second.unexpected
    assert spoken(again) == spoken(found)[5:]


def test_frost_gets_releases_once_and_gives_them_back(tmp_path: Path) -> None:
    """What is written has sigma and mechanism; a restart writes nothing twice; our reader reads it back."""
    run = run_folder(tmp_path / "run")
    add_steps(run, 0, VALUES)
    for part in ("releases written", "restart of the writer"):
        conversation = Recorded(part)
        with serving(conversation) as url:
            written(settings_for(url, releases={"mill": OWN}), run)
        assert conversation.is_over, conversation.unexpected
    bodies = [each["body"] for each in RECORDING["parts"]["releases written"] if each["body"]]
    noise = {"mechanism": "gaussian", "sigma": 1.5, "confidence": 0.95}
    assert [each["resultQuality"] for each in bodies] == [
        {**noise, "low": max(0, value - 3), "high": value + 3} for value in VALUES
    ]
    back = Recorded("releases read back")
    with serving(back) as url:
        found = looked(settings_for(url, datastreams={OWN: "mill"}), tmp_path / "read.json")
    assert back.is_over, back.unexpected
    assert spoken(found) == hours(0, list(VALUES))


def test_an_unknown_datastream_is_named(tmp_path: Path) -> None:
    """FROST's 404 becomes a sentence."""
    conversation = Recorded("unknown datastream")
    with serving(conversation) as url, pytest.raises(PeerError, match=r"Datastreams\(999\).*status 404"):
        looked(settings_for(url, datastreams={"999": "mill"}), tmp_path / "read.json")
    assert conversation.is_over, conversation.unexpected


def test_a_look_that_broke_off_goes_on_behind_the_last_page(tmp_path: Path) -> None:
    """The second page fails for good: the first is taken, and the next process begins behind it."""
    service, place = Datastreams(), tmp_path / "read.json"
    service.observations["7"] = hourly(0, list(range(8)))
    service.failures = [0, 403]
    service.failures[0] = "kept"
    with serving(service) as url:
        settings = settings_for(url, datastreams={"7": "mill"}, look_back_seconds=0)
        with pytest.raises(PeerError, match="status 403; check username"):
            looked(settings, place)
        assert spoken(looked(settings, place)) == hours(2, list(range(2, 8)))


def test_several_datastreams_come_in_the_order_of_their_hours(tmp_path: Path) -> None:
    """Pages of three are taken hour by hour: no sensor is read to its end before the next begins."""
    service = Datastreams()
    service.observations = {"7": hourly(0, [1] * 8), "8": hourly(1, [2] * 9), "9": []}
    with serving(service) as url:
        settings = settings_for(url, datastreams={"7": "mill", "8": "port", "9": "park"})
        found = spoken(looked(settings, tmp_path / "read.json"))
    assert found == sorted(hours(0, [1] * 8) + hours(1, [2] * 9))


def test_what_comes_late_is_found_within_the_look_back(tmp_path: Path) -> None:
    """An Observation of an earlier hour is added after a look: the next look finds it."""
    service, place = Datastreams(), tmp_path / "read.json"
    service.observations["7"] = hourly(0, [1]) + hourly(2, [3])
    with serving(service) as url:
        settings = settings_for(url, datastreams={"7": "mill"})
        looked(settings, place)
        service.observations["7"] += hourly(1, [2])
        assert spoken(looked(settings, place)) == hours(0, [1, 2, 3])


def test_a_service_that_is_not_itself_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two answers of a gateway, then the right one."""
    monkeypatch.setattr("stream_app.starting.connect.sensorthings._FIRST_PAUSE", 0.01)
    service = Datastreams()
    service.observations["7"] = hourly(0, [5])
    service.failures = [502, 503]
    with serving(service) as url:
        settings = settings_for(url, datastreams={"7": "mill"})
        assert spoken(looked(settings, tmp_path / "read.json")) == hours(0, [5])


def test_an_answer_that_is_lost_writes_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service keeps an Observation and its answer never comes: it is asked, and the next step follows.

    An Observation that it did not keep is sent again.
    """
    monkeypatch.setattr("stream_app.starting.connect.sensorthings._PAUSE_SECONDS", 0.01)
    service, run = Datastreams(), run_folder(tmp_path / "run")
    add_steps(run, 0, VALUES)
    service.observations["9"] = []
    service.failures = ["kept", "lost", "kept", 503]
    with serving(service) as url:
        written(settings_for(url, releases={"mill": "9"}), run)
        add_steps(run, len(VALUES), (7,))
        written(settings_for(url, releases={"mill": "9"}), run)
    assert [each["result"] for each in service.observations["9"]] == [*VALUES, 7]


def test_a_total_that_the_service_refuses_waits_with_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Totals are handed out with their step once: what is refused of them is sent by the next attempt."""
    of = ("hour by sensor", "mill", 0, 0, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z")
    totals = {0: [Total(*of, cells=1, of=1, value=14, people=14, sigma=None, low=None, high=None)]}
    monkeypatch.setattr(TotalsWithReleases, "with_step", lambda self, step: totals.pop(step, []))
    service, run = Datastreams(), run_folder(tmp_path / "run")
    add_steps(run, 0, VALUES)
    service.observations.update({"9": [], "8": []})
    service.failures = ["kept", "kept", "kept", 403]

    async def write(settings: SensorThingsSettings) -> None:
        async with SensorThings(settings) as there:
            writer = ObservationWriter(there, settings, run)
            with pytest.raises(PeerError, match="status 403"):
                await writer.write(9)
            await writer.write(9)

    with serving(service) as url:
        given = {"releases": {"mill": "9"}, "totals": {"hour by sensor/mill": "8"}}
        asyncio.run(write(settings_for(url, **given).connect.sensorthings))
    assert [each["result"] for each in service.observations["9"]] == [*VALUES]
    assert [each["result"] for each in service.observations["8"]] == [14]


def test_an_observation_of_the_future_holds_back_no_release(tmp_path: Path) -> None:
    """A tester's Observation of 2099 in our own datastream: every release is written all the same, once."""
    service, run = Datastreams(), run_folder(tmp_path / "run")
    add_steps(run, 0, VALUES)
    service.observations["9"] = [dict(FUTURE)]
    with serving(service) as url:
        settings = settings_for(url, releases={"mill": "9"})
        for place in (None, tmp_path / "place.json", tmp_path / "place.json"):
            written(settings, run, place)
        add_steps(run, len(VALUES), (7,))
        written(settings, run, tmp_path / "place.json")
    assert [each["result"] for each in service.observations["9"]] == [1, *VALUES, 7]


def test_late_and_corrected_values_are_written_once(tmp_path: Path) -> None:
    """What a run publishes of closed steps is written too: a late value, and each version of a corrected one.

    A restart, with its place or without, writes none of them twice; values that are equal are told apart.
    """
    service, run, place = Datastreams(), run_folder(tmp_path / "run"), tmp_path / "place.json"
    add_steps(run, 0, (1, 2, 3))
    add_late(run, 1, {**noised("mill", 5), "version": 2})
    add_late(run, 0, {**noised("mill", 8), "version": 2}, noised("port", 6))
    service.observations.update({"9": [], "8": []})
    with serving(service) as url:
        settings = settings_for(url, releases={"mill": "9", "port": "8"})
        for kept in (place, place, None):
            written(settings, run, kept)
        add_late(run, 1, {**noised("mill", 2), "version": 3})
        for kept in (place, None):
            written(settings, run, kept)
    found = [(each["parameters"]["step"], each["result"]) for each in service.observations["9"]]
    assert found == [(0, 1), (1, 2), (2, 3), (1, 5), (0, 8), (1, 2)]
    assert [each["parameters"].get("version") for each in service.observations["9"]] == [*[None] * 3, 2, 2, 3]
    assert [(each["parameters"]["step"], each["result"]) for each in service.observations["8"]] == [(0, 6)]


def test_the_answer_to_a_late_value_may_be_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The datastream has later intervals; whether this one is there is asked, not guessed of the last."""
    monkeypatch.setattr("stream_app.starting.connect.sensorthings._PAUSE_SECONDS", 0.01)
    for lost in ("lost", 503):
        service, run = Datastreams(), run_folder(tmp_path / f"run-{lost}")
        add_steps(run, 0, (1, 2))
        add_late(run, 0, {**noised("mill", 9), "version": 2})
        service.observations["9"] = []
        service.failures = ["kept", "kept", "kept", "kept", lost]
        with serving(service) as url:
            written(settings_for(url, releases={"mill": "9"}), run)
        assert [each["result"] for each in service.observations["9"]] == [1, 2, 9]


def test_an_observation_of_the_future_stops_no_reading(tmp_path: Path) -> None:
    """A clock gone wrong once: what comes after it, of today, is still read at the next looks."""
    service, place = Datastreams(), tmp_path / "read.json"
    service.observations["7"] = [*hourly(0, [1, 2]), dict(FUTURE)]
    with serving(service) as url:
        settings = settings_for(url, datastreams={"7": "mill"})
        looked(settings, place)
        service.observations["7"] += hourly(2, [3])
        assert hours(2, [3])[0] in spoken(looked(settings, place))


def test_a_service_may_give_no_links_zip_and_answer_200(tmp_path: Path) -> None:
    """Without links the pages are asked for by $skip; a creation is one by any status of success."""
    service, run = Datastreams(), run_folder(tmp_path / "run")
    service.gives_links, service.zips, service.created = False, True, 200
    service.observations.update({"7": hourly(0, list(range(9))), "9": []})
    add_steps(run, 0, VALUES)
    with serving(service) as url:
        settings = settings_for(url, datastreams={"7": "mill"}, releases={"mill": "9"})
        assert spoken(looked(settings, tmp_path / "read.json")) == hours(0, list(range(9)))
        for _ in range(2):  # the second time all of it is there
            written(settings, run)
    assert [each["result"] for each in service.observations["9"]] == list(VALUES)


def test_an_order_that_is_not_ours_loses_nothing(tmp_path: Path) -> None:
    """The newest first, whatever we ask for, and an end between two pages: the next process has all of it."""
    service, place = Datastreams(), tmp_path / "read.json"
    service.keeps_order = False
    service.observations["7"] = hourly(0, list(range(8)))[::-1]
    service.failures = ["kept", "kept", 403]
    with serving(service) as url:
        settings = settings_for(url, datastreams={"7": "mill"}, look_back_seconds=0)
        with pytest.raises(PeerError, match="status 403"):
            looked(settings, place)
        assert sorted(spoken(looked(settings, place))) == hours(0, list(range(8)))


def test_links_of_a_service_behind_a_proxy_are_asked_for_here_by_declaration(tmp_path: Path) -> None:
    """The service names an address that nobody here reaches; our login goes to our own root only."""
    service = Datastreams()
    service.observations["7"] = hourly(0, [1, 2, 3, 4])
    with serving(service) as url:
        query = "$orderby=phenomenonTime%20asc&$top=3&$skip=3&$select=phenomenonTime,result"
        service.link_to = f"http://frost.internal:8080/other/v1.1/Datastreams(7)/Observations?{query}"
        given = {"datastreams": {"7": "mill"}, "token": "secret of ours"}
        with pytest.raises(PeerError, match='links = "here"'):
            looked(settings_for(url, **given), tmp_path / "read.json")
        found = looked(settings_for(url, links="here", **given), tmp_path / "other.json")
    assert spoken(found) == hours(0, [1, 2, 3, 4])


@pytest.mark.parametrize(
    "retry_after",
    ["0.3", "Thu, 01 Jan 1970 00:00:00 GMT", "soon", "-1", "nan", "Wed, 21 Oct 99999999999 07:28:00 GMT", ""],
)
def test_a_service_that_asks_to_wait_is_given_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, retry_after: str
) -> None:
    """429 with ``Retry-After``, seconds or a date; what is none of them changes nothing."""
    monkeypatch.setattr("stream_app.starting.connect.sensorthings._FIRST_PAUSE", 0.01)
    service = Datastreams()
    service.observations["7"] = hourly(0, [5])
    service.failures, service.failure_headers = [429], {"Retry-After": retry_after}
    with serving(service) as url:
        settings = settings_for(url, datastreams={"7": "mill"})
        assert spoken(looked(settings, tmp_path / "read.json")) == hours(0, [5])
    assert ("trying again in 0.3 s" in caplog.text) == (retry_after == "0.3")


def test_a_datastream_that_was_deleted_holds_up_no_other(tmp_path: Path) -> None:
    """At the first look an unknown id is an error; later the others are read on."""
    service, place = Datastreams(), tmp_path / "read.json"
    service.observations = {"7": hourly(0, [1]), "8": hourly(0, [2])}
    found: list[Payload] = []

    async def look() -> None:
        async with SensorThings(settings.connect.sensorthings) as peer:
            reader = ObservationReader(peer, settings, found.extend, place)
            await reader.look()
            del service.observations["8"]
            service.observations["7"] += hourly(1, [3])
            await reader.look()

    with serving(service) as url:
        settings = settings_for(url, datastreams={"7": "mill", "8": "port"})
        asyncio.run(look())
    assert hours(1, [3])[0] in spoken(found)


def test_an_instant_may_be_the_end_of_its_interval(tmp_path: Path) -> None:
    """Also one that is written as an interval without length; a duration is another way to say an end."""
    service = Datastreams()
    times = ("2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z/2026-01-01T02:00:00Z")
    service.observations["7"] = [{"phenomenonTime": at, "result": 1} for at in times]
    with serving(service) as url:
        settings = settings_for(url, datastreams={"7": "mill"}, instant="end")
        found = spoken(looked(settings, tmp_path / "read.json"))
    assert [at for at, _ in found] == [
        f"2026-01-01T{hour:02d}:00:00.000Z/2026-01-01T{hour + 1:02d}:00:00.000Z" for hour in (0, 1)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01T00:00:00Z/PT1H",
        "PT60M/2026-01-01T01:00:00Z",
        "2026-01-01T01:00:00+01:00/2026-01-01T02:00:00+01:00",
        "2026-01-01T00:00:00.000Z/2026-01-01T01:00:00.000Z",
    ],
)
def test_an_interval_may_be_written_in_several_ways(text: str) -> None:
    """All of them the first hour of January."""
    assert PhenomenonTime.parse(text) == PhenomenonTime(1_767_225_600.0, 1_767_229_200.0)


def test_a_login_stays_with_its_service(tmp_path: Path) -> None:
    """The token goes with every request, and a page on another host is refused rather than given it."""
    service, stranger = Datastreams(), Datastreams()
    service.observations["7"] = hourly(0, [1, 2, 3, 4])
    with serving(service) as url, serving(stranger) as other:
        service.link_to = f"{other}/Datastreams(7)/Observations?$skip=3"
        settings = settings_for(url, datastreams={"7": "mill"}, token="secret of ours")
        with pytest.raises(PeerError, match="same scheme, host and port") as refused:
            looked(settings, tmp_path / "read.json")
    assert service.headers == ["Bearer secret of ours"]
    assert not stranger.headers
    assert "secret" not in str(refused.value)


def test_a_service_that_has_moved_is_followed_by_hand(tmp_path: Path) -> None:
    """Releases are not sent where an answer leads: the sentence says what to set."""
    service, run = Datastreams(), run_folder(tmp_path / "run")
    add_steps(run, 0, VALUES)
    service.observations["9"] = []
    service.failures, service.failure_headers = ["kept", 308], {"Location": "https://elsewhere.example/v1.1"}
    with (
        serving(service) as url,
        pytest.raises(PeerError, match=r"status 308; set connect\.sensorthings\.url"),
    ):
        written(settings_for(url, releases={"mill": "9"}), run)


def test_pages_in_a_circle_end(tmp_path: Path) -> None:
    """A link back to a page that was read is refused."""
    service = Datastreams()
    service.observations["7"] = hourly(0, list(range(9)))
    with serving(service) as url:
        query = "$orderby=phenomenonTime%20asc&$top=3&$select=phenomenonTime,result"
        service.link_to = f"{url}/Datastreams(7)/Observations?{query}"
        settings = settings_for(url, datastreams={"7": "mill"})
        with pytest.raises(PeerError, match="back to an earlier page"):
            looked(settings, tmp_path / "read.json")


def test_pages_without_an_end_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links that are always new, to pages that bring nothing new."""
    monkeypatch.setattr(sensorthings, "_MOST_IN_VAIN", 3)
    numbers = itertools.count()

    async def answer(request: web.Request) -> web.Response:
        link = f"{request.url.path}?page={next(numbers)}"
        return web.json_response({"value": hourly(0, [1]), "@iot.nextLink": link})

    with serving(answer) as url, pytest.raises(PeerError, match=r"must come to an end, got 3 in a row"):
        looked(settings_for(url, datastreams={"7": "mill"}), tmp_path / "read.json")


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: /again\r\nConnection: close\r\n\r\n", "redirects that lead to"),
        (b"HTTP/1.1 302 Found\r\nLocation: ftp://x/y\r\nConnection: close\r\n\r\n", "redirects that lead to"),
        (b'{"result": 4711}\r\n\r\n', "something that is not HTTP"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"result": 4711}', "breaks off or cannot"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n4711",
            "breaks off or cannot",
        ),
    ],
)
def test_an_answer_that_is_none_is_said_in_our_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes, sentence: str
) -> None:
    """And nothing that came is quoted: it may be counts."""
    monkeypatch.setattr(sensorthings, "_TRIES", 1)
    with answering(answer) as url, pytest.raises(PeerError, match=sentence) as found:
        looked(settings_for(url, datastreams={"7": "mill"}), tmp_path / "read.json")
    assert "4711" not in str(found.value)
    assert "\n" not in str(found.value)


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A server that answers each connection with these bytes, whatever it is asked."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(20)


def test_a_proxy_of_the_environment_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also written without a scheme and with a login, and not for hosts that NO_PROXY names."""
    service = Datastreams()
    service.observations["7"] = hourly(0, [5])

    async def proxy(request: web.Request) -> web.Response:
        asked.append((request.host, request.headers.get("Proxy-Authorization")))
        return await service(request)

    asked: list[tuple[str, str | None]] = []
    with serving(proxy) as url:
        monkeypatch.setenv(
            "http_proxy", url.removeprefix("http://").split("/")[0].replace("127", "a:b@127", 1)
        )
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        for host in ("iot.city.example", url.removeprefix("http://").split("/")[0]):
            settings = settings_for(f"http://{host}{ROOT}", datastreams={"7": "mill"})
            assert spoken(looked(settings, tmp_path / host.replace(":", "-"))) == hours(0, [5])
    assert [login for _, login in asked] == ["Basic YTpi", None]
    assert asked[0][0] == "iot.city.example"


def test_a_proxy_that_does_not_answer_is_named_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensorthings, "_TRIES", 1)
    monkeypatch.delenv("no_proxy", raising=False)
    settings = settings_for("https://iot.city.example", datastreams={"7": "mill"})
    for proxy, kind in (
        ("http://eve:secret@127.0.0.1:1", PeerError),
        ("socks5://eve:secret@h:1", SettingsError),
    ):
        monkeypatch.setenv("https_proxy", proxy)
        with pytest.raises(kind, match="HTTPS_PROXY") as found:
            looked(settings, tmp_path / "read.json")
        assert "secret" not in str(found.value)


@pytest.mark.parametrize("link", ["http://[bad", "mailto:city@example.org"])
def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path, link: str) -> None:
    service = Datastreams()
    service.observations["7"] = hourly(0, list(range(9)))
    service.link_to = link
    with serving(service) as url, pytest.raises(PeerError, match="must be linked by addresses of HTTP"):
        looked(settings_for(url, datastreams={"7": "mill"}), tmp_path / "read.json")


def test_a_datastream_is_read_or_written() -> None:
    """What we write must not come in as counts."""
    with pytest.raises(ValueError, match="must be read or receive releases, not both"):
        settings_for("http://x/v1.1", datastreams={"7": "mill"}, releases={"mill": "7"})


def test_two_sensors_never_share_a_datastream() -> None:
    """Nobody could tell their values apart. Of several datastreams one may go on where another ended."""
    with pytest.raises(ValueError, match="a datastream of its own"):
        settings_for("http://x/v1.1", releases={"mill": "7", "port": "7"})
    settings_for("http://x/v1.1", datastreams={"7": "mill", "8": "mill"})


def test_addresses_and_datastreams_must_be_named(tmp_path: Path) -> None:
    """What is missing is said with the key that sets it."""
    with pytest.raises(SettingsError, match=r"connect\.sensorthings\.url"):
        looked(settings_for("ftp://x", datastreams={"7": "mill"}), tmp_path / "read.json")
    with pytest.raises(SettingsError, match=r"connect\.sensorthings\.datastreams"):
        looked(settings_for("http://127.0.0.1:9/v1.1"), tmp_path / "read.json")


@pytest.mark.parametrize(
    ("identity", "path"),
    [
        ("7", "Datastreams(7)"),
        ("'7'", "Datastreams('7')"),
        ("a-1", "Datastreams('a-1')"),
        ("o'b", "Datastreams('o''b')"),
    ],
)
def test_ids_are_numbers_or_texts(identity: str, path: str) -> None:
    """Texts stand in quotes, quotes in them twice (OData 4.0, part 2, section 4.3.1)."""
    assert entity("Datastreams", identity) == path


@pytest.mark.parametrize(
    "text", ["2026-01-01T00:00:00", "2026-01-01T01:00Z/2026-01-01T00:00Z", "soon", "", 7, None]
)
def test_times_that_are_none_are_refused(text: object) -> None:
    """No offset, an end before the start, no time."""
    with pytest.raises(ValueError):
        PhenomenonTime.parse(text)
