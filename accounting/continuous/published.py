"""Running ceilings by own counts: the last steps as they were published, whole windows among them.

Accounts have what a window shows in each of its steps, which is more than its count says
(:mod:`models.releases.fine_steps`). Here counts stay whole, and a person's ceiling is that of the bound by
own counts (:mod:`accounting.bounds.noised.own_counts_bound`). A window that has not ended is left out, as
nothing of it is published. The adversary is shown the place some steps before the horizon, and how often
windows that are open then have counted the person until then.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.noised.own_counts_bound import Asked, Presence, success_by_own_counts
from accounting.continuous.accounts_kernel import HISTORY, Accounts, has_initial_distribution
from accounting.continuous.refine_kernel import raw_horizon
from accounting.exposure.own_counts import OwnWindow
from accounting.exposure.step_information import followed_by, is_whole, seen_release
from accounting.exposure.step_information.contraction_kernel import dense_matrix
from accounting.exposure.step_information.likelihood_levels import SeenSteps, own_signals
from models.mechanisms import SeenRelease, truncated_mass
from models.numerics.arrays import Floats, Integers, Integers32
from models.priors.chain import is_labelled
from models.releases import SensorRelease

OWN_COUNTS_OPERATIONS = 8_000_000
"""Of one person, for each place and mistake: some milliseconds."""
_STEPS_BEFORE = 16  # the horizon, of which counts are followed
_ROUNDING = 1e-12  # more than that of a sum of masses
_ANYWHERE = -1  # before a move that is counted by where it leads


class SeenWindows(NamedTuple):
    """``W`` counts over windows, by the row of the step that each is published with."""

    row: Integers  # (W,)
    steps: Integers  # (W,)
    most_counts: Integers  # (W,)
    counted: Integers  # (W, E, 3): moves from, to, and how often they are counted; 0 times: none
    noise: Floats  # (W, V), the law of what is added, zeros beyond it
    left_out: Floats  # (W,), how far the sampler's law is from it
    shown: Floats  # (W,), the probability that anything is published


_NONE, _NUMBERS = np.zeros(0, np.int64), np.zeros(0)
_NO_WINDOWS = SeenWindows(
    _NONE, _NONE, _NONE, np.zeros((0, 0, 3), np.int64), np.zeros((0, 1)), _NUMBERS, _NUMBERS
)


class Published(NamedTuple):
    """Steps as they were published, row by row: counts of presence, and windows that ended."""

    plain: SeenSteps  # without rows where there were no windows so far
    windows: SeenWindows

    @classmethod
    def plainly(cls, plain: SeenSteps) -> Published:
        """Steps without windows."""
        return cls(plain, _NO_WINDOWS)

    def followed_by(self, step: Published) -> Published:
        """The rows moved on by one: without the first, with ``step``."""
        rows, own = len(self.plain.labels), self.windows
        is_kept = own.row > 0
        still: list[Any] = [each[is_kept] for each in own]
        kept = SeenWindows(*still)
        coming = step.windows._replace(row=step.windows.row + rows)
        joined = _joined(kept, coming)
        return Published(followed_by(self.plain, step.plain), joined._replace(row=joined.row - 1))

    @property
    def is_whole(self) -> bool:
        """Whether the arrays, which may come from a snapshot, belong together."""
        rows, locations = self.plain.labels.shape
        if not is_whole(self.plain) or {len(each) for each in self.windows} != {self.windows.row.size}:
            return False
        row, steps, most, counted, *_ = self.windows
        is_in_rows = (row >= 0) & (row < rows) & (steps > 0) & (most > 0)
        is_counted = (counted >= (_ANYWHERE, 0, 0)) & (counted < (locations, locations, 1 << 31))
        return bool(is_in_rows.all() and is_counted.all())


def _joined(first: SeenWindows, second: SeenWindows) -> SeenWindows:
    """All windows of both."""
    found: list[Any] = []
    for one, other in zip(first, second, strict=True):
        width = max(one.shape[1:2], other.shape[1:2])
        found.append(np.concatenate([_wide(each, *width) for each in (one, other)]))
    return SeenWindows(*found)


def _wide(array: NDArray[Any], width: int = 0) -> NDArray[Any]:
    """With zeros up to this many columns, if it has any."""
    if array.ndim == 1 or array.shape[1] == width:
        return array
    found = np.zeros((len(array), width, *array.shape[2:]), array.dtype)
    found[:, : array.shape[1]] = array
    return found


@lru_cache(256)
def published_in(releases: tuple[SensorRelease, ...], locations: int) -> Published:
    """One step's releases; those of a sensor with a window are of the window that ends with the step."""
    plain = tuple(each for each in releases if each.sensor.window is None)
    windows = _NO_WINDOWS
    for release in releases:
        window, mechanism = release.sensor.window, release.mechanism
        if window is not None and mechanism.is_released:
            is_hidden = isinstance(mechanism, SeenRelease)
            law = None if is_hidden else mechanism.noise_law()
            assert law is not None or is_hidden
            by_places = tuple((_ANYWHERE, place, 1) for place in release.sensor.locations)
            one = SeenWindows(
                np.zeros(1, np.int64),
                np.array([window.steps]),
                np.array([release.sensor.most_counts]),
                np.array([window.moves or by_places]),
                np.ones((1, 1)) if law is None else law.probabilities[np.newaxis],
                np.array([0.0 if law is None else truncated_mass(mechanism)]),
                np.array([mechanism.reveal_probability() if is_hidden else 1.0]),
            )
            windows = _joined(windows, one)
    return Published(seen_release(plain, locations), windows)


def ceiling_by_own_counts(
    accounts: Accounts, chain: int, last_step: int, published: Published
) -> float | None:
    """Success of any adversary about the horizon until ``last_step``; None where it is too expensive.

    None, too, in the first steps of a person who moves on from elsewhere, while a count of moves is in sight
    that began before.
    """
    rules, plain = accounts.horizon, published.plain
    first_step = last_step - rules.steps + 1
    raw = raw_horizon(accounts, chain, first_step, plain.labels)
    skipped = max(0, len(raw.marginal_before) - _STEPS_BEFORE)
    first = len(raw.marginal_before) - skipped  # of the horizon, in the steps that are followed
    own = raw.before.chain
    begins = raw.before.first_slot + skipped if first else raw.person.first_slot
    row = raw.first_row - first  # of the first step that is followed
    since = max(0, int(accounts.since[chain]) - (first_step - HISTORY + row))
    is_shown = raw.is_cut or skipped > 0
    counts = _own_windows(own.places, published.windows, row, since)
    is_known = is_shown or has_initial_distribution(accounts.population, chain)
    if not (is_known or all(each.is_from_its_first for each in counts)):
        return None
    hits = np.concatenate((raw.hits_before[skipped:], raw.hits))
    hits[0] &= not is_shown
    slots = (begins + np.arange(len(hits))) % len(own.start)
    marginal = np.concatenate((raw.marginal_before[skipped:], raw.marginal))
    signals, left_out = own_signals(own, hits, marginal, plain, row, False)
    presence = [
        Presence(int(step), cover, weight[:size], theta[:size])
        for step, cover, size, weight, theta in zip(*signals, strict=True)
    ]
    label, cost = np.tile(np.arange(own.places.size), (slots.size, 1)), np.ones(slots.size, np.int64)
    if is_labelled(own):
        label, cost = own.label[slots, :-1].astype(np.int64), own.label[slots, -1].astype(np.int64)
    cost[:first] = 0
    start = raw.marginal_before[skipped] if first else raw.person.start
    moves = np.array([dense_matrix(own, slot) for slot in slots[:-1]]).reshape(-1, start.size, start.size)
    asked = Asked(start, moves, label, cost, first, is_shown, rules.mistakes)
    found = success_by_own_counts(asked, presence, [each.own for each in counts], rules.vectors)
    return None if found is None else found + left_out + sum(each.left_out for each in counts)


class _OwnCount(NamedTuple):
    """A window as far as it can count one person, in the steps that are followed."""

    own: OwnWindow
    left_out: float
    is_from_its_first: bool  # whether all its moves are in these steps


def _own_windows(places: Integers32, windows: SeenWindows, row: int, since: int) -> list[_OwnCount]:
    """The windows that end after the step ``since``, in steps counted from ``row``.

    Moves into that step are left out: nobody was counted before, or it is told how often. Whom a device has
    counted then, and counts at most so often, it counts less often from then on than it would else: two
    counts that differ may become one, which noise hides otherwise. So of such a window a coin shows the own
    count, or nothing, which reveals no less whatever was counted before.
    """
    found = []
    for w, end in enumerate((windows.row - row).tolist()):
        before, to, times = windows.counted[w].T
        is_moves = bool(before[0] != _ANYWHERE)
        begins = end - int(windows.steps[w]) + 1
        first = max(begins, since + is_moves)
        if first > end:
            continue
        matrix = np.zeros((places.size, places.size), np.int64)
        for each in np.flatnonzero(times).tolist():
            leaves = places == before[each] if is_moves else np.ones(places.size, np.bool_)
            matrix[np.ix_(leaves, places == to[each])] = times[each]
        if matrix.any():
            noise = np.trim_zeros(windows.noise[w], "b")
            most, shown = int(windows.most_counts[w]), float(windows.shown[w])
            if first > begins and noise.size > 1 and most < int(windows.steps[w]) * int(times.max()):
                noise, shown = np.ones(1), shown * _told_apart(noise, most)
            own = OwnWindow(first, end, most, matrix, noise, shown)
            found.append(_OwnCount(own, float(windows.left_out[w]), begins == first or not is_moves))
    return found


def _told_apart(noise: Floats, most: int) -> float:
    """What not all laws of this noise, shifted by 0 to ``most``, have in common."""
    shifted = np.stack([np.pad(noise, (shift, most - shift)) for shift in range(most + 1)])
    return float(min(1.0, 1.0 - shifted.min(axis=0).sum() + _ROUNDING))
