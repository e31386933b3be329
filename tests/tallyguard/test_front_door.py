"""What a researcher meets first: one import, one line, a readable answer."""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tallyguard as tg
from accounting.audit import AttackSettings
from accounting.audit.audit import audit_person
from models.noise import CorrelatedNoise
from models.releases import SensorRelease, StepSchedule
from stream_app.setup.this_process import own_version
from tallyguard.results import in_100
from tests import ROOT
from tests.tallyguard.typed_user import ceilings

SCHEDULE = tg.Schedule.raw([[1], [], [1]])
ADA = tg.Prior.from_dense("ada", [[0.9, 0.1], [0.4, 0.6]])


@pytest.fixture(scope="module")
def people() -> tg.Population:
    rows = {"ada": [[0.9, 0.1], [0.4, 0.6]], "bob": [[0.5, 0.5], [0.5, 0.5]]}
    return tg.Population.pack([tg.Prior.from_dense(name, matrix) for name, matrix in rows.items()])


def test_every_public_name_is_there_and_explains_itself() -> None:
    assert tg.__version__ == own_version()
    assert len(set(tg.__all__)) == len(tg.__all__)
    for name in tg.__all__:
        assert getattr(tg, name).__doc__, name


def test_every_function_says_what_it_refuses() -> None:
    """By the name of the error, which the site links."""
    functions = [getattr(tg, name) for name in tg.__all__ if inspect.isfunction(getattr(tg, name))]
    assert len(functions) > 40
    assert not [each.__name__ for each in functions if "Error`" not in each.__doc__]


def test_a_schedule_is_written_as_a_list_of_steps() -> None:
    door = tg.Sensor("door", (0, 2))
    schedule = tg.Schedule.gaussian([[3, (5, 4)], [], [door]], sigma=2.0, first_slot=7)
    noise = tg.Gaussian(2.0)
    assert schedule.first_slot == 7
    assert schedule.steps == (
        StepSchedule(
            0, (SensorRelease(tg.Sensor("3", (3,)), noise), SensorRelease(tg.Sensor("4+5", (4, 5)), noise))
        ),
        StepSchedule(1),
        StepSchedule(2, (SensorRelease(door, noise),)),
    )
    assert tg.Schedule.raw([[np.int64(3)]]) == tg.Schedule.of([[3]], tg.Raw())


@pytest.mark.parametrize("where", ["3", 1.5, True, (), (1, "a"), -1, None])
def test_what_is_no_sensor_is_refused(where: object) -> None:
    with pytest.raises(tg.TallyguardError, match="must be"):
        tg.Schedule.raw([[where]])  # type: ignore[list-item]


def test_an_audit_is_that_of_the_accountant(people: tg.Population) -> None:
    audits = tg.audit(people, SCHEDULE, mistakes=0)
    settings = AttackSettings()
    assert list(audits) == [
        audit_person(people, person, SCHEDULE, 0, attacks=settings) for person in range(2)
    ]
    assert tg.audit(people, SCHEDULE, 0, person="bob")[0] == audits["bob"] == audits[1] == audits[1:][0]
    assert tg.certify(people, SCHEDULE, 0)["ada"].certified == audits["ada"].certified
    assert tg.certify(people, SCHEDULE, 0)["ada"].attacks is None
    with pytest.raises(KeyError, match="zoe"):
        audits["zoe"]


def test_one_prior_needs_no_population(people: tg.Population) -> None:
    """Its locations reach to the highest that a sensor counts, so that a sensor elsewhere sees nobody."""
    ada = people.prior("ada")
    (by_prior,) = tg.audit(ada, SCHEDULE, mistakes=0)
    assert by_prior == tg.audit(people, SCHEDULE, mistakes=0)["ada"]
    assert list(tg.certify([ada, people.prior("bob")], SCHEDULE)) == list(tg.certify(people, SCHEDULE))
    plan = tg.plan(ada, SCHEDULE, 0, horizon=3, added=1.0)
    assert plan.table() == tg.plan([ada], SCHEDULE, 0, horizon=3, added=1.0).table()
    assert plan.details.people == 1
    (elsewhere,) = tg.certify(ada, tg.Schedule.raw([[9]]), mistakes=0)
    assert elsewhere.certified == elsewhere.baseline


@pytest.mark.parametrize(
    ("what", "must"),
    [
        (
            lambda people: tg.audit(people, SCHEDULE, person="zoe"),
            "one of those whose prior is known, got 'zoe'",
        ),
        (
            lambda people: tg.audit(people, tg.Schedule.raw([[9]]), 0),
            "count locations of the population",
        ),
        (lambda people: tg.audit(people, SCHEDULE, mistakes=3), r"mistakes must lie in 0\.\.2"),
        (
            lambda people: tg.plan(people, SCHEDULE),
            "a plan must limit risk or added risk, got neither; set risk or added",
        ),
        (lambda people: tg.plan(people, SCHEDULE, addd=0.1), "got 'addd'; did you mean 'added'"),
        (lambda people: tg.plan(people, SCHEDULE, added=2.0), "^added must be at most 1, got 2.0"),
        (lambda people: tg.audit([], SCHEDULE), "must be a Prior, .* got an empty list"),
        (lambda people: tg.audit("ada", SCHEDULE), "must be a Prior, .* got str"),
        (lambda people: tg.audit(people, [[1], [], [1]]), r"write Schedule\.raw\("),
        (lambda people: tg.Accountant(ADA), "must be a Population, got MovementPrior"),
        (lambda people: tg.hindsight(people, SCHEDULE, 1, 3), r"within 0\.\.2, got 1\.\.3"),
        (lambda people: tg.hindsight(people, SCHEDULE, 0, 1, mistakes=2), r"mistakes must lie in 0\.\.1"),
        (lambda people: tg.attack(people, SCHEDULE, mistakes=3), r"mistakes must lie in 0\.\.2"),
    ],
)
def test_errors_say_what_must_hold(people: tg.Population, what: object, must: str) -> None:
    with pytest.raises(tg.TallyguardError, match=must):
        what(people)  # type: ignore[operator]


def test_a_radius_stands_beside_the_ceiling_with_its_condition(people: tg.Population) -> None:
    """Nats for everybody, or other priors of the same people; nothing of it where none was asked for."""
    plain, near = tg.certify(people, SCHEDULE, 0), tg.audit(people, SCHEDULE, 0, draws=0, radius=0.05)
    assert "within" not in plain.shown()
    assert "ceiling_radius" not in plain.columns()
    assert "within 0.05 nats of the prior's" in near.caption()
    raised = near.columns()["ceiling_radius"]
    assert all(a.certified < b < 1.0 for a, b in zip(plain, raised, strict=True))
    again = tg.audit(people, SCHEDULE, 0, draws=0, radius=np.float32(0.5))  # type: ignore[arg-type]
    assert len(again.columns()["ceiling_radius"]) == 2
    assert tg.audit(people, SCHEDULE, 0, draws=0, radius=0.0).columns()["ceiling_radius"] == [
        each.certified for each in plain
    ]
    rows = tg.audit(people, SCHEDULE, 0, draws=0, radius=tg.Radius.of_rows(0, 2, tv=0.01, start=0.0))
    assert "within 0.02 of the prior's (total variation)" in rows.caption()
    expected = [min(1.0, each.certified + 0.02) for each in plain]
    assert rows.columns()["ceiling_radius"] == pytest.approx(expected)
    with pytest.raises(tg.TallyguardError, match=r"every step of the schedule, 0\.\.2"):
        tg.audit(people, SCHEDULE, 0, draws=0, radius=tg.Radius(1, 2, kl=0.1))
    assert near[1:].columns()["ceiling_radius"] == raised[1:]
    other = tg.Prior.from_dense("ada", [[0.93, 0.07], [0.35, 0.65]])
    (beside,) = tg.audit(people, SCHEDULE, 0, person="ada", draws=0, radius=other).columns()["ceiling_radius"]
    assert plain["ada"].certified < beside < 1.0
    assert tg.certify(other, SCHEDULE, 0)["ada"].certified <= beside
    with pytest.raises(tg.TallyguardError, match="bob"):
        tg.audit(people, SCHEDULE, 0, draws=0, radius=other)
    renamed = tg.Population.pack([other], ["here", "there"])
    with pytest.raises(tg.TallyguardError, match="same locations"):
        tg.audit(people, SCHEDULE, 0, person="ada", draws=0, radius=renamed)


def test_results_are_read_in_a_terminal_in_a_notebook_and_as_data_frames(people: tg.Population) -> None:
    audits = tg.audit(people, SCHEDULE, mistakes=0)
    results = [
        audits,
        tg.explain(people, SCHEDULE, 0, person="ada"),
        tg.plan(people, SCHEDULE, 0, horizon=2, added=1.0),
        tg.ledger(SCHEDULE),
        tg.attack(people, SCHEDULE),
        tg.hindsight(people, SCHEDULE, 0, 1),
    ]
    for result in results:
        header = list(result.shown())
        assert repr(result).splitlines()[2].split("  ")[0] == header[0]
        assert result._repr_html_().count("<th>") == len(header)
        assert pa.table(result).equals(result.table())
        assert result.table().num_rows == len(next(iter(result.shown().values())))
    assert "if habits are as the prior says" in repr(audits)
    frame = pl.DataFrame(audits)
    assert frame["ceiling"].to_list() == [each.certified for each in audits]
    pd.testing.assert_frame_equal(audits.to_pandas(), frame.to_pandas())
    assert all(each.to_polars().equals(pl.DataFrame(each)) for each in results)
    assert all(each.to_arrow().equals(each.table()) for each in results)


def test_every_result_says_that_habits_are_assumed_where_they_are(people: tg.Population) -> None:
    assumed = replace(people, assumed="commuters")
    results = [
        tg.certify(assumed, SCHEDULE)[:1],
        tg.explain(assumed, SCHEDULE, person="ada"),
        tg.plan(assumed, SCHEDULE, horizon=2, mistakes=0, added=1.0),
    ]
    for result in results:
        assert "habits are assumed, not measured (commuters)" in repr(result)
        assert "habits are assumed, not measured (commuters)" in result._repr_html_()
    assert "assumed" not in repr(tg.certify(people, SCHEDULE))


def test_a_budget_that_protects_nobody_is_refused(people: tg.Population) -> None:
    """Else everything would keep it."""
    with pytest.raises(tg.TallyguardError, match="must have people to protect"):
        tg.plan(people.subset([]), SCHEDULE, added=0.1)


def test_long_results_say_how_much_is_left_out(people: tg.Population) -> None:
    crowd = tg.Population.pack([tg.Prior.from_dense(f"<{i}>", [[0.5, 0.5]] * 2) for i in range(23)])
    audits = tg.certify(crowd, SCHEDULE)
    assert repr(audits).splitlines()[-1] == "... and 3 more"
    assert "... and 3 more" in audits._repr_html_()
    assert "&lt;0&gt;" in audits._repr_html_()
    assert audits.table().num_rows == 23


def test_a_plan_is_what_the_release_decisions_say(people: tg.Population) -> None:
    everything = tg.plan(people, SCHEDULE, 0, horizon=3, added=1.0)
    nothing = tg.plan(people, SCHEDULE, 0, horizon=3, added=0.0)
    assert everything.table()["released"].to_pylist() == [2]
    assert everything.table()["raw"].to_pylist() == [2]
    assert nothing.table()["released"].to_pylist() == [0]
    assert "2 of 2 counts released for 2 people" in repr(everything)


def test_an_audit_draws_guess_attack_and_ceiling(people: tg.Population) -> None:
    pytest.importorskip("matplotlib").use("agg")
    axes = tg.audit(people, SCHEDULE, mistakes=0).plot()
    assert [each.get_text() for each in axes.get_legend().get_texts()] == ["guess", "best attack", "ceiling"]
    assert {each.get_text() for each in axes.get_yticklabels()} == {"ada", "bob"}


def test_other_results_draw_themselves(people: tg.Population) -> None:
    pytest.importorskip("matplotlib").use("agg")
    door = tg.MoveSensor.of("door", {(0, 1): 1, (1, 0): 1})
    windows = tg.certify_windows(people, [tg.WindowRelease(door, 1, 3, 3, tg.Gaussian(20.0))], (0, 3))
    past = tg.hindsight(people, SCHEDULE, 0, 1)
    for result, marks in ((windows, ["guess", "ceiling"]), (past, ["guess", "ceiling then", "ceiling now"])):
        axes = result.plot()
        assert [each.get_text() for each in axes.get_legend().get_texts()] == marks
        assert {each.get_text() for each in axes.get_yticklabels()} == {"ada", "bob"}
    axes = tg.plan(people, SCHEDULE, 0, horizon=3, added=1.0).plot()
    assert {"highest", "mean ceiling", "mean guess"} <= {
        each.get_text() for each in axes.get_legend().get_texts()
    }
    why = tg.explain(people, SCHEDULE, person="ada")
    axes = why.plot()
    assert [bar.get_width() for bar in axes.patches][::-1] == why.columns()["certified_drop"]
    assert (
        axes.get_yticklabels()[-1].get_text()
        == f"{why.columns()['sensor'][0]}, step {why.columns()['step'][0]}"
    )


def test_every_attack_is_tried_and_audits_have_the_same(people: tg.Population) -> None:
    noised = tg.Schedule.gaussian([[1], [], [1]], 1.0)
    found, audits = tg.attack(people, noised, 0, draws=500), tg.audit(people, noised, 0, draws=500)
    for person in ("ada", "bob"):
        tried = {name: each for name, each in audits[person].attacks.items() if each is not None}
        assert {name: (r.success, r.low, r.high) for name, r in tried.items()} == {
            name: (r.success, r.low, r.high) for name, r in found[person].items()
        }
    assert set(tg.attack(people, noised, 0, person="bob", draws=500).found) == {"bob"}
    assert "exact" in found.shown()["interval"]


def test_what_comes_later_gives_earlier_steps_away(people: tg.Population) -> None:
    """At the end of the schedule nothing has come later; who is seen at last was near before."""
    schedule = tg.Schedule.raw([[], [], [1]])
    past, whole = tg.hindsight(people, schedule, 0, 1, 0), tg.hindsight(people, schedule, 0, 2, 0)
    assert past["ada"].then == pytest.approx(past["ada"].baseline)
    assert past["ada"].now > past["ada"].then
    assert (
        whole["ada"].now
        == whole["ada"].then
        == pytest.approx(tg.certify(people, schedule, 0)["ada"].certified)
    )
    noise = CorrelatedNoise.of_covariance(np.array([[1.0, 0.5], [0.5, 1.0]]))
    step = [SensorRelease(tg.Sensor("1", (1,)), tg.Correlated.of(noise, t)) for t in range(2)]
    shared = tg.Schedule(tuple(StepSchedule(t, (each,)) for t, each in enumerate(step)))
    with pytest.raises(tg.TallyguardError, match="drawn anew for each step"):
        tg.hindsight(people, shared, 0, 0, 0)


def test_priors_schedules_and_accountants_are_short_to_look_at(people: tg.Population) -> None:
    """Nobody of a population is named, and no list of everything is printed."""
    assert repr(ADA) == "MovementPrior('ada', places=2, slots=1)"
    assert repr(people) == "Population(people=2, locations=2)"
    assert repr(SCHEDULE) == "Schedule(steps=3, first_slot=0, releases={'raw': 2})"
    assert repr(tg.Accountant(people)).startswith("ContinuousAccountant(population=Population(people=2, ")
    assert "ada" not in repr(tg.Accountant(people))


def test_what_is_rounded_to_nothing_has_no_sign():
    """A release whose absence hardly changes a ceiling, one way or the other."""
    assert [in_100(change) for change in (-1e-9, 1e-9, -0.0, -0.012)] == ["0.0", "0.0", "0.0", "-1.2"]


def test_windows_are_certified_for_everybody_and_say_their_condition(people: tg.Population) -> None:
    door = tg.MoveSensor.of("door", {(0, 1): 1, (1, 0): 1})
    releases = [tg.WindowRelease(door, 1, 3, 3, tg.Gaussian(20.0))]
    found = tg.certify_windows(people, releases, (0, 3), mistakes=1)
    assert set(found.risks) == {"ada", "bob"}
    assert found["ada"].baseline <= found["ada"].certified < 1.0
    assert "most_counts" in repr(found)
    assert found.table().num_rows == 2
    prior = tg.Prior.from_dense("ada", [[0.9, 0.1], [0.4, 0.6]])
    assert tg.certify_windows(prior, releases, (0, 3)).risks["ada"].certified == found["ada"].certified
    far = [tg.WindowRelease(tg.Sensor("far", (7,)), 0, 1, 2, tg.Raw())]
    unseen = tg.certify_windows(prior, far, (0, 1))["ada"]
    assert unseen.certified == pytest.approx(unseen.baseline, abs=1e-9)
    with pytest.raises(tg.TallyguardError, match="locations of the population"):
        tg.certify_windows(people, far, (0, 1))
    assert tg.ledger_of_windows(releases, 1).rho_value() == pytest.approx(9 / 800)


def test_whoever_has_a_result_is_in_it(people: tg.Population) -> None:
    """Ids are looked for, counted and gone through as they are found by ``[id]``."""
    door = tg.MoveSensor.of("door", {(0, 1): 1, (1, 0): 1})
    audits = tg.certify(people, SCHEDULE)
    assert audits[0] in audits
    found = [
        audits,
        tg.attack(people, SCHEDULE, draws=10),
        tg.hindsight(people, SCHEDULE, 0, 1),
        tg.certify_windows(people, [tg.WindowRelease(door, 1, 3, 3, tg.Gaussian(20.0))], (0, 3)),
    ]
    for each in found:
        assert ("ada" in each, "eve" in each, 0 in each, len(each)) == (True, False, False, 2)
    assert [list(each) for each in found[1:]] == [["ada", "bob"]] * 3


@pytest.mark.parametrize("person", ["", "ada \ud800"])
def test_an_id_is_one_that_files_can_hold(person: str) -> None:
    prior = tg.Prior.from_dense(person, [[1.0]])
    with pytest.raises(tg.TallyguardError, match="a person's id must be text that files can hold"):
        tg.Population.pack([prior])


@pytest.mark.parametrize("ids", [["ada"], []])
def test_a_stream_refuses_a_sensor_where_the_population_has_no_place(ids: list[str]) -> None:
    """In a sentence, as an audit does, and before anything is accounted."""
    people = tg.Population.pack([tg.Prior.from_dense(each, [[0.9, 0.1], [0.4, 0.6]]) for each in ids])
    accountant = tg.Accountant(people)
    with pytest.raises(tg.TallyguardError, match="locations of the population"):
        accountant.apply(tg.Schedule.raw([[7]]).steps[0])
    accountant.apply(tg.Schedule.raw([[]]).steps[0])


def test_a_users_file_has_the_types_that_strict_checks_ask_for() -> None:
    """What is checked with `make style` runs, too."""
    assert set(ceilings()) == {"ada", "bob"}
    assert f"-m {ceilings.__module__}" in (ROOT / "Makefile").read_text()
