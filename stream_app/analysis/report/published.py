"""The report of a run without people: what is promised then, and what was published."""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, isfinite

from accounting.ledgers import EVERY_GROUP, PrivacyAccount
from stream_app.analysis.report.html import Rows, paragraph, table
from stream_app.analysis.run_log import RunLog
from stream_app.watching.wording import duration, spent_in_words

NOT_COVERED = (
    "No chance of being traced is given, as nobody's habits are known: fit priors to check-ins, or assume "
    "some and say so, to compute it (docs/how-to/get-a-prior.md).",
    "Who is counted by several sensors in one step is less protected than epsilon says.",
    "A group that moves together is protected less the larger it is.",
    "Only counts are covered: images, sounds or radio traces a sensor may take are not.",
)
_PROMISE = (
    "Differential privacy: whatever anybody concludes from the releases, they would have concluded nearly as "
    "likely had a given person stayed at home all the time, and whatever else they know. Epsilon says how "
    "nearly: odds differ by at most the factor beside it, but for a chance of delta. It grows."
)
_MOST_ODDS = 1e6


def what_is_promised(log: RunLog) -> Iterable[str]:
    """Epsilon of everything published so far, by group of sensors."""
    yield paragraph(_PROMISE)
    if log.account is None:
        yield paragraph("This run's records hold no account of it: see tallyguard ledger.")
        return
    yield table(
        ("Sensors", f"Epsilon at delta {log.delta:g}", "Odds differ by at most"), _spent(log, log.account)
    )


def setting_of(log: RunLog) -> Rows:
    """Which steps, how many releases of each kind, what was rejected."""
    steps = 0 if log.account is None else log.account.steps
    if steps:
        length = duration(log.settings["step_seconds"])
        yield "Steps", f"{log.when(0)} to {log.when(steps - 1)}, {length} each"
    for mechanism, count in sorted(log.releases.items()):
        yield f"Decided, {mechanism}", f"{count:,} sensor-steps"
    yield "Messages rejected", f"{log.rejected:,}"


def _spent(log: RunLog, account: PrivacyAccount) -> Rows:
    spends = account.spends
    has_one_group = len(spends) == 2  # one group, and every sensor: the same
    for group, spend in spends.items():
        if group == EVERY_GROUP or not has_one_group:
            epsilon = spend.epsilon(log.delta)
            name = "all together" if group == EVERY_GROUP else group
            yield name, spent_in_words(spend, log.delta), _odds(epsilon)


def _odds(epsilon: float) -> str:
    if not isfinite(epsilon):
        return "any factor"
    odds = exp(min(epsilon, 700.0))
    return f"{odds:,.3g}" if odds < 1000 else f"{odds:,.0f}" if odds < _MOST_ODDS else "more than a million"
