"""What would lower the risk: named sensors, recomputed ceilings, from decisions and priors, never a count."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.settings import OPERATIONS
from models.priors import Population
from models.releases import StepSchedule
from stream_app.analysis.accounted_again import read_decisions
from stream_app.analysis.report import RunLog, read_run, write_report
from stream_app.analysis.report.lowering import Lowering, Priors, load_priors, lowering
from stream_app.city import CityOptions, build_city
from stream_app.exceptions import RunChangedError
from stream_app.setup.keys import load_keys
from tests.hex_keys import hex_key
from tests.stream_app.engine_support import (
    REGISTRY,
    lines_of,
    messages_of_a_day,
    population,
    run_on,
    settings,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("all_the_work")]


PEOPLE = 2


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run whose steps are noised at A, C and D, and raw at B."""
    folder = tmp_path_factory.mktemp("run")
    all_the_work = {"sharpen_operations": OPERATIONS}  # the fixture of that name is of one test
    run_on(folder, [lines_of(messages_of_a_day(16, 8))], settings=all_the_work)
    return folder


def steps_of(folder: Path) -> list[StepSchedule]:
    """What the run released."""
    return read_decisions(folder / "decisions.jsonl", REGISTRY)


@cache
def answer(folder: Path) -> tuple[RunLog, Priors, Lowering]:
    log, priors = read_run(folder), load_priors(folder, settings(), population())
    found = lowering(log, priors, steps_of(folder), PEOPLE)
    assert found is not None
    return log, priors, found


def test_shares_add_up_and_the_raw_sensor_is_named_first(run: Path) -> None:
    """By sensor and by release alike."""
    _, _, found = answer(run)
    assert found.people == PEOPLE
    assert sum(share.share for share in found.shares) == pytest.approx(1.0)
    assert sum(release.share for release in found.releases) == pytest.approx(1.0)
    assert (found.shares[0].sensor, found.shares[0].mechanism) == ("B", "raw")
    assert found.releases[0].sensor == "B"
    bits = {share.sensor: share.bits / share.share for share in found.shares}
    assert max(bits.values()) == pytest.approx(min(bits.values())), "shares are shares of the bits"
    assert [change.name for change in found.changes[:2]] == ["as it was", "B suppressed"]


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("as it was", {}),
        ("all with at least sigma 10", {"mechanism": "gaussian", "sigma": 10.0}),
        (
            "B suppressed",
            {"mechanism": "gaussian", "sigma": 2.0, "sensors": {"B": {"mechanism": "suppressed"}}},
        ),
    ],
)
def test_a_rerun_gives_what_was_promised(
    run: Path, tmp_path: Path, name: str, release: dict[str, object]
) -> None:
    """The same messages with the settings proposed: the rerun's accounts have the figures, bit for bit."""
    log, _, found = answer(run)
    promised = next(change for change in found.changes if change.name == name)
    changed = {"release": release} if release else {}
    run_on(tmp_path, [lines_of(messages_of_a_day(16, 8))], settings=changed)
    moments = {record.person: record.step for record in log.exposed[:PEOPLE]}
    accountant, found, most = ContinuousAccountant(population(), read_run(tmp_path).horizon()), {}, 0.0
    names = load_keys(settings(), tmp_path).pseudonyms.pseudonyms(population().people)
    chosen = [(person, known) for person, known in enumerate(names) if known in moments]
    for step in steps_of(tmp_path):
        accountant.apply(step)
        for person, known in chosen:
            most = max(most, float(accountant.added()[person]))
            if moments[known] == step.step:
                found[known] = accountant.risk()[person], accountant.added()[person]
    assert found.keys() == moments.keys()
    assert promised.ceiling == pytest.approx(np.mean([risk for risk, _ in found.values()]), abs=1e-15)
    assert promised.added == pytest.approx(np.mean([added for _, added in found.values()]), abs=1e-15)
    assert promised.most_added == pytest.approx(most, abs=1e-15)


def test_every_row_is_about_the_same_people_and_moments(run: Path) -> None:
    """More noise at the same sensors never has a higher ceiling; silence has the least of all."""
    _, _, found = answer(run)
    ceilings = {change.name: change.ceiling for change in found.changes}
    together = next(name for name in ceilings if name.startswith("these")).split(" sensors")[0]
    rows = [
        f"{together} sensors {how}"
        for how in ("with at least sigma 3", "with at least sigma 10", "suppressed")
    ]
    noised, more, silent = (ceilings[row] for row in rows)
    assert ceilings["as it was"] >= noised >= more >= silent
    assert ceilings["as it was"] > silent


def test_more_noise_helps_more_and_says_what_it_costs(run: Path) -> None:
    _, _, found = answer(run)
    added = {change.name: change.added for change in found.changes}
    assert added["all with at least sigma 10"] < added["all with at least sigma 3"] < added["as it was"]
    errors = {change.name: change.error for change in found.changes}
    assert errors["B suppressed"] is None
    assert 7.5 < (errors["all with at least sigma 10"] or 0) < 8.5


def test_less_noise_than_there_was_is_never_proposed(tmp_path: Path) -> None:
    """Sigma 1 at sensors that have sigma 5 changes nothing, so it has no row; neither has sigma 3."""
    noised = {"release": {"mechanism": "gaussian", "sigma": 5.0}}
    run_on(tmp_path, [lines_of(messages_of_a_day(8, 8))], settings=noised)
    log, priors = read_run(tmp_path), load_priors(tmp_path, settings(**noised), population())
    found = lowering(log, priors, steps_of(tmp_path), 1)
    assert found is not None
    ceilings = {change.name: change.ceiling for change in found.changes}
    assert not [name for name in ceilings if name.endswith(("sigma 1", "sigma 3"))]
    assert ceilings["all with at least sigma 10"] < ceilings["as it was"]


def test_no_count_plays_a_part(run: Path, tmp_path: Path) -> None:
    """Other counts of the same schedule give the same answer."""
    others = [
        message.model_copy(update={"count": 3 * message.count + 1}) if message.type == "reading" else message
        for message in messages_of_a_day(16, 8)
    ]
    run_on(tmp_path, [lines_of(others)])
    assert (tmp_path / "releases.jsonl").read_bytes() != (run / "releases.jsonl").read_bytes()
    assert answer(tmp_path)[2] == answer(run)[2]


def test_the_report_names_sensors_releases_and_what_less_would_do(run: Path, tmp_path: Path) -> None:
    log, priors, found = answer(run)
    write_report(run, tmp_path / "with.html", PEOPLE, priors=priors)
    write_report(run, tmp_path / "without.html")
    page = (tmp_path / "with.html").read_text()
    assert f"Single releases: B, step {found.releases[0].step}" in page
    assert "B suppressed" in page
    assert "with at least sigma 10" in page
    assert "Sensors that revealed most" not in (tmp_path / "without.html").read_text()
    assert not any(person in page for person in population().people)
    assert log.exposed[0].person[:12] in page


def test_other_priors_and_other_keys_are_refused(run: Path) -> None:
    """People would be mixed up; without records of single people there is no answer."""
    strangers: Population = build_city(CityOptions(people=5)).population
    with pytest.raises(RunChangedError, match="priors must be those of the run"):
        load_priors(run, settings(), strangers)
    other = settings(pseudonym_key_secret=hex_key("33"))
    known = Priors(population(), REGISTRY, load_keys(other, run).pseudonyms.pseudonyms(population().people))
    with pytest.raises(RunChangedError, match="nobody with the pseudonym"):
        lowering(read_run(run), known, steps_of(run))
    assert lowering(read_run(run, most_exposed=0), known, steps_of(run)) is None
