"""Every figure, table and example of one of the papers behind this engine.

``python -m experiments.papers NAME`` (or ``make papers NAME=koga DATA=FOLDER``); ``--only 5 7`` draws some.

- ``koga``: Koga, Meehan, Chaudhuri, "Measuring Privacy Loss in Distributed Spatio-Temporal Data"
- ``cip``: Meehan, Chaudhuri, "Location Trace Privacy Under Conditional Priors", workshop and full paper
- ``composition``: Zhao, "Composition Properties of Bayesian Differential Privacy"
- ``diffusion``: Koufogiannis, Pappas, "Diffusing Private Data over Networks"

A figure is a PNG and the CSV it was drawn from, in ``docs/results/figures``. What the paper says beside what
was found here goes to standard output and, when all parts were drawn, to ``docs/results/tables/NAME.md``.
Real check-ins and counts are not part of the repository; docs/results/papers.md says where they are from.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from experiments.measure import markdown
from experiments.papers import Claim, cip, cip_fits, composition, diffusion, koga
from experiments.real_checkins import MissingDataError

Part = Callable[[Path, Path | None], list[Claim]]  # folder of figures, folder of data
PAPERS: Mapping[str, Mapping[str, Part]] = {
    "koga": koga.PARTS,
    "cip": {**cip.PARTS, "fits": cip_fits.fits},
    "composition": composition.PARTS,
    "diffusion": diffusion.PARTS,
}


def table(paper: str, claims: Sequence[Claim]) -> str:
    """The paper beside our numbers, as a page."""
    title = f"# A paper beside our numbers: {paper}"
    made = f"Made by `make papers NAME={paper}`; what follows from it is in [the papers](../papers.md)."
    return "\n".join(
        [title, "", made, "", markdown(["part", "what", "in the paper", "here", "agrees"], claims), ""]
    )


def draw(paper: str, only: Sequence[str], data: Path | None, results: Path) -> bool:
    """Draw the chosen parts (all if none is); False when some could not be for want of data."""
    parts = {name: part for name, part in PAPERS[paper].items() if name in (only or PAPERS[paper])}
    claims, missing = [], []
    for number, (name, part) in enumerate(parts.items(), start=1):
        print(f"{paper} {name} ({number} of {len(parts)}) ...", end=" ", file=sys.stderr, flush=True)
        start = time.monotonic()
        try:
            claims += part(results / "figures", data)
            print(f"{time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        except MissingDataError as error:
            missing.append(name)
            print(f"was not drawn: {error}", file=sys.stderr, flush=True)
    if claims:
        print(table(paper, claims))
    if not only and not missing:
        (results / "tables").mkdir(parents=True, exist_ok=True)
        (results / "tables" / f"{paper}.md").write_text(table(paper, claims))
    return not missing


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 when a part could not be drawn."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paper", choices=PAPERS, metavar="NAME", help=", ".join(PAPERS))
    parser.add_argument("--only", nargs="+", default=(), metavar="PART", help="which parts of the paper")
    parser.add_argument("--data", type=Path, help="folder with real check-ins and counts")
    parser.add_argument("--results", type=Path, default=Path("docs/results"), help="folder to write to")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.only) - set(PAPERS[chosen.paper]):
        parser.error(
            f"{chosen.paper} must have the part {min(unknown)!r}; it has {', '.join(PAPERS[chosen.paper])}"
        )
    return 0 if draw(chosen.paper, chosen.only, chosen.data, chosen.results) else 1


if __name__ == "__main__":
    sys.exit(main())
