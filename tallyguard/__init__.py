"""The library for researchers: ``import tallyguard as tg``.

A prior, what was released, and one line::

    prior = tg.Prior.from_dense("ada", [[0.9, 0.1], [0.4, 0.6]])
    tg.audit(prior, tg.Schedule.raw([[1], [], [1]]), mistakes=1)

Every name below is public and keeps its meaning from version to version; modules of :mod:`models`,
:mod:`accounting` and :mod:`stream_app` behind them may move. ``docs/tutorials/python.md`` is a tutorial.
"""

# ruff: noqa: RUF022 - names are grouped by what they are for
import tallyguard.own_names  # noqa: F401 - says what would fail below without a reason

# isort: split
from accounting.attacks import Seen, register_attack
from accounting.audit import Audit
from accounting.bounds import BoundCheck, Effort, check_bound, register_bound
from accounting.bounds import Question as BoundQuestion
from accounting.bounds.radius import Radius
from accounting.continuous import ContinuousAccountant as Accountant
from accounting.exposure.crowd import CrowdAdversary, Strangers
from accounting.hmm import Decoded, Filtering, decode
from accounting.ledgers import Neighbours, SecretQuestion, prior_posterior_gap
from accounting.ledgers.bayesian import Declared
from accounting.settings import HorizonSettings
from models.calendar import Calendar
from models.exceptions import TallyguardError
from models.fitting import FitOptions, FitResult, checkins_of, read_checkins, stays_of
from models.fitting import fit_priors as fit
from models.gaussian_process import RBF, Matern, Periodic, White
from models.gaussian_process import GaussianProcessPrior as GaussianProcess
from models.mechanisms import (
    BoundedNoise,
    Correlated,
    Gaussian,
    Mechanism,
    Raw,
    Suppressed,
    Tiered,
    check_mechanism,
    register_mechanism,
)
from models.noise import CorrelatedNoise
from models.prior_files import load_evidence
from models.prior_files import load_population as load_priors
from models.prior_files import save_population as save_priors
from models.priors import DeviceView, Population, Question, second_order, with_device, with_stays
from models.priors import MovementPrior as Prior
from models.releases import (
    MoveSensor,
    Schedule,
    Sensor,
    SensorRelease,
    StepSchedule,
    TierAssignment,
    TrustGraph,
    WindowRelease,
    assign_tiers,
    exponential_level,
    reciprocal_level,
    stepwise_level,
)
from stream_app.setup.this_process import own_version
from tallyguard.audits import Audits, Why, advantage, audit, certify, explain, unregister
from tallyguard.by_person import (
    Attacks,
    InHindsight,
    WindowRisks,
    attack,
    certify_windows,
    hindsight,
    ledger_of_windows,
)
from tallyguard.papers import (
    SideBySide,
    bayesian_ledger,
    design,
    inferential_ledger,
    inferential_loss,
    largest_leakage,
    leakage,
    pass_on,
    pass_on_count,
    real_tiers,
    side_by_side,
    summed_leakage,
)
from tallyguard.plans import Ledger, Plan, ledger, plan

__version__ = own_version()

# What is believed about people
__all__ = ["Prior", "Population", "Question", "second_order", "with_stays", "with_device", "DeviceView"]
__all__ += ["load_priors", "save_priors", "load_evidence", "read_checkins", "checkins_of", "stays_of", "fit"]
__all__ += ["FitOptions", "FitResult"]
# What is released
__all__ += ["Sensor", "Schedule", "Calendar", "StepSchedule", "SensorRelease", "MoveSensor", "WindowRelease"]
__all__ += ["Mechanism", "Raw", "Gaussian", "Suppressed", "Correlated", "Tiered", "check_mechanism"]
__all__ += ["BoundedNoise", "register_mechanism", "CorrelatedNoise", "design", "GaussianProcess", "RBF"]
__all__ += ["Matern", "Periodic", "White", "TrustGraph", "assign_tiers", "TierAssignment"]
__all__ += ["exponential_level", "reciprocal_level", "stepwise_level", "pass_on", "pass_on_count"]
__all__ += ["real_tiers"]
# What that reveals
__all__ += ["audit", "certify", "explain", "attack", "hindsight", "Audit", "Audits", "Why", "Attacks"]
__all__ += ["InHindsight", "Effort", "Radius", "CrowdAdversary", "Strangers", "side_by_side", "SideBySide"]
__all__ += ["advantage", "register_attack", "Seen", "register_bound", "check_bound", "BoundCheck"]
__all__ += ["BoundQuestion", "unregister", "Accountant", "HorizonSettings", "ledger", "Ledger", "Neighbours"]
__all__ += ["inferential_loss", "inferential_ledger", "SecretQuestion", "prior_posterior_gap", "leakage"]
__all__ += ["summed_leakage", "largest_leakage", "Declared", "bayesian_ledger", "certify_windows"]
__all__ += ["WindowRisks", "ledger_of_windows"]
# What observed traces say
__all__ += ["decode", "Decoded", "Filtering"]
# What to release
__all__ += ["plan", "Plan", "TallyguardError"]
