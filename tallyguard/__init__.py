"""The library for researchers: ``import tallyguard as tg``.

A prior, what was released, and one line::

    prior = tg.Prior.from_dense("ada", [[0.9, 0.1], [0.4, 0.6]])
    tg.audit(prior, tg.Schedule.raw([[1], [], [1]]), mistakes=1)

Every name below is public and keeps its meaning from version to version; modules of :mod:`models`,
:mod:`accounting` and :mod:`stream_app` behind them may move. ``docs/tutorials/python.md`` is a tutorial.
"""

import tallyguard.own_names  # noqa: F401 - says what would fail below without a reason

# isort: split
from accounting.audit import Audit
from accounting.bounds import Effort
from accounting.bounds.radius import Radius
from accounting.continuous import ContinuousAccountant as Accountant
from accounting.exposure.crowd import CrowdAdversary, Strangers
from accounting.hmm import Decoded, Filtering, decode
from accounting.ledgers import Neighbours
from accounting.settings import HorizonSettings
from models.calendar import Calendar
from models.exceptions import TallyguardError
from models.fitting import FitOptions, FitResult, read_checkins
from models.fitting import fit_priors as fit
from models.mechanisms import Correlated, Gaussian, Mechanism, Raw, Suppressed, Tiered, check_mechanism
from models.prior_files import load_evidence
from models.prior_files import load_population as load_priors
from models.prior_files import save_population as save_priors
from models.priors import MovementPrior as Prior
from models.priors import Population, Question
from models.releases import MoveSensor, Schedule, Sensor, SensorRelease, StepSchedule, WindowRelease
from stream_app.setup.this_process import own_version
from tallyguard.attacks import Attacks, attack
from tallyguard.audits import Audits, Why, audit, certify, explain
from tallyguard.passages import WindowRisks, certify_windows, ledger_of_windows
from tallyguard.past import InHindsight, hindsight
from tallyguard.plans import Ledger, Plan, ledger, plan

__version__ = own_version()

__all__ = [  # noqa: RUF022 - grouped by what they are for
    # What is believed about people
    "Prior",
    "Population",
    "Question",
    "load_priors",
    "save_priors",
    "load_evidence",
    "read_checkins",
    "fit",
    "FitOptions",
    "FitResult",
    # What is released
    "Sensor",
    "Schedule",
    "Calendar",
    "StepSchedule",
    "SensorRelease",
    "MoveSensor",
    "WindowRelease",
    "Mechanism",
    "Raw",
    "Gaussian",
    "Suppressed",
    "Correlated",
    "Tiered",
    "check_mechanism",
    # What that reveals
    "audit",
    "certify",
    "explain",
    "attack",
    "hindsight",
    "Audit",
    "Audits",
    "Why",
    "Attacks",
    "InHindsight",
    "Effort",
    "Radius",
    "CrowdAdversary",
    "Strangers",
    "Accountant",
    "HorizonSettings",
    "ledger",
    "Ledger",
    "Neighbours",
    "certify_windows",
    "WindowRisks",
    "ledger_of_windows",
    # What observed traces say
    "decode",
    "Decoded",
    "Filtering",
    # What to release
    "plan",
    "Plan",
    "TallyguardError",
]
