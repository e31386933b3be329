"""The command line as tests call it, within their own process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from stream_app.cli.app import app


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


def invoked(*arguments: object) -> tuple[int, str]:
    """The exit code of a command, and all that it printed or raised, in one line."""
    result = CliRunner().invoke(app, list(map(str, arguments)))
    error = "" if result.exception is None else str(result.exception)
    return result.exit_code, " ".join(f"{result.output} {error}".split())
