"""Figures 3 to 8 of the paper, the new bounds and the marginal attack drawn beside the paper's.

``python -m experiments.figures --data FOLDER`` (or ``make figures DATA=FOLDER``); ``--only 5 7`` draws some.
Each figure is a PNG and the CSV it was drawn from. Figures 5 and 7 are synthetic; the others need the real
check-ins, which are not part of the repository.

The paper: Koga, Meehan, Chaudhuri, "Measuring Privacy Loss in Distributed Spatio-Temporal Data", section 4.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from experiments.held_out import DATA_SETS
from experiments.real_checkins import MissingDataError, load
from experiments.real_figures import RealSweep, draw_figure_3, draw_figure_4, draw_figure_6, draw_figure_8
from experiments.synthetic_figures import Sweep, draw_figure_5, draw_figure_7
from models.fitting import FitResult

Fits = Mapping[str, FitResult]
SYNTHETIC: Mapping[int, Callable[[Path], None]] = {
    5: lambda results: draw_figure_5(Sweep(), results),
    7: lambda results: draw_figure_7(Sweep(), results),
}
REAL: Mapping[int, Callable[[Fits, Path], None]] = {
    3: draw_figure_3,
    4: lambda fits, results: draw_figure_4(fits, RealSweep(), results),
    6: lambda fits, results: draw_figure_6(fits, RealSweep(), results),
    8: lambda fits, results: draw_figure_8(fits, RealSweep(), results),
}


def draw(numbers: Sequence[int], data: Path | None, results: Path) -> bool:
    """Draw the figures of the given numbers; False when some could not be for want of data."""
    for number in sorted(set(numbers) & set(SYNTHETIC)):
        SYNTHETIC[number](results)
        _announce(f"figure {number}: {results}/figure-{number}.png and .csv")
    real = sorted(set(numbers) & set(REAL))
    if not real:
        return True
    try:
        fits = {name: load(name, data) for name in DATA_SETS}
    except MissingDataError as missing:
        _announce(f"figures {', '.join(map(str, real))} were not drawn: {missing}")
        return False
    for number in real:
        REAL[number](fits, results)
        _announce(f"figure {number}: {results}/figure-{number}.png and .csv")
    return True


def _announce(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 when a figure could not be drawn."""
    numbers = sorted({*SYNTHETIC, *REAL})
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", type=int, nargs="+", choices=numbers, default=numbers, help="which figures")
    parser.add_argument("--data", type=Path, help="folder with the Parquet files")
    parser.add_argument(
        "--results", type=Path, default=Path("docs/results/figures"), help="folder to write to"
    )
    chosen = parser.parse_args(arguments)
    return 0 if draw(chosen.only, chosen.data, chosen.results) else 1


if __name__ == "__main__":
    sys.exit(main())
