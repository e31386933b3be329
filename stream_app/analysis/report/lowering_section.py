"""What would lower the risk of the most exposed people, in words and two tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stream_app.analysis.report.html import paragraph, table
from stream_app.analysis.report.lowering import NAMED_SENSORS, Change, Lowering, RevealedBySensor
from stream_app.watching.wording import ceiling_in_words

LISTED_SENSORS = 8


def what_would_lower_it(found: Lowering, when: Callable[[int], str]) -> Iterable[str]:
    """Which sensors revealed most about the people listed above, then what other decisions would do."""
    if not found.shares:
        yield paragraph("No release of their last steps concerns the most exposed people.")
        return
    yield paragraph(_who_revealed(found, when))
    head = ("Sensor", "Mechanism", "Revealed", "Share of all", "Steps", "People concerned")
    yield table(head, map(_share_row, found.shares[:LISTED_SENSORS]))
    yield paragraph(_what_less_does(found))
    otherwise = (
        "If released otherwise",
        "Mean ceiling",
        "Added, mean",
        "Added, highest",
        "A changed count errs by",
    )
    yield table(otherwise, map(_change_row, found.changes))


def _who_revealed(found: Lowering, when: Callable[[int], str]) -> str:
    sensors = [f"{share.sensor} ({share.share:.0%})" for share in found.shares[:NAMED_SENSORS]]
    releases = [
        f"{release.sensor}, {when(release.step)} ({release.share:.0%})"
        for release in found.releases[:NAMED_SENSORS]
    ]
    return (
        f"What each release revealed about the {found.people} people listed above, in {found.steps} steps up "
        f"to their worst moments. Sensors that revealed most: {', '.join(sensors)}. Single releases: "
        f"{'; '.join(releases)}. The shares add up to 100%."
    )


def _what_less_does(found: Lowering) -> str:
    before = found.changes[0]
    helps = [change for change in found.changes[1:] if change.added < before.added]
    explained = (
        "The whole run, computed again for these people with other decisions and without any count; each "
        "person at the step where most would be added. A run with these settings would report the same about "
        "them, though somebody else may then be the most exposed. As published, releases added "
        f"{ceiling_in_words(before.added)} on average"
    )
    if not helps:
        return f"{explained}; none of these changes lowers it."
    best = min(helps, key=lambda change: (change.added, change.name))
    one = next((change for change in helps if change.name.startswith(found.shares[0].sensor)), None)
    first = "" if one is None else f"; {one.name}: {ceiling_in_words(one.added)}"
    return f"{explained}{first}; the least here is {ceiling_in_words(best.added)} ({best.name})."


def _share_row(share: RevealedBySensor) -> tuple[str, ...]:
    return (
        share.sensor,
        share.mechanism,
        f"{share.bits:.2g} bits",
        f"{share.share:.0%}",
        f"{share.releases:,}",
        f"{share.people:,}",
    )


def _change_row(change: Change) -> tuple[str, ...]:
    error = "–" if change.error is None else f"{change.error:.1f} people"
    chances = map(ceiling_in_words, (change.ceiling, change.added, change.most_added))
    return change.name, *chances, error
