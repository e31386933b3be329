"""Accessibility: axe finds nothing on the page, light, dark and on a phone, nor in the report."""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from stream_app.analysis.report.write import write_report  # noqa: E402
from tests.watching.live_engine import TOKEN, LiveEngine, live_engine  # noqa: E402
from tests.watching.services import program  # noqa: E402

AXE = "axe-core@4.11.0"
PAGE = "#spread .uplot"  # the last picture that the page draws
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True}


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The checker's script, from npm; skips where npm cannot fetch it, unless CI is set."""
    folder = tmp_path_factory.mktemp("axe")
    command = [program("npm"), "pack", AXE, "--silent"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = f"npm could not fetch {AXE}: {done.stderr[-200:]}"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    with tarfile.open(folder / done.stdout.split()[-1]) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveEngine]:
    """An engine that has closed half a day."""
    with live_engine(tmp_path_factory.mktemp("accessible") / "city") as running_engine:
        running_engine.send(12)
        running_engine.wait_for_step(9)
        yield running_engine


def findings(browser: Any, url: str, axe: str, wait_for: str, **context: Any) -> list[str]:
    """What axe finds, with the element each finding is about."""
    # The page's own policy forbids foreign scripts, the checker's included: it is let in for the check.
    page = browser.new_context(bypass_csp=True, **context).new_page()
    page.goto(url)
    page.wait_for_selector(wait_for)
    if wait_for == PAGE:
        page.fill("#token", TOKEN)
        page.click("#token-form button[type=submit]")
        page.wait_for_selector("#exposed button")
        page.wait_for_selector("#plan-b .verdict")
        page.wait_for_selector("#week td")
    page.evaluate(axe)
    found = page.evaluate("axe.run()")
    page.context.close()
    assert len(found["passes"]) > 10, "axe has looked at the page"
    return [
        f"{finding['id']}: {node['html'][:120]}"
        for finding in found["violations"]
        for node in finding["nodes"]
    ]


@pytest.mark.parametrize(
    "context",
    [{"color_scheme": "light"}, {"color_scheme": "dark"}, PHONE],
    ids=["light", "dark", "phone"],
)
def test_the_page_has_no_finding(browser: Any, engine: LiveEngine, axe: str, context: dict[str, Any]) -> None:
    """With charts drawn, two plans and people shown."""
    assert findings(browser, engine.address, axe, PAGE, **context) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_has_no_finding(
    browser: Any, engine: LiveEngine, axe: str, tmp_path: Path, scheme: str
) -> None:
    """Made from the running engine's own folder."""
    output = tmp_path / "report.html"
    write_report(engine.scenario.output, output)
    assert findings(browser, output.as_uri(), axe, "svg", color_scheme=scheme) == []
