"""``tallyguard noise design``: correlated noise for one window of a series."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from stream_app.cli import shared as cli

if TYPE_CHECKING:
    from accounting.ledgers import InferentialLoss
    from models.gaussian_process import Kernel
    from models.noise_design import DesignProblem, NoiseDesign

KernelName = Literal["rbf", "periodic", "matern12", "matern32", "matern52"]
MethodName = Literal[
    "exact", "unrestricted", "sdp-a", "multiple", "multiple-exact", "uniform", "concentrated"
]
SolverName = Literal["auto", "clarabel", "scs"]
Number = TypeVar("Number", int, float)

noise = cli.command_group("noise", "Design noise.")


@noise.command()
def design(
    points: Annotated[int, typer.Option(min=1, help="Times in the noise window: 0, 1, 2, ...")] = 50,
    times: Annotated[
        str | None, typer.Option(help="Instead of --points: increasing times, separated by commas.")
    ] = None,
    kernel: Annotated[KernelName, typer.Option(help="Covariance function of the prior.")] = "rbf",
    length_scale: Annotated[
        float, typer.Option(help="Length scale, in steps; without unit for periodic.")
    ] = 8.0,
    period: Annotated[float, typer.Option(help="Period of the periodic kernel, in steps.")] = 24.0,
    variance: Annotated[float, typer.Option(help="Prior variance of a value.")] = 1.0,
    secret: Annotated[
        str | None, typer.Option(help="Positions to hide together, from 0; left out, each time.")
    ] = None,
    noise_budget: Annotated[float, typer.Option(help="Total noise variance (trace) of the window.")] = 1.0,
    method: Annotated[
        MethodName,
        typer.Option(
            help="exact, unrestricted and sdp-a hide one secret; multiple and multiple-exact every time; "
            "uniform and concentrated are independent noise."
        ),
    ] = "exact",
    order: Annotated[float, typer.Option(help="Renyi order lambda, above 1.")] = 5.0,
    radius: Annotated[float, typer.Option(help="How far apart two secrets may be, per value.")] = 1.0,
    solver: Annotated[SolverName, typer.Option(help="auto solves directly where that is possible.")] = "auto",
    covariance: Annotated[Path | None, typer.Option(help="Write the noise covariance here (.npy).")] = None,
    json: cli.JsonOption = False,
) -> None:
    """Find the Gaussian noise that hides a secret best.

    The total variance is given.

    The adversary knows the series is a Gaussian process with this kernel. Epsilon is the loss at --secret,
    or at the worst single time without it, evaluated from the covariance that is written, whatever the
    method; null in JSON where the release fixes the secret. multiple and multiple-exact always design for
    every time.

    \b
    Examples:
      tallyguard noise design --points 50 --length-scale 8 --secret 24,25
      tallyguard noise design --points 48 --kernel periodic --length-scale 1.1 --secret 24 --method sdp-a
      tallyguard noise design --method multiple-exact --noise-budget 20 --covariance noise.npy --json
    """
    import numpy as np

    from accounting.ledgers import release_loss
    from models.gaussian_process import GaussianProcessPrior
    from models.noise_design import DesignProblem, design_noise

    at = np.arange(points, dtype=np.float64) if times is None else np.array(_numbers("--times", times, float))
    hidden = None if secret is None else tuple(_numbers("--secret", secret, int))
    prior = GaussianProcessPrior(_kernel(kernel, length_scale, period, variance), at)
    problem = DesignProblem(prior.covariance(), hidden, noise_budget)
    with cli.stderr().status("designing noise"):
        designed = design_noise(problem, method, solver)
    losses = [
        release_loss(problem.prior, designed.covariance, each, order, radius) for each in problem.secrets
    ]
    loss = max(losses, key=lambda each: each.epsilon)  # at the secret, or at the worst single time
    if covariance is not None:
        with covariance.open("wb") as file:  # numpy would add an ending to a name
            np.save(file, designed.covariance)
    document = _document(designed, loss)
    if json:
        cli.print_json(document)
    else:
        _print_text(document, problem, covariance)


def _kernel(name: KernelName, length_scale: float, period: float, variance: float) -> Kernel:
    from models.gaussian_process import RBF, Matern, Periodic

    if name == "rbf":
        return RBF(length_scale, variance)
    if name == "periodic":
        return Periodic(length_scale, period, variance)
    return Matern(length_scale, {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}[name], variance)


def _numbers(option: str, text: str, kind: Callable[[str], Number]) -> list[Number]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        message = f"must be numbers separated by commas, got {text!r}; write for example 24,25"
        raise typer.BadParameter(message, param_hint=option) from None


def _document(designed: NoiseDesign, loss: InferentialLoss) -> dict[str, Any]:
    import math

    def finite(value: float) -> float | None:
        return value if math.isfinite(value) else None

    return {
        "method": designed.method,
        "epsilon": finite(loss.epsilon),
        "sigma_s2": loss.secret_variance,
        "alpha": finite(loss.alpha),
        "trace": float(designed.covariance.trace()),
        "posterior_2sigma": loss.posterior_half_width,
        "solver": designed.solver,
        "seconds": designed.seconds,
    }


def _print_text(document: dict[str, Any], problem: DesignProblem, covariance: Path | None) -> None:
    from stream_app.watching.wording import DOWN, UP, significant

    protected = "the worst single time" if problem.secret is None else f"secret {list(problem.secret)}"
    epsilon = document["epsilon"]
    shown = (
        "no finite value: the release fixes the secret"
        if epsilon is None
        else f"{significant(epsilon, 6, UP)} nats"
    )
    cli.say(
        f"{document['method']} design for {problem.points} times",
        f"  epsilon at {protected}: {shown}",
        f"  noise variance at the secret: {document['sigma_s2']:.6g}",
        f"  total noise variance: {document['trace']:.6g}",
        f"  adversary's uncertainty (2 sigma): {significant(document['posterior_2sigma'], 6, DOWN)}",
        f"  solved by {document['solver']} in {document['seconds']:.3g} s",
        *([] if covariance is None else [f"Written to {covariance}."]),
    )
