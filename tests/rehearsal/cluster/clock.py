"""Days that pass in a moment: processes whose wall clock is ahead, while elapsed time stays true."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.rehearsal.saying import RehearsalError

HOUR_SECONDS = 3600


class LaterClock:
    """Built once from ``later.c``; libfaketime stops a Java process that waits by its own clock."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise RehearsalError("a C compiler must be installed: apt install gcc libc6-dev")
        self._library = folder / "later.so"
        source = Path(__file__).with_name("later.c")
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(self._library), str(source), "-ldl"]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        self.hours = 0

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs to be given."""
        if not self.hours:
            return {}
        return {"LD_PRELOAD": str(self._library), "LATER_SECONDS": str(self.hours * HOUR_SECONDS)}
