"""Writes the kernels of these sources to a file from which other machines take them (``make kernels``).

``python -m stream_app.starting.ship_kernels [FOLDER]`` compiles what a run, a plan, a report and workers
need, where this machine has not done so yet, and writes it; see :mod:`models.numerics.shipped`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from models.numerics.kernel_cache import WANTED
from models.numerics.shipped import FOLDER, file_name, write_compiled


def main(folder: Path = FOLDER) -> None:
    """Compile, write, and say what was written."""
    if WANTED is None:
        sys.exit("compiled kernels must be kept in a folder, got no home folder; set NUMBA_CACHE_DIR to one")
    for part in ("stream_app.starting.warm_up", "stream_app.kafka.warm_up"):
        subprocess.run([sys.executable, "-m", part], check=True, stdout=subprocess.DEVNULL)
    path = folder / file_name()
    kernels = write_compiled(WANTED, path)
    print(f"{kernels} kernels, {path.stat().st_size / 1e6:.1f} MB: {path}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
