"""The page of ``experiments.crowd``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ATTACKS = 3


@dataclass(frozen=True)
class Row:
    """Means over the targets; intervals are two standard errors over targets and days."""

    setting: str
    people: int
    active: int
    targets: int
    guess: float
    collective: float
    recovery: float
    membership: float
    attack_error: float  # the largest of the three attacks'
    crowd: float
    informed: float
    crowd_nats: float
    informed_nats: float
    median_sigma: float
    area: float  # under the curve of the membership test
    area_error: float  # over targets
    area_ceiling: float
    least_p: float  # smallest, over targets and attacks, of Pr[so many hits or more] at the ceiling
    seconds: float  # to add up everybody once, a step

    @property
    def removed(self) -> float:
        """Share of what the counts add to the guess that the crowd takes away again."""
        return (self.informed - self.crowd) / max(self.informed - self.guess, 1e-9)


_PAGE = """# What a crowd hides, on the demo's city and on check-ins

Made by `make crowd`; the figures are in [crowd.csv](crowd.csv). Raw counts of some sensors by turns,
nothing released before, every step to be named right. *City*: 10 hours from 8 o'clock, 32 sensors.
*Foursquare*, *Gowalla*: the fitted people of [real check-ins](real-checkins.md), 5 windows of 20 days, up
to 100 sensors, one a place. Means over 60 people. {missing}[A crowd to hide in](../../explanation/crowd.md)

{table}

- *Guess*: habits alone, exact. *In the crowd*: the ceiling for any adversary who does not know where the
  others are, if they move independently, as their priors say. *Informed*: the ceiling for one who does.
  *Removed*: of what counts add to the guess by the informed ceiling. *Nats*: what the counts reveal at most
  to either. *Sigma*: Gaussian noise that would hide as much as the crowd, median over sensors and steps.
- Three attacks know everybody's habits or the target's, see the counts, and are tried on {days} days drawn
  from the priors; two standard errors are at most {error:.3f}. *Filter*: follows the whole crowd through
  the counts (a normal approximation of all others' joint places). *Recovery*: *Trajectory Recovery From
  Ash* (Xu et al., 2017) takes the counts apart into everybody's movements, and the one likeliest by the
  target's habits is taken. *Membership*: decides for each sensor and step whether the target was counted,
  as in *Knock Knock, Who's There?* (Pyrgelis et al., 2018), and takes the trace that fits best.
- None sees more than the counts, so each stands below both ceilings but for the chance of its draws; a crude
  attack may do worse than the guess. Person by person: if each of the {tried} ceilings were attained, the
  luckiest attack of all would have had so many hits or more with probability {least:.2g} ({corrected:.2g}
  after that many trials).

## Was this person counted at all?

The same attacker in the game of *Knock Knock*: counts of a day with the target among the people, or
without. *Area*: under the curve of true against false alarms, 0.5 for a coin and 1 for certainty, with two
standard errors over targets. *At most*: for any test by an adversary who does not know where the others
are.

{membership}

In the paper an attacker learns from example groups, and a group without the person has somebody else
instead. Here the laws are known from habits, and nobody stands in, which makes the game no harder.
"""


def page(rows: Sequence[Row], missing: Sequence[str], days: int) -> str:
    """Both tables with what they mean; ``missing`` data sets are named."""
    least, tried = min(row.least_p for row in rows), sum(ATTACKS * row.targets for row in rows)
    names = " and ".join(name.capitalize() for name in missing)
    return _PAGE.format(
        missing=f"Without {names}: no file of check-ins was there. " if missing else "",
        table=_success_table(rows),
        days=days,
        error=max(row.attack_error for row in rows),
        tried=tried,
        least=least,
        corrected=min(1.0, tried * least),
        membership=_membership_table(rows),
    )


def _success_table(rows: Sequence[Row]) -> str:
    lines = [
        f"| {row.setting.capitalize()} | {row.people:,} | {row.active} | {row.guess:.3f} "
        f"| {row.collective:.3f} | {row.recovery:.3f} | {row.membership:.3f} "
        f"| {row.crowd:.3f} | {row.informed:.3f} "
        f"| {row.removed:.0%} | {row.informed_nats:.2f} | {row.crowd_nats:.2f} | {row.median_sigma:.1f} |"
        for row in rows
    ]
    head = (
        "| | people | sensors on | guess | filter | recovery | membership | in the crowd | informed "
        "| removed | nats, informed | nats, in the crowd | sigma |"
    )
    return "\n".join([head, "|---|" + "---:|" * 12, *lines])


def _membership_table(rows: Sequence[Row]) -> str:
    lines = [
        f"| {row.setting.capitalize()} | {row.people:,} | {row.active} "
        f"| {row.area:.3f} ± {row.area_error:.3f} | {row.area_ceiling:.3f} |"
        for row in rows
    ]
    return "\n".join(["| | people | sensors on | area | at most |", "|---|---:|---:|---:|---:|", *lines])
