"""``tallyguard plan`` without priors: nobody's risk, and what declared strangers hide at which hour."""

from __future__ import annotations

from json import dumps
from pathlib import Path

import pytest

from tests.stream_app.command_line import Tallyguard

SETTINGS = """
locations = "locations.txt"
adversary = "crowd"
release.mechanism = "raw"
[crowd]
known = 4
[crowd.strangers."at eight"]
sensor = "gate"
from_hour = 8
until_hour = 9
people = 300
least_chance = 0.2
most_chance = 0.7
"""


@pytest.mark.slow
def test_where_raw_is_safe_is_answered_for_who_has_counters_and_strangers_alone(
    tmp_path: Path, tallyguard: Tallyguard
) -> None:
    """300 variances of 0.16 or more, less those of the person and of four who are known: sigma 6.8."""
    (tmp_path / "locations.txt").write_text("gate\npark\n")
    (tmp_path / "tallyguard.toml").write_text(SETTINGS)
    steps = [{"sensors": ["gate", "park"], "mechanism": "raw"}] * 24
    (tmp_path / "day.json").write_text(dumps({"steps": steps}))
    command = ("plan", tmp_path / "day.json", "--config", tmp_path / "tallyguard.toml")
    found = tallyguard(*command, "--json").document
    hidden = {(each["sensor"], each["slot"]): each["sigma"] for each in found["crowd"]["hidden"]}
    assert len(hidden) == 48
    assert {where for where, sigma in hidden.items() if sigma > 0.0} == {("gate", 8)}
    assert hidden["gate", 8] == pytest.approx((300 * 0.16 - 5 / 4) ** 0.5, rel=0.02)
    assert found["people"] == found["crowd"]["others"] == 0
    assert {(step["mean_risk"], step["risk"], step["mean_baseline"]) for step in found["steps"]} == {
        (None, None, None)
    }
    shown = tallyguard(*command).out
    condition = found["crowd"]["condition"]
    assert condition in shown
    assert condition.startswith(
        "if at least so many others without a prior (300 at gate from 8 to 9 h), except 4 whom the adversary "
        "may follow, chosen without regard"
    )
    assert "no priors, so no risk of persons is computed" in shown
    assert "0.000" not in shown
    for wrong in (("--vary", "radius=0.1"), ("--plot", tmp_path / "plan.png")):
        refused = tallyguard(*command, *wrong)
        assert refused.code == 2
    refused = tallyguard(*command, "--added", "0.1")
    assert refused.code == 1
    assert "a risk budget must have people to protect" in refused.err
