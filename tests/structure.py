"""The size of the house in figures: folders, files, functions, parameters, names.

``python -m tests.structure [FOLDER]`` prints them of this tree, or of another version's in a folder.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests import ROOT
from tests.rooms import PACKAGES, layers

MOST, USUALLY = 8, 6  # parameters
Function = ast.FunctionDef | ast.AsyncFunctionDef


def trees(root: Path) -> dict[Path, ast.Module]:
    """All modules of the packages, by their path from the root."""
    paths = (path for package in PACKAGES for path in sorted((root / package).rglob("*.py")))
    return {path.relative_to(root): ast.parse(path.read_text()) for path in paths}


def functions(tree: ast.AST) -> Iterator[Function]:
    """All functions and methods of a module, those inside others too."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def line_count(function: Function) -> int:
    """From the line of its name to its last."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def parameter_counts(path: Path, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """How many parameters each function has, kernels and ``self`` included, options of commands not."""
    for function in functions(tree):
        arguments = function.args
        if "typer." in ast.unparse(arguments):  # a command: these are its options
            continue
        count = len([*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs])
        yield count, f"{path}: {function.name}"


def exported(tree: ast.AST) -> int:
    """How many names a module lists in ``__all__``."""
    lists = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and any(ast.unparse(each) == "__all__" for each in node.targets)
    )
    return sum(len(each.elts) for each in lists if isinstance(each, ast.List | ast.Tuple))


def spread(values: Sequence[int]) -> str:
    """Median, 95 % quantile and maximum."""
    ordered = sorted(values) or [0]
    last = len(ordered) - 1
    return f"{ordered[last // 2]} / {ordered[round(0.95 * last)]} / {ordered[-1]}"


def rooms_at_root(found: dict[Path, ast.Module], package: str) -> set[str]:
    """The modules and folders at a package's root."""
    return {path.with_suffix("").parts[1] for path in found if path.parts[0] == package} - {"__init__"}


def root_layers(found: dict[Path, ast.Module], package: str) -> int:
    """In how many layers of imports the modules and folders at a package's root stand."""
    rooms = rooms_at_root(found, package)
    arrows = [(room, room) for room in rooms]
    for path, tree in found.items():
        here = path.with_suffix("").parts[1]
        for node in ast.walk(tree) if path.parts[0] == package and here in rooms else ():
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}".split(".") for alias in node.names]
                arrows += [(here, n[1]) for n in names if n[0] == package and n[1] in rooms]
    return len(layers(arrows))


def figures(root: Path) -> dict[str, str]:
    """What is counted, and its figures."""
    found = trees(root)
    folders = Counter(path.parent for path in found)
    at_root = {package: len(rooms_at_root(found, package)) for package in PACKAGES}
    lengths = [len((root / path).read_text().splitlines()) for path in found]
    every = [function for tree in found.values() for function in functions(tree)]
    over = f"functions with more than {USUALLY} parameters"
    parameters = [count for path, tree in found.items() for count, _ in parameter_counts(path, tree)]
    faces = {path: exported(tree) for path, tree in found.items() if path.name == "__init__.py"}
    inner = sum(count for path, count in faces.items() if path.parts[0] in ("models", "accounting"))
    return {
        "files / lines": f"{len(found)} / {sum(lengths)}",
        "files of the five largest folders": ", ".join(str(n) for _, n in folders.most_common(5)),
        "modules and folders at a package's root": _by_package(at_root),
        "layers of imports there": _by_package({p: root_layers(found, p) for p in PACKAGES}),
        "lines of a file, median / p95 / max": spread(lengths),
        "lines of a function, median / p95 / max": spread([line_count(f) for f in every]),
        "parameters, median / p95 / max": spread(parameters),
        over: f"{sum(n > USUALLY for n in parameters)} of {len(parameters)}",
        "names: tallyguard / faces of models and accounting": (
            f"{faces.get(Path('tallyguard/__init__.py'), 0)} / {inner}"
        ),
    }


def _by_package(counts: dict[str, int]) -> str:
    return ", ".join(f"{package} {count}" for package, count in counts.items())


if __name__ == "__main__":
    for what, figure in figures(Path(sys.argv[1]) if sys.argv[1:] else ROOT).items():
        print(f"{what:52} {figure}")
