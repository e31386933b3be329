"""``tallyguard audit --adversary crowd``: both ceilings and the condition, wherever they are said."""

from __future__ import annotations

from json import dumps
from pathlib import Path

import numpy as np
import pytest
from markupsafe import escape

import tallyguard as tg
from stream_app.setup.run_folder.run_settings import settings_of_run
from stream_app.setup.settings_sources import load_settings
from stream_app.watching.wording import ceiling_in_words
from tests.stream_app.command_line import Tallyguard
from tests.watching.page_text import PageText


@pytest.mark.slow
def test_audit_in_a_crowd_shows_both_ceilings_with_the_condition(
    tmp_path: Path, tallyguard: Tallyguard
) -> None:
    """Terminal, JSON and report say the same; what is not known of a crowd is refused."""
    coin = {"transition": [[0.5, 0.5], [0.5, 0.5]], "initial": None}
    people = [{"person": f"p{number}", **coin} for number in range(60)]
    (tmp_path / "crowd.json").write_text(dumps({"people": people}))
    steps = [{"sensors": [0], "mechanism": "raw"}] * 3
    (tmp_path / "day.json").write_text(dumps({"steps": steps}))
    command = ("audit", tmp_path / "crowd.json", "--schedule", tmp_path / "day.json", "--mistakes", "0")
    command += ("--person", "p7")
    (plain,) = tallyguard(*command, "--adversary", "informed", "--json").document
    assert "adversary" not in tallyguard(*command, "--json").document[0]
    (crowd,) = tallyguard(*command, "--adversary", "crowd", "--json").document
    assert (plain["adversary"], plain["certified_informed"]) == ("informed", plain["certified"])
    assert (crowd["adversary"], crowd["certified_informed"]) == ("crowd", plain["certified"])
    assert crowd["baseline"] < crowd["certified"] < plain["certified"]
    assert crowd["attacks"]["map"] is None
    assert crowd["attacks"]["prior"]["success"] <= crowd["certified"]
    (known,) = tallyguard(*command, "--adversary", "crowd", "--known", "59", "--json").document
    assert known["certified"] == plain["certified"]
    (few,) = tallyguard(
        *command, "--adversary", "crowd", "--alone", "0.3", "--companions", "1", "--json"
    ).document
    assert crowd["certified"] < few["certified"] <= 1.0
    shown = tallyguard(*command, "--adversary", "crowd").out
    assert all(ceiling_in_words(crowd[name]) in shown for name in ("certified", "certified_informed"))
    assert crowd["crowd"]["condition"] in shown
    (tmp_path / "audit.json").write_text(dumps([crowd]))
    assert tallyguard("report", tmp_path / "audit.json", "--output", tmp_path / "audit.html").code == 0
    report = (tmp_path / "audit.html").read_text()
    assert ceiling_in_words(crowd["certified"]) in PageText(report).words
    assert ceiling_in_words(crowd["certified_informed"]) in PageText(report).words
    assert escape(crowd["crowd"]["condition"]) in report
    (tmp_path / "mixed.json").write_text(dumps([crowd, plain]))
    assert tallyguard("report", tmp_path / "mixed.json", "--output", tmp_path / "no.html").code == 1
    for wrong in (("--why",), ("--radius", "0.1"), ("--posterior", "5")):
        assert tallyguard(*command, "--adversary", "crowd", *wrong).code == 2
    assert tallyguard(*command, "--adversary", "nobody").code == 2
    assert tallyguard(*command, "--known", "3").code == 2


@pytest.mark.slow
def test_past_steps_in_a_crowd_are_shown_beside_those_of_who_knows_all(
    tmp_path: Path, tallyguard: Tallyguard
) -> None:
    """Then and now, in the crowd and if everybody's places are known; terminal and JSON alike."""
    stay = {"transition": [[0.8, 0.2], [0.3, 0.7]], "initial": None}
    people = [{"person": f"p{number}", **stay} for number in range(80)]
    (tmp_path / "crowd.json").write_text(dumps({"people": people}))
    steps = [{"sensors": [0] if step % 2 else [], "mechanism": "raw"} for step in range(6)]
    (tmp_path / "day.json").write_text(dumps({"steps": steps}))
    command = ("audit", tmp_path / "crowd.json", "--schedule", tmp_path / "day.json", "--mistakes", "0")
    command += ("--person", "p7", "--hindsight", "2:3")
    (plain,) = tallyguard(*command, "--json").document
    (crowd,) = tallyguard(*command, "--adversary", "crowd", "--known", "2", "--json").document
    found, informed = crowd["hindsight"], plain["hindsight"]
    assert (found["then_informed"], found["now_informed"]) == (informed["then"], informed["now"])
    assert found["baseline"] == informed["baseline"] < found["then"] <= found["now"] < informed["now"]
    assert found["then"] < informed["then"]
    shown = tallyguard(*command, "--adversary", "crowd", "--known", "2").out
    assert "in the crowd under its condition above" in shown
    for name in ("then", "now", "then_informed", "now_informed"):
        assert ceiling_in_words(found[name]) in shown


def test_what_no_option_says_of_the_crowd_settings_say_and_the_run(
    tmp_path: Path, tallyguard: Tallyguard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others who are not alone, or known, make ceilings higher: an option for one thing leaves the rest.

    So does the environment: one field of the table takes the place of that field alone.
    """
    coin = {"transition": [[0.5, 0.5], [0.5, 0.5]], "initial": None}
    people = [{"person": f"p{number}", **coin} for number in range(60)]
    priors = tmp_path / "crowd.json"
    priors.write_text(dumps({"people": people}))
    sensors = tmp_path / "sensors.json"
    sensors.write_text(
        dumps({"sensors": [{"name": "A", "locations": ["0"], "counts": "passages", "most_counts": 2}]})
    )
    day = tmp_path / "day.json"
    day.write_text(dumps({"steps": [{"sensors": ["A"], "mechanism": "raw"}] * 3}))
    config = tmp_path / "tallyguard.toml"
    rules = 'sensors = "sensors.json"\nmistakes = 0\n[release]\nmechanism = "raw"\n'
    config.write_text(f"{rules}[crowd]\non = true\nknown = 4\nalone = 0.9\ncounted_once = 0.8\n")
    audit = ("audit", priors, "--schedule", day, "--sensors", sensors, "--mistakes", "0", "--person", "p7")
    audit += ("--adversary", "crowd", "--json")

    def said(*more: object) -> dict[str, object]:
        (found,) = tallyguard(*audit, *more).document
        return {name: found["crowd"].get(name) for name in ("known", "alone", "counted_once")}

    own = {"known": 4, "alone": 0.9, "counted_once": 0.8}
    assert said() == {"known": 0, "alone": 1.0, "counted_once": None}
    assert said("--config", config) == own
    assert said("--config", config, "--known", "1") == {**own, "known": 1}
    assert said("--config", config, "--counted-once", "0.5") == {**own, "counted_once": 0.5}
    plan = ("plan", day, "--priors", priors, "--config", config, "--adversary", "crowd", "--json")
    planned = tallyguard(*plan, "--known", "1").document["crowd"]
    assert {name: planned[name] for name in own} == {**own, "known": 1}
    lines = [dumps({"v": 1, "type": "activation", "step": t, "sensors": ["A"]}) for t in range(3)]
    lines += [dumps({"v": 1, "type": "reading", "step": t, "sensor": "A", "count": 9}) for t in range(3)]
    (tmp_path / "messages.jsonl").write_text("\n".join(lines) + "\n")
    out = tmp_path / "out"
    run = ("run", "--config", config, "--priors", priors, "--input", tmp_path / "messages.jsonl")
    assert tallyguard(*run, "--output", out, "--create-keys").code == 0
    report = tmp_path / "report.html"
    for more, known in (((), 4), (("--known", "7"), 7)):
        assert tallyguard("report", out, "--output", report, "--adversary", "crowd", *more).code == 0
        condition = f"if 0.9 of the 59 others, except {known} whom the adversary may follow,"
        assert condition in report.read_text()
        assert "counted once with a chance of at least 0.8" in report.read_text()
    monkeypatch.setenv("TALLYGUARD_CROWD__KNOWN", "2")
    found = settings_of_run(out, load_settings(None)).crowd
    assert (found.on, found.known, found.alone, found.counted_once) == (True, 2, 0.9, 0.8)


def test_the_library_says_the_same_of_a_crowd() -> None:
    """Both ceilings in the table and its columns, the condition in the caption, also of a part of it."""
    coin = np.full((2, 2), 0.5)
    people = tg.Population.pack([tg.Prior.from_dense(f"p{number}", coin) for number in range(60)])
    schedule = tg.Schedule.raw([[0]] * 3)
    informed = tg.certify(people, schedule, 0, person="p7")
    crowd = tg.certify(people, schedule, 0, person="p7", adversary=tg.CrowdAdversary(known=3))
    assert crowd["p7"].certified < crowd["p7"].certified_informed == informed["p7"].certified
    columns = crowd.columns()
    assert columns["adversary"] == ["crowd"]
    assert not {"adversary", "ceiling_informed"} & informed.columns().keys()
    assert columns["ceiling"] == [crowd["p7"].certified]
    assert columns["ceiling_informed"] == [informed["p7"].certified]
    assert crowd.shown()["informed"] == informed.shown()["ceiling"]
    assert "the 59 others, except 3 whom the adversary may follow," in crowd[:1].caption()
    assert "in the crowd" not in informed.caption()
