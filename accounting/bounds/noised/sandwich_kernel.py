"""The sandwich bound: what can be won behind noised counts, with as many of their values as it takes.

A count of a sensor multiplies the evidence of a path by a *ray*, ``2 (1 - theta)`` where the path is not
counted and ``2 theta`` where it is, ``theta = P1 / (P0 + P1)``; the value comes with weight ``w = (P0 + P1) /
2``. What can be won with evidence ``E`` and the sensors that are not resolved yet, ``V(E)``, is a maximum of
sums that are linear in ``E`` with coefficients of at least 0, so

    E <= sum_k l_k E_k, l_k >= 0   =>   V(E) <= sum_k l_k V(E_k),                                        (1)

and ``phi(theta) = V(E ray(theta))`` is convex. Of one sensor some values are *kept*, the outermost among
them; between two kept ones ``phi`` lies below the chord, and above what the best guess of either wins. So a
tree is grown. A node is a sequence of values of some sensors; resolving one more sensor gives it children,
one for each kept value. Behind a leaf the sensors left are bounded without a look at their values: with
``delta`` a sensor's total variation and ``b`` the indicator of the places that it counts, or of all others,

    V(E) <= V'(E) + delta V'(b E)                                                                        (2)

where ``V'`` has one sensor less, for ``ray(theta) <= min(1, ray(theta)) + b max(0, 2 theta - 1)``. All
sensors together: either nothing is shown, or somebody on the ``b`` side is, and a genie shows the place as
well, whence the person begins anew (:func:`_bound_by_showing`). What is gained by a closer look is known of
every leaf and of every chord; the largest gain, weighed with how often it comes, is looked at next.

A count over a window may have the person in it more than once: it has more *values* than two, and an output
says how likely it is at each. Of two kept outputs that cover another one exactly at two values, other values
may be covered by less; whoever has them wins (:func:`_between`). Behind a leaf ``b`` are all values but the
likeliest.

A history leaves several laws of the first place, and what is won is the sum over them, each with its own best
guess: a functional like ``V``. So all laws share one tree, and but for the first step and the searches all
that is computed at a node. Beyond Koga et al.

For example one step at place 0 or 1 with probability 1/2 each, and a sensor at 1 whose noise gives ``theta``
1/4 or 3/4, so ``delta`` is 1/2. The leaf: 1/2 is won without a look, and 1/2 * 1/2 more as the person is
shown at place 1: 3/4. Resolved, ``phi(1/4) = phi(3/4) = 3/4``, which is the bound and won. A third value at
1/2 would be put at 3/4 by the chord; its ``phi`` is 1/2, and the gap decides whether it is looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accounting.exposure.step_information.likelihood_levels import OwnSignals
from accounting.hmm.eight import (
    first_equal,
    larger_of,
    largest,
    load,
    padded,
    replaced,
    spread_out,
    store,
    where_positive,
)
from accounting.hmm.few_places import guess_and_be_shown_few, lay_out, move_few, move_two_few, multiply
from accounting.hmm.frontier.search_kernel import (
    Completions,
    SearchMemory,
    found_guess,
    gains_of,
    guess_and_be_shown,
    new_gains,
    new_memory,
    search,
)
from accounting.hmm.propagation import predict, retreat
from models.numerics.arrays import Flags, Floats, Integers
from models.numerics.jit import bare_jit, inline, jit, shared
from models.priors.chain import ChainView, LocalChain, is_labelled, slot_of

_BEYOND, _BEYOND_FLAT = 0.05, 0.01  # weight beyond the first values that are kept; the same of much noise
_FLAT = 0.25  # total variation below which noise is much
LIGHT = 0.03  # share of what a leaf may be off by that a place is charged in full for
_SLACK = 0.1  # share of what a leaf may gain that its search may leave
_GUESSES = 4  # that are tried at a node
PAST_LAWS, FEW_LAWS = 16, 8  # that a history leaves, of an audit and of a running ceiling
_FAR = (1.0, 2.0, 3.0)  # after a quarter of the work, a sixteenth and less; a tree so far off hardly wins
PRECISION = 0.1  # of what is attained beyond the guess: how close the bound shall come
LABELLED_PRECISION = 0.01  # where labels are guessed, and bounds on exact counts show the state
CLOSE = 2e-4  # of success: no bound need be closer
OPERATIONS_PER_VECTOR = 4e5  # with one mistake; 64 vectors take about a thirtieth of a second
_MUCH = 8.0 * OPERATIONS_PER_VECTOR  # of which a sixteenth already says how fast a bound falls
EXPANSIONS_PER_VECTOR = 4  # of one search, in each step; the few that take so many gain most
_MOST_NODES, _MOST_ENTRIES = 8192, 1 << 22  # of a tree, and of what is kept of all nodes
_FEWEST_NODES = 16
BY_SANDWICH = 64
"""The code of this bound where it decides; codes of bounds on raw counts, which follow 3, never get there."""
_ROUNDING = 1e-12  # sums of thousands of products, each rounded
_FIRST_CHILDREN = 4  # of a node, at most
_OF_PRESENCE = 2  # values: 0 times or once


class Window(NamedTuple):
    """What is asked: a person's steps, what comes behind them, and how hard to look."""

    person: LocalChain  # its start is not read
    steps: int
    end: Floats  # (K,), likelihood of what is seen after the last step
    mistakes: int
    expansions: int  # of one search, at least one a step
    operations: float  # products after which no more is looked at
    moves: float  # of a step, on average (:func:`moves_of`)
    light: float  # share of what a leaf may be off by that a place is charged in full for; inf: every place


@bare_jit
def moves_of(person: LocalChain, steps: int) -> float:
    """How many moves a step of the person may be, on average over these steps alone.

    Work that is counted by it is the same however many slots there are besides.
    """
    total = 0
    for t in range(steps):
        column = person.chain.column_start[slot_of(person, t)]
        total += column[column.size - 1] - column[0]
    return total / steps


class Counts(NamedTuple):
    """What is published in a window, in order of time: of each count its outputs, and how likely they are.

    A count has the person in it so often, one of its *values*: of presence 0 times or once. An output ``o``
    comes with probability ``weight[g, o] likely[g, o, v]`` at the value ``v``; beyond ``size`` and ``values``
    there is nothing.
    """

    time: Integers  # (G,)
    value: Integers  # (G, K), the value at each place
    values: Integers  # (G,), how many there are
    size: Integers  # (G,), outputs
    weight: Floats  # (G, O)
    likely: Floats  # (G, O, V)


@jit
def counts_of(signals: OwnSignals) -> Counts:
    """Counts of presence: what comes off the cover is ``2 weight (1 - theta)``, on it ``2 weight theta``."""
    count, outputs = signals.theta.shape
    value, likely = signals.cover.astype(np.int64), np.zeros((count, outputs, 2))
    for g in range(count):
        for o in range(signals.size[g]):
            likely[g, o, 0] = 2.0 * (1.0 - signals.theta[g, o])
            likely[g, o, 1] = 2.0 * signals.theta[g, o]
    values = np.full(count, 2, np.int64)
    return Counts(signals.time, value, values, signals.size, signals.weight, likely)


class Limits(NamedTuple):
    """When the bound is close enough: ``precision`` of what is attained beyond the guess, or ``close``."""

    precision: float
    close: float
    nodes: int  # at most
    known: float  # a bound that holds already: no closer look once that much is attained
    told_apart: bool  # whether it is that of patterns told apart through the noise, of counts in each step
    enough: (
        float  # what the bound is compared with: no closer look once it is less, or more is attained; or -1
    )


AS_LOW_AS_MAY_BE = -1.0
"""``Limits.enough`` of a bound that is compared with nothing.

With any other the tree grows in the same order, and no bound of it rises: one that is low enough then is so
with this, too.
"""


class _Tree(NamedTuple):
    """Nodes in order of their creation, and memory. Bounds and what is won are sums over all laws.

    ``W`` is K in whole eights, ``V`` R, with zeros beyond (:mod:`accounting.hmm.few_places`).
    """

    parent: Integers  # (N,), -1: the root
    output: Integers  # (N,), of the parent's sensor
    sensor: Integers  # (N,), that is resolved behind it; -1: a leaf
    next_sensor: Integers  # (N,), which of those left costs a leaf most; -1: none
    mass: Floats  # (N, V), with this one at each of its values
    child: Integers  # (N,), the first; in order of outputs
    sibling: Integers  # (N,), the next one
    share: Floats  # (N,), weight of the output and its part of those between
    bound: Floats  # (N,)
    unshown: Floats  # (N,), bound on what is won behind a leaf where nobody is shown
    charge: Floats  # (N,), and on what is where somebody is
    won: Floats  # (N,), an estimate of what is attained; it only steers
    part: Floats  # (N, G V), of that on paths with each value of a count; not read for the first value
    gain: Floats  # (N,), the most that one more look behind it may gain
    excess: Floats  # (N,), the same by one more output of its own sensor
    wanted: Integers  # (N,), which
    is_searched: Flags  # (N,)
    guess: Integers  # (N, _GUESSES, T)
    guesses: Integers  # (N,), how many of them
    nodes: Integers  # (1,), how many there are
    newest: Integers  # (1,), the node searched last
    spent: Floats  # (1,), products
    law: Floats  # (R, W), of the first place
    laws: Floats  # (K, V), the same by place
    won_by_law: Floats  # (V,), by a guess
    most_by_law: Floats  # (V,), with a genie's help
    place: Floats  # (W,), their sum
    evidence: Floats  # (T, W), of the leaf that is looked at
    distance: Floats  # (G, V, V), total variation between two values
    is_resolved: Flags  # (G,)
    first_sensor: Integers  # (T + 1,), of each step
    covered: Integers  # (G, K), the places that each sensor counts
    covers: Integers  # (G,), how many of them
    base: Integers  # (G,), the likeliest value, which is not shown
    cost: Floats  # (G,), of each sensor that is left
    counted: Floats  # (G, V), mass at each value of these
    shown: Floats  # (T, W), how likely a place is shown
    success: Floats  # (T, s + 1, W), what is won behind a place that is shown
    trail: Floats  # (T, s + 1, W), completions where nobody is shown
    ahead: Floats  # (T, W), mass that comes to a place, the step's evidence included
    behind: Floats  # (T, W), mass behind it
    light: Floats  # (s + 1, W)
    more_light: Floats  # (s + 1, W)
    forward: Floats  # (T, s + 1, W), of a guess
    backward: Floats  # (_GUESSES, T, s + 1, W)
    moved: Floats  # (W,)
    rows: Floats  # (s + 1, W)
    together: Floats  # (K,), by first guess
    slot: Integers  # (T,), of each step
    label: Integers  # (T, K), what is guessed of each place; without labels the place itself
    is_right: Floats  # (T or 1, K, W), 1 at the places of each guess; without labels those of every step
    penalty: Integers  # (T,), mistakes that a wrong guess is; 0 where nothing is asked
    best: Floats  # (R,), what is won with each law
    best_guess: Integers  # (R,), by which guess of the node
    path: Integers  # (T,), that a search finds
    gains: Floats  # of the search
    completions: Completions
    memory: SearchMemory


@jit
def _new_tree(window: Window, counts: Counts, laws: Floats, nodes: int) -> _Tree:
    """Memory for so many nodes."""
    steps, places, mistakes, count = window.steps, window.end.size, window.mistakes, counts.time.size
    values = counts.likely.shape[2]
    rows, width, chain = mistakes + 1, padded(places), window.person.chain
    law, place = np.zeros((laws.shape[0], width)), np.zeros(width)
    law[:, :places] = laws
    by_place = np.zeros((places, padded(laws.shape[0])))
    by_place[:, : laws.shape[0]] = laws.T
    for r in range(laws.shape[0]):
        place += law[r]
    slot, penalty = np.empty(steps, np.int64), np.ones(steps, np.int64)
    label = np.empty((steps, places), np.int64)
    is_right = np.zeros((steps if is_labelled(chain) else 1, _labels_of(chain), width))
    memory = new_memory(chain, window.expansions, mistakes)
    for t in range(steps):
        slot[t] = slot_of(window.person, t)
        for x in range(places):
            label[t, x] = chain.label[slot[t], x] if is_labelled(chain) else x
            is_right[t % is_right.shape[0], label[t, x], x] = 1.0
        if is_labelled(chain):
            penalty[t] = chain.label[slot[t], places]
        if memory.full.is_there.size > 0 and not memory.full.is_there[slot[t]]:
            lay_out(chain, memory.full, slot[t])
    return _Tree(
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty((nodes, values)),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes),
        np.empty(nodes),
        np.empty(nodes),
        np.empty(nodes),
        np.empty(nodes),
        np.empty((nodes, count * values)),
        np.empty(nodes),
        np.empty(nodes),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.bool_),
        np.empty((nodes, _GUESSES, steps), np.int64),
        np.empty(nodes, np.int64),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        np.zeros(1),
        law,
        by_place,
        np.zeros(by_place.shape[1]),
        np.zeros(by_place.shape[1]),
        place,
        np.zeros((steps, width)),
        _distances(counts),
        np.empty(count, np.bool_),
        np.searchsorted(counts.time, np.arange(steps + 1)),
        *_covered(counts),
        np.empty(count, np.int64),
        np.empty(count),
        np.empty((count, values)),
        np.zeros((steps, width)),
        np.zeros((steps, rows, width)),
        np.zeros((steps, rows, width)),
        np.zeros((steps, width)),
        np.zeros((steps, width)),
        np.zeros((rows, width)),
        np.zeros((rows, width)),
        np.zeros((steps, rows, width)),
        np.zeros((_GUESSES, steps, rows, width)),
        np.zeros(width),
        np.zeros((rows, width)),
        np.empty(places),
        slot,
        label,
        is_right,
        penalty,
        np.empty(laws.shape[0]),
        np.empty(laws.shape[0], np.int64),
        np.empty(steps, np.int64),
        new_gains(steps, mistakes, places),
        Completions(np.zeros((rows, width)), np.zeros((rows, width)), np.zeros(width)),
        memory,
    )


@jit
def _labels_of(chain: ChainView) -> int:
    """How many labels may be guessed; of a chain without labels its places."""
    places = chain.start.shape[1]
    return int(chain.label[:, :places].max()) + 1 if is_labelled(chain) else places


@jit
def _distances(counts: Counts) -> Floats:
    """How much more often one value has the outputs of a count than another, (G, V, V): total variation."""
    most = counts.likely.shape[2]
    distance = np.zeros((counts.time.size, most, most))
    for g in range(counts.time.size):
        for v in range(counts.values[g]):
            for u in range(counts.values[g]):
                for o in range(counts.size[g]):
                    more = max(0.0, counts.likely[g, o, u] - counts.likely[g, o, v])
                    distance[g, v, u] += counts.weight[g, o] * more
    return distance


@jit
def _covered(counts: Counts) -> tuple[Integers, Integers]:
    """The places that each sensor counts, (G, K), and how many they are."""
    covered, covers = np.zeros(counts.value.shape, np.int64), np.zeros(counts.time.size, np.int64)
    for g in range(counts.time.size):
        for x in range(counts.value.shape[1]):
            if counts.value[g, x] > 0:
                covered[g, covers[g]] = x
                covers[g] += 1
    return covered, covers


# One move of the window's person: eight places at a time where there are few, else along the entries. What
# is computed place by place goes by eights, too: the compiler cannot know that two rows do not overlap.


@inline
def _move(chain: ChainView, t: int, here: Floats, there: Floats, is_back: bool, tree: _Tree) -> None:
    """From step ``t`` to the next, or back from that to it."""
    full, slot, places = tree.memory.full, tree.slot[t], tree.together.size
    if full.is_there.size > 0:
        move_few(full.columns if is_back else full.rows, slot, here, there)
    elif is_back:
        retreat(chain, slot, here[:places], there[:places])
    else:
        predict(chain, slot, here[:places], there[:places])


@inline
def _move_rows(chain: ChainView, t: int, here: Floats, there: Floats, is_back: bool, tree: _Tree) -> None:
    """:func:`_move` of rows (s + 1, W)."""
    full, m = tree.memory.full, 0
    while m < here.shape[0]:
        if m + 1 < here.shape[0] and full.is_there.size > 0:
            move_two_few(full.columns if is_back else full.rows, tree.slot[t], here, m, there)
            m += 2
        else:
            _move(chain, t, here[m], there[m], is_back, tree)
            m += 1


@inline
def _be_shown(chain: ChainView, t: int, before: Floats, tree: _Tree) -> None:
    """Completions ``before`` (s + 1, W) of step ``t`` from ``tree.completions.value`` behind it."""
    walk = tree.completions
    if tree.memory.full.is_there.size > 0 and not is_labelled(chain):
        guess_and_be_shown_few(tree.memory.full.columns, tree.slot[t], walk.value, before)
    else:
        top = walk.top[: tree.together.size]
        guess_and_be_shown(chain, tree.slot[t], Completions(walk.value, before, top))


@inline
def _see(t: int, rows: Floats, seen: Floats, tree: _Tree) -> None:
    """Rows (s + 1, W) of step ``t`` with its evidence."""
    for m in range(rows.shape[0]):
        multiply(rows, m, tree.evidence, t, seen, m)


@inline
def _see_guessed(t: int, guess: int, rows: Floats, seen: Floats, tree: _Tree) -> None:
    """The same where a wrong guess takes of the mistakes that a row allows, or adds to those it counts."""
    evidence, is_right, penalty = tree.evidence, tree.is_right, tree.penalty[t]
    tables, places, width = is_right.shape
    here = (t % tables * places + guess) * width
    for x in range(0, width, 8):
        right, weight = load(is_right, here + x), load(evidence, t * width + x)
        for m in range(rows.shape[0]):
            wrong = load(rows, (m - penalty) * width + x) if m >= penalty else spread_out(0.0)
            value = where_positive(load(rows, m * width + x), right, wrong)
            store(value * weight, seen, m * width + x)


@bare_jit
def _complete_trail(window: Window, tree: _Tree) -> None:
    """Fill ``tree.trail`` with the completions of every step where nobody is shown."""
    trail, steps = tree.trail, tree.trail.shape[0]
    for m in range(trail.shape[1]):
        for x in range(window.end.size):
            trail[steps - 1, m, x] = window.end[x]
    for t in range(steps - 1, 0, -1):
        _see(t, trail[t], tree.completions.value, tree)
        _be_shown(window.person.chain, t - 1, trail[t - 1], tree)


@bare_jit
def _lay_out(counts: Counts, node: int, tree: _Tree) -> None:
    """The evidence of a node, and which sensors it resolves."""
    evidence, places = tree.evidence, counts.value.shape[1]
    for t in range(evidence.shape[0]):
        for x in range(places):
            evidence[t, x] = 1.0
    tree.is_resolved[:] = False
    while tree.parent[node] >= 0:
        above = tree.parent[node]
        g = tree.sensor[above]
        t, o = counts.time[g], tree.output[node]
        for x in range(places):
            evidence[t, x] *= counts.likely[g, o, counts.value[g, x]]
        tree.is_resolved[g] = True
        node = above


@bare_jit
def _choose_sides(  # noqa: PLR0912 - one recursion over places
    window: Window, counts: Counts, tree: _Tree
) -> float:
    """Of each sensor left the likeliest value, and how likely all other places are shown; the mass."""
    chain, evidence, steps, places = window.person.chain, tree.evidence, window.steps, window.end.size
    ahead, behind, moved, shown, width = tree.ahead, tree.behind, tree.moved, tree.shown, tree.moved.size
    multiply(tree.place, 0, evidence, 0, ahead, 0)
    for x in range(places):
        behind[steps - 1, x] = window.end[x]
    for t in range(1, steps):
        _move(chain, t - 1, ahead[t - 1], moved, False, tree)
        multiply(moved, 0, evidence, t, ahead, t)
    for t in range(steps - 1, 0, -1):
        multiply(behind, t, evidence, t, moved, 0)
        _move(chain, t - 1, moved, behind[t - 1], True, tree)
    mass = 0.0
    for x in range(places):
        mass += ahead[steps - 1, x] * window.end[x]
    for x in range(0, steps * width, 8):
        store(spread_out(1.0), shown, x)
    for g in range(counts.time.size):
        if tree.is_resolved[g]:
            continue
        t, at, value, base = counts.time[g], tree.counted[g], counts.value[g], 0
        at[:] = 0.0
        for i in range(tree.covers[g]):
            x = tree.covered[g, i]
            at[value[x]] += ahead[t, x] * behind[t, x]
        at[0] = mass
        for v in range(1, counts.values[g]):
            at[0] -= at[v]
        at[0] = max(0.0, at[0])
        for v in range(1, counts.values[g]):
            base = v if at[v] > at[base] else base
        tree.base[g], distance = base, tree.distance[g, base]
        if base == 0:
            for i in range(tree.covers[g]):
                x = tree.covered[g, i]
                shown[t, x] *= 1.0 + distance[value[x]]
        else:
            for x in range(places):
                shown[t, x] *= 1.0 + distance[value[x]]
    for x in range(0, steps * width, 8):
        store(load(shown, x) - spread_out(1.0), shown, x)
    return mass


@bare_jit
def _first_step(won: Floats, tree: _Tree) -> float:
    """What is won from the first guess on, ``won`` (s + 1, K) behind it with a genie's help."""
    total, m, moved = 0.0, won.shape[0] - 1 - tree.penalty[0], tree.moved
    for x in range(tree.together.size):
        less = won[m, x] if m >= 0 else 0.0
        moved[x] = tree.evidence[0, x] * (won[won.shape[0] - 1, x] - less)
        total += tree.place[x] * tree.evidence[0, x] * less
    _most_of_one_guess(tree)
    for r in range(tree.law.shape[0]):
        total += tree.most_by_law[r]
    return total


@inline
def _most_of_one_guess(tree: _Tree) -> None:
    """The largest sum, of each law, of ``law[x] moved[x]`` over the places of one first guess."""
    laws, most, moved, together = tree.laws, tree.most_by_law, tree.moved, tree.together
    places, width = laws.shape
    if tree.is_right.shape[0] == tree.slot.size:  # a table for each step
        for r in range(tree.law.shape[0]):
            together[:] = 0.0
            most[r] = 0.0
            for x in range(places):
                guess = tree.label[0, x]
                together[guess] += laws[x, r] * moved[x]
                most[r] = max(most[r], together[guess])
    else:
        for r in range(0, width, 8):
            top = spread_out(0.0)
            for x in range(places):
                top = larger_of(top, load(laws, x * width + r) * spread_out(moved[x]))
            store(top, most, r)


@bare_jit
def _follow_back(window: Window, b: int, tree: _Tree) -> float:
    """Add to ``tree.success`` of the steps before ``b`` what the completions of one target win there.

    And what is won of it from the first guess on.
    """
    success, evidence = tree.success, tree.evidence
    before, value = tree.completions.before, tree.completions.value
    _, rows, width = success.shape
    for t in range(b - 1, -1, -1):
        for x in range(0, width, 8):
            seen = load(evidence, t * width + x)
            for m in range(rows):
                won, there = load(before, m * width + x), (t * rows + m) * width + x
                store(load(success, there) + won, success, there)
                store(won * seen, value, m * width + x)
        if t > 0:
            _be_shown(window.person.chain, t - 1, before, tree)
    return _first_step(before, tree)


@bare_jit
def _bound_by_showing(  # noqa: PLR0912 - one recursion over places
    window: Window, counts: Counts, slack: float, tree: _Tree
) -> tuple[float, float]:
    """What is won with a leaf's evidence if nobody is shown, and by those who are; costs of the sensors left.

    Whoever is shown at place ``y`` in step ``b``, and known to be shown there from the beginning, wins in the
    steps before what completions to ``y`` leave, and behind it ``success[b, y]``, which is known when all
    later targets have been followed back. Without a mistake the completions are largest products and exact.
    A target that is worth less than ``slack`` is charged in full.
    """
    chain, evidence, trail, more = window.person.chain, tree.evidence, tree.trail, tree.more_light
    steps, places = window.steps, window.end.size
    walk, success, light, (_, rows, width) = tree.completions, tree.success, tree.light, trail.shape
    light[:] = 0.0
    _complete_trail(window, tree)
    for x in range(0, steps * rows * width, 8):
        store(load(trail, x), success, x)
    unshown, shown, followed = _first_step(trail[0], tree), 0.0, steps
    tree.cost[:] = 0.0
    for b in range(steps - 1, -1, -1):
        more[:] = 0.0
        for x in range(0, rows * width, 8):
            there = b * rows * width + x
            store(load(success, there) + load(light, x), success, there)
        for y in range(places):
            if tree.shown[b, y] <= 0.0 or tree.ahead[b, y] <= 0.0:
                continue
            here = evidence[b, y] * tree.shown[b, y]
            if b == 0:
                first = tree.place[y] * here * success[0, rows - 1, y]
                shown += first
            else:
                column = chain.column_start[tree.slot[b - 1]]
                worth = tree.ahead[b, y] * tree.shown[b, y] * success[b, rows - 1, y]
                is_light = worth <= slack
                before = more if is_light else walk.before
                if not is_light:
                    before[:] = 0.0
                for m in range(rows):
                    for j in range(column[y], column[y + 1]):
                        before[m, chain.row[j]] += chain.value[j] * here * success[b, m, y]
                if is_light:
                    first = worth
                else:
                    first = _follow_back(window, b, tree)
                    followed += b
                    shown += first
            together = 0.0
            for g in range(tree.first_sensor[b], tree.first_sensor[b + 1]):
                if not tree.is_resolved[g] and counts.value[g, y] != tree.base[g]:
                    together += tree.distance[g, tree.base[g], counts.value[g, y]]
            for g in range(tree.first_sensor[b], tree.first_sensor[b + 1]):
                if not tree.is_resolved[g] and counts.value[g, y] != tree.base[g]:
                    tree.cost[g] += first * tree.distance[g, tree.base[g], counts.value[g, y]] / together
        if b > 0:
            _see(b, light, tree.rows, tree)
            _move_rows(chain, b - 1, tree.rows, light, True, tree)
            for x in range(0, rows * width, 8):
                store(load(light, x) + load(more, x), light, x)
    for x in range(places):
        shown += tree.place[x] * evidence[0, x] * light[rows - 1, x]
    tree.spent[0] += (followed + 3.0) * rows * window.moves
    return unshown, shown


@bare_jit
def _take_likeliest_paths(window: Window, counts: Counts, n: int, tree: _Tree) -> None:
    """Without a mistake the best guess of each law is the likeliest path (Viterbi), and known."""
    chain, evidence, trail, part = window.person.chain, tree.evidence, tree.trail, tree.part[n]
    steps, places = window.steps, window.end.size
    part[:] = 0.0
    tree.moved[:] = 0.0
    for r in range(tree.law.shape[0]):
        first, best = 0, 0.0
        for x in range(places):
            value = tree.law[r, x] * evidence[0, x] * trail[0, 0, x]
            if value > best:
                first, best = x, value
        tree.moved[first] += best
    tree.won[n] = tree.unshown[n]
    for first in range(places):
        if tree.moved[first] <= 0.0:
            continue
        place, g = first, 0
        for t in range(steps):
            if t > 0:
                column, best, before = chain.column_start[tree.slot[t - 1]], 0.0, place
                for y in range(places):
                    ahead = evidence[t, y] * trail[t, 0, y]
                    if ahead > 0.0:
                        for j in range(column[y], column[y + 1]):
                            if chain.row[j] == before and chain.value[j] * ahead > best:
                                best, place = chain.value[j] * ahead, y
            while g < counts.time.size and counts.time[g] == t:
                part[g * counts.likely.shape[2] + counts.value[g, place]] += tree.moved[first]
                g += 1


@inline
def _guesses_paths(window: Window) -> bool:
    """Whether all of a path of places must be guessed: then the best guess is known without a search."""
    return window.mistakes == 0 and not is_labelled(window.person.chain)


@bare_jit
def _try_guess(window: Window, n: int, number: int, tree: _Tree) -> None:
    """What one guess of a node wins with each law; fills ``tree.backward``."""
    steps, guess, rows, backward = window.steps, tree.guess[n, number], tree.rows, tree.backward[number]
    for m in range(rows.shape[0]):
        for x in range(window.end.size):
            backward[steps - 1, m, x] = window.end[x]
    for t in range(steps - 1, 0, -1):
        _see_guessed(t, guess[t], backward[t], rows, tree)
        _move_rows(window.person.chain, t - 1, rows, backward[t - 1], True, tree)
    _see_guessed(0, guess[0], backward[0], rows, tree)
    laws, by_law, (places, width) = tree.laws, tree.won_by_law, tree.laws.shape
    for r in range(0, width, 8):
        won = spread_out(0.0)
        for x in range(places):
            won = won + load(laws, x * width + r) * spread_out(rows[window.mistakes, x])
        store(won, by_law, r)
    for r in range(tree.law.shape[0]):
        if by_law[r] > tree.best[r]:
            tree.best[r], tree.best_guess[r] = by_law[r], number
    tree.spent[0] += float(steps * rows.shape[0]) * window.moves


@bare_jit
def _take_best_guesses(  # noqa: PLR0912 - one recursion over places
    window: Window, counts: Counts, n: int, tree: _Tree
) -> None:
    """What the best guess of each law wins, and of that what is on counted paths."""
    chain, mistakes, steps = window.person.chain, window.mistakes, window.steps
    forward, rows, part, width = tree.forward, tree.rows, tree.part[n], tree.moved.size
    part[:] = 0.0
    followed = tree.won[n] = 0.0
    for r in range(tree.law.shape[0]):
        tree.won[n] += tree.best[r]
    for number in range(tree.guesses[n]):
        rows[:] = 0.0
        is_used = False
        for r in range(tree.law.shape[0]):
            if tree.best_guess[r] == number:
                is_used = True
                followed += tree.best[r]
                for x in range(0, width, 8):
                    store(load(rows, x) + load(tree.law, r * width + x), rows, x)
        if not is_used:
            continue
        guess, backward = tree.guess[n, number], tree.backward[number]
        _see_guessed(0, guess[0], rows, forward[0], tree)
        for t in range(steps):
            if t > 0:
                _move_rows(chain, t - 1, forward[t - 1], rows, False, tree)
                _see_guessed(t, guess[t], rows, forward[t], tree)
            for g in range(tree.first_sensor[t], tree.first_sensor[t + 1]):
                if tree.is_resolved[g]:
                    for i in range(tree.covers[g]):
                        x = tree.covered[g, i]
                        won = 0.0
                        for m in range(mistakes + 1):
                            won += forward[t, m, x] * backward[t, mistakes - m, x]
                        part[g * counts.likely.shape[2] + counts.value[g, x]] += won
        tree.spent[0] += float(steps * (mistakes + 1)) * window.moves
    if followed > 0.0:  # of laws whose guess there was no room for, the same parts
        scale = tree.won[n] / followed
        for j in range(part.size):
            part[j] *= scale


@bare_jit
def _forget_guesses(tree: _Tree) -> None:
    """Nothing is won yet at the node that is looked at."""
    tree.best[:] = 0.0
    tree.best_guess[:] = -1


@bare_jit
def _add_guess(n: int, guess: Integers, tree: _Tree) -> int:
    """Put one more guess in a node, in the place of one that no law uses if need be; -1 if it is there."""
    count = tree.guesses[n]
    for number in range(count):
        is_same = True
        for t in range(guess.size):
            if tree.guess[n, number, t] != guess[t]:
                is_same = False
        if is_same:
            return -1
    number = count
    if count == _GUESSES:
        number = -1
        for other in range(count):
            is_used = False
            for r in range(tree.law.shape[0]):
                if tree.best_guess[r] == other:
                    is_used = True
            if not is_used:
                number = other
        if number < 0:
            return -1
    else:
        tree.guesses[n] = count + 1
    for t in range(guess.size):
        tree.guess[n, number, t] = guess[t]
    return number


@bare_jit
def _new_node(window: Window, counts: Counts, parent: int, output: int, tolerance: float, tree: _Tree) -> int:
    """A new leaf, bounded by what the sensors left may show at most."""
    n = tree.nodes[0]
    tree.nodes[0] = n + 1
    tree.parent[n], tree.output[n] = parent, output
    tree.sensor[n] = tree.child[n] = tree.sibling[n] = tree.wanted[n] = tree.next_sensor[n] = -1
    tree.excess[n], tree.is_searched[n], tree.guesses[n] = 0.0, _guesses_paths(window), 0
    _lay_out(counts, n, tree)
    mass = _choose_sides(window, counts, tree)
    unshown, shown = _bound_by_showing(window, counts, window.light * tolerance, tree)
    tree.unshown[n], tree.charge[n], tree.bound[n] = unshown, shown, min(mass, unshown + shown)
    most = 0.0
    for g in range(counts.time.size):
        if not tree.is_resolved[g] and tree.cost[g] > most:
            most, tree.next_sensor[n] = tree.cost[g], g
    for v in range(tree.mass.shape[1] if tree.next_sensor[n] >= 0 else 0):
        tree.mass[n, v] = tree.counted[tree.next_sensor[n], v]
    tree.spent[0] += 3.0 * window.steps * window.moves  # masses there and back, and what is combined
    if _guesses_paths(window):
        _take_likeliest_paths(window, counts, n, tree)
    else:
        _forget_guesses(tree)
        if parent >= 0:
            tree.guesses[n] = tree.guesses[parent]
            for number in range(tree.guesses[n]):
                for t in range(window.steps):
                    tree.guess[n, number, t] = tree.guess[parent, number, t]
                _try_guess(window, n, number, tree)
            for number in range(tree.guesses[tree.newest[0]]):
                new = _add_guess(n, tree.guess[tree.newest[0], number], tree)
                if new >= 0:
                    _try_guess(window, n, new, tree)
        else:
            tree.won[n] = 0.0
        _take_best_guesses(window, counts, n, tree)
    _find_leaf_gain(n, tree)
    return n


@bare_jit
def _find_leaf_gain(n: int, tree: _Tree) -> None:
    """What a closer look at a leaf may gain; nothing if it has been searched and no sensor is left."""
    is_done = tree.is_searched[n] and tree.next_sensor[n] < 0
    gain = tree.bound[n] - tree.won[n]
    tree.gain[n] = 0.0 if is_done or gain <= _ROUNDING else gain


@bare_jit
def _search_leaf(window: Window, counts: Counts, n: int, tolerance: float, tree: _Tree) -> None:
    """Bound what is won where nobody is shown by a search for each law instead of completions."""
    trail, law = tree.trail, tree.law
    _lay_out(counts, n, tree)
    steps, places, rows, person = window.steps, window.end.size, window.mistakes + 1, window.person
    _complete_trail(window, tree)
    for t in range(steps):
        gains_of(trail[t], tree.gains[t])
    _forget_guesses(tree)
    for number in range(tree.guesses[n]):
        _try_guess(window, n, number, tree)
    slack = max(_SLACK * tree.charge[n], _SLACK * (tree.unshown[n] - tree.won[n]), 0.2 * tolerance)
    before = tree.memory.spent[0]
    total, is_cut, mass = 0.0, False, 0.0
    wrong = rows - 1 - tree.penalty[0]
    for x in range(places):
        mass += tree.place[x]
        less = trail[0, wrong, x] if wrong >= 0 else 0.0
        tree.moved[x] = tree.evidence[0, x] * (trail[0, rows - 1, x] - less)
    _most_of_one_guess(tree)
    for r in range(law.shape[0]):
        linear = own = 0.0
        for x in range(places):
            own += law[r, x]
            less = trail[0, wrong, x] if wrong >= 0 else 0.0
            linear += law[r, x] * tree.evidence[0, x] * less
        top = tree.most_by_law[r]
        own_slack = 0.5 * slack * (own / mass + 1.0 / law.shape[0])
        if linear + top - tree.best[r] <= own_slack:
            total += linear + top
            continue
        found = search(
            person,
            tree.evidence,
            law[r],
            0,
            steps - 1,
            tree.gains,
            window.mistakes,
            window.expansions,
            own_slack,
            tree.memory,
        )
        is_cut |= found.bound - found.attained > own_slack
        total += min(found.bound, linear + top)
        if found.parent >= 0 and found.attained > tree.best[r]:
            found_guess(tree.memory, found, tree.path)
            number = _add_guess(n, tree.path, tree)
            if number >= 0:
                _try_guess(window, n, number, tree)
            tree.best[r] = max(tree.best[r], found.attained)
    tree.spent[0] += (tree.memory.spent[0] - before + steps) * rows * window.moves
    tree.is_searched[n] = is_cut or slack <= 0.2 * tolerance
    if total < tree.unshown[n]:
        tree.bound[n] = min(tree.bound[n], total + tree.charge[n])
        tree.unshown[n] = total
    _take_best_guesses(window, counts, n, tree)
    tree.newest[0] = n
    _find_leaf_gain(n, tree)


@bare_jit
def _line(counts: Counts, g: int, child: int, o: int, tree: _Tree) -> float:
    """What the best guess of a kept output wins at another one."""
    own, here, first = counts.likely[g, tree.output[child]], counts.likely[g, o], g * counts.likely.shape[2]
    total, left = 0.0, tree.won[child]
    for v in range(1, counts.values[g]):
        part = tree.part[child, first + v]
        left -= part
        if own[v] > 0.0:
            total += part * here[v] / own[v]
    return total + left * here[0] / own[0] if own[0] > 0.0 else total


class _Between(NamedTuple):
    """How much of two kept outputs covers one between them, and the mass of those whom it leaves out."""

    low: float
    high: float
    mass: float


@bare_jit
def _between(counts: Counts, n: int, low: int, high: int, o: int, tree: _Tree) -> _Between:
    """An output is no more than so much of two others: exactly so at the two values by which least is won.

    At other values it may be more than these: then whoever has them wins. Of presence there are two values,
    and nobody is left out; under Gaussian noise nobody is by two values next to each other, as ``t^n`` is
    convex in ``t``. Where outputs do not cover another one so, everybody wins by it.
    """
    g = tree.sensor[n]
    first, last = counts.likely[g, tree.output[low]], counts.likely[g, tree.output[high]]
    here, values, most = counts.likely[g, o], counts.values[g], 0.0
    if values == _OF_PRESENCE:
        whole = first[0] * last[1] - last[0] * first[1]
        below, above = here[0] * last[1] - last[0] * here[1], first[0] * here[1] - here[0] * first[1]
        if whole > 0.0 and below >= 0.0 and above >= 0.0:
            return _Between(below / whole, above / whole, 0.0)
    for v in range(values):
        most += here[v] * tree.mass[n, v]
    found, least = _Between(0.0, 0.0, most), most
    for pair in range(values):  # neighbours, and the first with the last
        v, u = (pair, pair + 1) if pair + 1 < values else (0, values - 1)
        whole = first[v] * last[u] - last[v] * first[u]
        below, above = here[v] * last[u] - last[v] * here[u], first[v] * here[u] - here[v] * first[u]
        if whole <= 0.0 or below < 0.0 or above < 0.0:
            continue
        below, above, left = below / whole, above / whole, 0.0
        for w in range(values):
            if w not in (v, u):
                left += max(0.0, here[w] - below * first[w] - above * last[w]) * tree.mass[n, w]
        cost = below * tree.bound[low] + above * tree.bound[high] + left
        if cost < least:
            found, least = _Between(below, above, left), cost
    return found


@bare_jit
def _combine(counts: Counts, n: int, tree: _Tree) -> None:
    """A node's bound, an estimate of what is won, and which output would be kept next, from its children."""
    g = tree.sensor[n]
    weight = counts.weight[g]
    child = tree.child[n]
    while child >= 0:
        tree.share[child] = weight[tree.output[child]]
        child = tree.sibling[child]
    tree.excess[n], tree.wanted[n] = 0.0, -1
    excess, left, low = 0.0, 0.0, tree.child[n]
    high = tree.sibling[low]
    while high >= 0:
        first, last = tree.output[low], tree.output[high]
        inside, worst, which = 0.0, 0.0, -1
        # a guess that seems to win more at the other end than is to be won there has wrong parts
        is_low_right = _line(counts, g, low, last, tree) <= tree.bound[high]
        is_high_right = _line(counts, g, high, first, tree) <= tree.bound[low]
        for o in range(first + 1, last):
            between = _between(counts, n, low, high, o, tree)
            tree.share[high] += weight[o] * between.high
            tree.share[low] += weight[o] * between.low
            left += weight[o] * between.mass
            chord = tree.won[low] * between.low + tree.won[high] * between.high + between.mass
            line = _line(counts, g, low, o, tree) if is_low_right else 0.0
            if is_high_right:
                line = max(line, _line(counts, g, high, o, tree))
            more = max(0.0, chord - line)
            inside += weight[o] * more
            if np.sqrt(weight[o]) * more > worst:
                worst, which = np.sqrt(weight[o]) * more, o
        excess += inside
        if which >= 0 and inside > tree.excess[n]:
            tree.excess[n], tree.wanted[n] = inside, which
        low, high = high, tree.sibling[high]
    bound = together = left
    gain = tree.excess[n]
    tree.part[n] = 0.0
    child = tree.child[n]
    while child >= 0:
        share = tree.share[child]
        bound += share * tree.bound[child]
        together += share * tree.won[child]
        gain = max(gain, share * tree.gain[child])
        for j in range(tree.part.shape[1]):
            tree.part[n, j] += share * tree.part[child, j]
        child = tree.sibling[child]
    won = max(0.0, together - excess)
    if together > 0.0:
        for j in range(tree.part.shape[1]):
            tree.part[n, j] *= won / together
    tree.bound[n] = min(tree.bound[n], bound)
    tree.won[n], tree.gain[n] = won, gain


@bare_jit
def _keep(window: Window, counts: Counts, n: int, o: int, tolerance: float, tree: _Tree) -> None:
    """Keep one more output of a node's sensor; between two that are kept it is no more than their chord."""
    before, after = -1, tree.child[n]
    while after >= 0 and tree.output[after] < o:
        before, after = after, tree.sibling[after]
    new = _new_node(window, counts, n, o, tolerance, tree)
    if before >= 0 and after >= 0:
        between = _between(counts, n, before, after, o, tree)
        chord = between.low * tree.bound[before] + between.high * tree.bound[after] + between.mass
        tree.bound[new] = min(tree.bound[new], chord)
        _find_leaf_gain(new, tree)
    tree.sibling[new] = after
    if before >= 0:
        tree.sibling[before] = new
    else:
        tree.child[n] = new


@bare_jit
def _resolve(window: Window, counts: Counts, n: int, tolerance: float, tree: _Tree) -> None:
    """Resolve one more sensor behind a leaf: its outermost outputs, and those beyond which is little."""
    g = tree.next_sensor[n]
    tree.sensor[n] = g
    size, weight, mass = counts.size[g], counts.weight[g], tree.mass[n]
    counted = farthest = 0.0
    for v in range(1, counts.values[g]):
        counted += mass[v]
        farthest = max(farthest, tree.distance[g, 0, v])
    chance = counted / (mass[0] + counted) if counted > 0.0 else 0.0
    most = _BEYOND_FLAT if farthest < _FLAT else _BEYOND
    lower, total = 0, weight[0]
    while lower < size - 1 and total < most:
        lower += 1
        total += weight[lower]
    upper, total = size - 1, weight[size - 1]
    while upper > 0 and total < most:
        upper -= 1
        total += weight[upper]
    for o in range(size):
        is_first = o == 0 or o == size - 1 or (o == lower and chance > 0.3) or (o == upper and chance < 0.7)
        if is_first:
            _keep(window, counts, n, o, tolerance, tree)


@bare_jit
def _is_decided(limits: Limits, tree: _Tree) -> bool:
    """Whether the bound is low enough, or never will be."""
    is_low = tree.bound[0] * (1.0 + _ROUNDING) <= limits.enough
    return is_low or 0.0 <= limits.enough < tree.won[0]


@bare_jit
def _grow(  # noqa: PLR0912 - one loop over looks
    window: Window, counts: Counts, limits: Limits, guess: float, tree: _Tree
) -> None:
    """Grow the tree until bound and won are close, where a closer look gains most first.

    Or until a quarter of the work is done, or a sixteenth of much, and the rest will hardly bring the bound
    below what is known: each fourfold work lowers it by hardly more than the last, at first by up to twice as
    much. If all patterns were ``told_apart``, also where the bound is ``_FAR`` times as far above what is
    known as that is above what is won.
    """
    root, tolerance, before = 0, limits.close, np.inf
    fourfold = 3 if window.operations >= _MUCH else 2
    while tree.gain[root] > 0.0:
        has_come = False
        while fourfold > 0 and tree.spent[0] > window.operations / 4.0**fourfold:
            has_come, fourfold = True, fourfold - 1
        if has_come:
            far = _FAR[fourfold] * (limits.known - tree.won[root])
            if limits.told_apart and tree.bound[root] - limits.known > far:
                break
            if tree.bound[root] - limits.known > (fourfold + 1) ** 2 * (before - tree.bound[root]):
                break
            before = tree.bound[root]
            if fourfold == 2 and before > 1.0 - limits.close:  # cut, which does not say how fast it falls
                before = np.inf
        is_enough = tree.won[root] >= limits.known or _is_decided(limits, tree)
        tolerance = max(limits.close, limits.precision * (tree.won[root] - guess))
        if is_enough or tree.bound[root] - tree.won[root] <= tolerance:
            break
        is_full = tree.nodes[0] + _FIRST_CHILDREN > tree.parent.size
        if is_full or tree.spent[0] > window.operations:
            break
        allowed = max(tolerance, 0.1 * (tree.bound[root] - tree.won[root]))
        n = root
        while tree.sensor[n] >= 0:
            most, chosen, child = tree.excess[n], -1, tree.child[n]
            while child >= 0:
                if tree.share[child] * tree.gain[child] > most:
                    most, chosen = tree.share[child] * tree.gain[child], child
                child = tree.sibling[child]
            if chosen < 0:
                break
            n = chosen
        if tree.sensor[n] >= 0:
            if tree.wanted[n] < 0:
                break
            _keep(window, counts, n, tree.wanted[n], allowed, tree)
            _combine(counts, n, tree)
        elif not tree.is_searched[n] and (
            tree.next_sensor[n] < 0 or tree.unshown[n] - tree.won[n] > tree.charge[n]
        ):
            _search_leaf(window, counts, n, allowed, tree)
        else:
            _resolve(window, counts, n, allowed, tree)
            _combine(counts, n, tree)
        n = tree.parent[n]
        while n >= 0:
            _combine(counts, n, tree)
            n = tree.parent[n]


@bare_jit
def affordable_operations(vectors: int, mistakes: int) -> float:
    """The products that so many vectors are worth: where more may be wrong a tree takes many more leaves."""
    return OPERATIONS_PER_VECTOR * vectors * (max(2, mistakes + 1) / 2.0) ** 2


@jit
def limits_for(window: Window, nodes: int, known: float, told_apart: bool, enough: float) -> Limits:
    """Those of ceilings: so many nodes, and no closer look once ``known`` is attained."""
    precision = LABELLED_PRECISION if is_labelled(window.person.chain) else PRECISION
    return Limits(precision, CLOSE, nodes, known, told_apart, enough)


@jit
def affordable_nodes(
    counts: Counts, hits: int, steps: int, places: int, mistakes: int, moves: float, operations: float
) -> int:
    """How many nodes a tree may have; 0 where a few of them already take more than these operations.

    At each of the ``hits`` a leaf follows back those who are shown there.
    """
    leaf = (1.0 + hits) * steps * (mistakes + 1) * (moves + places)
    each = _GUESSES * steps + counts.time.size * counts.likely.shape[2]
    nodes = min(_MOST_NODES, _MOST_ENTRIES // each)
    return nodes if nodes >= _FEWEST_NODES and _FEWEST_NODES * leaf <= operations else 0


# The laws of the first place that a history leaves: what is won behind each is bounded by a few.
#
# ``f <= sum_j l_j c_j + sum_x r_x delta_x`` with ``l, r >= 0`` gives ``V(f) <= sum_j l_j V(c_j) + sum_x r_x
# V(delta_x)``: the least such sum is a linear programme of a row for each place.


@bare_jit
def least_cover(  # noqa: PLR0912 - one recursion over places
    law: Floats,
    points: Floats,
    count: int,
    point_cost: Floats,
    corner_cost: Floats,
    tableau: Floats,
    basis: Integers,
    outside: Integers,
    amount: Floats,
) -> None:
    """Cover ``law`` (K,) by the first ``count`` points and the corners at the least cost.

    ``amount`` (P + K,) becomes how much of each, the corners last. Whatever the pivots have come to, the
    corners make up what the points leave, so that the law is covered; what rounding covers twice is no harm.
    ``tableau`` (K + 1, W), ``basis`` (K,) and ``outside`` (P,) are memory; ``W`` is P + 1 in whole eights.
    The simplex method, begun from the corners alone, with columns of what is outside the basis, the amounts
    in the one behind the points and the gains in the last row; the column with the largest gain enters
    (Dantzig).
    """
    places, most, mass, width, nothing = law.size, points.shape[0], 0.0, tableau.shape[1], spread_out(0.0)
    for x in range(places):
        mass += law[x]
        basis[x] = most + x
    tableau[:] = 0.0
    for j in range(count):
        outside[j], saved = j, -point_cost[j]
        for x in range(places):
            tableau[x, j] = points[j, x]
            saved += corner_cost[x] * points[j, x]
        tableau[places, j] = saved
    for x in range(places):
        tableau[x, most] = law[x] / mass
    for _ in range(4 * places):
        enters, gain = -1, 1e-12
        for j in range(0, width, 8):
            gains = replaced(load(tableau, places * width + j), most - j, nothing)
            if largest(gains) > gain:
                gain = largest(gains)
                enters = j + first_equal(gains, gain)
        leaves, least = -1, np.inf
        if enters >= 0:
            for x in range(places):
                if tableau[x, enters] > 1e-9:
                    ratio = max(0.0, tableau[x, most]) / tableau[x, enters]
                    if ratio < least - 1e-12 or (
                        ratio < least + 1e-12 and tableau[x, enters] > tableau[leaves, enters]
                    ):
                        leaves, least = x, ratio
        if leaves < 0:
            break
        inverse = 1.0 / tableau[leaves, enters]
        for j in range(0, width, 8):
            row = replaced(load(tableau, leaves * width + j), enters - j, spread_out(1.0))
            row = row * spread_out(inverse)
            store(row, tableau, leaves * width + j)
        for x in range(places + 1):
            factor = tableau[x, enters]
            if x != leaves and factor != 0.0:
                for j in range(0, width, 8):
                    here = replaced(load(tableau, x * width + j), enters - j, nothing)
                    there = load(tableau, leaves * width + j)
                    store(here - spread_out(factor) * there, tableau, x * width + j)
        basis[leaves], outside[enters] = outside[enters], basis[leaves]
    for j in range(most + places):
        amount[j] = 0.0
    for x in range(places):
        if basis[x] < most:
            amount[basis[x]] = max(0.0, tableau[x, most]) * mass
    fits = 1.0
    for x in range(places):
        covered = 0.0
        for j in range(count):
            covered += amount[j] * points[j, x]
        if covered > law[x] + 1e-9 * mass:
            fits = min(fits, law[x] / covered)
    for j in range(count):
        amount[j] *= fits
    for x in range(places):
        left = law[x]
        for j in range(count):
            left -= amount[j] * points[j, x]
        amount[most + x] = max(0.0, left)


class _Cover(NamedTuple):
    """Memory of covers."""

    tableau: Floats  # (K + 1, W), W for P + 1
    basis: Integers  # (K,)
    outside: Integers  # (P,)
    amount: Floats  # (P + K,)
    point_cost: Floats  # (P,)
    corner_cost: Floats  # (K,)


@jit
def _new_cover(points: int, places: int) -> _Cover:
    return _Cover(
        np.zeros((places + 1, padded(points + 1))),
        np.zeros(places, np.int64),
        np.zeros(points, np.int64),
        np.zeros(points + places),
        np.zeros(points),
        np.zeros(places),
    )


@jit
def _thinned(  # noqa: PLR0912 - one recursion over places
    laws: Floats, count: int, most: int, marginal: Floats, cover: _Cover
) -> int:
    """Keep ``most`` of the laws, the farthest from each other first; these and corners cover the others.

    How many there are then; a corner is a law of its own.
    """
    places = laws.shape[1]
    kept = 0
    for i in range(count):
        mass = laws[i].sum()
        if mass > 0.0:
            laws[kept] = laws[i]
            kept += 1
    count = kept
    if count <= most:
        return count
    away, mass, shape = np.full(count, np.inf), np.empty(count), np.empty((count, places))
    for x in range(places):
        cover.corner_cost[x] = 1.0 / marginal[x]
    for i in range(count):
        mass[i] = laws[i].sum()
        for x in range(places):
            shape[i, x] = laws[i, x] / mass[i]
    # the heaviest, then always the one farthest from those kept, by mass times chi-square distance
    chosen = 0
    for i in range(count):
        if mass[i] > mass[chosen]:
            chosen = i
    for k in range(most):
        for x in range(places):
            laws[k, x], laws[chosen, x] = laws[chosen, x], laws[k, x]
            shape[k, x], shape[chosen, x] = shape[chosen, x], shape[k, x]
        mass[k], mass[chosen] = mass[chosen], mass[k]
        away[k], away[chosen] = away[chosen], away[k]
        chosen = -1
        farthest = -1.0
        for i in range(k + 1, count):
            distance = 0.0
            for x in range(places):
                distance += (shape[i, x] - shape[k, x]) ** 2 * cover.corner_cost[x]
            away[i] = min(away[i], mass[i] * distance)
            if away[i] > farthest:
                chosen, farthest = i, away[i]
        if chosen < 0:
            break
    points, left, more = shape[:most], np.zeros(places), np.zeros(most)
    for k in range(most):
        cover.point_cost[k] = 0.0
        for x in range(places):
            cover.point_cost[k] += points[k, x] ** 2 * cover.corner_cost[x]
    for i in range(most, count):
        if laws[i].max() == mass[i]:  # a corner
            left += laws[i]
            continue
        least_cover(
            laws[i],
            points,
            most,
            cover.point_cost,
            cover.corner_cost,
            cover.tableau,
            cover.basis,
            cover.outside,
            cover.amount,
        )
        for k in range(most):
            more[k] += cover.amount[k]
        for x in range(places):
            left[x] += cover.amount[most + x]
    for k in range(most):
        for x in range(places):
            laws[k, x] += more[k] * points[k, x]
    count = most
    for x in range(places):
        if left[x] > 0.0:
            laws[count] = 0.0
            laws[count, x] = left[x]
            count += 1
    return count


@jit
def thinned_laws(laws: Floats, most: int, marginal: Floats) -> Floats:
    """Laws (R, K) that cover these (n, K): at most ``most``, and one for each place that they do not cover.

    ``marginal`` (K,) says which places are likely.
    """
    count, places = laws.shape
    space, near = np.zeros((max(count, most + places), places)), np.empty(places)
    space[:count] = laws
    for x in range(places):
        near[x] = max(marginal[x], 1e-3)
    return space[: _thinned(space, count, most, near, _new_cover(most, places))].copy()


@jit
def history_laws(
    person: LocalChain, signals: OwnSignals, laws: Floats, steps: int, marginal: Floats, most: int
) -> Floats:
    """Laws (R, K) of the place after ``steps`` steps; what is won behind all outcomes is at most their sum.

    ``laws`` are those before the first; ``signals`` in the order of time, with few outputs each; ``marginal``
    (T, K). At most ``most`` laws, and one for each place that they do not cover.
    """
    places = laws.shape[1]
    outputs = max(2, signals.theta.shape[1])
    space = np.zeros(((most + 2 * places) * outputs + places, places))
    count = laws.shape[0]
    space[:count] = laws
    moved, near = np.empty(places), np.empty(places)
    cover = _new_cover(most, places)
    g = 0
    for t in range(steps):
        for x in range(places):
            near[x] = max(marginal[t, x], 1e-3)
        while g < signals.time.size and signals.time[g] == t:
            for o in range(signals.size[g] - 1, -1, -1):
                for i in range(count):
                    for x in range(places):
                        theta = signals.theta[g, o] if signals.cover[g, x] else 1.0 - signals.theta[g, o]
                        space[o * count + i, x] = space[i, x] * (2.0 * signals.weight[g, o] * theta)
            count = _thinned(space, count * signals.size[g], most, near, cover)
            g += 1
        for i in range(count):
            predict(person.chain, slot_of(person, t), space[i], moved)
            space[i] = moved
    return space[:count].copy()


@shared
@jit
def sandwich_success(
    window: Window, counts: Counts, laws: Floats, limits: Limits
) -> tuple[float, float, float]:
    """Bound on what anybody wins, an estimate of what is attained, and the products that it took.

    ``laws`` (R, K) are those of the first place.
    """
    tree = _new_tree(window, counts, laws, limits.nodes)
    _new_node(window, counts, -1, -1, limits.close, tree)
    guess = tree.won[0]
    if not _guesses_paths(window) and not _is_decided(limits, tree):
        _search_leaf(window, counts, 0, limits.close, tree)
        guess = 0.0
        for number in range(tree.guesses[0]):
            guess = max(guess, _won_with_sum(tree, number, window.mistakes))
    _grow(window, counts, limits, guess, tree)
    return min(1.0, tree.bound[0] * (1.0 + _ROUNDING)), tree.won[0], tree.spent[0]


@bare_jit
def _won_with_sum(tree: _Tree, number: int, mistakes: int) -> float:
    """What one of the root's guesses wins whatever the law."""
    won, first = 0.0, tree.guess[0, number, 0]
    for x in range(tree.together.size):
        m = mistakes if tree.label[0, x] == first else mistakes - tree.penalty[0]
        won += tree.place[x] * tree.backward[number, 0, m, x] if m >= 0 else 0.0
    return won
