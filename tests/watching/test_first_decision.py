"""`tutorials/first-decision.md` click by click in a browser, on the page that `tallyguard serve` opens."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_app.city import CityOptions, build_city
from stream_app.embedded import RunOptions, run
from stream_app.setup.run_folder.record import read_entries
from stream_app.setup.settings_sources import load_settings
from stream_app.starting.demo import prepare
from tests import ROOT
from tests.copies import COMMAND_LINE, Copy
from tests.watching.live_engine import COMPILE_SECONDS
from tests.watching.services import free_port, get, program, until_over, wait_until

pytestmark = pytest.mark.slow

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from tests.watching.browser import WatchedPage  # noqa: E402

TUTORIAL = (ROOT / "docs/tutorials/first-decision.md").read_text()
STEPS = re.findall(
    r"^\d+\. (Click|Move|See|Fill) \*\*(.+?)\*\*(?: (?:to|with) `(.+?)`)?", TUTORIAL, re.MULTILINE
)
PEOPLE, HOURS = 120, 24


class Served:
    """A page that `tallyguard serve` opened, with the token it printed."""

    def __init__(self, folder: Path, address: str, log: Path) -> None:
        self.folder, self.address, self._log = folder, address, log

    @property
    def opened(self) -> str:
        """The address as it is printed."""
        (found,) = re.findall(r"Open (\S+)", self._log.read_text())
        return str(found)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A demo's folder with one run that has ended."""
    program("chromium", "chromium-browser", "google-chrome")
    folder = tmp_path_factory.mktemp("decision") / "demo-output"
    city = build_city(CityOptions(people=PEOPLE))
    scenario = prepare(folder, city)
    lines = [b"".join(message.line() for message in step.messages()) for step in city.steps(HOURS)]
    run(load_settings(scenario.settings), RunOptions(scenario.output), city.population, chunks=lines)
    port = free_port()
    log = folder.parent / "serve.log"
    words = ["serve", str(folder), "--listen", f"127.0.0.1:{port}"]
    with until_over(Copy(COMMAND_LINE, words, os.environ, log)):
        address = f"http://127.0.0.1:{port}/"
        wait_until("the page", lambda: log.exists() and "Open " in log.read_text(), COMPILE_SECONDS)
        assert get(address + "plain")[0] == 200
        yield Served(folder, address, log)


def follow(page: Any, verb: str, what: str, value: str) -> None:
    """One step of the tutorial, by what can be read on the page."""
    if verb == "Click":
        page.get_by_label(what).or_(page.get_by_role("button", name=what)).click()
    elif verb in {"Fill", "Move"}:
        page.get_by_label(what).fill(value)
    else:
        part = "#plan-b .verdict" if what in {"Yes", "No"} else "#taken"
        page.locator(part, has_text=what).wait_for(timeout=600_000)


def test_the_first_decision_is_taken_click_by_click(served: Served, browser: Any) -> None:
    """From the printed address to settings and a record with name and reason; no token stays in it."""
    assert len(STEPS) == 8
    watched = WatchedPage(browser, served.opened)
    page = watched.page
    page.locator("#verdict-word", has_text="No rule").wait_for(timeout=120_000)
    page.locator("#plan-a .verdict", has_text="No").wait_for(timeout=600_000)
    assert "token" not in page.url
    for verb, what, value in STEPS:
        follow(page, verb, what, value)
    assert page.get_attribute("#plan-b", "data-state") == "yes"
    written = tomllib.loads((served.folder / "plan-1.toml").read_text())
    (block,) = re.findall(r"^```toml\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL)
    assert {**written, "sharpen_operations": 300_000_000} == tomllib.loads(block)
    (entry,) = read_entries(served.folder / "plans" / "record.jsonl")
    assert (entry.by, entry.reason) == ("Ada Officer", "the trial of March")
    assert entry.facts["answer"] == "yes"
    page.click("#link")
    link = page.url
    said = [watched.text(f"#plan-{name} .verdict + p") for name in ("a", "b")]
    assert watched.complaints == []
    assert all(url.startswith(served.address) for url in watched.requested)
    watched.close()

    again = WatchedPage(browser, f"{link}&{served.opened.partition('#')[2]}")
    again.page.locator("#plan-b[data-state=yes]").wait_for(timeout=600_000)
    assert [again.text(f"#plan-{name} .verdict + p") for name in ("a", "b")] == said
    again.close()


def test_the_cursor_sets_everything_else_by_keyboard(served: Served, browser: Any) -> None:
    """Figures, map, published counts, the week's column and the levels are those of the step."""
    watched = WatchedPage(browser, served.address)
    page = watched.page
    page.wait_for_selector("#week td.now")
    before = {part: watched.text(part) for part in ("#mean-risk", "#releases", "#levels")}
    marked = (
        page.locator("#week tr")
        .nth(1)
        .locator("td")
        .evaluate_all("cells => cells.findIndex(cell => cell.classList.contains('now'))")
    )
    page.focus("#at")
    for _ in range(9):
        page.keyboard.press("ArrowLeft")
    page.locator("#step", has_text=f"step {HOURS - 10}").wait_for()
    page.wait_for_function(
        "said => document.querySelector('#releases').innerText !== said", arg=before["#releases"]
    )
    assert all(watched.text(part) != said for part, said in before.items())
    page.wait_for_function(
        """was => [...document.querySelectorAll('#week tr')[1].querySelectorAll('td')]
            .findIndex(cell => cell.classList.contains('now')) === was - 9""",
        arg=marked,
    )
    page.click("#latest")
    page.wait_for_function(
        "said => document.querySelector('#releases').innerText === said", arg=before["#releases"]
    )
    assert watched.complaints == []
    watched.close()


def test_without_the_token_there_are_neither_plans_nor_people(served: Served, browser: Any) -> None:
    watched = WatchedPage(browser, served.address)
    watched.page.wait_for_selector("#week td")
    for part in ("#plans", "#exposed-section"):
        assert watched.page.locator(part).is_hidden()
    for path in ("plan.json", "people.json"):
        assert get(served.address + path)[0] == 401
    watched.close()


def test_on_a_phone_nothing_leaves_the_screen_and_in_print_nothing_is_cut(
    served: Served, browser: Any, tmp_path: Path
) -> None:
    phone = WatchedPage(browser, served.opened, viewport={"width": 390, "height": 844}, is_mobile=True)
    phone.page.wait_for_selector("#plan-b .verdict", timeout=600_000)
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390
    phone.page.emulate_media(media="print")
    cut = phone.page.locator(".scroll, .checks").evaluate_all(
        "all => all.filter(one => getComputedStyle(one).overflowX !== 'visible').length"
    )
    assert cut == 0
    phone.close()
