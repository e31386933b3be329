"""The promises of :mod:`tests.stream_app.one_log`, kept by a folder and by topics in memory."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from stream_app.embedded.journal import Journal
from stream_app.exceptions import OutputLockedError
from stream_app.kafka.release.release_log import LogRecord, Progress, restore
from stream_app.setup.run_folder.progress import log_lines
from tests.stream_app.memory_log import MemoryLog
from tests.stream_app.one_log import Owner, check_owners_who_die


def of_folder(folder: Path) -> Owner:
    """The owner of a folder."""
    journal = Journal(folder, {})

    def lines(log: str) -> list[bytes]:
        return [line.rstrip() for line in log_lines(folder / f"{log}.jsonl")]

    return Owner(journal, lines, journal.close)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_folder_goes_on_whoever_dies(tmp_path: Path, seed: int) -> None:
    check_owners_who_die(partial(of_folder, tmp_path), seed)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_topics_in_memory_go_on_whoever_dies(seed: int) -> None:
    written: list[LogRecord] = []

    def own() -> Owner:
        latest = {each.key: each.value for each in written if each.topic == "progress"}
        log = MemoryLog(restore(latest, "progress", Progress), written=written)
        return Owner(log, log.values)

    check_owners_who_die(own, seed)


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    owner = of_folder(tmp_path)
    with pytest.raises(OutputLockedError):
        of_folder(tmp_path)
    owner.die()
    of_folder(tmp_path).die()
