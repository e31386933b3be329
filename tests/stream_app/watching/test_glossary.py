"""One glossary: in the terminal, in the report and in the documentation."""

from __future__ import annotations

import pytest

from stream_app.watching.glossary import GLOSSARY, explained
from tests import ROOT
from tests.stream_app.command_line import Tallyguard

DOCS = ROOT / "docs"


def test_every_word_is_there_once_and_its_page_exists() -> None:
    """Other words for it count, too."""
    words = [name.casefold() for entry in GLOSSARY for name in (entry.word, *entry.also)]
    assert len(words) == len(set(words))
    assert not [entry.page for entry in GLOSSARY if not (DOCS / entry.page).is_file()]


@pytest.mark.parametrize("word", ["ceiling", "guess", "added", "horizon", "Baseline", "risk budget"])
def test_a_word_is_explained_in_the_terminal(tallyguard: Tallyguard, word: str) -> None:
    """By any name, in any case, as it stands in the glossary."""
    result = tallyguard("explain", *word.split())
    assert result.code == 0
    (entry,) = (one for one in GLOSSARY if word.casefold() in (one.word, *one.also))
    assert entry.meaning in " ".join(result.out.split())


def test_a_misspelt_word_is_suggested_and_none_lists_all(tallyguard: Tallyguard) -> None:
    """The first way in is to see all of them."""
    wrong = tallyguard("explain", "celing")
    assert wrong.code == 1
    assert "did you mean 'ceiling'?" in wrong.err
    assert [entry["word"] for entry in tallyguard("explain", "--json").document] == [e.word for e in GLOSSARY]


def test_the_report_takes_its_words_from_there() -> None:
    """Each with its condition, where it has one."""
    words = dict(explained())
    assert "If habits are as assumed" in words["ceiling, risk, certified risk"]
