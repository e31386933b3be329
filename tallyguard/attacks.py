"""``tg.attack``: the success of every named attack on one person or many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from accounting.audit import AttackReport, AttackSettings, audit_population
from models.arguments import checked
from models.exceptions import ArgumentError
from models.priors import Question
from models.releases import Schedule
from stream_app.watching.prior_notes import basis_note
from stream_app.watching.wording import DOWN
from tallyguard.results import People, Table, ceiling_in_100, in_100, noted, positions_of, seen_under


class Attacks(Table):
    """Each attack's success by person and name: ``attacks["ada"]["map"].success``."""

    def __init__(
        self, found: Mapping[str, Mapping[str, AttackReport]], steps: int, mistakes: int, note: str | None
    ) -> None:
        self.found = found
        self.note = note
        self._right = f"at least {steps - mistakes} of {steps} steps"

    def __len__(self) -> int:
        """Number of people."""
        return len(self.found)

    def __iter__(self) -> Iterator[str]:
        """Their ids."""
        return iter(self.found)

    def __getitem__(self, person: str) -> Mapping[str, AttackReport]:
        """All attacks on one person; ``KeyError`` for an unknown id."""
        return self.found[person]

    def caption(self) -> str:
        """What the attacks try, and under which condition."""
        return (
            f"How often in 100 each attack tells where a person was in {self._right}, seeing all releases "
            f"and knowing where everybody else is, if habits are as the prior says{noted(self.note)}"
        )

    def shown(self) -> Mapping[str, Sequence[str]]:
        """One row a person and attack, with the interval of what was tried on draws."""
        rows = self.columns()
        return {
            "person": rows["person"],
            "attack": rows["attack"],
            "success": [in_100(each) for each in rows["success"]],
            "interval": [
                "exact" if low == high else f"{in_100(low, DOWN)} to {ceiling_in_100(high)}"
                for low, high in zip(rows["low"], rows["high"], strict=True)
            ],
        }

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row a person and attack; chances in 0..1, ``low = high`` where they are exact."""
        rows = [(person, name, each) for person, tried in self.found.items() for name, each in tried.items()]
        return {
            "person": [person for person, _, _ in rows],
            "attack": [name for _, name, _ in rows],
            "success": [each.success for _, _, each in rows],
            "low": [each.low for _, _, each in rows],
            "high": [each.high for _, _, each in rows],
        }


@checked(ArgumentError, leave=("people", "schedule"))
def attack(
    people: People,
    schedule: Schedule,
    mistakes: int = 1,
    *,
    person: str | None = None,
    draws: int = 10_000,
    question: Question | None = None,
    seed: int = 0,
) -> Attacks:
    """The success of every attack on one prior, on several, or on one ``person`` of them.

    An attack may be wrong in ``mistakes`` steps. Where no exact law is known it is tried on ``draws``
    trajectories, with a 95 % interval; the same ``seed`` gives the same results, those of an audit: none is
    above the ceiling. With a ``question`` its labels are guessed. An attack that cannot be tried on a
    schedule is left out. :class:`TallyguardError` says what must hold.
    """
    population = seen_under(schedule, people)
    chosen, tried = positions_of(population, person), AttackSettings(draws, seed)
    found = {
        each.person: {name: result for name, result in (each.attacks or {}).items() if result is not None}
        for each in audit_population(
            population, schedule, mistakes, people=chosen, attacks=tried, asked=question
        )
    }
    return Attacks(found, len(schedule.steps), mistakes, basis_note(len(population), population.assumed))
