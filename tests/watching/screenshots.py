"""``make screenshots``: page, report and dashboards for the documentation, from one live engine."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from http import HTTPStatus
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser

from stream_app.analysis.report import Asked, load_priors, make_annex, save_report, write_report
from stream_app.analysis.report.write import pdf_of
from stream_app.setup.settings_sources import load_settings
from stream_app.starting.demo import run_demo
from tests.watching.browser import WatchedPage, chromium
from tests.watching.live_engine import COMPILE_SECONDS, TOKEN, LiveEngine, live_engine
from tests.watching.panel_pictures import panel_pictures
from tests.watching.services import free_port, get, running, wait_until

COLOURS = 64
FOLDER = Path("docs/screenshots")
DESKTOP = {"viewport": {"width": 1280, "height": 900}}
REPORT = {"width": 860, "height": 1400}
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 1.5, "is_mobile": True}


def main(folder: Path = FOLDER) -> None:
    """A day and a half of a small city: the page, an explanation, the report, the dashboards' panels."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, live_engine(Path(scratch) / "city", 400) as engine:
        engine.send(44)
        engine.wait_for_step(41)
        with chromium() as browser:
            for name, scheme, device in (
                ("page-light", "light", DESKTOP),
                ("page-dark", "dark", DESKTOP),
                ("page-phone", "light", PHONE),
            ):
                watched = WatchedPage(browser, engine.address, color_scheme=scheme, **device)
                watched.page.wait_for_selector("#week td")
                read = watched.page.get_by_text(re.compile("^Steps 0 to 4[0-9] are released")).first
                read.wait_for(timeout=COMPILE_SECONDS * 1000)  # the answer comes after the steps it is about
                watched.page.screenshot(path=folder / f"{name}.png", full_page=name == "page-light")
                if name == "page-light":
                    watched.page.locator("#week-section").screenshot(path=folder / "page-week.png")
                    watched.page.locator("#map").screenshot(path=folder / "page-map.png")
                    show_people(watched, engine)
                    watched.page.locator("#why").screenshot(path=folder / "page-why.png")
                    watched.page.locator("#exposed-section").screenshot(path=folder / "page-people.png")
                    watched.page.locator("#plan-b .note", has_text="By the refined bound").wait_for(
                        timeout=600_000
                    )
                    watched.page.locator("#plans").screenshot(path=folder / "page-plans.png")
                    watched.page.pdf(path=Path(scratch) / "page.pdf", format="A4")
                    draw_pages(Path(scratch) / "page.pdf", folder / "page-printed.png")
                watched.close()
            settings = load_settings(engine.scenario.settings)
            priors = load_priors(engine.scenario.output, settings, engine.city.population)
            write_report(engine.scenario.output, Path(scratch) / "report.html", priors=priors)
            report = WatchedPage(browser, (Path(scratch) / "report.html").as_uri(), viewport=REPORT)
            report.page.screenshot(path=folder / "report.png")
            lowering = report.page.locator("section", has=report.page.get_by_text("What would lower it"))
            lowering.screenshot(path=folder / "report-lowering.png")
            report.close()
            report = WatchedPage(browser, (Path(scratch) / "report.html").as_uri(), **PHONE)
            report.page.screenshot(path=folder / "report-phone.png")
            report.close()
            draw_printed(Path(scratch) / "report.html", folder / "report-printed.png")
            asked = Asked("opening hours of the libraries", "Head of mobility", "2027-03-01")
            annex = make_annex(engine.scenario.output, asked, is_public=True)
            save_report(annex, Path(scratch) / "annex.html")
            draw_printed(Path(scratch) / "annex.html", folder / "annex-printed.png")
            draw_building(browser, Path(scratch) / "office", folder / "page-building.png")
        panel_pictures(engine, Path(scratch), folder)
    for picture in folder.glob("*.png"):
        make_small(picture)


def draw_building(browser: Browser, office: Path, picture: Path) -> None:
    """The floors of `tallyguard demo --building`, with the day's figures, on the page that `serve` opens."""
    run_demo(output=office, steps=34, building=True, seconds_per_step=0.0, listen="", announce=print)
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-c", "from stream_app.cli import main; main()", "serve", str(office)]
    with running([*command, "--listen", address], office.with_suffix(".log")):
        wait_until("the page", lambda: get(f"http://{address}/plain")[0] == HTTPStatus.OK, COMPILE_SECONDS)
        watched = WatchedPage(browser, f"http://{address}/", **DESKTOP)
        watched.page.wait_for_selector("#week td")
        watched.page.locator("#map").screenshot(path=picture)
        watched.close()


def draw_printed(report: Path, picture: Path) -> None:
    """The first two pages of the report as a PDF, side by side."""
    pdf = report.with_suffix(".pdf")
    pdf.write_bytes(pdf_of(report.read_text()))
    draw_pages(pdf, picture)


def draw_pages(pdf: Path, picture: Path) -> None:
    """The first two pages of a PDF, side by side."""
    pages = [pdf.with_name(f"page-{number}.png") for number in (1, 2)]
    for number, page in enumerate(pages, start=1):
        command = ["pdftoppm", "-png", "-singlefile", "-r", "70", "-f", str(number), "-l", str(number)]
        subprocess.run([*command, str(pdf), str(page.with_suffix(""))], check=True)
    drawn = [Image.open(page) for page in pages]
    width, height = drawn[0].size
    both = Image.new("RGB", (2 * width + 12, height), "#99a3ad")
    for number, page in enumerate(drawn):
        both.paste(page, (number * (width + 12), 0))
    both.save(picture)


def make_small(picture: Path) -> None:
    """Few colours are enough for text and charts, and a third of the bytes."""
    with Image.open(picture) as full:
        few = full.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(picture, optimize=True)


def show_people(watched: WatchedPage, engine: LiveEngine) -> None:
    """Give the token, and ask why for the person to whom the releases added most."""
    page = watched.page
    page.fill("#token", TOKEN)
    page.click("#token-form button[type=submit]")
    page.wait_for_selector("#exposed button")
    with page.expect_response(lambda response: "threshold=0.5" in response.url):  # else a row may be replaced
        page.select_option("#threshold", value="0.5")
    page.wait_for_selector("#exposed button")
    page.locator("#exposed button").first.click()
    page.wait_for_selector("#why h3", timeout=60_000)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
