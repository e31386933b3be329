"""The promises of :mod:`tests.stream_app.one_log`, kept by a folder and by topics in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest

from stream_app.exceptions import OutputLockedError
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.release.release_log import LogRecord
from tests.stream_app.one_log import InFolder, InTopics, check_owners_who_die


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_folder_goes_on_whoever_dies(tmp_path: Path, seed: int) -> None:
    check_owners_who_die(partial(InFolder, tmp_path), seed)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_topics_in_memory_go_on_whoever_dies(seed: int) -> None:
    held = defaultdict(list)

    def send(records: Iterable[LogRecord]) -> None:
        for topic, key, value, _ in tuple(records):
            held[topic].append((key, value))

    check_owners_who_die(partial(InTopics, Topics(), held.__getitem__, send), seed)


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    owner = InFolder(tmp_path)
    with pytest.raises(OutputLockedError):
        InFolder(tmp_path)
    owner.die()
    InFolder(tmp_path).die()
