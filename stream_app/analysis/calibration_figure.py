"""A check of priors as a picture: predicted against realised, by groups of people, with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accounting.audit.calibration import GroupedCheck, PriorsCheck
from stream_app.analysis.plan_figure import pyplot_for_files, save_figure


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
        title=f"{check.guess.everybody.people:,} people: {check.verdict}",
    )
    axes.legend(loc="lower right")
    save_figure(figure, output)


def _draw_groups(
    axes: Any, grouped: GroupedCheck, shift: float, colour: str, marker: str, label: str
) -> None:
    """A point a group with the interval of what happened; everybody as a larger, empty one."""
    groups = grouped.groups
    axes.errorbar(
        [group.predicted + shift for group in groups],
        [group.realised for group in groups],
        yerr=[
            [group.realised - group.low for group in groups],
            [group.high - group.realised for group in groups],
        ],
        fmt=marker,
        color=colour,
        capsize=3,
        label=label,
    )
    everybody = grouped.everybody
    axes.plot(
        [everybody.predicted + shift],
        [everybody.realised],
        marker,
        markersize=13,
        markerfacecolor="none",
        color=colour,
        label="everybody" if marker == "o" else None,
    )
