"""Ceilings within a radius of the prior: what ``tallyguard audit --radius`` or ``--check`` adds to each."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from accounting.audit import Audit, Explanation
    from accounting.bounds.radius import Radius
    from models.priors import Population
    from stream_app.setup.priors_verdict import PriorsVerdict
    from stream_app.watching.hindsight import Hindsight


def given_check(path: Path | None, population: Population) -> PriorsVerdict | None:
    """The check of these priors; a sentence for a file that is none, or is one of others."""
    if path is None:
        return None
    from stream_app.setup.priors_verdict import load_priors_check

    found = load_priors_check(path)
    found.require(population)
    return found


def check_document(check: PriorsVerdict) -> dict[str, Any]:
    """The field ``priors_check`` of an audit: the verdict, and what it means for the figures beside it."""
    from stream_app.watching.prior_notes import check_note

    return {
        "priors_check": {
            "people": check.people,
            "verdict": check.verdict,
            "kappa_min": check.kappa_min,
            "condition": check_note(check),
        }
    }


def radius_of(nats: float | None, steps: int, check: PriorsVerdict | None = None) -> Radius | None:
    """What ``--radius NATS`` declares: over every step of the schedule, none of which may be left out.

    Where the priors were refuted as too low it is the least that their traces leave, unless a larger one is
    named; a smaller one is refused.
    """
    from accounting.bounds.radius import Radius

    least = 0.0 if check is None else check.within_nats
    if nats is None and least > 0.0:
        nats = least
    if nats is not None and not isfinite(nats):
        raise typer.BadParameter("--radius takes a number of nats, 0.1 say")
    if nats is not None and nats < least:
        from stream_app.watching.wording import UP, significant

        enough = significant(least, 4, UP)
        raise typer.BadParameter(f"--radius must be at least {enough}: the check refutes any smaller one")
    return None if nats is None else Radius(0, steps - 1, kl=nats)


def heading(radius: Radius) -> str:
    """What stands above a ceiling within the radius: its condition, in short."""
    from stream_app.watching.wording import DOWN, significant

    return f"Within {significant(radius.kl, 3, DOWN)} nats"


def raised_in_words(radius: Radius, ceiling: float) -> str:
    """The ceiling within the radius: "31 in 100"."""
    from stream_app.watching.wording import ceiling_in_words

    return ceiling_in_words(radius.ceiling(ceiling).value)


def add_to_audit(document: dict[str, Any], audit: Audit, radius: Radius) -> None:
    """``certified_radius``, and under which condition it holds."""
    from stream_app.watching.prior_notes import radius_note

    document["certified_radius"] = radius.ceiling(audit.certified).value
    document["radius"] = {
        "nats": radius.kl,
        "first_step": radius.first,
        "last_step": radius.last,
        "condition": radius_note(radius),
    }


def add_to_why(document: dict[str, Any], explanation: Explanation, radius: Radius) -> None:
    """``certified_radius`` of each release: the ceiling within the radius without it."""
    for release, share in zip(document["releases"], explanation.shares, strict=True):
        release["certified_radius"] = radius.ceiling(explanation.without(share)).value


def add_to_hindsight(document: dict[str, Any], found: Hindsight, radius: Radius) -> None:
    """``then_radius`` and ``now_radius``."""
    document["then_radius"] = radius.ceiling(found.then).value
    document["now_radius"] = radius.ceiling(found.now).value
