"""The people of one partition and their accountant: the state of an account worker, without a broker.

The accounts are a pure function of the records of people and of the decisions applied.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import AccountPositions, Cells, pack_state, unpack_state
from accounting.exceptions import SnapshotError
from models.priors import Lists, Population, PopulationArrays, draw_name
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.records import DIGEST_BYTES, People, PersonEntry, RefusedPerson, people_of
from stream_app.setup.combinations import Runner, refuse
from stream_app.setup.option_settings import NewPriors
from stream_app.steps import Accounts, PeopleAccounts
from stream_app.steps.policy import Decided
from stream_app.steps.policy.proposals import Answer, CrowdAnswer, CrowdQuestion, Proposal, Respondent

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


class _Said(NamedTuple):
    """What is kept of a person's record: its digest, and what the prior rests on if it was not measured."""

    digest: bytes
    assumed: str | None


class Newcomers:
    """People who will enter the accounts once they are accounted up to the same step."""

    def __init__(
        self,
        accounts: Accounts | None,
        refused: tuple[RefusedPerson, ...],
        changed: Mapping[str, _Said | None],
        until: int,
    ) -> None:
        self.accounts = accounts
        """The accounts of all of them; None if there is nobody."""
        self.refused = refused
        """Records that are no prior."""
        self.changed = changed
        """All people who come, change or leave (None)."""
        self.next_step = until if accounts is None else accounts.informed.next_step
        """The first logged step that counts for any of them; they enter before step ``until``."""

    def apply(self, steps: Iterable[Decided], on_progress: OnProgress) -> None:
        """Account some logged steps, in order."""
        for step in steps:
            if self.accounts is not None:
                self.accounts.apply(step.accounted, step.crowds)
            on_progress()


class PartitionAccounts(PeopleAccounts):
    """The people of one partition, accounted up to ``next_step``, who come, change and leave."""

    def __init__(self, partition: int, deployment: Deployment) -> None:
        self._deployment, self._names = deployment, deployment.location_names
        self._respondent: Respondent | None = None
        self._said: dict[str, _Said] = {}  # by the records of the people, by pseudonym
        self._first_step = deployment.horizon().first_step
        settings = deployment.settings
        nobody = people_of([], self._names)
        super().__init__(
            settings,
            self._new_accounts(nobody, self._first_step),
            has_windows=bool(deployment.registry.windowed),
            partition=partition,
            most_exposed=settings.most_exposed or 0,
        )

    @property
    def assumed(self) -> str | None:
        """What the habits of people who were not measured rest on; None if all were measured."""
        return self._assumed

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
        own = crowd.others.ask_ahead(question.schedules(registry))  # who asks adds the strangers, once
        return CrowdAnswer.of(question, self.partition, own)

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
        changed = {
            name: None if entry is None else _Said(entry.digest, entry.assumed)
            for name, entry in changes.items()
        }
        for piece in _pieces(changes):
            begun = (each.begins_by(since.get(each.pseudonym, each.effective_from)) for each in piece)
            some = people_of(begun, self._names)
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
            self._said.pop(name, None)
            if (said := newcomers.changed[name]) is not None:
                self._said[name] = said
        known = self.accounts
        staying = [i for i, name in enumerate(self.pseudonyms) if name not in gone]
        if len(staying) < len(self.pseudonyms):
            known = known.of_people(np.array(staying, dtype=np.int64))
        came, newcomers.accounts = newcomers.accounts, None
        replaced = gone.intersection(self.pseudonyms)
        joined = known if came is None else known.with_people(came)
        is_replaced = [name in replaced for name in joined.informed.people]
        joined.reveal_next(np.flatnonzero(is_replaced))
        self.use(joined)
        on_progress()

    def save(self) -> SavedAccounts:
        """The contents of a snapshot."""
        accountant, holders = self.accountant, self.accountant.holders
        since = accountant.view().accounts.since[:: accountant.population.draws]
        said = [self._said[name] for name in accountant.people]
        assumed = {name: each.assumed for name, each in self._said.items() if each.assumed is not None}
        people = SavedPeople(
            *(accountant.population, since, accountant.people, holders.cells, assumed),
            records=[each.digest for each in said],
        )
        return SavedAccounts(self.next_step, people, self.accounts.snapshot())

    def take_over(self, saved: SavedAccounts, on_progress: OnProgress = lambda: None) -> None:
        """Continue from a snapshot, before anybody was entered; a :class:`SnapshotError` changes nothing.

        The attack beside the ceiling lacks the steps before it: see :attr:`first_to_restore`.
        """
        population, since, first = saved.people.population, saved.people.since, self._first_step
        parts = [self._new_accounts(people_of([], self._names), first)]
        for start in range(0, len(population), PIECE_PEOPLE):
            some = range(start, min(start + PIECE_PEOPLE, len(population)))
            parts.append(self._new_accounts(People(population.subset(some), since[some]), first))
            on_progress()
        accounts = _joined(parts, on_progress).held_by(self.settings, saved.people.names, saved.people.cells)
        accounts.restore(saved.state)
        if accounts.next_step != saved.next_step:
            raise SnapshotError(
                f"a snapshot's accounts must expect step {saved.next_step}",
                accounts.next_step,
                "account every step again",
            )
        names, assumed = saved.people.names, saved.people.assumed
        self._said = {
            name: _Said(digest, assumed.get(name))
            for name, digest in zip(names, saved.people.records, strict=True)
        }
        self.use(accounts)

    def use(self, accounts: Accounts) -> None:
        """Use these accounts from now on."""
        if accounts.informed.has_told:
            refuse(Runner.ACCOUNT, self.settings, new_priors=NewPriors.TOLD)
        super().use(accounts)
        named = (each.assumed for each in self._said.values() if each.assumed is not None)
        self._assumed = min(named, default=None)
        self._respond()

    def _respond(self) -> None:
        """Answer questions about the next step, with the sensors that it has."""
        facts, step = self._deployment.facts, self.next_step
        if self.what_if is not None:
            registry, digest = facts.registries.at(step), facts.digest_at(step)
            self._respondent = Respondent(self.partition, self.what_if, registry, digest)

    def _new_accounts(self, people: People, first: int) -> Accounts:
        """The accounts of these people before step ``first``."""
        horizon = self._deployment.horizon().starting_at(max(first, self._first_step))
        names = people.population.people
        return Accounts.of(
            self._deployment.settings, horizon, people.population, names, people.effective_from
        )


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
