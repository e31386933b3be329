"""From check-ins, or from aggregates of all people, to priors."""

from models.fitting.checkins import Checkins, OnBadRow, read_checkins
from models.fitting.fit import FitResult, fit_priors, predict_held_out, training_surprise
from models.fitting.fit_options import PAPER, FitOptions
from models.fitting.windows import Traces, traces_of

__all__ = [
    "PAPER",
    "Checkins",
    "FitOptions",
    "FitResult",
    "OnBadRow",
    "Traces",
    "fit_priors",
    "predict_held_out",
    "read_checkins",
    "traces_of",
    "training_surprise",
]
