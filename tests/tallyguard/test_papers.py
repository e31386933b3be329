"""The papers beside Koga's through the one door: the same figures as behind it, and the paper's own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import tallyguard as tg

ADA = tg.Prior.from_dense("ada", [[0.9, 0.1], [0.4, 0.6]])
BOB = tg.Prior.from_dense("bob", [[0.5, 0.5], [0.5, 0.5]])
NOISED = tg.Schedule.gaussian([[1], [], [1]], sigma=2.0)


def test_noise_is_designed_released_and_accounted() -> None:
    """The design keeps its trace and loses less than noise spread evenly; each step of it is a mechanism."""
    process = tg.GaussianProcess.at_steps(tg.RBF(2.0, variance=4.0), 5)
    found = {method: tg.design(process, 10.0, [2], method) for method in ("exact", "uniform")}
    losses = {
        name: tg.inferential_loss(process, each.covariance, [2]).epsilon for name, each in found.items()
    }
    assert losses["exact"] < losses["uniform"]
    assert all(np.trace(each.covariance) == pytest.approx(10.0) for each in found.values())
    assert tg.design(process.covariance(), 10.0, method="multiple-exact").covariance == pytest.approx(
        process.covariance() * 10.0 / 20.0
    )
    noise = tg.CorrelatedNoise.of_covariance(tg.design(process, 10.0, method="uniform").covariance)
    steps = tuple(
        tg.StepSchedule(t, (tg.SensorRelease(tg.Sensor("door", (1,)), tg.Correlated.of(noise, t)),))
        for t in range(5)
    )
    schedule = tg.Schedule(steps)
    asked = tg.SecretQuestion("door", (2,), process.kernel)
    assert tg.inferential_ledger(schedule, asked).loss_nats == pytest.approx(losses["uniform"], rel=1e-6)
    assert tg.prior_posterior_gap(1.0, 5.0, 0.05) == pytest.approx(1.0 + math.log(20.0) / 4.0)


def test_bayesian_leakages_add_up_where_the_theorem_holds_and_its_input_may_be_adaptive() -> None:
    """Randomised responses of a bit: 2 epsilon for two; the second may look at what the first said."""
    response = np.array([[0.75, 0.25], [0.25, 0.75]])
    one = tg.leakage([0.5, 0.5], [response]).epsilon
    assert one == pytest.approx(math.log(3.0))
    assert tg.leakage([0.5, 0.5], [response, response]).epsilon == pytest.approx(2.0 * one)
    silent = np.full((2, 2), 0.5)
    adaptive = np.stack([response, silent], axis=1)  # answers only after a 0
    both = tg.leakage([0.5, 0.5], [response, adaptive]).epsilon
    assert one < both <= tg.summed_leakage([one, one], tg.Declared(True, True, True)) + 1e-12
    alike = [[0.45, 0.05], [0.05, 0.45]]
    apart = [np.stack([response] * 2, axis=1), np.stack([response] * 2)]
    together = tg.leakage(alike, apart).epsilon
    assert together > max(tg.leakage(alike, [each]).epsilon for each in apart)
    with pytest.raises(tg.TallyguardError, match=r"must have independent tuples.*3\.203 together"):
        tg.summed_leakage([one, one], tg.Declared())
    with pytest.raises(tg.TallyguardError, match="disjoint sets of people"):
        tg.largest_leakage([one, one], tg.Declared(True, True, True))
    with pytest.raises(tg.TallyguardError, match="for each of the databases"):
        tg.leakage([0.5, 0.5], [np.full((3, 2), 0.5)])
    tiered = tg.Schedule.of([[1], [1]], tg.Tiered((("public", 0.5),)))
    assert tg.bayesian_ledger(tiered, tg.Declared(True)).epsilon == pytest.approx(1.0, abs=0.02)
    with pytest.raises(tg.TallyguardError, match="independent tuples"):
        tg.bayesian_ledger(tiered, tg.Declared())


def test_what_is_passed_on_is_laplace_at_the_level_of_each_hop() -> None:
    """Two hops and no look at the data; a level never rises."""
    level, draws = (2.0, 1.0, 0.5), 800
    start = stats.laplace(scale=1 / level[0]).ppf((np.arange(draws) + 0.5) / draws)
    far = []
    for number, noise in enumerate(start):
        seeds = [b"a secret of tests" + bytes([number % 256, number // 256, hop]) for hop in range(2)]
        near = tg.pass_on([10.0 + noise], level[0], level[1], seeds[0])
        far.append(float(tg.pass_on(near, level[1], level[2], seeds[1])[0]) - 10.0)
    assert stats.kstest(far, stats.laplace(scale=1 / level[2]).cdf).pvalue > 1e-3
    assert tg.pass_on([3.0], 1.0, 1.0, bytes(16)) == pytest.approx([3.0], abs=20.0)
    with pytest.raises(tg.TallyguardError, match="at a level in"):
        tg.pass_on([3.0], 1.0, 1.5, bytes(16))


def test_trust_may_go_one_way() -> None:
    """A directed ring: who is one hop back is two hops on; both ways it is one."""
    ring = {("a", "b"): 1.0, ("b", "c"): 1.0, ("c", "a"): 1.0}
    one_way = tg.TrustGraph(("a", "b", "c"), ring, is_directed=True)
    assert one_way.distances("a") == {"a": 0.0, "b": 1.0, "c": 2.0}
    assert tg.TrustGraph(("a", "b", "c"), ring).distances("a")["c"] == 1.0
    assert tg.TrustGraph(("a", "b"), {("a", "b"): 1.0}, is_directed=True).distances("b")["a"] == math.inf
    found = tg.assign_tiers(one_way.distances("a"), tg.reciprocal_level(1.0), [0.5, 1.0])
    assert found.tier_of == {"a": "tier-2", "b": "tier-2", "c": "tier-1"}
    with pytest.raises(tg.TallyguardError, match="a directed graph"):
        one_way.distances("a", "resistance")


def test_adversaries_stand_side_by_side() -> None:
    """Each is the audit against it alone; the paper's advantage is 0 for the guess and 1 for certainty."""
    crowd = tg.CrowdAdversary(known=1)
    people = [ADA, BOB, *(tg.Prior.from_dense(f"p{k}", [[0.5, 0.5]] * 2) for k in range(2))]
    found = tg.side_by_side(
        people, NOISED, {"informed": None, "crowd": tg.CrowdAdversary(), "insider": crowd}, mistakes=0
    )
    frame = found.to_pandas()
    assert list(frame) == ["person", "guess"] + [
        f"{what}_{who}" for who in ("informed", "crowd", "insider") for what in ("ceiling", "advantage")
    ]
    alone = tg.certify(people, NOISED, 0, adversary=crowd)
    assert frame["ceiling_insider"].tolist() == [each.certified for each in alone]
    assert found.of("insider")["bob"] == alone["bob"]
    assert (frame["ceiling_crowd"] <= frame["ceiling_informed"]).all()
    assert "insider: Chance in 100" in repr(found)
    assert found.to_polars()["guess"].to_list() == found.to_arrow()["guess"].to_pylist()
    assert [tg.advantage(each, 0.6) for each in (0.6, 0.8, 1.0)] == pytest.approx([0.0, 0.5, 1.0])
    assert tg.advantage(1.0, 1.0) == 0.0
    audits = tg.certify(ADA, NOISED, 0)
    assert audits.columns()["advantage"] == [tg.advantage(audits[0].certified, audits[0].baseline)]
    with pytest.raises(tg.TallyguardError, match="must be an adversary to compare"):
        tg.side_by_side(ADA, NOISED, {})


def test_a_ledger_has_a_second_opinion() -> None:
    """Google's accountants are not above our own zCDP; asking for them without the package is an error."""
    pytest.importorskip("dp_accounting")
    rows = tg.ledger(NOISED, 1e-6, oracle=True).to_pandas().set_index("accounting")["epsilon"]
    assert 0.0 < rows["dp_accounting, pld"] <= rows["dp_accounting, rdp"] <= rows["zcdp"] * (1.0 + 1e-3)
    assert "dp_accounting, pld" not in tg.ledger(NOISED).columns()["accounting"]


def test_tiers_of_real_values_and_counts_are_read_from_one_path() -> None:
    """The best tier's noise is Laplace, the same seed gives the same; a count passed on is geometric."""
    draws, seeds = 600, [b"a secret of tests" + bytes([n % 256, n // 256]) for n in range(600)]
    tiers = np.array([tg.real_tiers([5.0], (0.5, 2.0), each)[:, 0] - 5.0 for each in seeds])
    for column, level in enumerate((0.5, 2.0)):
        assert stats.kstest(tiers[:, column], stats.laplace(scale=1 / level).cdf).pvalue > 1e-3
    assert (tg.real_tiers([5.0, 1.0], (2.0,), seeds[0]) == tg.real_tiers([5.0, 1.0], (2.0,), seeds[0])).all()
    words = np.random.default_rng(5).integers(0, 2**64, (draws, 2), dtype=np.uint64)
    near = tg.Tiered((("near", 1.0),)).publish(np.full(draws, 40), words)
    far = [
        tg.pass_on_count({1.0: int(value)}, 0.5, each) - 40 for value, each in zip(near, seeds, strict=True)
    ]
    expected = np.exp(-0.5 * np.abs(np.arange(-8, 9)))
    expected *= np.tanh(0.25)
    inside = [far.count(each) for each in range(-8, 9)]
    observed = np.array([*inside, draws - sum(inside)])
    chances = np.array([*expected, 1.0 - expected.sum()])
    assert stats.chisquare(observed, draws * chances).pvalue > 1e-3
    assert tg.pass_on_count({1.0: 7}, 1.0, seeds[0]) == 7
    with pytest.raises(tg.TallyguardError, match="not be above those already out"):
        tg.pass_on_count({1.0: 7}, 2.0, seeds[0])
