"""The system's Chromium, headless, driven by playwright; every message of its console is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.watching.services import program

_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser while the block runs."""
    executable = program("chromium", "chromium-browser", "google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class WatchedPage:
    """A page, with what its console said and which addresses it asked."""

    def __init__(self, browser: Browser, url: str, **context: Any) -> None:
        self.page: Page = browser.new_context(**context).new_page()
        self.complaints: list[str] = []
        self.requested: set[str] = set()
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requested.add(request.url))
        self.page.goto(url, wait_until="domcontentloaded")

    def _heard(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def text(self, selector: str) -> str:
        """The visible text of an element."""
        return self.page.inner_text(selector)

    def close(self) -> None:
        """Close the page and its context."""
        self.page.context.close()
