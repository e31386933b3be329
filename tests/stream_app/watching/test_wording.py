"""Numbers as people read them: a ceiling is never shown below what was proved, an attack never above."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from accounting.settings import RiskBudget
from stream_app.analysis.verdict import limit_in_words, rule_in_words
from stream_app.watching.web.answers import state_json
from stream_app.watching.web.status import StatusBoard
from stream_app.watching.wording import (
    DOWN,
    EXACT,
    LEVELS,
    NEAREST,
    UP,
    ceiling_in_words,
    change_in_words,
    confidence_in_words,
    in_a_hundred,
    in_interval,
    in_points,
    level_rows,
    shortened,
    significant,
)
from stream_app.wire import Attack
from tallyguard.results import ceiling_in_100, in_100, nats
from tests.stream_app.events_for_tests import closed, summary

ROOT = Path(__file__).parents[3]
FLOATS_LEAVE = 1e-11  # relative, what sums leave behind the twelfth digit


def shown(words: str) -> float:
    return float(words.removesuffix(" in 100")) / 100.0


@given(st.floats(0.0, 1.0))
@example(0.0247)
@example(8.7e-5)
@example(1 - 1e-13)
@example(0.99999)
@example(5e-324)
def test_up_is_never_below_and_down_never_above(probability: float) -> None:
    nearest, up, down = (shown(in_a_hundred(probability, to)) for to in (NEAREST, UP, DOWN))
    assert down <= nearest <= up
    assert up >= probability * (1 - FLOATS_LEAVE) - 1e-17
    assert down <= probability * (1 + FLOATS_LEAVE) + 1e-17
    assert up - down <= 0.0101
    assert float(ceiling_in_100(probability)) / 100.0 >= probability * (1 - FLOATS_LEAVE)
    assert float(in_100(probability, DOWN)) / 100.0 <= probability * (1 + FLOATS_LEAVE) + 1e-17


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_words_keep_the_order_of_guess_attack_and_ceiling(one: float, other: float) -> None:
    """So a table never shows a guess or an attack above the ceiling beside it."""
    low, high = sorted((one, other))
    assert shown(in_a_hundred(low)) <= shown(ceiling_in_words(high)) + 1e-15
    assert float(in_100(low)) <= float(ceiling_in_100(high)) + 1e-9


@pytest.mark.parametrize(
    ("probability", "words"),
    [
        (0.0247, "3 in 100"),  # "2 in 100, no method does better" stood beside an exact attack of 2.47
        (0.07, "7 in 100"),
        (0.1 + 0.2, "30 in 100"),
        (0.0042, "0.5 in 100"),
        (0.0095, "1 in 100"),
        (0.9905, "99.1 in 100"),
        (0.99995, "100 in 100"),
        (0.0, "0 in 100"),
    ],
)
def test_a_ceiling_is_said_upwards(probability: float, words: str) -> None:
    assert ceiling_in_words(probability) == words


def test_a_table_of_the_library_has_significant_digits() -> None:
    """The ceiling of ten steps among a hundred places was shown as 0.0."""
    assert [ceiling_in_100(8.6895e-5), in_100(1.2592e-5)] == ["0.0087", "0.0013"]
    assert [ceiling_in_100(0.864), ceiling_in_100(0.99961), ceiling_in_100(1.0)] == ["86.4", "100.0", "100.0"]
    assert ceiling_in_100(3e-13) == "3.0e-11"
    assert [nats(0.0), nats(1.2e-6), nats(0.4321)] == ["0.000", "0.0000012", "0.433"]


def test_an_interval_is_never_shown_narrower_than_it_is() -> None:
    attack = Attack(success=0.533, low=0.519, high=0.541, confidence=0.95, parts=())
    assert in_interval(attack.success, attack.low, attack.high) == "53 in 100 (51 to 55)"


def test_a_limit_is_said_as_it_was_chosen() -> None:
    """A rule of 2.4 points was filed as one of 2, and one of 12.5 in 100 as one of 12."""
    rule = RiskBudget(risk=0.125, added=0.024, share=0.005)
    assert "12.5 in 100" in limit_in_words(rule)
    assert "2.4 percentage points" in limit_in_words(rule)
    assert "0.5 in 100 people" in rule_in_words(rule)
    assert in_a_hundred(0.05, EXACT) == "5 in 100"
    assert in_points(0.05, EXACT) == "5 percentage points"


def test_sureness_is_never_rounded_to_certainty() -> None:
    """A confidence of 0.999 was shown as 100 %."""
    said = [confidence_in_words(each) for each in (0.95, 0.999, 0.999999999, 1 - 0.1 - 1e-17, 1.0)]
    assert said == ["95%", "99.9%", "99.999%", "90%", "100%"]


def test_a_radius_is_shortened_downwards_and_what_is_asked_for_upwards() -> None:
    assert [significant(0.12366, 3, DOWN), significant(0.12361, 4, UP)] == ["0.123", "0.1237"]
    assert [shortened(0.6473, 3, UP), shortened(0.647, 3, UP), shortened(-1e-9, 1)] == [
        "0.648",
        "0.647",
        "0.0",
    ]


BOUNDS = r"(risk|certified|ceiling|added|\.then|\.now|credible|highest)"


def test_the_live_page_has_the_headings_of_the_report_and_the_plain_page() -> None:
    """And its rows: the page lays out what it is sent."""
    board = StatusBoard()
    board.closed(closed(3))
    levels = json.loads(state_json(board.read(), None, has_people=False))["levels"]
    assert levels["head"] == list(LEVELS)
    assert levels["rows"] == [list(row) for row in level_rows(summary(3))]


def test_whoever_shows_a_ceiling_asks_the_one_function() -> None:
    """No presenter rounds a ceiling, or what is added at most, by itself or to the nearest."""
    to_nearest = re.compile(
        rf"\b(in_a_hundred|inAHundred|in_100|in_points)\((?![^)]*(EXACT|UP))[^)]*{BOUNDS}"
    )
    by_itself = re.compile(
        rf"\{{[^{{}}]*{BOUNDS}[^{{}}]*:\.\d[fg%]\}}|{BOUNDS}[\w.]*\.(toFixed|toPrecision)\("
    )
    in_template = re.compile(rf"{BOUNDS}\s*\|\s*(chance|round)")
    sources = [
        path
        for folder in ("stream_app", "tallyguard")
        for kind in ("*.py", "*.js", "*.j2")
        for path in (ROOT / folder).rglob(kind)
    ]
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sources
        for line in path.read_text(encoding="utf-8").splitlines()
        if not re.search(r"\.baseline\b|certified_drop|predicted", line)  # guesses; a change
        if to_nearest.search(line) or by_itself.search(line) or in_template.search(line)
    ]
    assert len(sources) > 100
    assert found == []


def test_a_change_that_is_rounded_to_nothing_has_no_sign() -> None:
    """Without a release that shows next to nothing, the ceiling does not change by minus zero."""
    said = [change_in_words(change) for change in (-0.031, 0.004, -1e-9, 1e-9, 0.0, -0.0)]
    assert said == ["−3.1 in 100", "+0.4 in 100", *["under 0.1 in 100"] * 2, *["0 in 100"] * 2]
