"""The people of one partition and their accountant: the state of an account worker, without a broker.

The accounts are a pure function of the records of people and of the decisions applied. Each step is applied
once, even if it is delivered again: see :meth:`PartitionAccounts.arrival_of`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import AccountPositions, Cells, ContinuousAccountant, pack_state, unpack_state
from accounting.continuous.shadow import AttackedPart, Shadow, recent_step_count
from accounting.decisions.what_if import WhatIf
from accounting.exceptions import SnapshotError
from accounting.exposure.crowd import StepCrowd
from models.priors import Lists, Population, PopulationArrays, draw_name
from models.releases import StepSchedule
from stream_app.exceptions import RunChangedError
from stream_app.kafka.account.person_source import DIGEST_BYTES
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.records import People, PersonEntry, RefusedPerson, people_of
from stream_app.setup.priors_verdict import PriorsVerdict
from stream_app.setup.release_settings import CROWD
from stream_app.steps import Accounts, RiskRecords, risk_records, summary_message, with_worst
from stream_app.steps.policy import Decided
from stream_app.steps.policy.people_shards import new_shadow
from stream_app.steps.policy.proposals import Answer, CrowdAnswer, CrowdQuestion, Proposal, Respondent
from stream_app.watching.metrics import over_limit_counts
from stream_app.watching.people import Standing
from stream_app.wire import OverLimitCounts, RiskSummary

_CHECKED_AT_ONCE = 2_000
_DRAWN = "drawn_"  # before the names of arrays of the chains that stand for people
_DERIVED = ("distribution_start", "distribution", "label_start", "label")  # not stored: computed again


class SavedPeople(NamedTuple):
    """The people of a partition, stored apart from the state of their accounts, as they seldom change.

    ``population`` has the prior of each account, under the name of its first person; ``since`` (A,) is the
    step from which releases count. ``names`` (N,) are all people, whose accounts are in ``cells``.
    ``assumed`` says what a prior rests on that was not measured, by pseudonym. ``records`` (N,) are the
    digests of the records of ``persons`` that all of this was read from.
    """

    population: Population
    since: NDArray[np.int64]
    names: tuple[str, ...]
    cells: Cells
    assumed: Mapping[str, str]
    records: Sequence[bytes] = ()

    def packed(self) -> bytes:
        """As bytes; equal for equal people."""
        population, drawn = self.population, self.population.drawn
        place = {name: number for number, name in enumerate(self.names)}
        first = [place[name] for name in population.people]
        told = [] if population.told is None else np.flatnonzero(population.told).tolist()
        names = json.dumps([self.names, first, dict(self.assumed), *([told] if told else [])]).encode()
        arrays = {name: getattr(population.arrays, name) for name in _stored_names()}
        weighed = self.cells.stands_for
        return pack_state(
            {},
            {
                **arrays,
                **(
                    {}
                    if drawn is None
                    else {f"{_DRAWN}{name}": getattr(drawn.arrays, name) for name in arrays}
                ),
                "since": self.since,
                "cell": self.cells.cell,
                "account": self.cells.account,
                "stands_for": np.zeros(0, dtype=np.int64) if weighed is None else weighed,
                "records": _bytes(b"".join(self.records)).reshape(-1, DIGEST_BYTES),
                "names": _bytes(names),
            },
        )

    @classmethod
    def unpacked(
        cls,
        packed: bytes,
        location_names: Sequence[str],
        on_progress: Callable[[], None] = lambda: None,
        draws: int = 1,
    ) -> SavedPeople:
        """The people in these bytes; their priors are checked like new ones, some at a time.

        ``draws`` chains stand for each of them; with 1 it is the prior itself.
        """
        like = Population.pack((), location_names).arrays
        others = {
            "since": np.zeros(0, dtype=np.int64),
            "cell": np.zeros(0, dtype=np.int32),
            "account": np.zeros(0, dtype=np.int64),
            "stands_for": np.zeros(0, dtype=np.int64),
            "records": np.zeros((0, DIGEST_BYTES), dtype=np.uint8),
            "names": _bytes(b""),
        }
        prefixes = ("", _DRAWN) if draws > 1 else ("",)
        chains = {f"{each}{name}": getattr(like, name) for each in prefixes for name in _stored_names()}
        wanted = {**chains, **others}
        stored = unpack_state(packed, {}, {}, wanted)
        names, first, assumed, *more = json.loads(stored["names"].tobytes())
        people = [names[number] for number in first]
        population = _unpacked(stored, "", people, location_names, on_progress)
        if draws > 1 and people:
            named = [draw_name(person, number) for person in people for number in range(draws)]
            drawn = _unpacked(stored, _DRAWN, named, location_names, on_progress)
            population = replace(population, drawn=drawn)
        if more:
            told = np.zeros(len(people), dtype=np.bool_)
            told[more[0]] = True
            population = replace(population, told=told)
        records = [row.tobytes() for row in stored["records"]]
        stands_for = stored["stands_for"] if stored["stands_for"].size else None
        cells = Cells(stored["cell"], AccountPositions(stored["account"]), stands_for)
        return cls(population, stored["since"], tuple(names), cells, assumed, records)


class SavedAccounts(NamedTuple):
    """A partition's accounts before ``next_step``."""

    next_step: int
    people: SavedPeople
    state: bytes


def _unpacked(
    stored: Mapping[str, NDArray[Any]],
    prefix: str,
    people: Sequence[str],
    location_names: Sequence[str],
    on_progress: Callable[[], None],
) -> Population:
    """The chains of these people, whose arrays are stored under names with this prefix; checked."""
    like = Population.pack((), location_names).arrays
    arrays = like._replace(**{name: stored[f"{prefix}{name}"] for name in _stored_names()})
    starts = np.zeros(len(people) + 1, dtype=np.int64)
    np.cumsum(arrays.slots * np.diff(arrays.places_start), out=starts[1:])
    arrays = arrays._replace(
        distribution_start=starts,
        distribution=np.zeros(starts[-1]),
        label_start=np.zeros(len(people) + 1, dtype=np.int64),
    )
    unchecked = Population(tuple(people), tuple(location_names), arrays)
    parts = [Population.pack((), location_names)]
    for start in range(0, len(people), _CHECKED_AT_ONCE):
        some = unchecked.subset(range(start, min(start + _CHECKED_AT_ONCE, len(people))))
        parts.append(_checked(some))
        on_progress()
    return Population.concatenate(parts)


def _checked(people: Population) -> Population:
    """The same people, packed and checked again."""
    arrays = people.arrays
    return Population.from_moves(
        people.people,
        Lists(arrays.places_start, arrays.places),
        people.moves(),
        slots=arrays.slots,
        initial=Lists(arrays.initial_start, arrays.initial),
        location_names=people.location_names,
    )


def _stored_names() -> list[str]:
    return [name for name in PopulationArrays._fields if name not in _DERIVED]


def _bytes(values: bytes) -> NDArray[Any]:
    return np.frombuffer(values, dtype=np.uint8)


OnProgress = Callable[[], None]
"""Called after each piece of long work, so that it does not count as stuck."""

PIECE_PEOPLE = 500
"""Newcomers who are packed and checked together."""


class Arrival(Enum):
    """What to do with a step that arrives."""

    KNOWN = "known"  # drop it: it was applied
    NEXT = "next"  # apply it
    AHEAD = "ahead"  # first apply the steps before it, from the log


class Newcomers:
    """People who will enter the accounts once they are accounted up to the same step."""

    def __init__(
        self,
        accounts: Accounts | None,
        refused: tuple[RefusedPerson, ...],
        changed: Mapping[str, str | None],
        until: int,
    ) -> None:
        self.accounts = accounts
        """The accounts of all of them; None if there is nobody."""
        self.refused = refused
        """Records that are no prior."""
        self.changed = changed
        """All people who come, change or leave, and what the new prior rests on if it was not measured."""
        self.next_step = until if accounts is None else accounts.informed.next_step
        """The first logged step that counts for any of them; they enter before step ``until``."""

    def apply(self, steps: Iterable[Decided], on_progress: OnProgress) -> None:
        """Account some logged steps, in order."""
        for step in steps:
            if self.accounts is not None:
                self.accounts.apply(step.accounted, step.crowds)
            on_progress()


class PartitionAccounts:
    """The people of one partition, accounted up to ``next_step``."""

    def __init__(self, partition: int, deployment: Deployment) -> None:
        self.partition = partition
        self._names = deployment.location_names
        self._deployment = deployment
        self._settings = deployment.horizon()
        self._risk_every = deployment.settings.risk_every
        self._most_exposed = deployment.settings.most_exposed or 0
        self._limit = deployment.limit()
        self._given = deployment.settings
        self._respondent: Respondent | None = None
        self._what_if: WhatIf | None = None
        self._shadow: Shadow | None = None
        self._assumed: dict[str, str] = {}  # what the priors of some people rest on, by pseudonym
        self._use(self._new_accounts(people_of([], self._names), self._settings.first_step))

    @property
    def accountant(self) -> ContinuousAccountant:
        """The accounts against an adversary who knows where everybody else is."""
        return self.accounts.informed

    @property
    def next_step(self) -> int:
        """The step that is applied next."""
        return self.accountant.next_step

    @property
    def pseudonyms(self) -> tuple[str, ...]:
        """The people in the accounts, in the accountant's order."""
        return self.accountant.people

    @property
    def assumed(self) -> str | None:
        """What the habits of people who were not measured rest on; None if all were measured."""
        return min(self._assumed.values(), default=None)

    @property
    def priors_check(self) -> PriorsVerdict | None:
        """The verdict of real traces on the priors, if they were compared."""
        return self._given.priors_check

    @property
    def draws(self) -> int:
        """How many chains stand for each person."""
        return self._given.draws

    @property
    def confidence(self) -> float:
        """The confidence of an attack's interval."""
        return self._given.confidence

    def arrival_of(self, step: int) -> Arrival:
        """What to do with a step."""
        if step < self.next_step:
            return Arrival.KNOWN
        return Arrival.NEXT if step == self.next_step else Arrival.AHEAD

    def apply(
        self, step: StepSchedule, crowds: StepCrowd | None = None, decided: StepSchedule | None = None
    ) -> None:
        """Account one step, as accounts know it; ``crowds`` are the sums over all partitions.

        ``decided`` is the step as it was decided, where sensors have windows.
        """
        if self._what_if is not None:
            self._what_if.note(step if decided is None else decided, crowds)
        self.accounts.apply(step, crowds)
        if self._shadow is not None:
            self._shadow.note(step)

    def apply_all(self, steps: Iterable[Decided], on_progress: OnProgress) -> None:
        """Account some logged steps, in order."""
        for step in steps:
            self.apply(step.accounted, step.crowds, step.schedule)
            on_progress()

    def attack(self) -> tuple[AttackedPart, ...] | None:
        """The success of an attack on people drawn from these after the last step; None if none is tried."""
        return None if self._shadow is None else self._shadow.attack()

    def answer(self, proposal: Proposal | CrowdQuestion) -> Answer | CrowdAnswer | None:
        """What a proposal would do to the people, or their sums of the crowd.

        None for a step that is not next, and for a question that the settings do not provide for.
        """
        step, digest = proposal.step, proposal.source.deployment
        if step != self.next_step or not self._deployment.is_made_with(digest, step):
            return None
        if isinstance(proposal, CrowdQuestion):
            return self._crowd_answer(proposal)
        if self._respondent is not None and self._respondent.deployment != digest:
            self._respond()
        return None if self._respondent is None else self._respondent.answer(proposal)

    def _crowd_answer(self, question: CrowdQuestion) -> CrowdAnswer | None:
        crowd = self.accounts.crowd
        if crowd is None:
            return None
        registry = self._deployment.facts.registries.at(question.step)
        own = crowd.others.ask(question.schedule(registry))  # who asks adds the strangers, once
        return CrowdAnswer.of(question, self.partition, own)

    @property
    def needs_every_step(self) -> bool:
        """Whether answers depend on who was over the limit before, so a change of people needs a reload."""
        return self._limit is not None and self._limit.in_hindsight

    def summary(self) -> RiskSummary:
        """The summary of the last step, naming the most exposed people if the settings ask for it."""
        attack = None if self._shadow is None else self._shadow.mean()
        crowd = self.accounts.crowd_summary()
        over = self.over_limit(lambda: Standing.of(self.accountant, self.pseudonyms, self.accounts.crowd))
        summary = summary_message(
            self.accountant.summary(), self.partition, self.assumed, attack, crowd, over
        )
        return with_worst(summary, self.accountant, self.pseudonyms, self._most_exposed)

    def over_limit(self, standing: Callable[[], Standing]) -> OverLimitCounts | None:
        """How many people are over the limit of the rule; None if no limit is set."""
        limit = self._given.release.budget.limit
        if limit is None:
            return None
        return over_limit_counts(standing(), limit, in_crowd=self._given.adversary == CROWD)

    def records(self) -> RiskRecords:
        """The risks of single people to be reported after the last step."""
        return risk_records(self.accountant, self.next_step - 1, self._risk_every, self.accounts.crowd)

    def newcomers(
        self, changes: MutableMapping[str, PersonEntry | None], on_progress: OnProgress = lambda: None
    ) -> Newcomers:
        """People who come, leave (None) or get another prior; the log then brings them up to date.

        They are packed in pieces, with a call of ``on_progress`` after each, and brought up to date together,
        as they share the work of refined bounds. ``changes`` are used up, so that nobody is held both as a
        record and packed. A known person keeps their first step: the adversary remembers what was released
        since, so all of it is accounted again under the new prior. Who is told begins anew.
        """
        packed: list[People] = []
        since = dict(zip(self.pseudonyms, self.accountant.since.tolist(), strict=True))
        refused: tuple[RefusedPerson, ...] = ()
        changed = {name: None if entry is None else entry.assumed for name, entry in changes.items()}
        for piece in _pieces(changes):
            some = people_of((_begun(entry, since) for entry in piece), self._names)
            refused += some.refused
            if len(some.population):
                packed.append(some)
            on_progress()
        first = min([self.next_step, *(int(some.effective_from.min()) for some in packed)])
        parts = []
        while packed:
            parts.append(self._new_accounts(packed.pop(0), first))
            on_progress()
        return Newcomers(_joined(parts, on_progress) if parts else None, refused, changed, self.next_step)

    def change(self, newcomers: Newcomers, on_progress: OnProgress = lambda: None) -> None:
        """Take in :meth:`newcomers` that have reached ``next_step``, and drop people who left.

        A record that is no prior changes nothing: a known person keeps the known prior.
        """
        gone = newcomers.changed.keys() - {each.pseudonym for each in newcomers.refused}
        for name in gone:
            self._assumed.pop(name, None)
            if (assumed := newcomers.changed[name]) is not None:
                self._assumed[name] = assumed
        known = self.accounts
        staying = [i for i, name in enumerate(self.pseudonyms) if name not in gone]
        if len(staying) < len(self.pseudonyms):
            known = known.of_people(np.array(staying, dtype=np.int64))
        came, newcomers.accounts = newcomers.accounts, None
        replaced = gone.intersection(self.pseudonyms)
        joined = known if came is None else known.with_people(came)
        if joined.crowd is not None:
            there = [i for i, name in enumerate(joined.informed.people) if name in replaced]
            joined.crowd.others.reveal_next(np.array(there, dtype=np.int64))
        self._use(joined)
        on_progress()

    def save(self) -> SavedAccounts:
        """The contents of a snapshot, without the digests of records."""
        accountant, holders = self.accountant, self.accountant.holders
        since = accountant.view().accounts.since
        people = SavedPeople(
            *(accountant.population, since, accountant.people, holders.cells), assumed=dict(self._assumed)
        )
        return SavedAccounts(self.next_step, people, self.accounts.whole.snapshot())

    def take_over(self, saved: SavedAccounts, on_progress: OnProgress = lambda: None) -> None:
        """Continue from a snapshot, before anybody was entered; a :class:`SnapshotError` changes nothing.

        The attack beside the ceiling lacks the steps before it: see :meth:`note_recent`.
        """
        population, since, first = saved.people.population, saved.people.since, self._settings.first_step
        parts = [self._new_accounts(people_of([], self._names), first)]
        for start in range(0, len(population), PIECE_PEOPLE):
            some = range(start, min(start + PIECE_PEOPLE, len(population)))
            parts.append(self._new_accounts(People(population.subset(some), since[some]), first))
            on_progress()
        accounts = _joined(parts, on_progress).held_by(self._given, saved.people.names, saved.people.cells)
        accounts.whole.restore(saved.state)
        if accounts.informed.next_step != saved.next_step:
            raise SnapshotError(
                f"a snapshot's accounts must expect step {saved.next_step}",
                accounts.informed.next_step,
                "account every step again",
            )
        self._assumed = dict(saved.people.assumed)
        self._use(accounts)

    @property
    def recent_step_count(self) -> int:
        """How many of the last steps the attack beside the ceiling looks back at; 0 if none is tried."""
        return 0 if self._shadow is None else recent_step_count(self._settings.horizon)

    def note_recent(self, steps: Iterable[Decided]) -> None:
        """Give the attack beside the ceiling the last steps that a snapshot has applied, in order."""
        if self._shadow is not None:
            for step in steps:
                self._shadow.note(step.accounted)

    def _use(self, accounts: Accounts) -> None:
        """Use these accounts from now on."""
        if self._limit is not None and self._limit.in_hindsight and accounts.informed.has_told:
            raise RunChangedError(
                "people whose habits changed (persons load --new-priors told) must be accounted without a "
                "risk budget in hindsight",
                "one",
                "leave hindsight out, or load priors that are true of the whole log: --new-priors redone",
            )
        self.accounts = accounts
        before, self._shadow = self._shadow, new_shadow(self._given, accounts.informed)
        if self._shadow is not None and before is not None:
            self._shadow.take_over_log(before)
        if self._limit is not None:
            has_windows = bool(self._deployment.registry.windowed)
            self._what_if = WhatIf(accounts.informed, self._limit, accounts.deciding, has_windows=has_windows)
            self._respond()

    def _respond(self) -> None:
        """Answer questions about the next step, with the sensors that it has."""
        facts, step = self._deployment.facts, self.next_step
        if self._what_if is not None:
            registry, digest = facts.registries.at(step), facts.digest_at(step)
            self._respondent = Respondent(self.partition, self._what_if, registry, digest)

    def _new_accounts(self, people: People, first: int) -> Accounts:
        """The accounts of these people before step ``first``."""
        horizon = self._settings.starting_at(max(first, self._settings.first_step))
        names = people.population.people
        return Accounts.of(self._given, horizon, people.population, names, people.effective_from)


def _begun(entry: PersonEntry, since: Mapping[str, int]) -> PersonEntry:
    """A person's entry, in force no later than their first step so far."""
    return entry.begins_by(since.get(entry.pseudonym, entry.effective_from))


def _pieces(changes: MutableMapping[str, PersonEntry | None]) -> Iterator[list[PersonEntry]]:
    """Newcomers in the order of their pseudonyms, some at a time; they are removed from ``changes``."""
    names = sorted(name for name, entry in changes.items() if entry is not None)
    for first in range(0, len(names), PIECE_PEOPLE):
        taken = [changes.pop(name) for name in names[first : first + PIECE_PEOPLE]]
        yield [entry for entry in taken if entry is not None]


def _joined(parts: list[Accounts], on_progress: OnProgress) -> Accounts:
    """All of them as one, in this order.

    Joined in pairs, so that people are not copied once for each piece; the list is used up, to save memory.
    """
    while len(parts) > 1:
        pairs: list[Accounts] = []
        while parts:
            first = parts.pop(0)
            pairs.append(first.with_people(parts.pop(0)) if parts else first)
            on_progress()
        parts = pairs
    return parts[0]
