"""The frontier search: the best guess of places that may be wrong in ``s`` steps, by branch and bound.

For a prefix of guesses ``g_1..g_t`` let ``C_t[m, x]`` be the mass of the paths with ``X_t = x`` that at most
``m`` of them miss. With ``w[m] = (C_t[m] P) e``, ``e`` the evidence of the next step, the guess ``g`` makes

    C_(t+1)[m, x] = w[m, x] if x = g else w[m - 1, x]        (0 for m = 0),

and a whole guess succeeds with ``sum_x C_n[s, x]``. The *completion* of a prefix is what could still be won
behind it with a genie who shows the truth after every further guess (``completion_kernel``): never less than
any guess wins that begins so. The open prefix with the largest completion is expanded first, and each of its
children becomes open with its own completion. Whenever the search ends, the largest open completion, or the
best whole guess if that is more, bounds every guess; once no open one is above the best whole guess, that
is the optimum. A prefix whose ``C`` is nowhere above that of an expanded one of the same length and last
guess is never worth more, and is dropped. Best-first search (Hart, Nilsson and Raphael 1968) with that
completion is beyond Koga et al.

For example two steps, each spent at place 0 with probability 2/3 and else at 1, no mistake allowed. Guess 0
leaves 2/3 * 2/3 = 4/9 to be won, guess 1 leaves 1/3 * 2/3 = 2/9. Behind 0, guess 0 wins 4/9: a whole guess,
and what is open, 2/9 behind 1, is less. It is the optimum after two expansions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.hmm.frontier.completion_kernel import completion_gains, new_completions, new_gains
from accounting.hmm.frontier.memory_kernel import SearchMemory, new_memory, open_one, open_passed, take_child
from accounting.hmm.frontier.prefix_kernel import (
    begin_search,
    complete,
    is_dominated,
    lengthen,
    look_ahead,
    look_at_first,
    look_far_ahead,
)
from accounting.hmm.local_chain_kernel import LocalChain, slot_of
from models.numerics.jit import bare_jit, jit
from models.priors.chain import ChainView

_MOST_ENTRIES = 1 << 22  # 32 MiB a table
_MOST_PRODUCTS = 1 << 22  # some milliseconds of one core, where more than one expansion a step is asked for
_MOST_FOR_ONE = 1 << 28


class Found(NamedTuple):
    """``attained <= max over guesses <= bound``, of masses: at most that of the law searched."""

    bound: float
    attained: float  # by the guess of :func:`found_guess`
    parent: int  # that guess but for its last step, as a number of expansion; -1: nothing can be won
    guess: int  # its last step


class SearchQuestion(NamedTuple):
    """What is searched for, and how hard."""

    mistakes: int  # allowed
    expansions: int  # at most, and at least one a step
    slack: float  # the search ends once nothing open is above the best whole guess by more


@bare_jit
def search(
    person: LocalChain,
    weight: NDArray[np.float64],
    law: NDArray[np.float64],
    steps: tuple[int, int],
    gains: NDArray[np.float64],
    question: SearchQuestion,
    memory: SearchMemory,
) -> Found:
    """The best guess of the steps ``first..last`` of ``steps``, at most ``question.mistakes`` of it wrong.

    ``law`` (K,) is the mass at each place in the first of them before its evidence ``weight[first]``;
    ``gains`` (T, s + 1, W) those of :func:`completion_gains` for what is won after the last. The search
    begins with a dive to a whole guess, always to the child with the largest completion, unless even that
    completion is within the slack. :class:`ValueError` for gains of another width.
    """
    if gains.shape[2] != memory.child.shape[1]:
        raise ValueError("gains must be those of new_gains, as wide as the memory")
    first, last = steps
    begin_search(weight, steps, memory)
    look_at_first(law, memory, question.mistakes)
    expanded, open_count, is_diving = 0, 0, True
    attained, best_parent, best_guess = 0.0, -1, -1
    while True:
        if expanded == 0 or not is_dominated(memory, expanded, question.mistakes):
            step = memory.length[expanded]
            if expanded > 0:
                slot = slot_of(person, first + step - 1)
                if memory.full.shape[0] > 0:
                    look_ahead(memory, slot, step, expanded, question.mistakes)
                else:
                    look_far_ahead(memory, slot, step, expanded, question.mistakes)
            completion = complete(memory, expanded, gains, first + step, question.mistakes)
            guess = memory.best[expanded]
            if expanded == 0 and completion <= question.slack:
                memory.spent[0] += 1
                return Found(completion, 0.0, -1, -1)
            is_last = first + step == last
            if is_last and completion > attained:
                attained, best_parent, best_guess = completion, expanded, guess
            if is_last and is_diving:
                is_diving = False
                open_count = open_passed(memory, expanded, attained)
            elif not is_last and not is_diving and completion > attained:
                open_one(memory, open_count, completion, expanded)
                open_count += 1
            expanded += 1
        parent = expanded - 1
        if not is_diving:
            is_enough = open_count == 0 or memory.completion[0] <= attained + question.slack
            if is_enough or expanded >= question.expansions:
                break
            parent = memory.parent[0]
            guess, open_count = take_child(memory, open_count, attained)
        lengthen(memory, expanded, parent, guess, question.mistakes)
    memory.spent[0] += expanded
    bound = max(attained, memory.completion[0]) if open_count > 0 else attained
    return Found(bound, attained, best_parent, best_guess)


@jit
def found_guess(memory: SearchMemory, found: Found, guesses: NDArray[np.int64]) -> None:
    """Fill ``guesses`` (steps searched,) with the guess that attains what was found; 0s if nothing is won."""
    guesses[:] = 0
    expanded = found.parent
    if expanded >= 0:
        guesses[guesses.size - 1] = found.guess
        for t in range(guesses.size - 2, -1, -1):
            guesses[t] = memory.origin[expanded, 1]
            expanded = memory.origin[expanded, 0]


@jit
def affordable_expansions(chain: ChainView, steps: int, mistakes: int, most: int) -> int:
    """Expansions a step, up to ``most``, for a search of some milliseconds; 0 where one takes far longer."""
    slots, places = chain.start.shape
    entries = steps * (mistakes + 1) * places
    products = steps * (mistakes + 1) * (chain.value.size // slots + 2 * places)
    if products > _MOST_FOR_ONE or entries > _MOST_ENTRIES:
        return 0
    return int(max(1, min(most, _MOST_ENTRIES // entries, _MOST_PRODUCTS // products)))


@jit
def best_guess(
    person: LocalChain, weight: NDArray[np.float64], mistakes: int, vectors: int, guess: NDArray[np.int64]
) -> Found:
    """The search over a whole horizon with evidence ``weight`` (T, K); ``guess`` (T,) becomes the best one.

    ``vectors`` expansions for each step, at least 1.
    """
    steps, places = weight.shape
    gains = new_gains(steps, mistakes, places)
    completion_gains(person, weight, steps - 1, np.ones(places), new_completions(mistakes, places), gains)
    memory = new_memory(person.chain, vectors * steps, mistakes)
    question = SearchQuestion(mistakes, vectors * steps, 0.0)
    found = search(person, weight, person.start, (0, steps - 1), gains, question, memory)
    found_guess(memory, found, guess)
    return found
