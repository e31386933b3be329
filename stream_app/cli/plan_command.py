"""``tallyguard plan``: the decisions for a whole schedule in advance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli import shared as cli
from stream_app.setup.option_settings import Period

if TYPE_CHECKING:
    from models.priors import Population
    from models.releases import StepSchedule
    from stream_app.analysis.accuracy import Accuracy, Choice
    from stream_app.analysis.crowd import PlannedCrowd
    from stream_app.analysis.planning import PlannedStep, ReleasePlan
    from stream_app.setup.settings import Settings


def plan(
    schedule: Annotated[
        Path, typer.Argument(help="What is counted when: schedule (JSON) or activations (CSV).")
    ],
    priors: cli.PriorsOption = None,
    config: cli.ConfigOption = None,
    share: Annotated[float | None, cli.setting_option("release.budget.share")] = None,
    risk: Annotated[float | None, cli.setting_option("release.budget.risk")] = None,
    added: Annotated[float | None, cli.setting_option("release.budget.added")] = None,
    look_ahead: Annotated[int | None, cli.setting_option("release.budget.look_ahead")] = None,
    horizon: cli.HorizonOption = None,
    mistakes: cli.MistakesOption = None,
    vary: cli.VaryOption = None,
    adversary: cli.AdversaryOption = None,
    known: cli.KnownOption = None,
    companions: cli.CompanionsOption = None,
    alone: cli.AloneOption = None,
    least: cli.LeastOption = None,
    counted_once: cli.CountedOnceOption = None,
    within: Annotated[
        str | None,
        typer.Option(
            help="Choose the noise by how far off a total may be: 5 people, or 10% of those expected."
        ),
    ] = None,
    often: cli.InOption = 95.0,
    period: cli.PeriodOption = Period.STEP,
    write: Annotated[
        Path | None, typer.Option(help="Write the schedule with the noise that --within chose.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Also draw the plan; with --within accuracy against added risk (PNG)."),
    ] = None,
    json: cli.JsonOption = False,
) -> None:
    """Decide a whole schedule in advance.

    Shows what each step will be released with and why, by how many people each sensor's counts will be off,
    how everybody's risk will develop, and epsilon by unit of privacy. Decisions need no counts: a run on the
    same files decides the same. A run splits people by pseudonym, so name the same pseudonym key as the run
    where a budget decides.
    A budget is kept against the adversary of the settings, or of --adversary, as in a run.
    With --within the noise is chosen for an accuracy, and what it costs in ceilings and epsilon is shown
    beside what the schedule's own noise does. Without --priors nobody's risk is computed; in a crowd the plan
    still shows what declared strangers hide.

    \b
    Examples:
      tallyguard plan tomorrow.json --priors priors.json --config tallyguard.toml
      tallyguard plan tomorrow.json --priors priors.parquet --added 0.05 --share 0.01 --plot plan.png
      tallyguard plan tomorrow.json --priors priors.json --risk 0.5 --look-ahead 24 --json
      tallyguard plan tomorrow.json --priors priors.json --vary radius=0.1
        --vary "survey 2019=priors-2019.json"
      tallyguard plan tomorrow.json --priors priors.json --within 5 --in 95 --for day --write nearer.json
      tallyguard plan tomorrow.json --priors priors.json --adversary crowd --known 10
      tallyguard plan tomorrow.json --priors priors.json --added 0.1 --adversary crowd
    """
    from stream_app.analysis.planning import plan_releases
    from stream_app.setup.given_priors import population_of
    from stream_app.setup.release_settings import BUDGET

    if within is None and write is not None:
        raise typer.BadParameter("--write is for the noise that --within chooses")
    if within is not None and vary:
        raise typer.BadParameter("--vary is for a plan without --within: plan what --write wrote")
    if priors is None and (vary or plot is not None):
        raise typer.BadParameter("--vary and --plot need --priors: without them nobody's risk is computed")
    crowd = cli.CrowdOptions(adversary, known, companions, alone, least, counted_once)
    asks_crowd = crowd.asks
    budget = {
        "release.budget.share": share,
        "release.budget.risk": risk,
        "release.budget.added": added,
        "release.budget.look_ahead": look_ahead,
    }
    is_limited = any(value is not None for value in budget.values())
    settings = cli.settings_of(
        config,
        {
            "horizon": horizon,
            "mistakes": mistakes,
            **budget,
            "release.mechanism": BUDGET if is_limited else None,
            "adversary": adversary,
            "crowd.on": None if adversary is None else asks_crowd,
            **{f"crowd.{name}": value for name, value in crowd.given.items()},
        },
    )
    population = population_of(settings, priors)
    if within is not None:
        _for_accuracy(settings, schedule, population, (within, often, period), write, plot, json=json)
        return
    with cli.progress() as bar:
        task = bar.add_task("planning", total=None)
        planned = plan_releases(
            settings,
            schedule,
            population,
            lambda done, steps: bar.update(task, completed=done, total=steps),
            vary or (),
        )
    if plot is not None:
        from stream_app.analysis.plan_figure import draw_plan

        draw_plan(planned, plot)
    if json:
        cli.print_json(planned.as_json())
    else:
        _print_plan(planned)


def _for_accuracy(
    settings: Settings,
    schedule: Path,
    population: Population,
    target: tuple[str, float, Period],
    write: Path | None,
    plot: Path | None,
    *,
    json: bool,
) -> None:
    from stream_app.analysis.accuracy import Accuracy, choices, sigmas_by_hour, unchanged, write_schedule
    from stream_app.analysis.plan_figure import draw_choices
    from stream_app.setup.schedule_files import load_schedule
    from stream_app.setup.sensor_files import load_registry
    from stream_app.steps import first_slot_of

    wanted = Accuracy.of(*target)
    announced = load_schedule(schedule, load_registry(settings.sensors, population.location_names))
    first_slot = first_slot_of(settings, announced)
    found = choices(settings, announced, wanted, population, first_slot, compare=plot is not None)
    sigmas = sigmas_by_hour(found[0].plan.schedule, settings, first_slot)
    if write is not None:
        write_schedule(replace(announced, steps=found[0].plan.schedule.steps), write)
    if plot is not None:
        draw_choices(found, wanted, plot)
    if json:
        by_slot = {name: {str(slot): own for slot, own in by.items()} for name, by in sigmas.items()}
        made, plan = [each.as_json() for each in found], found[0].plan.as_json()
        cli.print_json(
            {
                "target": wanted.in_words(),
                "sigma": by_slot,
                "unchanged": list(unchanged(announced)),
                "choices": made,
                "plan": plan,
            }
        )
        return
    _print_choices(found, wanted, sigmas)
    if kept := unchanged(announced):
        cli.say(
            f"The noise of {', '.join(kept)} is not chosen by accuracy: a count of moves, or over a window, "
            "has one mechanism in the whole run: that of the settings, which the schedule repeats."
        )
    if write is not None:
        cli.say(f"The schedule with this noise is in {write}.")


def _print_choices(
    found: tuple[Choice, ...], wanted: Accuracy, sigmas: Mapping[str, Mapping[int, float | None]]
) -> None:
    from stream_app.watching.wording import UP, epsilon_in_words, shortened

    def noise_of(by_slot: Mapping[int, float | None]) -> tuple[str, str, str]:
        noise = [sigma for sigma in by_slot.values() if sigma is not None]
        ends = (f"{min(noise):g}", f"{max(noise):g}") if noise else ("-", "-")
        return *ends, str(len(by_slot) - len(noise))

    def costs_of(each: Choice) -> tuple[str, ...]:
        within = "not always" if each.within is None else f"{each.within:,}"
        risks = each.mean_added, each.plan.view.value("most.ceiling")
        return within, *(shortened(risk, 3, UP) if each.plan.people else "-" for risk in risks)

    cli.say(f"Wanted: {wanted.in_words()}.")
    noises = ((sensor, *noise_of(by_slot)) for sensor, by_slot in sigmas.items())
    cli.print_table(noises, ("Sensor",), ("Least sigma", "Most", "Hours without a value"))
    costs = ((each.name, *costs_of(each)) for each in found)
    cli.print_table(costs, ("Noise",), ("Within", "Added", "Highest ceiling"))
    spent = (
        (each.name, *(epsilon_in_words(own.statement.epsilon) for own in each.plan.units)) for each in found
    )
    cli.print_table(spent, ("Epsilon of",), ("Whole log", "Day", "Steps", "Visit"))
    cli.say(
        f"Within: the widest interval at {100.0 * wanted.level:g} in 100, in people; not always: something "
        "is not published. Added: the mean added risk of the step at which it is highest. Epsilon is at "
        f"delta {found[0].plan.units[0].statement.delta:g}, of what each unit covers: "
        + "; ".join(f"{each['unit']}, {each['covers']}" for each in found[0].plan.units_as_json())
        + "."
    )


def _print_plan(planned: ReleasePlan) -> None:
    from stream_app.cli.ledger_command import print_units
    from stream_app.watching.wording import (
        DISTANCE,
        UP,
        forecast_in_words,
        in_a_hundred,
        sampled_in_words,
        shortened,
    )

    crowd = planned.crowd
    if crowd is None:
        compared, meaning = "Attack", "an attack tried on drawn people"
    elif planned.adversary == cli.CROWD:
        compared, meaning = "Informed", "the certified risk if everybody else's place is known"
    else:
        compared, meaning = "In crowd", "the certified risk if nobody knows where the others are"
    if planned.warning:
        cli.remark(f"warning: {planned.warning}")

    def row(index: int, step: PlannedStep) -> tuple[str, ...]:
        risks, why = planned.ceilings[index], step.decided.why
        attack = "-" if step.attack is None else shortened(step.attack.success, 3)
        figures = (
            shortened(step.risks.mean_baseline, 3),
            attack if crowd is None else shortened(planned.other_ceilings[index].mean_risk, 3, UP),
            shortened(risks.mean_risk, 3, UP),
            shortened(risks.risk_quantiles[1.0], 3, UP),
        )
        return (
            str(step.decided.schedule.step),
            *_counts(step.decided.schedule),
            "" if why is None else f"{forecast_in_words(why)} of {why.allowed}",
            *(figures if planned.people else ("-",) * len(figures)),
            "configured" if why is None else why.reason.value,
        )

    if planned.note is not None:
        cli.say(f"Note: {planned.note}.")
    counted = ("Step", "Raw", "Noised", "Silent", "Error", "Forecast")
    heads = *counted, "Guess", compared, "Ceiling", "Highest"
    cli.print_table(map(row, count(), planned.steps), (), heads, ("Because",), padding=0)
    sensors = (
        (
            *(each.sensor, f"{each.steps}", f"{each.released}", f"{each.raw}"),
            "" if each.mean_error is None else f"{each.mean_error:.2f}",
        )
        for each in planned.sensors()
    )
    cli.print_table(sensors, ("Sensor",), ("Steps", "Released", "Raw", "Mean error"))
    cli.say(
        "Error: mean expected absolute error of what is released, in people. Forecast: people over the limit "
        "of the risk budget after the decision, or later if nothing more is released, mostly by the fast "
        f"bound, and how many may be. Guess, {compared}, Ceiling: means over people after the step, "
        f"of the best guess without counts, of {meaning}, and of the certified risk; "
        f"Highest: the highest certified risk. {_attack_in_words(planned) if crowd is None else ''}".rstrip()
        + (f" {DISTANCE}" if crowd is None else "")
    )
    views = (planned.view, *planned.view.beside.values())
    cli.say(*(each.sentence for view in views for each in view.group("headline")))
    if (verdict := planned.verdict_as_json()) is not None:
        cli.say(f"May this be published? {verdict['sentence']} The rule: {verdict['rule']}.")
    looked_at = [step for step in planned.steps if step.sampled is not None and step.sampled.people]
    if looked_at and (sampled := looked_at[-1].sampled) is not None:
        cli.say(f"{sampled_in_words(sampled, f'after step {looked_at[-1].decided.schedule.step}')}.")
    print_units(planned.units_as_json())
    if crowd is not None:
        _print_crowd(crowd)
    if (found := planned.personas) is not None:
        shares = "; ".join(f"{level:g} or more: {in_a_hundred(part)}" for level, part in found.shares.items())
        cli.say(
            f"Of {found.people:,.0f} people, by weight, so many behave like a persona whose ceiling after "
            f"the last step reaches {shares}."
        )
    if planned.alternatives:
        _print_alternatives(planned)
        if crowd is not None:
            cli.say("Alternatives are against whoever knows where the others are.")
    if not planned.as_run:
        why_otherwise = (
            "Who is hidden in the crowd depends on pseudonyms, so the run may decide otherwise."
            if planned.adversary == cli.CROWD
            else "The run may decide otherwise if the slower, tighter bound needs more work in a step than "
            "sharpen_operations allows."
        )
        cli.say(
            f"Planned without the run's pseudonym_key. {why_otherwise} Name the key to plan what the run "
            "does."
        )


def _print_alternatives(planned: ReleasePlan) -> None:
    from stream_app.analysis.alternatives import EXPLAINED

    rows = [each.in_words() for each in planned.alternatives]
    heads = ("Guess", "Ceiling", "Highest", "Added", "Over", "Rule kept")
    cli.print_table(rows, ("If habits are",), heads, padding=0)
    cli.say(EXPLAINED, *(f"{each.name}: ceilings hold {each.rests_on}." for each in planned.alternatives))


def _print_crowd(crowd: PlannedCrowd) -> None:
    """Under which condition ceilings hold, and where raw counts hide people among the others."""
    from stream_app.watching.wording import DOWN, shortened

    def row(sensor: str) -> Iterator[str]:
        own = [each for each in crowd.hidden if each.sensor == sensor]
        yield sensor
        for each in (max(own, key=lambda each: each.sigma), min(own, key=lambda each: each.sigma)):
            yield shortened(each.sigma, 1, DOWN) if each.sigma > 0.0 else "hides nobody"
            yield str(each.slot)

    cli.say(f"In the crowd: {crowd.condition}.")
    rows = (tuple(row(sensor)) for sensor in dict.fromkeys(each.sensor for each in crowd.hidden))
    cli.print_table(rows, ("Sensor",), ("Hides most as sigma", "in slot", "Least", "in slot"))
    cli.say(
        "The crowd hides as much of a raw count as Gaussian noise of so many people would. Slots are those "
        "of the priors' cycle, hours of the day if it has 24."
    )


def _attack_in_words(planned: ReleasePlan) -> str:
    attacks = [step.attack for step in planned.steps if step.attack is not None]
    if not attacks:
        return "No attack was measured."
    from stream_app.watching.wording import UP, confidence_in_words, shortened

    widest = max(max(each.high - each.success, each.success - each.low) for each in attacks)
    return (
        f"Attack is within {shortened(widest, 3, UP)} at each step, with a confidence of "
        f"{confidence_in_words(attacks[0].confidence)}, and never above the ceiling."
    )


def _counts(step: StepSchedule) -> tuple[str, str, str, str]:
    """Sensors released raw, noised and not at all; mean expected error of those released."""
    from models.mechanisms import public_error

    released = [r.mechanism for r in step.releases if r.mechanism.is_released]
    raw = sum(mechanism.is_exact for mechanism in released)
    errors = [public_error(mechanism) for mechanism in released]
    mean = f"{sum(errors) / len(errors):.2f}" if errors else ""
    return str(raw), str(len(released) - raw), str(len(step.releases) - len(released)), mean
