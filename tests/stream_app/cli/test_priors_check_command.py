"""``priors check`` on files: figures for people and scripts, a picture, and errors that say what to do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from stream_app.watching.wording import DOWN, significant
from tests.stream_app.command_line import Tallyguard

WINDOW, TRAINING, HELD_OUT, PEOPLE = 100, 40, 4, 60
FIT = ("--window-seconds", str(WINDOW), "--top-places", "3", "--held-out-windows", str(HELD_OUT))
CHECK = ("priors", "check", "priors.json", "--checkins", "checkins.csv")


def write_checkins(folder: Path, at_home_later: float, name: str = "checkins.csv") -> None:
    """People at home in three of four windows before, and in another share of the last windows."""
    random = np.random.default_rng(6)
    rows = ["user,time,loc"]
    for person in range(PEOPLE):
        for window in range(TRAINING + HELD_OUT):
            share = 0.75 if window < TRAINING else at_home_later
            place = "home" if random.random() < share else ("work", "park")[int(random.integers(2))]
            rows.append(f"p{person},{WINDOW * window},{place}")
    (folder / name).write_text("\n".join(rows) + "\n")


@pytest.fixture
def fitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tallyguard: Tallyguard) -> Path:
    """A folder with check-ins of people who keep their habits, and priors fitted to all but the last."""
    monkeypatch.chdir(tmp_path)
    write_checkins(tmp_path, 0.75)
    assert tallyguard("priors", "fit", "checkins.csv", "--output", "priors.json", *FIT).code == 0
    return tmp_path


@pytest.mark.slow
def test_habits_that_are_kept_do_not_refute_the_priors(tallyguard: Tallyguard, fitted: Path) -> None:
    """Exit status 0, the documented fields, and a verdict that claims no more than it may."""
    result = tallyguard(*CHECK, "--json")
    assert result.code == 0
    found = result.document
    assert found["verdict"] == f"not refuted by {PEOPLE} people"
    assert (found["steps"], found["mistakes"], found["people"]) == (HELD_OUT, 1, PEOPLE)
    assert len(found["groups"]) == len(found["attack"]["groups"]) == 4
    assert {"people", "predicted", "realised", "p_higher", "p_lower", "verdict"} <= set(found["groups"][0])
    assert found["attack"]["groups"][0]["p_lower"] is None
    assert found["sharpness"]["moves"] == PEOPLE * (HELD_OUT - 1)
    shown = tallyguard(*CHECK)
    assert "Not refuted by 60 people. That is no proof" in shown.out
    assert max(map(len, shown.out.split("Surprise")[0].splitlines())) <= 80


@pytest.mark.slow
@pytest.mark.parametrize("name", ["priors.json", "priors.parquet"])
def test_priors_know_which_windows_they_were_fitted_to(
    tallyguard: Tallyguard, fitted: Path, name: str
) -> None:
    """Later check-ins alone are all held against them; whoever does not know says so by options."""
    lines = (fitted / "checkins.csv").read_text().splitlines()
    fit = ("priors", "fit", "checkins.csv", "--output", name, *FIT)
    assert tallyguard(*fit).code == 0
    later = [line for line in lines[1:] if int(line.split(",")[1]) >= WINDOW * TRAINING]
    (fitted / "later.csv").write_text("\n".join([lines[0], *later]))
    check = ("priors", "check", name, "--json", "--checkins")
    found = tallyguard(*check, "later.csv").document
    assert found == tallyguard(*check, "checkins.csv").document
    assert found["windows"] == HELD_OUT
    assert tallyguard(*check, "checkins.csv", "--held-out-windows", "3").document["windows"] == 3
    if name == "priors.json":
        document = json.loads((fitted / name).read_text())
        assert document.pop("fitted")["until_seconds"] == WINDOW * TRAINING
        (fitted / name).write_text(json.dumps(document))
        own = ("--window-seconds", str(WINDOW), "--held-out-windows", str(HELD_OUT))
        assert tallyguard(*check, "checkins.csv", *own).document == found


@pytest.mark.slow
def test_people_who_have_become_regular_refute_them(tallyguard: Tallyguard, fitted: Path) -> None:
    """Ceilings too low is a problem that was found: exit status 1, worst group and radius in words."""
    write_checkins(fitted, 1.0)
    result = tallyguard(*CHECK, "--plot", "check.png")
    assert result.code == 1
    assert "Ceilings too low: people are easier to guess" in result.out
    assert "Worst group:" in result.out
    assert "Radius: the data refute any below" in result.out
    assert (fitted / "check.png").read_bytes().startswith(b"\x89PNG")
    document = tallyguard(*CHECK, "--json").document
    assert document["verdict"] == "ceilings too low"
    assert document["kappa_min"] > 0


def test_people_who_have_become_erratic_are_no_danger(tallyguard: Tallyguard, fitted: Path) -> None:
    """Ceilings too high: said, with exit status 0."""
    write_checkins(fitted, 0.2)
    result = tallyguard(*CHECK)
    assert result.code == 0
    assert "Ceilings too high: people are harder to guess" in result.out


@pytest.mark.slow
def test_the_attack_may_see_a_schedule(tallyguard: Tallyguard, fitted: Path) -> None:
    """Its length is the horizon, its ceilings are higher, and the output says what was released."""
    schedule = {"first_slot": 0, "steps": [{"sensors": ["home"], "mechanism": "raw"}] * 3}
    (fitted / "day.json").write_text(json.dumps(schedule))
    own = (*CHECK, "--schedule", "day.json", "--attack", "map")
    found = tallyguard(*own, "--json").document
    assert found["steps"] == 3
    assert found["attack"]["released"] == "schedule"
    assert found["attack"]["everybody"]["predicted"] > found["everybody"]["predicted"]
    assert "Attack map under the schedule" in tallyguard(*own).out
    assert "the horizon must be the schedule's length, got 2 and 3" in tallyguard(*own, "--horizon", "2").err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--attack", "mapp"), "the attack must be one of map, prior, constant, marginal"),
        (
            ("--attack", "either"),
            "an attack on recorded traces must be one of map, prior, constant, marginal,",
        ),
        (("--groups", "0"), "at least one group of people, got 0; use 4"),
        (("--mistakes", "4"), "mistakes must lie in 0..3"),
        (("--horizon", "9"), "the horizon must be at most the 4 recorded steps, got 9; shorten"),
        (("--held-out-windows", "44"), "more windows than the 44 held out, got 44"),
        (("--held-out-windows", "5"), "only the last 4 windows may be compared with the priors, got 5, some"),
        (
            ("--checkins", "before.csv"),
            "beyond the windows that the priors were fitted to, got 40 windows",
        ),
        (("--held-out-windows", "0"), "at least one window must be held out, got 0"),
        (
            ("--elsewhere-name", "nowhere"),
            "must stand for windows without check-ins, got none named 'nowhere'",
        ),
        (("--checkins", "none.csv"), "the check-ins file must exist, got none.csv; check the path"),
        (("--checkins", "others.csv"), "must name people of the priors as these do, got none of 60 people"),
        (("--plot", "none/check.png"), "the plot must be written to none/check.png"),
    ],
)
def test_errors_say_what_must_hold_what_was_found_and_what_to_do(
    tallyguard: Tallyguard, fitted: Path, arguments: tuple[str, ...], said: str
) -> None:
    """In one sentence on stderr, with exit status 1."""
    lines = (fitted / "checkins.csv").read_text().splitlines()
    (fitted / "others.csv").write_text("\n".join(lines).replace("\np", "\nq"))
    fitted_only = [line for line in lines[1:] if int(line.split(",")[1]) < WINDOW * TRAINING]
    (fitted / "before.csv").write_text("\n".join([lines[0], *fitted_only]))
    result = tallyguard(*CHECK, *arguments)
    assert result.code == 1
    assert said in result.err
    assert "Traceback" not in result.err


@pytest.mark.slow
def test_an_audit_of_refuted_priors_shows_the_radius_and_the_mean_ceiling(
    tallyguard: Tallyguard, fitted: Path
) -> None:
    """The verdict goes from file to figures: condition beside the number, and no smaller radius is taken."""
    fit = ("priors", "fit", "checkins.csv", "--output", "priors.json", "--evidence", "evidence.parquet", *FIT)
    assert tallyguard(*fit).code == 0
    write_checkins(fitted, 1.0)
    (fitted / "check.json").write_text(tallyguard(*CHECK, "--json").out)
    found = json.loads((fitted / "check.json").read_text())
    schedule = {"first_slot": 0, "steps": [{"sensors": ["home"], "mechanism": "raw"}] * 3}
    (fitted / "day.json").write_text(json.dumps(schedule))
    audit = ("audit", "priors.json", "--schedule", "day.json", "--person", "p1", "--no-attacks")
    own = (*audit, "--check", "check.json", "--evidence", "evidence.parquet")
    (one,) = tallyguard(*own, "--json").document
    assert one["priors_check"]["verdict"] == "ceilings too low"
    assert one["priors_check"]["people"] == PEOPLE
    assert one["radius"]["nats"] == one["priors_check"]["kappa_min"] == found["kappa_min"] > 0
    assert one["certified_radius"] > one["certified"]
    assert one["posterior"]["draws"] == 50
    shown = tallyguard(*own).out
    assert "Note: the priors were refuted on 60 people, because ceilings were too low" in shown
    assert f"Within {significant(found['kappa_min'], 3, DOWN)} nats" in shown
    assert "Mean ceiling" in shown
    (fitted / "audit.json").write_text(tallyguard(*own, "--json").out)
    assert tallyguard("report", "audit.json").code == 0
    assert "Note: the priors were refuted on 60 people" in (fitted / "report.html").read_text()
    refused = tallyguard(*audit, "--check", "check.json", "--radius", "0.0001")
    assert refused.code == 2
    assert "the check refutes any smaller one" in refused.err
    (plain,) = tallyguard(*audit, "--json").document
    assert (plain["certified"], "priors_check" in plain) == (one["certified"], False)
    document = json.loads((fitted / "priors.json").read_text())
    document["people"].pop()
    (fitted / "priors.json").write_text(json.dumps(document))
    other = tallyguard(*audit, "--check", "check.json")
    assert other.code == 1
    assert "priors_check must be of the priors that are used" in other.err


def test_habits_of_several_states_a_place_are_fitted_and_held_against_traces(
    tallyguard: Tallyguard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stays of three or four windows: chosen, said with figures, checked; and noticed where they change."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(3)
    for name, later in (("checkins.csv", 3), ("changed.csv", 1)):
        rows = ["user,time,loc"]
        for person in range(12):
            trace: list[str] = []
            while len(trace) < 80:
                stay = (3 if len(trace) < 60 else later) + (random.random() < 0.1)
                trace += ["ab"[bool(trace) and trace[-1] == "a"]] * stay
            rows += [f"p{person},{WINDOW * window},{place}" for window, place in enumerate(trace[:80])]
        (tmp_path / name).write_text("\n".join(rows) + "\n")
    fit = ("priors", "fit", "checkins.csv", "--output", "priors.json", "--window-seconds", str(WINDOW))
    shown = tallyguard(*fit, "--held-out-windows", "20", "--order", "2", "--dwell")
    assert shown.code == 0
    said = " ".join(shown.out.split())
    assert "Of what was tried it is the least: by the place and the stay so far 0." in said
    assert "by the present place 0." in said
    places = json.loads((tmp_path / "priors.json").read_text())["people"][0]["places"]
    assert set(places) == {0, 1}
    assert len(places) > 4
    kept = tallyguard(*CHECK, "--horizon", "6", "--json")
    assert kept.code == 0
    assert kept.document["attack"]["name"] == "prior"
    assert kept.document["verdict"] == "not refuted by 12 people"
    changed = tallyguard(*CHECK[:-1], "changed.csv", "--horizon", "6", "--json").document
    assert changed["sharpness"]["z"] > 10.0 > abs(kept.document["sharpness"]["z"])
    refused = tallyguard(*CHECK, "--attack", "marginal")
    assert "must be one of prior, constant" in " ".join(refused.err.split())
