"""The words of this project, each explained once: for `tallyguard explain`, report and documentation.

``python -m stream_app.watching.glossary`` makes ``docs/reference/glossary.md``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import PurePosixPath

from models.exceptions import TallyguardError


class GlossaryError(TallyguardError):
    """A word that the glossary does not have."""


@dataclass(frozen=True)
class Entry:
    """A word, other words for it, what it means, and the page that says more."""

    word: str
    also: tuple[str, ...]
    meaning: str
    page: str

    @property
    def heading(self) -> str:
        """The word with the others for it."""
        return ", ".join((self.word, *self.also))


GLOSSARY = (
    Entry(
        "ceiling",
        ("risk", "certified risk"),
        "If habits are as assumed, no method finds out where a person was more often than this, given all "
        "counts published so far. A ceiling of 30 in 100: at most 30 of 100 such attempts succeed.",
        "explanation/guarantees.md",
    ),
    Entry(
        "guess",
        ("baseline",),
        "How often the best guess without any count is right. Habits alone give that much away, whether "
        "counts are published or not.",
        "explanation/guarantees.md",
    ),
    Entry(
        "added",
        ("added risk",),
        "Ceiling less guess: at most this much is due to the published counts.",
        "explanation/guarantees.md",
    ),
    Entry(
        "in hindsight",
        ("hindsight",),
        "The ceiling for past steps, given also what was released after them: who is seen at the station at "
        "noon was near it at eleven. It holds if habits are as assumed, like every ceiling.",
        "explanation/continuous-accounting.md",
    ),
    Entry(
        "horizon",
        ("T",),
        "How many of the latest steps an observer tries to reconstruct. A longer horizon is harder to "
        "reconstruct in full.",
        "how-to/choose-horizon-and-budget.md",
    ),
    Entry(
        "mistakes",
        ("s",),
        "How many steps of the horizon an observer may get wrong and still count as right. With many, habits "
        "alone decide and what counts add hardly shows.",
        "how-to/choose-horizon-and-budget.md",
    ),
    Entry(
        "habits",
        ("prior", "movement prior"),
        "What an observer knows of a person beforehand: how likely each place is after another, by the hour "
        "if need be. Every ceiling rests on it.",
        "explanation/movement-priors.md",
    ),
    Entry(
        "radius",
        ("within a radius",),
        "How far a person's habits may be from the assumed ones, in nats over all steps together, from the "
        "first horizon's first on, which lies before the run. The ceiling within a radius holds for "
        "everybody who is no further away; 0 is the ceiling itself.",
        "explanation/sure-ceilings.md",
    ),
    Entry(
        "credible ceiling",
        ("posterior mean", "mean ceiling"),
        "For habits fitted to few data: with 90 % the ceiling of the person's true habits is not above it. "
        "The mean ceiling is the average over all habits that the data leave open. Figures, not "
        "certificates.",
        "explanation/sure-ceilings.md",
    ),
    Entry(
        "panel",
        ("volunteers", "refuted"),
        "Volunteers whose true places the priors are held against while the engine runs. Priors are refuted "
        "where a guess is right more often than they say, beyond chance: ceilings are then too low.",
        "explanation/prior-quality.md",
    ),
    Entry(
        "adversary",
        ("observer",),
        "Whoever tries to find out where a person was. Assumed to know the person's habits, where everybody "
        "else is, the schedule, and every count ever published.",
        "explanation/guarantees.md",
    ),
    Entry(
        "fast bound",
        (),
        "The bound that is computed for everybody at every step. It is valid, and often larger than need be. "
        "It is the ceiling of everybody whom the refined bound does not reach.",
        "explanation/continuous-accounting.md",
    ),
    Entry(
        "refined bound",
        ("tighter bound", "sharpen"),
        "The slower, tighter bound, for people whose fast bound reaches the lowest threshold, the most added "
        "first, as far as sharpen_operations goes. The setting sharpen switches it on (as delivered) or off. "
        "The lower of both bounds is the ceiling.",
        "explanation/continuous-accounting.md",
    ),
    Entry(
        "attack",
        (),
        "How often a named method finds out where a person was. Never above the ceiling if habits are "
        "as assumed, often far below it.",
        "explanation/ceiling-and-attack.md",
    ),
    Entry(
        "step",
        (),
        "The unit of time: an hour, say. Each sensor gives at most one count a step, and a step is published "
        "once, whole.",
        "explanation/steps.md",
    ),
    Entry(
        "sensor",
        (),
        "A device that counts the people at one location or at several.",
        "how-to/place-sensors.md",
    ),
    Entry(
        "activation",
        (),
        "The message that says which sensors count in a step. It comes before the counts.",
        "explanation/steps.md",
    ),
    Entry(
        "schedule",
        (),
        "Which sensors are active in which step and how their counts are released. Known before any count, "
        "so risk can be known before, too.",
        "explanation/decisions.md",
    ),
    Entry(
        "release",
        (),
        "What is published of a step: for each active sensor a count, exact or with noise, or nothing.",
        "explanation/noise.md",
    ),
    Entry("raw", (), "Published exactly as counted.", "explanation/noise.md"),
    Entry(
        "suppressed",
        (),
        "Not published: the step says that the sensor was active, no more.",
        "explanation/noise.md",
    ),
    Entry(
        "sigma",
        ("expected error", "noise"),
        "The spread of the noise added to a count, in people. With sigma 1 a count is off by 0.7 people on "
        "average, with sigma 10 by 8.",
        "explanation/noise.md",
    ),
    Entry(
        "risk budget",
        ("budget",),
        "A limit on ceiling or added risk, and the share of people who may be over it. Under a budget the "
        "least noise that keeps it is chosen step by step.",
        "explanation/decisions.md",
    ),
    Entry(
        "over the limit",
        ("over now", "ever over", "forecast"),
        "Three figures of people. Now: whose ceiling, by the bound that decides, is beyond the limit after "
        "the last step. Ever: who was so after any step so far. Forecast: whom a decision counted before the "
        "step was accounted, largely by the fast bound, then or in silence after it: more than are over it.",
        "explanation/decisions.md",
    ),
    Entry(
        "record",
        ("record of a run",),
        "Under which rule each step was published, from which step on, by whom and why; chained by digests, "
        "so that a change is noticed. `tallyguard verify` checks it.",
        "how-to/restart-and-recover.md",
    ),
    Entry(
        "epsilon",
        ("rho", "differential privacy"),
        "Differential privacy spent so far: the worst case for any observer with any knowledge. It only "
        "grows, and one exact count leaves no guarantee.",
        "explanation/guarantees.md",
    ),
    Entry(
        "delta",
        (),
        "The small chance with which the promise of epsilon may fail: one in a million unless set otherwise.",
        "explanation/guarantees.md",
    ),
    Entry(
        "tier",
        ("tiers",),
        "A group of recipients who get the same counts with the same noise; others get them with more "
        "or less.",
        "explanation/tiers.md",
    ),
    Entry(
        "pseudonym",
        (),
        "A keyed code that stands for a person. Without the deployment's key it cannot be turned back.",
        "how-to/watch.md",
    ),
    Entry(
        "noise key",
        ("key",),
        "The secret from which all noise is drawn, so that the same reading always gets the same noise. "
        "Whoever has it can take the noise off.",
        "explanation/noise.md",
    ),
    Entry(
        "dead letter",
        ("rejected",),
        "A message that was refused, kept with reason and hint in rejected.jsonl.",
        "reference/output.md",
    ),
)
REPORT_WORDS = (
    *("ceiling", "guess", "added", "in hindsight", "horizon", "mistakes", "pseudonym", "sigma", "epsilon"),
)


def explain(word: str) -> Entry:
    """The entry of a word, in any case; :class:`GlossaryError` with close words otherwise."""
    names = {name.casefold(): entry for entry in GLOSSARY for name in (entry.word, *entry.also)}
    found = names.get(word.strip().casefold())
    if found is not None:
        return found
    close = get_close_matches(word.casefold(), names, n=1)
    remedy = f"did you mean {close[0]!r}?" if close else "see all words with `tallyguard explain`"
    raise GlossaryError("the word must be in the glossary", repr(word), remedy)


def for_report(words: Iterable[str] = REPORT_WORDS) -> Iterable[tuple[str, str]]:
    """The words a report uses, with what they mean."""
    return ((entry.heading, entry.meaning) for entry in map(explain, words))


def markdown_page() -> str:
    """``docs/reference/glossary.md``."""
    rows = [
        f"| **{entry.word}**{''.join(f', {name}' for name in entry.also)} | {entry.meaning} | "
        f"[{PurePosixPath(entry.page).stem.replace('-', ' ')}](../{entry.page}) |"
        for entry in GLOSSARY
    ]
    head = (
        "# Glossary",
        "",
        "The same words everywhere; in the terminal: `tallyguard explain ceiling`.",
        "",
        "| word | meaning | more |",
        "|---|---|---|",
    )
    return "\n".join([*head, *rows, ""])


if __name__ == "__main__":
    print(markdown_page(), end="")
