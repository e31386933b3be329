"""How many random cases the long tests try: an eighth of them a day, all of them with ``make thorough``.

Of a thousand and fewer it is a quarter, so that each day there are some of every sort.

Slow tests take turns, too, so that a number of days in a row (:data:`SLOW_PARTS`) run each of them once. The
eighth turns each time that all have had their turn, so that each slow test tries all of its cases in eight
turns, and hypothesis draws anew each day. Where a test fails, the date is said: ``CASES_OF=2026-11-26 make
test`` tries the cases of that day again. Where property tests run a second time for something else,
``EXAMPLE_PARTS`` says of how many parts one is enough.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any
from zlib import crc32

import numpy as np
from hypothesis import settings

# Processes that this one starts have the same day, even after midnight.
DAY = date.fromisoformat(os.environ.setdefault("CASES_OF", date.today().isoformat())).toordinal()
PARTS = 1 if os.environ.get("THOROUGH") else 8
EXAMPLE_PARTS = int(os.environ.get("EXAMPLE_PARTS", PARTS))
SLOW_PARTS = 1 if os.environ.get("THOROUGH") else int(os.environ.get("SLOW_PARTS", "1"))
"""Of how many parts of the slow tests one has its turn this day: of six with ``make test``."""
_LEAST = 10
_FEW, _PARTS_OF_FEW = 1000, 4
_SALT = 16565  # with it the six parts take equally long from nothing: 372 to 404 s of the processor


def try_a_part(property_tests: Iterable[Any]) -> None:
    """Of the examples that hypothesis may draw for each of these tests it draws this part, at least ten."""
    for test in property_tests:
        whole = test._hypothesis_internal_use_settings
        examples = max(-(-whole.max_examples // EXAMPLE_PARTS), min(whole.max_examples, _LEAST))
        test._hypothesis_internal_use_settings = settings(whole, max_examples=examples)


def turn() -> int:
    """How often all slow tests have had their turn; by the day alone, one would meet the same cases again."""
    return DAY // SLOW_PARTS


def some(number: int) -> range:
    """Of the cases ``0..number-1``, those of this day."""
    parts = PARTS if number > _FEW else min(PARTS, _PARTS_OF_FEW)
    part = turn() % parts
    return range(number * part // parts, number * (part + 1) // parts)


def randoms(seed: int, number: int) -> Iterator[np.random.Generator]:
    """For each case of this day its own random numbers, whichever others are tried."""
    return (np.random.default_rng([seed, case]) for case in some(number))


def has_its_turn(name: str) -> bool:
    """Whether a slow test is run this day."""
    return crc32(name.encode(), _SALT) % SLOW_PARTS == DAY % SLOW_PARTS
