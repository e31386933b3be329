"""What became of the most exposed people's worst moments with everything that was released later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from models.releases import StepSchedule
from stream_app.analysis.report.html import paragraph, table
from stream_app.analysis.report.lowering import Priors, positions
from stream_app.analysis.run_log import RunLog
from stream_app.watching.hindsight import SHARED_NOISE, Hindsight, PastHorizon, hindsight
from stream_app.watching.wording import ceiling_in_words, in_a_hundred

IN_HINDSIGHT = "In hindsight"
NEEDS_PRIORS = (
    "Not computed: what was released later can give earlier steps away, too. By how much follows from the "
    "run's priors; name them (tallyguard report --priors)."
)
WHAT_IT_SAYS = (
    "What is released later can give earlier steps away, too. For the people above, the same steps up to "
    "their worst moments: the ceiling when the last of them was released, and the ceiling given everything "
    "released until {until}. {condition}, no method was or is right more often. Both come from "
    "slower, mostly tighter bounds than the running ceiling above: compare them with each other, not with it."
)


def exposed_in_hindsight(
    log: RunLog, priors: Priors, steps: Sequence[StepSchedule]
) -> tuple[Hindsight | None, ...]:
    """The worst moment of each exposed person of the log; None where it cannot be computed."""
    horizon, mistakes = int(log.settings["horizon"]), int(log.settings["mistakes"])
    first_slot = int(log.settings.get("first_slot", 0))
    found = (
        hindsight(
            priors.population, person, steps, first_slot, PastHorizon.ending_at(each.step, horizon, mistakes)
        )
        for each, person in zip(log.exposed, positions(priors, log.exposed), strict=True)
    )
    nats = log.horizon().within_nats
    return tuple(None if each is None else each.within(nats) for each in found)


def in_hindsight(log: RunLog, found: Sequence[Hindsight | None] | None) -> Iterable[str]:
    """A sentence and a table; ``found`` None where the priors are not at hand."""
    if found is None:
        yield paragraph(NEEDS_PRIORS)
        return
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        yield paragraph(f"{SHARED_NOISE.capitalize()}.")
        return
    condition = log.condition[:1].upper() + log.condition[1:]
    yield paragraph(WHAT_IT_SAYS.format(until=log.when(known[0].until_step), condition=condition))
    rows = [
        (
            record.person[:12],
            log.when(each.first_step),
            log.when(each.last_step),
            in_a_hundred(each.baseline),
            ceiling_in_words(each.then),
            ceiling_in_words(each.now),
        )
        for record, each in zip(log.exposed, known, strict=True)
    ]
    head = ("Pseudonym", "First step", "Last step", "Guess by habit", "Ceiling then", IN_HINDSIGHT)
    yield table(head, rows)
