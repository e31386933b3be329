"""Priors that real traces refuted as too low: every place shows the raised ceilings, and says why."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from accounting.bounds.radius import ceiling_within
from accounting.ledgers import ReleaseLog, read_reconstruction
from accounting.settings import RiskBudget
from models.mechanisms import Raw
from models.prior_files import save_population
from models.releases import SensorRelease, StepSchedule
from stream_app.analysis.alternatives import Alternative, answers, vary
from stream_app.analysis.planning import plan_releases
from stream_app.analysis.report import read_run, write_report
from stream_app.analysis.verdict import CeilingKind, MayPublish, verdict_on
from stream_app.embedded import RunOptions, run
from stream_app.exceptions import OutputError, RunChangedError, SettingsError
from stream_app.setup.given_priors import population_of
from stream_app.setup.priors_verdict import PriorsVerdict, load_priors_check
from stream_app.setup.run_folder.run_settings import settings_of_run
from stream_app.setup.settings import Settings
from stream_app.setup.settings_sources import load_settings
from stream_app.watching.events import Observers
from stream_app.watching.metrics import EngineMetrics
from stream_app.watching.web.answers import render, state_json
from stream_app.watching.web.status import PeopleBoard, StatusBoard
from stream_app.watching.wording import ceiling_in_words, sentence_case
from tests.stream_app.engine_support import REGISTRY, lines_of, messages_of_a_day, population, settings
from tests.watching.page_text import text_of_page

KAPPA = 0.1
GROUP = {"people": 423, "predicted": 0.29, "realised": 0.42, "low": 0.37, "high": 0.47}


def verdict(said: str = "ceilings too low", kappa: float = KAPPA) -> PriorsVerdict:
    """A check of the priors of these tests on 423 people."""
    found = {"people": 423, "steps": 5, "mistakes": 1, "verdict": said, "kappa_min": kappa}
    group = {**GROUP, "verdict": "ceilings too low"}
    lowest = {**group, "people": 106, "predicted": 0.08, "realised": 0.27, "low": 0.19, "high": 0.36}
    document = {
        "priors": population().fingerprint,
        **found,
        "everybody": group,
        "groups": [lowest, group],
        "sharpness": {"z": 2.7},
    }
    return PriorsVerdict.model_validate(document)


def checked(check: PriorsVerdict | None, **changes: Any) -> Settings:
    refined = {"sharpen_operations": 10**9}  # by the fast bound alone ceilings reach 1 within a day
    return settings().model_copy(update={"priors_check": check, "most_exposed": 3, **refined, **changes})


@dataclass(frozen=True)
class Seen:
    """A run as each place shows it."""

    folder: Path
    registry: CollectorRegistry
    status: StatusBoard
    people: PeopleBoard
    settings: Settings

    @property
    def state(self) -> dict[str, Any]:
        return dict(json.loads(state_json(self.status.read(), self.settings, has_people=True)))


def seen(folder: Path, given: Settings) -> Seen:
    """A day, watched."""
    registry, status, people = CollectorRegistry(), StatusBoard(), PeopleBoard("token")
    metrics = EngineMetrics(registry, [], given.thresholds, 1e-6, settings=given)
    lines = lines_of(messages_of_a_day(8, 1))
    observer = Observers([metrics, status, people])
    run(given, RunOptions(folder), population(), chunks=[lines], observer=observer)
    return Seen(folder, registry, status, people, given)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Seen, Seen]:
    """The same day without a check, and with one that refutes."""
    folder = tmp_path_factory.mktemp("refuted")
    return seen(folder / "plain", checked(None)), seen(folder / "raised", checked(verdict()))


@pytest.mark.slow
def test_every_place_shows_the_same_raised_ceilings(both: tuple[Seen, Seen]) -> None:
    """Log, page, metrics, people by pseudonym; guess, attack and added are the prior's."""
    plain, raised = (read_run(each.folder) for each in both)
    for before, after in zip(plain.summaries, raised.summaries, strict=True):
        assert after.within_nats == KAPPA
        assert after.risk == {level: ceiling_within(KAPPA, value) for level, value in before.risk.items()}
        assert (after.baseline, after.added, after.attack) == (before.baseline, before.added, before.attack)
    last, shown = raised.summaries[-1], both[1]
    assert last.mean_risk > plain.summaries[-1].mean_risk
    assert shown.state["summary"]["mean_risk"] == last.mean_risk
    value = shown.registry.get_sample_value
    assert value("tallyguard_risk_mean") == last.mean_risk
    assert value("tallyguard_risk_quantile", {"quantile": "1"}) == last.risk["1.0"]
    assert value("tallyguard_highest_risk") == last.most_risk
    rows = shown.people.exposed(0.0)["people"]
    assert max(row["risk"] for row in rows) == last.risk["1.0"]
    assert max(row["added"] for row in rows) == last.added["1.0"]
    assert [each.risk for each in raised.exposed] == [ceiling_within(KAPPA, e.risk) for e in plain.exposed]
    why, unraised = (each.people.why(rows[0]["person"]) for each in reversed(both))
    assert why is not None
    assert unraised is not None
    assert why["certified"] == ceiling_within(KAPPA, unraised["certified"])
    assert why["hindsight"]["now"] == ceiling_within(KAPPA, unraised["hindsight"]["now"])


def test_every_place_says_that_the_priors_were_refuted_and_on_how_many(
    both: tuple[Seen, Seen], tmp_path: Path
) -> None:
    """The condition stands beside the number: page, plain page, report, plan."""
    _, shown = both
    said = "the priors were refuted on 423 people, because ceilings were too low"
    short = "if each person is within 0.1 nats of priors refuted on 423 people"
    state = shown.state
    assert said in state["note"]
    assert (state["about"]["condition"], state["about"]["is_raised"]) == (short, True)
    plain = render(shown.status.read(), shown.settings)
    assert said in plain
    assert f"Ceiling, {short}" in plain
    write_report(shown.folder, tmp_path / "report.html")
    report = text_of_page((tmp_path / "report.html").read_text())
    assert said in report
    assert f"Ceiling, {short}" in report
    assert "lowest predictions 106 8 in 100 27 in 100 (19 to 36)" in report
    assert "if habits are as assumed, no method is right" not in report.lower()
    log = read_run(shown.folder)
    answer = (
        f"{sentence_case(short)}, no method is right in more than {ceiling_in_words(log.worst.mean_risk)}"
    )
    assert answer in report
    assert "not known" in report
    (tmp_path / "day.json").write_text(json.dumps({"steps": [{"sensors": ["A"], "mechanism": "raw"}]}))
    planned = plan_releases(shown.settings, tmp_path / "day.json", population())
    unraised = plan_releases(checked(None), tmp_path / "day.json", population())
    assert said in (planned.note or "")
    highest = [each.steps[0].risks.risk_quantiles[1.0] for each in (planned, unraised)]
    assert highest[0] == ceiling_within(KAPPA, highest[1]) > highest[1]


@pytest.mark.slow
def test_a_rule_on_the_ceiling_holds_for_the_raised_ones_and_one_on_added_cannot_be_answered(
    both: tuple[Seen, Seen], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Yes becomes no where raising makes the difference; for added risk nobody says yes."""
    plain, raised = (read_run(each.folder) for each in both)
    between = (plain.view.value("most.ceiling") + raised.view.value("most.ceiling")) / 2
    answers = []
    for check in (None, verdict()):
        for number, limit in enumerate(({"risk": between}, {"added": 0.9}, {"risk": between, "added": 0.9})):
            release = settings().release.model_copy(
                update={"budget": settings().release.budget.model_copy(update=limit)}
            )
            folder = tmp_path / f"{check is None}{number}"
            seen(folder, checked(check, release=release))
            write_report(folder, folder / "report.html")
            answers.append(
                (folder / "report.html").read_text().split('class="verdict"')[1].split(">")[1][:60]
            )
    assert [answer.startswith("Yes, if habits are as assumed") for answer in answers[:3]] == [True] * 3
    assert answers[3].startswith("No: even if each person is within 0.1")
    assert answers[4].startswith("Not shown: the priors were refuted")
    assert answers[5].startswith("No: even if each person is within 0.1")
    assert caplog.text.count("limit the ceiling with release.budget.risk") == 2


@pytest.mark.slow
def test_priors_that_were_not_refuted_change_no_figure_and_are_said_to_be_no_proof(tmp_path: Path) -> None:
    """So are ceilings that are too high."""
    before = read_run(seen(tmp_path / "none", checked(None)).folder)
    for said, words in (
        ("not refuted by 423 people", "not refuted, which is no proof"),
        ("ceilings too high", "too high, which errs on the safe side"),
    ):
        shown = seen(tmp_path / said, checked(verdict(said)))
        assert read_run(shown.folder).summaries == before.summaries
        assert words in shown.state["note"]
        assert shown.state["about"]["condition"] == "if habits are as assumed"


@pytest.mark.slow
def test_a_run_goes_on_when_its_priors_are_refuted_and_the_report_says_from_when(tmp_path: Path) -> None:
    """What was published stays; later steps have raised ceilings."""
    folder, days = tmp_path / "out", messages_of_a_day(8, 1)
    half = [each for each in days if each.step < 4]
    run(checked(None), RunOptions(folder, keep_open=True), population(), chunks=[lines_of(half)])
    begun = read_run(folder).summaries[-1].step
    run(checked(verdict()), RunOptions(folder), population(), chunks=[lines_of(days)])
    log = read_run(folder)
    assert 0 < begun < log.raised_from <= log.summaries[-1].step
    assert {each.within_nats for each in log.summaries} == {0.0, KAPPA}
    write_report(folder, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert f"Ceilings before {log.when(log.raised_from)} were computed before that was known" in text


@pytest.mark.slow
def test_steps_from_before_the_check_are_held_to_the_rule_as_raised(
    both: tuple[Seen, Seen], tmp_path: Path
) -> None:
    """The same answer as if the check had been there from the start, never a yes that raising takes back."""
    plain, raised = (read_run(each.folder) for each in both)
    highest = [summary.risk["1.0"] for log in (plain, raised) for summary in log.summaries]
    found = set()
    for level in sorted({*highest, *(value * 1.001 for value in highest), 0.05, 1.0}):
        limit = RiskBudget(risk=min(level, 1.0))
        recorded, known = (
            verdict_on(log.summaries, {}, limit, ceilings=CeilingKind(KAPPA)) for log in (plain, raised)
        )
        assert recorded.answer is known.answer
        found.add((verdict_on(plain.summaries, {}, limit).answer, known.answer))
        for number in range(1, 6):
            limit = RiskBudget(number / 10, risk=min(level, 1.0))
            recorded, known = (
                verdict_on(log.summaries, {}, limit, ceilings=CeilingKind(KAPPA)) for log in (plain, raised)
            )
            assert {recorded.answer, known.answer} != {MayPublish.YES, MayPublish.NO}
    assert found == {
        (MayPublish.YES, MayPublish.YES),
        (MayPublish.YES, MayPublish.NO),
        (MayPublish.NO, MayPublish.NO),
    }
    before = plain.summaries[0].model_copy(update={"within_nats": KAPPA / 2})
    limit = RiskBudget(risk=before.risk["1.0"])
    assert verdict_on((before,), {}, limit).answer is MayPublish.YES
    assert verdict_on((before,), {}, limit, ceilings=CeilingKind(KAPPA)).answer is MayPublish.OPEN


@pytest.mark.slow
def test_the_report_of_a_run_that_got_its_check_late_answers_for_all_steps(
    both: tuple[Seen, Seen], tmp_path: Path
) -> None:
    """A limit that every step kept, as far as was known then."""
    level = read_run(both[0].folder).view.value("most.ceiling")
    budget = settings().release.budget.model_copy(update={"risk": level})
    release = settings().release.model_copy(update={"budget": budget})
    folder, days = tmp_path / "out", messages_of_a_day(8, 1)
    half = [each for each in days if each.step < 4]
    before = checked(None, release=release)
    run(before, RunOptions(folder, keep_open=True), population(), chunks=[lines_of(half)])
    run(checked(verdict(), release=release), RunOptions(folder), population(), chunks=[lines_of(days)])
    log = read_run(folder)
    broken = [ceiling_within(KAPPA - each.within_nats, each.risk["1.0"]) > level for each in log.summaries]
    assert any(broken[: log.raised_from])
    write_report(folder, tmp_path / "report.html")
    said = f"the rule is broken at {sum(broken)} of {len(broken)} steps"
    assert said in (tmp_path / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("weaker", [None, verdict(kappa=KAPPA / 2), verdict("not refuted by 423 people")])
def test_a_run_goes_on_with_less_than_it_knew_of_its_priors_only_when_told_to(
    weaker: PriorsVerdict | None, tmp_path: Path
) -> None:
    """Ceilings would fall, the budget would loosen, and the report would not say that they were refuted."""
    folder, days = tmp_path / "out", messages_of_a_day(8, 1)
    half = [each for each in days if each.step < 4]

    def goes_on(check: PriorsVerdict | None, **options: Any) -> None:
        run(checked(check), RunOptions(folder, **options), population(), chunks=[lines_of(days)])

    run(checked(verdict()), RunOptions(folder, keep_open=True), population(), chunks=[lines_of(half)])
    with pytest.raises(RunChangedError, match=r'"kappa_min": 0.1}, is .*accept it .* --accept-changes'):
        goes_on(weaker)
    goes_on(verdict(kappa=2 * KAPPA))
    with pytest.raises(RunChangedError, match="priors_check was"):
        goes_on(verdict())
    assert read_run(folder).is_raised
    with pytest.raises(RunChangedError, match=r"must have a reason \(priors_check\)"):
        goes_on(weaker, accept_changes=True)
    goes_on(weaker, accept_changes=True, reason="the traces were of another city")


def test_a_check_of_other_priors_or_another_file_is_refused(tmp_path: Path) -> None:
    """With what to do about it, wherever it is named."""
    check = tmp_path / "check.json"
    check.write_text(verdict().model_dump_json())
    (tmp_path / "t.toml").write_text('priors_check = "check.json"\n')
    assert load_settings(tmp_path / "t.toml").priors_check == verdict()
    other = population(7)
    with pytest.raises(SettingsError, match="priors_check must be of the priors that are used"):
        verdict().require(other)
    save_population(other, tmp_path / "others.json")
    with pytest.raises(SettingsError, match="check these: tallyguard priors check"):
        population_of(load_settings(tmp_path / "t.toml"), tmp_path / "others.json")
    for wrong in ("[]", "{", json.dumps({**json.loads(verdict().model_dump_json()), "kappa_min": -1})):
        check.write_text(wrong)
        with pytest.raises(OutputError, match="must be the JSON of `tallyguard priors check --json`"):
            load_priors_check(check)
        with pytest.raises(SettingsError, match="setting priors_check must be valid"):
            load_settings(tmp_path / "t.toml")


@pytest.mark.slow
def test_a_limit_with_habits_apart_is_kept_by_more_people_only_within_smaller_radii(tmp_path: Path) -> None:
    """Under a check it lets nothing through that it did not without; ``--vary`` says so of each radius."""
    limit = {"risk": 0.3, "share": 0.0, "habits": "apart"}
    budget = settings().release.budget.model_copy(update=limit)
    release = settings().release.model_copy(update={"mechanism": "budget", "budget": budget})
    released = []
    for check in (None, verdict(kappa=0.14)):
        folder = tmp_path / str(check is None)
        seen(folder, checked(check, release=release))
        released.append(sum(read_run(folder).releases.values()) - read_run(folder).releases["suppressed"])
    assert released[1] <= released[0]
    given = Alternative.given(population(), population().people, checked(None))
    radii = vary(given, [f"{nats:g} nats={nats:g}" for nats in (0.001, 0.01, 0.05, 0.14, 0.5, 2.0)])
    steps = [StepSchedule(t, (SensorRelease(REGISTRY.get("A"), Raw()),)) for t in range(5)]
    for risk in (0.3, 0.6, 0.9):
        budget = budget.model_copy(update={"risk": risk})
        release = release.model_copy(update={"budget": budget})
        over = [each.over for each in answers(radii, steps, checked(None, release=release), 0)]
        assert over == sorted(over)
    assert over[-1] > over[0]


def test_a_radius_that_the_check_refutes_is_no_alternative() -> None:
    """As ``audit --radius`` refuses it."""
    given = Alternative.given(population(), population().people, checked(verdict()))
    assert given.varied(f"far={KAPPA}").within_nats == KAPPA
    with pytest.raises(SettingsError, match="the check refutes any smaller one"):
        given.varied("near=0.05")


def test_the_same_priors_under_another_name_have_the_same_radius(tmp_path: Path) -> None:
    """Not the ceilings that the check refutes."""
    save_population(population(), tmp_path / "same.json")
    given = Alternative.given(population(), population().people, checked(verdict()))
    same = given.varied(f"same={tmp_path / 'same.json'}")
    assert (same.within_nats, same.rests_on) == (KAPPA, given.rests_on)


@pytest.mark.slow
def test_readers_take_no_weaker_check_than_the_run_had(tmp_path: Path) -> None:
    """A stronger one is what was found out since."""
    shown = seen(tmp_path / "out", checked(verdict()))
    assert settings_of_run(shown.folder, Settings()).priors_check == verdict()
    stronger = Settings(priors_check=verdict(kappa=2 * KAPPA))
    assert settings_of_run(shown.folder, stronger).priors_check == verdict(kappa=2 * KAPPA)
    for weaker in (verdict(kappa=KAPPA / 2), verdict("not refuted by 423 people")):
        with pytest.raises(RunChangedError, match="leave priors_check out: the run recorded it"):
            settings_of_run(shown.folder, Settings(priors_check=weaker))


def test_the_ledger_says_what_releases_added_under_the_prior(tmp_path: Path) -> None:
    """Not how far ceilings were raised: nothing released adds nothing."""
    steps = tuple(StepSchedule(t, (SensorRelease(REGISTRY.get("A"), Raw()),)) for t in range(5))
    for log in (steps, tuple(StepSchedule(t, ()) for t in range(5))):
        plain, raised = (
            read_reconstruction(ReleaseLog(log), population(), checked(check).horizon_settings(0))
            for check in (None, verdict())
        )
        assert raised.risk.max() > plain.risk.max()
        assert raised.added.tolist() == plain.added.tolist()
        assert raised.baseline.tolist() == plain.baseline.tolist()
    assert raised.added.max() < 1e-9


@pytest.mark.slow
def test_a_budget_within_the_radius_publishes_less(tmp_path: Path) -> None:
    """The same limit of the ceiling: decided for the raised ceilings, and kept by them."""
    limit = {"risk": 0.93, "share": 0.2, "sigmas": (1.0, 4.0)}
    budget = settings().release.budget.model_copy(update=limit)
    release = settings().release.model_copy(update={"mechanism": "budget", "budget": budget})
    errors = []
    for check in (None, verdict(kappa=0.02)):
        folder = tmp_path / str(check is None)
        shown = seen(folder, checked(check, release=release))
        log = read_run(folder)
        lines = (folder / "decisions.jsonl").read_text().splitlines()
        decided = [each["mechanism"] for line in lines for each in json.loads(line)["decisions"]]
        errors.append(np.mean([name == "suppressed" for name in decided]))
        write_report(folder, folder / "report.html")
        assert 'class="verdict" data-answer="yes">Yes, ' in (folder / "report.html").read_text()
        value = shown.registry.get_sample_value
        assert value("tallyguard_people_over_limit", {"by": "releases"}) <= 1
        assert log.summaries
    assert errors[0] < errors[1]
