"""A deployment grows old on files: the ceilings of a year, and what its record and report say of it."""

from __future__ import annotations

import json
from functools import partial
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from accounting.hmm.propagation import law_at
from models.calendar import Calendar
from stream_app.analysis.checked_run import check_run
from stream_app.analysis.report import make_report
from stream_app.setup.run_folder.description import changes_in
from stream_app.setup.run_folder.record import periods, read_entries
from tests.stream_app.a_year import (
    FIRST,
    HALF_DAY,
    HOLIDAYS,
    LIVES,
    ORIGIN,
    PARTS,
    WEEK,
    as_first_version,
    hour,
    make_key,
    optima,
    people,
    run_part,
)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was stopped and started again at each change."""
    folder = tmp_path_factory.mktemp("year")
    make_key(folder)
    with pytest.MonkeyPatch.context() as upgrade:
        for number, part in enumerate(PARTS):
            if version := part.more.get("version"):
                upgrade.setattr("stream_app.setup.run_folder.record.own_version", partial(str, version))
            run_part(number, folder)
            if (
                number == 0
            ):  # the first version knew no record; the run goes on once as it was, and then grows
                as_first_version(folder / "out")
                run_part(number, folder)
    return folder / "out"


@pytest.mark.slow
def test_every_ceiling_of_a_year_is_one(grown: Path) -> None:
    """For all people, around every change and each few days, along the moves that were true."""
    found = list(optima(grown))
    assert len(found) > 700
    assert {person for _, person, _, _ in found} == {*FIRST, "eve"}
    assert min(ceiling - best for _, _, ceiling, best in found) >= -1e-9
    near = [ceiling - best for step, _, ceiling, best in found if not 250 <= step < 560]
    assert np.median(near) < 0.1, "or the ceilings would say nothing"
    assert {ceiling for step, person, ceiling, _ in found if person == "cem" and step in (400, 401)} == {1.0}


@pytest.mark.slow
def test_the_record_of_a_year_says_what_changed_when_and_why(grown: Path) -> None:
    """In words, also in the report and by its periods; nothing is missing."""
    checked = check_run(grown)
    assert checked.is_whole, checked.faults
    found = periods(checked.entries, checked.released)
    assert [(each.first, each.entry is None) for each in found][:2] == [(0, True), (120, False)]
    entries = read_entries(grown / "record.jsonl")
    said = {
        each.step: ([change.words for change in own], each.reason)
        for each, own in zip(entries, changes_in(entries), strict=True)
        if each.kind == "changed"
    }
    assert list(said) == [part.first for part in PARTS[1:]]
    assert said[120][0] == ["1 person added, 1 removed from step 120 on"]
    assert said[200][0] == ['sensor "s2" removed', 'sensor "s3" added at "street"']
    assert said[250][0][0].startswith("rule of s1")
    days = ["2023-08-15", "2023-12-25"]
    was, is_now = json.dumps([*days, "2024-02-14"]), json.dumps([*days, "2024-05-01"])
    assert said[280][0] == [f"holidays {was} -> {is_now}"]
    assert said[300] == (
        ["1 person with new priors (redone) from step 300 on"],
        "the survey of bob was wrong",
    )
    assert said[330][0] == ["noise_key: another one"]
    assert said[360][0] == []  # another version, which the entry names
    assert said[400][0] == [
        "1 person with new priors (told) from step 400 on",
        'place "bridge" added',
        'sensor "s4" added at "bridge"',
    ]
    assert 'sensor "s2" added again at "work"' in said[560][0]
    page = unescape(make_report(grown))
    for words, why in said.values():
        assert all(each in page for each in (*words, *([why] if why else [])))
    assert {each.version for each in entries} == {entries[0].version, "99.0"}


def test_where_somebody_is_after_changed_clocks_and_holidays_is_what_the_clock_says() -> None:
    """The law from which whoever begins anew is accounted: of a cycle with holidays, and of one without."""
    life, chain = LIVES["ann"], people({"ann": FIRST["ann"]}).chain(0)
    clock = "Europe/Vienna", int(ORIGIN.timestamp()), HALF_DAY, 0
    with_holidays, without = Calendar(*clock, tuple(HOLIDAYS)), Calendar(*clock)
    for step in (0, 90, 241, 242, 360, 400, 549, 620):
        found = law_at(chain, None, 0, step, 0, with_holidays)
        assert found == pytest.approx(life.law(step), abs=1e-9)
        began = law_at(chain, life.law(7), 7, max(step, 7), 0, with_holidays)
        assert began == pytest.approx(life.law(max(step, 7)), abs=1e-9)
        assert law_at(chain, None, 0, step, 0, without) == pytest.approx(chain.start[hour(step) % WEEK])
    assert law_at(chain, None, 0, 40, 3, None) == pytest.approx(chain.start[43 % WEEK])
    assert law_at(chain, chain.start[3], 0, 40, 3, None) == pytest.approx(chain.start[43 % WEEK])
