"""What tests of the engine share."""

from __future__ import annotations

import sys

import pytest

from tests.stream_app.command_line import Result, Tallyguard


@pytest.fixture
def tallyguard(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tallyguard:
    """Runs the command as the shell would, within this process."""
    from stream_app.cli import main

    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["tallyguard", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        return Result(code, *capsys.readouterr())

    return run
