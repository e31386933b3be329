"""A wall clock of a process that tests set while it runs; elapsed time stays true."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.watching.services import program

YEAR_AHEAD, TRUE = "+365d", "+0"


class WrongClock:
    """Set by ``faketime``; skips by name where that is not installed."""

    def __init__(self, folder: Path) -> None:
        installed = Path(program("faketime")).resolve().parents[1]
        self._library = next((installed / "lib").glob("**/faketime/libfaketime.so.1"))
        self._file = folder / "clock"
        self.set(TRUE)

    def set(self, ahead: str) -> None:
        """By how much it is wrong from now on."""
        draft = self._file.with_suffix(".new")
        draft.write_text(ahead + "\n")
        draft.replace(self._file)

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs to be given."""
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
