"""Functions take little: state that belongs together travels as one object."""

from __future__ import annotations

from tests import ROOT
from tests.structure import MOST, USUALLY, figures, parameter_counts, trees


def test_no_function_takes_a_train_of_arguments() -> None:
    """At most eight parameters, and at most six in 95 of 100 functions."""
    found = [each for path, tree in trees(ROOT).items() for each in parameter_counts(path, tree)]
    assert len(found) > 1000
    assert not [name for count, name in found if count > MOST]
    assert sum(count > USUALLY for count, _ in found) <= 0.05 * len(found)


def test_the_figures_of_the_structure_are_those_of_the_code() -> None:
    """What `python -m tests.structure` prints, where other tests hold the same."""
    found = figures(ROOT)
    assert found["parameters, median / p95 / max"].endswith(f"/ {MOST}")
    assert max(map(int, found["files of the five largest folders"].split(", "))) <= 14
    assert "stream_app 6, accounting 6, models 5" in found["layers of imports there"]
