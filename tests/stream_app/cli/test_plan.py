"""`tallyguard plan`: the decisions of tomorrow, as the run will make them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accounting.exposure.crowd import CrowdAdversary, HidingCrowd
from accounting.settings import HorizonSettings
from models.mechanisms import Raw, largest_sigma
from models.prior_files import save_population
from models.priors import MovementPrior, Population
from models.releases import Schedule, StepSchedule
from stream_app.analysis import plan_figure
from stream_app.analysis.planning import plan_releases
from stream_app.analysis.run_log import read_run
from stream_app.analysis.verdict import verdict_in_words, verdict_of
from stream_app.cli import main
from stream_app.embedded import RunOptions, run
from stream_app.watching.wording import DOWN, ceiling_in_words, shortened
from stream_app.wire.messages import Activation, Reading, RiskSummary, StepDecision
from tests.accounting.crowd.both import BothAccounts
from tests.accounting.decisions import deciding
from tests.hex_keys import hex_key
from tests.stream_app.engine_support import NAMES, activation, lines_of, population, reading, run_on, settings
from tests.stream_app.watching.test_refuted_priors import verdict as refuting
from tests.watching.page_text import PageText

STEPS, LOCATIONS = 14, 8


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Priors, a schedule and settings with a budget."""
    random = np.random.default_rng(3)
    save_population(population(), tmp_path / "priors.json")
    chosen = [random.choice(NAMES, random.integers(0, 4), replace=False).tolist() for _ in range(STEPS)]
    steps = [{"sensors": names, "mechanism": "raw"} if names else {"sensors": []} for names in chosen]
    (tmp_path / "schedule.json").write_text(json.dumps({"steps": steps}))
    (tmp_path / "settings.toml").write_text(
        'horizon = 4\nmistakes = 1\nsharpen_operations = 2_000_000\n[release]\nmechanism = "budget"\n'
        "[release.budget]\nshare = 0.2\nadded = 0.25\n"
    )
    return tmp_path


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """The command's exit code."""
    monkeypatch.setattr(sys, "argv", ["tallyguard", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def messages_of(schedule: Sequence[Mapping[str, Any]], count: int = 7) -> list[Activation | Reading]:
    """What sensors send in such a run, each as many people each time."""
    announced = [activation(t, *step["sensors"]) for t, step in enumerate(schedule)]
    return announced + [
        reading(t, name, count) for t, step in enumerate(schedule) for name in step["sensors"]
    ]


def plan(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *more: object
) -> dict[str, Any]:
    """The document the command prints."""
    own = ("plan", files / "schedule.json", "--priors", files / "priors.json", "--json")
    assert call(monkeypatch, *own, *more) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.slow
def test_a_plan_is_what_the_run_decides(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = plan(files, monkeypatch, capsys, "--config", files / "settings.toml")
    schedule = json.loads((files / "schedule.json").read_text())["steps"]
    messages = messages_of(schedule)
    budget = {"mechanism": "budget", "budget": {"share": 0.2, "added": 0.25}}
    run_on(
        files / "out",
        [lines_of(messages)],
        settings={"release": budget},
        schedule=files / "schedule.json",
    )
    decided = [StepDecision.model_validate_json(line) for line in (files / "out/decisions.jsonl").open("rb")]
    assert len(decided) == len(planned["steps"]) == STEPS
    for step, decision in zip(planned["steps"], decided, strict=True):
        released = [(r["sensor"], r["mechanism"], r.get("sigma")) for r in step["releases"]]
        assert released == [(d.sensor, d.mechanism, d.parameters.get("sigma")) for d in decision.decisions]
        assert decision.why is not None
        assert step["why"] == decision.why.model_dump(mode="json")
    assert {step["why"]["because"] for step in planned["steps"]} >= {"budget"}


@pytest.mark.slow
def test_limits_on_the_command_line_ask_for_a_budget(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tight = plan(files, monkeypatch, capsys, "--mistakes", 1, "--horizon", 4, "--added", 0.1)
    loose = plan(files, monkeypatch, capsys, "--mistakes", 1, "--horizon", 4, "--added", 1.0)
    assert {step["why"]["because"] for step in loose["steps"]} == {"free"}
    assert all(r["mechanism"] == "raw" for step in loose["steps"] for r in step["releases"])
    released = [sum(sensor["released"] for sensor in each["sensors"]) for each in (tight, loose)]
    assert released[0] < released[1]
    assert all(step["risk"]["1"] <= 1.0 for step in tight["steps"])


def test_without_a_budget_the_schedules_own_mechanisms_are_planned(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = plan(files, monkeypatch, capsys)
    assert all(step["why"] is None for step in planned["steps"])
    assert {sensor["mean_error"] for sensor in planned["sensors"]} == {0.0}
    epsilons = {each["unit"]: each["epsilon"] for each in planned["differential_privacy_by_unit"]}
    assert epsilons == dict.fromkeys(("whole log", "day", "consecutive steps", "visit"))  # all is exact


@pytest.mark.slow
def test_the_table_and_the_picture_are_for_people(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ("plan", files / "schedule.json", "--priors", files / "priors.json")
    assert call(monkeypatch, *own, "--config", files / "settings.toml", "--plot", files / "plan.png") == 0
    printed = capsys.readouterr().out
    assert "Because" in printed
    assert "Unit of privacy" in printed
    assert "budget" in printed
    assert (files / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_the_picture_says_when_it_holds_and_is_read_without_colours(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(plan_figure, "save_figure", lambda figure, output: drawn.append(figure))
    own = ("plan", files / "schedule.json", "--priors", files / "priors.json")
    assert call(monkeypatch, *own, "--adversary", "crowd", "--plot", files / "plan.png") == 0
    risk, errors = drawn[0].axes[:2]
    title = risk.get_title().replace("\n", " ")
    assert "if habits are as assumed, and if the " in title and "who does not know where they are" in title
    assert len({str(line.get_linestyle()) for line in risk.lines[:3]}) == 3, "highest, 99 of 100, median"
    drawn[0].canvas.draw()
    boxes = [name.get_window_extent() for name in errors.get_yticklabels()]
    assert all(not one.overlaps(other) for one, other in pairwise(boxes))
    assert not risk.get_legend().get_window_extent().overlaps(risk.get_window_extent())


@pytest.mark.slow
def test_a_picture_that_cannot_be_written_is_an_error(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ("plan", files / "schedule.json", "--priors", files / "priors.json")
    assert call(monkeypatch, *own, "--plot", files / "none" / "plan.png") == 1
    assert "must be written" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("servers", "work"), [((), 2_400_000_000), (("nowhere:9092",), 3_000_000)])
def test_a_plan_has_the_risks_of_the_run_bit_for_bit_where_work_is_scarce(
    tmp_path: Path, servers: tuple[str, ...], work: int
) -> None:
    """Who gets the refined bounds goes by pseudonym: the plan must split people as the run does."""
    random = np.random.default_rng(3)
    people = deciding.people(random, 70, LOCATIONS)
    sensors = [[s.name[1:] for s in deciding.random_sensors(random, LOCATIONS, most=4)] for _ in range(STEPS)]
    steps = [{"sensors": names, "mechanism": "raw"} if names else {"sensors": []} for names in sensors]
    (tmp_path / "schedule.json").write_text(json.dumps({"steps": steps}))
    budget = {"share": 0.4, "added": 0.3, "exact_up_to": 20}
    given = settings(
        release={"mechanism": "budget", "budget": budget},
        sharpen_operations=work,
        kafka={"servers": servers},
        most_exposed=0,  # a plan names nobody, and does not try an attack
        attack_draws=0,
        sampled_above=0.05,
    )
    planned = plan_releases(given, tmp_path / "schedule.json", people)
    messages = messages_of(steps)
    options = RunOptions(tmp_path / "out", schedule=tmp_path / "schedule.json")
    run(given, options, people, chunks=[lines_of(messages)])
    lines = (tmp_path / "out/risks.jsonl").read_bytes().splitlines()
    summaries = [RiskSummary.model_validate_json(each) for each in lines if b'"risk_summary"' in each]
    assert [step.recorded for step in planned.steps] == summaries
    assert any(each.sampled and each.sampled.people for each in summaries) == (work > 10**8)
    assert planned.verdict == verdict_of(read_run(tmp_path / "out")).parts[0][1]
    assert planned.as_run
    cleared = sum(step.decided.why.cleared for step in planned.steps if step.decided.why)
    not_reached = sum(step.risks.not_reached for step in planned.steps)
    assert (cleared > 0, not_reached > 0) == (work > 10**8, work < 10**8)
    without = given.model_copy(update={"pseudonym_key_secret": None})
    assert not plan_releases(without, tmp_path / "schedule.json", people).as_run


def vary(files: Path) -> tuple[str, ...]:
    """Other priors of other people, the same priors again, and two radii."""
    others = population(9)
    save_population(others, files / "others.json")
    save_population(population(), files / "again.json")
    named = ("survey 2019=" + str(files / "others.json"), "again=" + str(files / "again.json"))
    return tuple(f for name in (*named, "none=0", "radius=0.1") for f in ("--vary", name))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["informed", "crowd", "refuted"])
@pytest.mark.parametrize("limit", [{"added": 0.01}, {"added": 0.9}, {"risk": 0.999}], ids=str)
def test_a_plan_answers_whether_a_rule_that_decides_nothing_is_kept_as_the_report_will(
    files: Path, limit: dict[str, float], kind: str
) -> None:
    given = settings(
        release={"mechanism": "raw", "budget": {"share": 0.2, **limit}},
        attack_draws=0,
        **({"crowd": {"on": True}, "adversary": "crowd"} if kind == "crowd" else {}),
    )
    if kind == "refuted":
        given = given.model_copy(update={"priors_check": refuting()})
    planned = plan_releases(given, files / "schedule.json", population())
    messages = messages_of(json.loads((files / "schedule.json").read_text())["steps"], count=1)
    run(given, RunOptions(files / "out"), population(), chunks=[lines_of(messages)])
    log = read_run(files / "out")
    verdict, said = verdict_of(log), planned.verdict_as_json()
    assert planned.verdict == verdict.parts[0][1]
    assert said is not None
    if kind != "refuted" and "added" in limit:
        assert said["answer"] == ("yes" if limit["added"] > 0.5 else "no")
    of_run = verdict_in_words(verdict, log).replace("the records:", "the plan:")
    assert said["sentence"] == of_run.replace(" was ", " is ").replace(" were ", " are ").replace(
        "the priors are refuted", "the priors were refuted"
    )


def test_a_plan_says_its_answer(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = (
        "plan",
        files / "schedule.json",
        "--priors",
        files / "priors.json",
        "--config",
        files / "settings.toml",
    )
    assert call(monkeypatch, *own) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "May this be published? Yes, if habits are as assumed: 1 of 6 people may be over the limit" in said


def test_alternatives_account_the_same_releases(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside the plan's own figures, to the last bit; a radius raises ceilings, and has no added risk."""
    own = ("--config", files / "settings.toml", "--risk", 0.6, "--added", 1.0)
    without = plan(files, monkeypatch, capsys, *own)
    assert without["alternatives"] == []
    planned = plan(files, monkeypatch, capsys, *own, *vary(files))
    assert planned["steps"] == without["steps"]
    given, survey, again, none, radius = planned["alternatives"]
    assert [given["name"], survey["name"], radius["name"]] == ["as given", "survey 2019", "radius"]
    steps = planned["steps"]
    assert given["mean_ceiling"] == pytest.approx(np.mean([step["mean_risk"] for step in steps]), rel=1e-12)
    assert given["mean_guess"] == pytest.approx(np.mean([step["mean_baseline"] for step in steps]), rel=1e-12)
    assert given["highest_ceiling"] == max(step["risk"]["1"] for step in steps)
    figures = ("mean_guess", "mean_ceiling", "highest_ceiling", "most_added", "over", "keeps_rule")
    assert [given[name] for name in figures] == [again[name] for name in figures]
    assert [given[name] for name in figures] == [none[name] for name in figures]
    assert (survey["people"], given["people"]) == (9, 6)
    assert survey["mean_ceiling"] != given["mean_ceiling"]
    expected = plan_releases(settings(), files / "schedule.json", population()).alternatives
    assert expected == ()
    assert radius["mean_guess"] == given["mean_guess"]
    assert radius["mean_ceiling"] > given["mean_ceiling"]
    assert (radius["most_added"], radius["over"], radius["keeps_rule"]) == (None, None, None)
    assert "within 0.1 nats of these priors" in radius["rests_on"]


@pytest.mark.slow
def test_a_rule_on_the_ceiling_is_answered_for_each_alternative(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kept as decided; within a radius more people are over the limit. The terminal says the same."""
    (files / "rule.toml").write_text(
        'horizon = 4\nmistakes = 1\nsharpen_operations = 2_000_000\n[release]\nmechanism = "budget"\n'
        "[release.budget]\nshare = 0.2\nrisk = 0.9\n"
    )
    own = ("--config", files / "rule.toml", "--vary", "much=1.5")
    given, much = plan(files, monkeypatch, capsys, *own)["alternatives"]
    assert given["keeps_rule"] is True
    assert (given["allowed"], much["allowed"]) == (1, 1)
    assert much["over"] > given["over"]
    assert much["keeps_rule"] is False
    shown = ("plan", files / "schedule.json", "--priors", files / "priors.json", *own)
    assert call(monkeypatch, *shown) == 0
    out = capsys.readouterr().out
    assert "much: ceilings hold within 1.5 nats of these priors, over all steps together." in out
    (row,) = [line.split() for line in out.splitlines() if line.strip().startswith("much ")]
    assert row[-1] == "no"
    before = out.split("The same releases")[0]
    _, heading, table = before.rpartition("If habits are")  # the headline begins so, too
    lines = (heading + table).splitlines()
    assert "Rule kept" in lines[0]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("specs", "said"),
    [
        (("radius",), "an alternative must be a name of its own, =, and nats or a priors file"),
        (("as given=0.1",), "a name of its own"),
        (("r=-1",), "a radius must be 0 or more nats, got -1"),
        (("r=nan",), "a radius must be 0 or more nats"),
        (("r=0.1", "r=0.2"), "each alternative must have a name of its own"),
        (("x=none.json",), "none.json"),
        (("x=elsewhere.json",), "alternative priors must have the same locations, in the same order"),
    ],
)
def test_alternatives_that_are_none_end_in_a_sentence(
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    specs: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(files)
    document = json.loads((files / "priors.json").read_text())
    document["locations"] = [f"{name}!" for name in document["locations"]]
    (files / "elsewhere.json").write_text(json.dumps(document))
    options = [option for each in specs for option in ("--vary", each)]
    assert call(monkeypatch, "plan", "schedule.json", "--priors", "priors.json", *options) == 1
    assert said in capsys.readouterr().err


def test_personas_count_as_many_people_as_they_stand_for(files: Path) -> None:
    """Means and people over the limit are weighted; the highest ceiling is anybody's."""
    from dataclasses import replace

    from stream_app.analysis.alternatives import Alternative, answers

    given, people = settings(), population()
    weights = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 995.0])
    heavy = replace(people, weights=weights)
    steps = [step.decided.schedule for step in plan_releases(given, files / "schedule.json", people).steps]
    plain, weighted = answers(
        [Alternative.given(each, people.people, given) for each in (people, heavy)], steps, given, 0
    )
    assert (plain.people, weighted.people) == (6, 1000)
    heaviest = Alternative.given(people.subset([5]), people.people[5:], given)
    (last,) = answers([heaviest], steps, given, 0)
    assert weighted.mean_ceiling == pytest.approx(last.mean_ceiling, abs=0.006)
    assert weighted.highest_ceiling == plain.highest_ceiling


def test_alternatives_of_a_plan_in_the_crowd_hide_among_people_with_the_same_habits(files: Path) -> None:
    """As given they are the plan's own figures; a file's are those of a crowd of its people."""
    given = settings(adversary="crowd", crowd={"on": True}, sharpen=False)
    many = population(9)
    save_population(many, files / "many.json")
    specs = [f"many={files / 'many.json'}", "radius=0.1"]
    planned = plan_releases(given, files / "schedule.json", population(), alternatives=specs)
    own, others, radius = planned.alternatives
    assert planned.crowd is not None
    steps = [step.decided.accounted for step in planned.steps]
    assert own.mean_ceiling == pytest.approx(np.mean([each.mean_risk for each in planned.crowd.steps]))
    assert own.mean_ceiling != pytest.approx(np.mean([each.risks.mean_risk for each in planned.steps]))
    both = BothAccounts(many, given.crowd_adversary, given.horizon_settings(0))
    highest = 0.0
    for step in steps:
        both.apply(step)
        highest = max(highest, float(both.risk().max()))
    assert (others.people, others.highest_ceiling) == (len(many), highest)
    assert (radius.most_added, radius.over) == (None, None)
    assert radius.mean_ceiling > own.mean_ceiling


@pytest.mark.slow
def test_a_report_has_the_table_to_sign(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run's own figures first, then the same releases under each alternative; priors are needed."""
    budget = {"mechanism": "gaussian", "budget": {"share": 0.2, "risk": 0.9}}
    messages = [activation(t, "A", "B") for t in range(6)]
    messages += [reading(t, name, 7) for t in range(6) for name in ("A", "B")]
    keys = {"noise_key_secret": hex_key("11"), "pseudonym_key_secret": hex_key("22")}
    for name, value in keys.items():
        monkeypatch.setenv(f"TALLYGUARD_{name.upper()}", value)
    run_on(files / "out", [lines_of(messages)], settings={"release": budget})
    own = ("report", files / "out", "--output", files / "report.html")
    assert call(monkeypatch, *own, "--vary", "radius=0.1") == 0  # by the copy in the folder
    (copy,) = (files / "out").glob("priors-*.parquet")
    copy.rename(files / "lost.parquet")
    assert call(monkeypatch, *own, "--vary", "radius=0.1") == 2
    assert "must hold a copy of the priors" in " ".join(capsys.readouterr().err.replace("│", " ").split())
    (files / "lost.parquet").rename(copy)
    for other_section in ("lowering", "exposed_in_hindsight"):  # which take more than all else together
        monkeypatch.setattr(f"stream_app.analysis.report.write.{other_section}", lambda *_: None)
    assert call(monkeypatch, *own, "--priors", files / "priors.json", *vary(files)) == 0
    text = (files / "report.html").read_text()
    section = text.split("If habits are otherwise</h2>")[1].split("</section>")[0]
    words = PageText(section).words
    assert "survey 2019" in words
    assert "radius: ceilings hold within 0.1 nats of these priors, over all steps together." in section
    assert "Signature" in section
    from stream_app.analysis.report import read_run
    from stream_app.watching.wording import ceiling_in_words

    log = read_run(files / "out")
    mean = float(np.mean([each.mean_risk for each in log.summaries]))
    ceilings = [ceiling_in_words(each) for each in (mean, log.view.value("most.ceiling"))]
    assert words[words.index("as given") :][2:4] == ceilings


@pytest.mark.slow
def test_a_plan_in_a_crowd_shows_both_ceilings_and_where_raw_is_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The crowd account's figures, the informed ones beside them, and what is hidden."""
    moves = np.array([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.5, 0.2, 0.3]])
    people = Population.pack([MovementPrior.from_dense(f"p{k}", moves) for k in range(80)])
    save_population(people, tmp_path / "priors.json")
    steps = [{"sensors": [k % 2, 2], "mechanism": "raw"} for k in range(6)]
    (tmp_path / "schedule.json").write_text(json.dumps({"steps": steps}))
    more = ("--horizon", "3", "--mistakes", "0")
    plain = plan(tmp_path, monkeypatch, capsys, *more)
    found = plan(tmp_path, monkeypatch, capsys, *more, "--adversary", "crowd", "--known", "5")
    account = BothAccounts(people, CrowdAdversary(known=5), HorizonSettings(3, 0, operations=60_000_000_000))
    assert "adversary" not in plain
    assert (found["adversary"], found["crowd"]["others"], found["crowd"]["known"]) == ("crowd", 79, 5)
    sigmas: dict[tuple[str, int], list[float]] = {}
    for number, (step, informed) in enumerate(zip(found["steps"], plain["steps"], strict=True)):
        raw = Schedule.of([[number % 2, 2]], Raw()).steps[0].releases
        account.apply(StepSchedule(number, raw))
        assert step["mean_risk"] == account.summary().mean_risk < informed["mean_risk"]
        assert step["risk"]["1"] == account.risk().max()
        assert step["informed"]["risk"] == informed["risk"]
        assert (step["attack"], step["mean_baseline"]) == (None, informed["mean_baseline"])
        for name, crowd in zip((str(number % 2), "2"), account.crowds, strict=True):
            sigmas.setdefault((name, 0), []).append(HidingCrowd(crowd, account.adversary).sigma)
    hidden = {(each["sensor"], each["slot"]): each["sigma"] for each in found["crowd"]["hidden"]}
    assert hidden == {where: min(each) for where, each in sigmas.items()}
    own = ("plan", tmp_path / "schedule.json", "--priors", tmp_path / "priors.json", "--adversary", "crowd")
    assert call(monkeypatch, *own, *more, "--known", "5") == 0
    shown = capsys.readouterr().out
    assert found["crowd"]["condition"] in shown
    assert shortened(max(hidden.values()), 1, DOWN) in shown
    assert call(monkeypatch, *own, *more, "--plot", tmp_path / "plan.png") == 0
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_settings_with_a_crowd_show_both_ceilings_of_a_plan(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The option names another adversary, and says whom it knows; else the settings' own count."""
    common = 'horizon = 4\nmistakes = 1\n[release]\nmechanism = "raw"\n'
    crowd = "[crowd]\non = true\nknown = 1\n"
    (files / "shown.toml").write_text(common + crowd)
    (files / "counts.toml").write_text('adversary = "crowd"\n' + common + "[crowd]\nknown = 1\n")
    named = ("--adversary", "crowd")
    plain = plan(files, monkeypatch, capsys, "--horizon", 4, "--mistakes", 1)
    flag = plan(files, monkeypatch, capsys, "--horizon", 4, "--mistakes", 1, *named, "--known", 1)
    shown = plan(files, monkeypatch, capsys, "--config", files / "shown.toml")
    counts = plan(files, monkeypatch, capsys, "--config", files / "counts.toml")
    assert counts == plan(files, monkeypatch, capsys, "--config", files / "shown.toml", *named) == flag
    other = plan(files, monkeypatch, capsys, "--config", files / "shown.toml", *named, "--known", 2)
    assert (counts["crowd"]["known"], other["crowd"]["known"]) == (1, 2)
    assert (
        plan(files, monkeypatch, capsys, "--config", files / "counts.toml", "--adversary", "informed")
        == plain
    )
    assert (shown["adversary"], counts["adversary"]) == ("informed", "crowd")
    for ours, theirs, before in zip(shown["steps"], counts["steps"], plain["steps"], strict=True):
        assert ours["risk"] == theirs["informed"]["risk"] == before["risk"]
        assert ours["in_crowd"]["risk"] == theirs["risk"]
        assert (ours["attack"], theirs["attack"]) == (before["attack"], None)
    own = (
        "plan",
        files / "schedule.json",
        "--priors",
        files / "priors.json",
        "--config",
        files / "shown.toml",
    )
    assert call(monkeypatch, *own, "--vary", "radius=0.1", "--plot", files / "plan.png") == 0
    printed = capsys.readouterr().out
    assert "In crowd" in printed
    assert "Alternatives are against whoever knows" in printed


@pytest.mark.slow
def test_a_report_says_how_a_run_stands_among_the_others(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both ceilings of the same steps, the condition, and what is hidden where; priors are needed."""
    messages = [activation(t, "A", "B") for t in range(6)]
    messages += [reading(t, name, 7) for t in range(6) for name in ("A", "B")]
    keys = {"noise_key_secret": hex_key("11"), "pseudonym_key_secret": hex_key("22")}
    for name, value in keys.items():
        monkeypatch.setenv(f"TALLYGUARD_{name.upper()}", value)
    run_on(files / "out", [lines_of(messages)], settings={"release": {"mechanism": "raw"}})
    own = ("report", files / "out", "--output", files / "report.html", "--adversary", "crowd")
    assert call(monkeypatch, *own) == 0  # by the copy in the folder
    (copy,) = (files / "out").glob("priors-*.parquet")
    copy.rename(files / "lost.parquet")
    assert call(monkeypatch, *own) == 2
    assert "must hold a copy of the priors" in " ".join(capsys.readouterr().err.replace("│", " ").split())
    (files / "lost.parquet").rename(copy)
    assert call(monkeypatch, *own, "--priors", files / "priors.json", "--known", "1") == 0
    text = (files / "report.html").read_text()
    section = text.split("Among the others</h2>")[1].split("</section>")[0]
    people = population()
    steps = [StepSchedule(t, Schedule.of([[0, 1]], Raw()).steps[0].releases) for t in range(6)]
    account = BothAccounts(people, CrowdAdversary(known=1), settings().horizon_settings(0))
    summaries = []
    for step in steps:
        account.apply(step)
        summaries.append((account.summary(), account.informed.summary()))
    crowd, informed = summaries[-1]
    words = PageText(section).words
    ceilings = [ceiling_in_words(each.mean_risk) for each in (crowd, informed)]
    assert words[words.index("after step 5, the last") :][2:4] == ceilings
    assert "if the 5 others, except 1 whom the adversary may follow, move independently" in section
    assert section.count(" style=") == 2 * 1
    assert call(monkeypatch, *own[:-2], "--priors", files / "priors.json") == 0
    assert "Among the others" not in (files / "report.html").read_text()


def test_noise_for_an_accuracy_keeps_it_and_says_what_it_costs(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sigma by sensor and hour, absolute and relative; ceilings and epsilon by unit; a schedule that runs."""
    (files / "fast.toml").write_text("horizon = 2\nmistakes = 0\nsharpen = false\n")
    fast = ("--config", files / "fast.toml")
    more = (*fast, "--within", 5, "--in", 90, "--write", files / "nearer.json")
    found = plan(files, monkeypatch, capsys, *more)
    assert found["target"] == "each value is within 5 people, 90 times in 100"
    noises = {sigma for by_hour in found["sigma"].values() for sigma in by_hour.values()}
    assert noises == {3.356}  # 3.35620 of the reference, rounded down
    wanted, today = found["choices"]
    assert (wanted["within"], today["within"]) == (5, 0)
    assert 0.0 < wanted["highest_mean_added"] < today["highest_mean_added"]
    assert wanted["highest_ceiling"] < today["highest_ceiling"]
    units = {each["unit"]: each["epsilon"] for each in wanted["differential_privacy_by_unit"]}
    assert 0.0 < units["visit"] <= units["day"] <= units["whole log"]
    assert {each["epsilon"] for each in today["differential_privacy_by_unit"]} == {None}
    priors = ("--priors", files / "priors.json")
    assert call(monkeypatch, "ledger", files / "nearer.json", *fast, *priors, "--json") == 0
    ledger = json.loads(capsys.readouterr().out)
    assert ledger["differential_privacy_by_unit"] == wanted["differential_privacy_by_unit"]
    assert found["plan"]["differential_privacy_by_unit"] == wanted["differential_privacy_by_unit"]

    by_day = plan(files, monkeypatch, capsys, *fast, "--within", 5, "--for", "day")["sigma"]
    assert {sigma for each in by_day.values() for sigma in each.values()} == {0.5846}
    people = population()
    expected = {
        name: sum(
            float(people.chain(person).start[0][people.chain(person).places.tolist().index(place)])
            for person in range(len(people))
            if place in people.chain(person).places
        )
        for place, name in enumerate(NAMES)
    }
    share = round(105.0 / max(expected.values()))  # others expect too few people
    relative = plan(files, monkeypatch, capsys, *fast, "--within", f"{share}%", "--in", 80)
    for name, by_hour in relative["sigma"].items():
        within = int(share * expected[name] / 100.0)
        assert set(by_hour.values()) == {None if within == 0 else largest_sigma_to_four_digits(within)}
    assert {sigma is None for each in relative["sigma"].values() for sigma in each.values()} == {True, False}


def largest_sigma_to_four_digits(within: int) -> float:
    return float(f"{largest_sigma(within, 0.8) - 5e-4:.3f}")


def test_accuracies_that_cannot_be_are_refused_in_a_sentence(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    schedule = files / "schedule.json"
    for arguments, words in (
        (("--within", "five"), "number of people"),
        (("--within", "5", "--in", "30"), "so often in 100"),
        (("--within", "10%"), "give --priors"),
    ):
        names = ("--config", write_locations(files))
        assert call(monkeypatch, "plan", schedule, *names, *arguments) == 1
        assert words in " ".join(capsys.readouterr().err.split())


def test_without_priors_no_risk_is_told_by_sampling_either(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TALLYGUARD_SAMPLED_ABOVE", "0.1")
    steps = [{"sensors": [0], "mechanism": "gaussian", "sigma": 2.0}] * 2
    (files / "noised.json").write_text(json.dumps({"steps": steps}))
    own = ("plan", files / "noised.json", "--config", write_locations(files), "--json")
    assert call(monkeypatch, *own) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(step["risk"], step.get("sampled")) for step in found["steps"]] == [(None, None)] * 2


def write_locations(files: Path) -> Path:
    (files / "locations.txt").write_text("".join(f"{name}\n" for name in NAMES))
    (files / "without.toml").write_text('locations = "locations.txt"\n')
    return files / "without.toml"
