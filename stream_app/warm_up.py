"""Compiles the kernels a run needs, once a machine: ``python -m stream_app.warm_up``; installing does it.

The compiled kernels are kept beside the code, so that the first real run starts at once.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from stream_app.demo import DemoOptions, run_demo


def main() -> None:
    """Run the smallest demo, which needs every kernel of a run, and throw its results away."""
    with tempfile.TemporaryDirectory() as folder:
        options = DemoOptions(
            steps=12, people=30, seconds_per_step=0.0, output=Path(folder) / "demo", listen=""
        )
        run_demo(options, announce=lambda text: None)


if __name__ == "__main__":
    main()
