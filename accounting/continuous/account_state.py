"""An accountant's state: opened, joined, taken apart, compared, and saved as bytes that are checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.raw_success_kernel import BY_BASELINE, BY_DIVERGENCE
from accounting.bounds.radius import bound_for
from accounting.continuous.accounts_kernel import (
    HISTORY,
    UNITS_PER_NAT,
    Accounts,
    Constants,
    HorizonRules,
    HorizonState,
    Nonstationary,
    empty_constants,
    empty_state,
    fill_constants,
    fill_stretch,
)
from accounting.continuous.people import (
    AccountPositions,
    Figures,
    GroupPositions,
    Groups,
    WorstMoments,
    equal_accounts,
    join_people,
    take_people,
)
from accounting.continuous.published import Published, SeenWindows
from accounting.continuous.stretches import Stretch
from accounting.exceptions import SnapshotError
from accounting.exposure.step_information import is_whole, nothing_seen, nothing_seen_for
from accounting.exposure.step_information.likelihood_levels import LevelTables, SeenSteps
from accounting.exposure.step_information.observation import StepView
from accounting.numerics import fill_divergence_roots, packed_positions
from accounting.settings import HorizonSettings
from models.numerics.arrays import Flags, Floats, Integers
from models.priors import Population

MORE_THAN_ANYTHING = 1 << 50  # units: a thousand nats
_BASIS = "basis"
REMEDY = "delete the snapshot; the state is rebuilt from the release log"

Arrays = Mapping[str, NDArray[Any]]
Kept = TypeVar("Kept")


class RunningAccount(NamedTuple):
    """The state of the accounts after the steps so far: all that is saved, joined and taken apart."""

    accounts: Accounts
    next_step: int
    view_before: StepView  # of the last step
    seen: SeenSteps  # (HISTORY + T rows) the last horizon and the steps before it
    published: Published  # the same rows, whole windows among them; none where there were none so far
    groups: Groups
    stretch: Stretch  # of time, in which the last step lies
    settled: Constants  # of the chains as their priors say; in most stretches those of the accounts

    @classmethod
    def opened(
        cls, population: Population, settings: HorizonSettings, since: Integers, groups: Groups
    ) -> RunningAccount:
        """One account for each prior before ``settings.first_step``; they count from ``since`` (A,) on.

        Before the first step a person's risk is the bound on a guess from the prior. The figures of
        ``groups`` are still to be filled in.
        """
        arrays, draws = population.accounted.arrays, population.draws
        first_step, stretch = settings.first_step, Stretch.of(settings, settings.first_step)
        refined_from = bound_for(settings.within_nats, float(settings.refined_from))
        rules = (settings.horizon, settings.mistakes, settings.vectors, refined_from, settings.first_slot)
        accounts = Accounts(
            arrays,
            empty_constants(arrays),
            Nonstationary(*(arrays.initial.copy() for _ in Nonstationary._fields)),
            empty_state(since.size * draws, settings.horizon),
            np.repeat(since, draws),
            HorizonRules(*rules),
        )
        fill_constants(accounts, np.arange(since.size * draws), first_step, True)
        locations = population.location_count
        seen = nothing_seen_for(HISTORY + settings.horizon, locations)
        view, start = nothing_seen(locations), Stretch(settings.first_slot)
        published = Published.plainly(nothing_seen_for(0, locations))
        opened = cls(
            accounts, first_step, view, seen, published, groups, start, accounts.constants
        ).in_stretch(stretch, population)
        opened._show_guesses(first_step)
        return opened

    def _show_guesses(self, first_step: int) -> None:
        """The figures before the first step: what can be guessed from the prior."""
        accounts = self.accounts
        arrays, constants, state = accounts.population, accounts.constants, accounts.state
        has_initial = np.diff(arrays.initial_start) > 0
        if has_initial.any():
            fill_constants(accounts, np.flatnonzero(has_initial), first_step, False)
        horizon_start = np.where(has_initial, accounts.since, first_step - accounts.horizon.steps)
        phase = constants.phase_start[:-1] + (accounts.horizon.first_slot + horizon_start) % arrays.slots
        state.baseline[:] = constants.baseline[phase]
        state.bound[:] = constants.guess[phase]
        state.risk[:] = np.maximum(state.bound, state.baseline)

    def in_stretch(self, stretch: Stretch, population: Population) -> RunningAccount:
        """The same accounts with the chains, slots and constants of another stretch of time.

        The constants of people with an initial distribution are still to be filled in.
        """
        if stretch == self.stretch:
            return self
        arrays = stretch.arrays(population.accounted.arrays)
        constants = self.settled if stretch.is_regular else empty_constants(arrays)
        horizon = self.accounts.horizon._replace(first_slot=stretch.first_slot)
        accounts = self.accounts._replace(population=arrays, constants=constants, horizon=horizon)
        if not stretch.is_regular:
            fill_stretch(accounts, self.settled, stretch.first_start, np.array(stretch.like))
        return self._replace(accounts=accounts, stretch=stretch)

    def join(self, other: RunningAccount, population: Population) -> RunningAccount:
        """These accounts, then those of ``other`` after the same step; ``population`` has the priors of both.

        The groups are not joined.
        """
        first, second = self.accounts, other.accounts
        settled = _joined_constants(self.settled, other.settled)
        accounts = Accounts(
            self.stretch.arrays(population.accounted.arrays),
            settled if self.stretch.is_regular else _joined_constants(first.constants, second.constants),
            join_people(first.nonstationary, second.nonstationary),
            join_people(first.state, second.state),
            np.concatenate((first.since, second.since)),
            first.horizon,
        )
        return self._replace(accounts=accounts, settled=settled)

    def take(self, chosen: AccountPositions, population: Population) -> RunningAccount:
        """The accounts at these positions, without their groups; ``population`` has their priors."""
        accounts, chains = self.accounts, population.chains_of(chosen)
        places = packed_positions(accounts.population.initial_start, chains)
        settled = _taken_constants(self.settled, chains)
        taken_accounts = Accounts(
            self.stretch.arrays(population.accounted.arrays),
            settled if self.stretch.is_regular else _taken_constants(accounts.constants, chains),
            Nonstationary(*(array[places] for array in accounts.nonstationary)),
            take_people(accounts.state, chains),
            accounts.since[chains],
            accounts.horizon,
        )
        return self._replace(accounts=taken_accounts, settled=settled)

    def equal_to(self, other: RunningAccount, both: Population, told: Flags) -> AccountPositions:
        """For each account of ``other`` the position of the equal one here, -1 if there is none, (A,).

        ``both`` are the priors of these accounts, then of the other's; ``told`` are those whose place is told
        at the first step. Accounts are equal if their priors, starts, first steps and their whole state after
        the steps so far are.
        """
        draws = both.draws
        count = self.accounts.since.size // draws
        since = np.concatenate((self.accounts.since, other.accounts.since))[::draws]
        first_like = equal_accounts(both, 2 * since + told)[count:]
        found = AccountPositions(np.where(first_like < count, first_like, -1))
        chosen = np.flatnonzero(found >= 0)
        if not chosen.size:
            return found
        here, there = both.chains_of(found[chosen]), both.chains_of(chosen)
        is_same = np.ones(here.size, dtype=np.bool_)
        states: zip[tuple[NDArray[Any], NDArray[Any]]] = zip(
            self.accounts.state, other.accounts.state, strict=True
        )
        for own, others in states:
            is_same &= (own[..., here] == others[..., there]).reshape(-1, here.size).all(axis=0)
        found[chosen[~is_same.reshape(-1, draws).all(axis=1)]] = -1
        return found

    def add_revealed(self, step: int, horizon: int, nats: Floats) -> None:
        """Add what windows and moves reveal (N,) to the terms and the information of the last step."""
        people = np.flatnonzero(np.where(step < self.accounts.since, 0.0, nats))
        state = self.accounts.state
        units = np.ceil(nats[people] * UNITS_PER_NAT).astype(np.int64) + 2  # rounded up, as to_units does
        state.unconditioned[step % len(state.unconditioned), people] += units
        state.conditional[step % horizon, people] += units
        if horizon > 1:
            state.running[people] += units
        state.information[people] += units
        bound, baseline = np.empty(people.size), state.baseline[people]
        fill_divergence_roots(state.information[people] / UNITS_PER_NAT, state.guess[people], bound)
        state.bound[people], state.risk[people] = bound, np.maximum(bound, baseline)
        state.decided_by[people] = np.where(bound > baseline, BY_DIVERGENCE, BY_BASELINE)

    def tell(self, step: int, horizon: int, people: Integers) -> None:
        """Account that these people's place at the last ``step``, their first one, is told to the adversary.

        Horizons that begin with the step carry the entropy of the place (``J_n = H(X_n)``), later ones what
        is left of it after the moves between. Those that begin before are not bounded: their ceiling is 1.
        """
        state, start = self.accounts.state, self.accounts.population.initial_start
        for person in people:
            law = self.accounts.population.initial[start[person] : start[person + 1]]
            law = law[law > 0.0]
            entropy = (
                int(np.ceil(-(law * np.log(law)).sum() * UNITS_PER_NAT)) + 2
            )  # rounded up, as to_units does
            everything = entropy if horizon == 1 else MORE_THAN_ANYTHING
            state.unconditioned[step % len(state.unconditioned), person] = entropy
            state.conditional[step % horizon, person] = everything
            state.running[person] = 0 if horizon == 1 else everything
            state.information[person] = everything
        bound, baseline = np.empty(people.size), state.baseline[people]
        fill_divergence_roots(state.information[people] / UNITS_PER_NAT, state.guess[people], bound)
        state.bound[people], state.risk[people] = bound, np.maximum(bound, baseline)
        state.decided_by[people] = np.where(bound > baseline, BY_DIVERGENCE, BY_BASELINE)

    def packed(self, basis: Mapping[str, object]) -> bytes:
        """The state as bytes, equal for equal histories; ``basis`` is what else it follows from."""
        last = {
            **named("view", self.view_before),
            **named("channel", self.seen.tables),
            **self._published_arrays(),
        }
        return pack_state(basis, {**self._fixed_arrays(), **self._group_arrays(), **last})

    def restored(self, packed: bytes, basis: Mapping[str, object]) -> RunningAccount:
        """The state in these bytes; :class:`SnapshotError` if they are not of this account."""
        view = named("view", nothing_seen(self.seen.labels.shape[1]))
        fixed = {**self._fixed_arrays(), "view_labels": view.pop("view_labels")}
        free = {
            **view,
            **named("channel", self.seen.tables),
            **self._group_arrays(),
            **self._published_arrays(),
        }
        stored = unpack_state(packed, basis, fixed, free)
        seen = SeenSteps(stored["labels"], stored["channel"], taken("channel", LevelTables, stored))
        plain = SeenSteps(
            stored["published_labels"], stored["published_channel"], taken("published", LevelTables, stored)
        )
        published = Published(plain, taken("window", SeenWindows, stored))
        figures, worst = taken("figures", Figures, stored), taken("worst", WorstMoments, stored)
        account, of_cell = AccountPositions(stored["group_account"]), GroupPositions(stored["group_of_cell"])
        groups = Groups(account, of_cell, figures, worst)
        draws, accounts = len(self.groups.figures.risk), self.accounts.since.size
        is_seen = is_whole(seen) and published.is_whole
        if not is_seen or not groups.is_whole(accounts // draws, draws):
            raise SnapshotError("a snapshot's arrays must belong together", "some that do not", REMEDY)
        before = taken("view", StepView, stored)
        return self._replace(
            accounts=self.accounts._replace(
                state=taken("state", HorizonState, stored), nonstationary=taken("own", Nonstationary, stored)
            ),
            next_step=int(stored["next_step"]),
            view_before=before._replace(is_disjoint=bool(before.is_disjoint), is_raw=bool(before.is_raw)),
            seen=seen,
            published=published,
            groups=groups,
        )

    def _fixed_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays whose shapes follow from people and settings."""
        return {
            "next_step": np.array(self.next_step),
            **named("state", self.accounts.state),
            **named("own", self.accounts.nonstationary),
            "group_of_cell": self.groups.of_cell,
            "labels": self.seen.labels,
            "channel": self.seen.channel,
        }

    def _published_arrays(self) -> dict[str, NDArray[Any]]:
        plain = self.published.plain
        steps = {"published_labels": plain.labels, "published_channel": plain.channel}
        return {**steps, **named("published", plain.tables), **named("window", self.published.windows)}

    def _group_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays with one entry a group."""
        figures, worst = named("figures", self.groups.figures), named("worst", self.groups.worst)
        return {"group_account": self.groups.account, **figures, **worst}


def _joined_constants(first: Constants, second: Constants) -> Constants:
    """The constants of two sets of chains, one after the other."""
    start = np.concatenate((first.phase_start, first.phase_start[-1] + second.phase_start[1:]))
    # All but phase_start are flat arrays; it says which entries belong to which chain.
    constants: Any = zip(first[1:], second[1:], strict=True)
    return Constants(start, *map(np.concatenate, constants))


def _taken_constants(constants: Constants, chains: Integers) -> Constants:
    """The constants of the chains at these positions."""
    phase_start = constants.phase_start
    start = np.concatenate(([0], np.cumsum(np.diff(phase_start)[chains]))).astype(phase_start.dtype)
    phases = packed_positions(phase_start, chains)
    taken: Any = (array[phases] for array in constants[1:])
    return Constants(start, *taken)


def pack_state(basis: Mapping[str, object], arrays: Arrays) -> bytes:
    """Arrays together with what they follow from, as bytes; equal for equal arguments."""
    buffer = BytesIO()
    np.savez(buffer, **{_BASIS: np.array(json.dumps(basis, sort_keys=True))}, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def digest_of(array: NDArray[Any]) -> str:
    """The digest by which long arrays of a basis are compared."""
    return hashlib.sha256(array.tobytes()).hexdigest()


def named(prefix: str, kept: Any) -> dict[str, NDArray[Any]]:
    """The arrays of a named tuple by the names they have in a snapshot."""
    return {_stored_name(prefix, name): np.asarray(value) for name, value in kept._asdict().items()}


def taken(prefix: str, kind: type[Kept], stored: Arrays) -> Kept:
    """The named tuple that :func:`named` took apart; numbers come back as arrays without axes."""
    fields: Any = kind
    return kind(*(stored[_stored_name(prefix, name)] for name in fields._fields))


def _stored_name(prefix: str, name: str) -> str:
    """The name in a snapshot; ``carried`` keeps the name that earlier versions wrote."""
    return f"{prefix}_{'remembered' if name == 'carried' else name}"


def unpack_state(
    packed: bytes, basis: Mapping[str, object], like: Arrays, any_length: Arrays
) -> dict[str, NDArray[Any]]:
    """The arrays of :func:`pack_state`.

    Arrays named in ``like`` must have its types and shapes, those in ``any_length`` its types and numbers of
    axes. :class:`~accounting.exceptions.SnapshotError` if they do not, or follow from another ``basis``.
    """
    try:
        with np.load(BytesIO(packed)) as stored:
            found: dict[str, NDArray[Any]] = dict(stored)
    except Exception as error:  # whatever zipfile, zlib and numpy raise on bytes that are no archive
        raise SnapshotError("a snapshot must be readable", type(error).__name__, REMEDY) from error
    _check_basis(found.pop(_BASIS, np.array("{}")), basis)
    for name, wanted in {**any_length, **like}.items():
        got = found.get(name)
        is_of_kind = got is not None and (got.dtype, got.ndim) == (wanted.dtype, wanted.ndim)
        if got is None or not is_of_kind or (name in like and got.shape != wanted.shape):
            raise SnapshotError(
                f"array {name} of a snapshot must have shape {wanted.shape} and type {wanted.dtype}",
                "none" if got is None else f"{got.shape} and {got.dtype}",
                REMEDY,
            )
    return found


def _check_basis(stored: NDArray[Any], basis: Mapping[str, object]) -> None:
    """:class:`SnapshotError` that names what differs from what the state was saved for."""
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
