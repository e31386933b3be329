"""The notebook of the documentation runs, and says what it shows."""

from __future__ import annotations

import nbformat
import pytest
from nbclient import NotebookClient

from tests import ROOT

NOTEBOOK = ROOT / "docs" / "tutorials" / "figure.ipynb"
PICTURE = "image/png"


@pytest.mark.slow
def test_the_notebook_comes_out_as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell runs; texts are the same to the digit, and there is a picture where there was one."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    shown = nbformat.read(NOTEBOOK, as_version=4)
    again = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(again, timeout=900).execute()
    assert said(again) == said(shown)
    assert sum(PICTURE in each for each in said(shown)) == 1


def said(notebook: nbformat.NotebookNode) -> list[str]:
    """What the cells print and show; not what is told of compiling."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if PICTURE in data:
                found.append(PICTURE)
            elif data or output.get("name") == "stdout":
                found.append(data.get("text/plain") or output.text)
    return found
