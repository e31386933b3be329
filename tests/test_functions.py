"""Functions take little: state that belongs together travels as one object."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.rooms import modules

MOST, USUALLY = 8, 6


def parameters() -> Iterator[tuple[int, str]]:
    """How many parameters each function has, kernels and ``self`` included, options of commands not."""
    for module, path in modules().items():
        if module.startswith("stream_app.cli."):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])
                yield count, f"{module}.{node.name}"


def test_no_function_takes_a_train_of_arguments() -> None:
    """At most eight parameters, and at most six in 95 of 100 functions."""
    found = list(parameters())
    assert len(found) > 1000
    assert not [name for count, name in found if count > MOST]
    assert sum(count > USUALLY for count, _ in found) <= 0.05 * len(found)
