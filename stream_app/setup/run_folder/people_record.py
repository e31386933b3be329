"""Whose priors a run accounts, since when, and what the operator said when that changed.

A run keeps a copy of all priors that its steps rest on: ``priors-<digest>.parquet`` in its folder, by
pseudonym, for the owner only, named in the record by that digest. With another file the run goes on from the
next step: people may come, leave, or have new priors. Past releases, decisions and risk lines stay as they
are; the accounts after that step follow from the whole log and the priors that hold now, so a start without a
snapshot gives the same bytes.

Worked example: 40 people until step 119. The file for step 120 on leaves 3 of them out, has 2 new people, of
whom one is said to be there from step 100 on, and other moves for 5 people. With the rule ``redone``:

    the 35 people whose priors stay   go on as if nothing had happened
    the 5 with new priors             are accounted again under them, from the first step of the log
    the new person of step 100        is accounted from step 100 on, the other from the first step of the log
    the 3 who are gone                are in no summary and no decision from step 120 on
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.hmm.propagation import law_at
from accounting.settings import HorizonSettings
from models.exceptions import TallyguardError
from models.prior_files import load_evidence, load_population, save_evidence, save_population
from models.priors import NOT_SAID, Evidence, Lists, Population, with_draws
from models.text import number_of
from stream_app.exceptions import OutputError, RunChangedError, restoring
from stream_app.setup.option_settings import NewPriors
from stream_app.setup.run_folder.durable import load_document
from stream_app.setup.run_folder.facts import Network
from stream_app.setup.run_folder.progress import log_lines
from stream_app.setup.run_folder.record import RECORD, Entry, held, periods, read_entries

PRIORS, KEPT, DRAWN = "priors", "people_kept", "drawn"
"""Facts of a record: digests of the file that was given and of the copy of what is accounted; the chains."""


AS_BEFORE = (
    "start the run once more with the priors it had, let it end or stop it (SIGTERM); then give it the others"
)

RULES: Mapping[NewPriors, str] = {
    NewPriors.REDONE: "the new priors are true of the whole log, and the earlier ones were a worse estimate "
    "of the same habits: everything released is accounted again under them",
    NewPriors.TOLD: "habits changed at this step: the earlier priors were true before it, the new ones are "
    "from it on, and an adversary is taken to know where everybody with new priors was then, so that their "
    "ceilings are 1 until the horizon begins at this step",
}


class Joining(NamedTuple):
    """What the operator says about a file with other people or priors than before.

    ``effective_from`` is the step from which people are there of whom the file does not say it.
    """

    effective_from: int | None = None
    new_priors: NewPriors | None = None
    is_accepted: bool = False
    reason: str | None = None


class PeopleChange(NamedTuple):
    """How many people came, left, got new priors, or turned out to be there from an earlier step on."""

    added: int = 0
    removed: int = 0
    renewed: int = 0
    earlier: int = 0
    rule: str | None = None

    def in_words(self) -> str:
        """For people, for example ``12 people added, 3 removed, 40 with new priors (redone)``."""
        rule = f" ({self.rule})" if self.rule else ""
        parts = [
            (self.added, "added", ""),
            (self.removed, "removed", ""),
            (self.renewed, "with new priors", rule),
            (self.earlier, "there from an earlier step on", ""),
        ]
        said = [f"{count:,} {what}{more}" for count, what, more in parts if count]
        if not said:
            return "the same people and moves in another order, or with other weights or names of locations"
        number, _, rest = said[0].partition(" ")
        noun = "person" if number == "1" else "people"
        return ", ".join([f"{number} {noun} {rest}", *said[1:]])


@dataclass(frozen=True)
class PeopleOfRun:
    """The people that are accounted from now on, and how that differs from before (None: not at all).

    ``hidden`` are they by pseudonym, as the run keeps them, ``people`` their ids; ``given`` is the digest of
    the file.
    """

    hidden: Population
    people: tuple[str, ...]
    given: str
    change: PeopleChange | None = None

    @property
    def population(self) -> Population:
        """They by their ids."""
        return self.hidden.renamed(self.people)

    def facts(self) -> dict[str, Any]:
        """What the record says of the priors that were given and of what is accounted."""
        return {PRIORS: self.given, KEPT: digest_of(self.hidden)}

    def about(self) -> dict[str, Any]:
        """The change in numbers, for the record."""
        return {} if self.change is None else {"people": self.change._asdict()}


def first_step(known: Mapping[str, int | None], person: str, stated: int | None) -> int:
    """The step from which a person is accounted: 0 is the first of the log.

    ``known`` is the first step of everybody who is or was there, None for people who were removed. Nobody is
    accounted from a later step than before, as the adversary remembers what was released since then. For
    people who come back the whole log counts, and so it does where nothing is ``stated``.
    """
    if person not in known:
        return stated or 0
    before = known[person]
    if before is None:
        return 0
    return before if stated is None else min(before, stated)


def people_from_now(
    folder: Path,
    given: Population,
    pseudonyms: Sequence[str],
    joining: Joining,
    clock: HorizonSettings,
    known_network: Network | None = None,
) -> PeopleOfRun:
    """The people of a run that starts, or goes on, with a ``given`` file; changes nothing in the folder.

    The folder names people by their ``pseudonyms`` (N,) only. ``clock`` has the slots of the priors, and
    ``known_network`` the places that the run has so far: other names of places, and more of them, are no
    change of the people.

    :class:`RunChangedError` where they are others than before and the operator has not accepted that, or not
    said what it means; :class:`OutputError` where the folder does not hold what is needed to tell.
    """
    versions = _versions(folder)
    published = sum(1 for _ in log_lines(folder / "releases.jsonl"))
    ids, digest = given.people, given.fingerprint
    at_places = given
    names = given.location_names
    if known_network is not None and known_network.places != names:
        at_places = replace(given, location_names=known_network.places)
    given = given.renamed(pseudonyms)
    if not versions or not published:
        since = _first_steps(given, {}, joining.effective_from)
        return PeopleOfRun(_with_first_steps(given, since), ids, digest)
    last = versions[-1]
    is_given_again = last[PRIORS] == at_places.fingerprint
    plain = replace(given, effective_from=None, location_names=at_places.location_names)
    if is_given_again and last.get(KEPT) in (None, digest_of(plain)):
        before = plain
    else:
        before = load_kept(folder, digest_in(last))
    since_before = _since(before)
    known: dict[str, int | None] = dict(zip(before.people, since_before.tolist(), strict=True))
    if not is_given_again:
        _note_former(folder, versions[:-1], given, known)
    since = _first_steps(given, known, joining.effective_from)
    there = {person: position for position, person in enumerate(before.people)}
    stays = np.array([there.get(person, -1) for person in given.people], dtype=np.int64)
    was_told = np.zeros(len(given), dtype=np.bool_)
    if before.told is not None:
        was_told[stays >= 0] = before.told[stays[stays >= 0]]
    since[was_told] = since_before[stays[was_told]]
    starts = {int(each): before.initial(int(stays[each])) for each in np.flatnonzero(was_told)}
    if is_given_again and not (since < since_before).any():
        return PeopleOfRun(with_told(_with_first_steps(given, since), starts), ids, digest)
    is_renewed = _renewed(before, given, stays)
    was = np.full(len(given), -1, dtype=np.int64)
    was[stays >= 0] = since_before[stays[stays >= 0]]
    gone = np.setdiff1d(np.arange(len(before)), stays)
    removed = int(before.people_each[gone].sum())
    change = change_of(given, was, since, is_renewed, removed, joining.new_priors)
    renamed = () if known_network is None else known_network.changes_to(replace(known_network, places=names))
    said = "; ".join([change.in_words(), *(each.words for each in renamed)])
    _check(folder, published, before, at_places, change, joining, said)
    since[was_told & is_renewed] = 0  # told once, and now under one prior: the whole log
    new = np.flatnonzero(is_renewed)
    for each in new.tolist():
        starts.pop(each, None)
    if joining.new_priors is NewPriors.TOLD:
        since[new] = published
        evidence = _kept_evidence(folder, last) if last.get(DRAWN) and new.size else None
        for each in new.tolist():
            old = before.subset([int(stays[each])])
            if evidence is not None:
                old = _with_chains(old, ids[each], evidence, last[DRAWN]["draws"])
            starts[each] = law_when_told(published, old, 0, given, each, clock)
    return PeopleOfRun(with_told(_with_first_steps(given, since), starts), ids, digest, change)


def is_kept(folder: Path, given: Population) -> bool:
    """Whether these are the people that a run has now as its own copy names them: by pseudonym."""
    return load_document(folder / "run.json").get(KEPT) == digest_of(given)


def as_accounted(folder: Path, given: Population | None = None) -> Population:
    """The people that a run has now, each from the step the run accounts them from: of the file, or its copy.

    :class:`OutputError` where there is no copy, and :class:`RunChangedError` where no figure of the whole log
    follows from it.
    """
    versions = _versions(folder)
    last = versions[-1] if versions else {PRIORS: ""}
    if given is not None and (KEPT not in last or not len(given)):
        return replace(given, effective_from=None)
    kept = load_kept(folder, digest_in(last))
    if kept.told is not None:
        raise RunChangedError(
            "figures of the whole log must rest on one prior a person",
            f"{number_of(int(kept.told.sum()), 'person')} whose habits changed (--new-priors told)",
            "see the run's own figures, in risks.jsonl and in the report; leave --priors out",
        )
    if given is not None:
        return _with_first_steps(given, _since(kept))
    if last.get(DRAWN):
        raise RunChangedError(
            "chains must be drawn by the ids of people, which the folder of a run does not hold",
            "a run with evidence, and no priors",
            "name the priors that the run had with --priors, and their evidence in the settings",
        )
    return kept


def digest_of(population: Population) -> str:
    """By which a kept copy is known: of all priors, and of the first steps where they differ from 0."""
    since, told = _since(population), population.told
    if not since.any() and told is None:
        return population.fingerprint
    said = since.tobytes() + (b"" if told is None else told.tobytes())
    return hashlib.sha256(population.fingerprint.encode() + said).hexdigest()


def digest_in(facts: Mapping[str, Any]) -> str:
    """The digest of the people that these facts of a record name."""
    return str(facts.get(KEPT) or facts[PRIORS])


def kept_file(folder: Path, digest: str) -> Path:
    """Where the copy with this digest is."""
    return folder / f"priors-{digest}.parquet"


def keep(folder: Path, population: Population) -> None:
    """Make the copy of these people durable, if it is not there."""
    path = kept_file(folder, digest_of(population))
    if not path.exists():
        save_population(replace(population, drawn=None), path)


def keep_evidence(folder: Path, people: PeopleOfRun, path: Path) -> None:
    """Make the evidence durable that people's chains are drawn from, by pseudonym, if it is not there.

    When habits change, it says with the earlier prior where these people may be.
    """
    population = people.population
    kept = folder / f"evidence-{population.chains_named}.parquet"
    if not kept.exists():
        evidence = load_evidence(path)
        rows = [evidence.of(population, number) for number in range(len(population))]
        start = np.concatenate(([0], np.cumsum([each.size for each in rows])))
        save_evidence(Evidence(people.hidden.people, Lists(start, np.concatenate(rows))), kept)


def _with_chains(one: Population, person: str, evidence: Evidence, draws: int) -> Population:
    """One of the kept people, with the chains that were drawn by this id."""
    rows = evidence.of(one, 0)
    own = Evidence((person,), Lists(np.array([0, rows.size]), rows))
    return with_draws(one.renamed([person]), own, draws)


def _kept_evidence(folder: Path, facts: Mapping[str, Any]) -> Evidence:
    """What the chains of these facts were drawn from; :class:`OutputError` where it is missing."""
    path = folder / f"evidence-{facts[DRAWN]['chains']}.parquet"
    if not path.is_file():
        raise OutputError(
            f"{folder} must hold a copy of the evidence that the run has accounted so far",
            *("none: it was lost, or the run is of a version that kept no copy", AS_BEFORE),
        )
    return load_evidence(path)


def load_kept(folder: Path, digest: str) -> Population:
    """The people of a kept copy; :class:`OutputError` where it is missing or is not as it was written."""
    path = kept_file(folder, digest)
    if not path.is_file():
        raise OutputError(
            f"{path.parent} must hold a copy of the priors that the run has accounted so far",
            "none: it was lost, or the run is of a version that kept no copy",
            AS_BEFORE,
        )
    population = load_population(path, kept=True)
    if digest_of(population) != digest:
        raise OutputError(f"{path} must be as it was written", "other priors", restoring(path.name))
    return population


def renewed_at(folder: Path, entries: Iterable[Entry], step: int) -> NDArray[np.int64]:
    """Positions of people there before a step of the record, of whom something else is known from it on.

    Another prior, weight or first step; of everybody where the folder cannot tell, or chains are drawn anew.
    """
    said = [(first, facts) for first, facts in held(entries) if first <= step and PRIORS in facts]
    now = load_kept(folder, digest_in(said[-1][1]))
    everybody = np.arange(len(now))
    earlier = [facts for first, facts in said if first < step]
    if not earlier or earlier[-1].get(DRAWN) != said[-1][1].get(DRAWN):
        return everybody
    try:
        before = load_kept(folder, digest_in(earlier[-1]))
    except OutputError:
        return everybody
    there = {person: position for position, person in enumerate(before.people)}
    stays = np.array([there.get(person, -1) for person in now.people], dtype=np.int64)
    known = np.flatnonzero(stays >= 0)
    is_other = _renewed(before, now, stays)
    for each in (_since, _weights):
        is_other[known] |= each(now)[known] != each(before)[stays[known]]
    return np.flatnonzero(is_other)


def missing_copies(folder: Path, entries: Iterable[Entry]) -> tuple[str, ...]:
    """Sentences about kept copies that are not there, or not as written, once a run has had two."""
    digests = dict.fromkeys(digest_in(each.facts) for each in entries if KEPT in each.facts)
    if len(digests) < 2:
        return ()
    faults = []
    for digest in digests:
        path = kept_file(folder, digest)
        try:
            load_kept(folder, digest)
        except TallyguardError:
            what = "was changed" if path.is_file() else "is missing"
            faults.append(f"the copy of the priors that held for some steps {what} ({path.name})")
    return tuple(faults)


def change_in_words(entry: Entry) -> str | None:
    """How the people of an entry differ from those before; None where they do not."""
    if not entry.about.get("people"):
        return None
    change = PeopleChange(**{key: entry.about["people"].get(key) for key in PeopleChange._fields})
    chains = entry.about.get("chains")
    said = f"{chains} chains for each person" if chains and change == PeopleChange() else change.in_words()
    return f"{said} from step {entry.step:,} on{_file_of(entry)}"


def priors_by_steps(entries: Sequence[Entry], steps: int) -> tuple[str, ...]:
    """Which priors held for which steps; nothing where they never changed."""
    if not any(entry.about.get("people") for entry in entries):
        return ()
    spans: list[tuple[int, int, Entry]] = []
    for first, until, entry in periods(entries, steps):
        if entry is None or PRIORS not in entry.facts:
            continue
        if spans and _are_same(spans[-1][2].facts, entry.facts):
            spans[-1] = (spans[-1][0], until, spans[-1][2])
        else:
            spans.append((first, until, entry))
    return tuple(
        f"steps {first:,} to {until - 1:,}: priors of {entry.facts['people']:,} people{_file_of(entry)}"
        for first, until, entry in spans
    )


def _are_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether the same people are accounted; entries of earlier versions name the file alone."""
    kept = {each[KEPT] for each in (one, other) if KEPT in each}
    return bool(one[PRIORS] == other[PRIORS]) and len(kept) < 2


def _file_of(entry: Entry) -> str:
    name = entry.about.get("priors_file")
    return f" ({name})" if name else ""


def _versions(folder: Path) -> list[Mapping[str, Any]]:
    """The facts that held one after the other, as far as the record or ``run.json`` says."""
    facts: list[Mapping[str, Any]] = [
        entry.facts for entry in read_entries(folder / RECORD) if entry.kind != "ended"
    ]
    if not facts and (folder / "run.json").is_file():
        facts = [load_document(folder / "run.json")]
    return [each for each in facts if PRIORS in each]


def _since(population: Population) -> NDArray[np.int64]:
    """The first step of each person, (N,), 0 where nothing is said."""
    if population.effective_from is None:
        return np.zeros(len(population), dtype=np.int64)
    return np.maximum(population.effective_from, 0)


def _weights(population: Population) -> NDArray[np.float64]:
    """How many people live like each prior, (N,)."""
    return np.ones(len(population)) if population.weights is None else population.weights


def _with_first_steps(population: Population, since: NDArray[np.int64]) -> Population:
    return replace(population, effective_from=since if since.any() else None)


def _first_steps(
    given: Population, known: Mapping[str, int | None], otherwise: int | None
) -> NDArray[np.int64]:
    """From which step on each person of a file is accounted, (N,)."""
    said = np.full(len(given), NOT_SAID) if given.effective_from is None else given.effective_from
    return np.array(
        [
            first_step(known, person, otherwise if step == NOT_SAID else step)
            for person, step in zip(given.people, said.tolist(), strict=True)
        ],
        dtype=np.int64,
    )


def _note_former(
    folder: Path, versions: Sequence[Mapping[str, Any]], given: Population, known: dict[str, int | None]
) -> None:
    """Enter as removed whoever was in an earlier file, and not in the last one."""
    if known.keys() >= set(given.people):
        return
    for digest in dict.fromkeys(digest_in(facts) for facts in versions):
        for person in load_kept(folder, digest).people:
            known.setdefault(person, None)


def change_of(
    given: Population,
    was: NDArray[np.int64],
    since: NDArray[np.int64],
    is_renewed: NDArray[np.bool_],
    removed: int,
    rule: NewPriors | None,
) -> PeopleChange:
    """How the people of a file differ from those before.

    Each was accounted from the step ``was`` (N,) on, -1 for nobody known, and is now from ``since`` (N,).
    """

    def count(chosen: NDArray[np.bool_]) -> int:
        return int(given.people_each[chosen].sum())

    renewed = count(is_renewed)
    said = rule.value if rule is not None and renewed else None
    return PeopleChange(count(was < 0), removed, renewed, count((was >= 0) & (since < was)), said)


def _renewed(before: Population, given: Population, stays: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whose moves, places or start are not those they had, number by number, (N,).

    People who were told start from the law of that step, whatever their file says.
    """
    new = np.flatnonzero(stays >= 0)
    was, now = before.subset(stays[new]), given.subset(new)
    if was.told is not None:
        sizes = np.diff(was.arrays.places_start) == np.diff(now.arrays.places_start)
        now = with_told(now, {int(each): was.initial(int(each)) for each in np.flatnonzero(was.told & sizes)})
    found = np.zeros(len(given), dtype=np.bool_)
    found[new] = _differ(was, now)
    return found


def law_when_told(
    step: int, before: Population, old: int, given: Population, new: int, clock: HorizonSettings
) -> NDArray[np.float64]:
    """Where a person is at a step by the prior they had, over the places of the new one, (K,).

    Of several chains that the person could have had it is the mean: whichever it was, nothing of it is left
    in how the person moves from then on, once the place is told.
    """
    chain = before.chain(old)
    begin = int(_since(before)[old])
    laws = [
        law_at(
            *(before.accounted.chain(each), before.accounted.initial(each), begin, step),
            *(clock.first_slot, clock.calendar),
        )
        for each in before.chains_of(np.array([old])).tolist()
    ]
    law = np.stack(laws).sum(axis=0) / len(laws)
    places = given.chain(new).places
    if np.unique(chain.places).size < chain.places.size or np.unique(places).size < places.size:
        raise RunChangedError(
            "priors that change while a deployment lives must have one state for each place",
            f"states of {given.people[new]!r} that share a place",
            "give such priors from the beginning",
        )
    found = np.zeros(places.size)
    at = np.searchsorted(places, chain.places)
    is_there = (at < places.size) & (places[np.minimum(at, places.size - 1)] == chain.places)
    if law[~is_there].any():
        raise RunChangedError(
            "new priors must have every place where a person can be at the step from which they hold",
            f"{given.people[new]!r} without place {int(chain.places[~is_there & (law > 0.0)][0])}",
            "add the place, with the moves from it",
        )
    found[at[is_there]] = law[is_there]
    return np.asarray(found / found.sum())


def with_told(population: Population, starts: Mapping[int, NDArray[np.float64] | None]) -> Population:
    """The people with another start for those at these positions, whose place there is told."""
    if not starts:
        return population
    begun, drawn = _begun(population, starts), population.drawn
    if drawn is not None:
        of_chains = {
            chain: begun.initial(person)
            for person in starts
            for chain in population.chains_of(np.array([person])).tolist()
        }
        drawn = _begun(drawn, of_chains)
    told = np.zeros(len(population), dtype=np.bool_) if population.told is None else population.told.copy()
    told[list(starts)] = True
    return replace(begun, drawn=drawn, told=told)


def _begun(population: Population, starts: Mapping[int, NDArray[np.float64] | None]) -> Population:
    """The same with another start of those at these positions."""
    arrays = population.arrays
    own = [
        starts[person] if person in starts else population.initial(person)
        for person in range(len(population))
    ]
    laws = [np.empty(0) if law is None else law for law in own]
    offsets = np.concatenate(([0], np.cumsum([law.size for law in laws]))).astype(np.int64)
    packed = Population.from_moves(
        population.people,
        Lists(arrays.places_start, arrays.places),
        population.moves(),
        slots=arrays.slots,
        initial=Lists(offsets, np.concatenate(laws)),
        location_names=population.location_names,
    )
    asked = packed.arrays._replace(label_start=arrays.label_start, label=arrays.label)
    return replace(population, arrays=asked)


def _differ(before: Population, now: Population) -> NDArray[np.bool_]:
    """Whose moves, places or start are not the same number by number, (N,), of the same people."""
    count = len(now)
    names = [f"{number}" for number in range(2 * count)]
    both = Population.concatenate(
        [
            replace(
                each.unweighted, drawn=None, effective_from=None, told=None, location_names=now.location_names
            ).renamed(some)
            for each, some in ((before, names[:count]), (now, names[count:]))
        ]
    )
    first = both.alike
    return np.asarray(first[:count] != first[count:])


def require_said(change: PeopleChange, joining: Joining, said: str | None = None) -> None:
    """:class:`RunChangedError` where it is not said what new priors mean, or why people change."""
    if change.renewed and joining.new_priors is None:
        rules = "; ".join(f"--new-priors {rule.value} says that {said}" for rule, said in RULES.items())
        raise RunChangedError(
            "what new priors say about the steps before them must be said, as no choice holds in every case",
            said or change.in_words(),
            f"{rules}",
        )
    if joining.reason is None:
        raise RunChangedError(
            "a change that may weaken what was promised must have a reason",
            f"no reason; {said or change.in_words()}",
            'give one: --reason "why this is acceptable". It is kept in the record, with your name',
        )


def _check(
    folder: Path,
    published: int,
    before: Population,
    given: Population,
    change: PeopleChange,
    joining: Joining,
    said: str,
) -> None:
    """Refuse a change that is not accepted, not explained, or that cannot be accounted.

    ``said`` is the change in words, with that of places.
    """
    must = f"{folder} must go on with the people and priors it accounts"
    if not joining.is_accepted:
        raise RunChangedError(
            must,
            said,
            f"give the file it had, or accept the other one from step {published:,} on with --accept-changes "
            "and --reason TEXT",
        )
    require_said(change, joining, said)
    if (len(before) == 0) != (len(given) == 0):
        raise RunChangedError(
            f"{folder} must have people from its first step to its last, or none",
            change.in_words(),
            "give a file with at least one of them, or none at all, as before",
        )
    names = before.location_names
    if given.location_names[: len(names)] != names:
        raise RunChangedError(
            "the locations of a priors file must begin with those that the run has, in their order",
            "others",
            "put new locations at the end",
        )
