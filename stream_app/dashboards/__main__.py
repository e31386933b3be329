"""``python -m stream_app.dashboards`` writes the dashboards and the table of metrics into a checkout."""

from __future__ import annotations

import json
from pathlib import Path

from stream_app.dashboards.metrics_table import metrics_page
from stream_app.dashboards.operations import OPERATIONS
from stream_app.dashboards.privacy import PRIVACY

DASHBOARDS = (PRIVACY, OPERATIONS)
FOLDER = Path("deploy/grafana/dashboards")


def generated() -> dict[Path, str]:
    """Every generated file, relative to the checkout, with its text."""
    files = {
        FOLDER / f"{dashboard.uid.removeprefix('tallyguard-')}.json": json.dumps(
            dashboard.document(), indent=2, ensure_ascii=False
        )
        + "\n"
        for dashboard in DASHBOARDS
    }
    return {**files, Path("docs/metrics.md"): metrics_page()}


def main() -> None:
    """Write them below the current folder."""
    for path, text in generated().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path)


if __name__ == "__main__":
    main()
