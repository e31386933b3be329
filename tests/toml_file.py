"""Settings files as tests write them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any


def toml_of(table: Mapping[str, Any], place: str = "") -> str:
    """A settings file; tables after plain values, and nothing for None; keys may be dotted."""
    named = {key if re.fullmatch(r"[\w.-]+", key) else json.dumps(key): value for key, value in table.items()}
    plain = {key: value for key, value in named.items() if not isinstance(value, Mapping | None)}
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in plain.items())
    for key, value in named.items():
        if isinstance(value, Mapping):
            text += f"[{place}{key}]\n{toml_of(value, f'{place}{key}.')}"
    return text
