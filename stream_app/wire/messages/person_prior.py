"""A person's movement prior as a message."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from stream_app.wire.messages.message_fields import FIRST_FAULT, BaseMessage, Indices, Name, Numbers, Step


class SparseMatrix(BaseModel):
    """Transition probabilities by row and column."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    row: Indices
    col: Indices
    probability: Numbers


Matrix = Annotated[tuple[Numbers, ...], FIRST_FAULT] | SparseMatrix


class Person(BaseMessage):
    """A person's movement prior, in force from a step on.

    ``deployment`` is the digest of what accounts it, ``assumed`` what the prior rests on where nobody was
    measured, ``weight`` how many people are behind a persona.
    """

    type: Literal["person"] = "person"
    person: Name
    effective_from: Step = 0
    deployment: Name | None = None
    assumed: Name | None = None
    weight: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] | None = None
    places: Indices | None = None
    initial: Numbers | None = None
    transition: Matrix | None = None
    transitions: Annotated[tuple[Matrix, ...], FIRST_FAULT] | None = None

    def record(self) -> dict[str, Any]:
        """The prior as an element of a priors file's ``people``."""
        record: dict[str, Any] = {"person": self.person, "places": self.places, "initial": self.initial}
        if self.weight is not None:
            record["weight"] = self.weight
        if self.places is not None:
            record["places"] = list(self.places)
        if self.transition is not None:
            record["transition"] = _matrix_record(self.transition)
        if self.transitions is not None:
            record["transitions"] = [_matrix_record(matrix) for matrix in self.transitions]
        return record


def _matrix_record(matrix: Matrix) -> Any:
    return matrix.__dict__ if isinstance(matrix, SparseMatrix) else matrix
