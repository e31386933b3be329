"""The figures of conditional inferential privacy, with the papers' designs and better ones.

``python -m experiments.inferential_privacy`` draws, each as PNG with a CSV beside it:

- ``cip-loss``: loss against noise variance for several length scales (figure 2(a) of Meehan, Chaudhuri,
  "Location Trace Privacy Under Conditional Priors", workshop version);
- ``cip-posterior``: what an adversary is left in doubt about, against the effective length scale, for each
  design, RBF and periodic (figure 2 of the full paper, with its numbers of points, secrets and budgets);
- ``cip-designs``: epsilon of each design, divided by that of the paper's.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.ledgers import release_loss
from models.gaussian_process import RBF, GaussianProcessPrior, Kernel, Periodic
from models.noise_design import DesignProblem, design_noise
from models.noise_design.design import multiple_secrets, sdp_a

Floats = NDArray[np.float64]

ORDER, RADIUS, VARIANCE_PER_POINT = 5.0, 1.0, 0.02
STABILISATION = {"basic": 10.0, "compound": 1000.0}  # the authors'
COLOURS = {
    "sdp-a": "#1f6f8b",
    "multiple": "#1f6f8b",
    "exact": "#c0392b",
    "multiple-exact": "#c0392b",
    "unrestricted": "#7d3c98",
    "uniform": "#7f8c8d",
    "concentrated": "#d4ac0d",
    "assumed too smooth": "#c0392b",
    "assumed too rough": "#7d3c98",
    "as assumed": "#1f6f8b",
}


@dataclass(frozen=True)
class Setting:
    """One kernel family as the paper draws it."""

    name: str
    points: int
    kernel: Callable[[float], Kernel]
    length_scales: Floats
    basic: tuple[int, ...]
    compound: tuple[int, ...]


@dataclass(frozen=True)
class Point:
    """One design at one length scale."""

    kernel: str
    panel: str
    design: str
    length_scale: float
    trace: float
    epsilon_nats: float  # at the secret; at the worst single time in "all basic"
    posterior_2sigma: float  # in "all basic" from the mean posterior variance, as the paper draws it


SETTINGS = (
    Setting("RBF", 50, RBF, np.sqrt(np.linspace(1.0, 100.0, 20)), (24,), (24, 25)),
    Setting(
        "periodic",
        48,
        lambda scale: Periodic(scale, 24.0),
        np.sqrt(np.linspace(0.25, 2.25, 20)),
        (24,),
        (16, 32),
    ),
)


def posterior_points(settings: Iterable[Setting]) -> list[Point]:
    """Every panel of figure 2."""
    return [
        point
        for setting in settings
        for scale in setting.length_scales
        for point in (
            *one_secret_points(setting, "basic", setting.basic, float(scale)),
            *one_secret_points(setting, "compound", setting.compound, float(scale)),
            *all_basic_points(setting, float(scale)),
            *misspecified_points(setting, float(scale)),
        )
    ]


def one_secret_points(
    setting: Setting, panel: str, secret: tuple[int, ...], length_scale: float
) -> list[Point]:
    """Panels a, b, e and f: the designs at equal trace."""
    problem = DesignProblem(prior_of(setting, length_scale), secret, VARIANCE_PER_POINT * setting.points)
    noises = {"sdp-a": sdp_a(problem, STABILISATION[panel])}
    for method in ("exact", "unrestricted", "uniform", "concentrated"):
        noises[method] = design_noise(problem, method).covariance
    points = []
    for design, noise in noises.items():
        loss = release_loss(problem.prior, noise, secret, ORDER, RADIUS)
        left = loss.posterior_half_width
        points.append(
            Point(setting.name, panel, design, length_scale, float(noise.trace()), loss.epsilon, left)
        )
    return points


def all_basic_points(setting: Setting, length_scale: float) -> list[Point]:
    """Panels c and g: Multiple Secrets, and what else its trace buys."""
    each_budget = VARIANCE_PER_POINT * setting.points
    prior = prior_of(setting, length_scale)
    cover = multiple_secrets(DesignProblem(prior, None, each_budget)).covariance
    problem = DesignProblem(prior, None, float(cover.trace()))
    noises = {"multiple": cover}
    for method in ("multiple-exact", "uniform"):
        noises[method] = design_noise(problem, method).covariance
    points = []
    for design, noise in noises.items():
        losses = [release_loss(prior, noise, secret, ORDER, RADIUS) for secret in problem.secrets]
        left = 2.0 * np.sqrt(np.mean([(loss.posterior_half_width / 2.0) ** 2 for loss in losses]))
        worst = max(loss.epsilon for loss in losses)
        points.append(
            Point(setting.name, "all basic", design, length_scale, problem.noise_budget, worst, float(left))
        )
    return points


def misspecified_points(setting: Setting, length_scale: float) -> list[Point]:
    """Panels d and h: SDP_A for one length scale, an adversary whose prior has another."""
    problem = DesignProblem(
        prior_of(setting, length_scale), setting.basic, VARIANCE_PER_POINT * setting.points
    )
    noise, trace = sdp_a(problem), problem.noise_budget
    points = []
    for name, factor in (("as assumed", 1.0), ("assumed too smooth", 0.5), ("assumed too rough", 1.5)):
        true = prior_of(setting, factor * length_scale)
        loss = release_loss(true, noise, setting.basic, ORDER, RADIUS)
        left = loss.posterior_half_width
        points.append(Point(setting.name, "misspecified", name, length_scale, trace, loss.epsilon, left))
    return points


def prior_of(setting: Setting, length_scale: float) -> Floats:
    """The prior covariance of a setting."""
    return GaussianProcessPrior.at_steps(setting.kernel(length_scale), setting.points).covariance()


def loss_rows() -> list[dict[str, float]]:
    """Workshop figure 2(a): 10 points, every other one secret, independent noise of one variance."""
    secret = (0, 2, 4, 6, 8)
    return [
        {
            "length_scale": scale,
            "noise_variance": float(variance),
            "loss_per_order_and_squared_radius": release_loss(
                GaussianProcessPrior.at_steps(RBF(scale), 10).covariance(),
                variance * np.eye(10),
                secret,
                ORDER,
                RADIUS,
            ).epsilon
            / (ORDER * RADIUS**2),
        }
        for scale in (0.01, 0.5, 1.0, 2.0, 3.0, 4.0)
        for variance in np.geomspace(0.1, 10.0, 25)
    ]


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """One row per point, seven digits; a loss that is not finite is empty."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: shortened(value) for name, value in row.items()})


def shortened(value: object) -> object:
    """Numbers with seven digits."""
    if not isinstance(value, float):
        return value
    return f"{value:.7g}" if np.isfinite(value) else ""


def draw_loss(rows: Sequence[dict[str, float]], path: Path) -> None:
    """The workshop paper's figure."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    scales = sorted({row["length_scale"] for row in rows})
    for position, scale in enumerate(scales):
        own = [row for row in rows if row["length_scale"] == scale]
        name = "independent" if scale < 0.1 else f"l = {scale:g}"
        axes.plot(
            [row["noise_variance"] for row in own],
            [row["loss_per_order_and_squared_radius"] for row in own],
            color=plt.cm.viridis(position / len(scales)),
            label=name,
        )
    axes.set(xscale="log", yscale="log", xlabel="noise variance", ylabel="loss / (order x radius²), nats")
    axes.set_title("Correlation adds to the loss that noise alone would leave", loc="left")
    axes.legend(frameon=False)
    save(figure, path)


def draw_panels(points: Sequence[Point], path: Path, value: Callable[[Point], float], label: str) -> None:
    """One row of panels per kernel."""
    plt = pyplot()
    kernels = list(dict.fromkeys(point.kernel for point in points))
    panels = list(dict.fromkeys(point.panel for point in points))
    size = (3.4 * len(panels), 3.2 * len(kernels))
    figure, grid = plt.subplots(len(kernels), len(panels), figsize=size, layout="constrained", squeeze=False)
    for axes_row, kernel in zip(grid, kernels, strict=True):
        for axes, panel in zip(axes_row, panels, strict=True):
            own = [point for point in points if (point.kernel, point.panel) == (kernel, panel)]
            draw_panel(axes, own, value)
            axes.set_title(f"{kernel}, {panel}", loc="left")
            axes.set_xlabel("effective length scale")
        axes_row[0].set_ylabel(label)
    save(figure, path)


def draw_panel(axes: Any, points: Sequence[Point], value: Callable[[Point], float]) -> None:
    """A line per design."""
    for design in dict.fromkeys(point.design for point in points):
        own = [point for point in points if point.design == design]
        axes.plot(
            [point.length_scale for point in own],
            [value(point) for point in own],
            color=COLOURS[design],
            label=design,
        )
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(bottom=0.0)
    axes.legend(frameon=False, fontsize=7)


def relative_to_the_papers(points: Sequence[Point]) -> Callable[[Point], float]:
    """Epsilon divided by that of SDP_A or Multiple Secrets at the same place."""
    base = {
        (point.kernel, point.panel, point.length_scale): point.epsilon_nats
        for point in points
        if point.design in ("sdp-a", "multiple")
    }
    return lambda point: point.epsilon_nats / base[point.kernel, point.panel, point.length_scale]


def pyplot() -> Any:
    """The plotting library, without a window."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    return plt


def save(figure: Any, path: Path) -> None:
    """Write the picture; the same picture is the same file."""
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot().close(figure)


def main() -> None:
    """Write every figure and table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("docs/results/tables"))
    results = parser.parse_args().results
    results.mkdir(parents=True, exist_ok=True)
    losses, points = loss_rows(), posterior_points(SETTINGS)
    write_csv(results / "cip-loss.csv", losses)
    draw_loss(losses, results / "cip-loss.png")
    write_csv(results / "cip-posterior.csv", [asdict(point) for point in points])
    interval = "2 sigma left to the adversary"
    draw_panels(points, results / "cip-posterior.png", lambda point: point.posterior_2sigma, interval)
    designed = [
        point
        for point in points
        if point.panel != "misspecified" and point.design not in ("uniform", "concentrated")
    ]
    relative = relative_to_the_papers(points)
    rows = [{**asdict(point), "epsilon_relative": relative(point)} for point in designed]
    write_csv(results / "cip-designs.csv", rows)
    draw_panels(designed, results / "cip-designs.png", relative, "epsilon / the paper's")
    print(f"wrote cip-loss, cip-posterior and cip-designs as PNG and CSV to {results}")


if __name__ == "__main__":
    main()
