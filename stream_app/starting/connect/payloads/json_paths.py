"""Paths into JSON: ``time_info.start``, ``lines[0].in``, ``['a.b']``; from the whole payload with ``$.``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stream_app.exceptions import SettingsError

ABSENT = object()
"""What stands where nothing does; null is a value."""
_ROOT = "$"
_STEP = re.compile(r"\.?([^.\[\]'$]+)|\[(\d{1,6})\]|\['([^']+)'\]")


@dataclass(frozen=True)
class JsonPath:
    """Names and indices to walk along, from the record or from the payload around it."""

    text: str
    steps: tuple[str | int, ...]
    is_from_root: bool

    @classmethod
    def of(cls, text: str) -> JsonPath:
        """:class:`SettingsError` for what is no path."""
        steps: list[str | int] = []
        position = len(_ROOT) if text.startswith(_ROOT) else 0
        while position < len(text):
            found = _STEP.match(text, position)
            if found is None:
                break
            name, index, quoted = found.groups()
            steps.append(int(index) if index else name or quoted)
            position = found.end()
        if not steps or position < len(text):
            raise SettingsError(
                "a path into a payload must be names and indices, like time_info.start or $.lines[0].in",
                repr(text),
                "write ['a.b'] for a name with a dot in it",
            )
        return cls(text, tuple(steps), text.startswith(_ROOT))

    def at(self, payload: Any, record: Any) -> Any:
        """What stands there, or :data:`ABSENT`."""
        found = payload if self.is_from_root else record
        for step in self.steps:
            if isinstance(step, str) and isinstance(found, Mapping):
                found = found.get(step, ABSENT)
            elif isinstance(step, int) and isinstance(found, list) and step < len(found):
                found = found[step]
            else:
                return ABSENT
        return found


@dataclass(frozen=True)
class FirstOf:
    """Several paths, of which the first counts that leads somewhere."""

    paths: tuple[JsonPath, ...]

    @classmethod
    def of(cls, texts: Sequence[str]) -> FirstOf:
        """:class:`SettingsError` for what is no path."""
        return cls(tuple(map(JsonPath.of, texts)))

    def at(self, payload: Any, record: Any) -> Any:
        """What stands there, or :data:`ABSENT`."""
        for path in self.paths:
            found = path.at(payload, record)
            if found is not ABSENT:
                return found
        return ABSENT

    def __bool__(self) -> bool:
        return bool(self.paths)

    def __str__(self) -> str:
        return " or ".join(path.text for path in self.paths)


def names_with_paths(payload: Any) -> Iterator[tuple[str, str]]:
    """Each name of a field at any depth, with its path from the payload, indices left out."""
    waiting: list[tuple[str, Any]] = [("", payload)]
    while waiting:
        above, value = waiting.pop()
        if isinstance(value, Mapping):
            for name, below in value.items():
                path = f"{above}.{name}" if above else str(name)
                yield str(name), path
                waiting.append((path, below))
        elif isinstance(value, list):
            waiting += [(above, below) for below in value]
