"""People without a prior whom an operator vouches for: how many may be counted somewhere at an hour, or not.

That somebody *passes* hides nobody: who is surely counted adds one to the count, and nothing uncertain. What
hides is that each of them may be counted or not. So the chance of it is declared too, from below and above,
whatever is known of the same stranger in other steps. With ``a`` and ``b`` these chances, each stranger's bit
has a variance of at least ``min(a (1 - a), b (1 - b))``, and is a fair coin at least ``2 min(a, 1 - b)``
of the time. 200 people who are counted with a chance of 0.1 to 0.5 hide as 18 variances, 72 fair coins do.

Strangers of neighbouring steps may be the same people, who linger. They are then asked as people with priors
are: half of them are free in every other step, and their places are revealed in the steps between. Where no
step before or after is declared, all of them are free.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from accounting.exceptions import SettingsError
from accounting.exposure.crowd.variance_kernel import RATES, UNITS
from models.arguments import checked


@checked(SettingsError)
@dataclass(frozen=True, slots=True)
class Strangers:
    """At least ``people`` others who may be counted by ``sensor`` in each step of some slots of the day.

    The slots are ``first_slot`` to ``until_slot`` (exclusive) of ``cycle``, across its end if ``until_slot``
    is not larger. The people are chosen without regard to where they went, and have no prior. They move
    alone, as people with priors do; each who is counted nowhere else is counted here with a chance of
    ``least_chance`` to ``most_chance``, whatever is known of the other steps. Strangers of two sensors in
    one step are different people; those of two steps may be the same.
    """

    sensor: str
    first_slot: int
    until_slot: int
    cycle: int
    people: int
    least_chance: float
    most_chance: float

    def __post_init__(self) -> None:
        """:class:`SettingsError` names what is out of range."""
        if not 0 <= self.people <= MOST_STRANGERS:
            raise SettingsError(
                f"strangers must be 0 to {MOST_STRANGERS:,} people", self.people, "give the least there are"
            )
        if not 0.0 <= self.least_chance <= self.most_chance <= 1.0:
            raise SettingsError(
                "the chance that a stranger is counted must lie between two probabilities, least and most",
                f"{self.least_chance} and {self.most_chance}",
                "give both, in this order",
            )
        if not (0 <= self.first_slot < self.cycle and 0 < self.until_slot <= self.cycle):
            raise SettingsError(
                f"the slots of strangers must lie in their cycle of {self.cycle}",
                f"{self.first_slot} to {self.until_slot}",
                "count slots from 0",
            )

    @property
    def variance(self) -> float:
        """The least variance of one stranger's bit: at one end of the interval, for it is concave."""
        return min(chance * (1.0 - chance) for chance in (self.least_chance, self.most_chance))

    @property
    def hours(self) -> str:
        """When, in words: of a day of 24 hours."""
        first, until = (24.0 * slot / self.cycle for slot in (self.first_slot, self.until_slot))
        return f"from {first:g} to {until:g} h"

    def covers(self, slot: int) -> bool:
        """Whether they are there in this slot, counted on and on."""
        here = slot % self.cycle
        if self.first_slot < self.until_slot:
            return self.first_slot <= here < self.until_slot
        return here >= self.first_slot or here < self.until_slot

    def units(self, people: int) -> tuple[int, ...]:
        """The sums of so many of them, in units of 1 / 2^32, each towards less of a crowd."""
        variance = self.variance
        coins = 2.0 * min(self.least_chance, 1.0 - self.most_chance)
        each = (variance, coins, *(rate * variance for rate in RATES))  # E e^(-rate V) <= e^(-rate variance)
        return tuple(people * max(0, int(value * UNITS) - 1) for value in each)


MOST_STRANGERS = 10_000_000


def strangers_in(
    strangers: Sequence[Strangers], slot: int, beside: tuple[int, int] | None = None
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Sensors and sums of those who are free in a step of this slot, counted on and on.

    ``beside`` are the slots of the steps before and after, where they are not the neighbouring ones.
    """
    near = beside or (slot - 1, slot + 1)
    may_linger = any(each.covers(other) for each in strangers for other in near)
    for each in strangers:
        if each.covers(slot):
            yield each.sensor, each.units(each.people // 2 if may_linger else each.people)
