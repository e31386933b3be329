"""`tallyguard serve`: a run's folder shows what its engine had shown; what-if answers as a run would end."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry

from models.prior_files import save_population
from stream_app.analysis.checked_run import check_plans, is_of_plans
from stream_app.analysis.report import read_run
from stream_app.analysis.served import Plans, RunReader, answer_of_run, sources
from stream_app.analysis.verdict import verdict_in_words, verdict_of
from stream_app.embedded import RunOptions, run
from stream_app.exceptions import OutputError, RunChangedError, SettingsError
from stream_app.setup.release_settings import CrowdSettings
from stream_app.setup.run_folder.record import read_entries
from stream_app.setup.settings import Settings
from stream_app.setup.settings_sources import load_settings
from stream_app.watching.events import Observers, RunStopped
from stream_app.watching.metrics import EngineMetrics
from stream_app.watching.web import PeopleBoard, Site, StatusBoard, WebServer, server
from stream_app.watching.web.answers import UNREADABLE, respond
from stream_app.wire import Reading
from tests.hex_keys import hex_key
from tests.stream_app.engine_support import (
    NAMES,
    NOISE_SECRET,
    PSEUDONYM_SECRET,
    lines_of,
    messages_of_a_day,
    population,
)
from tests.watching.services import wait_until

TOKEN = "a-token-for-the-tests-only"
STEPS = 12
CONFIG = """
deployment = "shop street"
origin = 2026-03-02T00:00:00Z
timezone = "Europe/Vienna"
horizon = 4
sharpen_operations = 3_000_000
attack_draws = 64
noise_key = "noise.key"
pseudonym_key = "pseudonym.key"
[release]
mechanism = "gaussian"
sigma = 2.0
[release.sensors.B]
mechanism = "raw"
[release.budget]
added = 0.2
share = 0.5
"""


class Deployment:
    """A folder with a run, the boards that the running engine filled, and those read from its files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.output = folder, folder / "out"
        save_population(population(), folder / "priors.json")
        (folder / "tallyguard.toml").write_text(CONFIG)
        for name, secret in (("noise", NOISE_SECRET), ("pseudonym", PSEUDONYM_SECRET)):
            (folder / f"{name}.key").write_text(secret)
            (folder / f"{name}.key").chmod(0o600)
        self.settings = load_settings(folder / "tallyguard.toml")
        self.live = StatusBoard((), self.settings.delta, self.settings), PeopleBoard(TOKEN)
        lines = lines_of(messages_of_a_day(STEPS, 1))
        run(
            self.settings,
            RunOptions(self.output),
            population(),
            observer=Observers(self.live),
            chunks=[lines],
        )
        (self.source,) = sources([folder], None, None)
        self.read = StatusBoard((), self.settings.delta, self.settings), PeopleBoard(TOKEN)
        RunReader(self.source, Observers(self.read)).start()
        self.plans = Plans(self.source.what_if)

    def with_own_key(self, name: str, settings: Settings | None = None) -> Settings:
        """Settings for another run: each has a noise key of its own."""
        key = self.folder / f"{name}.key"
        key.write_text(hex_key(name))
        key.chmod(0o600)
        return (settings or self.settings).model_copy(update={"noise_key": key})


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    yield Deployment(tmp_path_factory.mktemp("deployment"))


@pytest.mark.slow
def test_a_folder_is_shown_as_its_engine_showed_it(deployment: Deployment) -> None:
    """Figures, history, week, past steps, and who is at which level are the same, from the files alone."""
    (live, live_people), (read, read_people) = deployment.live, deployment.read
    now, then = live.read(), read.read()
    for name in ("people", "next_step", "summary", "history", "releases", "spent", "phase", "reason"):
        assert getattr(now, name) == getattr(then, name), name
    assert now.history
    assert live.week(NAMES) == read.week(NAMES)
    assert any(kind == 2 for row in read.week(NAMES)["kinds"] for kind in row), "raw counts are told apart"
    for step in range(STEPS):
        now, then = (dict(board.past(step) or {}) for board in (live, read))
        assert now["distribution"] is not None
        if step % deployment.settings.risk_every:  # not everybody was recorded: no spread of mixed steps
            assert then.pop("distribution") is None and now.pop("distribution")
        assert now == then
    assert live.past(STEPS) is None
    for level in (0.0, *deployment.settings.thresholds):
        shown, again = live_people.exposed(level), read_people.exposed(level)
        assert {each["person"] for each in shown["people"]} == {each["person"] for each in again["people"]}
    explained = read_people.why(shown["people"][0]["person"])
    assert explained is not None
    assert explained["shares"] == live_people.why(shown["people"][0]["person"])["shares"]  # type: ignore[index]


def most_added(people: PeopleBoard) -> dict[str, tuple[float, int]]:
    """What was added at most for each person shown, and at which step."""
    shown = people.exposed(0.0)["people"]
    return {each["person"]: (round(each["most_added"], 9), each["most_added_step"]) for each in shown}


def test_people_are_ranked_and_dated_by_what_the_files_say_of_them(deployment: Deployment) -> None:
    """The latest record of somebody who stays above every level is an old one: it is no figure of now."""
    live, read = (boards[1].exposed(0.0)["people"] for boards in (deployment.live, deployment.read))
    assert {each["as_of"] for each in live} == {None}
    added = [each["most_added"] for each in read]
    assert added == sorted(added, reverse=True)
    recorded = [json.loads(line) for line in (deployment.output / "risks.jsonl").open() if '"risk",' in line]
    latest = {each["person"]: each["step"] for each in recorded if each["type"] == "risk"}
    assert {each["person"]: each["as_of"] for each in read} == latest
    assert min(latest.values()) < STEPS - 1, "some figures are not of the last step"


def test_metrics_and_dead_letters_of_files_are_the_page_s(deployment: Deployment, tmp_path: Path) -> None:
    """People over the limit are those of the summaries, refused messages those of the run."""
    config = deployment.folder / "strict.toml"
    config.write_text(CONFIG.replace("added = 0.2", "added = 0.6"))
    settings = deployment.with_own_key("refusals", load_settings(config))
    lines = b"no message\n" + lines_of(messages_of_a_day(STEPS, 1))
    board, registry = StatusBoard((), 1e-6, settings), CollectorRegistry()
    run(settings, RunOptions(tmp_path / "out"), population(), observer=board, chunks=[lines])
    (source,) = sources([tmp_path / "out"], None, deployment.folder / "tallyguard.toml")
    again = StatusBoard((), 1e-6, settings)
    metrics = EngineMetrics(registry, (), settings.thresholds, 1e-6, settings=source.settings)
    reader = RunReader(source, Observers([again, metrics]))
    reader.start()
    reader.read()
    assert board.read().rejected == again.read().rejected == 1
    assert registry.get_sample_value("tallyguard_rejected_total", {"reason": "not_json"}) == 1
    over = board.read().summary.over_limit  # type: ignore[union-attr]
    assert over is not None and over.now
    for by, count in (("releases", over.by_releases), ("habits", over.by_habits)):
        assert registry.get_sample_value("tallyguard_people_over_limit", {"by": by}) == count
    assert registry.get_sample_value("tallyguard_people_ever_over_limit") == over.ever


def test_the_most_exposed_are_shown_with_what_was_added_for_them_at_most(deployment: Deployment) -> None:
    """Also where it was between two of their own records: the run's summaries say it."""
    live, read = most_added(deployment.live[1]), most_added(deployment.read[1])
    assert live == read


@pytest.mark.parametrize("has_copy", [True, False])
def test_with_a_file_of_its_priors_a_run_shows_the_same_people(
    deployment: Deployment, tmp_path: Path, has_copy: bool
) -> None:
    """Names in a file are no pseudonyms; a run of a version that kept no copy has just the file."""
    folder = tmp_path / "out"
    copytree(deployment.output, folder)
    for copy in [] if has_copy else folder.glob("priors-*.parquet"):
        copy.unlink()
    config = deployment.folder / "tallyguard.toml"
    (source,) = sources([folder], deployment.folder / "priors.json", config)
    people = PeopleBoard(TOKEN)
    RunReader(source, Observers([people])).start()
    assert people.exposed(0.0) == deployment.read[1].exposed(0.0)
    others = tmp_path / "others.json"
    save_population(population(3), others)
    with pytest.raises(RunChangedError, match="priors must be those of the run"):
        list(sources([folder], others, config))


def test_a_run_that_goes_on_is_followed(deployment: Deployment, tmp_path: Path) -> None:
    """What was appended is read at the next look; what was read is not read again."""
    folder = tmp_path / "goes-on"
    messages = messages_of_a_day(6, 1)
    options, settings = RunOptions(folder, keep_open=True), deployment.with_own_key("goes-on")
    run(settings, options, population(), chunks=[lines_of(messages[: len(messages) // 2])])
    (source,) = sources([folder], None, deployment.folder / "tallyguard.toml")
    board = StatusBoard((), 1e-6, deployment.settings)
    reader = RunReader(source, board)
    reader.start()
    before = board.read().next_step
    run(settings, RunOptions(folder), population(), chunks=[lines_of(messages)])
    reader.read()
    assert 0 < before < board.read().next_step == 6
    assert [line.step for line in board.read().history] == list(range(6))


def test_the_answer_on_top_is_that_of_an_export(deployment: Deployment) -> None:
    """The report's, without who decided and what the counts say of people beside the priors'."""
    log = replace(read_run(deployment.output), beyond=None)
    verdict = verdict_of(log)
    found = answer_of_run(deployment.output)
    assert found["state"] == verdict.answer.value
    assert found["sentence"] == verdict_in_words(verdict, log, says_who=False)
    assert found["change"]
    assert found["rule"].startswith("At most 50 in 100 people")


def test_the_page_begins_with_the_answer(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the first state that a page gets, and again when the run has gone on."""
    monkeypatch.setattr(server, "_LOOK_SECONDS", 0.01)
    board = StatusBoard((), 1e-6, deployment.settings)
    board.stopped(RunStopped(STEPS, "its end"))
    made = iter([answer_of_run(deployment.output), {"state": "yes"}])

    def answer() -> Mapping[str, object]:
        try:
            return next(made)
        except StopIteration:
            raise OutputError("risks.jsonl must be there", "nothing", "restore it") from None

    site = Site(CollectorRegistry(), board, None, deployment.settings, answer)
    monkeypatch.setattr(server, "_REST", 0.0)
    monkeypatch.setattr(server, "_UNWATCHED_SECONDS", 0.0)
    with WebServer(server.listening_socket("127.0.0.1:0"), site) as running:
        assert running.has_answers.wait(20.0)

        def shown() -> dict[str, object]:
            with urlopen(f"{running.address}state.json") as found:
                return dict(json.load(found)["answer"])

        assert shown() == answer_of_run(deployment.output)
        for expected in ("yes", "not shown"):
            board.stopped(RunStopped(board.read().next_step + 1, "one more"))
            wait_until("the next answer", lambda expected=expected: shown()["state"] == expected, 20.0)
        assert shown()["sentence"] == UNREADABLE


def test_what_if_says_what_a_run_of_that_plan_says(deployment: Deployment, tmp_path: Path) -> None:
    """People over the limit, guess and ceiling at each step, by the refined bound; the fast one is above."""
    off = deployment.plans.answer({"about": "1"})["sensors"].index("B")
    plan = {"noise": "1", "added": "0.2", "share": "0.5", "off": str(off)}
    fast, refined = (deployment.plans.answer({**plan, "refined": each}) for each in ("0", "1"))
    taken = deployment.plans.take(plan, "Ada", "less  noise\nis enough")
    assert load_settings(Path(taken["settings"])).release.sensors["B"].mechanism == "suppressed"
    settings = deployment.with_own_key("plan", load_settings(Path(taken["settings"])))
    run(settings, RunOptions(tmp_path / "out"), population(), chunks=[lines_of(messages_of_a_day(STEPS, 1))])
    log = read_run(tmp_path / "out")
    assert refined["steps"] == list(range(STEPS))
    for index, summary in enumerate(log.summaries):
        assert summary.over_limit is not None
        assert refined["over"][index] == summary.over_limit.now
        assert math.isclose(refined["ceiling"][index], summary.mean_risk, abs_tol=1e-9)
        assert math.isclose(refined["guess"][index], summary.mean_baseline, abs_tol=1e-9)
        assert fast["ceiling"][index] >= refined["ceiling"][index] - 1e-12
        assert fast["over"][index] >= refined["over"][index]
    assert refined["state"] == verdict_of(log).answer.value


def test_what_if_of_a_rule_in_the_crowd_says_no_more_than_it_knows(deployment: Deployment) -> None:
    """It has ceilings against somebody who knows the others: these can clear people, and not accuse them."""
    source = replace(
        deployment.source, settings=deployment.settings.model_copy(update={"adversary": "crowd"})
    )
    plan = {"noise": "1", "added": "0.2", "share": "0"}
    assert deployment.plans.answer({**plan, "refined": "1"})["state"] == "no"
    found = Plans(source.what_if).answer({**plan, "refined": "1"})
    assert found["state"] == "not shown" and "in the crowd" in found["change"]
    assert found["rule"].endswith("against an adversary who does not know where the others are")
    found = Plans(source.what_if).answer({"noise": "100", "added": "0.9", "share": "0", "refined": "1"})
    assert found["state"] == "yes" and "also if the adversary knows where the others are" in found["sentence"]
    crowd = CrowdSettings(on=True, companions=1)  # who gain by noise that hides one person and not two
    source = replace(source, settings=source.settings.model_copy(update={"crowd": crowd}))
    found = Plans(source.what_if).answer({"noise": "100", "added": "0.9", "share": "0", "refined": "1"})
    assert found["state"] == "not shown" and "companions" in found["sentence"]


def test_a_noise_of_the_slider_is_as_far_off_as_its_plan_says(deployment: Deployment) -> None:
    """By the noise that is drawn, which is less than a continuous one where sigma is small."""
    said = dict(deployment.plans.answer({"about": "1"})["sigmas"])
    for sigma in (0.5, 1.0, 10.0):
        plan = deployment.plans.answer({"noise": f"{sigma}", "refined": "1"})
        assert said[sigma] == f"{sigma:g}: {plan['error']}"
    assert said[1.0] == "1: off by 0.73 people on average"


def test_while_a_slider_moves_the_nearest_horizon_answers_and_says_so(deployment: Deployment) -> None:
    """No yes of another horizon is shown as an answer; its own follows when its constants are there."""
    plans = deployment.plans

    def until_its_own(horizon: int) -> list[dict[str, object]]:
        plan = {"noise": "1", "added": "0.9", "share": "0.9", "horizon": f"{horizon}", "mistakes": "0"}
        seen = [plans.answer(plan)]

        def is_own() -> bool:
            seen.append(plans.answer(plan))
            return seen[-1]["nearest"] is None

        wait_until("its own", is_own, 60.0)
        return seen

    known = until_its_own(3)[-1]
    *others, own = until_its_own(7)
    for each in others:
        assert each["state"] == "not shown"
        said = f"Not shown yet for 7 of the last 7 steps. For {each['nearest']}: "
        assert str(each["sentence"]).startswith(said)
    assert others
    assert own["state"] == known["state"] == "yes"
    assert own["ceiling"] != known["ceiling"]


def test_a_plan_that_is_taken_is_written_with_a_name_and_a_reason(deployment: Deployment) -> None:
    """The deployment's own settings stay; the record is chained as that of a run is."""
    before = (deployment.folder / "tallyguard.toml").read_text()
    plan = {"noise": "3", "added": "", "risk": "0.4", "share": "0.25", "horizon": "5", "off": "0"}
    for by, reason in (("", "why"), ("Ada", " ")):
        with pytest.raises(SettingsError):
            deployment.plans.take(plan, by, reason)
    taken = deployment.plans.take(plan, "Ada", "a smaller street")
    settings = load_settings(Path(taken["settings"]))
    assert (settings.horizon, settings.release.mechanism, settings.release.sigma) == (5, "gaussian", 3.0)
    budget = settings.release.budget
    assert (budget.risk, budget.added, budget.share) == (0.4, None, 0.25)
    assert settings.release.sensors["A"].mechanism == "suppressed"
    assert "Ada" in Path(taken["settings"]).read_text().splitlines()[0]
    entries = read_entries(deployment.folder / "plans" / "record.jsonl")
    assert (entries[-1].by, entries[-1].reason) == ("Ada", "a smaller street")
    assert entries[-1].facts["settings"] == Path(taken["settings"]).name
    plans = deployment.folder / "plans"
    assert is_of_plans(plans) and check_plans(plans).is_whole
    kept = Path(taken["settings"]).read_text()
    Path(taken["settings"]).write_text(kept.replace("sigma = 3", "sigma = 1"))
    assert check_plans(plans).faults == (f"{Path(taken['settings']).name} was changed since it was taken",)
    Path(taken["settings"]).write_text(kept)
    assert (deployment.folder / "tallyguard.toml").read_text() == before


@pytest.mark.parametrize(
    ("plan", "must"),
    [
        ({"noise": "-1"}, "noise must be from 0"),
        ({"noise": "much"}, "noise must be a number"),
        ({"horizon": "400"}, "horizon must be from 1"),
        ({"horizon": "3", "mistakes": "3"}, "mistakes must lie in"),
        ({"added": "7", "share": "0.1"}, "must lie in 0..1"),
        ({"noise": "rule", "added": "", "risk": "", "share": ""}, "a rule must be chosen"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_in_a_sentence(
    deployment: Deployment, plan: dict[str, str], must: str
) -> None:
    board, people = deployment.read
    site = Site(CollectorRegistry(), board, people, deployment.settings, planner=deployment.plans)
    query = "&".join(f"{name}={value}" for name, value in plan.items())
    answer = respond(f"/plan.json?{query}", f"Bearer {TOKEN}", site)
    assert answer.status == 422
    assert must in json.loads(answer.body)["error"]


def test_plans_and_people_need_the_token_and_nothing_public_names_anybody(deployment: Deployment) -> None:
    board, people = deployment.read
    names = [each["person"] for each in people.exposed(0.0)["people"]]
    assert len(names) == len(population())
    site = Site(
        CollectorRegistry(),
        board,
        people,
        deployment.settings,
        lambda: answer_of_run(deployment.output),
        deployment.plans,
    )
    for path in ("/plan.json", "/plan.json?about=1", "/take", "/people.json", "/why.json"):
        for token in ("", "Bearer wrong"):
            assert respond(path, token, site, b'{"by":"Eve","reason":"none"}').status == 401
    for path in (
        "/state.json",
        "/answer.json",
        f"/step.json?step={STEPS - 1}",
        "/week.json?sensors=0,1",
        "/plain",
    ):
        answer = respond(path, "", site)
        assert answer.status == 200, path
        assert not any(name in answer.body.decode() for name in names), path
    assert respond("/step.json?step=999", "", site).status == 404
    found = json.loads(
        respond(f"/people.json?threshold=0&find={names[-1][:6]}", f"Bearer {TOKEN}", site).body
    )
    assert [each["person"] for each in found["people"]] == [names[-1]]
    page = json.loads(respond("/people.json?threshold=0&first=2&size=3", f"Bearer {TOKEN}", site).body)
    assert [each["person"] for each in page["people"]] == names[2:5]


def test_a_plan_and_an_archive_without_a_run_are_served(deployment: Deployment, tmp_path: Path) -> None:
    """A schedule, activations, or messages: which sensors counted when is all that is asked."""
    config, priors = deployment.folder / "tallyguard.toml", deployment.folder / "priors.json"
    schedule = {"steps": [{"sensors": ["A", "C"], "mechanism": "gaussian", "sigma": 3}] * 5}
    (tmp_path / "day.json").write_text(json.dumps(schedule))
    (tmp_path / "messages.jsonl").write_bytes(lines_of(messages_of_a_day(5, 1)))
    counted = {(each.step, each.sensor) for each in messages_of_a_day(5, 1) if isinstance(each, Reading)}
    found = list(sources([tmp_path / "day.json", tmp_path / "messages.jsonl"], priors, config))
    for source, counts in zip(found, (10, len(counted)), strict=True):
        verdict = Plans(source.what_if).verdict()
        assert verdict["state"] in {"yes", "no"}
        assert Plans(source.what_if).answer({})["counts"] == counts
    (tmp_path / "excluded.csv").write_text(
        "sensor,from,to,reason\nA,2026-03-02T01:00:00Z,2026-03-02T03:00:00Z,repair\n"
    )
    excluding = tmp_path / "excluding.toml"
    excluding.write_text(f'{CONFIG}[quality]\nexclusions = "{tmp_path}/excluded.csv"\n')
    left = {(step, sensor) for step, sensor in counted if sensor != "A" or step not in {1, 2}}
    found = list(sources([tmp_path / "day.json", tmp_path / "messages.jsonl"], priors, excluding))
    for source, counts in zip(found, (8, len(left)), strict=True):
        assert Plans(source.what_if).answer({})["counts"] == counts
    with pytest.raises(OutputError, match="must be the output folder of a run"):
        list(sources([tmp_path], priors, config))
