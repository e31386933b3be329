"""What came out of it all, held against the embedded engine on the same messages."""

from __future__ import annotations

import json
from dataclasses import dataclass

from models.keys import NoiseKey
from tests.kafka.test_keys import with_key
from tests.rehearsal.cluster.erasure import Erased
from tests.rehearsal.cluster.stage import Stage
from tests.rehearsal.saying import RehearsalError


@dataclass(frozen=True)
class Comparison:
    """How much was compared; there is none if a single byte differs."""

    steps: int
    risks: int
    erased_risks: int


def compare(
    stage: Stage, upgraded: int, first_with_next_key: int | None, erased: Erased | None
) -> Comparison:
    """Releases of both epochs of the key, risks but those of the person who was erased, later on.

    Steps before ``upgraded`` may have a summary, and records of people, of either version: they are accounted
    again where a snapshot is refused, and a version may have tighter ceilings than the one before. So records
    of people are compared from there on.
    """
    deployment, steps = stage.site.deployment, stage.load.sent
    lines = [line for step in stage.load.sent_steps for line in step]
    first, risks = deployment.embedded(lines)
    expected = first
    if first_with_next_key is not None:
        later = with_key(deployment, NoiseKey.load(stage.site.key_file("NOISE")))
        expected = [*first[:first_with_next_key], *later[first_with_next_key:]]
    released = deployment.releases()
    _require(f"{steps} releases, each once and in order", len(released), steps)
    _require("every release is that of the embedded engine", released == expected, True)
    _require("the public saw each once", [each.line for each in stage.public.seen] == expected, True)
    written = deployment.person_risks()
    others = [line for line in set(written) - set(risks) if _of(line)[0] >= upgraded]
    _require("no other risks than the embedded engine's since the upgrade", others, [])
    missing = sorted(line for line in set(risks) - set(written) if _of(line)[0] >= upgraded)
    _check_missing(missing, erased)
    summaries = deployment.summaries()
    _require("one summary a step and partition", len(summaries), steps * deployment.topics.partitions)
    opinions = [len(each) for (step, _), each in summaries.items() if step >= upgraded]
    _require("all of one opinion since the upgrade", max(opinions), 1)
    _require("no more opinions than versions", max(map(len, summaries.values())) <= 2, True)
    return Comparison(steps, len(written), len(missing))


def _check_missing(missing: list[bytes], erased: Erased | None) -> None:
    """Risks that only the embedded engine writes: those of the person who was erased, since then."""
    people = set() if erased is None else {erased.pseudonym}
    _require("risks that are missing are of whoever was erased", {_of(line)[1] for line in missing}, people)
    if erased is not None:
        earliest = min(_of(line)[0] for line in missing)
        _require("and of steps since then", earliest >= erased.step, True)


def _of(line: bytes) -> tuple[int, str]:
    """Step and person of a record."""
    record = json.loads(line)
    return int(record["step"]), str(record["person"])


def _require(what: str, got: object, wanted: object) -> None:
    if got != wanted:
        raise RehearsalError(f"{what} must be {wanted}, got {got}")
