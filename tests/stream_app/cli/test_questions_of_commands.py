"""Every command says which question its figures are about, and refuses one that cannot be asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.prior_files import save_population
from models.priors import MovementPrior, Population
from tests.accounting.questions.test_questions import second_order
from tests.stream_app.command_line import Tallyguard
from tests.stream_app.engine_support import population

SETTINGS = """
question = "care"
also_asked = ["place"]
horizon = 3
mistakes = 0
attack_draws = 64
[release]
mechanism = "raw"
[questions.care]
at = ["B"]
[questions.other]
at = ["nowhere"]
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Priors, and settings of two questions."""
    save_population(population(2), tmp_path / "priors.json")
    (tmp_path / "t.toml").write_text(SETTINGS)
    steps = [{"sensors": ["B"], "mechanism": "raw"}] * 3
    (tmp_path / "schedule.json").write_text(json.dumps({"steps": steps}))
    return list(map(str, (tmp_path / "priors.json", tmp_path / "t.toml", tmp_path / "schedule.json")))


def test_audit_and_plan_answer_every_question_of_the_settings(
    tallyguard: Tallyguard, files: list[str]
) -> None:
    priors, config, schedule = files

    def asked(*more: str) -> list[str]:
        """The question of each audit; the one without a name is which place."""
        given = ("--schedule", schedule, "--config", config, "--json", *more)
        return [each.get("question", "place") for each in tallyguard("audit", priors, *given).document]

    assert asked() == ["care", "care", "place", "place"]
    assert asked("--why") == ["care", "care"]
    assert asked("--question", "place") == ["place", "place"]
    planned = tallyguard("plan", schedule, "--priors", priors, "--config", config).out
    for question in ("question care: whether a person was at care", "question place: where a person was"):
        assert planned.count(question) == 4  # guess, attack, ceiling, added risk


def test_check_refuses_places_of_a_question_that_there_are_not(
    tallyguard: Tallyguard, files: list[str]
) -> None:
    """Of further questions, too; a question that is not asked may be for other priors."""
    priors, config, _ = files
    sound = tallyguard("check", "--config", config, "--priors", priors)
    assert sound.code == 0
    assert "ceilings, thresholds and the risk budget are about whether a person was at care" in sound.out
    assert "place has a guess, an attack and a ceiling beside, about where a person was" in sound.out
    for asked in ('also_asked = ["other"]', 'question = "other"'):
        text = SETTINGS.replace(
            'question = "care"' if "also" not in asked else 'also_asked = ["place"]', asked
        )
        Path(config).write_text(text)
        found = tallyguard("check", "--config", config, "--priors", priors)
        assert found.code != 0
        assert "questions.other" in found.out
        assert "places of group 'other' must be among the 4 locations" in " ".join(found.out.split())


def test_check_and_audit_tell_places_that_look_like_states(tallyguard: Tallyguard, tmp_path: Path) -> None:
    """Pairs of places written as places (0.852 where the best adversary wins 0.913) go nowhere unnoticed."""
    names = [str(place) for place in range(4)]
    pairs = Population.pack([MovementPrior.from_dense("x", second_order())], names)
    priors, sensors, schedule = (tmp_path / f"{name}.json" for name in ("priors", "sensors", "schedule"))
    save_population(pairs, priors)
    sensors.write_text(json.dumps({"sensors": [{"name": "S", "locations": ["1", "3"]}]}))
    schedule.write_text(json.dumps({"steps": [{"sensors": ["S"], "mechanism": "raw"}]}))
    said = "places 1, 3 look like states of one place"
    assert said in tallyguard("check", "--priors", priors, "--sensors", sensors).out
    given = ("--schedule", schedule, "--sensors", sensors, "--mistakes", 0)
    assert said in tallyguard("audit", priors, *given).out
    assert said not in tallyguard("audit", priors, *given, "--at", "1").out
    one = MovementPrior.from_dense("x", second_order(), places=[0, 1, 0, 1])
    save_population(Population.pack([one], names), priors)
    assert said not in tallyguard("check", "--priors", priors, "--sensors", sensors).out


def test_names_in_brackets_are_printed_as_they_are(tallyguard: Tallyguard, tmp_path: Path) -> None:
    """A table of the settings in a sentence, and a sensor in a table: neither is a style."""
    (tmp_path / "asked.toml").write_text('also_asked = ["clinic"]\n')
    assert "define it in [questions]" in tallyguard("check", "--config", tmp_path / "asked.toml").out
    counts = "date,[red]n,:smile:\n" + "".join(f"2026-03-02 {h:02d}:00,{h},1\n" for h in range(6))
    (tmp_path / "counts.csv").write_text(counts)
    given = ("--timezone", "UTC", "--habits", "none", "--output", tmp_path / "o")
    said = tallyguard("init", tmp_path / "counts.csv", *given).out
    assert "[red]n" in said
    assert ":smile:" in said
