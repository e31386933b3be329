"""The modules and folders of the packages, read from the code, and who imports whom."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from tests import ROOT

PACKAGES = ("tallyguard", "stream_app", "accounting", "models")


def imports(source: str, known: Container[str]) -> Iterator[str]:
    """Every module of ours that a module imports, lazily or not; ``known`` tells modules from names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in known else node.module for name in names)


@cache
def modules() -> Mapping[str, Path]:
    """All modules of the four packages by name; a folder's face by the folder's."""
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in paths}


def folder_of(module: str) -> str:
    """The folder in which a module stands; a face stands in its own."""
    is_face = modules()[module].name == "__init__.py"
    return module if is_face else module.rpartition(".")[0]


@cache
def arrows() -> Sequence[tuple[str, str]]:
    """Who imports whom, within and between the packages."""
    known = modules()
    return [(m, i) for m in known for i in imports(known[m].read_text(), known) if i in known]


def layers(arrows: Iterable[tuple[str, str]]) -> list[set[str]]:
    """Nodes by layer, each above all that it points to; nodes of a circle are an error."""
    points_to: dict[str, set[str]] = {}
    for start, end in arrows:
        points_to.setdefault(end, set())
        points_to.setdefault(start, set()).update({end} - {start})
    found: list[set[str]] = []
    while points_to:
        bottom = {node for node, ends in points_to.items() if not ends & points_to.keys()}
        assert bottom, f"these import each other in a circle: {sorted(points_to)}"
        found.append(bottom)
        points_to = {node: ends for node, ends in points_to.items() if node not in bottom}
    return found
