"""The words of this project, each explained once: for `tallyguard explain`, report and documentation.

What figures are called is explained where they are made (:mod:`~stream_app.watching.view`); the other words
here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from models.exceptions import TallyguardError
from stream_app.watching.view import KINDS


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
    *(Entry(each.word, each.also, each.meaning, each.page) for each in KINDS.values()),
    Entry(
        "in hindsight",
        ("hindsight",),
        "The ceiling for past steps, given also what was released after them: a person who is seen at the "
        "station at noon was near it at eleven. Like every ceiling it holds if habits are as assumed.",
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
        "What an observer knows of a person beforehand: how likely each place is after another, and at which "
        "hour of the day or week if that matters. Every ceiling rests on it.",
        "explanation/movement-priors.md",
    ),
    Entry(
        "radius",
        ("within a radius",),
        "How far a person's habits may be from the assumed ones, in nats over all steps together, counted "
        "from the first step of the first horizon, which lies before the run. The ceiling within a radius "
        "holds for every person whose habits are no further away; a radius of 0 gives the ceiling itself.",
        "explanation/sure-ceilings.md",
    ),
    Entry(
        "credible ceiling",
        ("posterior mean", "mean ceiling"),
        "For habits fitted to few data: with a probability of 90 % the ceiling of the person's true habits "
        "is not above it. The mean ceiling is the average over all habits that the data leave open. Both are "
        "estimates, not certificates.",
        "explanation/sure-ceilings.md",
    ),
    Entry(
        "panel",
        ("volunteers", "refuted"),
        "Volunteers whose true places are compared with the priors while the engine runs. The priors are "
        "refuted if guesses are right significantly more often than they say: ceilings are then too low.",
        "explanation/prior-quality.md",
    ),
    Entry(
        "adversary",
        ("observer",),
        "Somebody who tries to find out where a person was. The adversary is assumed to know the person's "
        "habits, where everybody else is, the schedule, and every count ever published.",
        "explanation/guarantees.md",
    ),
    Entry(
        "fast bound",
        (),
        "The bound that is computed for every person at every step. It is valid, but often higher than "
        "necessary. It is the ceiling of each person for whom no refined bound is computed.",
        "explanation/continuous-accounting.md",
    ),
    Entry(
        "refined bound",
        ("tighter bound", "sharpen"),
        "The slower, tighter bound. It is computed for people whose fast bound reaches the lowest threshold, "
        "those with the highest added risk first, as far as sharpen_operations allows. The setting sharpen "
        "switches it on (the default) or off. The lower of the two bounds is the ceiling.",
        "explanation/continuous-accounting.md",
    ),
    Entry(
        "step",
        (),
        "The unit of time, for example an hour. Each sensor gives at most one count for a step, and a step "
        "is published once, as a whole.",
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
    Entry("raw", ("exact",), "Published exactly as counted.", "explanation/noise.md"),
    Entry(
        "mechanism",
        ("gaussian",),
        "How a count becomes what is published: raw, with gaussian noise of a sigma, or suppressed.",
        "explanation/noise.md",
    ),
    Entry(
        "headline",
        (),
        "Guess, attack, ceiling and added risk as means over people at the step where releases added most. "
        "Terminal, page, report and metrics have the same, and say which step it is.",
        "how-to/read-the-report.md",
    ),
    Entry(
        "nats",
        ("nat",),
        "A unit of information like bits: 1 nat is 1.44 bits. How far habits may be from the assumed ones is "
        "said in nats, and so are epsilons.",
        "explanation/sure-ceilings.md",
    ),
    Entry(
        "suppressed",
        (),
        "Not published: the release says only that the sensor was active.",
        "explanation/noise.md",
    ),
    Entry(
        "sigma",
        ("noise",),
        "The spread of the noise added to a count, in people. With sigma 1 a count is off by 0.7 people on "
        "average, with sigma 10 by 8.",
        "explanation/noise.md",
    ),
    Entry(
        "risk budget",
        ("budget", "rule", "limit"),
        "A limit on the ceiling or the added risk, and the share of people who may be over it. Under a "
        "budget each step is released with the least noise that keeps it.",
        "explanation/decisions.md",
    ),
    Entry(
        "record",
        ("record of a run",),
        "It says under which rule each step was published, since which step, who decided so and why. Its "
        "entries are chained by digests, so that a change is noticed. `tallyguard verify` checks it.",
        "how-to/restart-and-recover.md",
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
        "A group of recipients who get the same counts with the same noise; other tiers get them with more "
        "or less noise.",
        "explanation/tiers.md",
    ),
    Entry(
        "pseudonym",
        (),
        "A keyed code that stands for a person. It cannot be turned back without the deployment's key.",
        "how-to/watch.md",
    ),
    Entry(
        "noise key",
        ("key",),
        "The secret from which all noise is drawn, so that the same reading always gets the same noise. "
        "Anybody who has it can remove the noise.",
        "explanation/noise.md",
    ),
    Entry(
        "dead letter",
        ("rejected",),
        "A message that was refused. It is kept, with the reason and a hint, in rejected.jsonl.",
        "reference/output.md",
    ),
)
REPORT_WORDS = (
    *("ceiling", "guess", "attack", "added", "in hindsight", "horizon", "mistakes", "pseudonym", "sigma"),
    *("expected error", "bits", "over now", "forecast", "ever over", "share", "epsilon"),
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


def explained(words: Iterable[str] = REPORT_WORDS) -> Iterable[tuple[str, str]]:
    """Words with what they mean; as delivered those that a report uses."""
    return ((entry.heading, entry.meaning) for entry in map(explain, words))
