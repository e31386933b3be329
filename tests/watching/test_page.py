"""The built-in page in a real headless Chromium: loads, moves, protects people, says when it is cut off."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from stream_app.embedded import RunOptions, run
from stream_app.setup.given_priors import population_of
from stream_app.setup.settings_sources import load_settings
from stream_app.watching.web import StatusBoard, serve
from stream_app.watching.wording import ATTACK, DISTANCE, epsilon_in_words, in_interval
from stream_app.wire.messages import Activation, Attack, Reading
from tests.watching.live_engine import TOKEN, LiveEngine, live_engine
from tests.watching.services import get, program

pytestmark = pytest.mark.slow

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from tests.watching.browser import WatchedPage  # noqa: E402


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveEngine]:
    """An engine that has closed half a day and waits for more."""
    program("chromium", "chromium-browser", "google-chrome")
    with live_engine(tmp_path_factory.mktemp("page") / "city") as running_engine:
        running_engine.send(12)
        running_engine.wait_for_step(9)
        yield running_engine


@pytest.fixture
def watched(engine: LiveEngine, browser: Any) -> Iterator[WatchedPage]:
    """A fresh page that has drawn its charts."""
    page = WatchedPage(browser, engine.address)
    page.page.wait_for_selector("#spread .uplot")
    yield page
    page.close()


def test_the_page_loads_draws_and_asks_nobody_else(watched: WatchedPage, engine: LiveEngine) -> None:
    """Figures, charts, levels, sensors, week and releases; no complaint; all requests go to the engine."""
    assert watched.text("#state") == "Live: closing steps"
    assert watched.text("#people") == "120"
    assert watched.page.locator(".uplot canvas").count() == 3
    assert watched.page.locator("#over-time figcaption span").all_inner_texts() == [
        "ceiling",
        "ceiling in the crowd",
        "attack, with its interval",
        "guess",
    ]
    watched.page.wait_for_selector("#week td")
    sensors = json.loads(get(engine.address + "state.json")[1])["sensors"]
    assert watched.page.locator("#week tbody tr").count() == sum(line["releases"] > 0 for line in sensors)
    assert watched.text("#verdict-word") in {"Yes", "No", "Not shown"}
    assert watched.page.locator("#levels tbody tr").count() == 5
    assert watched.page.locator("#sensors .tile").count() == len(engine.city.registry.sensors)
    assert watched.page.locator("#releases tbody tr").count() > 0
    assert watched.complaints == []
    assert all(url.startswith(engine.address) for url in watched.requested)


def test_the_page_moves_by_itself_when_steps_close(watched: WatchedPage, engine: LiveEngine) -> None:
    """Without reloading, the step and the charts follow the engine."""
    before = int(engine.metric("tallyguard_last_step"))
    assert f"step {before}" in watched.text("#step")
    drawn = watched.page.get_attribute("#over-time [role=img]", "aria-label")
    engine.send(4)
    watched.page.locator("#step", has_text=f"step {before + 4}").wait_for()
    assert watched.page.get_attribute("#over-time [role=img]", "aria-label") != drawn


def test_the_map_shows_every_sensor_where_it_stands(watched: WatchedPage, engine: LiveEngine) -> None:
    """A circle a sensor, said in words too; north is up, dashed circles are those silent at the last step."""
    circles = watched.page.locator("#map svg circle")
    assert circles.count() == len(engine.city.registry.sensors) == watched.page.locator("#sensors li").count()
    height = {
        circle.text_content().split(":")[0]: float(circle.get_attribute("cy")) for circle in circles.all()
    }
    north = {sensor.name: sensor.position[1] for sensor in engine.city.registry.sensors if sensor.position}
    assert sorted(height, key=lambda name: (height[name], name)) == sorted(
        north, key=lambda name: (-round(north[name], 3), name)
    )
    shown = watched.page.locator("#releases tbody tr").all_inner_texts()
    for kind in ("raw", "noised"):
        released = sum(("exact" in row) == (kind == "raw") for row in shown if "nothing" not in row)
        assert watched.page.locator(f"#map circle.{kind}").count() == released
        assert watched.page.locator(f"#sensors .tile.{kind}").count() == released
    for row in shown:
        assert (" to " in row) == ("exact" not in row and "nothing" not in row)
        assert ("not known" in row) == ("nothing" in row)
    assert "Count, 95 times in 100" in watched.page.locator("#releases").inner_text()
    said = watched.page.locator("#map svg").get_attribute("aria-label")
    assert f"Map of {len(north)} sensors. Revealing most: " in said


def test_without_positions_there_are_bars_only(watched: WatchedPage) -> None:
    """No sensor placed, or all at one spot: no map."""
    drawn = watched.page.evaluate(
        """async () => {
            const { drawMap } = await import("/map.js");
            const sensor = (name, position) => ({ name, position, releases: 1, total_bits: 0.1 });
            const shows = (...sensors) => {
                const figure = document.createElement("figure");
                drawMap(figure, sensors, []);
                return !figure.hidden;
            };
            return [
                shows(sensor("a", null), sensor("b", null)),
                shows(sensor("a", [1, 2]), sensor("b", [1, 2])),
                shows(sensor("a", [1, 2]), sensor("b", null)),
                shows(sensor("a", [1, 2]), sensor("b", [1, 3]), sensor("c", null)),
            ];
        }"""
    )
    assert drawn == [False, False, False, True]


def test_rooms_stand_on_a_plan_of_their_floors(watched: WatchedPage) -> None:
    """Each as large as it is, its name in it where that fits, the floor's above it, and a circle."""
    texts, rooms, circles = watched.page.evaluate(
        """async () => {
            const { drawMap } = await import("/map.js");
            const room = (name, group, position, size) =>
                ({ name, group, position, size, releases: 1, total_bits: 0.1 });
            const figure = document.createElement("figure");
            drawMap(figure, [
                room("1.01", "floor 1", [5, 5], [10, 8]), room("2.01", "floor 2", [25, 5], [10, 4]),
                room("a name much longer than its room", "floor 2", [33, 5], [6, 4]),
            ], []);
            const numbers = (made, ...names) => names.map((name) => Number(made.getAttribute(name)));
            const all = (what, ...names) =>
                [...figure.querySelectorAll(what)].map((made) => numbers(made, ...names));
            const texts = [...figure.querySelectorAll("svg text")].map((made) => made.textContent);
            return [texts, all("rect.room", "x", "y", "width", "height"), all("circle", "cx", "cy")];
        }"""
    )
    assert texts == ["1.01", "2.01", "floor 1", "floor 2"]
    scale = rooms[0][2] / 10
    assert [room[2:] for room in rooms] == [
        pytest.approx((scale * w, scale * d)) for w, d in ((10, 8), (10, 4), (6, 4))
    ]
    for (x, y, width, depth), middle in zip(rooms, circles, strict=True):
        assert middle == pytest.approx((x + width / 2, y + depth / 2), abs=0.06)


def test_of_thousands_of_sensors_the_page_lists_some_and_finds_the_others(
    engine: LiveEngine, browser: Any
) -> None:
    """Those that reveal most, and what stands below them within reach; any other by a part of its name."""
    state = json.loads(get(engine.address + "state.json")[1])
    sensor, release, hidden = state["sensors"][0], state["releases"][0], state["hidden"][0]
    names = [f"gate {number}" for number in range(10_000)]
    state["sensors"] = [
        {**sensor, "name": name, "releases": 1, "total_bits": number} for number, name in enumerate(names)
    ]
    state["releases"] = [{**release, "sensor": name} for name in names]
    state["hidden"] = [{**hidden, "sensor": name} for name in names]
    watched = WatchedPage(browser, engine.address + "plain")  # it listens to nothing
    event = f"event: state\ndata: {json.dumps(state)}\n\n"
    watched.page.route("**/events", lambda route: route.fulfill(body=event, content_type="text/event-stream"))
    watched.page.goto(engine.address)
    watched.page.wait_for_selector("#sensors .tile")
    for rows in ("#sensors .tile", "#releases tbody tr", "#hidden-map tbody tr"):
        assert watched.page.locator(rows).count() == 50
        assert watched.page.locator(rows).first.inner_text().split("\t")[0].startswith("gate 9999")
    said = "There are 10,000 sensors; at most 50 are listed, those first that reveal most."
    assert watched.page.locator("[data-cut]:visible").all_inner_texts() == [said] * 3
    assert watched.page.evaluate("document.documentElement.scrollHeight") < 15_000
    watched.page.fill("#find", "GATE 123")
    assert "11 of 10,000 sensors" in watched.text("#found")
    assert watched.page.locator("#sensors .tile").first.inner_text().startswith("gate 1239")
    assert watched.page.locator("#releases tbody tr").count() == 11
    watched.close()


def test_figures_on_the_page_are_those_of_the_metrics(watched: WatchedPage, engine: LiveEngine) -> None:
    """People at or above each threshold, read from the table and from /metrics."""
    exposed = get(engine.address + "metrics")[1]
    counted = re.findall(r'tallyguard_people_at_risk{threshold="([\d.]+)"} ([\d.]+)', exposed)
    shown = [row.split("\t")[1] for row in watched.text("#levels tbody").splitlines() if row.strip()]
    assert [f"{int(float(count)):,}" for _, count in counted] == shown
    ends = [engine.metric(f"tallyguard_attack_mean{end}") for end in ("", "_low", "_high")]
    measured = Attack(success=ends[0], low=ends[1], high=ends[2], confidence=0.95, parts=())
    assert watched.text("#mean-attack") == in_interval(measured.success, measured.low, measured.high)
    assert ends[1] <= ends[0] <= ends[2]  # from below it may be what habits alone give


def test_every_page_says_what_is_not_known(watched: WatchedPage, engine: LiveEngine) -> None:
    """In the words of the terminal and the report."""
    plain = get(engine.address + "plain")[1]
    for sentence in (DISTANCE, ATTACK[1:]):
        assert sentence in watched.text("#words-title + dl")
        assert sentence in html.unescape(plain)
    assert DISTANCE in watched.text("#time-title + p")


@pytest.mark.parametrize("path", ["people.json?threshold=0.5", "why.json?person=somebody", "devices.json"])
@pytest.mark.parametrize("token", ["", "Bearer wrong", f"Bearer {TOKEN[:-1]}"])
def test_nobody_sees_people_without_the_token(engine: LiveEngine, path: str, token: str) -> None:
    """401 whoever asks, and no pseudonym in the answer."""
    status, body = get(engine.address + path, Authorization=token)
    assert status == 401
    assert set(json.loads(body)) == {"error"}


def test_no_public_path_names_a_person(engine: LiveEngine) -> None:
    """Neither pseudonyms nor ids on the page, in its state, or in the metrics."""
    status, body = get(engine.address + "people.json?threshold=0", Authorization=f"Bearer {TOKEN}")
    assert status == 200
    people = json.loads(body)["people"]
    assert len(people) == len(engine.city.population)
    names = [person["person"] for person in people] + list(engine.city.population.people)
    for path in ("", "state.json", "metrics", "plain", "-/ready"):
        text = get(engine.address + path)[1]
        assert not any(name in text for name in names), path


def test_the_token_shows_people_and_which_release_did_it(watched: WatchedPage) -> None:
    """By keyboard alone: token, Enter, then "Why"; the shares of an explanation add up to the whole."""
    page = watched.page
    page.focus("#token")
    page.keyboard.type(TOKEN)
    page.focus("#token-form button[type=submit]")
    page.keyboard.press("Enter")
    page.wait_for_selector("#exposed button")
    with page.expect_response("**/devices.json"):
        page.select_option("#threshold", index=1)
    assert page.input_value("#token") == "", "the token does not stay on the screen"
    page.wait_for_selector("#devices", state="hidden")
    page.locator("#exposed button").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#why h3", timeout=120_000)
    assert page.locator("#exposed tbody tr").nth(1).locator("#why").count() == 1, "right below the row"
    said = page.locator("#why").inner_text()
    assert "when the last was released" in said
    assert "with everything released until 2026" in said
    shares = [int(cell.removesuffix(" %")) for cell in page.locator("#why td:nth-child(5)").all_inner_texts()]
    assert shares == sorted(shares, reverse=True)
    assert abs(sum(shares) - 100) <= len(shares)
    page.click("#forget")
    assert page.locator("#exposed table, #why table").count() == 0
    assert watched.complaints == []


def test_the_token_shows_devices_that_seem_broken(watched: WatchedPage) -> None:
    """Below the people, and hidden again with them."""
    page, found = watched.page, {"devices": [{"sensor": "gate 3", "suspicion": "stuck", "since": 4}]}
    page.route("**/devices.json", lambda route: route.fulfill(json=found))
    assert page.locator("#devices").is_hidden()
    page.fill("#token", TOKEN)
    page.click("#token-form button[type=submit]")
    page.wait_for_selector("#devices table")
    said = watched.text("#devices")
    assert "Devices that seem broken" in said
    assert all(word in said for word in ("gate 3", "stuck"))
    page.click("#forget")
    assert page.locator("#devices").is_hidden()
    assert watched.complaints == []


def test_a_wrong_token_is_said_and_shows_nothing(watched: WatchedPage) -> None:
    """The sentence appears where it is read out."""
    watched.page.fill("#token", "not the token at all")
    watched.page.click("#token-form button[type=submit]")
    watched.page.locator("#people-message", has_text="token").wait_for()
    assert watched.text("#people-message") == "This is not the access token."
    assert watched.page.locator("#exposed").is_hidden()


def test_on_a_phone_nothing_leaves_the_screen(engine: LiveEngine, browser: Any) -> None:
    """No sideways scrolling at 360 pixels; controls are large enough for a thumb."""
    phone = WatchedPage(browser, engine.address, viewport={"width": 360, "height": 740}, is_mobile=True)
    phone.page.wait_for_selector("#spread .uplot")
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 360
    heights = phone.page.locator("#token-form :is(input, select, button):visible").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().height)"
    )
    assert min(heights) >= 39
    phone.close()


def test_dark_and_light_follow_the_system(engine: LiveEngine, browser: Any) -> None:
    """The ground changes, and both have their own colours of text."""
    grounds = []
    for scheme in ("light", "dark"):
        page = WatchedPage(browser, engine.address, color_scheme=scheme)
        grounds.append(page.page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.close()
    assert grounds == ["rgb(255, 255, 255)", "rgb(17, 23, 29)"]


def test_a_lost_engine_is_shown_as_such(browser: Any, tmp_path: Path) -> None:
    """Killed in the middle: the page says since when, instead of standing still."""
    with live_engine(tmp_path / "city", token=None) as engine:
        engine.send(5)
        engine.wait_for_step(2)
        page = WatchedPage(browser, engine.address)
        page.page.wait_for_selector("#spread .uplot")
        assert "no access token" in page.text("#exposed-note")
        assert get(engine.address + "people.json")[0] == 403
        engine.process.kill()
        page.page.wait_for_selector("#state[data-state=lost]", timeout=20_000)
        assert page.text("#state").startswith("Disconnected: the figures are those of ")
        page.close()


def test_without_people_the_page_shows_releases_and_what_was_spent_and_nothing_of_risk(
    browser: Any, tmp_path: Path
) -> None:
    """What was not computed is hidden, not shown as zero or as an empty chart."""
    (tmp_path / "locations.txt").write_text("mill\nport\n")
    config = tmp_path / "tallyguard.toml"
    config.write_text('locations = "locations.txt"\n[release]\nmechanism = "gaussian"\nsigma = 9\n')
    activation = Activation(v=1, step=0, sensors=("mill", "port")).line()
    readings = [Reading(v=1, step=0, sensor=name, count=7).line() for name in ("mill", "port")]
    settings, board = load_settings(config), StatusBoard()
    options = RunOptions(tmp_path / "out", create_keys=True)
    run(settings, options, population_of(settings, None), observer=board, chunks=[activation, *readings])
    with serve("127.0.0.1:0", CollectorRegistry(), board, None, settings) as server:
        watched = WatchedPage(browser, server.address)
        watched.page.wait_for_selector("#epsilon tbody tr")
        assert "no risk of persons is computed" in watched.text("#basis")
        assert watched.page.locator("#releases tbody tr").count() == 2
        (spent,) = watched.page.locator("#epsilon tbody tr td").all_text_contents()[1:]
        status = board.read()
        assert status.epsilon is not None
        assert spent == epsilon_in_words(status.epsilon["all"])
        parts = watched.page.locator("[data-people]")
        assert parts.count() > 5
        assert not any(part.is_visible() for part in parts.all())
        assert "bits" not in watched.text("main")
        assert watched.complaints == []
        watched.close()
