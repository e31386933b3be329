"""An accountant's state: what it is, and as bytes, checked as a whole before anything of it is taken over."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.raw_success_kernel import BY_BASELINE, BY_DIVERGENCE
from accounting.continuous.accounts_kernel import UNITS_PER_NAT, Accounts, HorizonState, Nonstationary
from accounting.continuous.people import AccountPositions, Figures, GroupPositions, Groups, WorstMoments
from accounting.exceptions import SnapshotError
from accounting.exposure.step_information import is_whole, nothing_seen
from accounting.exposure.step_information.likelihood_levels import LevelTables, SeenSteps
from accounting.exposure.step_information.observation import StepView
from accounting.numerics import fill_divergence_roots

_BASIS = "basis"
REMEDY = "delete the snapshot; the state is rebuilt from the release log"

Arrays = Mapping[str, NDArray[Any]]
Kept = TypeVar("Kept")


class RunningAccount(NamedTuple):
    """What the steps so far have made of everybody's account: all that is saved, joined and taken apart."""

    accounts: Accounts
    next_step: int
    view_before: StepView  # of the last step
    seen: SeenSteps  # (HISTORY + T rows) the last horizon and what was before it
    groups: Groups

    def add_revealed(self, step: int, horizon: int, nats: NDArray[np.float64]) -> None:
        """Add what windows and moves reveal (N,) to the terms of the last step, and to what is known."""
        people = np.flatnonzero(np.where(step < self.accounts.since, 0.0, nats))
        state = self.accounts.state
        units = np.ceil(nats[people] * UNITS_PER_NAT).astype(np.int64) + 2  # as to_units
        state.unconditioned[step % len(state.unconditioned), people] += units
        state.conditional[step % horizon, people] += units
        if horizon > 1:
            state.running[people] += units
        state.information[people] += units
        bound, baseline = np.empty(people.size), state.baseline[people]
        fill_divergence_roots(state.information[people] / UNITS_PER_NAT, state.guess[people], bound)
        state.bound[people], state.risk[people] = bound, np.maximum(bound, baseline)
        state.decided_by[people] = np.where(bound > baseline, BY_DIVERGENCE, BY_BASELINE)

    def packed(self, basis: Mapping[str, object]) -> bytes:
        """As bytes, equal for equal histories; ``basis`` is all but the steps that it follows from."""
        last = {**named("view", self.view_before), **named("channel", self.seen.tables)}
        return pack_state(basis, {**self._fixed_arrays(), **self._group_arrays(), **last})

    def restored(self, packed: bytes, basis: Mapping[str, object]) -> RunningAccount:
        """The state in these bytes; :class:`SnapshotError` where they are not of this account."""
        view = named("view", nothing_seen(self.seen.labels.shape[1]))
        fixed = {**self._fixed_arrays(), "view_labels": view.pop("view_labels")}
        free = {**view, **named("channel", self.seen.tables), **self._group_arrays()}
        stored = unpack_state(packed, basis, fixed, free)
        seen = SeenSteps(stored["labels"], stored["channel"], taken("channel", LevelTables, stored))
        figures, worst = taken("figures", Figures, stored), taken("worst", WorstMoments, stored)
        account, of_cell = AccountPositions(stored["group_account"]), GroupPositions(stored["group_of_cell"])
        groups = Groups(account, of_cell, figures, worst)
        draws, accounts = len(self.groups.figures.risk), self.accounts.since.size
        if not is_whole(seen) or not groups.is_whole(accounts // draws, draws):
            raise SnapshotError("a snapshot's arrays must belong together", "some that do not", REMEDY)
        before = taken("view", StepView, stored)
        return RunningAccount(
            self.accounts._replace(
                state=taken("state", HorizonState, stored),
                nonstationary=taken("own", Nonstationary, stored),
            ),
            int(stored["next_step"]),
            before._replace(is_disjoint=bool(before.is_disjoint), is_raw=bool(before.is_raw)),
            seen,
            groups,
        )

    def _fixed_arrays(self) -> dict[str, NDArray[Any]]:
        """All whose shapes follow from people and settings."""
        return {
            "next_step": np.array(self.next_step),
            **named("state", self.accounts.state),
            **named("own", self.accounts.nonstationary),
            "group_of_cell": self.groups.of_cell,
            "labels": self.seen.labels,
            "channel": self.seen.channel,
        }

    def _group_arrays(self) -> dict[str, NDArray[Any]]:
        """Of which there are as many as groups."""
        figures, worst = named("figures", self.groups.figures), named("worst", self.groups.worst)
        return {"group_account": self.groups.account, **figures, **worst}


def pack_state(basis: Mapping[str, object], arrays: Arrays) -> bytes:
    """Arrays together with what they follow from; equal bytes for equal arguments."""
    buffer = BytesIO()
    np.savez(buffer, **{_BASIS: np.array(json.dumps(basis, sort_keys=True))}, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def digest_of(array: NDArray[Any]) -> str:
    """By which long arrays of a basis are compared."""
    return hashlib.sha256(array.tobytes()).hexdigest()


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
