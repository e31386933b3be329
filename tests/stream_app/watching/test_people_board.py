"""What the page behind the token says of one person, each figure against an account of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from accounting.audit import audit
from accounting.bounds.radius import ceiling_within
from models.releases import SensorRelease, StepSchedule
from stream_app.watching.people import NATS_PER_BIT, PeopleView
from stream_app.watching.web.status import PeopleBoard
from tests.stream_app.engine_support import lines_of, messages_of_a_day, run_on

RADIUS = 0.05


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> PeopleBoard:
    """The page as it stood after a run with exact counts of B and noised ones of the others."""
    found = PeopleBoard("token")
    run_on(Path(tmp_path_factory.mktemp("run")), [lines_of(messages_of_a_day(12, 8))], observer=found)
    return found


_FEW = 1  # each is accounted once more for every release


def of_board(board: PeopleBoard) -> tuple[PeopleView, tuple[StepSchedule, ...]]:
    view, steps = board._view, board._log.steps
    assert view is not None
    return view, steps[-view.settings.horizon :]


@pytest.mark.slow
def test_a_release_is_charged_with_what_the_ceiling_falls_by_without_it(
    board: PeopleBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accounted again with that release left out, of the prior and within a radius."""
    monkeypatch.setattr(PeopleView, "explain", cache(PeopleView.explain))  # the radius has no part in it
    view, steps = of_board(board)
    standing = board._standing
    assert standing is not None
    for person, pseudonym in enumerate(standing.pseudonyms[:_FEW]):
        explained = view.explain(person, steps)
        for within in (0.0, RADIUS):
            monkeypatch.setattr(view, "settings", replace(view.settings, within_nats=within))
            shown = board.why(pseudonym)
            assert shown is not None
            assert shown["certified"] == ceiling_within(within, explained.certified) >= shown["baseline"]
            assert (within == 0.0) == (shown["certified"] == explained.certified)
            assert shown["steps"] == [steps[0].step, steps[-1].step]
            assert shown["information_bits"] == pytest.approx(
                sum(share["information_nats"] for share in shown["shares"]) / NATS_PER_BIT
            )
            for share in shown["shares"]:
                kept = steps_without(steps, share["step"], share["sensor"])
                with monkeypatch.context() as alone:
                    alone.setattr(audit, "information_shares", lambda *_: ())  # each would be an audit more
                    without = ceiling_within(within, view.explain(person, kept).certified)
                assert share["certified_drop"] == pytest.approx(shown["certified"] - without, abs=1e-12)
                assert share["information_bits"] == share["information_nats"] / NATS_PER_BIT
            assert max(share["certified_drop"] for share in shown["shares"]) > 0.01


def steps_without(steps: Iterable[StepSchedule], left_out: int, sensor: str) -> tuple[StepSchedule, ...]:
    """The steps with one release of a sensor left out."""

    def kept(step: StepSchedule) -> tuple[SensorRelease, ...]:
        return tuple(each for each in step.releases if (step.step, each.sensor.name) != (left_out, sensor))

    return tuple(replace(step, releases=kept(step)) for step in steps)


@pytest.mark.slow
def test_who_is_exposed_is_listed_with_the_figures_of_the_account(board: PeopleBoard) -> None:
    view, _ = of_board(board)
    standing = view.standing()
    found = board.exposed(0.0)
    assert found["reached"] == len(found["people"]) == len(standing.pseudonyms) > 1
    assert found["step"] == standing.step
    for row in found["people"]:
        person = standing.pseudonyms.index(row["person"])
        assert row["added"] == pytest.approx(row["risk"] - row["baseline"])
        assert (row["risk"], row["baseline"]) == (standing.risk[person], standing.baseline[person])
        assert row["most_added"] == standing.worst.added[person] >= row["added"]
        assert row["most_added_step"] == standing.worst.step[person]
        assert row["crowd"] is None
    added = [row["added"] for row in found["people"]]
    assert added == sorted(added, reverse=True)
    level = sorted(standing.risk)[-2]
    above = board.exposed(float(level))
    assert above["reached"] == int((standing.risk >= level).sum())
    assert all(row["risk"] >= level for row in above["people"])
