"""Everything known about one person under one schedule, and which release caused it."""

from accounting.audit.audit import AttackSettings, Audit, audit_exposure, audit_population
from accounting.audit.drawn_ceilings import PosteriorCeiling, posterior_ceiling
from accounting.audit.explanation import Explanation, ReleaseShare, explain

__all__ = [
    "AttackSettings",
    "Audit",
    "Explanation",
    "PosteriorCeiling",
    "ReleaseShare",
    "audit_exposure",
    "audit_population",
    "explain",
    "posterior_ceiling",
]
