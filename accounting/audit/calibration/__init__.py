"""Priors held against traces they were not fitted to: what they predict, and what really happened."""

from accounting.audit.calibration.chosen_horizons import RecordedPeople
from accounting.audit.calibration.group_check import GroupCheck, Verdict
from accounting.audit.calibration.panel_check import PanelCheck
from accounting.audit.calibration.poisson_binomial import hits_law, tail_probabilities
from accounting.audit.calibration.priors_check import CheckSettings, GroupedCheck, PriorsCheck, check_priors
from accounting.audit.calibration.running_check import RunningCheck
from accounting.audit.calibration.sharpness import Sharpness, sharpness

__all__ = [
    "CheckSettings",
    "GroupCheck",
    "GroupedCheck",
    "PanelCheck",
    "PriorsCheck",
    "RecordedPeople",
    "RunningCheck",
    "Sharpness",
    "Verdict",
    "check_priors",
    "hits_law",
    "sharpness",
    "tail_probabilities",
]
