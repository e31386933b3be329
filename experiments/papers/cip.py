"""The figures of Meehan and Chaudhuri, "Location Trace Privacy Under Conditional Priors", workshop and full
paper with its appendix: the papers' designs of noise, and better ones beside them.

The traces of the papers cannot be had: those drawn here are samples of the prior they are about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from accounting.ledgers import release_loss
from experiments.drawing import grid, save
from experiments.measure import write_csv
from experiments.papers import Claim
from models.gaussian_process import RBF, GaussianProcessPrior, Kernel, Periodic, condition_on
from models.noise_design import DesignProblem, design_noise
from models.noise_design.design import multiple_secrets, sdp_a, sdp_b
from models.noise_design.problem import indirect_information

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


EVERY_OTHER = (0, 2, 4, 6, 8)  # of ten points


@dataclass(frozen=True)
class Loss:
    """Loss of one noise under one length scale, divided by order and squared radius."""

    length_scale: float
    noise_variance: float
    loss_nats: float


def relative_loss(length_scale: float, variance: float) -> float:
    """Ten points, every other one secret, independent noise of one variance."""
    prior = GaussianProcessPrior.at_steps(RBF(length_scale), 10).covariance()
    return release_loss(prior, variance * np.eye(10), EVERY_OTHER, ORDER, RADIUS).epsilon / (
        ORDER * RADIUS**2
    )


def draw_workshop_2a(figures: Path) -> list[Claim]:
    """Loss against noise variance for several length scales."""
    scales = (0.01, 0.5, 1.0, 2.0, 3.0, 4.0)
    rows = [
        Loss(scale, float(variance), relative_loss(scale, float(variance)))
        for scale in scales
        for variance in np.geomspace(0.1, 10.0, 25)
    ]
    write_csv(rows, figures / "cip-workshop-2a.csv")
    figure, (axes,) = grid(1, 1, 6.0, 3.6)
    for position, scale in enumerate(scales):
        own = [row for row in rows if row.length_scale == scale]
        axes.plot(
            [row.noise_variance for row in own],
            [row.loss_nats for row in own],
            color=_shade(position / len(scales)),
            label="independent" if scale < 0.1 else f"l = {scale:g}",
        )
    axes.set(xscale="log", yscale="log", xlabel="noise variance", ylabel="loss / (order x radius²), nats")
    axes.set_title("Workshop, figure 2(a): correlation adds to the loss", fontsize=10)
    axes.legend(frameon=False)
    save(figure, figures / "cip-workshop-2a.png")

    def more(variance: float) -> float:
        return relative_loss(1.0, variance) / relative_loss(0.01, variance) - 1.0

    as_said = brentq(lambda log: more(float(np.exp(log))) - 0.5, np.log(0.05), 0.0)
    return [
        Claim("workshop 2(a)", "correlation of neighbours at l = 1", "0.6", f"{np.exp(-0.5):.3f}", "yes"),
        Claim("workshop 2(a)", "loss at l = 1 above that of independent points", "+50 %",
              ", ".join(f"{more(v):+.0%}" for v in (0.1, 0.25, 1.0, 10.0))
              + " at noise variances 0.1, 0.25, 1 and 10", f"at variance {np.exp(as_said):.2f} only"),
    ]  # fmt: skip


@dataclass(frozen=True)
class Hypothesis:
    """One point of an example trace, and the secret that is told from it best."""

    time: int
    value: float
    worst: float
    secret: int


def draw_workshop_2b(figures: Path) -> list[Claim]:
    """An example trace and the worst hypothesis, length scale 2: the top direction of what the rest tells."""
    prior = GaussianProcessPrior.at_steps(RBF(2.0), 10)
    trace = prior.sample(1, np.random.default_rng(2))[0]
    split = condition_on(prior.covariance(), EVERY_OTHER)
    values, vectors = np.linalg.eigh(indirect_information(split, np.eye(10)).matrix)
    shift = np.sqrt(len(EVERY_OTHER)) * RADIUS * vectors[:, -1]
    worst = trace.copy()
    worst[list(EVERY_OTHER)] += shift
    rest = [time for time in range(10) if time not in EVERY_OTHER]
    worst[rest] += split.effect @ shift
    rows = [Hypothesis(t, float(trace[t]), float(worst[t]), int(t in EVERY_OTHER)) for t in range(10)]
    write_csv(rows, figures / "cip-workshop-2b.csv")
    figure, (axes,) = grid(1, 1, 6.0, 3.6)
    axes.plot(trace, color="#000000", marker="o", label="trace (a sample of the prior)")
    axes.plot(
        EVERY_OTHER, worst[list(EVERY_OTHER)], "s", color="#D55E00", label="worst hypothesis on the secret"
    )
    axes.plot(rest, worst[rest], "x", color="#D55E00", label="what is then expected of the rest")
    axes.set(xlabel="time", ylabel="place")
    axes.set_title("Workshop, figure 2(b): length scale 2, noise variance 1", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    save(figure, figures / "cip-workshop-2b.png")
    far, near = float(np.abs(worst - trace)[rest].max()), float(np.abs(shift).max())
    signs = "".join("+" if value > 0 else "-" for value in shift * np.sign(shift[0]))
    return [
        Claim("workshop 2(b)", "worst hypothesis at l = 2", "the rest deviates by much",
              f"signs {signs}; the secret moves by {near:.2f} at most, the rest by {far:.2f}; "
              f"alpha {values[-1]:.2f}", "yes"),
    ]  # fmt: skip


def draw_l_max(figures: Path) -> list[Claim]:
    """Is noise that suffices for the largest length scale enough for every smaller one?"""
    designed, middle = 6.0, (24,)

    def prior(scale: float) -> Floats:
        return GaussianProcessPrior.at_steps(RBF(scale), 50).covariance()

    problem = DesignProblem(prior(designed), middle, 1.0)
    noises = {"sdp-a": sdp_a(problem), "uniform": design_noise(problem, "uniform").covariance}
    rows = [
        Point("RBF", "designed for 6", name, float(scale), 1.0, loss.epsilon, loss.posterior_half_width)
        for name, noise in noises.items()
        for scale in np.linspace(0.5, designed, 23)
        for loss in (release_loss(prior(float(scale)), noise, middle, ORDER, RADIUS),)
    ]
    write_csv(rows, figures / "cip-l-max.csv")
    figure, axes_of = grid(2, 2, 4.6, 3.3)
    for axes, name in zip(axes_of, noises, strict=True):
        own = [row for row in rows if row.design == name]
        axes.plot([row.length_scale for row in own], [row.epsilon_nats for row in own], color=COLOURS[name])
        axes.axhline(own[-1].epsilon_nats, color="#000000", linewidth=0.8, linestyle=":")
        axes.set(xlabel="length scale of the prior", ylabel="epsilon, nats", ylim=(0.0, None))
        axes.set_title(f"{name}, designed for 6 (dotted: its epsilon there)", fontsize=10)
    save(figure, figures / "cip-l-max.png")
    at = {(row.design, row.length_scale): row.epsilon_nats for row in rows}
    worst = max((row for row in rows if row.design == "sdp-a"), key=lambda row: row.epsilon_nats)
    spared = all(row.epsilon_nats <= at["uniform", designed] for row in rows if row.design == "uniform")
    return [
        Claim("workshop 3", "enough at l_max is enough at every smaller l: independent noise", "always",
              f"{at['uniform', designed]:.0f} at 6, falling below", "yes" if spared else "no"),
        Claim("workshop 3", "the same for correlated noise (SDP_A for l = 6)", "taken over",
              f"{at['sdp-a', designed]:.1f} at l = 6, {at['sdp-a', 2.0]:.1f} at l = 2, "
              f"{worst.epsilon_nats:.1f} at l = {worst.length_scale:g}",
              "no: take the worst over l <= l_max"),
    ]  # fmt: skip


@dataclass(frozen=True)
class Fix:
    """One time of a trace in two dimensions: doubt that each noise leaves, two sigmas a coordinate."""

    time: int
    x: float
    y: float
    secret: int
    independent: float
    designed: float


def draw_3(figures: Path) -> list[Claim]:
    """A trace with three sensitive times under independent noise and Multiple Secrets of the same size."""
    points, secrets = 50, (8, 25, 41)
    prior = GaussianProcessPrior.at_steps(RBF(6.0), points)
    sigma = prior.covariance()
    trace = prior.sample(2, np.random.default_rng(8)).T
    cover = sdp_b(
        [sdp_a(DesignProblem(sigma, (s,), VARIANCE_PER_POINT * points)) for s in secrets]
    ).covariance
    independent = np.eye(points) * cover.trace() / points
    doubt = [2.0 * np.sqrt(np.diag(sigma - sigma @ np.linalg.solve(sigma + noise, sigma)))
             for noise in (independent, cover)]  # fmt: skip
    rows = [Fix(t, trace[t, 0], trace[t, 1], int(t in secrets), float(doubt[0][t]), float(doubt[1][t]))
            for t in range(points)]  # fmt: skip
    write_csv(rows, figures / "cip-3.csv")
    figure, axes_of = grid(2, 2, 4.8, 4.2)
    for axes, own, title in zip(
        axes_of, doubt, ("independent noise", "Multiple Secrets, same size"), strict=True
    ):
        axes.plot(*trace.T, color="#000000", linewidth=0.8)
        for t, (x, y) in enumerate(trace):
            secret = t in secrets
            axes.add_patch(_circle(x, y, own[t], "#009E73"))
            axes.plot(x, y, "o", markersize=7 if secret else 3, color="#D55E00" if secret else "#000000")
        axes.set(aspect="equal", xlabel="x", ylabel="y")
        axes.set_title(title + " (circles: 2 sigma left)", fontsize=10)
    figure.suptitle("Appendix, figure 3: a synthetic trace with three sensitive times", fontsize=11)
    save(figure, figures / "cip-3.png")
    at = [float(own[list(secrets)].min()) for own in doubt]
    return [
        Claim("appendix 3", "least doubt at three sensitive times, independent and designed noise",
              "designed noise leaves more", f"{at[0]:.2f} and {at[1]:.2f} (2 sigma)", "yes")
    ]  # fmt: skip


def draw_4(figures: Path) -> list[Claim]:
    """Covariances of the baselines and of the papers' designs, each with a sample."""
    rbf, periodic = Setting("RBF", 50, RBF, np.array([6.0]), (24,), (24, 25)), SETTINGS[1]
    random, rows = np.random.default_rng(4), []
    noises: list[tuple[str, Floats]] = []
    for setting, scale in ((rbf, 6.0), (periodic, 1.1)):
        prior, budget = prior_of(setting, scale), VARIANCE_PER_POINT * setting.points
        basic = DesignProblem(prior, setting.basic, budget)
        if setting is rbf:
            spread = DesignProblem(prior, (12, 24, 36), budget)
            noises += [("uniform", design_noise(basic, "uniform").covariance)]
            noises += [("concentrated, one time", design_noise(basic, "concentrated").covariance)]
            noises += [("concentrated, three", design_noise(spread, "concentrated").covariance)]
        noises += [(f"{setting.name}, one time", sdp_a(basic, STABILISATION["basic"]))]
        compound = DesignProblem(prior, setting.compound, budget)
        noises += [(f"{setting.name}, two times", sdp_a(compound, STABILISATION["compound"]))]
        noises += [
            (f"{setting.name}, every time", multiple_secrets(DesignProblem(prior, None, budget)).covariance)
        ]
    figure, axes_of = grid(2 * len(noises), 6, 2.6, 2.3)
    for number, (title, noise) in enumerate(noises):
        pictured, drawn = axes_of[2 * number : 2 * number + 2]
        pictured.imshow(noise, cmap="inferno")
        pictured.set_title(title, fontsize=9)
        values, vectors = np.linalg.eigh(noise)
        sample = vectors @ (np.sqrt(np.maximum(values, 0.0)) * random.standard_normal(values.size))
        drawn.plot(sample, color="#000000", linewidth=0.9)
        rows += [Sample(title, t, float(noise[t, t]), float(value)) for t, value in enumerate(sample)]
    write_csv(rows, figures / "cip-4.csv")
    figure.suptitle("Appendix, figure 4: covariance of each noise, and a sample of it", fontsize=11)
    save(figure, figures / "cip-4.png")
    one, two = dict(noises)["RBF, one time"], dict(noises)["RBF, two times"]
    return [
        Claim("appendix 4", "noise at one secret time, with the rest (RBF)", "uncorrelated",
              f"variance {one[24, 24]:.3f} of {one.trace():.1f}, largest covariance "
              f"{np.abs(np.delete(one[24], 24)).max():.1g}", "yes"),
        Claim("appendix 4", "sides of a secret of two adjacent times (RBF)", "both signs",
              f"correlation of times 21 and 28: {two[21, 28] / np.sqrt(two[21, 21] * two[28, 28]):+.2f}",
              "yes" if two[21, 28] < 0.0 else "no"),
    ]  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """One time of a noise: its variance and one draw."""

    noise: str
    time: int
    variance: float
    drawn: float


def _circle(x: float, y: float, radius: float, colour: str) -> Any:
    from matplotlib.patches import Circle

    return Circle((x, y), radius, color=colour, alpha=0.12, linewidth=0)


def _shade(share: float) -> Any:
    from matplotlib import colormaps

    return colormaps["viridis"](share)


def draw_panels(points: Sequence[Point], path: Path, value: Callable[[Point], float], label: str) -> None:
    """One row of panels per kernel."""
    kernels = list(dict.fromkeys(point.kernel for point in points))
    panels = list(dict.fromkeys(point.panel for point in points))
    figure, axes_of = grid(len(kernels) * len(panels), len(panels), 3.4, 2.8)
    shown = [(kernel, panel) for kernel in kernels for panel in panels]
    for axes, (kernel, panel) in zip(axes_of, shown, strict=True):
        draw_panel(axes, [point for point in points if (point.kernel, point.panel) == (kernel, panel)], value)
        axes.set_title(f"{kernel}, {panel}", fontsize=10)
        axes.set(xlabel="effective length scale", ylabel=label)
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


def draw_2(figures: Path) -> list[Claim]:
    """The full paper's figure 2, and epsilon of each design divided by that of the paper's."""
    points = posterior_points(SETTINGS)
    write_csv(points, figures / "cip-2.csv")
    draw_panels(points, figures / "cip-2.png", lambda point: point.posterior_2sigma, "2 sigma left")
    designed = [
        point
        for point in points
        if point.panel != "misspecified" and point.design not in ("uniform", "concentrated")
    ]
    relative = relative_to_the_papers(points)
    rows = [
        Relative(p.kernel, p.panel, p.design, p.length_scale, p.epsilon_nats, relative(p)) for p in designed
    ]
    write_csv(rows, figures / "cip-designs.csv")
    draw_panels(designed, figures / "cip-designs.png", relative, "epsilon / the paper's")
    claims = []
    for kernel, at in (("RBF", 6.0), ("periodic", 1.1)):
        own = [p for p in points if p.kernel == kernel]
        scale = min({p.length_scale for p in own}, key=lambda each: abs(each - at))
        left = {(p.panel, p.design): p.posterior_2sigma for p in own if p.length_scale == scale}
        loss = {(p.panel, p.design): p.epsilon_nats for p in own if p.length_scale == scale}
        for panel in ("basic", "compound"):
            claims.append(Claim("2", f"{kernel}, {panel}: 2 sigma left at l = {scale:.1f}, equal size",
                "SDP_A leaves most", ", ".join(f"{d} {left[panel, d]:.2f}" for d in
                                               ("sdp-a", "uniform", "concentrated", "exact", "unrestricted"))
                + f"; epsilon {loss[panel, 'sdp-a']:.3g}, best {loss[panel, 'unrestricted']:.3g}",
                "yes, of the papers' three"))  # fmt: skip
        claims.append(Claim("2", f"{kernel}, every time: 2 sigma left", "Multiple Secrets well above uniform",
            f"{left['all basic', 'multiple']:.2f} and {left['all basic', 'uniform']:.2f}; "
            f"{left['all basic', 'multiple-exact']:.2f} by noise shaped like the prior", "yes"))  # fmt: skip
    return claims


@dataclass(frozen=True)
class Relative:
    """One design's epsilon, and how it compares with the paper's design at the same place."""

    kernel: str
    panel: str
    design: str
    length_scale: float
    epsilon_nats: float
    epsilon_relative: float


PARTS: Mapping[str, Callable[[Path, Path | None], list[Claim]]] = {
    "workshop-2a": lambda figures, _: draw_workshop_2a(figures),
    "workshop-2b": lambda figures, _: draw_workshop_2b(figures),
    "l-max": lambda figures, _: draw_l_max(figures),
    "2": lambda figures, _: draw_2(figures),
    "3": lambda figures, _: draw_3(figures),
    "4": lambda figures, _: draw_4(figures),
}
