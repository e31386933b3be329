"""What the habits rest on, and what real traces said of them: predicted and realised, by groups of people."""

from __future__ import annotations

from collections.abc import Iterable

from stream_app.analysis.report.html import paragraph, table
from stream_app.analysis.run_log import RunLog
from stream_app.setup.priors_verdict import CheckedGroup, PriorsVerdict
from stream_app.watching.wording import in_a_hundred, in_interval


def what_habits_rest_on(log: RunLog) -> Iterable[str]:
    """The note that every output has, and the check it comes from; nothing for habits nobody checked."""
    if log.note is None:
        return
    yield paragraph(f"Note: {log.note}.")
    if log.check is not None:
        yield from checked_groups(log.check)
    if log.raised_from > 0:
        are_others = any(summary.chains != log.ceilings.chains for summary in log.summaries)
        answered = "leaves them open" if are_others else "raises them"
        yield paragraph(
            f"Ceilings before {log.when(log.raised_from)} were computed before that was known, under another "
            f"condition; the answer to the question below {answered}."
        )


def checked_groups(check: PriorsVerdict) -> Iterable[str]:
    """How often the best guess from habits alone should have been right, and how often it was."""
    yield paragraph(
        f"How often the best guess from habits alone names at least {check.steps - check.mistakes} of "
        f"{check.steps} steps that the priors were not fitted to:"
    )
    rows = [_row("everybody", check.everybody)]
    rows += [_row(_place(number, len(check.groups)), group) for number, group in enumerate(check.groups)]
    yield table(("People, by what is predicted", "Number", "The priors say", "It happened", "Verdict"), rows)
    yield paragraph("In brackets the 95 % interval of what happened. The verdict is the worst group's.")


def _place(number: int, groups: int) -> str:
    """Where a group stands among all."""
    ends = {0: "lowest predictions", groups - 1: "highest predictions"}
    return ends.get(number, f"group {number + 1} of {groups}")


def _row(name: str, group: CheckedGroup) -> tuple[str, ...]:
    return (
        name,
        f"{group.people:,}",
        in_a_hundred(group.predicted),
        in_interval(group.realised, group.low, group.high),
        group.verdict if group.verdict.startswith("ceilings") else "not refuted",
    )
