"""`tallyguard audit --json` reproduces the reference numbers, from files to document as a user sees it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_app.cli import main
from tests.shared_files import shared

Case = dict[str, Any]


def close(reference: float) -> Any:
    """The tolerance of the reference files: 1e-8 relative or 1e-12 absolute."""
    return pytest.approx(reference, rel=1e-8, abs=1e-12)


def audit(
    case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Case:
    """The document the command prints for one case."""
    person = {"person": "p", "initial": case["initial"], "transition": case["transition"]}
    (folder / "priors.json").write_text(json.dumps({"people": [person]}))
    steps = [
        {"sensors": sensors, "mechanism": "raw"} if sensors else {"sensors": []} for sensors in case["steps"]
    ]
    (folder / "schedule.json").write_text(json.dumps({"first_slot": 0, "steps": steps}))
    arguments = ["audit", str(folder / "priors.json"), "--schedule", str(folder / "schedule.json")]
    options = ["--mistakes", str(case["mistakes"]), "--no-attacks", "--json"]
    monkeypatch.setattr(sys, "argv", ["tallyguard", *arguments, *options])
    main_or_exit()
    (document,) = json.loads(capsys.readouterr().out)
    return dict(document)


def main_or_exit() -> None:
    """Run the command; it ends with exit code 0."""
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code


def check_papers_quantities(document: Case, case: Case) -> None:
    """The quantities of the paper, to the files' tolerance."""
    assert document["entropy"] == close(case["entropy"])
    assert document["prior_guess"]["koga"] == close(case["prior_guess_paper"])
    assert document["bounds"]["loose"] == close(case["bound_loose"])
    assert document["bounds"]["tight"] == close(case["bound_tight"])
    assert document["information"]["exact"] == close(case["information_exact"])
    if case["information_koga"] is None:
        assert document["information"]["koga"] is None
    else:
        assert document["information"]["koga"] == close(case["information_koga"])


def test_small_cases_by_enumeration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Thirty small chains, some with several or no sensors a step; the ceiling is never below the optimum."""
    cases = json.loads(shared("reference/reconstruction.json").read_text())["cases"]
    assert len(cases) == 30
    for case in cases:
        document = audit(case, tmp_path, monkeypatch, capsys)
        check_papers_quantities(document, case)
        assert document["certified"] >= case["optimum"] - 1e-12
        assert document["bounds"]["moment"] <= 1.0
        assert document["baseline"] <= case["prior_optimum"] + 1e-12


@pytest.mark.slow
def test_the_papers_synthetic_chains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Chains on a line of up to 100 places, one raw sensor a step; the moment bound of order 4 among them."""
    rows = json.loads(shared("reference/koga_synthetic.json").read_text())["rows"]
    assert rows
    for row in rows:
        places = np.arange(row["M"])
        weight = np.exp(-np.abs(places[:, None] - places[None, :]) / (row["tau"] * row["M"]))
        transition = (weight / weight.sum(axis=1, keepdims=True)).tolist()
        steps = [[sensor] for sensor in row["sensors"]]
        case = {**row, "initial": None, "transition": transition, "steps": steps}
        document = audit(case, tmp_path, monkeypatch, capsys)
        check_papers_quantities(document, case)
        assert document["certified"] <= row["bound_moment_order4"] * (1 + 1e-9) + 1e-12
