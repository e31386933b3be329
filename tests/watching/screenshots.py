"""``make screenshots``: page, report and dashboards for the documentation, from one live engine."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from stream_app.analysis.report import load_priors, write_report
from stream_app.analysis.report.write import pdf_of
from stream_app.setup.settings_sources import load_settings
from tests.watching.browser import WatchedPage, chromium
from tests.watching.live_engine import TOKEN, LiveEngine, live_engine
from tests.watching.panel_pictures import panel_pictures

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
                watched.page.wait_for_selector("#spread .uplot")
                watched.page.screenshot(path=folder / f"{name}.png", full_page=name == "page-light")
                if name == "page-light":
                    show_people(watched, engine)
                    watched.page.locator("#why").screenshot(path=folder / "page-why.png")
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
        panel_pictures(engine, Path(scratch), folder)
    for picture in folder.glob("*.png"):
        make_small(picture)


def draw_printed(report: Path, picture: Path) -> None:
    """The first two pages of the report as a PDF, side by side."""
    pdf = report.with_suffix(".pdf")
    pdf.write_bytes(pdf_of(report.read_text()))
    pages = [report.with_name(f"page-{number}.png") for number in (1, 2)]
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
    page.select_option("#threshold", value="0.5")
    page.wait_for_selector("#exposed button")
    page.locator("#exposed button").first.click()
    page.wait_for_selector("#why h3", timeout=60_000)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
