"""Figures, theorems in numbers and examples of Koufogiannis, Pappas, "Diffusing Private Data over Networks".

The paper's networks cannot be had. The first, 150 people and 1,256 edges by proximity, is drawn again from
random places (its nearest pairs are the edges) such that nine hops lead to the farthest. The Facebook circle
of "Alice" is a synthetic stand-in: friends in four circles, each of whom Alice knows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, special
from scipy.spatial.distance import pdist

from experiments.drawing import grid, save
from experiments.measure import write_csv
from experiments.papers import Claim
from models.keys import UniformStream
from models.noise.continuous_process import PrivateProcess, jump_vector
from models.releases.trust import TrustGraph, exponential_level

Floats = NDArray[np.float64]
PEOPLE, EDGES, HOPS = 150, 1256, 9
LOWEST, HIGHEST = 0.5, 15.0  # epsilon of the farthest and of a friend
ALICE = math.exp(4.0)  # epsilon at distance 0
CIRCLES, CIRCLE_SIZE = 4, 15
BLUE, RED, GREY = "#0072B2", "#D55E00", "#999999"
DRAWS = 2000


@dataclass(frozen=True)
class Read:
    """The noise of one sample of the process, from a level down to its next jump."""

    sample: int
    epsilon: float
    norm: float
    angle: float  # of the first two coordinates


@dataclass(frozen=True)
class Member:
    """One person of a network: where drawn, how far from the owner, the level and what is received."""

    x: float
    y: float
    distance: float
    epsilon: float
    error: float


def stream(*numbers: int) -> UniformStream:
    """Random numbers of one sample."""
    return UniformStream(b"papers, diffusion" + bytes(8) + repr(numbers).encode())


def sampled(dimension: int, sample: int, highest: float) -> list[Read]:
    """One sample of Algorithm 1, a line for each stretch between jumps."""
    process = PrivateProcess(dimension, highest, stream(dimension, sample))
    levels = [highest, *process.jumps(LOWEST).tolist(), LOWEST]
    values = [process.at(level) for level in levels]
    return [
        Read(sample, level, float(np.linalg.norm(value)), float(math.atan2(value[-1], value[0])))
        for level, value in zip(levels, values, strict=True)
    ]


def draw_samples(
    figures: Path, number: int, title: str, dimension: int, samples: int, highest: float = HIGHEST
) -> list[Claim]:
    """``diffusion-N``: the norm against the level, or for two dimensions the path itself; jumps counted."""
    polar = number == 2
    own = [sampled(dimension, sample, highest) for sample in range(samples)]
    write_csv([read for reads in own for read in reads], figures / f"diffusion-{number}.csv")
    figure, (axes,) = grid(1, 1, 5.5, 3.6)
    for reads, colour in zip(own, (BLUE, RED, "#009E73", "#E69F00", "#000000"), strict=False):
        if polar:
            path = np.array([[r.norm * math.cos(r.angle), r.norm * math.sin(r.angle)] for r in reads])
            axes.plot(*path.T, color=colour, marker="o", markersize=3, linewidth=1.2)
        else:
            axes.step([r.epsilon for r in reads], [r.norm for r in reads], where="pre", color=colour)
    if polar:
        axes.plot(0, 0, "k+")
        axes.set(xlabel="first coordinate of the noise", ylabel="second", aspect="equal")
    else:
        axes.set(xscale="log", xlabel="epsilon, nats", ylabel="norm of the noise")
    axes.set_title(f"Figure {number}: {title}", fontsize=10)
    save(figure, figures / f"diffusion-{number}.png")
    found = [PrivateProcess(dimension, 2.0, stream(dimension, i)).jumps(1.0).size for i in range(DRAWS)]
    expected = (dimension + 1) * math.log(2.0)
    return [
        Claim(f"{number}", f"jumps for every doubling of epsilon, n = {dimension}",
              f"{expected:.2f}, as their variance", f"{np.mean(found):.2f} and {np.var(found):.2f}", "yes")
    ]  # fmt: skip


@lru_cache(1)
def network() -> tuple[Floats, TrustGraph, str]:
    """Places (people, 2), the graph and the person from whom nine hops lead to the farthest."""
    for seed in count():
        places = np.random.default_rng(seed).random((PEOPLE, 2))
        pairs = list(combinations(range(PEOPLE), 2))
        near = np.argsort(pdist(places))[:EDGES]
        names = tuple(map(str, range(PEOPLE)))
        graph = TrustGraph(names, {(names[pairs[e][0]], names[pairs[e][1]]): 1.0 for e in near})
        corner = names[int(places.sum(axis=1).argmin())]
        if max(graph.distances(corner).values()) == HOPS:
            return places, graph, corner
    raise AssertionError("count() has no end")


def levels() -> Callable[[float], float]:
    """Exponential from 15 for a friend to 0.5 nine hops away."""
    length = (HOPS - 1) / math.log(HIGHEST / LOWEST)
    return exponential_level(HIGHEST * math.exp(1.0 / length), length)


def members(places: Floats, graph: TrustGraph, owner: str, sample: int) -> list[Member]:
    """What everybody receives of the owner's place."""
    epsilon, process = levels(), PrivateProcess(2, HIGHEST, stream(5, sample))
    return [
        Member(places[int(name), 0], places[int(name), 1], hops, epsilon(hops) if hops else math.inf,
               float(np.linalg.norm(process.at(min(epsilon(hops), HIGHEST)))) if hops else 0.0)
        for name, hops in graph.distances(owner).items()
    ]  # fmt: skip


def draw_network(figures: Path, number: int) -> list[Claim]:
    """Figure 1: access rights beside distances; figure 5: how far off what each person receives is."""
    places, graph, owner = network()
    found = members(places, graph, owner, sample=0)
    write_csv(found, figures / f"diffusion-{number}.csv")
    colourings: list[tuple[str, Sequence[Any]]] = (
        [
            (
                "access rights: friends know, others learn nothing",
                [BLUE if m.distance <= 1 else RED for m in found],
            ),
            ("hops from the star: the darker, the noisier", [m.distance for m in found]),
        ]
        if number == 1
        else [("error of what each person receives", [m.error for m in found])]
    )
    figure, axes_of = grid(len(colourings), 2 if number == 1 else 1, 5.0, 4.2)
    for axes, (title, colours) in zip(axes_of, colourings, strict=True):
        for first, second in graph.edges:
            ends = places[[int(first), int(second)]]
            axes.plot(ends[:, 0], ends[:, 1], color=GREY, linewidth=0.3, zorder=1)
        scale = {} if isinstance(colours[0], str) else {"cmap": "cividis_r"}
        drawn = axes.scatter(places[:, 0], places[:, 1], c=colours, s=22, zorder=2, **scale)
        axes.plot(*places[int(owner)], marker="*", markersize=15, color="k")
        if scale:
            figure.colorbar(drawn, ax=axes, shrink=0.8)
        axes.set(title=title, xticks=[], yticks=[], aspect="equal")
    figure.suptitle(f"Figure {number}: {PEOPLE} people, {EDGES} edges (drawn anew)", fontsize=11)
    save(figure, figures / f"diffusion-{number}.png")
    return _epidemic(places, graph) if number == 1 else _accuracy(graph, owner)


def _accuracy(graph: TrustGraph, owner: str) -> list[Claim]:
    """Theorem 3: the error depends on the distance alone, and pooling does not help."""
    far = levels()(HOPS)
    process = [PrivateProcess(2, HIGHEST, stream(6, i)).at(far) for i in range(DRAWS)]
    coalition = [name for name, hops in graph.distances(owner).items() if hops >= HOPS - 1]
    alone = [
        [PrivateProcess(2, far, stream(7, draw, member)).at(far) for member in range(len(coalition))]
        for draw in range(DRAWS // 10)
    ]
    squared = np.mean([value @ value for value in process])
    pooled = np.mean([np.mean(values, axis=0) @ np.mean(values, axis=0) for values in alone])
    return [
        Claim("theorem 3", "squared error nine hops away, n = 2", f"{6 / far**2:.1f} = n (n + 1) / epsilon²",
              f"{squared:.1f}", "yes"),
        Claim("theorem 3", f"the same, {len(coalition)} people eight hops away or more pool all",
              "no better than the nearest of them", f"{6 / levels()(HOPS - 1) ** 2:.1f}: the nearest has all "
              f"that is known; {pooled:.1f} if each had noise of their own at epsilon 0.5", "yes"),
    ]  # fmt: skip


def _epidemic(places: Floats, graph: TrustGraph) -> list[Claim]:
    """Bits of all 150 people, infected in one corner; somebody in the middle estimates how many."""
    random, infected = np.random.default_rng(4), places.sum(axis=1) > 1.2
    analyst = graph.members[int(np.linalg.norm(places - 0.45, axis=1).argmin())]
    hops = np.array(list(graph.distances(analyst).values()))
    others = hops > 0
    epsilon = np.array([levels()(d) for d in hops[others]])
    wrong = 0.5 * np.exp(-epsilon / 2.0)
    flips = random.random((DRAWS, others.sum())) < wrong
    received = np.logical_xor(infected[others], flips)
    estimate = ((received - wrong) / (1.0 - 2.0 * wrong)).mean(axis=1)
    friends = infected[hops == 1].mean()
    return [
        Claim("1", "share infected, estimated by one person", "possible, other than with access rights",
              f"{estimate.mean():.3f} ± {estimate.std():.3f}; truth {infected[others].mean():.3f}; "
              f"{friends:.3f} among {int((hops == 1).sum())} friends, whatever the others are", "yes")
    ]  # fmt: skip


def alice() -> tuple[TrustGraph, Floats]:
    """The stand-in for the Facebook circle, and each friend's resistance distance (friends,)."""
    random, friends = np.random.default_rng(3), CIRCLES * CIRCLE_SIZE
    names = ("Alice", *(f"friend {i}" for i in range(friends)))
    edges = {("Alice", name): 1.0 for name in names[1:]}
    for i, j in combinations(range(friends), 2):
        same = i % CIRCLES == j % CIRCLES
        density = 0.1 + 0.25 * (i % CIRCLES) if same else 0.01  # circles from loose to close
        if random.random() < density:
            edges[names[1 + i], names[1 + j]] = 1.0
    graph = TrustGraph(names, edges)
    distance = graph.distances("Alice", "resistance")
    return graph, np.array([distance[name] for name in names[1:]])


def draw_alice(figures: Path) -> list[Claim]:
    """Figure 7: friends at their distance, and circles where the two samples of figure 6 jump."""
    graph, distance = alice()
    epsilon = np.exp(-3.3 * distance + 4.0)
    angle = np.random.default_rng(5).random(distance.size) * math.pi / 2
    places = np.column_stack([np.cos(angle), np.sin(angle)]) * distance[:, None]
    process = PrivateProcess(1, ALICE, stream(1, 0))  # the first sample of figure 6
    found = [
        Member(place[0], place[1], float(d), float(e), float(abs(process.at(float(e))[0])))
        for place, d, e in zip(places, distance, epsilon, strict=True)
    ]
    write_csv(found, figures / "diffusion-7.csv")
    figure, (axes,) = grid(1, 1, 5.5, 5.0)
    for first, second in graph.edges:
        if first != "Alice":
            ends = places[[graph.members.index(first) - 1, graph.members.index(second) - 1]]
            axes.plot(ends[:, 0], ends[:, 1], color=GREY, linewidth=0.4, zorder=1)
    for sample, colour in ((0, BLUE), (1, RED)):
        for read in sampled(1, sample, ALICE)[1:-1]:
            turn, radius = np.linspace(0.0, math.pi / 2, 60), (4.0 - math.log(read.epsilon)) / 3.3
            axes.plot(radius * np.cos(turn), radius * np.sin(turn), color=colour, linewidth=1.0)
    axes.scatter(places[:, 0], places[:, 1], s=22, color="k", zorder=2)
    axes.plot(0, 0, marker="*", markersize=15, color="k")
    axes.set(xlabel="resistance distance from Alice", xlim=(-0.03, 1.1), ylim=(-0.03, 1.1), aspect="equal")
    axes.set_title("Figure 7: Alice's friends (a synthetic stand-in) and the jumps of figure 6", fontsize=10)
    save(figure, figures / "diffusion-7.png")
    level = 2.0
    wrong = np.mean([PrivateProcess(1, HIGHEST, stream(9, i)).at(level)[0] > 0.5 for i in range(DRAWS)])
    ratio = math.log(2.0 * math.exp(level / 2.0) - 1.0)
    return [
        Claim("7", "levels exp(-3.3 d + 4) of the friends", "within 0.5 and 15",
              f"{epsilon.min():.2f} to {epsilon.max():.1f}", "no: an edge to Alice makes d at most 1, and so "
              f"epsilon at least {math.exp(0.7):.2f}, in any such network"),
        Claim("7", f"a private bit at epsilon {level:.1f} comes out wrong", "post-processing keeps the level",
              f"{wrong:.3f} (exact {0.5 * math.exp(-level / 2):.3f}); log-ratio {ratio:.2f}",
              "yes"),
    ]  # fmt: skip


def jump_law(_figures: Path, _data: Path | None) -> list[Claim]:
    """Table I: the "Bessel" law of a jump's norm, by quadrature and as sampled without a Bessel function."""
    claims = []
    for dimension in (1, 2, 20):
        half = dimension / 2

        def density(x: float, half: float = half) -> float:
            return float(4 / (special.gamma(half) * 2 ** (half + 1)) * x**half * special.kv(half - 1, x))

        mean = integrate.quad(lambda x: x * density(x), 0, np.inf)[0]
        drawn = np.mean(
            [np.linalg.norm(jump_vector(dimension, 1.0, stream(dimension, i))) for i in range(DRAWS)]
        )
        claims.append(Claim("table I", f"mean norm of a jump at epsilon 1, n = {dimension}", f"{mean:.3f}",
                            f"{drawn:.3f}", "yes"))  # fmt: skip
    return claims


PARTS: Mapping[str, Callable[[Path, Path | None], list[Claim]]] = {
    "1": lambda figures, _: draw_network(figures, 1),
    "2": lambda figures, _: draw_samples(figures, 2, "two samples, n = 2", 2, 2),
    "3": lambda figures, _: draw_samples(figures, 3, "two samples, n = 20", 20, 2),
    "4": lambda figures, _: draw_samples(figures, 4, "five samples, n = 2", 2, 5),
    "5": lambda figures, _: draw_network(figures, 5),
    "6": lambda figures, _: draw_samples(figures, 6, "two samples, n = 1", 1, 2, ALICE),
    "7": lambda figures, _: draw_alice(figures),
    "table": jump_law,
}
