"""Claim: a noise design takes milliseconds where its semidefinite program takes seconds to minutes.

The same designs of 24, 48 and 96 times, RBF prior of length scale 4, directly and by general solvers. Each
runs in a process of its own, for its peak memory, and is stopped after two minutes or at 4 GB. Minutes of
work: ``python -m benchmarks.noise_design``, or one design with its method, solver and points as arguments.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import show

POINTS = (24, 48, 96)
LENGTH_SCALE, REPEATS = 4.0, 5
LIMIT_SECONDS, LIMIT_BYTES = 120, 4 * 2**30
DESIGNS = (
    ("exact", "auto"),
    ("exact", "clarabel"),
    ("exact", "scs"),
    ("unrestricted", "auto"),
    ("unrestricted", "clarabel"),
    ("sdp-a", "auto"),
    ("multiple", "auto"),
    ("multiple", "clarabel"),
    ("multiple-exact", "auto"),
    ("multiple-exact", "clarabel"),
)


def measure_one(method: str, solver: str, points: int) -> dict[str, float]:
    """Seconds of one design (direct ones: the best of some), memory above the idle process, and its loss."""
    from models.gaussian_process import RBF, GaussianProcessPrior
    from models.noise_design import DesignProblem, design_noise, worst_information
    from models.noise_design.design import sdp_a

    prior = GaussianProcessPrior.at_steps(RBF(LENGTH_SCALE), points).covariance()
    secret = None if method.startswith("multiple") else (points // 2,)
    problem = DesignProblem(prior, secret, 1.0)
    design_noise(problem, "uniform")
    if solver != "auto":
        import cvxpy  # noqa: F401  # its import is not what is measured
    idle = peak_megabytes()
    seconds = []
    for _ in range(REPEATS if solver == "auto" else 1):
        began = time.perf_counter()
        if (method, solver) == ("multiple", "clarabel"):
            single_secrets = [sdp_a(DesignProblem(prior, (at,), 1.0)) for at in range(points)]
            noise = least_cover(single_secrets, solver)
            noise = noise / noise.trace()
        else:
            noise = design_noise(problem, method, solver).covariance
        seconds.append(time.perf_counter() - began)
    loss = worst_information(problem, noise)
    return {"seconds": min(seconds), "megabytes": peak_megabytes() - idle, "information": loss}


def least_cover(family: Sequence[NDArray[np.float64]], solver: str) -> NDArray[np.float64]:
    """The least-trace covariance above every member (n, n): the paper's SDP_B, by a general solver."""
    import cvxpy as cp

    from models.noise_design.semidefinite import SOLVERS

    unit = float(max(member.trace() for member in family)) / len(family[0])
    noise = cp.Variable(family[0].shape, symmetric=True)
    least_trace = cp.Minimize(cp.trace(noise))  # type: ignore[attr-defined]
    program = cp.Problem(least_trace, [noise >> member / unit for member in family])
    program.solve(**SOLVERS[solver])  # type: ignore[no-untyped-call]
    return unit * np.asarray(noise.value)


def peak_megabytes() -> float:
    """The most memory this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def in_a_process(method: str, solver: str, points: int) -> dict[str, float] | None:
    """The figures of one design; None if it took too long or too much."""
    command = [sys.executable, "-m", "benchmarks.noise_design", method, solver, str(points)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def cell(found: dict[str, float] | None) -> str:
    """Seconds and megabytes as they are said."""
    if found is None:
        return f"over {LIMIT_SECONDS} s or {LIMIT_BYTES >> 30} GB"
    seconds = found["seconds"]
    said = f"{1e3 * seconds:.2g} ms" if seconds < 0.1 else f"{seconds:.2g} s"
    return f"{said}, {found['megabytes']:.0f} MB"


def main() -> None:
    """Print the table; a row whose loss differs from the direct design's shows by how much."""
    if len(sys.argv) == 4:
        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
        print(json.dumps(measure_one(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
        return
    rows, direct = [], {}
    for method, solver in DESIGNS:
        found = [in_a_process(method, solver, points) for points in POINTS]
        if solver == "auto":
            direct[method] = [each["information"] for each in found if each]
        excess = [
            each["information"] / own - 1.0
            for each, own in zip(found, direct[method], strict=False)
            if each and solver != "auto"
        ]
        worst = f"{max(excess):+.1e}" if excess else ""
        rows.append([method, "direct" if solver == "auto" else solver, *map(cell, found), worst])
    show(
        f"Noise designs: seconds and peak memory, RBF prior of length scale {LENGTH_SCALE:g}, trace 1",
        ["method", "solver", *(f"{points} times" for points in POINTS), "loss above the direct one"],
        rows,
    )


if __name__ == "__main__":
    main()
