"""``tg.audit``, ``tg.certify`` and ``tg.explain``: one person or many, under a schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

from accounting.attacks import ATTACKS
from accounting.audit import (
    AttackSettings,
    Audit,
    Explanation,
    PosteriorCeiling,
    audit_population,
    posterior_ceiling,
)
from accounting.audit import explain as explain_exposure
from accounting.bounds import ALL_BOUNDS, ROUNDING, Effort
from accounting.bounds.radius import Radius
from accounting.exceptions import HorizonError
from accounting.exposure.crowd import CrowdAdversary
from models.arguments import checked
from models.exceptions import ArgumentError, PriorError
from models.mechanisms import MECHANISMS
from models.priors import Evidence, MovementPrior, Population, Question
from models.releases import Schedule
from stream_app.watching.prior_notes import basis_note, crowd_note, places_note, posterior_note, radius_note
from stream_app.watching.wording import DOWN
from tallyguard.results import (
    Marks,
    People,
    Table,
    ceiling_in_100,
    exposure_of,
    in_100,
    nats,
    new_axes,
    noted,
    plot_ceilings,
    positions_of,
    seen_under,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Within:
    """How far each person may be from the prior, by id, and the condition in words."""

    radii: Mapping[str, Radius]
    condition: str

    def ceiling(self, audit: Audit) -> float:
        """The ceiling of an audit that still holds within its person's radius."""
        return self.radii[audit.person].ceiling(audit.certified).value


class Audits(Table):
    """One :class:`Audit` a person, found by position or by id: ``audits["ada"].certified``."""

    def __init__(
        self,
        audits: Sequence[Audit],
        note: str | None = None,
        within: Within | None = None,
        posteriors: Mapping[str, PosteriorCeiling] | None = None,
        *,
        condition: str | None = None,
        questions: Sequence[Question] = (),
    ) -> None:
        self._audits = tuple(audits)
        self.questions = tuple(questions)
        """What is asked, where it is not which place in every step."""
        self.note = note
        """A note on the habits where they are assumed and not measured."""
        self.within = within
        """The radius, where one was given."""
        self.posteriors = posteriors
        """The uncertainty of each ceiling, by id, where there was evidence."""
        self.condition = condition
        """The condition for ceilings against a crowd adversary, in words."""

    def __len__(self) -> int:
        """Number of people."""
        return len(self._audits)

    def __iter__(self) -> Iterator[Audit]:
        """All audits, in the order of the people."""
        return iter(self._audits)

    def __contains__(self, person: object) -> bool:
        """Whether somebody of this id was audited, or whether this is one of the audits."""
        return any(person in (each.person, each) for each in self._audits)

    @overload
    def __getitem__(self, person: int | str) -> Audit: ...
    @overload
    def __getitem__(self, person: slice) -> Audits: ...
    def __getitem__(self, person: int | str | slice) -> Audit | Audits:
        """One person's audit, or those of a slice as audits of their own; ``KeyError`` for an unknown id.

        Of several questions the first; ``audits.of("clinic")["ada"]`` is that of another.
        """
        if isinstance(person, slice):
            return self._some(self._audits[person], self.questions)
        if isinstance(person, str):
            found = [each for each in self._audits if each.person == person]
            if not found:
                raise KeyError(person)
            return found[0]
        return self._audits[person]

    def of(self, question: str) -> Audits:
        """The audits of the question of this name; ``KeyError`` for one that was not asked."""
        found = [each for each in self._audits if each.question == question]
        if not found:
            raise KeyError(question)
        return self._some(found, [each for each in self.questions if each.name == question])

    def _some(self, audits: Sequence[Audit], asked: Sequence[Question]) -> Audits:
        more = self.note, self.within, self.posteriors
        return Audits(audits, *more, condition=self.condition, questions=asked)

    def _told(self) -> str:
        """What is told of a person, by any of the questions."""
        first, asked = self._audits[0], {each.question: each for each in self._audits}
        if not self.questions:
            return f"where a person was in at least {first.steps - first.mistakes} of {first.steps} steps"
        return ", or ".join(
            each.sentence(asked[each.name].asked - first.mistakes, asked[each.name].asked)
            for each in self.questions
        )

    def caption(self) -> str:
        """What the ceilings bound, and under which condition."""
        if not self._audits:
            return "Nobody was audited."
        return (
            f"Chance in 100 of telling {self._told()}, if habits are as the prior says"
            + ("" if self.within is None else f"; within: {self.within.condition}")
            + ("" if self.posteriors is None else f". {posterior_note()}")
            + ("" if self.condition is None else f"; in the crowd: {self.condition}")
            + noted(self.note)
            + "".join(f". {each}" for each in self._own_bounds_in_words())
        )

    def _own_bounds_in_words(self) -> list[str]:
        """Of each bound from outside whether it counts, and by whom it is refuted."""
        found = []
        for name, bound in ALL_BOUNDS.own.items():
            refuted = [each.person for each in self._audits if is_refuted(each, name)]
            said = "is vouched for by who registered it" if bound.is_vouched else "lowers no ceiling"
            if refuted:
                others = f" and {len(refuted) - 1:,} more" if len(refuted) > 1 else ""
                said += f", and is no bound: the best guess or attack does better for {refuted[0]}{others}"
            found.append(f"The bound {name} {said}")
        return found

    def shown(self) -> Mapping[str, Sequence[str]]:
        """Guess without the releases, best attack that was tried, ceiling for any and within the radius."""
        more = {}
        if self.condition is not None:
            more["informed"] = [ceiling_in_100(each.certified_informed) for each in self._audits]
        if self.within is not None:
            more["within"] = [ceiling_in_100(self.within.ceiling(each)) for each in self._audits]
        if self.posteriors is not None:
            found = [self.posteriors[each.person] for each in self._audits]
            more["mean ceiling"] = [
                f"{in_100(each.mean)} ({in_100(each.mean_low, DOWN)} to {ceiling_in_100(each.mean_high)})"
                for each in found
            ]
            more["credible"] = [ceiling_in_100(each.credible) for each in found]
        return {
            "person": [each.person for each in self._audits],
            **({"question": [each.question for each in self._audits]} if self.questions else {}),
            "guess": [in_100(each.baseline) for each in self._audits],
            "best attack": ["-" if best is None else in_100(best) for best in map(best_attack, self._audits)],
            "ceiling": [ceiling_in_100(each.certified) for each in self._audits],
            **{name: [_own_in_100(each, name) for each in self._audits] for name in ALL_BOUNDS.own},
            **more,
            "by": [each.certified_by for each in self._audits],
        }

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row a person; chances in 0..1, information and entropy in nats."""
        audits = self._audits
        found: dict[str, Sequence[Any]] = {
            "person": [each.person for each in audits],
            **({"question": [each.question for each in audits]} if self.questions else {}),
            "steps": [each.steps for each in audits],
            "mistakes": [each.mistakes for each in audits],
            "guess": [each.baseline for each in audits],
            "attack": [best_attack(each) for each in audits],
            "ceiling": [each.certified for each in audits],
            "certified_by": [each.certified_by for each in audits],
            "confidence": [each.confidence for each in audits],
            "paper_tight": [each.bounds.tight for each in audits],
            "entropy": [each.entropy for each in audits],
            "information": [each.information.exact for each in audits],
            "advantage": [advantage(each.certified, each.baseline) for each in audits],
            **{f"bound_{name}": [own_bound_of(each, name) for each in audits] for name in ALL_BOUNDS.own},
        }
        if self.condition is not None:
            found["adversary"] = [each.adversary for each in audits]
            found["ceiling_informed"] = [each.certified_informed for each in audits]
        if self.within is not None:
            found["ceiling_radius"] = [self.within.ceiling(each) for each in audits]
        if self.posteriors is not None:
            for name in ("mean", "mean_low", "mean_high", "credible", "credible_high"):
                column = [getattr(self.posteriors[each.person], name) for each in audits]
                found[f"ceiling_{name}"] = column
        return found

    def plot(self, axes: Axes | None = None) -> Axes:
        """Guess, attack and ceiling of each person, sorted by what the releases add; needs matplotlib."""
        rows = self.columns()
        own = [Marks(name, rows[f"bound_{name}"], "2") for name in ALL_BOUNDS.own]
        attacks = Marks("best attack", rows["attack"], "x")
        return plot_ceilings(axes, rows["person"], rows["guess"], rows["ceiling"], attacks, *own)


class Why(Table):
    """One person's risk by release: how much each revealed."""

    def __init__(self, person: str, explanation: Explanation, note: str | None = None) -> None:
        self.person = person
        self.note = note
        self.explanation = explanation

    def caption(self) -> str:
        """The guess and the ceiling that are explained."""
        found = self.explanation
        figures = f"guess {in_100(found.baseline)}, ceiling {ceiling_in_100(found.certified)} in 100"
        return f"{self.person}: {figures}, if habits are as the prior says" + noted(self.note)

    def shown(self) -> Mapping[str, Sequence[str]]:
        """The releases, the most revealing first."""
        shares = self.explanation.shares
        return {
            "sensor": [each.sensor for each in shares],
            "step": [str(each.step) for each in shares],
            "mechanism": [each.mechanism for each in shares],
            "nats": [nats(each.information_nats) for each in shares],
            "ceiling falls by": [in_100(each.certified_drop) for each in shares],
        }

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row a release."""
        shares = self.explanation.shares
        return {
            "step": [each.step for each in shares],
            "sensor": [each.sensor for each in shares],
            "mechanism": [each.mechanism for each in shares],
            "information_nats": [each.information_nats for each in shares],
            "certified_drop": [each.certified_drop for each in shares],
        }

    def plot(self, axes: Axes | None = None) -> Axes:
        """By how much the ceiling falls without each release, the most revealing on top; needs matplotlib."""
        axes = new_axes() if axes is None else axes
        shares = self.explanation.shares[::-1]
        rows = range(len(shares))
        axes.barh(rows, [each.certified_drop for each in shares])
        axes.set_yticks(rows, [f"{each.sensor}, step {each.step}" for each in shares])
        axes.set_xlabel(f"fall of {self.person}'s ceiling without this release")
        return axes


@checked(ArgumentError, leave=("people", "schedule", "radius"))
def audit(
    people: People,
    schedule: Schedule,
    mistakes: int = 1,
    *,
    person: str | None = None,
    draws: int = 10_000,
    effort: Effort | None = None,
    radius: float | Radius | People | None = None,
    evidence: Evidence | None = None,
    question: Question | Sequence[Question] | None = None,
    seed: int | None = None,
) -> Audits:
    """Guess, attacks and ceiling for one prior, for several, or for one ``person`` of them.

    The adversary may be wrong in ``mistakes`` steps of the schedule. Attacks without an exact law are tried
    on ``draws`` trajectories; 0 tries none. The ``seed`` determines all draws, those of attacks and those of
    ceilings that are drawn (None: 0, and the effort's own). An attack is never shown above the ceiling; one
    that is significantly above it is an error.

    With a ``radius`` there is also the ceiling for people whose law of places over the whole schedule is so
    many nats from the prior's (relative entropy), is within a declared :class:`Radius`, or who move as other
    priors of the same ids say. A ``question``, or each of several, may ask for something else than the place,
    or not in every step. With the ``evidence`` of fitted priors there are also the mean and the 90 %
    credible ceiling of 50 chains that the data could have given.
    :class:`TallyguardError` says what must hold where it does not.
    """
    population = seen_under(schedule, people)
    chosen, effort = positions_of(population, person), _seeded(effort, seed)
    attacks = AttackSettings(draws, seed or 0) if draws else None
    asked = questions_of(question)
    if evidence is not None and len(asked) > 1:
        raise PriorError("with evidence one question must be asked", f"{len(asked)}", "ask one after another")
    audits = tuple(
        found
        for each in asked or (None,)
        for found in audit_population(
            population, schedule, mistakes, people=chosen, effort=effort, attacks=attacks, asked=each
        )
    )
    audited = list(dict.fromkeys(each.person for each in audits))
    within = None if radius is None else _within(radius, population, schedule, audited)
    sure = (
        None
        if evidence is None
        else {
            each: posterior_ceiling(
                population,
                population.position(each),
                schedule,
                mistakes,
                evidence,
                effort=effort,
                asked=asked[0] if asked else None,
            )
            for each in audited
        }
    )
    note = _notes(population, schedule, chosen, asked)
    return Audits(audits, note, within, sure, questions=asked)


def _notes(
    population: Population, schedule: Schedule, chosen: Sequence[int], asked: Sequence[Question]
) -> str | None:
    """What must be said of the priors, and of places that are probably none, where places are asked."""
    said = basis_note(len(population), population.assumed)
    covered = [each.sensor.locations for step in schedule.steps for each in step.releases]
    places = None if asked else places_note(population, covered, chosen)
    return "; ".join(each for each in (said, places) if each) or None


def questions_of(given: Question | Sequence[Question] | None) -> tuple[Question, ...]:
    """The questions asked, none where it is which place; :class:`PriorError` for two of one name."""
    if given is None or isinstance(given, Question):
        return () if given is None or given.is_place else (given,)
    asked = tuple(given)
    if len({each.name for each in asked}) < len(asked):
        raise PriorError("questions must have names of their own", "one twice", "rename one of them")
    return asked


@checked(ArgumentError, leave=("people", "schedule"))
def certify(
    people: People,
    schedule: Schedule,
    mistakes: int = 1,
    *,
    person: str | None = None,
    effort: Effort | None = None,
    adversary: CrowdAdversary | None = None,
    question: Question | Sequence[Question] | None = None,
    seed: int | None = None,
) -> Audits:
    """The ceilings alone: as :func:`audit`, without trying an attack.

    By default against an adversary who knows where all other people are. With an ``adversary``, against one
    who knows how the others live but not where they are: the other people of a population are then a crowd to
    hide in. The ``seed`` is that of an effort with draws. :class:`TallyguardError` as for :func:`audit`.
    """
    effort = _seeded(effort, seed)
    if adversary is None:
        return audit(people, schedule, mistakes, person=person, draws=0, effort=effort, question=question)
    population = seen_under(schedule, people)
    chosen, asked = positions_of(population, person), questions_of(question)
    found = [
        one
        for each in asked or (None,)
        for one in audit_population(
            population, schedule, mistakes, people=chosen, effort=effort, adversary=adversary, asked=each
        )
    ]
    note = _notes(population, schedule, chosen, asked)
    of_personas = population.weights is not None
    condition = crowd_note(adversary, population.everybody - 1, of_personas=of_personas)
    return Audits(found, note, condition=condition, questions=asked)


@checked(ArgumentError, leave=("people", "schedule"))
def explain(
    people: People,
    schedule: Schedule,
    mistakes: int = 1,
    *,
    person: str | None = None,
    question: Question | None = None,
) -> Why:
    """How much each release reveals about one prior (nats): the first of several, or one ``person`` of them.

    :class:`TallyguardError` as for :func:`audit`.
    """
    population = (question or Question()).asked_of(seen_under(schedule, people))
    position = 0 if person is None else population.position(person)
    explanation = explain_exposure(exposure_of(population, position, schedule), schedule.steps, mistakes)
    return Why(population.people[position], explanation, basis_note(1, population.assumed))


def _seeded(effort: Effort | None, seed: int | None) -> Effort | None:
    """The effort with the seed, where there is one."""
    return effort if seed is None else replace(effort or Effort(), seed=seed)


@checked(ArgumentError)
def unregister(name: str) -> None:
    """Take back a mechanism, bound or attack of your own by its name; :class:`ArgumentError` for none."""
    own = [registry for registry in (MECHANISMS, ALL_BOUNDS, ATTACKS) if name in registry.own]
    for registry in own or (ALL_BOUNDS,):
        registry.remove(name)


def own_bound_of(audit: Audit, name: str) -> float | None:
    """What a bound from outside says; None where it does not apply, or came after the audit."""
    found: float | None = audit.bounds.model_dump().get(name)
    return found


def _own_in_100(audit: Audit, name: str) -> str:
    """The same as text, with a mark where it is refuted."""
    found = own_bound_of(audit, name)
    return "-" if found is None else ceiling_in_100(found) + ("!" if is_refuted(audit, name) else "")


def is_refuted(audit: Audit, name: str) -> bool:
    """Whether the best guess without the releases, or an attack, does better than this bound allows."""
    found = own_bound_of(audit, name)
    least = [each.low for each in (audit.attacks or {}).values() if each is not None]
    return found is not None and found < max([audit.baseline, *least]) - ROUNDING


@checked(ArgumentError)
def advantage(success: float, guess: float) -> float:
    """``(success - guess) / (1 - guess)``: what the releases add to a guess, as a share of what is left.

    The advantage of Guo et al. that Koga, Meehan and Chaudhuri start from (section 2), for any success in
    0..1: 0 for the guess itself, 1 for certainty, and 0 where the guess is certain already.
    :class:`ArgumentError` for chances outside 0..1.
    """
    for name, chance in (("success", success), ("guess", guess)):
        if not 0.0 <= chance <= 1.0:
            raise ArgumentError(f"{name} must lie in 0..1", chance, "give a probability")
    return 0.0 if guess >= 1.0 else (success - guess) / (1.0 - guess)


def best_attack(audit: Audit) -> float | None:
    """The highest success of an attack that was tried; None where none was."""
    tried = [found.success for found in (audit.attacks or {}).values() if found is not None]
    return max(tried, default=None)


def _within(
    radius: float | Radius | People, population: Population, schedule: Schedule, people: Sequence[str]
) -> Within:
    """The declared radius for each person, or the distance to the person's other prior."""
    last = len(schedule.steps) - 1
    if not isinstance(radius, MovementPrior | Population | Sequence):
        declared = radius if isinstance(radius, Radius) else Radius(0, last, kl=radius)
        if (declared.first, declared.last) != (0, last):
            raise HorizonError(
                f"a radius must count every step of the schedule, 0..{last}",
                f"{declared.first}..{declared.last}",
                "declare it over the whole schedule",
            )
        return Within(dict.fromkeys(people, declared), radius_note(declared))
    others = seen_under(schedule, radius)
    if any(
        ours != theirs for ours, theirs in zip(population.location_names, others.location_names, strict=False)
    ):
        raise PriorError(
            "priors that say how far people may be must have the same locations",
            "others",
            "write both files with one list of locations",
        )
    radii = {
        person: Radius.between(
            exposure_of(population, population.position(person), schedule),
            exposure_of(others, others.position(person), schedule),
        )
        for person in people
    }
    return Within(radii, "if people move as the other priors say, no method does better")
