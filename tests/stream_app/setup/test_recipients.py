"""Recipients files: tiers follow from who knows whom, and run as if they had been written down."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.exceptions import TallyguardError
from stream_app.analysis.preflight import check_files
from stream_app.setup.release_settings import load_recipients
from stream_app.setup.settings_sources import load_settings
from tests.stream_app.engine_support import lines_of, messages_of_a_day, run_on

FILE = """
owner = "city"
epsilon = { reciprocal = 1.0 }
allowed = { partner = 1.0, public = 0.2, press = 0.5 }
edges = [["city", "transit"], ["transit", "paper"], ["paper", "reader", 3.0], ["reader", "stranger", 9.0]]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "recipients.toml"
    path.write_text(FILE)
    return path


def test_each_recipient_gets_the_tier_their_distance_allows(file: Path) -> None:
    """1 and 2 handshakes away, 5, and 14: rounded down, the last to nothing; the owner needs none."""
    assigned = load_recipients(file)
    assert assigned.tiers == (("public", 0.2), ("press", 0.5), ("partner", 1.0))
    assert assigned.tier_of == {"transit": "partner", "paper": "press", "reader": "public", "stranger": None}


@pytest.mark.parametrize(
    ("epsilon", "expected"),
    [
        ("{ exponential = { at_zero = 2.0, length = 1.0 } }", ["press", "public", None, None]),
        ("{ steps = [[1, 1.0], [5, 0.2]] }", ["partner", "public", "public", None]),
    ],
)
def test_other_functions_of_the_distance(file: Path, epsilon: str, expected: list[str | None]) -> None:
    file.write_text(FILE.replace("{ reciprocal = 1.0 }", epsilon))
    assert list(load_recipients(file).tier_of.values()) == expected


def test_two_ways_to_somebody_make_them_nearer_by_resistance(file: Path) -> None:
    """A ring of four: its far corner is 2 away on foot and 1 by resistance."""
    ring = '[["city", "a"], ["a", "far"], ["city", "b"], ["b", "far"]]'
    text = FILE[: FILE.index("edges")] + f"edges = {ring}\n"
    file.write_text(text)
    assert load_recipients(file).tier_of["far"] == "press"
    file.write_text(text + 'distance = "resistance"\n')
    assert load_recipients(file).tier_of["far"] == "partner"


def test_a_deployment_publishes_for_the_tiers_of_its_recipients(file: Path, tmp_path: Path) -> None:
    """The file's path is relative to the settings; check says who gets which file."""
    config = tmp_path / "tallyguard.toml"
    config.write_text('[release]\nmechanism = "tiered"\nrecipients = "recipients.toml"\n')
    settings = load_settings(config)
    assert settings.release.tiers == {"public": 0.2, "press": 0.5, "partner": 1.0}
    findings = {finding.sentence: finding.level for finding in check_files(config=config)}
    assert findings["transit gets releases-partner.jsonl (epsilon 1)"] == "ok"
    assert findings["stranger is too far away for any tier"] == "warning"
    ways = {"named": {"recipients": str(file)}, "written": {"tiers": settings.release.tiers}}
    for name, release in ways.items():
        settings_given = {"release": {"mechanism": "tiered", **release}}
        run_on(tmp_path / name, [lines_of(messages_of_a_day(4, 2))], settings=settings_given)
    for tier in settings.release.tiers:
        name = f"releases-{tier}.jsonl"
        assert (tmp_path / "named" / name).read_bytes() == (tmp_path / "written" / name).read_bytes()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{ reciprocal = 1.0 }", "{}", "one function of the distance"),
        ("{ reciprocal = 1.0 }", "{ reciprocal = 1.0, steps = [[1, 1.0]] }", "one function of the distance"),
        ("{ reciprocal = 1.0 }", "{ reciprocal = -1.0 }", "epsilon.reciprocal: .* greater than 0"),
        ("{ reciprocal = 1.0 }", "{ steps = [[1, 0.1], [5, 0.2]] }", "must not rise with distance"),
        ('"city"\n', '"town"\n', None),
        ("edges", "egdes", "edges: Field required"),
        ("3.0]", "0.0]", "must be positive"),
        ("owner =", "owner", "readable TOML"),
    ],
)
def test_what_cannot_be_is_said(file: Path, old: str, new: str, message: str | None) -> None:
    """An owner without acquaintances is no mistake: nobody gets anything."""
    file.write_text(FILE.replace(old, new, 1))
    if message is None:
        assert set(load_recipients(file).tier_of.values()) == {None}
        return
    with pytest.raises(TallyguardError, match=message):
        load_recipients(file)


@pytest.mark.slow
def test_tiers_come_from_one_place(file: Path, tmp_path: Path) -> None:
    config = tmp_path / "tallyguard.toml"
    config.write_text('[release]\nrecipients = "recipients.toml"\ntiers = { other = 0.7 }\n')
    with pytest.raises(TallyguardError, match="one of the two"):
        load_settings(config)
    config.write_text('[release]\nrecipients = "nowhere.toml"\n')
    with pytest.raises(TallyguardError, match="readable TOML"):
        load_settings(config)
