"""A plan as a picture: risk after each step, and what each sensor is released with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from accounting.audit.calibration import GroupedCheck, PriorsCheck
from models.text import number_of
from stream_app.analysis.accuracy import Accuracy, Choice
from stream_app.analysis.planning import ReleasePlan, expected_error
from stream_app.exceptions import OutputError
from stream_app.setup.release_settings import CROWD, INFORMED
from stream_app.watching.wording import epsilon_in_words

_LINES = (  # told apart in grey, too
    ("highest", 1.0, "#D55E00", ":"),
    ("99 of 100", 0.99, "#E69F00", "--"),
    ("median", 0.5, "#0072B2", "-"),
)
_MOST_NAMED, _INCHES = 30, 0.2  # sensors that are named, and what a name needs

_OTHER_CEILING = {CROWD: "mean ceiling, others known", INFORMED: "mean ceiling in the crowd"}

_DASHES = {
    "mean ceiling": "-",
    "mean attack": ":",
    "mean guess": "--",
    **dict.fromkeys(_OTHER_CEILING.values(), "-."),
}


def draw_plan(plan: ReleasePlan, output: Path) -> None:
    """Write a PNG; :class:`OutputError` where matplotlib is missing or the file cannot be written."""
    pyplot = pyplot_for_files()
    names = len(plan.sensors())
    heights = 3.5, max(3.5, 1.0 + _INCHES * names if names <= _MOST_NAMED else 0.0)
    figure, (risk, errors) = pyplot.subplots(
        2, 1, figsize=(9, sum(heights)), height_ratios=heights, sharex=True, layout="constrained"
    )
    draw_risk(plan, risk)
    _draw_errors(plan, errors, figure)
    errors.set(xlabel="step", title="Expected error of each sensor, in people")
    save_figure(figure, output)


def draw_risk(plan: ReleasePlan, axes: Any) -> None:
    """Ceilings after each step: the highest, the 99 % quantile, the median, and means beside them."""
    steps = [step.decided.schedule.step for step in plan.steps]
    for name, quantile, colour, dash in _LINES:
        values = [risks.risk_quantiles[quantile] for risks in plan.ceilings]
        axes.step(steps, values, where="mid", label=name, color=colour, linestyle=dash)
    for name, values in _means(plan):
        axes.plot(steps, values, label=name, color="#555555", linestyle=_DASHES[name], marker=".")
    title = f"Ceilings of {number_of(plan.people, 'person')} after each step, {plan.about.condition}"
    axes.set(ylabel="chance", ylim=(0, 1.02))
    axes.set_title(fill(title, 90), fontsize="medium")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))  # beside the lines, none of which it hides


def _means(plan: ReleasePlan) -> list[tuple[str, list[float]]]:
    """Guess, attack and ceilings on average; the attack only where it was measured at each step.

    The attack knows where the others are, so it is not drawn beside ceilings in the crowd.
    """
    tried = plan.steps if plan.adversary == INFORMED else ()
    attacks = [step.attack.success for step in tried if step.attack is not None]
    others = [risks.mean_risk for risks in plan.other_ceilings]
    return [
        ("mean ceiling", [risks.mean_risk for risks in plan.ceilings]),
        *([(_OTHER_CEILING[plan.adversary], others)] if others else []),
        *([("mean attack", attacks)] if len(attacks) == len(plan.steps) else []),
        ("mean guess", [step.risks.mean_baseline for step in plan.steps]),
    ]


def _draw_errors(plan: ReleasePlan, axes: Any, figure: Any) -> None:
    names = [sensor.sensor for sensor in plan.sensors()]
    row = {name: k for k, name in enumerate(names)}
    shown = [
        (step.decided.schedule.step, row[release.sensor.name], expected_error(release.mechanism))
        for step in plan.steps
        for release in step.decided.schedule.releases
    ]
    released = [each for each in shown if each[2] is not None]
    silent = [(x, y) for x, y, error in shown if error is None]
    x, y, errors = zip(*released, strict=True) if released else ((), (), ())
    drawn = axes.scatter(x, y, c=errors, cmap="viridis", marker="s", vmin=0)
    axes.scatter(*(zip(*silent, strict=True) if silent else ((), ())), c="#999999", marker="x")
    if released:
        figure.colorbar(drawn, ax=axes, label="people")
    few = names if len(names) <= _MOST_NAMED else []
    axes.set_yticks(range(len(few)), few)
    axes.invert_yaxis()
    axes.set_ylabel("sensor (x: nothing released)")


def draw_choices(choices: Sequence[Choice], target: Accuracy, output: Path) -> None:
    """Accuracy against added risk: less and more noise, the schedule's own, and what was wanted (PNG)."""
    figure, axes = pyplot_for_files().subplots(figsize=(7.5, 5), layout="constrained")
    known = [(each.within, each) for each in choices if each.within is not None]
    curve = sorted(((x, each.mean_added) for x, each in known if each.name != "as in the schedule"))
    axes.plot([x for x, _ in curve], [y for _, y in curve], color="#999999", linewidth=1)
    for x, each in known:
        colour, marker = _MARKS.get(each.name, ("#0072B2", "o"))
        axes.plot([x], [each.mean_added], marker, color=colour, markersize=9, label=each.name)
        epsilon = epsilon_in_words(each.plan.units[0].statement.epsilon)
        axes.annotate(f"epsilon {epsilon}", (x, each.mean_added), (6, 5), textcoords="offset points", size=8)
    axes.set(
        xlabel=f"within so many people, {100.0 * target.level:g} times in 100 ({target.period.value})",
        ylabel="highest mean added risk",
        title="What accuracy costs (epsilon: whole log)",
        ylim=(0, None),
    )
    axes.legend()
    save_figure(figure, output)


_MARKS = {"as wanted": ("#D55E00", "*"), "as in the schedule": ("#009E73", "s")}


def pyplot_for_files() -> Any:
    """Matplotlib's ``pyplot`` without a window; :class:`OutputError` where matplotlib is missing."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise OutputError("a plot needs matplotlib", error, "pip install 'tallyguard[plots]'") from error
    mpl.use("Agg")
    from matplotlib import pyplot

    return pyplot


def save_figure(figure: Any, output: Path) -> None:
    """Write a PNG and close the figure; :class:`OutputError` where the file cannot be written."""
    from matplotlib import pyplot

    try:
        figure.savefig(output, dpi=110, metadata={"Software": None})
    except (OSError, ValueError) as failure:
        must = f"the plot must be written to {output}"
        raise OutputError(must, failure, "name a .png in a folder of yours") from failure
    finally:
        pyplot.close(figure)


# A check of priors as a picture: predicted against realised, by groups of people, with intervals.


def draw_check(check: PriorsCheck, output: Path) -> None:
    """Write a PNG; :class:`OutputError` where matplotlib is missing or the file cannot be written."""
    figure, axes = pyplot_for_files().subplots(figsize=(6.5, 6), layout="constrained")
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=1, linestyle="--", label="as the priors say")
    axes.fill_between([0, 1], [0, 1], [1, 1], color="#D55E00", alpha=0.07, linewidth=0)
    axes.text(0.03, 0.96, "easier to guess than predicted:\nceilings too low", va="top", color="#A04000")
    _draw_groups(axes, check.guess, -0.004, "#0072B2", "o", "best guess from habits")
    _draw_groups(axes, check.attack, 0.004, "#D55E00", "s", f"attack {check.attack_name} against ceilings")
    axes.set(
        xlim=(0, 1),
        ylim=(0, 1.02),
        xlabel="predicted success, mean of a group",
        ylabel="realised success, 95 % interval",
        title=f"{number_of(check.guess.everybody.people, 'person')}: {check.verdict}",
    )
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    save_figure(figure, output)


def _draw_groups(
    axes: Any, grouped: GroupedCheck, shift: float, colour: str, marker: str, label: str
) -> None:
    """A point a group with the interval of what happened; everybody as a larger, empty one."""
    groups, everybody = grouped.groups, grouped.everybody
    predicted, realised = [g.predicted + shift for g in groups], [g.realised for g in groups]
    ends = [g.realised - g.low for g in groups], [g.high - g.realised for g in groups]
    axes.errorbar(predicted, realised, yerr=ends, fmt=marker, color=colour, capsize=3, label=label)
    place = [everybody.predicted + shift], [everybody.realised]
    whose = "everybody" if marker == "o" else None
    axes.plot(*place, marker, markersize=13, markerfacecolor="none", color=colour, label=whose)
