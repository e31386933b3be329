"""Mechanisms, bounds and attacks from outside: seen everywhere, believed only as far as they can be."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import tallyguard as tg
from accounting.attacks import ATTACKS, Seen, register_attack
from accounting.attacks.own_guess import own_attack
from accounting.bounds import ALL_BOUNDS, BOUNDS, Effort, Question, check_bound, register_bound
from accounting.bounds.conformance import _best_successes, _random_case
from accounting.bounds.protocol import Bound, Scope
from accounting.bounds.registry import own_bound
from accounting.exceptions import AttackAboveCeilingError
from models.mechanisms import MECHANISMS, BoundedNoise, check_mechanism, parse, register_mechanism
from models.registry import Registry
from stream_app.setup.release_settings import ReleaseSettings
from tests.accounting.enumeration import all_paths, optimum

ADA = tg.Prior.from_dense("ada", [[0.9, 0.1], [0.4, 0.6]])
RAW = tg.Schedule.raw([[1], [], [1]])
NOISED = tg.Schedule.gaussian([[1], [], [1]], sigma=1.0)


@dataclass(frozen=True)
class Triangle(BoundedNoise):
    """Noise on -width..width, likelier near 0."""

    width: float
    name = "triangle"

    def law(self) -> NDArray[np.float64]:
        far = np.abs(np.arange(-int(self.width), int(self.width) + 1))
        return np.asarray(self.width + 1.0 - far)


def pinsker(question: Question) -> float:
    """The guess and the root of half the information."""
    return min(1.0, question.guess.best + (question.information.best / 2.0) ** 0.5)


def wishful(question: Question) -> float:
    return 0.5 * pinsker(question)


def stays(seen: Seen) -> NDArray[np.int64]:
    """The likeliest place of the first step, all the time."""
    return np.full(len(seen.likelihood), int((seen.start * seen.likelihood[0]).argmax()))


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    yield
    for registry in (MECHANISMS, ALL_BOUNDS, ATTACKS):
        for name in list(registry.own):
            registry.remove(name)


@pytest.mark.parametrize("bound", [each for each in BOUNDS if each.is_certain], ids=lambda each: each.name)
def test_our_own_bounds_pass_the_public_check(bound) -> None:
    found = check_bound(bound.compute, name=bound.name, cases=20, effort=Effort(vectors=8))
    assert found.is_sound, str(found)


def test_the_best_adversary_of_the_check_is_that_of_the_tests() -> None:
    """Two programs that write everything down agree, zeros and noise included."""
    kinds = set()
    for case in map(_random_case, map(np.random.default_rng, range(40))):
        everything = all_paths(case.start, case.matrices, len(case.counted))
        channels = []
        for step in case.counted:
            channel = np.ones((case.start.size, 1))
            for where, mechanism in step:
                law = mechanism.noise_law()
                shown = np.stack([np.append(law.probabilities, 0.0)] * case.start.size)
                shown[list(where)] = np.insert(law.probabilities, 0, 0.0)
                shown = shown[:, shown.max(axis=0) > 1e-7]
                channel = (channel[:, :, None] * shown[:, None]).reshape(case.start.size, -1)
                kinds.add(mechanism.name)
            channels.append(channel)
        if np.prod([each.shape[1] for each in channels]) > 2_000:
            continue
        for mistakes, best in enumerate(_best_successes(case)):
            assert best == pytest.approx(optimum(everything, channels, mistakes), abs=1e-5)
    assert kinds == {"raw", "gaussian"}


def test_a_bound_below_the_best_adversary_is_told_where() -> None:
    """In words from which the case can be made again; a bound that answers nothing is not sound either."""
    found = check_bound(wishful, cases=5)
    assert not found.is_sound
    assert "the best adversary tells at least" in found.failures[0]
    assert "moves [[[" in found.failures[0]
    assert "and " in str(found).splitlines()[-1]
    assert check_bound(pinsker, cases=5).is_sound
    assert not check_bound(lambda question: None, cases=5).is_sound
    for wrong in (lambda question: 1.5, lambda question: float("nan"), lambda question: "high"):
        assert "no number in 0..1" in check_bound(wrong, cases=2).failures[0]
    assert "ZeroDivisionError" in check_bound(lambda question: 1 / 0, cases=2).failures[0]


def test_an_own_bound_is_shown_and_lowers_no_ceiling() -> None:
    """In the audit's bounds, its table, its columns and its picture; where it is wrong that is said."""
    before = tg.certify(ADA, NOISED, 0)[0]
    register_bound("wishful", wishful)
    register_bound("pinsker", pinsker)
    audits = tg.audit(ADA, NOISED, 0, draws=200)
    assert (audits[0].certified, audits[0].certified_by) == (before.certified, before.certified_by)
    assert audits.columns()["bound_wishful"][0] < before.baseline < audits.columns()["bound_pinsker"][0]
    assert list(audits[0].bounds.model_dump())[-2:] == ["wishful", "pinsker"]
    assert "The bound wishful lowers no ceiling, and is no bound" in audits.caption()
    assert "The bound pinsker lowers no ceiling" in repr(audits)
    assert audits.shown()["wishful"][0].endswith("!")
    assert not audits.shown()["pinsker"][0].endswith("!")
    pytest.importorskip("matplotlib").use("agg")
    texts = [each.get_text() for each in audits.plot().get_legend().get_texts()]
    assert {"wishful", "pinsker"} <= set(texts)
    assert tg.certify(ADA, NOISED, 0, question=tg.Question("q", {"a": ["1"]}))[0].bounds.wishful is None


def test_an_own_bound_counts_when_it_is_vouched_for_and_passes_the_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(tg.TallyguardError, match=r"must pass tallyguard\.check_bound.*got bound 'wishful'"):
        register_bound("wishful", wishful, is_vouched=True)
    assert "wishful" not in ALL_BOUNDS

    def trivial(question: Question) -> float:
        """Right where nothing moves, and nothing said elsewhere."""
        moves = question.exposure.moves
        return question.guess.best if not moves.size and not any(question.exposure.released) else 1.0

    register_bound("trivial", trivial, is_vouched=True)
    assert ALL_BOUNDS["trivial"].is_vouched
    silent = tg.audit(ADA, tg.Schedule.raw([[]]), 0, draws=0)[0]
    assert silent.certified == pytest.approx(silent.baseline)
    assert "vouched for by who registered it" in tg.certify(ADA, RAW, 0).caption()
    monkeypatch.setitem(ALL_BOUNDS._others, "lower", Bound("lower", "", Scope.ANY, "", lambda question: 0.65))
    assert tg.certify(ADA, NOISED, 0)[0].certified_by == "lower"


def test_a_vouched_bound_that_is_refuted_ends_the_audit() -> None:
    """It passed the small cases and is wrong on four places, which they do not have.

    The best adversary of exact counts refutes it where none is tried, and an attack where counts have noise.
    """

    def sly(question: Question) -> float:
        return 0.1 if question.exposure.place_count > 3 else 1.0

    register_bound("sly", sly, is_vouched=True)
    four = tg.Prior.from_dense("four", np.full((4, 4), 0.25))
    with pytest.raises(
        AttackAboveCeilingError, match=r"'sly', 0\.1.*the best adversary, written down.*check_b"
    ):
        tg.certify(four, tg.Schedule.raw([[0, 1, 2], []]), 0)
    with pytest.raises(AttackAboveCeilingError, match=r"'sly', 0\.1"):
        tg.audit(four, tg.Schedule.gaussian([[0, 1, 2], []], 0.3), 0, draws=500)


def test_an_own_attack_is_tried_by_us() -> None:
    """Its share of right guesses is near the exact one, and no better than the best there is."""
    register_attack("stays", stays)
    found = tg.attack(ADA, RAW, 0, draws=2_000)["ada"]
    stay = ADA_STAYS
    assert found["stays"].low <= stay <= found["stays"].high
    assert tg.audit(ADA, NOISED, 0, draws=300)[0].attacks["stays"].success <= 1.0
    assert (
        tg.attack(ADA, RAW, 0, draws=500)["ada"]["stays"] == tg.attack(ADA, RAW, 0, draws=500)["ada"]["stays"]
    )
    asked = tg.attack(ADA, RAW, 0, draws=200, question=tg.Question("q", {"a": ["1"]}))
    assert "stays" not in asked["ada"]
    for wrong in (lambda seen: [0], lambda seen: [0.5, 0.5, 0.5]):
        register_attack("stays", wrong)
        with pytest.raises(tg.TallyguardError, match="must guess one own place for each of 3 steps"):
            tg.attack(ADA, RAW, 0, draws=10)


ADA_STAYS = 0.8 * 0.9**2 + 0.2 * 0.6**2
"""Where the first place is seen, whoever guesses it throughout is right if she never moves."""


def test_an_own_mechanism_is_known_to_schedules_and_settings() -> None:
    """A law on a few integers is all that it takes; it is checked like any other."""
    check_mechanism(Triangle(3.0))
    with pytest.raises(tg.TallyguardError, match="must be one of raw, gaussian"):
        parse("triangle", {"width": 2.0})
    register_mechanism(Triangle)
    assert parse("triangle", {"width": 2}) == Triangle(2.0)
    with pytest.raises(tg.TallyguardError, match="did you mean 'width'"):
        parse("triangle", {"widht": 2.0})
    assert ReleaseSettings(mechanism="triangle", parameters={"width": 2.0}).mechanism == "triangle"
    found = tg.audit(ADA, tg.Schedule.of([[1], [], [1]], Triangle(3.0)), 0, draws=300)[0]
    assert found.baseline <= found.certified < tg.certify(ADA, RAW, 0)[0].certified
    assert tg.ledger(tg.Schedule.of([[1]], Triangle(3.0))).statement.epsilon == np.inf

    @dataclass(frozen=True)
    class Lopsided(Triangle):
        name = "lopsided"

        def law(self) -> NDArray[np.float64]:
            return np.array([0.1, 0.4, 0.5])

    with pytest.raises(tg.TallyguardError, match="the same for either sign"):
        check_mechanism(Lopsided(1.0))


@pytest.mark.parametrize(
    ("register", "arguments", "must"),
    [
        (
            register_bound,
            ("exact", pinsker),
            "must have a name of its own, got 'exact', which is one of loose",
        ),
        (register_bound, ("my bound", pinsker), "letters, digits and underscores"),
        (register_bound, ("mine", 0.5), "must be a function of a question, got a float"),
        (register_attack, ("map", stays), "must have a name of its own"),
        (register_attack, ("mine", None), "must be a function of what is seen"),
        (register_mechanism, (tg.Gaussian,), "must have a name of its own, got 'gaussian'"),
        (register_mechanism, (Triangle(1.0),), "must be a class with name"),
        (register_mechanism, (int,), "one without name, parameter_names, from_parameters"),
        (ALL_BOUNDS.remove, ("exact",), "must have been registered, got 'exact'; none is registered"),
    ],
)
def test_what_cannot_be_registered_is_refused_in_a_sentence(register, arguments, must: str) -> None:
    with pytest.raises(tg.TallyguardError, match=must):
        register(*arguments)


def test_an_installed_package_offers_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By entry points; nobody vouches for its bound by installing it, and a broken one says whose it is."""
    (tmp_path / "their_bounds.py").write_text("def half(question):\n    return 0.5\nnothing = 3\n")
    told = tmp_path / "their_package-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text(
        "[tallyguard.bounds]\nhalf = their_bounds:half\n[tallyguard.attacks]\nbroken = their_bounds:nothing\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    ours = {bound.name: bound for bound in BOUNDS}
    bounds = Registry("bound", ours, own_bound)
    assert list(bounds) == [*ours, "half"]
    assert len(bounds) == len(ours) + 1
    assert not bounds["half"].is_vouched
    with pytest.raises(tg.TallyguardError, match="attack 'broken' of their-package must be usable, got a"):
        list(Registry("attack", {}, own_attack))
    sys.modules.pop("their_bounds", None)
