"""The command line as tests call it, within their own process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import typer.testing

from stream_app.cli.app import app, program


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


Tallyguard = Callable[..., Result]
"""The fixture ``tallyguard``."""


def called(*arguments: object, **options: Any) -> typer.testing.Result:
    """What Typer's runner finds; by itself it would build all commands anew for each call, in 20 ms."""
    with patch.object(typer.testing, "_get_command", lambda _: program):
        return typer.testing.CliRunner().invoke(app, list(map(str, arguments)), **options)


def invoked(*arguments: object) -> tuple[int, str]:
    """The exit code of a command, and all that it printed or raised, in one line."""
    result = called(*arguments)
    error = "" if result.exception is None else str(result.exception)
    return result.exit_code, " ".join(f"{result.output} {error}".split())
