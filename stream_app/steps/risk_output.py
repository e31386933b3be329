"""Risks as messages: one packed summary a step, and records of people by pseudonym as JSONL or Parquet."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import nsmallest
from io import BytesIO
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from accounting.bounds.radius import ceiling_within
from models.private_files import PRIVATE_FOLDER
from stream_app.setup.run_folder.durable import SECRET_MODE, make_folder, replace_file
from stream_app.setup.this_process import own_version
from stream_app.wire import (
    Attack,
    AttackedPart,
    CrowdSummary,
    OverLimitCounts,
    RiskSummary,
    SampledRisks,
    WorstMoment,
)

if TYPE_CHECKING:
    from accounting.continuous import ContinuousAccountant
    from accounting.continuous import RiskSummary as AccountantSummary
    from accounting.continuous.shadow import AttackedPart as Attacked
    from accounting.continuous.shadow import MeanAttack
    from accounting.exposure.crowd import CrowdAdversary


def snapshot_basis(basis: Mapping[str, Any]) -> str:
    """The digest of all that a snapshot of accounts follows from but the decisions, this version included."""
    return hashlib.sha256(json.dumps([dict(basis), own_version()], sort_keys=True).encode()).hexdigest()


Value = TypeVar("Value", int, float)
_BLOCK_PEOPLE = 4096  # lines made at once: all lines of a step would take half a kilobyte a person


class RiskRecords(NamedTuple):
    """Risks of the people to be reported at a step, all of shape (n,); ``person`` indexes the population.

    ``crowd`` are those against the crowd adversary, where they are computed.
    """

    person: NDArray[np.int64]
    risk: NDArray[np.float64]
    baseline: NDArray[np.float64]
    added: NDArray[np.float64]
    by: tuple[str, ...]
    crowd: NDArray[np.float64] | None = None
    crowd_by: tuple[str, ...] = ()


class RiskWriter(Protocol):
    """Writes the records of single people at one step."""

    def blocks(self, step: int, records: RiskRecords) -> Iterator[bytes]:
        """What goes into ``risks.jsonl``, piece by piece; a writer of other files gives nothing."""

    def discard_from(self, step: int) -> None:
        """Remove what an interrupted run wrote for this step and later ones."""


def summary_message(
    summary: AccountantSummary,
    partition: int = 0,
    assumed: str | None = None,
    attack: MeanAttack | None = None,
    crowd: CrowdSummary | None = None,
    over_limit: OverLimitCounts | None = None,
    sampled: SampledRisks | None = None,
    questions: Mapping[str, RiskSummary] | None = None,
) -> RiskSummary:
    """The packed summary of a step as a message; levels become texts, as JSON keys are.

    ``assumed`` says what habits are based on where none were measured; ``attack`` is None if none was tried,
    ``crowd`` if risks in the crowd are not computed, ``over_limit`` if no rule is set, ``sampled`` if
    nobody is looked at by sampling. ``questions`` are the summaries of further questions, by name.
    """
    return RiskSummary(
        step=summary.step,
        partition=partition,
        people=summary.people,
        **_risks(summary),
        baseline=_by_text(summary.baseline_quantiles),
        mean_baseline=summary.mean_baseline,
        at_baseline=_by_text(summary.at_baseline),
        assumed=assumed,
        attack=None if attack is None else _attack(attack),
        within_nats=summary.within_nats,
        draws=summary.draws,
        chains=summary.chains,
        crowd=crowd,
        over_limit=over_limit,
        sampled=sampled,
        questions=questions or None,
    )


def crowd_message(summary: AccountantSummary, adversary: CrowdAdversary) -> CrowdSummary:
    """The summary of a step against a crowd adversary, as a part of the message."""
    return CrowdSummary(**condition_of(adversary), **_risks(summary))


def condition_of(adversary: CrowdAdversary) -> dict[str, Any]:
    """What a summary says of the crowd that its figures hold for; None for what is not assumed."""
    return {
        **{name: getattr(adversary, name) for name in ("known", "companions", "alone")},
        "least": adversary.least if adversary.least < 1.0 else None,
        "counted_once": adversary.counted_once or None,
        "strangers": sum(each.people for each in adversary.strangers) or None,
    }


def _risks(summary: AccountantSummary) -> dict[str, Any]:
    """The fields that a summary has against every adversary."""
    return {
        "at_risk": _by_text(summary.at_risk),
        "at_added_risk": _by_text(summary.at_added_risk),
        "risk": _by_text(summary.risk_quantiles),
        "added": _by_text(summary.added_quantiles),
        "mean_risk": summary.mean_risk,
        "mean_added": summary.mean_added,
        "most_risk": summary.most_risk,
        "most_added": summary.most_added,
        "not_reached": summary.not_reached,
    }


def _attack(attack: MeanAttack) -> Attack:
    success = {name: getattr(attack, name) for name in ("success", "low", "high", "confidence")}
    return Attack(**success, parts=_attacked(attack.parts))


@lru_cache(256)  # the attack on steps that are repeated is the same for a while
def _attacked(parts: tuple[Attacked, ...]) -> tuple[AttackedPart, ...]:
    return tuple(AttackedPart(**part._asdict()) for part in parts)


def with_worst(
    summary: RiskSummary, accountant: ContinuousAccountant, names: Sequence[str], count: int
) -> RiskSummary:
    """The summary that names the ``count`` people with the highest added risk so far; for the owner only.

    Ties are ordered by pseudonym, so that the order does not depend on how people are stored.
    """
    if not count:
        return summary
    found, worst = accountant.most_exposed(count)
    people, added = [names[person] for person in found.tolist()], worst.added.tolist()
    ranked = nsmallest(count, range(len(people)), key=lambda k: (-added[k], people[k]))
    step, risk, baseline = worst.step.tolist(), worst.risk.tolist(), worst.baseline.tolist()
    moments = [
        {
            "person": people[k],
            "step": step[k],
            "risk": ceiling_within(summary.within_nats, risk[k]),
            "baseline": baseline[k],
            "added": added[k],
        }
        for k in ranked
    ]
    return summary.model_copy(update={"worst": _MOMENTS.validate_python(tuple(moments))})


_MOMENTS = TypeAdapter(tuple[WorstMoment, ...])


def together(parts: Sequence[RiskSummary]) -> RiskSummary:
    """One summary of the people of several partitions at a step.

    Numbers of people, means and maxima are those of all of them. A quantile is the highest of those of the
    partitions, and never below theirs together: a share q of each is at or below its own. The attack is left
    out, as its interval is not one of all. Of one partition the summary stays as it is.
    """
    first, *others = parts
    if not others:
        return first.model_copy(update={"partition": 0})
    people = sum(each.people for each in parts)
    worst = sorted((each for part in parts for each in part.worst), key=lambda one: (-one.added, one.person))
    questions = {name: [(each.questions or {})[name] for each in parts] for name in first.questions or {}}
    crowds, limits = ([getattr(each, name) for each in parts] for name in ("crowd", "over_limit"))
    shared: dict[str, Any] = {
        "partition": 0,
        "people": people,
        **_figures(parts, [each.people for each in parts]),
        "worst": tuple(worst[: max(len(each.worst) for each in parts)]),
        "assumed": min((each.assumed for each in parts if each.assumed is not None), default=None),
        "attack": None,
        "crowd": None,
        "over_limit": None,
        "sampled": sampled_together([each.sampled for each in parts]),
        "questions": {name: together(own) for name, own in questions.items()} or None,
    }
    if None not in crowds:
        figures = _figures(crowds, [each.people for each in parts])
        shared["crowd"] = crowds[0].model_copy(update=figures)
    if None not in limits:
        counted = ("by_releases", "by_habits", "ever")
        sums = {name: sum(getattr(each, name) for each in limits) for name in counted}
        shared["over_limit"] = limits[0].model_copy(update=sums)
    return first.model_copy(update=shared)


def sampled_together(parts: Sequence[SampledRisks | None]) -> SampledRisks | None:
    """What is found by sampling of all people; None where some part has nothing.

    Together the parts hold with the same confidence: each of them has a share only of what may fail.
    """
    found = [each for each in parts if each is not None]
    if not found or len(found) < len(parts):
        return None
    within = [each.within_limit for each in found if each.within_limit is not None]
    return SampledRisks(
        confidence=found[0].confidence,
        people=sum(each.people for each in found),
        most_added=max(each.most_added for each in found),
        within_limit=sum(within) if within else None,
    )


_COUNTS = ("at_risk", "at_added_risk", "at_baseline")
_QUANTILES = ("risk", "added", "baseline")
_MEANS = ("mean_risk", "mean_added", "mean_baseline")
_MOSTS = ("most_risk", "most_added")


def _figures(parts: Sequence[Any], people: Sequence[int]) -> dict[str, Any]:
    """The figures of so many people in each part, of all of them."""
    everybody, has = max(1, sum(people)), type(parts[0]).model_fields.keys()
    some = [part for part, count in zip(parts, people, strict=True) if count] or parts[:1]
    found: dict[str, Any] = {"not_reached": sum(part.not_reached for part in parts)}
    for name in has & {*_COUNTS}:
        tables = [getattr(part, name) for part in parts]
        found[name] = {level: sum(table[level] for table in tables) for level in tables[0]}
    for name in has & {*_QUANTILES}:
        tables = [getattr(part, name) for part in some]
        found[name] = {level: max(table[level] for table in tables) for level in tables[0]}
    for name in has & {*_MEANS}:
        total = fsum(getattr(part, name) * count for part, count in zip(parts, people, strict=True))
        found[name] = total / everybody
    for name in _MOSTS:
        known = [getattr(part, name) for part in some]
        found[name] = None if None in known else max(known)
    return found


class JsonlRisks:
    """Records as ``risk`` messages, written without a model each: there may be 100 000 a step."""

    def __init__(self, pseudonyms: Sequence[str]) -> None:
        self._people = pseudonyms  # hexadecimal: nothing in them to escape

    def blocks(self, step: int, records: RiskRecords) -> Iterator[bytes]:
        """One line a person; floats in the shortest form that reads back exactly."""
        start = f'{{"v":1,"type":"risk","step":{step},"person":'
        columns = (records.person, records.risk, records.baseline, records.added)
        for first in range(0, records.person.size, _BLOCK_PEOPLE):
            block = slice(first, first + _BLOCK_PEOPLE)
            ends = _in_crowd(records, block)
            rows = zip(*(column[block].tolist() for column in columns), records.by[block], ends, strict=True)
            yield "".join(
                f'{start}"{self._people[i]}","risk":{risk!r},"baseline":{baseline!r},"added":{added!r},'
                f'"by":"{by}"{end}}}\n'
                for i, risk, baseline, added, by, end in rows
            ).encode()

    def discard_from(self, step: int) -> None:
        """Nothing: the journal cuts its own file."""


class ParquetRisks:
    """Records as one Parquet file a step: ``risks/step-000000000100.parquet``."""

    def __init__(self, folder: Path, pseudonyms: Sequence[str]) -> None:
        import pyarrow as pa

        self._folder = folder / "risks"
        make_folder(self._folder, PRIVATE_FOLDER)
        self._people = pa.array(pseudonyms, type=pa.string())

    def blocks(self, step: int, records: RiskRecords) -> Iterator[bytes]:
        """Write the step's file as a whole; nothing for ``risks.jsonl``."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if records.person.size == 0:
            return iter(())
        columns: dict[str, Any] = {
            "step": np.full(records.person.size, step),
            "person": self._people.take(records.person),
            "risk": records.risk,
            "baseline": records.baseline,
            "added": records.added,
            "by": pa.array(records.by, type=pa.string()).dictionary_encode(),
        }
        if records.crowd is not None:
            columns["crowd"] = records.crowd
            columns["crowd_by"] = pa.array(records.crowd_by, type=pa.string()).dictionary_encode()
        buffer = BytesIO()
        pq.write_table(pa.table(columns), buffer, compression="zstd")
        replace_file(self._folder / f"step-{step:012d}.parquet", buffer.getvalue(), SECRET_MODE)
        return iter(())

    def discard_from(self, step: int) -> None:
        """Remove the files of this step and later ones, and drafts."""
        for path in self._folder.glob("step-*"):
            if path.suffix == ".new" or int(path.stem.removeprefix("step-")) >= step:
                path.unlink()


def _in_crowd(records: RiskRecords, block: slice) -> list[str]:
    """The fields of each line about risks in the crowd; empty where they are not computed."""
    if records.crowd is None:
        return [""] * records.person[block].size
    rows = zip(records.crowd[block].tolist(), records.crowd_by[block], strict=True)
    return [f',"crowd":{risk!r},"crowd_by":"{by}"' for risk, by in rows]


def _by_text(levels: Mapping[float, Value]) -> dict[str, Value]:
    return {repr(level): value for level, value in levels.items()}


# A replay beside what was written.

_MOST_EXAMPLES = 5


@dataclass
class Comparison:
    """The replay beside what was written; ``examples`` are the first lines that differ.

    ``versions`` are those of the program that accounted some of the steps, where they are not this one. The
    ``passed_over`` steps cannot be computed again, as what they were accounted with is not known.
    """

    steps: int = 0
    people: int = 0
    compared: int = 0
    missing: int = 0
    different: int = 0
    examples: list[str] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    passed_over: int = 0

    @property
    def is_same(self) -> bool:
        """Whether the replay gives exactly what was written."""
        return self.missing == 0 and self.different == 0

    def hold(self, line: bytes, written: bytes | None) -> None:
        """Compare a line with what was written about the same step and person; None where nothing was."""
        self.compared += 1
        if written is None:
            self.missing += 1
        elif written != line:
            self.different += 1
        else:
            return
        self.note(line)

    def lack(self, line: bytes) -> None:
        """A line was written that the replay does not have."""
        self.missing += 1
        self.note(line)

    def note(self, line: bytes) -> None:
        """Keep one of the first examples."""
        if len(self.examples) < _MOST_EXAMPLES:
            self.examples.append(line.decode())

    @staticmethod
    def subject(line: bytes) -> bytes:
        """What a line is about: the part of it before the first figure."""
        kind = line.find(b'"type":"risk_summary"')
        end = line.find(b',"partition"') if kind >= 0 else line.find(b',"risk":')
        return line[:end]
