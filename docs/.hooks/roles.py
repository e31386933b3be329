"""What the site shows of docstrings: `:class:` and its like are for tools, readers want the name alone."""

from __future__ import annotations

import re
from typing import Any

_ROLE = re.compile(r":(?:class|func|meth|mod|data|attr):(<code>)~?")


def on_page_content(html: str, **_: Any) -> str:
    """The page without roles."""
    return _ROLE.sub(r"\1", html)
