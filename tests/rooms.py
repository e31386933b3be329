"""The plan of the house, read from the code: modules, folders, and who imports whom.

``python -m tests.rooms`` writes the plan in ``docs/explanation/architecture.md`` and the tables of
``docs/reference/rooms.md``.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from tests import ROOT

PACKAGES = ("tallyguard", "stream_app", "accounting", "models")
PLAN = ROOT / "docs" / "explanation" / "architecture.md"
TABLES = ROOT / "docs" / "reference" / "rooms.md"
_BEGINS, _ENDS = "<!-- rooms: ", "<!-- end of rooms -->"


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


def room_layers(package: str) -> list[set[str]]:
    """The modules and folders at a package's root, by layer of imports."""
    room = {name: ".".join(name.split(".")[:2]) for name in modules() if name.startswith(f"{package}.")}
    return layers((room[a], room[b]) for a, b in arrows() if a in room and b in room)


def purpose(module: str) -> str:
    """The first line of a module's docstring, as Markdown."""
    lines = (ast.get_docstring(ast.parse(modules()[module].read_text())) or "").splitlines()
    return lines[0].replace("``", "`")


def plan() -> str:
    """The rooms of all packages by layer, from the top layer down; single modules stand with their ending."""
    found = {package: room_layers(package) for package in reversed(PACKAGES)}
    rows = [f"| layer | {' | '.join(f'`{package}`' for package in found)} |", "|---" * (len(found) + 1) + "|"]
    for number in range(max(map(len, found.values())), 0, -1):
        cells = [
            ", ".join(
                _shown(room).rstrip("/") for room in sorted(each[number - 1] if number <= len(each) else ())
            )
            for each in found.values()
        ]
        rows.append(f"| {' | '.join([str(number), *cells])} |")
    return "\n".join(rows)


def tables() -> str:
    """A table a package: rooms from the top layer down, with the folders inside them."""
    parts = []
    for package in PACKAGES:
        rows = [f"### `{package}`", "", "| layer | room | holds |", "|---|---|---|"]
        found = room_layers(package)
        for number in range(len(found), 0, -1):
            for room in sorted(found[number - 1]):
                inside = [m for m in modules() if m.startswith(f"{room}.") and folder_of(m) == m]
                rows += [
                    f"| {number if each == room else ''} | `{_shown(each)}` | {purpose(each)} |"
                    for each in [room, *inside]
                ]
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def _shown(module: str) -> str:
    """A room's place in its package."""
    is_folder = modules()[module].name == "__init__.py"
    return "/".join(module.split(".")[1:]) + ("/" if is_folder else ".py")


def refreshed(path: Path) -> str:
    """A page with what it shows of the code as it is now."""
    shown = {PLAN: plan, TABLES: tables}[path]()
    before, rest = path.read_text().split(_BEGINS)
    mark, after = rest.split("\n", 1)[0], rest.split(_ENDS)[1]
    return f"{before}{_BEGINS}{mark}\n{shown}\n{_ENDS}{after}"


if __name__ == "__main__":
    for page in (PLAN, TABLES):
        page.write_text(refreshed(page))
