"""Priors with several states a place say of places what they were made from, by enumeration."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, pairwise, product

import numpy as np
import pytest

from models.exceptions import PriorError
from models.priors import MovementPrior, Population, second_order, with_stays

STEPS = 5


def chances_of_places(prior: MovementPrior) -> dict[tuple[int, ...], float]:
    """The probability of each path of places, from the stationary start."""
    chain = Population.pack([prior]).chain(0)
    moves = prior.transitions[0].toarray()
    found: dict[tuple[int, ...], float] = {}
    for states in product(range(chain.places.size), repeat=STEPS):
        chance = chain.start[0][states[0]]
        for here, there in pairwise(states):
            chance *= moves[here, there]
        if chance > 0.0:
            path = tuple(chain.places[list(states)].tolist())
            found[path] = found.get(path, 0.0) + chance
    return found


def test_the_next_place_depends_on_the_last_two() -> None:
    random = np.random.default_rng(1)
    chances = random.dirichlet(np.ones(3), size=(3, 3))
    chances[0, 1] = [0.0, 1.0, 0.0]
    found = chances_of_places(second_order("x", chances, [2, 4, 7]))
    assert sum(found.values()) == pytest.approx(1.0)
    number = {2: 0, 4: 1, 7: 2}
    for path, chance in found.items():
        a, b, c = (number[place] for place in path[-3:])
        before = sum(other for each, other in found.items() if each[:-1] == path[:-1])
        assert chance / before == pytest.approx(chances[a, b, c])


def test_stays_last_as_long_as_their_law_says() -> None:
    """Every stay within a path that begins and ends there; after it one is at another place, by the moves."""
    stays = [[0.0, 0.5, 0.5], [0.25, 0.75], [1.0]]
    moves = np.array([[9.0, 0.2, 0.8], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    found = chances_of_places(with_stays("x", moves, stays))
    assert sum(found.values()) == pytest.approx(1.0)
    whole = ([(place, len(list(stay))) for place, stay in groupby(path)][1:-1] for path in found)
    lengths = {stay for stays_inside in whole for stay in stays_inside}
    assert lengths == {(0, 2), (0, 3), (1, 1), (1, 2), (2, 1)}
    one, two = (sum(found[path] for path in found if path[: n + 2] == (0, *[1] * n, 0)) for n in (1, 2))
    assert two / one == pytest.approx(3.0), "stays of two steps to those of one: 0.75 to 0.25"
    first, second = (sum(found[path] for path in found if path[:2] == (0, place)) for place in (1, 2))
    assert second / first == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: second_order("x", [[0.5, 0.5]]), "one number for each three places in a row"),
        (lambda: second_order("x", [[[0, 1], [1, 0]], [[0, 0], [0, 1]]]), "a move that leads there"),
        (lambda: with_stays("x", [[0, 1], [1, 0]], [[0.5], [1]]), "at place 0 must be probabilities"),
        (lambda: with_stays("x", [[1, 0], [1, 0]], [[1], [1]]), "able to leave place 0"),
        (lambda: with_stays("x", [[1]], [[1]]), "moves between 2 places or more"),
    ],
)
def test_what_is_no_such_prior_is_refused(call: Callable[[], MovementPrior], said: str) -> None:
    with pytest.raises(PriorError, match=said):
        call()
