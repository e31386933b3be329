"""The plain page at ``/plain``: tables only, for browsers without scripts and for reading aloud."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from html import escape

from accounting.ledgers import EVERY_GROUP
from stream_app.setup.settings import Settings
from stream_app.watching.crowd_watch import HiddenLine
from stream_app.watching.narrow_tables import headings, narrow_style
from stream_app.watching.prior_notes import ceiling_condition
from stream_app.watching.web.status import Status, StepLine
from stream_app.watching.wording import (
    ATTACK,
    DISTANCE,
    DOWN,
    EXACT,
    attack_in_words,
    ceiling_in_words,
    in_a_hundred,
    not_reached_in_words,
    significant,
    step_in_words,
)
from stream_app.wire import RiskSummary

_LEVELS = (
    "Chance",
    "Ceiling there",
    "Guess there, by habit alone",
    "Put there by releases",
    "Added that much",
)
PLAIN_HISTORY = 48  # steps in the table
PLAIN_SENSORS = 50  # in a table
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: right; padding: .25rem .75rem; border-bottom: 1px solid #8886; }
th:first-child, td:first-child { text-align: left; }
.note { opacity: .75; }
"""
_STYLE += narrow_style("#8886")


When = Callable[[int], str]
"""When a step began, in words."""


def render(status: Status, about: Settings | None = None) -> str:
    """The page as HTML; refreshed every two seconds while the engine runs.

    Steps are shown by their time where ``about`` knows the deployment's origin, else by number.
    """
    origin = (0, 1) if about is None else (about.origin_seconds, about.step_seconds)
    when = partial(step_in_words, origin_seconds=origin[0], step_seconds=origin[1])
    refresh = "" if status.phase == "stopped" else '<meta http-equiv="refresh" content="2">'
    condition = ceiling_condition(*((None,) if about is None else (about.priors_check, about.draws)))
    body = [
        "<h1>tallyguard</h1>",
        f"<p role=status>{escape(_sentence(status))}</p>",
        *([f"<p><strong>{escape(status.note)}.</strong></p>"] if status.note else []),
        *([f"<p>Why so: {escape(status.decision)}</p>"] if status.decision else []),
        *(_risks(status.summary, when, condition) if status.summary and status.people else []),
        *(_in_crowd(status) if status.crowd else []),
        *(_history(status.history, when) if status.history and status.people else []),
        *(_spent(status.spent) if status.spent else []),
        f"<p class=note>Ceilings hold {escape(condition)}. Risk is computed from movement priors and the "
        "released schedule, never from a count. "
        '<a href="/">live page</a> · <a href="/metrics">metrics</a> · <a href="/-/ready">readiness</a></p>',
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{refresh}<title>tallyguard: step {status.next_step}</title><style>{_STYLE}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>"
    )


def _sentence(status: Status) -> str:
    state = {"starting": "Starting", "running": "Running", "stopped": "Stopped"}[status.phase]
    return (
        f"{state}: {status.reason}. {status.next_step:,} steps closed, {status.people:,} people accounted, "
        f"{status.lag_steps} steps behind, {status.rejected:,} messages rejected."
    )


def _risks(summary: RiskSummary, when: When, condition: str) -> list[str]:
    rows = [
        (
            f"{in_a_hundred(float(level), EXACT)} or more",
            f"{at_risk:,}",
            f"{summary.at_baseline.get(level, 0):,}",
            "not known" if summary.within_nats else f"{at_risk - summary.at_baseline.get(level, 0):,}",
            f"{summary.at_added_risk.get(level, 0):,}",
        )
        for level, at_risk in summary.at_risk.items()
    ]
    spread = [
        (name, *(words(table[quantile]) for quantile in table))
        for name, table, words in _tables(summary, condition)
    ]
    quantiles = [f"{float(quantile) * 100:g} % of people at or below" for quantile in summary.risk]
    missed = not_reached_in_words(summary.not_reached)
    return [
        f"<h2>Guess, attack and ceiling, after {escape(when(summary.step))}</h2>",
        _table(
            ("Mean guess by habit", "Mean attack", "Mean ceiling", "Added on average, at most"),
            [
                (
                    in_a_hundred(summary.mean_baseline),
                    attack_in_words(summary.attack),
                    ceiling_in_words(summary.mean_risk),
                    ceiling_in_words(summary.mean_added),
                )
            ],
        ),
        f"<p class=note>Attack: {escape(ATTACK[:1].lower() + ATTACK[1:])} {DISTANCE}</p>",
        f"<h2>How many people could be reconstructed, after {escape(when(summary.step))}</h2>",
        _table(_LEVELS, rows),
        *([] if missed is None else [f"<p class=note>Note: {escape(missed)}.</p>"]),
        "<h2>How the chances are spread</h2>",
        _table(("", *quantiles), spread),
    ]


def _in_crowd(status: Status) -> list[str]:
    """Ceilings against whoever does not know where everybody else is, with their condition."""
    said = f"<p class=note>{escape(status.crowd[:1].upper() + status.crowd[1:])}.</p>" if status.crowd else ""
    title = "<h2>Ceilings against whoever does not know where everybody else is</h2>"
    summary = status.summary
    if summary is None or summary.crowd is None:
        return [title, said]
    crowd = summary.crowd
    missed = not_reached_in_words(crowd.not_reached)
    rows = [
        (f"{in_a_hundred(float(level), EXACT)} or more", f"{count:,}", f"{summary.at_risk.get(level, 0):,}")
        for level, count in crowd.at_risk.items()
    ]
    return [
        title,
        said,
        _table(
            ("Mean ceiling", "Mean ceiling if they are known", "Added on average, at most"),
            [
                (
                    ceiling_in_words(crowd.mean_risk),
                    ceiling_in_words(summary.mean_risk),
                    ceiling_in_words(crowd.mean_added),
                )
            ],
        ),
        _table(("Chance", "Ceiling there", "Ceiling there if they are known"), rows),
        *([] if missed is None else [f"<p class=note>Note: {escape(missed)}.</p>"]),
        *_hidden(status.hidden),
    ]


def _hidden(lines: Sequence[HiddenLine]) -> list[str]:
    """What the crowd hides for nothing, by sensor: at its least and its most over the hours so far."""
    ends = [(line.sensor, [sigma for sigma in line.sigmas if sigma is not None]) for line in lines]
    if not ends:
        return []
    least_hidden = sorted(ends, key=lambda end: min(end[1]))[:PLAIN_SENSORS]
    shown = ends if len(ends) <= PLAIN_SENSORS else least_hidden
    rows = [
        (sensor, *(significant(end, 2, DOWN) if end else "nobody" for end in (min(known), max(known))))
        for sensor, known in shown
    ]
    cut = "" if shown is ends else f" The {len(shown)} of {len(ends):,} sensors where it hides least."
    return [
        "<h2>What the crowd hides for nothing</h2>",
        "<p class=note>Noise, in people, that would hide as much: in the hour of the day in which it hides "
        f"least, and most.{cut}</p>",
        _table(("Sensor", "Least", "Most"), rows),
    ]


def _tables(
    summary: RiskSummary, condition: str
) -> tuple[tuple[str, Mapping[str, float], Callable[[float], str]], ...]:
    """Name, quantiles, and how they are said."""
    return (
        (f"Ceiling, {condition}", summary.risk, ceiling_in_words),
        ("Guess by habit alone", summary.baseline, in_a_hundred),
        ("Added at most", summary.added, ceiling_in_words),
    )


def _history(history: tuple[StepLine, ...], when: When) -> list[str]:
    rows = [
        (
            when(line.step),
            str(line.published),
            str(line.suppressed),
            in_a_hundred(line.mean_baseline),
            "not measured" if line.attack is None else in_a_hundred(line.attack[0]),
            ceiling_in_words(line.mean_risk),
        )
        for line in reversed(history[-PLAIN_HISTORY:])
    ]
    return [
        "<h2>The last steps</h2>",
        _table(
            ("Step", "Counts published", "Released as nothing", "Mean guess", "Mean attack", "Mean ceiling"),
            rows,
        ),
    ]


def _spent(spent: Mapping[str, str]) -> list[str]:
    """By group of sensors; one group is all of them."""
    rows = [(group, shown) for group, shown in spent.items() if len(spent) > 2 or group == EVERY_GROUP]
    return ["<h2>Differential privacy spent</h2>", _table(("Sensors", "Epsilon"), rows)]


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    cells = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    lines = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f"<table{headings(head)}><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table>"
