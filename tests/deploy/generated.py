"""``python -m tests.deploy.generated`` writes the files that repeat alerts and runbooks in another form.

The Prometheus operator takes alerts as a PrometheusRule, and an engine serves the runbooks from its package.
"""

from __future__ import annotations

import json
import textwrap

from tests import ROOT

_RULE = """# Made of deploy/prometheus/alerts.yml by `python -m tests.deploy.generated`.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: tallyguard
spec:
"""


def generated() -> dict[str, str]:
    """The text of each file, by its path in the checkout."""
    alerts = (ROOT / "deploy/prometheus/alerts.yml").read_text()
    runbooks = {path.name: path.read_text() for path in sorted((ROOT / "docs/runbooks").glob("*.md"))}
    return {
        "deploy/kubernetes/prometheus-operator/rules.yaml": _RULE + textwrap.indent(alerts, "  "),
        "stream_app/watching/web/static/runbooks.json": (
            json.dumps(runbooks, indent=2, ensure_ascii=False) + "\n"
        ),
    }


if __name__ == "__main__":
    for path, text in generated().items():
        (ROOT / path).write_text(text)
        print(path)
