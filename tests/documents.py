"""Pages of the documentation as the site shows them, with what it takes from the code."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import cast

from tests import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))

_hook = runpy.run_path(str(DOCS / ".hooks" / "built_pages.py"))
_on_page_markdown, metric_rows = _hook["on_page_markdown"], _hook["metric_rows"]


def shown(page: Path) -> str:
    """A page's Markdown, its marks replaced."""
    return cast(str, _on_page_markdown(page.read_text()))
