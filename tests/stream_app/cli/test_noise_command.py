"""`tallyguard noise design`: what it prints and what it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from models.gaussian_process import RBF, GaussianProcessPrior
from models.noise_design import METHODS, loss_nats, secret_information
from stream_app.cli.noise_command import MethodName
from tests.stream_app.command_line import called

FIELDS = ["method", "epsilon", "sigma_s2", "alpha", "trace", "posterior_2sigma", "solver", "seconds"]


def designed(*arguments: str) -> dict[str, Any]:
    """The JSON document of a design."""
    result = called("noise", "design", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("method", METHODS)
def test_epsilon_is_that_of_the_covariance_that_is_written(method: str, tmp_path: Path) -> None:
    """Every method prints the agreed fields, and the file alone gives the same loss."""
    path = tmp_path / "noise"
    document = designed(
        *("--points", "12", "--length-scale", "2", "--secret", "5,6", "--noise-budget", "3"),
        *("--method", method, "--order", "4", "--radius", "0.5", "--covariance", str(path)),
    )
    assert list(document) == FIELDS
    prior = GaussianProcessPrior.at_steps(RBF(2.0), 12).covariance()
    information = secret_information(prior, np.load(path), [5, 6])
    assert document["epsilon"] == pytest.approx(loss_nats(information, 4.0, 0.5), rel=1e-12)
    assert document["trace"] == pytest.approx(3.0)


def test_the_example_of_the_contract_has_the_reference_value() -> None:
    """50 points, RBF of scale 2, two adjacent secrets: 96.549."""
    document = designed("--length-scale", "2", "--secret", "24,25")
    assert document["epsilon"] == pytest.approx(96.549, rel=1e-4)
    assert document["alpha"] + 1.0 / document["sigma_s2"] == pytest.approx(document["epsilon"] / 5.0)


def test_without_a_secret_the_worst_single_time_counts() -> None:
    """The joint design: `lambda/2 r^2 n / budget`."""
    document = designed("--method", "multiple-exact", "--points", "20", "--noise-budget", "10")
    assert document["epsilon"] == pytest.approx(2.5 * 20 / 10, rel=1e-6)


def test_a_secret_that_the_release_fixes_has_null_for_epsilon() -> None:
    """Noise at the secret alone, and a smooth prior: no finite loss is claimed."""
    assert designed("--method", "concentrated", "--secret", "24")["epsilon"] is None
    text = called("noise", "design", "--method", "concentrated", "--secret", "24")
    assert "the release fixes the secret" in text.stdout


def test_irregular_times_and_other_kernels_are_accepted() -> None:
    """`--times` replaces `--points`."""
    document = designed("--times", "0,1.5,2,7", "--kernel", "matern52", "--secret", "1")
    assert 0.0 < document["epsilon"] < 100.0
    assert designed("--kernel", "periodic", "--points", "48", "--length-scale", "1.1", "--secret", "24")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--secret", "a"], 2),
        (["--method", "best"], 2),
        (["--kernel", "cosine"], 2),
        (["--points", "0"], 2),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], code: int) -> None:
    """Options out of their domain are named by the parser."""
    assert called("noise", "design", *arguments).exit_code == code


def test_every_method_can_be_named() -> None:
    """The command's choices are the methods there are."""
    assert set(get_args(MethodName)) == set(METHODS)
