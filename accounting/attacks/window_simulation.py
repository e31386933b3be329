"""Counts over windows as a simulated attack takes them: whose counts the decoder follows, and how."""

from __future__ import annotations

from collections.abc import Iterator
from math import log

import numpy as np

from accounting.attacks.noised_draws_kernel import WindowSimulation
from accounting.bounds.noised.own_counts_bound import Asked, chain_of, states_of
from accounting.exposure import Exposure
from accounting.exposure.drawing import new_walker, noise_tables, own_releases, released_steps, value_tables
from accounting.exposure.own_counts import OwnWindow, own_count, own_window
from accounting.hmm.forward_viterbi import smallest_entry
from models.mechanisms import Mechanism
from models.numerics.arrays import Integers32
from models.priors.chain import LocalChain
from models.releases import WindowRelease

MOST_WORK = 1e10
"""Multiplications of all draws: ten seconds or so. The counts followed are as many as that allows."""

_VISITS = 3  # to the chain in each step of a draw
_MOST_STATES = 1 << 13  # in one step


def window_simulation(exposure: Exposure, draws: int, blind: Integers32) -> WindowSimulation:
    """The person's states, and the counts that tell them apart, of the sensors that are followed.

    An attack need not use everything that is published. Of the sensors those that reveal most for the values
    they have come first.
    """
    assert exposure.windows is not None
    steps, places = exposure.steps, exposure.place_count
    nothing = np.zeros((steps, places), np.int64), np.ones(steps, np.int64)
    asked = Asked(exposure.start, exposure.moves, *nothing, 0, False, 0)
    followed: list[OwnWindow] = []
    laws: dict[Mechanism, int] = {}
    law: list[int] = []
    states = states_of(asked, ())
    assert states is not None
    for releases in _by_worth(exposure):
        wider = [*followed, *(own_window(exposure, each) for each in releases)]
        found = states_of(asked, wider, _MOST_STATES)
        moves = 0 if found is None else sum(chance.size for _, _, chance in found.moves)
        if found is not None and draws * _VISITS * moves <= MOST_WORK:
            states, followed = found, wider
            law += [laws.setdefault(each.mechanism, len(laws)) for each in releases]
    chain, marginal = chain_of(asked, states)
    count = chain.places.size
    person = LocalChain(chain._replace(places=np.arange(count, dtype=np.int32)), marginal[0], 0)
    place, counted = np.zeros((steps, count), np.int32), np.zeros((len(followed), count), np.int64)
    for own, each in zip(place, states.place, strict=True):
        own[: each.size] = each
    for w, window in enumerate(followed):
        of_states = states.counted[window.last][:, w]
        counted[w, : of_states.size] = of_states
    released = released_steps(exposure.windows.others)
    labels = exposure.under(exposure.windows.others).labels
    seen = np.take_along_axis(labels, place.astype(np.int64), axis=1)
    return WindowSimulation(
        new_walker(person),
        person,
        float(smallest_entry(chain.value)),
        place,
        places,
        own_releases(released, seen, value_tables(released.noise)),
        np.array([window.last for window in followed], np.int64),
        counted,
        np.array(law, np.int64),
        noise_tables(tuple(laws)),
        blind,
    )


def _by_worth(exposure: Exposure) -> Iterator[list[WindowRelease]]:
    """The windows of each sensor that says something of the person, those of most worth first."""
    of_sensor: dict[str, list[WindowRelease]] = {}
    for release in exposure.windows.releases if exposure.windows is not None else ():
        of_sensor.setdefault(release.sensor.name, []).append(release)
    worth = []
    for name, own in of_sensor.items():
        counts = [own_count(exposure, each) for each in own]
        most = max(int(np.flatnonzero(each.law)[-1]) for each in counts)
        nats = sum(each.information_nats for each in counts)
        if nats > 0.0 and most > 0:  # of a constant count rounding may leave some
            worth.append((-nats / log(1.0 + most), name))
    for _, name in sorted(worth):
        yield of_sensor[name]
