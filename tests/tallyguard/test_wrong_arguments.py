"""Every public name refuses what it cannot mean, in one sentence, and believes no wrong argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tallyguard as tg
from accounting.settings import RiskBudget
from models.fitting.checkins import Checkins
from models.noise import CorrelatedNoise
from models.releases import TrustGraph
from models.releases.schedule import CountingWindow

WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    -(10**30),
    1.5,
    float("nan"),
    float("inf"),
    -float("inf"),
    2j,
    "nonsense",
    b"bytes",
    [],
    {},
    {"a": 1},
    object(),
    int,
    np.float64("nan"),
    np.datetime64("2020-01-01"),
    np.array([[np.nan, 1.0]]),
    np.array(["a", "b"]),
    pd.DataFrame({"a": [1, 2]}),
    [[1], ["b", None]],
    Path("/nowhere/at/all"),
    lambda: 1,
)
ADA = tg.Prior.from_dense("ada", [[0.9, 0.1], [0.4, 0.6]])
PEOPLE = tg.Population.pack([ADA])
SCHEDULE = tg.Schedule.gaussian([[1], []], 2.0)
DOOR = tg.Sensor("door", (1,))
BRIDGE = tg.MoveSensor.of("bridge", {(0, 1): 1})
WINDOW = tg.WindowRelease(BRIDGE, 1, 1, 1, tg.Gaussian(20.0))
NOISE = CorrelatedNoise.of_covariance(np.array([[1.0, 0.5], [0.5, 1.0]]))
GRAPH = TrustGraph(("a", "b"), {("a", "b"): 1.0})
FRAME = pd.DataFrame({"user": ["u"], "time": [0], "loc": ["p"]})
CHECKINS = Checkins.from_rows([("u", 3600 * hour, f"p{hour % 2}") for hour in range(9)])
FITTED = tg.FitOptions(window_seconds=3600, min_windows=1, held_out_windows=1)
LABELS, LIKELIHOOD = [[0, 1]], [[[0.5, 0.5]]]

CALLS: Mapping[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {
    "Prior": (
        tg.Prior,
        {"person": "a", "places": ADA.places, "transitions": ADA.transitions, "initial": None},
    ),
    "Prior.from_dense": (
        tg.Prior.from_dense,
        {"person": "a", "matrices": [[1.0]], "places": [0], "initial": [1.0]},
    ),
    "Prior.from_csr": (tg.Prior.from_csr, {"person": "a", "matrices": ADA.transitions}),
    "Population.pack": (tg.Population.pack, {"priors": [ADA], "location_names": ["x", "y"]}),
    "Population.chain": (PEOPLE.chain, {"person": 0}),
    "Population.initial": (PEOPLE.initial, {"person": 0}),
    "Population.position": (PEOPLE.position, {"person": "ada"}),
    "Population.prior": (PEOPLE.prior, {"person": "ada"}),
    "Population.renamed": (PEOPLE.renamed, {"people": ["bob"]}),
    "Population.split": (PEOPLE.split, {"parts": 1}),
    "load_priors": (tg.load_priors, {"path": "no.json"}),
    "load_evidence": (tg.load_evidence, {"path": "no.npz"}),
    "save_priors": (tg.save_priors, {"population": PEOPLE, "path": "/nowhere/at/all.json"}),
    "read_checkins": (tg.read_checkins, {"path": "no.csv", "on_bad_row": "fail"}),
    "fit": (tg.fit, {"checkins": CHECKINS, "options": FITTED}),
    "FitOptions": (
        tg.FitOptions,
        {name: each.default for name, each in inspect.signature(tg.FitOptions).parameters.items()},
    ),
    "Sensor": (
        tg.Sensor,
        {
            "name": "s",
            "locations": (1,),
            "group": "g",
            "position": (0.0, 1.0),
            "most_counts": 1,
            "counts": None,
            "corrections": 0,
            "window": None,
            "region": None,
        },
    ),
    "CountingWindow": (
        CountingWindow,
        {"steps": 2, "moves": ((0, 1, 1),), "miscounts": False, "most_sensors": 1},
    ),
    "Schedule": (tg.Schedule, {"steps": SCHEDULE.steps, "first_slot": 0}),
    "Schedule.of": (tg.Schedule.of, {"steps": [[1]], "mechanism": tg.Raw(), "first_slot": 0}),
    "Schedule.raw": (tg.Schedule.raw, {"steps": [[1]], "first_slot": 0}),
    "Schedule.gaussian": (tg.Schedule.gaussian, {"steps": [[1]], "sigma": 1.0, "first_slot": 0}),
    "StepSchedule": (tg.StepSchedule, {"step": 0, "releases": (), "revealed": None}),
    "SensorRelease": (tg.SensorRelease, {"sensor": DOOR, "mechanism": tg.Raw()}),
    "MoveSensor": (tg.MoveSensor, {"name": "m", "times_counted": ((0, 1, 1),)}),
    "MoveSensor.of": (tg.MoveSensor.of, {"name": "m", "times_counted": {(0, 1): 1}}),
    "WindowRelease": (
        tg.WindowRelease,
        {
            "sensor": DOOR,
            "first": 0,
            "last": 1,
            "most_counts": 1,
            "mechanism": tg.Raw(),
            "miscounts": False,
        },
    ),
    "Gaussian": (tg.Gaussian, {"sigma": 1.0}),
    "Tiered": (tg.Tiered, {"tiers": (("public", 0.3),)}),
    "Correlated": (tg.Correlated, {"noise": NOISE, "position": 0}),
    "Correlated.of": (tg.Correlated.of, {"noise": NOISE, "step": 0}),
    "audit": (
        tg.audit,
        {
            "people": ADA,
            "schedule": SCHEDULE,
            "mistakes": 0,
            "person": None,
            "draws": 0,
            "effort": None,
            "radius": None,
            "evidence": None,
            "question": None,
        },
    ),
    "certify": (
        tg.certify,
        {
            "people": ADA,
            "schedule": SCHEDULE,
            "mistakes": 0,
            "person": None,
            "effort": None,
            "adversary": None,
            "question": None,
        },
    ),
    "explain": (
        tg.explain,
        {"people": ADA, "schedule": SCHEDULE, "mistakes": 0, "person": None, "question": None},
    ),
    "second_order": (
        tg.second_order,
        {"person": "ada", "chances": np.full((2, 2, 2), 0.5), "places": [0, 1]},
    ),
    "with_stays": (
        tg.with_stays,
        {"person": "ada", "moves": [[0, 1], [1, 0]], "stays": [[1], [0.5, 0.5]], "places": [0, 1]},
    ),
    "Question": (tg.Question, {"name": "q", "groups": {"a": ["1"]}, "weights": [1]}),
    "Question.asked_of": (tg.Question("q", {"a": ["1"]}).asked_of, {"population": PEOPLE}),
    "attack": (
        tg.attack,
        {"people": ADA, "schedule": SCHEDULE, "mistakes": 0, "person": None, "draws": 10, "seed": 0},
    ),
    "hindsight": (
        tg.hindsight,
        {"people": ADA, "schedule": SCHEDULE, "first": 0, "last": 1, "mistakes": 0, "person": None},
    ),
    "Effort": (
        tg.Effort,
        {name: each.default for name, each in inspect.signature(tg.Effort).parameters.items()},
    ),
    "Radius": (
        tg.Radius,
        {
            "first": 0,
            "last": 1,
            "kl": 0.1,
            "kl_reversed": 0.1,
            "tv": 0.1,
            "renyi": {2.0: 0.1},
            "log_max_ratio": 1.0,
        },
    ),
    "Radius.of_rows": (tg.Radius.of_rows, {"first": 0, "last": 1, "nats": 0.1, "start": 0.0}),
    "Radius.ceiling": (tg.Radius(0, 1, kl=0.1).ceiling, {"bound": 0.5}),
    "CrowdAdversary": (
        tg.CrowdAdversary,
        {"known": 0, "companions": 0, "alone": 1.0, "least": 1.0, "strangers": (), "counted_once": 0.0},
    ),
    "Strangers": (
        tg.Strangers,
        {
            **{"sensor": "a", "first_slot": 8, "until_slot": 9, "cycle": 24},
            **{"people": 200, "least_chance": 0.1, "most_chance": 0.5},
        },
    ),
    "Calendar": (
        tg.Calendar,
        {"zone": "UTC", "origin": 0, "step_seconds": 3600, "first_slot": 0, "holidays": ()},
    ),
    "Accountant": (
        tg.Accountant,
        {
            "population": PEOPLE,
            "settings": tg.HorizonSettings(),
            "effective_from": None,
            "shares": None,
            "apart": False,
        },
    ),
    "Accountant.apply": (lambda step: tg.Accountant(PEOPLE).apply(step), {"step": SCHEDULE.steps[0]}),
    "HorizonSettings": (
        tg.HorizonSettings,
        {name: each.default for name, each in inspect.signature(tg.HorizonSettings).parameters.items()},
    ),
    "RiskBudget": (
        RiskBudget,
        {
            "share": 0.0,
            "risk": 0.5,
            "added": None,
            "habits_apart": False,
            "in_hindsight": False,
            "reserve": 0.5,
        },
    ),
    "check_mechanism": (tg.check_mechanism, {"mechanism": tg.Gaussian(1.0)}),
    "ledger": (
        tg.ledger,
        {"schedule": SCHEDULE, "delta": 1e-6, "neighbours": tg.Neighbours.MOVE, "oracle": False},
    ),
    "certify_windows": (
        tg.certify_windows,
        {
            "people": ADA,
            "releases": [WINDOW],
            "horizon": (0, 1),
            "mistakes": 0,
            "first_slot": 0,
            "effort": None,
        },
    ),
    "ledger_of_windows": (
        tg.ledger_of_windows,
        {"releases": [WINDOW], "most_sensors": 1, "neighbours": tg.Neighbours.MOVE},
    ),
    "decode": (tg.decode, {"who": ADA, "labels": LABELS, "likelihood": LIKELIHOOD, "first_slot": 0}),
    "Filtering": (tg.Filtering, {"population": PEOPLE, "first_slot": 0}),
    "Filtering.observe": (
        lambda labels, likelihood: tg.Filtering(PEOPLE).observe(labels, likelihood),
        {"labels": LABELS[0], "likelihood": LIKELIHOOD[0]},
    ),
    "Filtering.belief": (lambda person: tg.Filtering(PEOPLE).belief(person), {"person": 0}),
    "plan": (
        tg.plan,
        {
            "people": ADA,
            "schedule": SCHEDULE,
            "mistakes": 0,
            "horizon": 2,
            "question": None,
            "added": 0.5,
            "risk": None,
            "share": 0.0,
        },
    ),
    "with_device": (tg.with_device, {"prior": ADA, "at": (1,), "misses": 0.1, "falsely": 0.0}),
    "checkins_of": (
        tg.checkins_of,
        {"frame": FRAME, "user": "user", "time": "time", "place": "loc", "on_bad_row": "fail"},
    ),
    "stays_of": (
        tg.stays_of,
        {"frame": None, "radius_metres": 100.0, "stay_seconds": 900.0, "every_seconds": 3600.0},
    ),
    "register_mechanism": (tg.register_mechanism, {"kind": int}),
    "register_bound": (tg.register_bound, {"name": "my bound", "compute": None, "is_vouched": False}),
    "register_attack": (tg.register_attack, {"name": "my attack", "guess": None}),
    "unregister": (tg.unregister, {"name": "nobody's"}),
    "check_bound": (
        tg.check_bound,
        {"compute": lambda question: 1.0, "cases": 1, "name": "own", "effort": None},
    ),
    "advantage": (tg.advantage, {"success": 0.5, "guess": 0.25}),
    "side_by_side": (
        tg.side_by_side,
        {
            **{"people": ADA, "schedule": SCHEDULE, "adversaries": {"informed": None}},
            **{"mistakes": 0, "effort": None, "question": None},
        },
    ),
    "CorrelatedNoise.of_covariance": (tg.CorrelatedNoise.of_covariance, {"covariance": np.eye(2)}),
    "design": (
        tg.design,
        {"prior": np.eye(2), "noise_budget": 1.0, "secret": (0,), "method": "exact", "solver": "auto"},
    ),
    "GaussianProcess": (tg.GaussianProcess, {"kernel": tg.RBF(1.0), "times": [0.0, 1.0]}),
    "RBF": (tg.RBF, {"length_scale": 1.0, "variance": 1.0}),
    "Matern": (tg.Matern, {"length_scale": 1.0, "smoothness": 1.5, "variance": 1.0}),
    "Periodic": (tg.Periodic, {"length_scale": 1.0, "period": 24.0, "variance": 1.0}),
    "White": (tg.White, {"variance": 1.0}),
    "assign_tiers": (
        tg.assign_tiers,
        {
            **{"distances": {"a": 1.0}, "level": tg.reciprocal_level(1.0), "allowed": (0.5, 1.0)},
            "names": ("low", "high"),
        },
    ),
    "exponential_level": (tg.exponential_level, {"at_zero": 1.0, "length": 1.0}),
    "reciprocal_level": (tg.reciprocal_level, {"at_one": 1.0}),
    "stepwise_level": (tg.stepwise_level, {"steps": ((1.0, 0.5),)}),
    "real_tiers": (tg.real_tiers, {"value": [1.0], "levels": (0.5, 1.0), "seed": bytes(16)}),
    "pass_on_count": (tg.pass_on_count, {"values": {1.0: 7}, "lower": 0.5, "seed": bytes(16)}),
    "pass_on": (tg.pass_on, {"value": [1.0], "level": 1.0, "lower": 0.5, "seed": bytes(16)}),
    "inferential_loss": (
        tg.inferential_loss,
        {"prior": np.eye(2), "noise": np.eye(2), "secret": (0,), "order": 5.0, "radius": 1.0},
    ),
    "SecretQuestion": (
        tg.SecretQuestion,
        {"sensor": "1", "secret_steps": (0,), "kernel": tg.RBF(1.0), "order": 5.0, "radius": 1.0},
    ),
    "inferential_ledger": (
        tg.inferential_ledger,
        {"schedule": SCHEDULE, "question": tg.SecretQuestion("1", (0,), tg.RBF(1.0))},
    ),
    "prior_posterior_gap": (tg.prior_posterior_gap, {"epsilon": 1.0, "order": 5.0, "delta": 0.05}),
    "leakage": (tg.leakage, {"law": [0.5, 0.5], "channels": [np.full((2, 2), 0.5)]}),
    "summed_leakage": (
        tg.summed_leakage,
        {"epsilons": (1.0, 2.0), "declared": tg.Declared(True, True, True, True)},
    ),
    "largest_leakage": (
        tg.largest_leakage,
        {"epsilons": (1.0, 2.0), "declared": tg.Declared(True, True, True, True)},
    ),
    "Declared": (
        tg.Declared,
        dict.fromkeys(
            ("independent_tuples", "independent_coins", "every_known_set", "disjoint_people"), False
        ),
    ),
    "bayesian_ledger": (
        tg.bayesian_ledger,
        {"schedule": SCHEDULE, "declared": tg.Declared(True), "delta": 1e-6},
    ),
    "TrustGraph": (
        TrustGraph,
        {"members": ("a", "b"), "edges": {("a", "b"): 1.0}, "is_directed": False},
    ),
    "TrustGraph.distances": (GRAPH.distances, {"owner": "a", "measure": "resistance"}),
}
MADE_BY_US = {
    *("FitResult", "Audit", "Audits", "Why", "Attacks", "InHindsight", "Ledger", "Plan"),
    *("WindowRisks", "Decoded", "Mechanism", "Neighbours", "TallyguardError", "Raw", "Suppressed"),
    *("BoundCheck", "BoundQuestion", "BoundedNoise", "DeviceView", "Seen", "SideBySide", "TierAssignment"),
}
"""Results, which nobody makes by hand, protocols, and what has no arguments."""

MEANT_OTHERWISE = {
    *(("Sensor", each) for each in ("position", "counts", "window", "region", "size")),
    *(("Prior", "initial"), ("Prior.from_dense", "places"), ("Prior.from_dense", "initial")),
    *(("second_order", "places"), ("with_stays", "places")),
}
"""Optional ones that take None."""


def test_every_public_name_is_called_with_wrong_arguments() -> None:
    """A name that is added is added here, too."""
    called = {name.split(".")[0] for name in CALLS}
    assert set(tg.__all__) - called == MADE_BY_US


@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments_are_refused_in_one_sentence_or_taken_for_what_they_mean(name: str) -> None:
    """Twenty and more for each argument. Never an error of numpy's depths, nor of Python's."""
    call, right = CALLS[name]
    assert len(WRONG) >= 20
    faults = []
    for argument in right:
        for wrong in WRONG:
            if name == "save_priors" and argument == "path" and isinstance(wrong, str):
                continue  # a name of a file
            try:
                call(**{**right, argument: wrong})
            except tg.TallyguardError as error:
                if str(error).count("\n") or not (error.must and error.remedy):
                    faults.append((argument, repr(wrong)[:40], "not one sentence", str(error)[:200]))
            except Exception as error:
                faults.append((argument, repr(wrong)[:40], type(error).__name__, str(error)[:200]))
    assert not faults, "\n".join(map(str, faults))


NUMBERS = [
    (name, argument, type(value))
    for name, (_, right) in CALLS.items()
    for argument, value in right.items()
    if type(value) in (int, float) and name not in ("plan", "stays_of")
]


@pytest.mark.parametrize(("name", "argument", "kind"), NUMBERS)
def test_a_number_is_never_taken_from_what_is_none(name: str, argument: str, kind: type) -> None:
    """Nor a whole one from a half, or from yes and no; a number of numpy's or a fraction is one."""
    call, right = CALLS[name]
    for wrong in (float("nan"), "1", True, np.bool_(True), [1], b"1", 1j, *([1.5] if kind is int else [])):
        with pytest.raises(tg.TallyguardError, match=r"must"):
            call(**{**right, argument: wrong})
    meant = right[argument]
    same = (
        [np.int64(meant), np.int32(meant), float(meant)]
        if kind is int
        else [np.float64(meant), Fraction(meant)]
    )
    for value in same:
        call(**{**right, argument: value})


def test_a_word_is_one_of_the_choices_and_means_the_same_as_the_member() -> None:
    """The text of a member certified the other guarantee, under the first one's label."""
    schedule = tg.Schedule.gaussian([[1, 2]] * 2, 1.0)
    moved = tg.ledger(schedule, neighbours=tg.Neighbours.MOVE).statement
    for word in ("move one person", "MOVE"):
        assert tg.ledger(schedule, neighbours=word).statement == moved  # type: ignore[arg-type]
    assert moved.epsilon > tg.ledger(schedule).statement.epsilon
    with pytest.raises(tg.TallyguardError, match="'move one person', got 'nonsense'"):
        tg.ledger(schedule, neighbours="nonsense")  # type: ignore[arg-type]
    with pytest.raises(tg.TallyguardError, match=r"one of shortest-path, resistance, got 'shortest path'"):
        GRAPH.distances("a", "shortest path")  # type: ignore[arg-type]
    for name in ("origin", "ranking", "window_place", "elsewhere", "smoothing", "never_left"):
        with pytest.raises(tg.TallyguardError, match=f"{name} must be"):
            tg.FitOptions(**{name: "bogus"})


@pytest.mark.parametrize("steps", [(0, 0), (5, 2), (0, 2)])
def test_steps_of_a_schedule_follow_each_other(steps: tuple[int, ...]) -> None:
    """They were accounted in the order they stood in, whatever their numbers."""
    with pytest.raises(tg.TallyguardError, match="must follow each other, none twice and none left out"):
        tg.Schedule(tuple(tg.StepSchedule(step) for step in steps))


def test_a_sensor_counts_each_of_its_places_once() -> None:
    for places in ((1, 1), (2, 1), (-1,), ()):
        with pytest.raises(tg.TallyguardError, match="sensor 's' must"):
            tg.Sensor("s", places)


def test_the_same_sensor_twice_in_a_step_is_two_releases() -> None:
    """Each has noise of its own: together they say as much as one of half the variance, and cost as much."""
    twice = tg.Schedule((tg.StepSchedule(0, (tg.SensorRelease(DOOR, tg.Gaussian(20.0)),) * 2),))
    once = tg.Schedule.gaussian([[1]], 20.0)
    sharper = tg.Schedule.gaussian([[1]], 20.0 / 2**0.5)
    found = [
        tg.ledger(each).statement.zcdp_rho
        if hasattr(tg.ledger(each).statement, "zcdp_rho")
        else tg.ledger(each).statement.zcdp_epsilon
        for each in (twice, sharper, once)
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    assert found[0] > found[2]
    ceilings = [tg.certify(ADA, each, 0)[0].certified for each in (twice, sharper, once)]
    assert ceilings[0] >= ceilings[2]
    assert ceilings[0] == pytest.approx(ceilings[1], rel=1e-3)


def test_an_edge_has_one_length_and_an_order_a_meaning() -> None:
    with pytest.raises(tg.TallyguardError, match="must have one length, got"):
        TrustGraph(("a", "b"), {("a", "b"): 5.0, ("b", "a"): 1.0})
    assert TrustGraph(("a", "b"), {("a", "b"): 5.0, ("b", "a"): 5.0}).distances("a")["b"] == 5.0
    with pytest.raises(tg.TallyguardError, match="order of Renyi"):
        tg.Radius(0, 1, renyi={1.0: 0.1})


def test_what_is_misspelt_is_named() -> None:
    with pytest.raises(tg.TallyguardError, match="did you mean 'most_counts'"):
        tg.Sensor("s", (1,), most_cuonts=2)  # type: ignore[call-arg]
    with pytest.raises(tg.TallyguardError, match="missing a required argument: 'schedule'"):
        tg.audit(ADA)  # type: ignore[call-arg]
