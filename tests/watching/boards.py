"""The committed Grafana dashboards as tests read them: panels with their queries, from Grafana's own JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests import ROOT

FOLDER = ROOT / "deploy" / "grafana" / "dashboards"
COLUMNS = 24  # of Grafana's grid


@dataclass(frozen=True)
class Query:
    """One PromQL expression and the legend of its series."""

    promql: str
    legend: str


@dataclass(frozen=True)
class Panel:
    """One picture; ``kind`` is Grafana's name of the panel type."""

    title: str
    description: str
    unit: str
    kind: str
    queries: tuple[Query, ...]


@dataclass(frozen=True)
class Dashboard:
    """A page of panels, and the document that Grafana's provisioning reads."""

    name: str  # of the file, without its ending
    title: str
    document: dict[str, Any]

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All panels in order, without the headings."""
        return tuple(
            Panel(
                panel["title"],
                panel["description"],
                panel["fieldConfig"]["defaults"]["unit"],
                panel["type"],
                tuple(Query(target["expr"], target["legendFormat"]) for target in panel["targets"]),
            )
            for panel in self.document["panels"]
            if panel["type"] != "row"
        )


def _read(name: str) -> Dashboard:
    document = json.loads((FOLDER / f"{name}.json").read_text())
    return Dashboard(name, document["title"], document)


DASHBOARDS = (_read("privacy"), _read("operations"))
