"""``python -m stream_app.dashboards`` writes what is made of the code and the runbooks into a checkout.

Dashboards, the table of metrics, the PrometheusRule, and the runbooks as an engine serves them.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

from stream_app.dashboards.metrics_table import metrics_page
from stream_app.dashboards.operations_board import OPERATIONS
from stream_app.dashboards.privacy_board import PRIVACY

DASHBOARDS = (PRIVACY, OPERATIONS)
FOLDER = Path("deploy/grafana/dashboards")
_ROOT = Path(__file__).resolve().parents[2]
_RULE = """# Made of deploy/prometheus/alerts.yml by `python -m stream_app.dashboards`.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: tallyguard
spec:
"""


def generated() -> dict[Path, str]:
    """Every generated file, relative to the checkout, with its text."""
    files = {
        FOLDER / f"{dashboard.uid.removeprefix('tallyguard-')}.json": json.dumps(
            dashboard.document(), indent=2, ensure_ascii=False
        )
        + "\n"
        for dashboard in DASHBOARDS
    }
    return {
        **files,
        Path("docs/reference/metrics.md"): metrics_page(),
        Path("deploy/kubernetes/prometheus-operator/rules.yaml"): _operator_rule(),
        Path("stream_app/watching/web/static/runbooks.json"): _runbooks(),
    }


def _runbooks() -> str:
    """The text of every runbook by its file's name."""
    runbooks = {path.name: path.read_text() for path in sorted((_ROOT / "docs/runbooks").glob("*.md"))}
    return json.dumps(runbooks, indent=2, ensure_ascii=False) + "\n"


def _operator_rule() -> str:
    """The alerts as the Prometheus operator takes them."""
    return _RULE + textwrap.indent((_ROOT / "deploy/prometheus/alerts.yml").read_text(), "  ")


def main() -> None:
    """Write them below the current folder."""
    for path, text in generated().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path)


if __name__ == "__main__":
    main()
