"""What the ledgers say of one log, as one JSON document: each guarantee, or why there is none."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import QUANTILES, Ranked
from accounting.ledgers import (
    DpStatement,
    Neighbours,
    ReleaseLog,
    SecretQuestion,
    oracle_epsilons,
    prior_posterior_gap,
    read_differential_privacy,
    read_inferential,
    read_reconstruction,
)
from accounting.ledgers.bayesian import Declared, read_bayesian
from accounting.ledgers.units import Unit, UnitStatement, read_units
from accounting.settings import HorizonSettings
from models.calendar import Days
from models.exceptions import TallyguardError
from models.priors import Population, Question
from models.releases import SensorRegistry, in_single_steps, schedule_in_single_steps
from stream_app.analysis.accounted_again import read_decisions
from stream_app.analysis.checked_run import NO_RECORD, check_run
from stream_app.exceptions import OutputError, SettingsError, restoring
from stream_app.setup.declared import bounded_days, days_of
from stream_app.setup.exclusions import NO_EXCLUSIONS, Exclusions
from stream_app.setup.priors_verdict import PriorsVerdict
from stream_app.setup.run_folder.progress import log_lines
from stream_app.setup.run_folder.run_settings import (
    load_run,
    people_of_run,
    priors_in_words,
    sensors_of_run,
    settings_of_run,
    with_recorded_windows,
)
from stream_app.setup.schedule_files import load_schedule
from stream_app.setup.settings_sources import load_settings
from stream_app.watching.prior_notes import basis_note, ceiling_condition
from stream_app.watching.wording import unit_in_words, why_no_epsilon

# The release log of a finished or running run, or of a planned schedule, for the ledgers to read.


def load_log(path: Path, registry: SensorRegistry, exclusions: Exclusions = NO_EXCLUSIONS) -> ReleaseLog:
    """The log in an output folder (its decisions, which are what was accounted), or in a schedule file.

    Of a schedule ``exclusions`` are left out; a run has left out its own.

    :class:`OutputError` for a folder that is none of a run, or whose logs are not whole: without a step every
    guarantee would be too good. A run may go on while its log is read.
    """
    if not path.is_dir():
        return ReleaseLog(exclusions.without(load_schedule(path, registry)).steps)
    decisions = path / "decisions.jsonl"
    if not decisions.is_file():
        raise OutputError(
            f"{path} must be the output folder of a run", "no decisions.jsonl", "give a folder or a schedule"
        )
    if faults := [fault for fault in check_run(path).faults if fault != NO_RECORD]:
        raise OutputError(
            f"the logs in {path} must be whole, or every guarantee would be too good",
            "; ".join(faults),
            restoring("what is missing"),
        )
    published = sum(1 for _ in log_lines(path / "releases.jsonl"))
    return ReleaseLog.of(read_decisions(decisions, registry)[:published])


Document = dict[str, object]
UNIT_HOURS = (24.0, 1.0)
"""Hours of any consecutive steps, and of a visit, unless others are asked about."""

_NO_PURE_EPSILON = (
    "Exact counts and Gaussian noise have no pure epsilon, which this privacy adds up; tiers have one"
)
_SHOWN = "Counts of these steps were published exactly, or their noise leaves the secret open"


def ledger_document(
    log: ReleaseLog,
    population: Population,
    horizon: HorizonSettings,
    delta: float,
    *,
    independent_people: bool = False,
    secret: SecretQuestion | None = None,
    oracle: bool = False,
    priors_check: PriorsVerdict | None = None,
    sensors: SensorRegistry | None = None,
    run: Path | None = None,
    missing: TallyguardError | None = None,
    days: Days | None = None,
    hours: tuple[float, float] = UNIT_HOURS,
    progress: Callable[[int], None] = lambda done: None,
) -> Document:
    """Every guarantee of a log; a guarantee that was refused has ``refused`` and ``remedy`` instead.

    Without ``secret`` nothing is asked about a series; ``oracle`` asks dp_accounting, too. ``sensors`` say
    how counts over windows are brought to single steps; None where there are none. ``run`` is the folder that
    the log is of, which says what the people are where ``population`` has none, and ``missing`` why it has
    none. ``days`` are the dates of its steps: differential privacy then is by unit, too, for any so many
    consecutive ``hours`` and a visit of so many, and counts on bounds over the day.
    """
    note = basis_note(len(population), population.assumed, priors_check, population.draws)
    remedy = "give --priors, fitted or assumed"
    if run is not None and not len(population) and (recorded := load_run(run)).get("people"):
        draws = (recorded.get("drawn") or {}).get("draws", 1)
        note = basis_note(recorded["people"], recorded.get("assumed_habits"), priors_check, draws)
        remedy = f"give --priors, those of the run: {priors_in_words(run, recorded)}"
    refused = missing or SettingsError("risk must be of people", "no priors", remedy)
    document: Document = {
        "steps": len(log.steps),
        "releases": dict(sorted(log.releases_by_mechanism().items())),
        "differential_privacy": [_differential(log, delta, kind, days) for kind in Neighbours],
        "differential_privacy_by_group": {
            group: _differential(log.of_group(group), delta, Neighbours.ADD_REMOVE, days)
            for group in log.groups()
        },
        **({} if days is None else {"differential_privacy_by_unit": _by_unit(log, delta, days, hours)}),
        "note": note,
        "bayesian": _answer(lambda: _bayesian(log, delta, independent_people)),
        "reconstruction": _answer(
            lambda: {
                "condition": ceiling_condition(priors_check, population.draws),
                **_reconstruction(log, population, horizon, sensors, progress, refused),
            }
        ),
    }
    if secret is not None:
        document["inferential"] = _answer(lambda: _inferential(log, secret, delta))
    if oracle:
        document["oracle"] = _answer(lambda: _oracle(log, delta))
    return document


def dp_document(statement: DpStatement) -> Document:
    """A statement of differential privacy; null where a number would be infinite or does not apply."""
    rho, is_finite = statement.rho, math.isfinite(statement.epsilon)
    return {
        "neighbours": statement.neighbours.value,
        "delta": statement.delta,
        "epsilon": finite(statement.epsilon),
        "no_guarantee": None if is_finite else why_no_epsilon(statement, statement.delta),
        "certified_by": statement.certified_by if is_finite else None,
        "rho": finite(float(rho)),
        "rho_exact": None if rho.is_infinite else f"{rho.amount.numerator}/{rho.amount.denominator}",
        "zcdp_epsilon": finite(statement.zcdp_epsilon),
        "pure_epsilon": finite(float(statement.pure_epsilon)),
        "exact_epsilon": finite(statement.exact_epsilon),
        "paper_epsilon": finite(statement.paper_epsilon),
        "truncated_mass": statement.truncated_mass,
    }


def finite(value: float | None) -> float | None:
    """The number, or None for infinity, which JSON does not have."""
    return value if value is not None and math.isfinite(value) else None


def _answer(read: Callable[[], Document]) -> Document:
    try:
        return read()
    except TallyguardError as error:
        return {"refused": f"{error.must}, got {error.got}", "remedy": error.remedy}


def _differential(log: ReleaseLog, delta: float, neighbours: Neighbours, days: Days | None) -> Document:
    return {
        "unit": Unit.LOG.value,
        **_answer(lambda: dp_document(read_differential_privacy(log, delta, neighbours, days))),
    }


def unit_widths(step_seconds: int, hours: tuple[float, float]) -> tuple[int, int]:
    """How many steps so many hours can meet: one more than they have, as they need not begin with a step."""
    any_hours, visit = (ceil(each * 3600 / step_seconds) + 1 for each in hours)
    return any_hours, visit


def units_of_run(folder: Path) -> list[dict[str, Any]]:
    """Differential privacy by unit of what a run has released so far; it needs no priors."""
    settings = settings_of_run(folder, load_settings(None))
    names = people_of_run(folder, settings, None).location_names
    registry = with_recorded_windows(folder, sensors_of_run(folder, settings, names))
    days = bounded_days(settings, registry) or days_of(settings)
    return _by_unit(load_log(folder, registry), settings.delta, days, UNIT_HOURS)


def _by_unit(log: ReleaseLog, delta: float, days: Days, hours: tuple[float, float]) -> list[dict[str, Any]]:
    found = read_units(log, delta, days, *unit_widths(days.step_seconds, hours))
    return units_as_json(found, hours, is_bounded=log.is_bounded)


def units_as_json(
    found: Sequence[UnitStatement], hours: tuple[float, float] = UNIT_HOURS, *, is_bounded: bool
) -> list[dict[str, Any]]:
    """What each unit is, what it covers, and its guarantee."""
    covers = [unit_in_words(each, hours, is_bounded) for each in found]
    return [
        {"unit": each.unit.value, "covers": said, **dp_document(each.statement)}
        for each, said in zip(found, covers, strict=True)
    ]


def _bayesian(log: ReleaseLog, delta: float, independent_people: bool) -> Document:
    if not independent_people:
        return {
            "refused": "what single releases reveal adds up only if people move independently of each other; "
            "of those who move together two releases of epsilon 1.565 and 1.476 can give away 3.203",
            "remedy": "vouch for it with --independent-people, or go by epsilon and the ceilings; a joint "
            "account of people who move together is not made here",
        }
    statement = read_bayesian(log, Declared(independent_tuples=independent_people), delta)
    return {
        "epsilon": finite(statement.epsilon),
        "no_guarantee": None if math.isfinite(statement.epsilon) else _NO_PURE_EPSILON,
        "delta": statement.delta,
        "truncated_mass": statement.truncated_mass,
        "releasing_steps": statement.releasing_steps,
    }


def _reconstruction(
    log: ReleaseLog,
    population: Population,
    horizon: HorizonSettings,
    sensors: SensorRegistry | None,
    progress: Callable[[int], None],
    refused: TallyguardError,
) -> Document:
    if not len(population):
        raise refused
    if sensors is not None:
        is_schedule = not sensors.in_windows and all(step.windows is None for step in log.steps)
        if sensors.windowed and is_schedule:
            log = ReleaseLog.of(schedule_in_single_steps(log.steps))
        else:
            log = ReleaseLog.of(in_single_steps(step, sensors) for step in log.steps)
    statement = read_reconstruction(log, population, horizon, progress)
    risks = Ranked(statement.risk, statement.people_each)
    return {
        "question": (horizon.question or Question()).asks(horizon.horizon, horizon.mistakes),
        "horizon": horizon.horizon,
        "mistakes": horizon.mistakes,
        "people": int(statement.people_each.sum()),
        "risk": _quantiles(statement.risk, statement.people_each),
        "added": _quantiles(statement.added, statement.people_each),
        "baseline": _quantiles(statement.baseline, statement.people_each),
        "highest_ever": _quantiles(statement.highest, statement.people_each),
        "at_risk": {f"{level:g}": count for level, count in risks.reached(horizon.thresholds).items()},
    }


def _inferential(log: ReleaseLog, secret: SecretQuestion, delta: float) -> Document:
    statement = read_inferential(log, secret)
    gap = prior_posterior_gap(statement.loss_nats, secret.order, delta)
    return {
        "sensor": secret.sensor,
        "secret_steps": list(secret.secret_steps),
        "order": secret.order,
        "radius": secret.radius,
        "epsilon": finite(statement.loss_nats),
        "no_guarantee": None if math.isfinite(statement.loss_nats) else _SHOWN,
        "delta": delta,
        "belief_change": finite(gap),
        "released_steps": statement.released_steps,
    }


def _oracle(log: ReleaseLog, delta: float) -> Document:
    found = oracle_epsilons(log, delta)
    if found is None:
        return {"refused": "dp_accounting is not installed", "remedy": "pip install dp-accounting"}
    return {"rdp_epsilon": finite(found.rdp), "pld_epsilon": finite(found.pld)}


def _quantiles(values: NDArray[np.float64], people: NDArray[np.int64]) -> Mapping[str, float]:
    """Order statistics over so many people each; every figure is some person's."""
    return {f"{level:g}": value for level, value in Ranked(values, people).quantiles(QUANTILES).items()}
