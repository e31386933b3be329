"""What a runner refuses at its start `check` refuses in the same sentence; what check passes, starts."""

from __future__ import annotations

import json
import random
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from models.mechanisms import Designs
from stream_app.analysis.preflight import check_files
from stream_app.setup.combinations import EVERYWHERE, REFUSALS, Feature, Refusal, Runner
from tests.documents import DOCS, shown
from tests.stream_app.cli.every_feature import (
    FILES,
    OF_SENSORS,
    make,
    refused_by,
    runners,
    with_implied,
)
from tests.stream_app.command_line import Tallyguard
from tests.stream_app.engine_support import NAMES
from tests.volume import some

IN_DEPLOYMENTS = [
    feature
    for feature in Feature  # no habits changed where a deployment begins: see embedded/test_told_beside.py
    if feature not in (Feature.ALTERNATIVES, Feature.TOLD)
]
ALONE = frozenset({Runner.AUDIT, Runner.REPORT})  # which no deployment begins with


def check_as_started(
    folder: Path,
    features: set[Feature],
    tallyguard: Tallyguard,
    patch: pytest.MonkeyPatch,
    *,
    on_kafka: bool,
    release: dict[str, object] | None = None,
) -> dict[Runner, str | None]:
    """Check and start a deployment's runners; what each refused, each of it said by check, too."""
    changes = {} if release is None else {"release": release}
    made = make(folder, features, on_kafka=on_kafka, **changes)
    problems = made.problems()
    refused = {
        runner: refused_by(runner, made, tallyguard, patch) for runner in runners(made, on_kafka=on_kafka)
    }
    for runner, said in refused.items():
        if said is not None:
            assert any(said.startswith(f"{each}; ") for each in problems), (runner, said, problems)
    if not any(refused.values()):
        assert problems == []
    return refused


def can_be(features: set[Feature]) -> bool:
    """Whether there are such files: one schedule, priors that are there, and a check or evidence of them."""
    files = FILES & features
    return (
        (len(files) < 2 or (Feature.ACTIVATIONS not in files and len(files) == 2))
        and not {Feature.TIERS, Feature.SCHEDULED_TIERS} <= features
        and not {Feature.NO_PEOPLE, Feature.PERSONAS} <= features
        and not ({Feature.NO_PEOPLE} < features & {Feature.NO_PEOPLE, Feature.EVIDENCE, Feature.CHECKED})
        and not ({Feature.PERSONAS} < features & {Feature.PERSONAS, Feature.EVIDENCE, Feature.CHECKED})
    )


def expected(features: set[Feature], runner: Runner) -> bool:
    """Whether the list refuses it."""
    features = set(with_implied(features))
    return any(
        runner in each.runners and each.feature in features and each.beside in (None, *features)
        for each in REFUSALS
    )


@pytest.mark.parametrize("feature", IN_DEPLOYMENTS, ids=lambda feature: feature.name.lower())
@pytest.mark.parametrize("on_kafka", [False, True], ids=["run", "kafka"])
def test_each_feature_alone_starts_or_is_refused_as_the_list_says(
    feature: Feature, on_kafka: bool, tmp_path: Path, tallyguard: Tallyguard, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = check_as_started(tmp_path / "d", {feature}, tallyguard, monkeypatch, on_kafka=on_kafka)
    assert {runner: said is not None for runner, said in refused.items()} == {
        runner: expected({feature}, runner) for runner in refused
    }


def named(each: Refusal) -> str:
    return f"{each.feature.name}-{'' if each.beside is None else each.beside.name}".lower()


@pytest.mark.parametrize(
    "refusal",
    [each for each in REFUSALS if not each.runners <= ALONE and each.feature in IN_DEPLOYMENTS],
    ids=named,
)
def test_each_refusal_of_the_list_is_made_by_its_runners_and_by_check(
    refusal: Refusal, tmp_path: Path, tallyguard: Tallyguard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No entry is there in vain; its sentence is the same everywhere."""
    features = {refusal.feature} | ({refusal.beside} if refusal.beside is not None else set())
    asked: set[Runner] = set()
    for on_kafka in (False, True):
        for more in (set(), {Feature.REGIONS}) if on_kafka else (set(),):
            folder = tmp_path / f"{on_kafka} {len(more)}"
            refused = check_as_started(folder, features | more, tallyguard, monkeypatch, on_kafka=on_kafka)
            by = {runner for runner, said in refused.items() if runner in refusal.runners}
            assert all(refused[runner] is not None for runner in by)
            asked |= by
    assert asked
    if refusal.runners == EVERYWHERE:
        assert {Runner.RUN, Runner.RELEASE, Runner.COORDINATOR, Runner.ACCOUNT} <= asked


@pytest.mark.slow
@pytest.mark.parametrize("on_kafka", [False, True], ids=["run", "kafka"])
@pytest.mark.parametrize("first", IN_DEPLOYMENTS, ids=lambda feature: feature.name.lower())
def test_every_two_features_together_start_or_are_refused_as_the_list_says(
    first: Feature, on_kafka: bool, tmp_path: Path, tallyguard: Tallyguard, monkeypatch: pytest.MonkeyPatch
) -> None:
    for second in IN_DEPLOYMENTS[IN_DEPLOYMENTS.index(first) + 1 :]:
        features = {first, second}
        if not can_be(features):
            continue
        refused = check_as_started(
            tmp_path / second.name, features, tallyguard, monkeypatch, on_kafka=on_kafka
        )
        assert {runner: said is not None for runner, said in refused.items()} == {
            runner: expected(features, runner) for runner in refused
        }, features


MORE_RELEASES: tuple[dict[str, object], ...] = (
    {"mechanism": "raw"},
    {"mechanism": "suppressed"},
    {"mechanism": "gaussian", "sigma": 0.0},
    {"mechanism": "correlated"},
    {"mechanism": "tiered"},
    {"mechanism": "budget"},
    {"mechanism": "budget", "budget": {"added": 0.5, "look_ahead": 2}},
    {"mechanism": "budget", "budget": {"risk": 0.9, "hindsight": True}},
    {"mechanism": "budget", "budget": {"risk": 0.9}, "sensors": {"E": {"mechanism": "raw"}}},
    {"sensors": {"D": {"mechanism": "raw"}}},
)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("seed", some(150))
def test_any_features_with_any_release_are_refused_alike_or_start(
    seed: int, tmp_path: Path, tallyguard: Tallyguard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three to five features, and rules of release that are incomplete or name what is not there."""
    drawn = random.Random(seed)
    features = set(drawn.sample(IN_DEPLOYMENTS, drawn.randint(3, 5)))
    while not can_be(features):
        features = set(drawn.sample(IN_DEPLOYMENTS, drawn.randint(3, 5)))
    release = drawn.choice((None, *MORE_RELEASES))
    check_as_started(
        tmp_path / "d", features, tallyguard, monkeypatch, on_kafka=drawn.random() < 0.5, release=release
    )


def test_the_table_of_limits_says_what_starts() -> None:
    """Every feature has its row, and \"no\" where the list refuses it."""
    columns = {
        1: (Runner.RUN, set()),
        2: (Runner.RELEASE, set()),
        3: (Runner.COORDINATOR, {Feature.REGIONS}),
        4: (Runner.PLAN, set()),
    }
    page = shown(DOCS / "reference" / "limits.md")
    lines = [re.split(r" *\| *", line)[1:-1] for line in page.splitlines()]
    rows = {cells[0]: cells for cells in lines if len(cells) == 1 + len(columns)}
    assert {*Feature} <= rows.keys()
    for feature in Feature:
        for place, (runner, more) in columns.items():
            said = rows[feature][place]
            assert said in ("yes", "no", "")
            assert (said == "no") == expected({feature, *more}, runner), (feature, runner)


def test_every_refusal_has_its_row_and_its_reason() -> None:
    page = shown(DOCS / "reference" / "limits.md")
    for each in REFUSALS:
        assert each.because
        assert f"| {each.feature} | {each.beside or ''} |" in page
        assert f"| {each.because} |" in page


def test_a_clock_far_from_the_origin_is_a_warning(tmp_path: Path) -> None:
    """A deployment that has run for long goes on: how far it has come is not known here."""
    made = make(tmp_path / "d", {Feature.CLOCK}, on_kafka=False, max_ahead=5)
    found = check_files(config=made.config, priors=made.priors)
    (clock,) = [each for each in found if "begins now would be refused" in each.sentence]
    assert (clock.level, clock.subject) == ("warning", "grace_seconds")
    assert "within 5 steps of step 0" in clock.sentence


def test_locations_of_other_priors_are_refused_before_people_are_loaded(
    tmp_path: Path, tallyguard: Tallyguard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers read the file: people loaded for other locations would be of another deployment."""
    made = make(tmp_path / "d", set(), on_kafka=True)
    (made.folder / "locations.txt").write_text("".join(f"{name}\n" for name in reversed(NAMES)))
    said = refused_by(Runner.PERSONS, made, tallyguard, monkeypatch)
    assert said is not None and "the locations of the priors must be those in" in said
    assert any(said.startswith(f"{each}; ") for each in made.problems())


def test_check_says_who_was_asked(tmp_path: Path) -> None:
    for on_kafka, names in (
        (False, ["tallyguard run"]),
        (True, ["tallyguard worker release", "tallyguard worker account", "tallyguard persons load"]),
    ):
        made = make(tmp_path / str(on_kafka), set(), on_kafka=on_kafka)
        found = check_files(config=made.config, priors=made.priors)
        assert [each.subject for each in found if "takes these settings" in each.sentence] == names


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"release": {"tiers": {"press office": 0.1}}}, "as names of topics are"),
        ({"kafka": {"servers": ["nowhere"]}}, "kafka.servers must be host:port"),
        ({"kafka": {"servers": ["nowhere:1"], "security": "SSL", "ca_file": "t.toml"}}, "readable PEM files"),
        ({"snapshot_key": "t.toml"}, "snapshot key must be hexadecimal"),
        ({"locations": "none.txt"}, "none.txt must be readable text"),
        ({"listen": "here"}, "listen must be host:port"),
        ({"release": {"mechanism": "budget"}}, "release.budget must limit risk or added risk"),
    ],
)
def test_what_workers_cannot_do_with_check_says(
    changes: dict[str, object],
    said: str,
    tmp_path: Path,
    tallyguard: Tallyguard,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Names of topics, addresses, certificates, keys, files: before the broker is asked."""
    made = make(tmp_path / "d", set(), on_kafka="kafka" not in changes, **changes)
    made.config.chmod(0o600)
    assert [each for each in made.problems() if said in each]
    refused = [
        refused_by(runner, made, tallyguard, monkeypatch) for runner in (Runner.RELEASE, Runner.ACCOUNT)
    ]
    assert [each for each in refused if each is not None and said in each]


@pytest.mark.parametrize("on_kafka", [False, True], ids=["run", "kafka"])
def test_a_schedule_whose_noise_has_no_account_is_refused_before_its_step(
    on_kafka: bool, tmp_path: Path, tallyguard: Tallyguard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the middle of a run, when the step comes that names it."""
    features = {Feature.WINDOWS, Feature.SCHEDULE}
    covariance = tmp_path / "covariance.npy"
    np.save(covariance, np.array([[4.0, 1.0], [1.0, 4.0]]))
    made = make(tmp_path / "d", features, on_kafka=on_kafka, release={"covariance": str(covariance)})
    assert made.problems() == []
    assert made.schedule is not None
    document = json.loads(made.schedule.read_text())
    design = Designs.load([covariance]).noises[0].design
    document["steps"][3] = {"sensors": ["A"], "mechanism": "correlated", "design": design, "position": 1}
    made.schedule.write_text(json.dumps(document))
    said = "counts of 'A' must be published with the mechanism that is accounted in every step"
    assert [each for each in made.problems() if each.startswith(said)], made.problems()
    for runner in (Runner.RELEASE if on_kafka else Runner.RUN, Runner.PLAN):
        refused = refused_by(runner, made, tallyguard, monkeypatch)
        assert refused is not None and refused.startswith(said)


def test_one_process_is_asked_alone(tmp_path: Path, tallyguard: Tallyguard) -> None:
    """An account worker's file names no noise key, which the release worker cannot do without."""
    made = make(tmp_path / "d", set(), on_kafka=True)
    text = made.config.read_text()
    made.config.write_text(text.replace('noise_key = "noise.key"\n', ""))
    assert tallyguard("check", "--config", made.config).code == 1
    asked = tallyguard("check", "--config", made.config, "--for", "account", "--json")
    assert asked.code == 0
    assert {each["subject"] for each in asked.document if "takes" in each["sentence"]} == {Runner.ACCOUNT}
    release = tallyguard("check", "--config", made.config, "--for", "release")
    assert release.code == 1
    assert "noise_key must be set" in " ".join(release.out.split())


def test_what_features_declare_of_sensors_is_of_different_ones() -> None:
    """Else two of them could not be seen together."""
    assert len({name for name, _ in OF_SENSORS.values()}) == len(OF_SENSORS)
    assert len([*combinations(IN_DEPLOYMENTS, 2)]) > 100
