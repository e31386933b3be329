"""An accountant's state as bytes, checked as a whole before anything of it is taken over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from accounting.exceptions import SnapshotError

_BASIS = "basis"
REMEDY = "delete the snapshot; the state is rebuilt from the release log"

Arrays = Mapping[str, NDArray[Any]]
Kept = TypeVar("Kept")


def pack_state(basis: Mapping[str, object], arrays: Arrays) -> bytes:
    """Arrays together with what they follow from; equal bytes for equal arguments."""
    buffer = BytesIO()
    np.savez(buffer, **{_BASIS: np.array(json.dumps(basis, sort_keys=True))}, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def named(prefix: str, kept: Any) -> dict[str, NDArray[Any]]:
    """The arrays of a named tuple by the names they have in a snapshot."""
    return {_stored_name(prefix, name): np.asarray(value) for name, value in kept._asdict().items()}


def taken(prefix: str, kind: type[Kept], stored: Arrays) -> Kept:
    """The named tuple that :func:`named` took apart; numbers are arrays of no axes."""
    fields: Any = kind
    return kind(*(stored[_stored_name(prefix, name)] for name in fields._fields))


def _stored_name(prefix: str, name: str) -> str:
    """As it has been from the beginning."""
    return f"{prefix}_{'remembered' if name == 'carried' else name}"


def unpack_state(
    packed: bytes, basis: Mapping[str, object], like: Arrays, any_length: Arrays
) -> dict[str, NDArray[Any]]:
    """The arrays of :func:`pack_state`: those of ``like`` in its shapes, those of ``any_length`` in its axes.

    :class:`~accounting.exceptions.SnapshotError` when they follow from something else than ``basis``, or are
    not all there; the types must be the same, too.
    """
    found = _arrays(packed)
    _check_basis(found.pop(_BASIS, np.array("{}")), basis)
    for name, wanted in like.items():
        if name not in found or (found[name].dtype, found[name].shape) != (wanted.dtype, wanted.shape):
            raise _misfit(name, wanted, found)
    for name, wanted in any_length.items():
        if name not in found or (found[name].dtype, found[name].ndim) != (wanted.dtype, wanted.ndim):
            raise _misfit(name, wanted, found)
    return found


def _arrays(packed: bytes) -> dict[str, NDArray[Any]]:
    """Everything in the bytes; whatever they may be."""
    try:
        with np.load(BytesIO(packed)) as stored:
            return dict(stored)
    except Exception as error:  # zipfile's, zlib's and numpy's own
        raise SnapshotError("a snapshot must be readable", type(error).__name__, REMEDY) from error


def _check_basis(stored: NDArray[Any], basis: Mapping[str, object]) -> None:
    """Name what differs."""
    try:
        before = dict(json.loads(str(stored)))
    except (ValueError, TypeError, RecursionError):
        before = {}
    wanted = json.loads(json.dumps(basis))
    changed = sorted(name for name in wanted.keys() | before.keys() if wanted.get(name) != before.get(name))
    if changed:
        raise SnapshotError(
            "a snapshot must be of the same people and settings", f"other {', '.join(changed)}"[:200], REMEDY
        )


def _misfit(name: str, wanted: NDArray[Any], found: Arrays) -> SnapshotError:
    got = "none" if name not in found else f"{found[name].shape} and {found[name].dtype}"
    return SnapshotError(
        f"array {name} of a snapshot must have shape {wanted.shape} and type {wanted.dtype}", got, REMEDY
    )
