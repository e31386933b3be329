"""The text of a page of HTML, as a reader sees it, and what a browser would fetch for it."""

from __future__ import annotations

from html.parser import HTMLParser


class PageText(HTMLParser):
    """The pieces of text in order, each with single spaces; ``loads`` are addresses that are fetched."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.loads: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.feed(html)

    def handle_data(self, data: str) -> None:
        """Keep the text."""
        if text := " ".join(data.split()):
            self.words.append(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the tag and what it refers to."""
        self.tags.append(tag)
        own = self.links if tag == "a" else self.loads
        own += [value or "" for name, value in attrs if name in {"src", "href", "srcset"}]


def text_of_page(html: str) -> str:
    """All text of a page in one line."""
    return " ".join(PageText(html).words)
