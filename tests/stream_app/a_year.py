"""A deployment that grows old: a year in which everything changes that may, and the truth about it.

Steps are half days from 1 July 2023 on, priors have a slot for each half day of a week. The truth is computed
by :mod:`tests.accounting.enumeration` along chains that are written down here once more: the clock by
:mod:`zoneinfo` alone, and each person's moves as they were true.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from models.keys import Pseudonymiser
from models.priors import NOT_SAID, MovementPrior, Population
from stream_app.embedded import RunOptions, run
from stream_app.setup.run_folder.durable import load_sealed, seal
from stream_app.setup.run_folder.key_record import advance_noise_key
from stream_app.setup.run_folder.people_record import NewPriors
from stream_app.setup.settings import Settings
from tests.accounting.enumeration import Paths, window_optima
from tests.hex_keys import hex_key
from tests.stream_app.engine_support import (
    PSEUDONYM_SECRET,
    TickingClock,
    activation,
    json_lines,
    lines_of,
    reading,
    settings,
)

ZONE, HALF_DAY = ZoneInfo("Europe/Vienna"), 43_200
ORIGIN = datetime(2023, 7, 1, tzinfo=ZONE)
HOLIDAYS = [date(2023, 8, 15), date(2023, 12, 25), date(2024, 5, 1)]
PLANNED = [*HOLIDAYS[:2], date(2024, 2, 14)]  # at first: what is no holiday after all is taken out in time
CHANGED_CLOCKS = [date(2023, 10, 29), date(2024, 3, 31)]
STEPS, WEEK = 730, 14
HORIZON, MISTAKES, HISTORY = 3, 1, 3
PLACES = ("home", "work", "street")
WIDER = (*PLACES, "bridge")
SENSORS = {"s1": "home", "s2": "work", "s3": "street", "s4": "bridge"}

Floats = NDArray[np.float64]


# The clock, from the time zone alone.


@cache
def hour(step: int) -> int:
    """The half day that the clock shows as a step begins, counted from the first on; it never falls."""
    if step == 0:
        return 0
    instant = ORIGIN.astimezone(UTC) + timedelta(seconds=step * HALF_DAY)
    shown = instant.astimezone(ZONE).replace(tzinfo=None) - ORIGIN.replace(tzinfo=None)
    return max(hour(step - 1), int(shown / timedelta(seconds=HALF_DAY)))


def slot(half_day: int) -> int:
    """Where the half day is in the week that begins with the first day; a holiday's is the Sunday's."""
    day = ORIGIN.date() + timedelta(days=half_day // 2)
    if day in HOLIDAYS:
        half_day += 2 * (6 - day.weekday())
    return half_day % WEEK


def moved(law: Floats, chain: Floats, step: int) -> Floats:
    """The law after the moves of a step: none where a half day comes twice, two where one is skipped."""
    for passed in range(hour(step), hour(step + 1)):
        law = law @ chain[slot(passed)]
    return law


# People as they were: a chain (14, K, K) from each step on, and where they were at the first.


@dataclass(frozen=True)
class Life:
    """``chains`` are true from their step on; the prior of the first says where the person was at step 0."""

    chains: tuple[tuple[int, Floats], ...]

    def chain(self, step: int) -> Floats:
        return next(chain for first, chain in reversed(self.chains) if first <= step)

    @cache  # noqa: B019
    def law(self, step: int) -> Floats:
        if step == 0:
            return settled(self.chains[0][1])[slot(0)]
        return moved(self.law(step - 1), self.chain(step - 1), step - 1)

    def __hash__(self) -> int:
        return id(self)


@cache
def drawn(seed: int) -> Floats:
    """A week's moves with zeros: nobody goes from work to work at night."""
    chain = np.random.default_rng(seed).dirichlet(np.full(3, 0.5), size=(WEEK, 3))
    chain[1::2, 1] = [0.7, 0.0, 0.3]
    return np.asarray(chain)


def settled(chain: Floats) -> Floats:
    """The law of each slot that a week of moves keeps, (14, K)."""
    week = np.linalg.multi_dot(list(chain))
    values, vectors = np.linalg.eig(week.T)
    law = np.real(vectors[:, np.argmax(values.real)])
    laws = [law / law.sum()]
    for move in chain[:-1]:
        laws.append(laws[-1] @ move)
    return np.array(laws)


def people(chains: Mapping[str, int], places: Sequence[str] = PLACES, **since: int) -> Population:
    """Priors by the seeds of their chains; nobody goes to places that came later."""
    packed = Population.pack([MovementPrior.from_dense(n, drawn(seed)) for n, seed in chains.items()], PLACES)
    if places != PLACES:
        priors = [packed.prior(number) for number in range(len(packed))]
        packed = Population.pack(priors, places)
    if since:
        steps = np.array([since.get(name, NOT_SAID) for name in chains], dtype=np.int64)
        packed = replace(packed, effective_from=steps)
    return packed


# The year, by the first steps of its parts.

RAW = {"mechanism": "raw"}
NOISED = {"mechanism": "raw", "sensors": {"s1": {"mechanism": "gaussian", "sigma": 1.0}}}
FIRST = {"ann": 1, "bob": 2, "cem": 3, "dan": 4}
CAME = {"ann": 1, "bob": 2, "cem": 3, "eve": 5}
SURVEY = CAME | {"bob": 12}
MOVED = SURVEY | {"cem": 13}
LIVES = {
    "ann": Life(((0, drawn(1)),)),
    "bob": Life(((0, drawn(2)),)),
    "bob by the survey": Life(((0, drawn(12)),)),
    "cem": Life(((0, drawn(3)), (400, drawn(13)))),
    "dan": Life(((0, drawn(4)),)),
    "eve": Life(((0, drawn(5)),)),
}


@dataclass(frozen=True)
class Part:
    """A part of the year: what is there from its first step on, and how that was said."""

    first: int
    sensors: tuple[str, ...]
    who: Population
    release: dict[str, Any]
    more: dict[str, Any]
    said: dict[str, Any]


def reason(text: str, **more: Any) -> dict[str, Any]:
    return {"accept_changes": True, "by": "ada", "reason": text, **more}


def year() -> list[Part]:
    began, later = ("s1", "s2"), ("s1", "s3")
    coming = people(CAME, eve=100)
    survey, moving = people(SURVEY), people(MOVED, WIDER)
    wide = (*later, "s4")
    redone, told = ({"new_priors": rule} for rule in NewPriors)
    return [
        Part(0, began, people(FIRST), RAW, {}, {}),
        Part(120, began, coming, RAW, {}, reason("dan moved away, eve came")),
        Part(200, later, coming, RAW, {}, reason("the counter at work broke, one in the street")),
        Part(250, later, coming, NOISED, {}, reason("a promise to the neighbours")),
        Part(280, later, coming, NOISED, {"holidays": HOLIDAYS}, {}),
        Part(300, later, survey, NOISED, {}, reason("the survey of bob was wrong", **redone)),
        Part(330, later, survey, NOISED, {"key": True}, {}),
        Part(360, later, survey, NOISED, {"version": "99.0"}, {}),
        Part(400, wide, moving, NOISED, {}, reason("cem changed jobs; a bridge", **told)),
        Part(560, (*wide, "s2"), moving, RAW, {}, reason("the counter at work is back, no noise any more")),
    ]


PARTS = year()


def holidays_of(part: Part) -> list[date]:
    """What the settings say of holidays in a part of the year: of each day in time what it will be."""
    known = [each.more["holidays"] for each in PARTS if each.first <= part.first and "holidays" in each.more]
    return known[-1] if known else PLANNED


def part_of(step: int) -> Part:
    return next(each for each in reversed(PARTS) if each.first <= step)


def counted(step: int) -> list[str]:
    """The sensors that count in a step: some are silent now and then, as others know."""
    return [name for number, name in enumerate(part_of(step).sensors) if (step + 3 * number) % 4]


def input_until(step: int) -> bytes:
    messages: list[Any] = []
    for each in range(step):
        messages.append(activation(each, *counted(each)))
        messages += [reading(each, name, (7 * each + len(name)) % 40) for name in counted(each)]
    return lines_of(messages)


def sensors_document(part: Part) -> str:
    """The sensors file of a part."""
    rows = [{"name": name, "locations": [SENSORS[name]]} for name in part.sensors]
    return json.dumps({"sensors": rows})


def of_part(part: Part, folder: Path) -> Settings:
    """The settings of a part of the year, with its sensors file."""
    (folder / "sensors.json").write_text(sensors_document(part))
    return settings(
        step_seconds=HALF_DAY,
        origin=ORIGIN,
        timezone="Europe/Vienna",
        holidays=holidays_of(part),
        horizon=HORIZON,
        mistakes=MISTAKES,
        risk_every=1,
        attack_draws=0,
        grace=0,
        sensors=folder / "sensors.json",
        release=part.release,
        noise_key=folder / "noise.key",
        noise_key_secret=None,
        pseudonym_key_secret=PSEUDONYM_SECRET,
    )


def run_part(number: int, folder: Path) -> None:
    """The embedded run of one part of the year, whose output is in ``out``."""
    part, until = PARTS[number], [*(each.first for each in PARTS[1:]), STEPS][number]
    given = of_part(part, folder)
    if part.more.get("key"):
        advance_noise_key(given, folder / "out")
    options = RunOptions(folder / "out", **part.said)
    run(given, options, part.who, clock=TickingClock(), chunks=[input_until(until)])


def as_first_version(out: Path) -> None:
    """Make a folder one of the first version: no record, no copy of the priors, no list of sensors."""
    commit = load_sealed(out / "progress.json")
    old = {key: value for key, value in commit.items() if key not in {"record", "digests"}}
    (out / "progress.json").write_bytes(seal(old))
    document = json.loads((out / "run.json").read_text())
    del document["network"]
    (out / "run.json").write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    for name in ("record.jsonl", "accountant.snapshot"):
        (out / name).unlink(missing_ok=True)
    for kept in out.glob("priors-*.parquet"):
        kept.unlink()


def make_key(folder: Path) -> None:
    """The noise key of the year's first part."""
    (folder / "noise.key").write_text(hex_key("ab"))
    (folder / "noise.key").chmod(0o600)


def written(folder: Path) -> dict[int, dict[str, float]]:
    """Each person's ceiling by step, as it was written at the time."""
    found: dict[int, dict[str, float]] = {}
    ids = [*FIRST, "eve"]
    names = dict(zip(Pseudonymiser.parse(PSEUDONYM_SECRET).pseudonyms(ids), ids, strict=True))
    for line in json_lines(folder / "risks.jsonl"):
        if line["type"] == "risk":
            found.setdefault(line["step"], {})[names[line["person"]]] = line["risk"]  # type: ignore[call-overload,index]
    return found


def shown(step: int) -> Floats:
    """What a step shows about a person, (K, outcomes): of raw counts all, of noise whether it is above 0."""
    channel = np.ones((3, 1))
    noise = np.exp(-(np.arange(-12.0, 13.0) ** 2) / 2.0)
    above = [noise[13 - count :].sum() / noise.sum() for count in (0, 1)]
    for name in counted(step):
        if SENSORS[name] not in PLACES:
            continue  # nobody goes there
        is_here = np.array([place == SENSORS[name] for place in PLACES], dtype=int)
        is_noised = "gaussian" in str(part_of(step).release.get("sensors", {}).get(name))
        high = np.array(above)[is_here] if is_noised else is_here.astype(float)
        channel = (channel[:, :, None] * np.stack([high, 1.0 - high], axis=1)[:, None, :]).reshape(3, -1)
    return channel


def paths_of(life: Life, first: int, steps: int) -> Paths:
    """All paths of some steps, from the law at the first."""
    traces = np.indices((3,) * steps).reshape(steps, -1).T
    probability = life.law(first)[traces[:, 0]]
    for t in range(steps - 1):
        move = moved(np.eye(3), life.chain(first + t), first + t)
        probability = probability * move[traces[:, t], traces[:, t + 1]]
    return Paths(3, traces, probability)


def optima(folder: Path) -> Iterator[tuple[int, str, float, float]]:
    """Step, person, ceiling and the success of whoever knows the priors and the last releases."""
    days = [*CHANGED_CLOCKS, *HOLIDAYS]
    changes = [part.first for part in PARTS] + [2 * (day - ORIGIN.date()).days for day in days]
    for step, risks in written(folder).items():
        if step < HORIZON - 1 or (step % 7 and min(abs(step - each) for each in changes) > 3):
            continue
        begin = max(0, step - HORIZON - HISTORY + 1)
        channels = [shown(each) for each in range(begin, step + 1)]
        window = step - HORIZON + 1 - begin, step - begin
        for person, ceiling in risks.items():
            name = "bob by the survey" if person == "bob" and step >= 300 else person
            paths = paths_of(LIVES[name], begin, len(channels))
            yield step, person, ceiling, window_optima(paths, channels, window, [MISTAKES])[0]
