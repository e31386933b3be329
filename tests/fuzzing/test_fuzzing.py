"""A few hundred mutated inputs at each door, on each of four days others; ``make fuzz`` tries a million."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from hashlib import pbkdf2_hmac
from pathlib import Path
from random import Random

import pytest

from tests.fuzzing.check import door, finding, stop_watch, warm_up
from tests.fuzzing.mutation import mutated
from tests.fuzzing.sockets import close_server
from tests.fuzzing.targets import DOORS, clean_up
from tests.volume import some


@pytest.fixture(scope="module", autouse=True)
def _clean() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
    close_server()
    stop_watch()
    clean_up()


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_whatever_comes_becomes_a_value_or_a_sentence(door: str) -> None:
    """No crash, no hang, no endless message, no count and no id in an error; a seed has no finding either."""
    target = DOORS[door](door)
    warm_up(target)
    for seed in target.seeds:
        assert finding(target, seed) is None
    for number in some(target.quick_inputs):
        data = mutated(target.seeds, Random(f"{door} {number}"))
        wrong = finding(target, data)
        assert wrong is None, f"{wrong}\n{data!r}"


def test_a_refused_folder_leaves_no_file_open() -> None:
    """Whoever tries again in the same process would run out of files."""
    target = DOORS["decisions.jsonl"]("decisions.jsonl")
    finding(target, b"no decision")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        assert finding(target, b"no decision") is None
    stop_watch()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.slow
def test_a_hang_inside_a_library_is_a_finding_too() -> None:
    """The interpreter hears of the time that is over only when the library comes back."""
    busy = door(lambda data: pbkdf2_hmac("sha256", data, data, 3_000_000), b"seed", seconds=0.1)("busy")
    wrong = finding(busy, b"input")
    stop_watch()
    assert wrong is not None
    assert wrong.startswith("hang at")
