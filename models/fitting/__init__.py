"""From check-ins, or from aggregates of all people, to priors."""

# mypy: implicit-reexport
# ruff: noqa: F401

from models.fitting.checkins import CONVENTIONS, Checkins, OnBadRow, checkins_of, read_checkins
from models.fitting.fit import FitResult, fit_priors, predict_held_out, training_surprise
from models.fitting.fit_options import PAPER, FitOptions
from models.fitting.stay_points import stays_of
from models.fitting.windows import Traces, traces_of
