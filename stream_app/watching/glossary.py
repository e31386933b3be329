"""The words of this project, each explained once: all stand in ``templates/glossary.toml``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from models.exceptions import TallyguardError
from models.text import parse_toml
from stream_app.exceptions import meant


def texts(name: str, package: str = "stream_app.watching") -> dict[str, Any]:
    """What a file of a package's ``templates`` says: a line a text, to be filled in where it is used."""
    return parse_toml((files(package) / "templates" / name).read_text(encoding="utf-8"))


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


GLOSSARY = tuple(
    Entry(word, tuple(said.get("also", ())), said["meaning"], said["page"])
    for word, said in texts("glossary.toml").items()
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
    remedy = meant(word.casefold(), names, "see all words with `tallyguard explain`")
    raise GlossaryError("the word must be in the glossary", repr(word), remedy)


def explained(words: Iterable[str] = REPORT_WORDS) -> Iterable[tuple[str, str]]:
    """Words with what they mean; as delivered those that a report uses."""
    return ((entry.heading, entry.meaning) for entry in map(explain, words))
