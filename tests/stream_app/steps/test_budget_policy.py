"""The risk budget in a whole run: settings, log, restart, and independence of every count."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from models.mechanisms import Gaussian, Raw, Suppressed
from models.releases import Schedule, SensorRelease, StepSchedule
from stream_app.exceptions import SettingsError
from stream_app.setup.settings import Settings
from stream_app.steps.policy import BudgetPolicy, policy_from
from stream_app.wire.messages import Reading, StepDecision
from tests.accounting.decisions.deciding import bound
from tests.stream_app.engine_support import (
    REGISTRY,
    accountant,
    json_lines,
    lines_of,
    messages_of_a_day,
    outputs_of,
    run_on,
)

BUDGET = {"mechanism": "budget", "budget": {"share": 0.2, "added": 0.25}}


def policy_of(release: dict[str, object]) -> BudgetPolicy:
    policy = policy_from(Settings.model_validate({"release": release}).release, REGISTRY)
    assert isinstance(policy, BudgetPolicy)
    return policy


def options_of(policy: BudgetPolicy, *sensors: str) -> list[list[str]]:
    """Each sensor's options in words."""
    return [
        [f"{option.name} {option.parameters.get('sigma', '')}".strip() for option in choice.options]
        for choice in policy.decider(0, sensors).choices
    ]


@pytest.mark.slow
def test_every_decision_of_a_run_says_why(tmp_path: Path) -> None:
    data = lines_of(messages_of_a_day(30, seed=1))
    run_on(tmp_path, [data], settings={"release": BUDGET})
    decisions = [StepDecision.model_validate_json(line) for line in (tmp_path / "decisions.jsonl").open("rb")]
    assert len(decisions) == 30
    assert all(decision.why is not None and decision.why.people == 6 for decision in decisions)
    assert {decision.why.reason.value for decision in decisions if decision.why} >= {"free", "budget"}
    public = json_lines(tmp_path / "releases.jsonl")
    assert all(step.keys() == {"v", "type", "step", "releases"} for step in public)
    allowed = {"sensor", "mechanism", "sigma", "value"}
    assert all(entry.keys() <= allowed for step in public for entry in step["releases"])  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_same_schedule_with_other_counts_gives_the_same_decisions(tmp_path: Path) -> None:
    messages = messages_of_a_day(30, seed=2)
    random = np.random.default_rng(0)
    others = [
        message.model_copy(update={"count": int(random.integers(0, 10**6))})
        if isinstance(message, Reading)
        else message
        for message in messages
    ]
    for folder, stream in (("one", messages), ("other", others)):
        run_on(tmp_path / folder, [lines_of(stream)], settings={"release": BUDGET})
    one, other = outputs_of(tmp_path / "one"), outputs_of(tmp_path / "other")
    assert one["decisions.jsonl"] == other["decisions.jsonl"]
    assert one["releases.jsonl"] != other["releases.jsonl"]


@pytest.mark.slow
@pytest.mark.parametrize("hindsight", [False, True])
def test_a_run_in_pieces_decides_as_one_in_a_piece(tmp_path: Path, hindsight: bool) -> None:
    release = {"mechanism": "budget", "budget": {"share": 0.5, "added": 0.6, "hindsight": hindsight}}
    data = lines_of(messages_of_a_day(40, seed=3))
    run_on(tmp_path / "whole", [data], settings={"release": release})
    (tmp_path / "input.jsonl").write_bytes(data)
    cut = data.index(b"\n", len(data) // 2) + 1
    run_on(tmp_path / "pieces", [data[:cut]], settings={"release": release}, keep_open=True)
    run_on(tmp_path / "pieces", [data], settings={"release": release})
    assert (
        outputs_of(tmp_path / "pieces")["decisions.jsonl"]
        == outputs_of(tmp_path / "whole")["decisions.jsonl"]
    )
    because = {json.loads(line)["why"]["because"] for line in (tmp_path / "whole/decisions.jsonl").open()}
    assert len(because) > 1


def test_sensors_have_the_options_that_the_settings_name() -> None:
    policy = policy_of(
        {
            "mechanism": "budget",
            "budget": {"risk": 0.5, "sigmas": [1, 2, 8], "max_sigma": 4},
            "sensors": {
                "A": {"raw": "never"},
                "B": {"raw": "always"},
                "C": {"mechanism": "gaussian", "sigma": 3},
                "D": {"sigmas": [0.5], "max_sigma": 1},
            },
        }
    )
    assert options_of(policy, "A", "B", "C", "D") == [
        ["gaussian 1.0", "gaussian 2.0", "suppressed"],
        ["raw", "suppressed"],
        ["gaussian 3.0", "suppressed"],
        ["raw", "gaussian 0.5", "suppressed"],
    ]


def test_a_schedules_mechanism_is_the_best_there_may_be() -> None:
    policy = policy_of({"mechanism": "budget", "budget": {"risk": 0.5, "sigmas": [1, 2]}})
    releases = zip("ABC", (Gaussian(1.5), Suppressed(), Raw()), strict=True)
    step = StepSchedule(0, tuple(SensorRelease(REGISTRY.get(name), how) for name, how in releases))
    policy.follow(Schedule((step,)))
    assert options_of(policy, "A", "B", "C") == [
        ["gaussian 1.5", "gaussian 2.0", "suppressed"],
        ["suppressed"],
        ["raw", "gaussian 1.0", "gaussian 2.0", "suppressed"],
    ]


def test_a_sensor_that_must_be_raw_is_suppressed_rather_than_over_the_budget() -> None:
    policy = policy_of(
        {"mechanism": "budget", "budget": {"added": 0.0005}, "sensors": {"A": {"raw": "always"}}}
    )
    accounts = accountant()
    bound(policy, accounts)
    decided = policy.decide(0, ("A",))
    assert decided.why is not None
    if decided.why.natural <= decided.why.allowed:
        assert decided.why.reason.value == "contradiction"
    assert not decided.schedule.releases[0].mechanism.is_released


@pytest.mark.parametrize(
    ("release", "message"),
    [
        ({"mechanism": "budget"}, "release.budget must limit risk or added risk"),
        ({"mechanism": "budget", "budget": {"risk": 0.5, "sigmas": [-1]}}, "release.budget.sigmas"),
        (
            {"mechanism": "budget", "budget": {"risk": 0.5}, "sensors": {"A": {"sigmas": [0]}}},
            "release.sensors.A.sigmas",
        ),
    ],
)
def test_a_budget_that_cannot_be_is_refused_with_its_place(release: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        policy_from(Settings.model_validate({"release": release}).release, REGISTRY)
    assert message in str(caught.value)


def test_an_unbound_budget_decides_nothing() -> None:
    with pytest.raises(SettingsError, match="whose risk"):
        policy_of(BUDGET).decide(0, ("A",))
