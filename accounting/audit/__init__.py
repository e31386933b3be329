"""Everything known about one person under one schedule, and which release caused it."""

# mypy: implicit-reexport
# ruff: noqa: F401

from accounting.audit.audit import (
    AttackReport,
    AttackSettings,
    Audit,
    Explanation,
    InformationShare,
    PosteriorCeiling,
    ReleaseShare,
    audit_exposure,
    audit_population,
    explain,
    information_shares,
    mean_explanation,
    posterior_ceiling,
    seen_among,
)
