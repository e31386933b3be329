"""What the README shows: the demo's own summary, and a picture of what two days of counts give away.

``python -m experiments.readme`` (or ``make readme``) draws the picture and puts the summary of a fresh demo
between the markers in ``README.md``. A test compares the README with a demo run.
"""

from __future__ import annotations

import argparse
import io
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.settings import HORIZON, HorizonSettings
from experiments.ceilings import schedule_of
from models.mechanisms import parse
from stream_app.analysis.accounted_again import account, released_with
from stream_app.city import CityOptions, build_city
from stream_app.cli.demo_command import print_report
from stream_app.starting.demo import MISTAKES, run_demo

STEPS = 72
PEOPLE = 1000
SHOWN = 48  # the first day fills the horizon
WAYS: tuple[
    tuple[str, str, dict[str, float], str], ...
] = (  # name, mechanism, parameters, colour (Okabe and Ito's, distinct for the colour-blind)
    ("raw counts", "raw", {}, "#D55E00"),
    ("noise, sigma 1", "gaussian", {"sigma": 1.0}, "#E69F00"),
    ("noise, sigma 3", "gaussian", {"sigma": 3.0}, "#0072B2"),
    ("noise, sigma 10", "gaussian", {"sigma": 10.0}, "#56B4E9"),
)
GUESS_COLOUR = "#777777"
BEGIN = "<!-- demo: written by make readme -->"
END = "<!-- end of demo -->"


class Curve(NamedTuple):
    """One line of the picture: mean over people, a value an hour."""

    name: str
    colour: str
    values: NDArray[np.float64]


def curves(people: int) -> list[Curve]:
    """The mean ceiling of each way of releasing the same sensors, and of the guess without any."""
    city = build_city(CityOptions(people=people))
    steps = schedule_of(city, parse("raw", {}), STEPS).steps
    horizon = HorizonSettings(HORIZON, MISTAKES)
    drawn = []
    for name, mechanism, parameters, colour in WAYS:
        accounted = account(city.population, released_with(steps, parse(mechanism, parameters)), horizon)
        drawn.append(Curve(name, colour, accounted.risk_by_step[-SHOWN:]))
    return [*drawn, Curve("no counts: the best guess", GUESS_COLOUR, accounted.baseline_by_step[-SHOWN:])]


def draw(lines: Sequence[Curve], output: Path) -> None:
    """Write the picture; the legend is in the order of the lines."""
    import matplotlib as mpl

    mpl.use("svg" if output.suffix == ".svg" else "agg")
    mpl.rcParams["svg.hashsalt"] = "tallyguard"  # the same picture is the same file
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
    for line in lines:
        axes.plot(np.arange(SHOWN), 100 * line.values, color=line.colour, linewidth=2, label=line.name)
    axes.set(
        xlim=(0, SHOWN - 1),
        ylim=(0, None),
        xlabel="hour of the day",
        ylabel="chance in 100, mean over people",
    )
    axes.set_title(f"How well can a person's last {HORIZON} hours be told, at most?", loc="left")
    axes.set_xticks(range(0, SHOWN, 6), [f"{hour % 24:02d}" for hour in range(0, SHOWN, 6)])
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False)
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, metadata={"Date": None} if output.suffix == ".svg" else None)
    plt.close(figure)


def demo_summary() -> str:
    """What the demo prints with its default options, for a terminal of 80 columns, without the last part."""
    from rich.console import Console

    text = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "demo-output"
        report = run_demo(output=output, seconds_per_step=0.0, listen="", announce=lambda text: None)
        print_report(Console(file=text, width=80, highlight=False), report)
    lines = [line.rstrip() for line in text.getvalue().split("Where to look next")[0].splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def refreshed(readme: str, summary: str) -> str:
    """The README with the summary between its markers."""
    block = f"{BEGIN}\n\n```text\n{summary}\n```\n\n{END}"
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: block, readme, flags=re.DOTALL)


def main() -> None:
    """Draw the picture and refresh the README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path, default=Path("docs/pictures/demo.svg"))
    parser.add_argument("--readme", type=Path, default=Path("README.md"))
    arguments = parser.parse_args()
    draw(curves(PEOPLE), arguments.picture)
    arguments.readme.write_text(refreshed(arguments.readme.read_text(), demo_summary()))
    print(f"wrote {arguments.picture} and the demo's summary in {arguments.readme}")


if __name__ == "__main__":
    main()
