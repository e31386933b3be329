"""From check-ins to priors."""

from models.fitting.checkins import read_checkins
from models.fitting.fit import FitResult, fit_priors
from models.fitting.fit_options import FitOptions
from models.fitting.held_out import predict_held_out

__all__ = ["FitOptions", "FitResult", "fit_priors", "predict_held_out", "read_checkins"]
