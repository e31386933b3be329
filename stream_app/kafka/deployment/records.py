"""What a record of each topic is: how many bytes it may have, and the strict model that reads it.

Every record that a worker or tool reads goes through :meth:`RecordKind.read`: its size is looked at before
its contents, and whatever goes wrong with it is an answer, not an exception. No record can end a process.

=============================  ==================================================
topic                          kind
=============================  ==================================================
``activations``                :data:`ACTIVATION`
``readings``                   :data:`READING`
``decisions``                  :data:`DECISION`
``persons``                    :func:`person_kind`
``proposals``, ``answers``     :data:`PROPOSAL`, :data:`ANSWER`
``risks``                      :data:`RISK_STEP`, of summaries
``rejected``                   :data:`DEAD_LETTER`
``deployment``                 in :mod:`stream_app.kafka.deployment.deployment_record`
=============================  ==================================================

``progress`` has records of the release worker only, which stops where it cannot read them
(:func:`stream_app.kafka.release.progress.restore`); what else stands in ``risks``, and ``releases``, is shown
and compared as bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from stream_app.kafka.broker.kafka_exceptions import RecordError
from stream_app.kafka.broker.topics import LARGE_BYTES, MEDIUM_BYTES
from stream_app.kafka.deployment.person_records import PersonEntry, parse_person
from stream_app.kafka.deployment.refused_record import RefusedRecord, refused_person
from stream_app.steps.policy.crowd_sums import CrowdAnswer, CrowdQuestion
from stream_app.steps.policy.proposals import Answer, Proposal
from stream_app.wire import (
    Activation,
    CountMessage,
    Reason,
    Rejected,
    Step,
    StepDecision,
    explain,
    parse_counts,
)

logger = logging.getLogger(__name__)

Found = TypeVar("Found")


@dataclass(frozen=True)
class RecordKind(Generic[Found]):
    """The records of a topic. ``parse`` takes key and value, and may raise anything.

    What is said of a ``secret`` record quotes nothing but its key.
    """

    holds: str
    most_bytes: int
    parse: Callable[[bytes, bytes], Found]
    secret: bool = False

    def read(self, record: Any, source: str | None = None) -> Found | RefusedRecord:
        """What a record holds, or why it is refused."""
        key, value = record.key or b"", record.value or b""
        where = source or f"{record.topic}/{record.partition}:{record.offset}"
        size = len(key) + len(value)
        if size > self.most_bytes:
            hint = f"{self.holds} has at most {self.most_bytes} bytes, not {size}"
            return self._refused(where, record, Reason.TOO_LONG, hint)
        try:
            return self.parse(key, value)
        except ValidationError as error:
            return self._refused(where, record, *explain(error, self.holds, quotes=not self.secret))
        except RecordError as error:
            return self._refused(where, record, Reason.INVALID_FIELD, str(error))
        except MemoryError:
            raise
        except Exception as error:  # a record, whatever it is, must not stop those behind it
            hint = f"it cannot be read as {self.holds}: {type(error).__name__}"
            return self._refused(where, record, Reason.INVALID_FIELD, hint)

    def read_or_warn(self, record: Any) -> Found | None:
        """What a record holds; None, and a warning, for a reader that writes no dead letters."""
        found = self.read(record)
        if isinstance(found, RefusedRecord):
            logger.warning("%s is not %s: %s", found.source, self.holds, found.reason)
            return None
        return found

    def _refused(self, where: str, record: Any, reason: Reason, hint: str) -> RefusedRecord:
        if self.secret:
            return refused_person(where, record.key, hint, reason)
        return RefusedRecord(where, record.value or b"", hint, reason)


def of_model(holds: str, model: type[Any], most_bytes: int) -> RecordKind[Any]:
    """A kind that one pydantic model reads; the key says nothing that the value does not."""

    def parse(_: bytes, value: bytes) -> BaseModel:
        found: BaseModel = model.model_validate_json(value)
        return found

    return RecordKind(holds, most_bytes, parse)


def of_models(holds: str, models: Any, most_bytes: int) -> RecordKind[Any]:
    """A kind that one of several models reads, as the record's type says."""
    adapter: TypeAdapter[Any] = TypeAdapter(models)
    return RecordKind(holds, most_bytes, lambda _, value: adapter.validate_json(value))


class RiskStep(BaseModel):
    """The step of a summary of risks, of whatever version."""

    model_config = ConfigDict(frozen=True, strict=True)

    type: Literal["risk_summary"]
    step: Step


ACTIVATION: RecordKind[Activation] = of_model("an activation", Activation, LARGE_BYTES)
READING: RecordKind[CountMessage] = RecordKind(
    "reading or readings", MEDIUM_BYTES, lambda _, value: parse_counts(value)
)
DECISION: RecordKind[StepDecision] = of_model("a decision", StepDecision, LARGE_BYTES)
PROPOSAL: RecordKind[Proposal | CrowdQuestion] = of_models(
    "a proposal", Annotated[Proposal | CrowdQuestion, Field(discriminator="type")], LARGE_BYTES
)
ANSWER: RecordKind[Answer | CrowdAnswer] = of_models(
    "an answer", Annotated[Answer | CrowdAnswer, Field(discriminator="type")], MEDIUM_BYTES
)
IS_SUMMARY = b'"type":"risk_summary"'
RISK_STEP: RecordKind[RiskStep] = of_model("a summary of risks", RiskStep, MEDIUM_BYTES)
DEAD_LETTER: RecordKind[Rejected] = of_model("a dead letter", Rejected, MEDIUM_BYTES)


def person_kind(deployment: str, in_crowd: bool = False) -> RecordKind[PersonEntry]:
    """The people of the deployment with this digest, each for themselves where they hide ``in_crowd``."""
    parse = partial(parse_person, deployment=deployment, in_crowd=in_crowd)
    return RecordKind("a person", LARGE_BYTES, parse, secret=True)
